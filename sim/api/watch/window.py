"""The window of a watch cache: the recent events of one resource, from which a watch can start.

Holds: the content is the same whether changes are added one by one or many at once.

Mirrors  kubernetes v1.25 apiserver pkg/storage/cacher/watch_cache.go (resizeCacheLocked).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice

from sim.api.store import Change
from sim.api.watch.columnar_renewals import Runs
from sim.api.watch.horizon import NEVER_US
from sim.units import SECOND, Revision

# watch_cache.go: ring of 100 to 102400 events, sized to hold 75 s (eventFreshDuration).
WINDOW_MIN, WINDOW_MAX = 100, 102_400
FRESH_US = 75 * SECOND
RUN = 64  # events per piece, below WINDOW_MIN
PART = 8  # a full piece may hold an event of which its first one cannot be sure


def at_us(changes: Sequence[Change], index: int) -> int:
    """The commit time of one change, without making the change."""
    return changes.at_us(index) if type(changes) is Runs else changes[index].at_us


class Ring:
    """Changes in order, first in, first out; kept in the pieces in which they were added."""

    __slots__ = ("_ends", "_gone", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[Sequence[Change]] = []
        self._ends: list[int] = []  # of the pieces, counted from the first change ever added
        self._gone = 0

    def __len__(self) -> int:
        return self._ends[-1] - self._gone if self._ends else 0

    def __getitem__(self, index: int) -> Change:
        piece, place = self._find(index)
        return piece[place]

    def at_us(self, index: int) -> int:
        """The commit time of one change."""
        place = index + (
            self._gone if index >= 0 else self._ends[-1]
        )  # repeats `_find` for speed: called for each event
        at = bisect_right(self._ends, place)
        return at_us(self._pieces[at], place - self._ends[at])

    def rev(self, index: int) -> Revision:
        """The revision of one change, without making the change."""
        piece, place = self._find(index)
        return piece.rev(place) if type(piece) is Runs else piece[place].rev

    def after(self, rev: Revision) -> list[Change]:
        """The changes after a revision.

        Finds them by bisection: thousands of node agents call this, and nearly all find none.
        """
        places = range(len(self))
        return [self[at] for at in places[bisect_right(places, rev, key=self.rev) :]]

    def _find(self, index: int) -> tuple[Sequence[Change], int]:
        place = index + (self._gone if index >= 0 else self._ends[-1])
        at = bisect_right(self._ends, place)
        return self._pieces[at], place - self._ends[at]

    def __iter__(self) -> Iterator[Change]:
        return islice(chain.from_iterable(self._pieces), self._gone - self._begin(), None)

    def _begin(self) -> int:
        return self._ends[0] - len(self._pieces[0]) if self._ends else self._gone

    def extend(self, piece: Sequence[Change]) -> None:
        """Appends changes."""
        last = self._pieces[-1] if self._pieces else None
        if type(last) is list and type(piece) is list and len(last) < RUN:
            last += piece
            self._ends[-1] += len(piece)
        else:
            self._pieces.append(piece[:])
            self._ends.append((self._ends[-1] if self._ends else self._gone) + len(piece))

    def drop(self, count: int) -> Revision:
        """Drops the oldest changes; returns the revision of the last one dropped."""
        rev = self.rev(count - 1)
        self._gone += count
        whole = bisect_right(self._ends, self._gone)
        del self._pieces[:whole], self._ends[:whole]
        return rev

    def clear(self) -> None:
        """Drops all changes."""
        self._gone = self.total
        self._pieces, self._ends = [], []

    @property
    def total(self) -> int:
        """The number of changes that were ever added."""
        return self._ends[-1] if self._ends else self._gone


class Window:
    """The recent events of a resource, in a ring that grows and shrinks as upstream's does.

    start_rev: the revision at which it starts
    shown_us: the commit time up to which events are visible; later ones have not reached upstream's
        window, so they push none out
    """

    __slots__ = ("_full", "_shown_us", "capacity", "changes", "dropped_rev")

    def __init__(self, start_rev: Revision, shown_us: Callable[[], int] = lambda: NEVER_US) -> None:
        self.capacity = WINDOW_MIN
        self.changes = Ring()
        self.dropped_rev = start_rev  # events up to this revision are not in the window
        self._full = False  # True once an event was pushed out
        self._shown_us = shown_us

    @property
    def oldest(self) -> Revision:
        """The oldest revision that a watch can start after.

        Quirk (getAllEventsSinceLocked): once an event has been pushed out, it is the revision
        before the oldest event left, even if this resource did not change in between.
        """
        return self.changes.rev(0) - 1 if self._full and len(self.changes) else self.dropped_rev

    def restart(self, rev: Revision) -> None:
        """Restarts, empty, at a revision."""
        self.changes.clear()
        self.dropped_rev, self._full = rev, False

    def add(self, found: Sequence[Change]) -> None:
        """Adds changes in order, and drops old ones as upstream does."""
        if len(self.changes) + len(found) <= self.capacity:
            self.changes.extend(found)
            return
        start = 0
        while start < len(found):
            for size in (max(RUN, self.capacity // 4), RUN, PART):
                run = found[start : start + size]
                if self._shift(run):
                    break
            else:
                self._add(run)
            start += len(run)

    def _shift(self, run: Sequence[Change]) -> bool:
        """Adds a piece at once, if that certainly leaves the capacity unchanged; this is the usual
        case.

        Returns False, and changes nothing, if `_add` has to add it event by event.
        """
        changes, capacity = self.changes, self.capacity
        count = len(changes) + len(run) - capacity
        if count > len(run):
            return False  # an earlier event could not be pushed out
        if count > 0:
            first_us = at_us(run, len(run) - count)  # of the first event that pushes one out
            if first_us - changes.at_us(count - 1) < FRESH_US:
                return False
            if at_us(run, -1) - changes.at_us(-min(capacity // 4, len(changes))) > FRESH_US:
                return False
            if changes.at_us(count - 1) > self._shown_us():
                return False
            self.dropped_rev, self._full = changes.drop(count), True
        changes.extend(run)
        return True

    def _add(self, found: Sequence[Change]) -> None:
        """Adds changes one by one, and adapts the capacity."""
        changes, capacity = self.changes, self.capacity
        for change in found:
            if (count := len(changes)) >= capacity:
                if change.at_us - changes.at_us(0) < FRESH_US:
                    capacity = min(capacity * 2, WINDOW_MAX)
                elif change.at_us - changes.at_us(-(capacity // 4)) > FRESH_US:
                    capacity = max(capacity // 2, WINDOW_MIN)
                if (gone := count - capacity + 1) > 0 and changes.at_us(gone - 1) <= self._shown_us():
                    self.dropped_rev, self._full = changes.drop(gone), True
            changes.extend([change])
        self.capacity = capacity
