"""Limits that do not count the time in which the process was stopped."""

from __future__ import annotations

from math import inf

import pytest
import trio
from trio.testing import MockClock

from sim.wire.patience import LATE_S, TICK_S, Deadline, Limit, within


@pytest.fixture
def clock() -> MockClock:
    """Time passes only where a test says so, or where everything waits."""
    return MockClock(autojump_threshold=0)


async def test_limit_ends_within_a_tick_of_its_time(clock: MockClock) -> None:
    for seconds in (0.05, 1.0, 10.0):
        began_s = trio.current_time()
        with within(seconds) as scope:
            await trio.sleep_forever()
        assert scope.cancelled_caught
        assert seconds <= trio.current_time() - began_s <= seconds + 2 * TICK_S


async def test_pause_does_not_count(clock: MockClock) -> None:
    began_s = trio.current_time()
    with within(2.0):
        await trio.sleep(1.0)
        clock.jump(5.0)
        await trio.sleep_forever()
    assert 7.0 - TICK_S <= trio.current_time() - began_s <= 7.0 + 3 * TICK_S


async def test_machine_that_is_always_late_has_limits(clock: MockClock) -> None:
    with within(1.0) as scope:
        while True:
            clock.jump(2 * LATE_S)
            await trio.sleep(TICK_S)
    assert scope.cancelled_caught


async def test_limit_that_is_renewed_begins_again_within_a_tick(clock: MockClock) -> None:
    began_s = trio.current_time()
    with trio.CancelScope() as scope:
        limit = Limit(scope)
        for _ in range(3):
            limit.renew(1.0)
            await trio.sleep(0.9)
        limit.set(inf)
        await trio.sleep(9.0)
        limit.renew(1.0)
        await trio.sleep_forever()
    assert 12.7 <= trio.current_time() - began_s <= 12.7 + 3 * TICK_S


async def test_limit_that_is_set_again_begins_again(clock: MockClock) -> None:
    began_s = trio.current_time()
    with trio.CancelScope() as scope:
        limit = Limit(scope)
        limit.set(1.0)
        await trio.sleep(0.9)
        limit.set(1.0)
        await trio.sleep(0.9)
        limit.set(inf)
        await trio.sleep(9.0)
        limit.set(1.0)
        await trio.sleep_forever()
    assert 11.8 <= trio.current_time() - began_s <= 11.8 + 2 * TICK_S


async def test_limit_after_a_time_without_any_counts_from_its_setting(clock: MockClock) -> None:
    for _ in range(3):
        await trio.sleep(100)
        began_s = trio.current_time()
        with within(1.0):
            await trio.sleep_forever()
        assert 1.0 <= trio.current_time() - began_s <= 1.0 + 2 * TICK_S


async def test_shielded_limit_ends_work_that_cannot_be_cancelled(clock: MockClock) -> None:
    with trio.CancelScope() as outer:
        outer.cancel()
        with within(1.0, shield=True) as inner:
            await trio.sleep_forever()
    assert inner.cancelled_caught


async def test_pieces_of_work_share_one_deadline_with_the_time_between_them(clock: MockClock) -> None:
    with Deadline(3.0) as deadline:
        with deadline.bounded():
            await trio.sleep(1.0)
        await trio.sleep(1.0)
        began_s = trio.current_time()
        with pytest.raises(trio.TooSlowError), deadline.bounded():
            await trio.sleep_forever()
        assert 1.0 <= trio.current_time() - began_s <= 1.0 + 2 * TICK_S
        with pytest.raises(trio.TooSlowError), deadline.bounded():
            pytest.fail("work begins after the deadline")


async def test_pause_between_pieces_of_work_does_not_count(clock: MockClock) -> None:
    with Deadline(3.0) as deadline:
        clock.jump(100.0)
        await trio.sleep(1.0)
        with deadline.bounded():
            await trio.sleep(1.0)
