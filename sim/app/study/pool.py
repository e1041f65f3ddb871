"""Many jobs to outcomes, as they end: in worker processes here, or on a Dask cluster.

A worker is a process that performs one job after the other, until what ended clusters have left in
its memory is worth another process: to end is quicker than to free it.

Holds: a process that dies costs the seed it ran, whose outcome says so, and is replaced; leaving
the iterator early ends every worker at once, and so does the end of this process, however it comes;
at most as many jobs are under way as there are workers.
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
from typing import Any

from sim.app.cluster import no_collection
from sim.app.interrupts import ENDS
from sim.app.study.dask_pool import connect, performed
from sim.app.study.outcome import Job, Outcome, perform, perform_among_others
from sim.errors import InputError

Pool = Callable[[Iterable[Job]], Iterator[Outcome]]
# Where a process that has imported the program can be forked, one more is had for some 20 ms; a
# spawned one takes 700.
FORKS = "forkserver" in get_all_start_methods()
WORKER_MIB = 256  # of memory at the peak, after which a forked worker is replaced


def cores() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Worker:
    """A process at the other end of a pipe, and the job it has.  most_mib: of memory, after which
    it is `spent`.
    """

    def __init__(self, most_mib: int = WORKER_MIB) -> None:
        context: Any = get_context("forkserver" if FORKS else "spawn")
        context.set_forkserver_preload([__name__])  # what is spawned takes no notice
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, most_mib), daemon=True)
        if FORKS:
            with _uninterrupted():
                import_module("multiprocessing.forkserver").ensure_running()
            with _put_off():
                self.process.start()
        else:
            with _uninterrupted():
                self.process.start()
        theirs.close()
        self.job: Job | None = None
        self.spent = False  # it is dead, or worth replacing

    def give(self, job: Job) -> None:
        self.job = job
        with suppress(BrokenPipeError, ConnectionResetError):  # it died as it waited: `take` tells
            self.pipe.send(job)

    def take(self) -> Outcome:
        """The outcome that the pipe is ready with."""
        job, self.job = self.job, None
        assert job is not None
        try:
            found, self.spent = self.pipe.recv()
        except (EOFError, ConnectionResetError):  # a reset: the dead left its job unread
            self.process.join()
            self.spent = True
            return Outcome(job.key, job.seed, error=f"its process ended by {_end(self.process.exitcode)}")
        assert isinstance(found, Outcome)
        return found

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


@contextmanager
def _interrupts(handler: Any) -> Iterator[None]:
    """Interrupts are answered so meanwhile, as far as this thread may say: the main one alone may."""
    if current_thread() is not main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _uninterrupted() -> AbstractContextManager[None]:
    """Processes started here ignore interrupts, which are the parent's to answer, from their first
    instruction on.
    """
    return _interrupts(signal.SIG_IGN)


@contextmanager
def _put_off() -> Iterator[None]:
    """An interrupt meanwhile comes afterwards: what is forked has its own way with it, and this
    process is to hear of it.
    """
    heard: list[int] = []
    with _interrupts(lambda number, _: heard.append(number)):
        yield
    if heard:
        signal.raise_signal(signal.SIGINT)


def _work(pipe: Connection, most_mib: int) -> None:
    """What a worker process does until its pipe is closed.  What asks all processes of a terminal
    or a service to end is the parent's to answer, which keeps what is done and then ends its
    workers.
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
            except (EOFError, ConnectionError):  # nobody is left to work for
                return


def _end_with_parent() -> None:
    """A job may take minutes, which nobody waits for any more."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _peak_mib() -> float:
    """The most memory that this process has had."""
    resource = import_module("resource")  # of systems that fork
    peak: int = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def _end(code: int | None) -> str:
    return signal.Signals(-code).name if code is not None and code < 0 else f"exit status {code}"


def _started(most_mib: int, running: int) -> Worker:
    """One more worker, beside so many.  Raises InputError where the system has no room for it."""
    try:
        return Worker(most_mib)
    except (OSError, EOFError) as error:  # the second: of the process that forks, if it could not
        problem = f"no process more can be started beside {running}"
        why = error.strerror if isinstance(error, OSError) else ""
        raise InputError(f"{problem}: {why}" if why else problem, "--jobs", "give fewer") from None


def processes(count: int, most_mib: int = WORKER_MIB) -> Pool:
    """Run jobs in that many processes of this machine, each replaced once it has had so much
    memory.
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


def dask(address: str) -> Pool:
    """Run jobs on a Dask cluster whose workers have this program.  Raises InputError if there is
    none at `address`.
    """
    client = connect(address)

    def run(jobs: Iterable[Job]) -> Iterator[Outcome]:
        return performed(client, address, jobs)

    return run
