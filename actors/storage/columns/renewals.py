"""Columnar renewals: thousands of lease renewals in arrays, while nothing disturbs them.

Turns the state on which each renewal depends (`Beater.state`) into one window at a time: which
leases are renewed within the next second, when, what is written and when their next renewals are,
each computed for all leases at once. As time advances, past renewals become runs of revisions and
of trace records.

Holds: the same instants, revisions, records and objects as with single renewals
(tests/property/test_columnar_renewals.py compares the traces). If a state changes
(`Standing.moved`), a server limits requests, or a listener needs single renewals or records, all
leases are renewed singly from that instant on; if another client writes one lease, this one is.

Mirrors  nothing upstream: thousands of kubelets renew their leases, each by itself.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

import numpy as np

from actors.storage.memory import MemoryStore
from sim.api.watch.columnar_renewals import Beater, Carrier, Course, Run, Window
from sim.api.watch.lease_renewals import Line
from sim.kernel.draws.dice import GAMMA, mix
from sim.kernel.kernel import Kernel
from sim.kernel.order import LATER, ORDER_BITS
from sim.kernel.pace import NEVER_US
from sim.units import SECOND, Virtual

SPAN_US = SECOND  # length of a window; no lease is renewed twice in one
GROWTH = 1024
BOUND_MAX = 1 << 31  # its product with a number of 32 bits fits
COLUMNS = (
    "ahead", "at", "back_low", "back_span", "bound", "end", "draw", "offset", "out_low", "out_span", "period", "sent", "series", "state",
    "store_low", "store_span", "written",
)  # fmt: skip

WORDS = ("draw", "state")  # columns of unsigned 64-bit numbers
Columns = dict[str, np.ndarray[Any, np.dtype[Any]]]


class Places:
    """The places of the open window: one for each renewal, in the order of their instants.

    times: the instants; pairs: with the series of each in the trace
    after: the columns after the renewals
    sent, ended: when each is sent, and when the one before it was answered
    done: how many have happened; copied: how many of these `Beats.columns` hold
    """

    __slots__ = ("after", "copied", "done", "ended", "pairs", "sent", "times", "window")

    def __init__(self, window: Window, before: Columns) -> None:
        at = before["at"]
        self.window = window
        self.times: list[Virtual] = at.tolist()
        self.pairs: Any = np.stack((before["series"], at), axis=1).astype("<i8")
        self.sent: Any = before["sent"]
        self.ended: Any = before["end"]
        self.after = following(before)
        self.done = self.copied = 0

    def drop(self, place: int) -> None:
        """Cancel the renewal at a place."""
        for name in ("rows", "at", "value", "time_s"):
            setattr(self.window, name, np.delete(getattr(self.window, name), place))
        del self.times[place]
        self.pairs = np.delete(self.pairs, place, 0)
        self.sent, self.ended = np.delete(self.sent, place), np.delete(self.ended, place)
        self.after = {name: np.delete(column, place) for name, column in self.after.items()}

    def order(self, place: int) -> int:
        """The order of a place among the calls of its instant, equal to that of `Heartbeat`."""
        sent_us, pause_us = int(self.sent[place]), int(self.sent[place] - self.ended[place])
        return sent_us << ORDER_BITS | LATER | (LATER - 1 - pause_us if pause_us < LATER else 0)


class Beats:
    """The leases with columnar renewals, and the present window.

    columns: arrays with one row per lease. `at`: when the next renewal is written (NEVER_US: it is
        a single one); `sent`: when it is sent; `written`, `end`: when the last one was written and
        answered; `state`, `draw`: of the next draw
    _places: of the open window; None between two windows
    """

    def __init__(self, kernel: Kernel, store: MemoryStore, prefix: str, watched: Callable[[], bool]) -> None:
        self._kernel, self._store, self._prefix = kernel, store, prefix
        self._watched = watched
        self.columns: Columns = {}
        self._who: list[tuple[Beater, Carrier] | None] = []
        self._lines: list[Line | None] = []  # by row; a window keeps the list of its start
        self._lent = False  # True if a window uses the list
        self.members = 0
        self._course = Course(np.empty(0, np.int64))
        self._bucket = store.follow(prefix, self._course, self.leave)
        self._heads: set[str] = set()  # of the keys of members, up to their names
        self._subscription: object = None
        self._epoch = -1
        self._carriers: list[Carrier] = []  # one for each server
        self._places: Places | None = None
        self._serial = 0
        self._end_us = Virtual(0)
        kernel.bulk = self._go_on

    # --- members ----------------------------------------------------------------------------------

    def join(self, beater: Beater, carrier: Carrier, next_us: Virtual) -> bool:
        """Take over the renewals of a lease, the next one at `next_us`; False if that is
        impossible.
        """
        line, ahead_us = carrier.line, carrier.ahead_us
        kernel, epoch = self._kernel, self._kernel.standing.epoch
        if line is None or ahead_us is None or not line.series or kernel.gate.replay:
            return False
        head = line.key[: line.key.rfind("/") + 1]
        if head not in self._heads:
            self._heads.add(head)
            self._subscription = None  # other subscribers may need them
        if self.members and self._disturbed():
            return False
        state = beater.state()
        if state["period"] < SPAN_US or not state["bound"] <= BOUND_MAX:
            return False
        if next_us < self._end_us and self.members:
            if self._places is not None and self._places.times:
                return False
            self._begin(next_us)
        elif not self.members:
            self._epoch, self._subscription, self._carriers = epoch, None, []
            if self._disturbed():
                return False
            self._begin(next_us)
        if not any(other.server is carrier.server for other in self._carriers):
            self._carriers.append(carrier)
        row = self._row(line.key)
        for name, value in {**state, "ahead": ahead_us, "series": line.series, "at": next_us}.items():
            self.columns[name][row] = value
        self._course.stays(row, self._bucket.items[line.key])
        if self._lent:
            self._lines, self._lent = self._lines.copy(), False
        self._who[row], self._lines[row] = (beater, carrier), line
        self.members += 1
        kernel.standing.deferred[self.plan] = None
        return True

    def _begin(self, at_us: Virtual) -> None:
        """Start the next window at `at_us`, when no window is open."""
        self._places = None
        self._end_us = self._kernel.bulk_us = at_us
        self._kernel.bulk_order = 0

    def _row(self, key: str) -> int:
        rows = self._course.rows
        row = rows.setdefault(key, len(rows))
        if row == len(self._who):
            self._who.append(None)
            self._lines.append(None)
        if not self.columns or row >= len(self.columns["at"]):
            more = GROWTH + len(self._who) // 2
            for name in COLUMNS:
                old = self.columns.get(name, np.empty(0, np.uint64 if name in WORDS else np.int64))
                fill = np.full(more, NEVER_US if name == "at" else 0, old.dtype)
                self.columns[name] = np.concatenate((old, fill))
            self._course.last = np.concatenate((self._course.last, np.full(more, -1, np.int64)))
        return row

    def leave(self, key: str) -> None:
        """Renew a lease singly from now on, because another client writes it."""
        row = self._course.rows.get(key)
        if row is not None and self._who[row] is not None:
            self._keep()
            places = self._places
            if places is not None:
                for place in (places.window.rows[places.done :] == row).nonzero()[0].tolist():
                    places.drop(places.done + place)
            self._part(row)
            if not self.members:
                self._kernel.bulk_us = NEVER_US

    def _part(self, row: int) -> Beater:
        """Renew a lease singly from now on."""
        known, line = self._who[row], self._lines[row]
        assert known is not None and line is not None
        beater, carrier = known
        self._who[row] = None
        self.members -= 1
        columns = self.columns
        self._bucket.bring(line.key)
        item: Any = self._bucket.items[line.key]
        self._course.stays(row, item)
        carrier.left(item)
        next_us, state = Virtual(columns["at"][row]), int(columns["state"][row])
        columns["at"][row] = NEVER_US
        beater.resume(Virtual(columns["written"][row]), Virtual(columns["end"][row]), next_us, state, item)
        return beater

    def _disturbed(self) -> bool:
        """True if the conditions under which the leases joined no longer hold."""
        if self._subscription is not self._bucket.subscription and self._store.unheard(
            self._prefix, self._heads
        ):
            self._subscription = self._bucket.subscription  # subscribers were added or removed
        if (
            self._epoch != self._kernel.standing.epoch
            or self._subscription is not self._bucket.subscription
            or self._watched()
        ):
            return True
        return any(carrier.bounded for carrier in self._carriers)

    def plan(self) -> None:
        """A state changes: renew all leases singly from now on."""
        for beater in self._part_all():
            beater.plan()

    def _part_all(self) -> list[Beater]:
        self._keep()
        places = self._places
        if places is not None:
            for place in range(len(places.times) - 1, places.done - 1, -1):
                places.drop(place)
        parted = [self._part(row) for row, known in enumerate(self._who) if known is not None]
        self._kernel.bulk_us = NEVER_US
        return parted

    # --- as time advances -------------------------------------------------------------------------

    def _go_on(self, until_us: Virtual, order: int) -> None:
        """Carry out what is due before a time, or at that time in an earlier order."""
        if self._disturbed():
            self._part_all()
            return
        while True:
            if (places := self._places) is not None:
                times, done = places.times, places.done
                to = bisect_left(times, until_us, done)
                while to < len(times) and times[to] == until_us and places.order(to) < order:
                    to += 1
                if to > done:
                    self._happen(places, to)
                if to < len(times):
                    self._kernel.bulk_us, self._kernel.bulk_order = times[to], places.order(to)
                    return
            if self._end_us > until_us or (self._end_us == until_us and not order):
                self._kernel.bulk_us, self._kernel.bulk_order = self._end_us, 0
                return
            self._keep()
            if not self.members:
                self._kernel.bulk_us = NEVER_US
                return
            self._open(max(self._end_us, Virtual(self.columns["at"].min())))

    def _happen(self, places: Places, hi: int) -> None:
        window, lo, kernel, store = places.window, places.done, self._kernel, self._store
        first = store.revision + 1
        ident = kernel.trace.run(first, places.pairs[lo:hi].tobytes())
        run = window.runs[-1] if window.runs else None
        if run is None or not (
            run.hi == lo and run.ident + lo - run.lo == ident and store.reach(self._bucket, run, hi)
        ):
            run = Run(self._course, window, lo, hi, first, ident, places.times[lo])
            window.runs.append(run)
            store.run(self._bucket, run)
        kernel.steps += hi - lo
        places.done = hi
        if len(self._carriers) == 1:
            self._carriers[0].carried(hi - lo)
        else:
            for row in window.rows[lo:hi].tolist():
                self._who[row][1].carried(1)

    def _keep(self) -> None:
        """Copy what has happened to the columns."""
        places = self._places
        if places is not None and places.copied < places.done:
            copied, done, window = places.copied, places.done, places.window
            rows = window.rows[copied:done]
            for name, column in places.after.items():
                self.columns[name][rows] = column[copied:done]
            self._course.last[rows] = window.serial
            places.copied = done

    def _open(self, begin_us: Virtual) -> None:
        """Open the window from `begin_us` on."""
        columns, end_us = self.columns, begin_us + SPAN_US
        rows = (columns["at"] < end_us).nonzero()[0]
        times = columns["at"][rows]
        places = times.argsort(kind="stable")
        if (np.diff(times[places]) == 0).any():  # rarely, two arrive in one microsecond
            places = np.lexsort((columns["end"][rows], columns["sent"][rows], times))
        rows = rows[places]
        mine = {name: column[rows] for name, column in columns.items() if name != "written"}
        at, value = mine["at"], mine["sent"] + mine["offset"]
        time_s = (at + mine["ahead"]) // SECOND
        self._serial += 1
        window = Window(self._serial, (rows.astype(np.int32), at, value, time_s), self._lines)
        self._lent, self._end_us, self._places = True, end_us, Places(window, mine)
        self._course.windows.append(window)


def following(mine: Columns) -> Columns:
    """The columns after one more renewal: `Heartbeat.beat` for many leases."""
    last, state = mine["draw"], mine["state"] + np.uint64(GAMMA)
    draw = mix(state)
    store = (last >> np.uint64(32) & np.uint64(0xFFFF)).astype(np.int64)
    back = (last >> np.uint64(16) & np.uint64(0xFFFF)).astype(np.int64)
    end = (
        mine["at"]
        + mine["store_low"] + (store * mine["store_span"] >> 16)
        + mine["back_low"] + (back * mine["back_span"] >> 16)
    )  # fmt: skip
    high, out = (draw >> np.uint64(32)).astype(np.int64), (draw & np.uint64(0xFFFF)).astype(np.int64)
    period, bound = mine["period"], mine["bound"]
    sent = end + np.where(bound > 0, period + (high * bound >> 32), period - end % period)
    return {
        "state": state,
        "draw": draw,
        "written": mine["at"],
        "end": end,
        "sent": sent,
        "at": sent + mine["out_low"] + (out * mine["out_span"] >> 16),
    }
