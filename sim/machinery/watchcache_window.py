"""The recent events of one resource, as many as a watch cache keeps.

Turns the changes of a resource, in order, into those that a watch can start from.

Holds: what is kept is the same whether changes come one by one or many at once.

Mirrors  kubernetes v1.25 apiserver pkg/storage/cacher/watch_cache.go (resizeCacheLocked).
"""

from __future__ import annotations

from collections import deque

from sim.machinery.store import Change
from sim.units import SECOND

# watch_cache.go: ring of 100 to 102400 events, sized to hold 75 s (eventFreshDuration).
WINDOW_MIN, WINDOW_MAX = 100, 102_400
FRESH_US = 75 * SECOND
RUN = 64  # events taken in at once, below WINDOW_MIN


class Window:
    """The recent events of a resource, in a ring that grows and shrinks as upstream's does."""

    __slots__ = ("capacity", "changes", "dropped_rev")

    def __init__(self, start_rev: int) -> None:
        self.capacity = WINDOW_MIN
        self.changes: deque[Change] = deque()
        self.dropped_rev = start_rev  # events up to this revision are not in the window

    def add(self, found: list[Change]) -> None:
        if len(self.changes) + len(found) <= self.capacity:
            self.changes.extend(found)
            return
        for start in range(0, len(found), RUN):
            run = found[start : start + RUN]
            if not self._shift(run):
                self._add(run)

    def _shift(self, run: list[Change]) -> bool:
        """As `_add`, at once where that surely leaves the capacity as it is: the usual case."""
        changes, capacity = self.changes, self.capacity
        count = len(changes) + len(run) - capacity
        if count > 0:
            first_us = run[len(run) - count].at_us  # of the first that has another one go
            if first_us - changes[count - 1].at_us < FRESH_US:
                return False
            if run[-1].at_us - changes[-min(capacity // 4, len(changes))].at_us > FRESH_US:
                return False
            for _ in range(count):
                gone = changes.popleft()
            self.dropped_rev = gone.rev
        changes.extend(run)
        return True

    def _add(self, found: list[Change]) -> None:
        changes, capacity = self.changes, self.capacity
        count = len(changes)
        for change in found:
            if count >= capacity:
                if change.at_us - changes[0].at_us < FRESH_US:
                    capacity = min(capacity * 2, WINDOW_MAX)
                elif change.at_us - changes[-(capacity // 4)].at_us > FRESH_US:
                    capacity = max(capacity // 2, WINDOW_MIN)
                while count >= capacity:
                    self.dropped_rev = changes.popleft().rev
                    count -= 1
            changes.append(change)
            count += 1
        self.capacity = capacity
