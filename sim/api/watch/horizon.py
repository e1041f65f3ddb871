"""How far behind the store one API server replica is.

Turns virtual time and the replica's lag into the commit time up to which its watch caches show the store.

Holds: what is visible once stays visible, whatever the lag becomes.

Mirrors  kubernetes v1.25 apiserver pkg/storage/cacher: the reflector that feeds a watch cache.
Differs  one delay for all caches of a replica, not one of each event.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

NEVER_US = 1 << 62


class Timers(Protocol):
    """Virtual time, as the owner lends it to its caches."""

    def now_us(self) -> int: ...
    def call_at(self, at_us: int, fn: Callable[[Any], None], arg: Any = None) -> None: ...
    def uniform_us(self, low_us: int, high_us: int) -> int: ...


class Horizon:
    """Up to which commit time a replica has seen the store.  One for all caches of the replica.

    frozen: it sees nothing new
    """

    def __init__(self, timers: Timers, lag_us: int, start_rev: int) -> None:
        self.timers = timers
        self.lag_us = lag_us
        self.start_rev = start_rev
        self.progress_rev = start_rev  # the store's progress notification, every 600 s
        self.progressed = False  # there has been one
        self.moved: list[Callable[[], None]] = []
        self.before_moved: list[Callable[[], None]] = []
        self._turned_us = 0  # since when it goes on as now
        self.frozen = False
        self._reached_us = -1
        # Since when it goes on as now or as it did once, from what it had reached then, and so far behind (NEVER_US: not at all).
        self._courses = [(-NEVER_US, -1, lag_us)]

    def reached_us(self, before_us: int = 0) -> int:
        """By now, or so long ago."""
        if before_us:
            return self._reached_by(self.timers.now_us() - before_us)
        if not self.frozen:
            reached = self.timers.now_us() - self.lag_us
            if reached > self._reached_us:
                self._reached_us = reached
        return self._reached_us

    def _reached_by(self, at_us: int) -> int:
        _, from_us, lag_us = next(course for course in reversed(self._courses) if course[0] <= at_us)
        return max(from_us, at_us - lag_us)

    def due_us(self, at_us: int) -> int:
        """When a commit of that time becomes visible."""
        return NEVER_US if self.frozen else at_us + self.lag_us

    def shown_us(self, at_us: int) -> int:
        """When a commit of that time, which was not visible when the horizon last changed its course, is shown."""
        return NEVER_US if self.frozen else max(self._turned_us, at_us + self.lag_us)

    def show_progress(self, rev: int) -> None:
        """The store tells how far it is."""
        self.progress_rev, self.progressed = rev, True

    def set_lag(self, lag_us: int) -> None:
        self._before()
        self.lag_us = lag_us
        self._turn()

    def freeze(self, frozen: bool) -> None:
        """Cut off from the store (True), or following it again."""
        self._before()
        self.frozen = frozen
        self._turn()

    def _before(self) -> None:
        """It is about to go on otherwise."""
        for tell in list(self.before_moved):
            tell()
        self.reached_us()

    def _turn(self) -> None:
        """It goes on otherwise from now on."""
        self._turned_us = self.timers.now_us()
        lag_us = NEVER_US if self.frozen else self.lag_us
        if self._courses[-1][2] != lag_us:
            self._courses.append((self.timers.now_us(), self._reached_us, lag_us))
        for tell in self.moved:
            tell()
