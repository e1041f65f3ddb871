"""Pools: run many jobs in worker processes of this machine or on a Dask cluster.

A worker is a process that runs one job after the other until the garbage of finished clusters makes
it worth replacing: to end a process is faster than to free its memory.

Holds: a process that crashes fails only the seed that it ran, with an error in its outcome, and is
replaced; if the iterator is closed early, or this process ends in any way, every worker ends at
once; at most as many jobs are under way as there are workers.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from importlib import import_module
from multiprocessing import get_all_start_methods, get_context, parent_process
from multiprocessing.connection import Connection, wait
from threading import Thread, current_thread, main_thread
from types import ModuleType
from typing import Any

from sim.app.process.garbage import no_collection
from sim.app.process.interrupts import ENDS
from sim.app.study.dask_pool import checked, connect, performed
from sim.app.study.outcome import Job, Outcome, perform, perform_among_others
from sim.errors import InputError

Pool = Callable[[Iterable[Job]], Iterator[Outcome]]
# Forking a process that has imported the program takes some 20 ms; spawning a new one takes 700 ms.
FORKS = "forkserver" in get_all_start_methods()
WORKER_MIB = 256  # peak memory after which a forked worker is replaced


def cores() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Worker:
    """A process at the other end of a pipe, and its job.  most_mib: memory after which the process
    is `spent`.
    """

    def __init__(self, most_mib: int = WORKER_MIB) -> None:
        context: Any = get_context("forkserver" if FORKS else "spawn")
        context.set_forkserver_preload([__name__])  # has no effect on spawned processes
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, most_mib), daemon=True)
        if FORKS:
            with _uninterrupted():
                import_module("multiprocessing.forkserver").ensure_running()
            with _deferring_interrupts(), _without_main():
                self.process.start()
        else:
            with _uninterrupted(), _without_main():
                self.process.start()
        theirs.close()
        self.job: Job | None = None
        self.spent = False  # it has crashed, or is worth replacing

    def give(self, job: Job) -> None:
        """Send a job to the process."""
        self.job = job
        # A crash of an idle process is reported by `take`.
        with suppress(BrokenPipeError, ConnectionResetError):
            self.pipe.send(job)

    def take(self) -> Outcome:
        """Receive the outcome from the pipe, which must be ready."""
        job, self.job = self.job, None
        assert job is not None
        try:
            found, self.spent = self.pipe.recv()
        # A reset if the crashed process has not read its job.
        except (EOFError, ConnectionResetError):
            self.process.join()
            self.spent = True
            return Outcome(job.key, job.seed, error=f"its process ended by {_end(self.process.exitcode)}")
        assert isinstance(found, Outcome)
        return found

    def end(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


@contextmanager
def _interrupts(handler: Any) -> Iterator[None]:
    """Handle interrupts by `handler` within the block, if this is the main thread."""
    if current_thread() is not main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _uninterrupted() -> AbstractContextManager[None]:
    """Processes that start within the block ignore interrupts from their first instruction on,
    because the parent handles them.
    """
    return _interrupts(signal.SIG_IGN)


@contextmanager
def _deferring_interrupts() -> Iterator[None]:
    """Defer interrupts to the end of the block: a forked process has its own handling, and this
    process must not lose an interrupt.
    """
    deferred: list[int] = []
    with _interrupts(lambda number, _: deferred.append(number)):
        yield
    if deferred:
        signal.raise_signal(signal.SIGINT)


@contextmanager
def _without_main() -> Iterator[None]:
    """Processes that start within the block do not import the main program, which they do not need:
    a script without `if __name__ == "__main__"` would start its study in each of them again.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _work(pipe: Connection, most_mib: int) -> None:
    """The main loop of a worker process, until its pipe is closed. It ignores signals that a
    terminal or service manager sends to all processes: the parent keeps the finished outcomes and
    then ends its workers.
    """
    for number in (signal.SIGINT, *ENDS):
        signal.signal(number, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()
    with no_collection() if FORKS else nullcontext():
        while True:
            try:
                job = pipe.recv()
                if FORKS:
                    pipe.send((perform(job), _peak_mib() > most_mib))
                else:
                    pipe.send((perform_among_others(job), False))
            except (EOFError, ConnectionError):  # the parent has ended
                return


def _end_with_parent() -> None:
    """End this process when the parent ends, because a job may take minutes."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _peak_mib() -> float:
    """The peak memory of this process."""
    resource = import_module("resource")  # exists on systems that can fork
    peak: int = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def _end(code: int | None) -> str:
    return signal.Signals(-code).name if code is not None and code < 0 else f"exit status {code}"


def _started(most_mib: int, running: int) -> Worker:
    """Start a worker in addition to `running` ones.  Raises InputError if the system refuses it."""
    try:
        return Worker(most_mib)
    except (OSError, EOFError) as error:  # EOFError if the fork server failed to start it
        problem = f"no process more can be started beside {running}"
        why = error.strerror if isinstance(error, OSError) else ""
        raise InputError(f"{problem}: {why}" if why else problem, "--jobs", "give fewer") from None


def processes(count: int, most_mib: int = WORKER_MIB) -> Pool:
    """Run jobs in `count` processes of this machine; each is replaced when it has used `most_mib`
    of memory.
    """

    def run(jobs: Iterable[Job]) -> Iterator[Outcome]:
        left = iter(jobs)
        crew: list[Worker] = []
        try:
            for job in left:
                crew.append(_started(most_mib, len(crew)))
                crew[-1].give(job)
                if len(crew) == count:
                    break
            while any(worker.job for worker in crew):
                ready = wait([worker.pipe for worker in crew if worker.job])
                for index, worker in enumerate(crew):
                    if worker.pipe not in ready:
                        continue
                    found = worker.take()
                    following = next(left, None)
                    if following is not None:
                        if worker.spent:
                            worker.end()
                            worker = crew[index] = _started(most_mib, count)
                        worker.give(following)
                    yield found
        finally:
            for worker in crew:
                worker.end()

    return run


def dask(cluster: Any) -> Pool:
    """Run jobs on a Dask cluster with workers that have this program.

    cluster: the address of its scheduler, or a client, which stays open
    Raises InputError if there is no such cluster.
    """
    if not isinstance(cluster, str):
        return lambda jobs: performed(checked(cluster), cluster.scheduler.address, jobs, closes=False)
    client = connect(cluster)
    return lambda jobs: performed(client, cluster, jobs)
