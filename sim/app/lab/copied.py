"""A copy of a lab in a process of its own, made by a fork.

Turns the thread of a portal, with the cluster that it holds, into a second process that continues
from the same instant, and calls in this process into messages to it. The thread that forks is the
only one of the copy: it needs nothing of the others, for a cluster at rest is plain Python.

Holds: a copy does what the lab would do; it ends when the last portal to it is closed, or when this
process ends. A copy that does not answer at once (another thread held a lock of a library at the
instant of the fork) is ended, and `copied` returns None: the caller then repeats the run.
"""

from __future__ import annotations

import gc
import marshal
import os
import pickle
import select
import signal
import socket
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import suppress
from io import BytesIO
from threading import Thread
from types import CellType, FunctionType
from typing import Any, Generic, NoReturn, TypeVar

import trio

from sim.app.travel.loop import FORKS, renew
from sim.app.travel.rest import Mailbox, end_with

T = TypeVar("T")
WAIT_S = 1.0  # real seconds of one wait for an answer
ANSWER_S = 10.0  # real seconds that a copy has for its first answer
READY, RAN, FAILED, FORK = "ready", "ran", "failed", "fork"


class Held(ABC):
    """What a portal holds: it can be copied with the process.

    prepare: called before a fork; its result is given to `settle` in the copy
    """

    @abstractmethod
    def prepare(self) -> Any:
        """Return what the copy needs of this process."""
        ...

    @abstractmethod
    def settle(self, prepared: Any) -> Callable[[], object]:
        """Let the copy have files of its own; returns what removes them."""
        ...

    @abstractmethod
    def halt(self) -> None:
        """Let the call that is carried out end at the present instant."""
        ...


Inside = TypeVar("Inside", bound=Held)


class CopiedPortal(Generic[Inside]):
    """A portal into another process, with the calls of `Portal`."""

    def __init__(self, pid: int, end: socket.socket) -> None:
        self._pid, self._mailbox = pid, Mailbox(end)
        self.open = True

    def answers(self) -> bool:
        """True if the process has started."""
        self._mailbox.end.settimeout(ANSWER_S)
        try:
            return bool(self._mailbox.receive()[0] == READY)
        except (EOFError, OSError):
            return False
        finally:
            self._mailbox.end.settimeout(None)

    def call(self, fn: Callable[[Inside], Awaitable[T] | T]) -> T:
        """The result of `fn`, called in the process with the value that it holds.

        Raises what `fn` raises, RuntimeError after `close`, and an error of pickle for a function
        with values that cannot be sent.
        """
        if not self.open:
            raise RuntimeError("it is closed")
        self._mailbox.send(dumped(fn))
        try:
            result: T = self._result()
            return result
        except KeyboardInterrupt:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGUSR1)
            if self._is_answered(ANSWER_S):  # the call ends at the next instant of virtual time
                with suppress(Exception):
                    self._result()
            else:
                with suppress(ProcessLookupError):
                    os.kill(self._pid, signal.SIGKILL)
                self.close()
            raise

    def _is_answered(self, within_s: float) -> bool:
        """True if there is an answer within some real seconds."""
        return bool(select.select([self._mailbox.end], [], [], within_s)[0])

    def _result(self) -> Any:
        # A handler of SIGINT that a library has set lets `recv` continue, but not this; and a
        # signal that another thread gets is only seen between two waits.
        while not self._is_answered(WAIT_S):
            pass
        try:
            kind, value = self._mailbox.receive()
        except (EOFError, ConnectionError):
            self.close()
            raise RuntimeError("the process of the lab has ended") from None
        if kind == FAILED:
            raise value
        return value

    def copied(self) -> CopiedPortal[Inside] | None:
        """A copy of the copy; None if it cannot be made."""
        self._mailbox.send(FORK)
        data, ends, _, _ = socket.recv_fds(self._mailbox.end, 64, 1)
        return checked(int(data), socket.socket(fileno=ends[0])) if ends else None

    def close(self) -> None:
        """End the process.  A second call has no effect."""
        self.open = False
        self._mailbox.shut()
        with suppress(ChildProcessError):  # a copy of a copy is no child of this process
            os.waitpid(self._pid, 0)


def checked(pid: int, end: socket.socket) -> CopiedPortal[Any] | None:
    """The portal to a copy; None if that does not answer, and is ended."""
    portal = CopiedPortal[Any](pid, end)
    if portal.answers():
        return portal
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    portal.close()
    return None


async def copied(inside: Held) -> CopiedPortal[Any] | None:
    """A portal to a copy of this process; None if it cannot be made."""
    copy = await forked(inside)
    return None if copy is None else checked(*copy)


async def forked(inside: Held) -> tuple[int, socket.socket] | None:
    """Fork the process in the thread of a portal: its number, and the socket to it.

    None if that cannot be done. Does not return in the copy.
    """
    if not FORKS:
        return None
    ours, theirs = socket.socketpair()
    prepared = inside.prepare()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside other threads
        try:
            pid = os.fork()
        except OSError:
            ours.close()
            theirs.close()
            return None
    if pid:
        theirs.close()
        return pid, ours
    try:
        ours.close()
        await _serve(inside, prepared, theirs)
    finally:
        os._exit(1)


async def _serve(inside: Held, prepared: Any, end: socket.socket) -> NoReturn:
    """Carry out calls until the other end is closed."""
    gc.freeze()  # what belongs to the other process is not looked at
    gc.disable()
    renew()
    for number in (signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_IGN)
    token = trio.lowlevel.current_trio_token()
    signal.signal(signal.SIGUSR1, lambda *_: token.run_sync_soon(inside.halt))
    sys.stdout = os.fdopen(os.dup(1), "w", buffering=1)
    remove = inside.settle(prepared)
    mailbox = Mailbox(end)
    watch = Thread(target=end_with, args=(end, remove), daemon=True)
    watch.start()
    mailbox.send((READY, None))
    while True:
        try:
            message = mailbox.receive()
        except EOFError:
            remove()
            os._exit(0)
        if message == FORK:
            copy = await forked(inside)
            ends = [] if copy is None else [copy[1].fileno()]
            socket.send_fds(end, [str(0 if copy is None else copy[0]).encode()], ends)
            if copy is not None:
                copy[1].close()
            continue
        try:
            result = pickle.loads(message)(inside)
            mailbox.send((RAN, (await result) if isinstance(result, Awaitable) else result))
        except Exception as error:
            mailbox.send((FAILED, _sendable(error)))


def _sendable(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # an exception of a program may be of any class
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


# --- functions as bytes ---------------------------------------------------------------------------


class _Pickler(pickle.Pickler):
    """Sends functions within functions too: both processes have the modules that they are from."""

    def reducer_override(self, obj: Any) -> Any:
        if not isinstance(obj, FunctionType) or "<" not in obj.__qualname__:
            return NotImplemented
        cells = tuple(cell.cell_contents for cell in obj.__closure__ or ())
        return _function, (marshal.dumps(obj.__code__), obj.__module__, obj.__defaults__, cells)


def dumped(value: Any) -> bytes:
    """A value, or a function, as bytes.  Raises PicklingError, TypeError."""
    data = BytesIO()
    _Pickler(data).dump(value)
    return data.getvalue()


def _function(code: bytes, module: str, defaults: Any, cells: tuple[Any, ...]) -> FunctionType:
    names = vars(sys.modules[module])
    return FunctionType(marshal.loads(code), names, None, defaults, tuple(map(CellType, cells)))
