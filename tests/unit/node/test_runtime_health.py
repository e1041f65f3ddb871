"""Relists of the runtime: their rhythm, and when a slow or silent one is found out."""

from actors.node.runtime_health import RELIST_LIMIT_US, Relists
from sim.units import SECOND


def test_relists_of_a_quick_runtime_are_a_second_apart_and_never_late() -> None:
    relists = Relists(500_000)
    assert relists.end_after(500_000) == 1_500_000
    assert relists.end_after(1_499_999) == 1_500_000
    assert relists.silent_us(10_000 * SECOND) == 0
    assert relists.next_turn_us(10_000 * SECOND) is None


def test_a_relist_that_takes_long_ends_later_and_the_next_begins_a_second_after() -> None:
    relists = Relists(0)
    relists.change(4 * SECOND, 10 * SECOND)
    assert relists.end_after(10 * SECOND) == 15 * SECOND  # began at 11
    assert relists.end_after(11 * SECOND) == 20 * SECOND
    assert relists.seen_us(14 * SECOND) == 10 * SECOND
    assert relists.seen_us(15 * SECOND) == 11 * SECOND
    assert relists.next_turn_us(100 * SECOND) is None


def test_a_silent_runtime_is_unhealthy_three_minutes_after_it_was_last_seen() -> None:
    relists = Relists(0)
    relists.change(None, 10_500_000)
    late_us = 10 * SECOND + RELIST_LIMIT_US + 1
    assert relists.next_turn_us(10_500_000) == late_us
    assert relists.silent_us(late_us - 1) == 0
    assert relists.silent_us(late_us) > RELIST_LIMIT_US


def test_a_runtime_that_answers_again_is_healthy_at_the_next_relist() -> None:
    relists = Relists(0)
    relists.change(None, 10_500_000)
    relists.change(0, 400_250_000)
    assert relists.silent_us(401_249_999)
    assert relists.next_turn_us(400_250_000) == 401_250_000
    assert not relists.silent_us(401_250_000)


def test_relists_that_take_100_s_are_found_late_again_and_again() -> None:
    relists = Relists(0)
    relists.change(100 * SECOND, 0)  # one begins at 1, the next at 102
    now_us, turns, states = 0, [], []
    for _ in range(4):
        turn_us = relists.next_turn_us(now_us)
        assert turn_us is not None and turn_us > now_us
        now_us = turn_us
        turns.append(now_us // SECOND)
        states.append(relists.silent_us(now_us) > 0)
    assert turns == [101, 181, 202, 282]
    assert states == [False, True, False, True]
