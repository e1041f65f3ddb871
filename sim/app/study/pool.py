"""Pools: run many jobs in worker processes of this machine or on a Dask cluster.

All that runs have in common before their first draw is done once. A worker is a fork of this
process, which has imported the program, if this process has one thread; else a fork of a server
that imports it once; where no process can be forked, a new one, which imports it again. A worker
does not run jobs: it forks a performer, which runs one after the other until the garbage of
finished clusters makes it worth replacing: to end a process is faster than to free its memory.

Holds: a process that crashes fails only the seed that it ran, with an error in its outcome, and is
replaced; if the iterator is closed early, or this process ends in any way, every worker and
performer ends at once; at most as many jobs are under way as there are workers.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from multiprocessing import get_all_start_methods, get_context, parent_process
from multiprocessing.connection import Connection, wait
from threading import Thread, current_thread, main_thread
from types import ModuleType
from typing import Any, NoReturn
from weakref import finalize

from sim.app.process.garbage import no_collection
from sim.app.process.interrupts import ENDS
from sim.app.study.dask_pool import checked, connect, performed
from sim.app.study.outcome import Job, Outcome, perform, perform_among_others
from sim.errors import InputError

Pool = Callable[[Iterable[Job]], Iterator[Outcome]]
# Forking a process that has imported the program takes some 20 ms; spawning a new one takes 700 ms.
FORKS = "forkserver" in get_all_start_methods()
WORKER_MIB = 192  # growth of its memory after which a performer is replaced
SPENT = 3  # exit status of such a performer


def cores() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _start_method() -> str:
    """How a worker starts. A fork of a process with several threads may wait for ever for a lock
    that another of them holds; only Linux lets all libraries live on in a fork.
    """
    if not FORKS:
        return "spawn"
    # Each thread of Python has a frame, also one that `threading` does not know.
    return "fork" if sys.platform == "linux" and len(sys._current_frames()) == 1 else "forkserver"


class Worker:
    """A process at the other end of a pipe, and its job.

    most_mib: growth of memory after which its performer is replaced
    """

    def __init__(self, most_mib: int = WORKER_MIB) -> None:
        method = _start_method()
        context: Any = get_context(method)
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, most_mib), daemon=True)
        if method == "forkserver":
            context.set_forkserver_preload([__name__])
            with _uninterrupted():
                import_module("multiprocessing.forkserver").ensure_running()
        self.job: Job | None = None
        self.crashed = False
        try:
            with _uninterrupted() if method == "spawn" else _deferring_interrupts(), _without_main():
                self.process.start()
        except BaseException:
            if self.process.pid is not None:
                self.end()
            raise
        theirs.close()

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
            found = self.pipe.recv()
        # A reset if the crashed process has not read its job.
        except (EOFError, ConnectionResetError):
            self.process.join()
            self.crashed = True
            return job.answer(job.key, job.seed, error=f"its process ended by {_end(self.process.exitcode)}")
        assert isinstance(found, Outcome)
        return found

    def end(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Processes that start within the block ignore interrupts from their first instruction on,
    because the parent handles them; only the main thread can arrange that.
    """
    if current_thread() is not main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _deferring_interrupts() -> Iterator[None]:
    """Block interrupts to the end of the block: a forked process ignores them before it lets them
    through, and this process must not lose one.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, *ENDS))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


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
    """The main function of a worker, until its pipe is closed. It ignores signals that a terminal
    or service manager sends to all processes: the parent keeps the finished outcomes and then ends
    its workers.  If its performer crashes, it ends likewise.
    """
    for number in (signal.SIGINT, *ENDS):
        signal.signal(number, signal.SIG_IGN)
    parent = parent_process()
    assert parent is not None
    if not FORKS:
        _end_with(parent.sentinel)
        _perform_jobs(pipe, perform_among_others, lambda: False)
        return
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, *ENDS))
    alive, held = os.pipe()  # the first is readable when this process has ended
    code = SPENT
    while code == SPENT:
        performer = os.fork()
        if not performer:
            os.close(held)
            _perform_and_exit(pipe, most_mib, parent.sentinel, alive)
        code = os.waitstatus_to_exitcode(os.waitpid(performer, 0)[1])
    if code < 0:
        with suppress(OSError):  # SIGKILL has no other meaning
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _perform_and_exit(pipe: Connection, most_mib: int, *sentinels: int) -> NoReturn:
    """The life of a performer."""
    code = 1
    try:
        _end_with(*sentinels)
        most = _peak_mib() + most_mib
        with no_collection():
            code = SPENT if _perform_jobs(pipe, perform, lambda: _peak_mib() > most) else 0
    finally:
        os._exit(code)


def _perform_jobs(pipe: Connection, how: Callable[[Job], Outcome], is_spent: Callable[[], bool]) -> bool:
    """Run one job after the other: True if this process is spent, False if the parent has ended."""
    try:
        while True:
            pipe.send(how(pipe.recv()))
            if is_spent():
                return True
    except (EOFError, ConnectionError):
        return False


def _end_with(*sentinels: int) -> None:
    """End this process when one of the others ends, because a job may take minutes."""

    def end() -> None:
        wait(sentinels)
        os._exit(1)

    Thread(target=end, daemon=True).start()


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
    """Run jobs in `count` processes of this machine; each is replaced when it has grown by
    `most_mib` of memory.
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
                        if worker.crashed:
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
        return lambda jobs: performed(checked(cluster), cluster.scheduler.address, jobs)
    client = connect(cluster)

    def run(jobs: Iterable[Job]) -> Iterator[Outcome]:
        return performed(client, cluster, jobs)

    finalize(run, client.close)  # a hunt uses its pool many times
    return run
