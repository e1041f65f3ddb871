"""A process with a run that rests at an instant, and forks a process for each continuation of it.

Turns the run of a common part into the runs of many plans. The process sits in a task of Trio with
virtual time at rest, and waits for requests on a socket, which it reads without Trio. A fork is a
copy of everything: coroutines, timers, random streams, the hash of the trace. It shares its memory
with its parent until one of them writes to it.

A run with sockets of its own, or with threads, does not rest: a fork has neither.

Holds: the run of a plan has here the trace that it has from its start (`common_part`).
"""

from __future__ import annotations

import os
import pickle
import select
import shutil
import signal
import socket
import struct
import tempfile
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from threading import Thread
from time import perf_counter
from typing import Any, NoReturn

import outcome

from sim.app.cluster import Cluster
from sim.app.possible import zones_of
from sim.app.travel.loop import renew
from sim.check import Checker
from sim.kernel import Trace
from sim.scenario.plan.plan import Plan
from sim.units import Virtual

ROOM = 1 << 22  # orders for later steps, of the 2^25 of an instant
_LENGTH = struct.Struct("<Q")
READY, RAN, FAILED = "ready", "ran", "failed"


class Mailbox:
    """One end of a pair of sockets that carries values as pickles."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end

    def send(self, value: Any) -> None:
        """Send a value.  Raises OSError if the other end is closed."""
        data = pickle.dumps(value)
        self.end.sendall(_LENGTH.pack(len(data)) + data)

    def receive(self) -> Any:
        """The next value.  Raises EOFError if the other end was closed, or its process ended."""
        (length,) = _LENGTH.unpack(self._bytes(_LENGTH.size))
        return pickle.loads(self._bytes(length))

    def _bytes(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            part = self.end.recv(min(count - len(parts), 1 << 20))
            if not part:
                raise EOFError
            parts += part
        return bytes(parts)

    def shut(self) -> None:
        """Close the connection, also if another process has this end open."""
        with suppress(OSError):
            self.end.shutdown(socket.SHUT_RDWR)
        self.end.close()


class Rest:
    """Where a run rests, as `run_plan` takes it.

    at_us: the instant
    job: in a process that continues the run: what it was asked for
    trace: there, the file in which it continues the trace, in a folder of its own, which it removes
    leave: called before the process that rests ends otherwise than by an exception
    """

    room = ROOM

    def __init__(self, at_us: Virtual, mailbox: Mailbox) -> None:
        self.at_us = at_us
        self.job: Any = None
        self.trace: Path | None = None
        self.leave: Callable[[], object] = lambda: None
        self._mailbox = mailbox

    async def reached(self, cluster: Cluster, checker: Checker) -> tuple[Plan, float]:
        """Run to the instant and rest there; returns only in processes that continue the run, with
        the plan that each has to carry out, after its later steps were scheduled, and the real time
        at which that began.
        """
        await cluster.run_until(self.at_us)
        plan = self._wait(cluster.kernel.trace)
        started = perf_counter()
        insert_steps(cluster, checker, plan)
        return plan, started

    def later(self, plan: Plan) -> Collection[str]:
        """The steps of the plan of a run that are scheduled when it has come here."""
        return ()

    def remove(self) -> None:
        """Remove the folder of the trace of this process, which continues the run."""
        if self.trace is not None:
            shutil.rmtree(self.trace.parent, ignore_errors=True)

    def answer(self, result: outcome.Maybe[Any]) -> None:
        """Send the result of the run, or its exception."""
        if isinstance(result, outcome.Value):
            self._mailbox.send((RAN, result.value))
            return
        error = result.error
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # an exception of a program may be of any class
            error = RuntimeError(f"{type(error).__name__}: {error}")
        self._mailbox.send((FAILED, error))

    def _wait(self, trace: Trace) -> Plan:
        """Fork a process for each job; returns in them."""
        self._mailbox.send((READY, None))
        while True:
            try:
                plan, self.job = self._mailbox.receive()
            except EOFError:
                self.leave()
                os._exit(0)
            child = os.fork()
            if not child:
                renew()
                if trace.path is not None:
                    self.trace = Path(tempfile.mkdtemp(prefix="orrery-"), trace.path.name)
                    trace.move(trace.so_far(), self.trace)
                Thread(target=end_with, args=(self._mailbox.end, self.remove), daemon=True).start()
                assert isinstance(plan, Plan)
                return plan
            if status := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
                self.leave()
                _end_as(status)


def insert_steps(cluster: Cluster, checker: Checker, plan: Plan, later: Collection[str] = ()) -> None:
    """Schedule those steps of a plan that are not scheduled yet, without some later ones."""
    zones = zones_of(plan)
    checker.world.learn(zones)
    cluster.do.insert(plan.steps, zones, later)


def end_with(end: socket.socket, before: Callable[[], object] = lambda: None) -> None:
    """End this process when the other end of a socket is closed, since its result is not needed."""
    poll = select.poll()
    poll.register(end, getattr(select, "POLLRDHUP", 0))
    poll.poll()
    before()
    os._exit(1)


def _end_as(status: int) -> NoReturn:
    """End this process as a child has ended."""
    if status < 0:
        with suppress(OSError):  # SIGKILL has no other meaning
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


class Resting:
    """A process that rests, as its parent sees it.

    perform: carries out a job, by `run_plan` with the `Rest` that it gets; its result must be a
        value that can be pickled
    strangers: sockets of this process that the other one must not hold open
    Raises OSError if no process can be started.
    """

    def __init__(
        self,
        perform: Callable[[Any, Rest], Any],
        job: Any,
        at_us: Virtual,
        strangers: list[socket.socket],
    ) -> None:
        ours, theirs = socket.socketpair()
        self.pid = os.fork()
        if not self.pid:
            for end in (ours, *strangers):
                end.close()
            _live(perform, job, Rest(at_us, Mailbox(theirs)))
        theirs.close()
        self.mailbox = Mailbox(ours)
        self.ready = False  # until the run has come to the instant

    def perform(self, plan: Plan, job: Any) -> Any:
        """The result of a job with a plan that has the common part of this process.

        Raises what it raises, and CrashError if its process ends otherwise; then this one has ended
        too.  Raises NoRestError if the run ends before it rests.
        """
        try:
            if not self.ready and self.mailbox.receive()[0] != READY:
                raise NoRestError
            self.ready = True
            self.mailbox.send((plan, job))
            kind, value = self.mailbox.receive()
        except (EOFError, OSError):
            raise CrashError(f"its process ended by {_words(self.end())}") from None
        if kind == FAILED:
            assert isinstance(value, BaseException)
            raise value
        return value

    def end(self) -> int:
        """End the process, which ends when it can get no more jobs; its exit status."""
        self.mailbox.shut()
        with suppress(ChildProcessError):
            return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return 0


class CrashError(Exception):
    """The process of a job ended without a result."""


class NoRestError(Exception):
    """A run ended before the instant at which it was to rest."""


def _words(status: int) -> str:
    return signal.Signals(-status).name if status < 0 else f"exit status {status}"


def _live(perform: Callable[[Any, Rest], Any], job: Any, rest: Rest) -> NoReturn:
    """The life of a process that rests, and of those that continue its run."""
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles it
        result = outcome.capture(perform, job, rest)
        rest.answer(result)
        code = 0
    finally:
        os._exit(code)
