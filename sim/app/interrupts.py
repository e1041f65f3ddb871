"""Signals that ask a command to end: each is answered as Ctrl-C is, and the exit status says which
it was.

Holds: a signal that whoever started the program has it ignore (nohup, a shell's background) is
ignored.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType

# A service manager's stop, and a terminal that goes away; not every system has the second.
ENDS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
SIGNALLED = 128  # added to a signal's number: the exit status of what ends by it


class Ended(KeyboardInterrupt):
    """An interrupt that came as another signal than Ctrl-C's.  number: of the signal"""

    def __init__(self, number: int) -> None:
        self.number = number


def exit_status(error: BaseException) -> int:
    """Of a command that an interrupt ended."""
    return SIGNALLED + (error.number if isinstance(error, Ended) else signal.SIGINT)


def heard() -> tuple[signal.Signals, ...]:
    """The signals that ask for the end and are not ignored."""
    return tuple(number for number in ENDS if signal.getsignal(number) not in (signal.SIG_IGN, None))


@contextmanager
def ends_as_interrupts(by_trio: bool = False) -> Iterator[None]:
    """What asks for the end meanwhile is answered as an interrupt is, and raised as `Ended`.

    by_trio: by what Trio has installed, which is nothing where interrupts are ignored: there it
        ends the process
    """
    deaf = by_trio and signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    if deaf or current_thread() is not main_thread():
        yield
        return
    came: list[int] = []

    def answer(number: int, frame: FrameType | None) -> None:
        came.append(number)
        interrupt = signal.getsignal(signal.SIGINT)
        if callable(interrupt):
            interrupt(signal.SIGINT, frame)  # who holds Ctrl-C back for a moment holds this back
        else:
            raise Ended(number)

    before = [(number, signal.signal(number, answer)) for number in heard()]
    try:
        yield
    except (KeyboardInterrupt, BaseExceptionGroup) as error:
        if came and _interrupted(error):
            raise Ended(came[0]) from None
        raise
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def _interrupted(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(KeyboardInterrupt) is not None
    return isinstance(error, KeyboardInterrupt)
