"""Pauses in the middle of long work, at places that depend on the work alone.

A function that may take long says how much it has done (`spent`, `paced`).  Run as `Parts`, it has
a thread of its own, and rests wherever it has done about `PART_US`, until its driver continues it.
Only one of the two runs at a time.  Run in any other way, it never stops.

Holds: a pause changes no result; where the pauses are does not depend on the speed of the machine.
So what is said to be done must follow from the arguments, and not from remembered results that work
outside of `Parts` can have made.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import msgspec
import outcome

PART_US = 25_000  # of processor time, by the estimates given to `spent`
BYTES_PER_US = 20  # of JSON text, in one pass over its values

T = TypeVar("T")


class Ended(BaseException):
    """Raised in work that is given up."""


class _Here(threading.local):
    parts: Parts | None = None


_here = _Here()


class Parts:
    """One function, done in parts.

    found: its outcome; None before its end
    """

    def __init__(self, work: Callable[[], Any]) -> None:
        self.found: outcome.Maybe[Any] | None = None
        self._work = work
        self._spent_us = 0
        self._thread: threading.Thread | None = None
        self._going, self._resting = threading.Semaphore(0), threading.Semaphore(0)
        self._given_up = False

    def go_on(self) -> bool:
        """Do the next part; True if it was the last one."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        else:
            self._going.release()
        self._resting.acquire()
        return self.found is not None

    def give_up(self) -> None:
        """End the work where it rests."""
        if self._thread is not None and self.found is None:
            self._given_up = True
            self.go_on()

    def _run(self) -> None:
        _here.parts = self
        self.found = outcome.capture(self._work)
        self._resting.release()

    def spent(self, us: int) -> None:
        """Note what was done, and rest if it was enough."""
        self._spent_us += us
        if self._spent_us >= PART_US:
            self._spent_us = 0
            self.rest()

    def rest(self) -> None:
        """Rest until the next part; called by the work."""
        self._resting.release()
        self._going.acquire()
        if self._given_up:
            raise Ended

    def paced(self, items: Iterable[T], us: int) -> Iterator[T]:
        """As the function of this name."""
        for item in items:
            self.spent(us)
            yield item


def spent(us: int) -> None:
    """Say that about so many microseconds of work have been done."""
    parts = _here.parts
    if parts is not None:
        parts.spent(us)


def weight_us(value: Any) -> int:
    """About how long one pass over a value takes, by the length of its JSON text; 0 where work does
    not rest.
    """
    if _here.parts is None:
        return 0
    try:
        return len(msgspec.json.encode(value)) // BYTES_PER_US
    except RecursionError:
        return 0


def paced(items: Iterable[T], us: int) -> Iterable[T]:
    """The items, each of which takes about so many microseconds."""
    parts = _here.parts
    return items if parts is None else parts.paced(items, us)
