"""Columnar renewals: lease renewals of thousands of objects in arrays, made into objects when they
are read.

A `Window` holds the renewals that are due within one second, in order of time. A `Run` is a stretch
of them that the store has committed without another write in between. They are read as `Renewal`s,
as sequences of them (`Runs`), and as the newest of one object as of a revision (`Course`).

Holds: what is read is what the store would have kept, object by object; a place of a window that no
run covers has not happened; the newest renewal of each object is found however old it is, and
earlier ones while history has them.

Columns are numpy arrays, made elsewhere: where few objects are renewed there are none, and numpy is
not loaded.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from itertools import accumulate
from operator import attrgetter
from typing import Any, Protocol, overload

from sim.api.store import Item
from sim.api.watch.lease_renewals import KINDS, Line, Renewal, all_renewals
from sim.units import Revision, Virtual

KEPT = 16  # windows kept after they leave the history: nearly every object has renewed in them


class Beater(Protocol):
    """A process that renews one object for ever."""

    cause: int

    def state(self) -> dict[str, int]:
        """What the next renewals depend on, by the names of the columns that keep it."""
        ...

    def resume(self, written_us: Virtual, end_us: Virtual, next_us: Virtual, state: int, item: Item) -> None:
        """Continue alone.

        written_us, end_us: when the last renewal was written, and when it was answered
        next_us: when the next renewal is written
        item: what the last renewal wrote
        """
        ...

    def plan(self) -> None:
        """Continue by ordinary requests, because something moves."""
        ...


class Carrier(Protocol):
    """An API server's fast path by which the renewals of one object reach the store."""

    @property
    def server(self) -> object:
        """The API server that writes them."""

    @property
    def latency_us(self) -> tuple[int, int]:
        """Lower and upper bound of the storage's latency of a write."""
        ...

    def beat(self, value: int, at_us: Virtual) -> Item | None:
        """Commit the time now, if everything that the ordinary path checks is certain to pass;
        otherwise returns None.
        """
        ...

    def join(self, beater: Beater, next_us: Virtual) -> bool:
        """True if columnar renewals take over from here until a state changes (`Beater.resume`)."""
        ...

    @property
    def line(self) -> Line | None:
        """What the object's renewals share; None if they cannot be columnar."""

    @property
    def ahead_us(self) -> int | None:
        """How far the clock of that server is ahead of virtual time."""

    @property
    def bounded(self) -> bool:
        """True if a renewal may have to wait."""
        ...

    def carried(self, count: int) -> None:
        """Called after that number of renewals of objects with the same server were written."""
        ...

    def left(self, item: Item) -> None:
        """Called when renewals are written one by one again, after this one."""
        ...


class Crowd(Protocol):
    """The component that renews thousands of objects."""

    def join(self, beater: Beater, carrier: Carrier, next_us: Virtual) -> bool:
        """Takes over the renewals of `beater` from the next one on; returns False if it does not."""
        ...

    def leave(self, key: str) -> None:
        """Makes the object's beater continue alone, if it has joined."""
        ...


class Window:
    """The renewals due within one second. Columns by place, in order of time:

    rows: the number of the object (`Course.rows`)
    at: when, virtual microseconds
    value: the time that is written
    time_s: the time of the ownership entry
    lines: by row, what the renewals of an object share
    """

    __slots__ = ("at", "lines", "rows", "runs", "serial", "time_s", "value")

    def __init__(self, serial: int, columns: tuple[Any, Any, Any, Any], lines: list[Line | None]) -> None:
        self.serial = serial
        self.rows, self.at, self.value, self.time_s = columns
        self.lines = lines
        self.runs: list[Run] = []

    def run_of(self, place: int) -> Run | None:
        """The run that covers a place; None if the place has not happened."""
        runs = self.runs
        at = bisect_right(runs, place, key=attrgetter("lo")) - 1
        return runs[at] if at >= 0 and place < runs[at].hi else None


class Run:
    """The committed places `lo` to `hi` of a window.

    first, rev: the revisions of the first and the last
    ident: the trace record of the first
    at_us: the commit time of the first

    The last run of a log may still grow; the parts that are handed out of it do not.
    """

    __slots__ = ("at_us", "course", "first", "hi", "ident", "lo", "rev", "window")

    def __init__(
        self, course: Course, window: Window, lo: int, hi: int, first: Revision, ident: int, at_us: Virtual
    ) -> None:
        self.course = course
        self.window = window
        self.lo, self.hi = lo, hi
        self.first, self.rev = first, first + hi - lo - 1
        self.ident = ident
        self.at_us = at_us

    def reach(self, hi: int) -> None:
        """Extends the run: more places were committed, with no other write in between."""
        self.hi, self.rev = hi, self.first + hi - self.lo - 1

    def cut(self, lo: int, hi: int) -> Run:
        """The part between two places."""
        skipped, at_us = lo - self.lo, Virtual(self.window.at[lo])
        return Run(self.course, self.window, lo, hi, self.first + skipped, self.ident + skipped, at_us)

    def after(self, rev: Revision) -> Run:
        """The part after a revision, which is not the run's last."""
        return self.cut(max(self.lo, self.lo + rev + 1 - self.first), self.hi)

    def visible(self, at_us: Virtual) -> int:
        """The place after the last one committed by that time."""
        return bisect_right(self.window.at, at_us, self.lo, self.hi)

    def make(self, place: int) -> Renewal:
        """The renewal at a place."""
        return Found(self, place)

    def __iter__(self) -> Iterator[Renewal]:
        return map(self.make, range(self.lo, self.hi))


