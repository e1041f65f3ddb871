"""Relists of the runtime: their rhythm, and when a slow or silent runtime is found unhealthy."""

from actors.node.heartbeat.runtime_health import RELIST_LIMIT_US, Relists
from sim.units import SECOND


def test_relists_of_quick_runtime_are_one_second_apart_and_never_late() -> None:
    relists = Relists(500_000)
    assert relists.end_after(500_000) == 1_500_000
    assert relists.end_after(1_499_999) == 1_500_000
    assert relists.unseen_us(10_000 * SECOND) == 0
    assert relists.next_change_us(10_000 * SECOND) is None


def test_slow_relist_ends_late_and_the_next_begins_a_second_after() -> None:
    relists = Relists(0)
    relists.change(4 * SECOND, 10 * SECOND)
    assert relists.end_after(10 * SECOND) == 15 * SECOND  # began at 11 s
    assert relists.end_after(11 * SECOND) == 20 * SECOND
    assert relists.seen_us(14 * SECOND) == 10 * SECOND
    assert relists.seen_us(15 * SECOND) == 11 * SECOND
    assert relists.next_change_us(100 * SECOND) is None


def test_silent_runtime_is_unhealthy_after_three_minutes() -> None:
    relists = Relists(0)
    relists.change(None, 10_500_000)
    late_us = 10 * SECOND + RELIST_LIMIT_US + 1
    assert relists.next_change_us(10_500_000) == late_us
    assert relists.unseen_us(late_us - 1) == 0
    assert relists.unseen_us(late_us) > RELIST_LIMIT_US


def test_answer_of_runtime_ends_the_relist_that_waits() -> None:
    """From 11 s on each relist is given up after two minutes and the next begins a second later:
    the one of 374 s waits.
    """
    relists = Relists(0)
    relists.change(None, 10_500_000)
    assert relists.unseen_us(400_249_999)
    relists.change(0, 400_250_000)
    assert relists.seen_us(400_250_000) == 374 * SECOND and not relists.unseen_us(400_250_000)
    assert relists.end_after(400_250_000) == 401_250_000


def test_runtime_that_answers_between_relists_is_healthy_at_the_next() -> None:
    relists = Relists(0)
    relists.change(None, 10_500_000)
    relists.change(0, 373_250_000)
    assert relists.unseen_us(373_999_999)
    assert relists.next_change_us(373_250_000) == 374 * SECOND
    assert not relists.unseen_us(374 * SECOND)


def test_relists_that_take_too_long_are_given_up_repeatedly() -> None:
    relists = Relists(0, 5 * SECOND)
    assert relists.wanted(5 * SECOND) is None and relists.wanted(5 * SECOND - 1) == 5 * SECOND - 1
    relists.change(4 * SECOND, 10 * SECOND)  # one is under way from 11 s to 15 s
    relists.change(None, 12 * SECOND)  # it is given up at 16 s, the next begins at 17 s
    relists.change(0, 16_500_000)
    assert relists.seen_us(16_999_999) == 10 * SECOND and relists.seen_us(17 * SECOND) == 17 * SECOND


def test_relists_that_take_100_s_are_late_repeatedly() -> None:
    relists = Relists(0)
    relists.change(100 * SECOND, 0)  # one begins at 1 s, the next at 102 s
    now_us, turns, states = 0, [], []
    for _ in range(4):
        turn_us = relists.next_change_us(now_us)
        assert turn_us is not None and turn_us > now_us
        now_us = turn_us
        turns.append(now_us // SECOND)
        states.append(relists.unseen_us(now_us) > 0)
    assert turns == [101, 181, 202, 282]
    assert states == [False, True, False, True]
