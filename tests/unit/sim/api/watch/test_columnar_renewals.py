"""Renewals in columns read as the same renewals one by one; the newest of each is found as of any
revision.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.api.store import Item, Managed
from sim.api.watch.columnar_renewals import Course, Run, Runs, Window, runs_of, spread
from sim.api.watch.lease_renewals import Line, Renewal

OWNER = Managed("m", "Update", "v1", 0, {}, "")
OBJECTS = 4


def line(number: int) -> Line:
    obj = {"metadata": {"name": str(number), "resourceVersion": "1"}, "spec": {"renewTime": "x"}}
    return Line(Item(f"//leases/{number}", obj, 1, 1), ("spec", "renewTime"), OWNER)


LINES = [line(number) for number in range(OBJECTS)]


class Made:
    """Windows of one renewal of each object, a second apart; after each run some other revisions."""

    def __init__(self, cuts: list[list[tuple[int, int]]]) -> None:
        self.course = Course(np.full(OBJECTS, -1))
        self.course.rows = {line.key: row for row, line in enumerate(LINES)}
        self.pieces: list[Run | Renewal] = []
        rev = 10
        for serial, lengths in enumerate(cuts):
            at = np.arange(OBJECTS) * 100 + serial * 1_000_000
            window = Window(serial, (np.arange(OBJECTS), at, at + 5, at // 1_000_000), LINES)
            self.course.windows.append(window)
            lo = 0
            for length, others in lengths:
                hi = min(OBJECTS, lo + length)
                if hi > lo:
                    window.runs.append(Run(self.course, window, lo, hi, rev, rev + 1000, int(at[lo])))
                    self.pieces.append(window.runs[-1])
                    self.course.last[lo:hi] = serial
                rev += hi - lo
                for _ in range(others):
                    single = Renewal(LINES[0], Item("x", {}, 1, 1), rev, 7, 7, 7, int(at[hi - 1]))
                    self.pieces.append(single)
                    rev += 1
                lo = hi

    @property
    def single(self) -> list[Renewal]:
        return spread(self.pieces)


CUTS = st.lists(
    st.lists(st.tuples(st.integers(1, OBJECTS), st.integers(0, 2)), min_size=1, max_size=4),
    min_size=1,
    max_size=5,
).map(Made)


def shown(renewals: object) -> list[tuple[object, ...]]:
    assert isinstance(renewals, (list, Runs))
    return [(r.key, r.rev, r.value, r.at_us, r.cause, r.time_s, r.obj) for r in renewals]


@given(CUTS, st.data())
def test_a_part_of_runs_is_the_same_part_of_the_renewals(made: Made, data: st.DataObject) -> None:
    runs, single = Runs(made.pieces), made.single
    for _ in range(3):
        start, stop = (data.draw(st.integers(0, len(single))) for _ in range(2))
        assert (shown(runs), len(runs)) == (shown(single), len(single))
        before, after = runs[:start], runs[start:]
        assert shown(before.plus(after)) == shown(single)
        at_us = data.draw(st.sampled_from([0, *(r.at_us for r in single)]))
        assert shown(runs.until(at_us)) == shown([r for r in single if r.at_us <= at_us])
        runs, single = runs[start:stop], single[start:stop]
        if single:
            assert shown(Runs([runs[0], runs[-1]])) == shown([single[0], single[-1]])


@given(CUTS)
def test_stretches_and_gathered_runs_hold_each_renewal_once(made: Made) -> None:
    runs = Runs(made.pieces)
    revs: list[int] = []
    for stretch in runs.stretches():
        if isinstance(stretch, Renewal):
            revs.append(stretch.rev)
        else:
            window, lo, hi = stretch
            revs += [run.first + place - run.lo for place in range(lo, hi) if (run := window.run_of(place))]
    assert sorted(revs) == [renewal.rev for renewal in made.single]
    gathered = runs_of(list(runs))
    assert gathered is not None
    assert shown(gathered) == shown(runs)
    assert runs_of([*runs, object()]) is None


@given(CUTS, st.integers(0, 60))
def test_the_newest_is_found_as_of_any_revision_that_history_has(made: Made, floor: int) -> None:
    made.course.trim(floor)
    mine = [r for r in made.single if r.cause >= 1000]
    for rev in range(floor, 70):
        for known in LINES:
            newest = [r for r in mine if r.key == known.key and r.rev <= rev]
            found = made.course.newest(known.key, rev)
            assert (found and found.rev) == (newest[-1].rev if newest else None)


def test_renewal_refers_to_the_one_before_while_it_is_found() -> None:
    made = Made([[(4, 0)], [(2, 1), (2, 0)], [(4, 0)]])
    mine = [r for r in made.single if r.key == LINES[3].key and r.cause >= 1000]
    assert [after.prev.rev for _, after in pairwise(mine) if after.prev] == [
        before.rev for before in mine[:-1]
    ]
    assert mine[0].prev is None


def test_a_place_outside_is_no_place() -> None:
    runs = Runs(Made([[(4, 0)]]).pieces)
    for index in (4, -5):
        with pytest.raises(IndexError):
            runs[index]
