"""The horizon of an API server: how far behind the store its watch caches are.

Virtual time and the server's lag determine the commit time up to which its watch caches show the
store.

Holds: what has been visible once stays visible when the lag grows.

Mirrors  kubernetes v1.25 apiserver pkg/storage/cacher: the reflector that feeds a watch cache.
Differs  one delay for all caches of a server, not one per event.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sim.units import Revision, Virtual

NEVER_US = Virtual(1 << 62)


class Timers(NamedTuple):
    """Virtual time and random draws, as the server provides them to its caches.

    call_at: calls a function at a virtual time
    uniform_us: draws a duration between two bounds
    """

    now_us: Callable[[], Virtual]
    call_at: Callable[..., None]
    uniform_us: Callable[[int, int], int]


class Horizon:
    """The commit time up to which one API server shows the store, for all its caches.

    lag_us: the delay behind the store
    frozen: True while the caches do not follow the store
    moved: callbacks after a change of lag or freezing
    """

    def __init__(self, timers: Timers, lag_us: int, start_rev: Revision) -> None:
        self.timers = timers
        self.lag_us = lag_us
        self.start_rev = start_rev
        self.progress_rev = start_rev  # of the store's progress notification, every 600 s
        self.progressed = False  # True after the first progress notification
        self.moved: list[Callable[[], None]] = []
        self.before_moved: list[Callable[[], None]] = []
        self._turned_us = Virtual(0)  # since when it advances as now
        self.frozen = False
        self._reached_us = Virtual(-1)
        # The phases so far: start time, commit time reached then, lag (NEVER_US while frozen).
        self._phases: list[tuple[int, Virtual, int]] = [(-NEVER_US, self._reached_us, lag_us)]

    def reached_us(self, before_us: int = 0) -> Virtual:
        """The commit time that is visible now, or was `before_us` ago."""
        if before_us:
            return self._reached_by(self.timers.now_us() - before_us)
        if not self.frozen:
            reached = self.timers.now_us() - self.lag_us
            if reached > self._reached_us:
                self._reached_us = reached
        return self._reached_us

    def _reached_by(self, at_us: Virtual) -> Virtual:
        _, from_us, lag_us = next(phase for phase in reversed(self._phases) if phase[0] <= at_us)
        return max(from_us, at_us - lag_us)

    def due_us(self, at_us: Virtual) -> Virtual:
        """When a commit at that time becomes visible."""
        return NEVER_US if self.frozen else at_us + self.lag_us

    def shown_us(self, at_us: Virtual) -> Virtual:
        """When a commit of that time, which was not visible when the horizon last changed its
        course, is shown.
        """
        return NEVER_US if self.frozen else max(self._turned_us, at_us + self.lag_us)

    def show_progress(self, rev: Revision) -> None:
        """Takes a progress notification of the store."""
        self.progress_rev, self.progressed = rev, True

    def set_lag(self, lag_us: int) -> None:
        """Changes the lag."""
        self._prepare_phase()
        self.lag_us = lag_us
        self._begin_phase()

    def freeze(self, frozen: bool) -> None:
        """Stops following the store (True), or follows it again (False)."""
        self._prepare_phase()
        self.frozen = frozen
        self._begin_phase()

    def _prepare_phase(self) -> None:
        """Notify the listeners before the phase ends, and fix what has been reached."""
        for notify in list(self.before_moved):
            notify()
        self.reached_us()

    def _begin_phase(self) -> None:
        """Begins a new phase."""
        self._turned_us = self.timers.now_us()
        lag_us = NEVER_US if self.frozen else self.lag_us
        if self._phases[-1][2] != lag_us:
            self._phases.append((self.timers.now_us(), self._reached_us, lag_us))
        for notify in self.moved:
            notify()
