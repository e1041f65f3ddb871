"""Signals that end a command: each is handled like Ctrl-C, and the exit status shows which it was.

Holds: a signal that is ignored at the start of the program (nohup, a shell's background job) stays
ignored. An interrupt ends a run of Trio at a wait of its main task; between any two other steps it
could leave a task half started, by which Trio fails.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType
from typing import TypeVar

# The stop of a service manager and the end of a terminal; some systems lack the second.
ENDS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
SIGNALLED = 128  # added to a signal's number: exit status of a program that the signal ended

T = TypeVar("T")


class Ended(KeyboardInterrupt):
    """An interrupt by a signal other than Ctrl-C's.  number: of the signal"""

    def __init__(self, number: int) -> None:
        self.number = number


def exit_status(error: BaseException) -> int:
    """The exit status of a command that an interrupt ended."""
    return SIGNALLED + (error.number if isinstance(error, Ended) else signal.SIGINT)


def ending_signals() -> tuple[signal.Signals, ...]:
    """The signals that end a command and are not ignored."""
    return tuple(number for number in ENDS if signal.getsignal(number) not in (signal.SIG_IGN, None))


def interruptible(run: Callable[[], Awaitable[T]]) -> T:
    """The result of an async function, which an interrupt ends."""
    import trio

    return trio.run(run, restrict_keyboard_interrupt_to_checkpoints=True)


@contextmanager
def ends_as_interrupts(by_trio: bool = False) -> Iterator[None]:
    """Handle the signals within the block as interrupts, and raise `Ended` for them.

    by_trio: use the handler that Trio has installed; without one, because interrupts are ignored,
        a signal ends the process
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
            # Code that blocks Ctrl-C for a moment blocks this signal too.
            interrupt(signal.SIGINT, frame)
        else:
            raise Ended(number)

    before = [(number, signal.signal(number, answer)) for number in ending_signals()]
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
