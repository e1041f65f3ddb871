"""The window of a watch cache grows and shrinks as upstream's ring does; the horizon never goes
back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.api.store import Change, Item
from sim.api.watch import window as windows
from sim.api.watch.horizon import Horizon
from sim.api.watch.window import WINDOW_MIN, Ring, Window

S = 1_000_000


def change(rev: int, at_us: int) -> Change:
    return Change(rev, Item("//pods/a/x", {}, rev, 1), None, False, at_us)


def test_a_window_of_quick_events_doubles_and_one_of_slow_events_keeps_its_size() -> None:
    quick, slow = Window(0), Window(0)
    for n in range(250):
        quick.add([change(n + 1, n * 1000)])
        slow.add([change(n + 1, n * 100 * S)])
    assert (quick.capacity, quick.dropped_rev) == (400, 0)
    assert (slow.capacity, len(slow.changes), slow.dropped_rev) == (WINDOW_MIN, WINDOW_MIN, 150)


def test_a_window_that_grew_shrinks_when_its_newest_quarter_spans_too_long() -> None:
    window = Window(0)
    for n in range(201):
        window.add([change(n + 1, n)])
    assert window.capacity == 400
    for n in range(201, 500):
        window.add([change(n + 1, n * 10 * S)])
    assert window.capacity < 400
    assert len(window.changes) <= window.capacity


def test_a_window_just_long_enough_takes_in_events_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    window, single = Window(0), []
    add = Window._add

    def counted(self: Window, found: list[Change]) -> None:
        single.append(len(found))
        add(self, found)

    monkeypatch.setattr(Window, "_add", counted)
    every_us = 82 * S // WINDOW_MIN  # the window holds 82 s; 64 events span 52 s, and 8 span 7
    window.add([change(n + 1, n * every_us) for n in range(WINDOW_MIN)])
    window.add([change(n + 1, n * every_us) for n in range(WINDOW_MIN, 2 * WINDOW_MIN)])
    assert window.capacity == WINDOW_MIN
    assert sum(single) < WINDOW_MIN


@given(st.lists(st.tuples(st.integers(0, 90), st.integers(0, 70))))
def test_a_ring_shows_what_a_list_would(steps: list[tuple[int, int]]) -> None:
    ring, known, rev = Ring(), list[Change](), 0
    for more, gone in steps:
        piece = [change(rev + n, rev + n) for n in range(more)]
        rev += more
        known += piece
        ring.extend(piece)
        if gone and gone <= len(known):
            assert ring.drop(gone) == known[gone - 1].rev
            del known[:gone]
        assert (list(ring), len(ring)) == (known, len(known))
        assert [ring[n] for n in range(-len(known), len(known))] == known + known
        for since in (0, rev // 2, rev):
            assert ring.after(since) == [one for one in known if one.rev > since]


class Clock:
    def __init__(self) -> None:
        self.now = 0

    def now_us(self) -> int:
        return self.now

    def call_at(self, at_us: int, fn: Callable[[Any], None], arg: Any = None) -> None:
        raise AssertionError("a horizon plans nothing")

    def uniform_us(self, low_us: int, high_us: int) -> int:
        return low_us


def test_horizon_never_goes_back_and_does_not_advance_while_frozen() -> None:
    clock = Clock()
    horizon = Horizon(clock, 500, 0)
    clock.now = 10 * S
    assert horizon.reached_us() == 10 * S - 500
    horizon.set_lag(5 * S)
    assert horizon.reached_us() == 10 * S - 500
    clock.now = 16 * S
    assert horizon.reached_us() == 11 * S
    horizon.freeze(True)
    clock.now = 60 * S
    assert horizon.reached_us() == 11 * S
    horizon.freeze(False)
    assert horizon.reached_us() == 55 * S
    # at earlier times: just frozen, frozen for some time, before that, and with less lag
    assert [horizon.reached_us((60 - at) * S) for at in (59, 17, 12, 9)] == [
        11 * S,
        11 * S,
        10 * S - 500,
        9 * S - 500,
    ]


@given(
    st.lists(
        st.tuples(st.integers(1, 400), st.sampled_from([0, 1, 100_000, 500_000, S, 20 * S])), max_size=12
    )
)
def test_a_window_is_the_same_whether_events_come_one_by_one_or_many_at_once(
    parts: list[tuple[int, int]],
) -> None:
    single, many = Window(0), Window(0)
    rev = at_us = 0
    for count, gap_us in parts:
        found = []
        for _ in range(count):
            rev, at_us = rev + 1, at_us + gap_us
            found.append(change(rev, at_us))
            single.add(found[-1:])
        many.add(found)
        assert (single.capacity, single.dropped_rev) == (many.capacity, many.dropped_rev)
        assert [*single.changes] == [*many.changes]


def test_a_window_that_let_an_event_go_begins_just_before_the_first_that_is_left() -> None:
    """With any other writes between the two; a complete window begins where its list was."""
    window = Window(40)
    for n in range(WINDOW_MIN):
        window.add([change(50 + 10 * n, n * S)])
    assert window.oldest == 40
    window.add([change(2000, WINDOW_MIN * S)])
    assert (window.dropped_rev, window.oldest) == (50, 59)
    window.restart(3000)
    assert window.oldest == 3000
    window.add([change(3007, 200 * S)])
    assert window.oldest == 3000


def test_what_is_not_shown_yet_is_kept_and_goes_with_the_first_change_after_it_is() -> None:
    shown = [0]
    single, many = (Window(0, lambda: shown[0]) for _ in range(2))
    found = [change(n + 1, (n + 1) * S) for n in range(3 * WINDOW_MIN)]
    for part in (found[:150], found[150:160], found[160:299]):
        many.add(part)
        for each in part:
            single.add([each])
    assert [(len(w.changes), w.dropped_rev) for w in (single, many)] == [(299, 0)] * 2
    shown[0] = 250 * S
    for window in (single, many):
        window.add(found[299:])
    assert single.dropped_rev == many.dropped_rev > 0
    assert list(single.changes) == list(many.changes) and len(single.changes) == single.capacity


def test_a_ring_counts_what_was_added_and_finds_what_is_left() -> None:
    ring = Ring()
    assert (len(ring), ring.total, list(ring)) == (0, 0, [])
    for begin, end in ((1, 4), (4, 70), (70, 75)):
        ring.extend([change(rev, rev * 10) for rev in range(begin, end)])
    assert (len(ring), ring.total, ring.rev(0), ring.rev(-1)) == (74, 74, 1, 74)
    assert ring.drop(5) == 5
    assert (len(ring), ring.total, ring.rev(0), ring.rev(68), ring.rev(-69)) == (69, 74, 6, 74, 6)
    assert (ring.at_us(0), ring.at_us(-1), ring.at_us(-69), ring[0].rev) == (60, 740, 60, 6)
    assert [each.rev for each in ring.after(72)] == [73, 74]
    assert [each.rev for each in ring.after(73)] == [74]
    assert ring.after(74) == []
    assert [each.rev for each in ring] == list(range(6, 75))
    assert ring.drop(69) == 74
    assert (len(ring), ring.total, list(ring)) == (0, 74, [])
    ring.extend([change(75, 750)])
    assert (len(ring), ring.total, ring.rev(0)) == (1, 75, 75)
    ring.clear()
    assert (len(ring), ring.total) == (0, 75)


def test_a_ring_keeps_pieces_of_so_many_changes_together() -> None:
    ring = Ring()
    for rev in range(130):
        ring.extend([change(rev, rev)])
    assert [len(piece) for piece in ring._pieces] == [64, 64, 2]
    ring.extend((change(130, 130),))
    assert [len(piece) for piece in ring._pieces] == [64, 64, 2, 1]


def filled(span_us: int, count: int = WINDOW_MIN) -> Window:
    """A full window of events at equal distances, over a time."""
    window = Window(0)
    for n in range(count):
        window.add([change(n + 1, n * span_us // count)])
    return window


@pytest.mark.parametrize(
    ("at_us", "capacity", "dropped"),
    [(75 * S - 1, 200, 0), (75 * S, 100, 1), (75 * S + 1, 100, 1)],
)
def test_a_window_grows_if_its_events_are_younger_than_seventy_five_seconds(
    at_us: int, capacity: int, dropped: int
) -> None:
    for size in (1, 3):
        window = filled(0)
        window.add([change(101 + n, at_us) for n in range(size)])
        assert (window.capacity, window.dropped_rev) == (capacity, dropped * size)
        assert window.oldest == dropped * size


@pytest.mark.parametrize(("later_us", "capacity"), [(75 * S, 200), (75 * S + 1, 100)])
def test_a_window_shrinks_if_its_last_quarter_is_older(later_us: int, capacity: int) -> None:
    window = Window(0)
    for n in range(200):
        window.add([change(n + 1, 0)])
    assert window.capacity == 200
    window.add([change(201, later_us)])
    assert window.capacity == capacity
    assert len(window.changes) == capacity
    assert window.dropped_rev == 201 - capacity
    assert window.oldest == 201 - capacity


def test_a_window_never_holds_more_than_its_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "WINDOW_MAX", 150)
    window = filled(0)
    for n in range(51):
        window.add([change(101 + n, 0)])
    assert (window.capacity, window.dropped_rev) == (150, 1)


def test_a_window_restarts_empty() -> None:
    window = filled(0)
    window.restart(500)
    assert (len(window.changes), window.oldest) == (0, 500)
    window.add([change(501, 0)])
    assert window.oldest == 500
