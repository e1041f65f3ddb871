"""The keyboard of a terminal, key by key.

Turns a terminal into its keys, without the line in which it would collect them.

Holds: the terminal is as before on each way out; a process in the background leaves it alone, which
the system would stop otherwise; Ctrl-C is a signal as ever.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import trio

READ_BYTES = 64


def keyboard() -> int | None:
    """The descriptor of the terminal that standard input is; None if it is none, or not ours now."""
    try:
        fd = sys.stdin.fileno()
        return fd if os.isatty(fd) and in_front(fd) else None
    except (AttributeError, OSError, ValueError):  # closed, or replaced by something without one
        return None


def in_front(fd: int) -> bool:
    """True if this process has the terminal, and is no job in the background."""
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except (AttributeError, OSError):
        return False


@contextmanager
def by_key(fd: int) -> Iterator[None]:
    """Let the terminal hand over each key at once, and show none."""
    import termios  # some systems have none
    import tty

    before = termios.tcgetattr(fd)
    try:
        tty.setcbreak(fd, termios.TCSANOW)
        yield
    finally:
        if in_front(fd):
            termios.tcsetattr(fd, termios.TCSANOW, before)


async def read_keys(fd: int) -> str:
    """The keys that are pressed next, within `by_key`; "" when the terminal has gone."""
    await trio.lowlevel.wait_readable(fd)
    try:
        return os.read(fd, READ_BYTES).decode(errors="replace")
    except OSError:
        return ""


async def keep_by_key(fd: int) -> None:
    """Ask for keys again after the process was stopped (Ctrl-Z) and continued."""
    import tty

    with trio.open_signal_receiver(signal.SIGCONT) as continued:
        async for _ in continued:
            if in_front(fd):
                tty.setcbreak(fd)
