"""Renewals by the thousand: revisions kept in columns, made into objects when somebody looks at one.

Turns a `Window` (what beats within a second, in the order of time) and the revisions it has come to have (`Run`s, each a
stretch without another write in between) into `Renewal`s, sequences of them (`Runs`), and the newest of one object as
of a revision (`Course`).

Holds: what is made is what the store would have kept, object by object; a place in a window that no run covers has not
happened; of each object the newest is found however old it is, and of the older ones those that history still has.

Columns are numpy arrays, made elsewhere: where few objects are renewed none are, and numpy is not loaded.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from itertools import accumulate
from operator import attrgetter
from typing import Any, Protocol, overload

from sim.api.store import Item
from sim.api.watch.lease_renewals import KINDS, Line, Renewal, all_renewals

KEPT = 16  # windows that stay although history has let go of them: in these nearly everybody has renewed


class Beater(Protocol):
    """Who renews one object for ever."""

    cause: int

    def state(self) -> dict[str, int]:
        """What the coming beats depend on, by the names of the columns that keep it."""
        ...

    def resume(self, written_us: int, end_us: int, next_us: int, state: int, item: Item) -> None:
        """Go on alone: `item` is what the last renewal wrote, which was written and answered then; the next is written then."""
        ...

    def plan(self) -> None:
        """Something moves: go on by ordinary requests."""
        ...


class Carrier(Protocol):
    """The way by which one object is renewed.  ahead_us: of virtual time, the clock of the server that writes."""

    @property
    def server(self) -> object: ...
    @property
    def line(self) -> Line | None: ...
    @property
    def ahead_us(self) -> int | None: ...
    @property
    def bounded(self) -> bool:
        """Whether a renewal may have to wait."""
        ...

    def carried(self, count: int) -> None:
        """So many renewals of objects that go by the same server were written."""
        ...

    def left(self, item: Item) -> None:
        """Renewals are written one by one again, after this one."""
        ...


class Crowd(Protocol):
    """Who renews thousands of objects."""

    def join(self, beater: Beater, carrier: Carrier, next_us: int) -> bool:
        """Take over what `beater` does by `carrier` from its next beat on; False: not now."""
        ...

    def leave(self, key: str) -> None:
        """Let its beater go on alone, if it has joined."""
        ...


class Window:
    """What beats within a second.  By place, in order of time:

    rows: whose turn it is (`Course.rows`); at: when, virtual us; value: the time that is written; time_s: of ownership
    lines: by row
    """

    __slots__ = ("at", "lines", "rows", "runs", "serial", "time_s", "value")

    def __init__(self, serial: int, columns: tuple[Any, Any, Any, Any], lines: list[Line | None]) -> None:
        self.serial = serial
        self.rows, self.at, self.value, self.time_s = columns
        self.lines = lines
        self.runs: list[Run] = []

    def run_of(self, place: int) -> Run | None:
        """The stretch in which a place has happened."""
        runs = self.runs
        at = bisect_right(runs, place, key=attrgetter("lo")) - 1
        return runs[at] if at >= 0 and place < runs[at].hi else None


class Run:
    """Places `lo` to `hi` of a window: revisions `first` to `rev`, trace records from `ident` on.  at_us: of the first.

    The last of a log may still reach further; what is handed out of it does not.
    """

    __slots__ = ("at_us", "course", "first", "hi", "ident", "lo", "rev", "window")

    def __init__(
        self, course: Course, window: Window, lo: int, hi: int, first: int, ident: int, at_us: int
    ) -> None:
        self.course = course
        self.window = window
        self.lo, self.hi = lo, hi
        self.first, self.rev = first, first + hi - lo - 1
        self.ident = ident
        self.at_us = at_us

    def reach(self, hi: int) -> None:
        """More has happened, with nothing in between."""
        self.hi, self.rev = hi, self.first + hi - self.lo - 1

    def cut(self, lo: int, hi: int) -> Run:
        """The part between two places."""
        skipped, at_us = lo - self.lo, int(self.window.at[lo])
        return Run(self.course, self.window, lo, hi, self.first + skipped, self.ident + skipped, at_us)

    def after(self, rev: int) -> Run:
        """Without what lies at or before a revision (which is not the last of it)."""
        return self.cut(max(self.lo, self.lo + rev + 1 - self.first), self.hi)

    def visible(self, at_us: int) -> int:
        """The place after the last that has happened by then."""
        return bisect_right(self.window.at, at_us, self.lo, self.hi)

    def make(self, place: int) -> Renewal:
        return Found(self, place)

    def __iter__(self) -> Iterator[Renewal]:
        return map(self.make, range(self.lo, self.hi))


class Found(Renewal):
    """A renewal made of columns."""

    __slots__ = ("_course", "_row")

    def __init__(self, run: Run, place: int) -> None:
        window, offset = run.window, place - run.lo
        self._row = row = int(window.rows[place])
        line = window.lines[row]
        assert line is not None
        self.key = line.key
        self.rev = run.first + offset
        self.cause = run.ident + offset
        self.raw = self._built = None
        self.value = int(window.value[place])
        self.time_s = int(window.time_s[place])
        self.at_us = int(window.at[place])
        self._line = line
        self._course = run.course

    @property
    def prev(self) -> Item | None:  # type: ignore[override]
        """The revision before, as long as it is found."""
        return self._course.find(self._row, self.rev - 1)

    def forget(self) -> None:
        """It holds on to nothing."""


KINDS.add(Found)


class Runs(Sequence[Any]):
    """One renewal after the other, in the order of revisions; in pieces, which are runs or single ones.

    A part of one, and one and what follows it there, is made without a look at the pieces.
    """

    __slots__ = ("_all", "_ends", "_start", "_stop")

    def __init__(self, pieces: list[Run | Renewal]) -> None:
        self._all = pieces
        self._ends = [*accumulate(piece.hi - piece.lo if isinstance(piece, Run) else 1 for piece in pieces)]
        self._start, self._stop = 0, self._ends[-1] if pieces else 0

    def _part(self, start: int, stop: int) -> Runs:
        part = Runs.__new__(Runs)
        part._all, part._ends = self._all, self._ends
        part._start, part._stop = start, max(start, stop)
        return part

    @property
    def pieces(self) -> list[Run | Renewal]:
        if self._start == self._stop:
            return []
        first, last = bisect_right(self._ends, self._start), bisect_left(self._ends, self._stop)
        found = self._all[first : last + 1]
        if isinstance(end := found[-1], Run):
            found[-1] = end.cut(end.lo, end.lo + self._stop - self._before(last))
        if isinstance(begin := found[0], Run) and (skipped := self._start - self._before(first)):
            found[0] = begin.cut(begin.lo + skipped, begin.hi)
        return found

    def _before(self, number: int) -> int:
        """How many there are in the pieces before one."""
        return self._ends[number - 1] if number else 0

    @property
    def last(self) -> Run | None:
        """The last that is a run."""
        return next((piece for piece in reversed(self.pieces) if isinstance(piece, Run)), None)

    def plus(self, later: Runs) -> Runs:
        if later._all is self._all and later._start == self._stop:
            return self._part(self._start, later._stop)
        return Runs([*self.pieces, *later.pieces])

    def __len__(self) -> int:
        return self._stop - self._start

    def __iter__(self) -> Iterator[Renewal]:
        return iter(spread(self.pieces))

    @overload
    def __getitem__(self, index: int) -> Renewal: ...
    @overload
    def __getitem__(self, index: slice) -> Runs: ...
    def __getitem__(self, index: int | slice) -> Renewal | Runs:
        if isinstance(index, slice):
            start, stop, _ = index.indices(len(self))
            return self._part(self._start + start, self._start + stop)
        piece, place = self._find(index)
        return piece.make(place) if isinstance(piece, Run) else piece

    def _find(self, index: int) -> tuple[Run | Renewal, int]:
        """The piece in which one of them is, and its place in that."""
        at = index + (self._start if index >= 0 else self._stop)
        if not self._start <= at < self._stop:
            raise IndexError(index)
        number = bisect_right(self._ends, at)
        piece = self._all[number]
        return piece, piece.lo + at - self._before(number) if isinstance(piece, Run) else 0

    def at_us(self, index: int) -> int:
        """When one of them happened."""
        piece, place = self._find(index)
        return int(piece.window.at[place]) if isinstance(piece, Run) else piece.at_us

    def rev(self, index: int) -> int:
        """The revision of one of them."""
        piece, place = self._find(index)
        return piece.first + place - piece.lo if isinstance(piece, Run) else piece.rev

    def until(self, at_us: int) -> Runs:
        """Those that have happened by then."""
        number = bisect_right(self._all, at_us, key=attrgetter("at_us"))
        if not number:
            return self._part(self._start, self._start)
        piece, end = self._all[number - 1], self._ends[number - 1]
        if isinstance(piece, Run):
            end = self._before(number - 1) + piece.visible(at_us) - piece.lo
        return self._part(self._start, min(self._stop, end))

    def stretches(self) -> Iterator[tuple[Window, int, int] | Renewal]:
        """The same as parts of windows, as few as there can be, and what is single.

        A single one may come before a stretch that has begun earlier: they are of different objects.
        """
        window, lo, hi = None, 0, 0
        for piece in self.pieces:
            if not isinstance(piece, Run):
                yield piece
                continue
            if piece.window is not window:
                if window is not None:
                    yield window, lo, hi
                window, lo = piece.window, piece.lo
            hi = piece.hi
        if window is not None:
            yield window, lo, hi


class Course:
    """The renewals of one resource that are kept in columns.

    rows: key to number, for ever; last: by row, in which window (by its serial) its newest place that has happened lies,
    -1 for none (the window that is open is looked at first); rest: by row, revisions that are in no window, or whose window
    goes: those before a stretch of renewals, the last of it, and the newest at the floor
    """

    def __init__(self, last: Any) -> None:
        self.rows: dict[str, int] = {}
        self.last = last
        self.windows: list[Window] = []
        self.rest: dict[int, list[Item]] = {}

    def newest(self, key: str, rev: int) -> Item | None:
        """The newest of an object as of a revision; None if history has none."""
        row = self.rows.get(key)
        return None if row is None else self.find(row, rev)

    def find(self, row: int, rev: int) -> Item | None:
        found: Item | None = None
        windows = self.windows
        if windows:
            found = self._in(windows[-1], row, rev)
            at = int(self.last[row]) - windows[0].serial
            while found is None and at >= 0:
                found = self._in(windows[at], row, rev)
                at -= 1
        for item in reversed(self.rest.get(row, ())):
            if item.rev <= rev:
                return item if found is None or item.rev > found.rev else found
        return found

    def stays(self, row: int, item: Item) -> None:
        """A revision that is to be found although no window has it, or though its window goes."""
        known = self.rest.setdefault(row, [])
        if all(other.rev != item.rev for other in known):
            insort(known, item, key=attrgetter("rev"))

    @staticmethod
    def _in(window: Window, row: int, rev: int) -> Renewal | None:
        if not window.runs or window.runs[0].first > rev:
            return None
        for place in (window.rows == row).nonzero()[0].tolist():
            run = window.run_of(place)
            if run is not None and run.first + place - run.lo <= rev:
                return run.make(place)
        return None

    def trim(self, rev: int) -> None:
        """History up to a revision goes; of each object the newest in it stays."""
        windows = self.windows
        past = 0  # windows of which nothing is history any more
        while past < len(windows) - 1 and (not windows[past].runs or windows[past].runs[-1].rev <= rev):
            past += 1
        gone = max(0, past - KEPT)
        seen = self.last < -1  # nobody
        for window in windows[gone:past]:
            for kept in window.runs:
                seen[window.rows[kept.lo : kept.hi]] = True
        for window in reversed(windows[:gone]):
            unseen = ~seen[window.rows]
            for place in unseen.nonzero()[0].tolist():
                run = window.run_of(place)
                if run is not None:
                    row = int(window.rows[place])
                    seen[row] = True
                    self.stays(row, run.make(place))
        for window in windows[:gone]:
            window.runs = []  # they hold on to it, and in a run nobody looks for cycles
        del windows[:gone]
        for known in [known for known in self.rest.values() if len(known) > 1]:
            del known[: max(0, bisect_right(known, rev, key=attrgetter("rev")) - 1)]


def is_renewed(piece: object) -> bool:
    """Whether it is a run of renewals, or one."""
    return type(piece) is Run or type(piece) in KINDS


def in_runs(found: Sequence[object]) -> bool:
    """Whether there are runs, and beside them nothing but renewals."""
    kinds = {*map(type, found)}
    return Run in kinds and kinds - {Run} <= KINDS


def runs_of(found: Sequence[Any]) -> Runs | None:
    """As runs; None if there is more than renewals."""
    if isinstance(found, Runs):
        return found
    return Runs([*found]) if all_renewals(found) else None


def spread(found: Sequence[Any]) -> list[Any]:
    """One change after the other."""
    changes: list[Any] = []
    for change in found:
        if type(change) is Run:
            changes += change
        else:
            changes.append(change)
    return changes