class Found(Renewal):
    """A renewal made from columns."""

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
        self.at_us = Virtual(window.at[place])
        self._line = line
        self._course = run.course

    @property
    def prev(self) -> Item | None:  # type: ignore[override]
        """The revision before, while it can be found."""
        return self._course.find(self._row, self.rev - 1)

    def forget(self) -> None:
        """Does nothing: it refers to no earlier revision."""


KINDS.add(Found)


class Runs(Sequence[Any]):
    """A sequence of renewals in the order of revisions, in pieces, which are runs or single
    renewals.

    A slice, and a slice joined with its continuation, share the pieces.
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
        """The pieces within this part."""
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
        """The number of renewals in the pieces before one."""
        return self._ends[number - 1] if number else 0

    @property
    def last(self) -> Run | None:
        """The last piece that is a run."""
        return next((piece for piece in reversed(self.pieces) if isinstance(piece, Run)), None)

    def plus(self, later: Runs) -> Runs:
        """This sequence followed by a later one."""
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
        """The piece that holds a renewal, and the renewal's place in it."""
        at = index + (self._start if index >= 0 else self._stop)
        if not self._start <= at < self._stop:
            raise IndexError(index)
        number = bisect_right(self._ends, at)
        piece = self._all[number]
        return piece, piece.lo + at - self._before(number) if isinstance(piece, Run) else 0

    def at_us(self, index: int) -> Virtual:
        """The commit time of one renewal."""
        piece, place = self._find(index)
        return Virtual(piece.window.at[place]) if isinstance(piece, Run) else piece.at_us

    def rev(self, index: int) -> Revision:
        """The revision of one renewal."""
        piece, place = self._find(index)
        return piece.first + place - piece.lo if isinstance(piece, Run) else piece.rev

    def until(self, at_us: Virtual) -> Runs:
        """The renewals committed by that time."""
        number = bisect_right(self._all, at_us, key=attrgetter("at_us"))
        if not number:
            return self._part(self._start, self._start)
        piece, end = self._all[number - 1], self._ends[number - 1]
        if isinstance(piece, Run):
            end = self._before(number - 1) + piece.visible(at_us) - piece.lo
        return self._part(self._start, min(self._stop, end))

    def stretches(self) -> Iterator[tuple[Window, int, int] | Renewal]:
        """The same as the fewest possible parts of windows, and single renewals.

        A single renewal may precede a stretch that began earlier: they are of different objects.
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
    """The columnar renewals of one resource.

    rows: the number of each key, for ever
    last: by row, the serial of the window with the newest committed renewal, -1 for none (the open
        window is searched first)
    rest: by row, revisions outside of the windows: those before a stretch of renewals, its last,
        and the newest at the floor
    """

    def __init__(self, last: Any) -> None:
        self.rows: dict[str, int] = {}
        self.last = last
        self.windows: list[Window] = []
        self.rest: dict[int, list[Item]] = {}

    def clear(self) -> None:
        """Forget all revisions."""
        self.windows.clear()
        self.rest.clear()
        self.last[:] = -1

    def newest(self, key: str, rev: Revision) -> Item | None:
        """The newest revision of an object as of `rev`; None if history has none."""
        row = self.rows.get(key)
        return None if row is None else self.find(row, rev)

    def find(self, row: int, rev: Revision) -> Item | None:
        """As `newest`, by row."""
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
        """Keeps a revision that lies in no window, or in one that is about to be dropped."""
        known = self.rest.setdefault(row, [])
        if all(other.rev != item.rev for other in known):
            insort(known, item, key=attrgetter("rev"))

    @staticmethod
    def _in(window: Window, row: int, rev: Revision) -> Renewal | None:
        if not window.runs or window.runs[0].first > rev:
            return None
        for place in (window.rows == row).nonzero()[0].tolist():
            run = window.run_of(place)
            if run is not None and run.first + place - run.lo <= rev:
                return run.make(place)
        return None

    def trim(self, rev: Revision) -> None:
        """Drops the history up to a revision, except the newest revision of each object in it."""
        windows = self.windows
        past = 0  # windows that lie wholly outside of the history
        while past < len(windows) - 1 and (not windows[past].runs or windows[past].runs[-1].rev <= rev):
            past += 1
        gone = max(0, past - KEPT)
        seen = self.last < -1  # none yet
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
            window.runs = []  # runs refer to their window, and the cyclic collector ignores them
        del windows[:gone]
        for known in [known for known in self.rest.values() if len(known) > 1]:
            del known[: max(0, bisect_right(known, rev, key=attrgetter("rev")) - 1)]


def is_renewed(piece: object) -> bool:
    """True for a run and for a single renewal."""
    return type(piece) is Run or type(piece) in KINDS


def in_runs(found: Sequence[object]) -> bool:
    """True if the sequence holds at least one run, and nothing but runs and renewals."""
    kinds = {*map(type, found)}
    return Run in kinds and kinds - {Run} <= KINDS


def runs_of(found: Sequence[Any]) -> Runs | None:
    """The sequence as `Runs`; None if it holds anything but renewals."""
    if type(found) is Runs:
        return found
    return Runs([*found]) if all_renewals(found) else None


def spread(found: Sequence[Any]) -> list[Any]:
    """The sequence with each run replaced by its renewals."""
    changes: list[Any] = []
    for change in found:
        if type(change) is Run:
            changes += change
        else:
            changes.append(change)
    return changes
