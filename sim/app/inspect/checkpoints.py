"""Checkpoints of a run: copies of its process that rest at instants, and continue it when asked.

Turns a run into one with a copy of its process each so many virtual seconds, behind a socket beside
its trace, the door. A command that wants another future of the run sends it there. The last copy
before the instant gets the connection, and forks a process that answers on it, so that futures run
side by side.

Holds: a future has the trace of a run from the start; what would be another run up to the
checkpoint is refused; a door answers processes of the same user; all copies end with the command
that holds them.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import struct
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread
from time import monotonic, perf_counter
from typing import Any, NamedTuple

import outcome
import trio

from sim.app.cluster import Cluster
from sim.app.process.interrupts import ENDS
from sim.app.process.printed import tell
from sim.app.timetable import header_of
from sim.app.travel.common import common_key, later_steps
from sim.app.travel.loop import FORKS, renew
from sim.app.travel.rest import FAILED, READY, Mailbox, Rest, end_with, insert_steps
from sim.check import Checker
from sim.errors import InputError
from sim.kernel import Trace
from sim.scenario.plan.plan import Plan
from sim.units import Virtual, format_duration

CHECKPOINTS_MAX = 32
DOOR = ".checkpoints"  # after the name of the trace
REFUSED = "refused"
ASK_S = 10.0  # real time for the head of a request
_AT = struct.Struct("<q")  # the head: an instant
_PEER = struct.Struct("3i")  # process, user and group, of SO_PEERCRED
_PATH_MAX = 100  # bytes of the address of a socket


class Future(NamedTuple):
    """What is asked of a checkpoint.

    at_us: where it begins
    program: the digest of the program that asks
    trace: the file for the trace of the future, by its absolute path
    """

    at_us: Virtual
    program: str
    plan: Plan
    trace: Path


class Copy(NamedTuple):
    """A process that rests at an instant.  end: takes connections"""

    at_us: Virtual
    pid: int
    end: socket.socket


class Checkpoints(Rest):
    """The checkpoints of a run, as `run_plan` takes them.

    every_us: the virtual time between two; of more than `CHECKPOINTS_MAX`, every second one is
        given up
    program: the digest of this program
    Raises InputError where there can be none.
    """

    def __init__(self, plan: Plan, every_us: Virtual, program: str) -> None:
        if not FORKS:
            remedy = "leave it out: orrery fork repeats a run from its start"
            raise InputError("no process can be copied on this system", "--checkpoints", remedy)
        if every_us <= 0:
            raise InputError("no time passes between two", "--checkpoints", "as in 1m")
        if every_us >= plan.duration_us:
            end = format_duration(plan.duration_us)
            raise InputError(f"the run ends at {end}, before the first one", "--checkpoints", "give less")
        self.at_us = every_us
        self.job: Any = None
        self.trace: Path | None = None
        self.copies: list[Copy] = []
        self._plan, self._program = plan, program
        self._is_copy = False

    def later(self, plan: Plan) -> Collection[str]:
        """The steps that are scheduled after the first checkpoint."""
        return later_steps(plan, self.at_us)

    def run(self, run: Callable[[], Awaitable[Any]]) -> Any:
        """The result of the run; does not return in copies of this process."""
        result: Any = outcome.capture(trio.run, run)
        if self._is_copy:
            self.answer(result)
            os._exit(0)
        return result.unwrap()

    async def reached(self, cluster: Cluster, checker: Checker) -> tuple[Plan, float]:
        """Run from one checkpoint to the next; returns with the plan of this process, and the real
        time at which it began: in the run itself after the last, in copies when they are asked.
        """
        plan, started, at_us = self._plan, perf_counter(), self.at_us
        while at_us < plan.duration_us:
            await cluster.run_until(at_us)
            future = self._keep(cluster.kernel.trace, at_us)
            if future is not None:
                started = perf_counter()
                insert_steps(cluster, checker, future)
                return future, started
            at_us = Virtual(at_us + self.at_us)
            insert_steps(cluster, checker, plan, later_steps(plan, at_us))
        return plan, started

    def _keep(self, trace: Trace, at_us: Virtual) -> Plan | None:
        """Leave a copy of this process; the plan of a future in a process that continues it."""
        ours, theirs = socket.socketpair()
        so_far = None if trace.path is None else trace.so_far()  # the run continues in its file
        try:
            pid = os.fork()
        except OSError:  # the system refuses it; there are others
            pid = -1
        if not pid:
            self._is_copy = True
            for end in (ours, *(one.end for one in self.copies)):
                end.close()
            future = self._rest(theirs, at_us)
            if so_far is not None:
                trace.move(so_far, future.trace, header_of(future.plan, future.plan.seed))
            return future.plan
        theirs.close()
        if pid < 0:
            ours.close()
            return None
        self.copies.append(Copy(at_us, pid, ours))
        if len(self.copies) > CHECKPOINTS_MAX:
            for one in self.copies[1::2]:
                _end(one)
            del self.copies[1::2]
        return None

    def _rest(self, end: socket.socket, at_us: Virtual) -> Future:
        """Fork a process for each connection; returns in them."""
        gc.freeze()  # what belongs to the other process is not looked at
        for number in (signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_IGN)
        for number in ENDS:
            signal.signal(number, signal.SIG_DFL)
        while True:
            _, ends, _, _ = socket.recv_fds(end, 1, 1)
            if not ends:
                os._exit(0)
            if not os.fork():
                break
            os.close(ends[0])
        end.close()
        asks = socket.socket(fileno=ends[0])
        self._mailbox = Mailbox(asks)
        future: Future = self._mailbox.receive()
        if problem := self._problem(future, at_us):
            self._mailbox.send((REFUSED, problem))
            os._exit(0)
        self._mailbox.send((READY, at_us))
        renew()
        Thread(target=end_with, args=(asks,), daemon=True).start()
        return future

    def _problem(self, future: Future, at_us: Virtual) -> str:
        """Why the run of a future is not continued from here; "" if it is."""
        if future.at_us < at_us:
            return f"no checkpoint is before {format_duration(future.at_us)}"
        if future.program != self._program:
            return "the program has changed since the checkpoints were made"
        keys = [
            common_key(replace(plan, expectations=()), plan.seed, at_us) for plan in (self._plan, future.plan)
        ]
        judged = [one.expectation for one in self._plan.expectations]
        if keys[0] != keys[1] or any(one.expectation not in judged for one in future.plan.expectations):
            return f"it is another run up to the checkpoint at {format_duration(at_us)}"
        return ""

    # --- for other commands -----------------------------------------------------------------------

    def hold(self, door: Path, for_s: float = float("inf")) -> None:
        """Answer other commands at a door for so much real time, or until an interrupt."""
        until_s = monotonic() + for_s
        with _opened(door) as listening:
            while (left_s := until_s - monotonic()) > 0:
                if select.select([listening], [], [], min(left_s, ASK_S))[0]:
                    with listening.accept()[0] as asks, suppress(OSError, EOFError):
                        self._pass_on(asks)

    def _pass_on(self, asks: socket.socket) -> None:
        """Give a connection to the last copy before the instant that it asks for."""
        if not _is_own(asks):
            return
        asks.settimeout(ASK_S)
        head = asks.recv(_AT.size, socket.MSG_WAITALL)
        asks.settimeout(None)  # for the copy too
        if len(head) < _AT.size:
            return
        (at_us,) = _AT.unpack(head)
        before = [one for one in self.copies if one.at_us <= at_us]
        for one in reversed(before or self.copies[:1]):  # which says that there is none
            with suppress(OSError):  # of a process that has crashed
                socket.send_fds(one.end, [b"."], [asks.fileno()])
                return

    def __str__(self) -> str:
        """How many there are, and their memory, each with its share of what several have."""
        times = [format_duration(one.at_us) for one in self.copies]
        mib = sum(_pss_kib(one.pid) for one in self.copies) / 1024
        count = f"{len(times)} checkpoints, {times[0]} to {times[-1]}" if times else "no checkpoint"
        return f"{count}, in {mib:.0f} MiB"

    def close(self) -> None:
        """End the copies."""
        for one in self.copies:
            _end(one)
        self.copies.clear()


def _end(copy: Copy) -> None:
    copy.end.close()
    with suppress(ChildProcessError):
        os.waitpid(copy.pid, 0)


def _pss_kib(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


# --- the door -------------------------------------------------------------------------------------


def door_of(trace: Path) -> Path:
    """The socket beside the trace of a run with checkpoints."""
    return trace.with_name(trace.name + DOOR)


def refuse_open(door: Path) -> None:
    """Raise InputError if another command answers at a door; remove what an earlier one has left."""
    if door.is_socket():
        with suppress(OSError), _connected(door):
            remedy = "end that command, or name another trace"
            raise InputError("another command holds checkpoints of this trace", str(door), remedy)
        door.unlink(missing_ok=True)


def continued(door: Path, future: Future) -> Any:
    """The result of a future, continued from a checkpoint before its instant; or in words why it is
    not.  Raises what the run raises.
    """
    try:
        with _connected(door) as asks:
            if not _is_own(asks):
                return "the checkpoints are another user's"
            mailbox = Mailbox(asks)
            asks.sendall(_AT.pack(future.at_us))
            mailbox.send(future)
            kind, value = mailbox.receive()
            if kind == READY:
                tell(f"continues from the checkpoint at {format_duration(value)}")
                kind, value = mailbox.receive()
    except (OSError, EOFError):
        return "the command that held checkpoints has ended"
    if kind == FAILED:
        raise value
    return value


@contextmanager
def _connected(door: Path) -> Iterator[socket.socket]:
    """A connection to a door.  Raises OSError."""
    with socket.socket(socket.AF_UNIX) as asks, _short(door) as address:
        asks.connect(address)
        yield asks


@contextmanager
def _opened(door: Path) -> Iterator[socket.socket]:
    """A door that is open within the block.  Raises InputError."""
    refuse_open(door)
    with socket.socket(socket.AF_UNIX) as listening, _short(door) as address:
        mask = os.umask(0o177)
        try:
            listening.bind(address)
        except OSError as error:
            raise InputError(error.strerror or "cannot be made", str(door)) from None
        finally:
            os.umask(mask)
        try:
            listening.listen()
            yield listening
        finally:
            door.unlink(missing_ok=True)


@contextmanager
def _short(path: Path) -> Iterator[str]:
    """The address of a socket, which has a few bytes."""
    text = str(path)
    if len(os.fsencode(text)) <= _PATH_MAX:
        yield text
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def _is_own(end: socket.socket) -> bool:
    """True if the process at the other end is of this process's user."""
    _, user, _ = _PEER.unpack(end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return bool(user == os.getuid())
