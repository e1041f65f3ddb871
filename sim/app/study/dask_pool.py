"""Jobs on a Dask cluster with workers that have this program installed.

A job is sent as bytes with a text that names the function to call: the scheduler, which may lack
the program, cannot load it, and a worker that lacks it reports that.

Holds: a worker with another version of the program, or of a program of the user, runs nothing; if
the connection to the cluster is lost, the finished outcomes are returned first, and then the loss
is reported.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from itertools import islice
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

import msgspec

from sim.app.study.outcome import Job, Outcome, digest_for
from sim.errors import InputError

# More than one task for each thread of a Dask cluster, so that none waits for the next to travel.
AHEAD = 2
ANSWER_S = 10.0  # limit for a reply
LOOK_S = 5.0  # time without messages after which the cluster is checked
FETCH_S = 5.0  # limit for a result of a run that has ended
LOST_S = 60.0  # time without any worker after which the run gives up
PERFORM = "__import__('sim.app.study.outcome', fromlist=['']).perform_for(program, programs, job)"
DIGEST = "__import__('sim.app.study.outcome', fromlist=['']).digest_for(programs)"
GONE = "the Dask cluster went away"
SAME = "install the same version of orrery on every worker"
SAME_PROGRAMS = "copy the sources of the program to every worker, and start the workers again"
# Errors of connecting to something that is not a usable scheduler: no connection, no TLS, no
# package for the scheme, bytes of another protocol.
_STRANGE = (OSError, ValueError, TypeError, RuntimeError, ImportError, EOFError, MemoryError, OverflowError)


def connect(address: str) -> Any:
    """A client of the Dask cluster at the address.  Raises InputError if the cluster is unusable."""
    try:
        distributed = import_module("distributed")  # an optional dependency, without types
    except ModuleNotFoundError as error:
        raise InputError(f"--dask needs the package {error.name}", "", "pip install 'orrery[dask]'") from None
    _hush()
    try:
        # Ask first, because a client without a connection logs long errors when it is deleted.
        kind = _outside_of_loops(asyncio.wait_for(_kind(distributed, address), ANSWER_S))
        if kind != "Scheduler":
            raise InputError(f"is no Dask scheduler, but a {kind}", address)
        client = distributed.Client(address, timeout=ANSWER_S, set_as_default=False)
    except TimeoutError as error:
        said = str(error) or f"nothing was heard for {ANSWER_S:.0f} s"
        raise InputError(f"no Dask scheduler answers: {said}", address) from None
    except _STRANGE as error:
        raise InputError(f"no Dask scheduler answers: {error}", address) from None
    try:
        with _lost(distributed, address):
            _compare(client, address)
    except BaseException:
        client.close()
        raise
    return client


def checked(client: Any) -> Any:
    """A client of the user's own.  Raises InputError if its cluster is unusable."""
    if client.asynchronous:
        raise InputError("the Dask client is asynchronous", "", "make it without asynchronous=True")
    address = client.scheduler.address
    with _lost(import_module("distributed"), address):
        _compare(client, address)
    return client


def _outside_of_loops(coroutine: Any) -> Any:
    """The result of a coroutine, run in a thread: the caller's has a loop already in a notebook."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


def _hush() -> None:
    """Silence the package's loggers: this module reports the same errors in one line."""
    for name in sorted(logging.root.manager.loggerDict):
        if name.partition(".")[0] == "distributed":
            logging.getLogger(name).setLevel(logging.CRITICAL)


@contextmanager
def _lost(distributed: Any, address: str) -> Iterator[None]:
    """Turn errors of calls to a lost scheduler into InputError."""
    try:
        yield
    except (OSError, CancelledError, distributed.client.ClosedClientError):
        raise InputError(GONE, address) from None


async def _kind(distributed: Any, address: str) -> str:
    """The kind of server at the address, as it reports itself."""
    arguments = distributed.Security().get_connection_args("client")
    comm = await distributed.comm.connect(address, timeout=ANSWER_S, **arguments)
    try:
        await comm.write({"op": "identity", "reply": True})
        return str((await comm.read())["type"])
    finally:
        comm.abort()


def _compare(client: Any, address: str, programs: tuple[str, ...] = ()) -> None:
    """Raise InputError unless every present worker has this program, and those of the user."""
    found = client.run(eval, DIGEST, {"programs": programs}, on_error="return")
    what, remedy = ", ".join(programs) or "orrery", SAME_PROGRAMS if programs else SAME
    if not found:
        raise InputError("the Dask cluster has no workers", address)
    for worker, digest in sorted(found.items()):
        if isinstance(digest, BaseException):
            raise InputError(f"the worker {worker} cannot run {what}: {digest}", address, remedy)
        if digest != digest_for(programs):
            raise InputError(f"the worker {worker} has another version of {what}", address, remedy)


def performed(client: Any, address: str, jobs: Iterable[Job]) -> Iterator[Outcome]:
    """Outcomes as runs end; the client stays open.

    Raises InputError if the cluster is lost or gets a worker that cannot run them.
    """
    left = iter(jobs)
    known: set[tuple[str, ...]] = {()}  # the programs that the workers have been asked for
    ended: SimpleQueue[Any] = SimpleQueue()
    # Keeps the futures too, because a future without a reference is cancelled.
    running: dict[Any, tuple[Any, Job]] = {}

    def submit(job: Job) -> None:
        if job.programs not in known:
            _compare(client, address, job.programs)
            known.add(job.programs)
        given = {"program": digest_for(job.programs), "programs": job.programs, "job": pickle.dumps(job)}
        future = client.submit(eval, PERFORM, given, pure=False)
        running[future.key] = future, job
        future.add_done_callback(ended.put)

    with _lost(import_module("distributed"), address):
        for job in islice(left, AHEAD * sum(client.nthreads().values())):
            submit(job)
        while running:
            future = _next(ended, client, address)
            _, job = running.pop(future.key)
            try:
                found = _outcome(future, job, address)
            except TimeoutError:  # lost with its worker, after its end
                submit(job)
                continue
            yield found
            for following in islice(left, 1):
                submit(following)


def _next(ended: SimpleQueue[Any], client: Any, address: str) -> Any:
    """The next future that ends."""
    manned = monotonic()
    while True:
        try:
            return ended.get(timeout=LOOK_S)
        except Empty:
            pass
        if client.status == "running" and client.nthreads():
            manned = monotonic()
        elif monotonic() - manned > LOST_S:
            raise InputError(f"the Dask cluster has had no workers for {LOST_S:.0f} s", address)


def _outcome(future: Any, job: Job, address: str) -> Outcome:
    """The outcome of a future that has ended.  Raises TimeoutError if it cannot be fetched."""
    if future.status == "cancelled":  # all futures are, when the scheduler is lost
        raise InputError(GONE, address)
    error = future.exception(timeout=FETCH_S)
    if isinstance(error, ImportError | AttributeError):
        raise InputError(f"a worker cannot run orrery: {error}", address, SAME)
    if error is not None:
        text = f"{type(error).__name__}: {error}".split("\n", 1)[0]
        return job.answer(job.key, job.seed, error=text)
    found = future.result(timeout=FETCH_S)
    if not found:
        what = " or ".join(("orrery", *job.programs))
        remedy = f"{SAME}; {SAME_PROGRAMS}" if job.programs else SAME
        raise InputError(f"a worker has another version of {what}", address, remedy)
    return msgspec.json.decode(found, type=job.answer)
