"""When a proxy may write its rules (pkg/util/async/bounded_frequency_runner.go)."""

from __future__ import annotations

import pytest

from actors.node.proxy.frequency import Frequency
from sim.units import MS, SECOND


def writes(min_us: int, wanted_us: list[int], took_us: int) -> list[int]:
    """The instants at which writes begin that are wanted at some instants."""
    frequency, begun, free_us = Frequency(min_us), [], 0
    for at_us in wanted_us:
        now_us = max(at_us, free_us)
        for _ in range(5):  # a wrong wait would have no end
            if not (wait_us := frequency.wait_us(now_us)):
                break
            now_us += wait_us
        begun.append(now_us)
        free_us = now_us + took_us
        frequency.ended(free_us)
    return begun


def test_two_writes_are_not_delayed_and_the_third_waits_a_period_from_the_end() -> None:
    begun = writes(SECOND, [0, 100 * MS, 200 * MS, 300 * MS], took_us=50 * MS)
    assert begun == [0, 100 * MS, 1_150 * MS, 2_200 * MS]


def test_burst_is_there_again_after_two_periods_of_rest() -> None:
    begun = writes(SECOND, [0, 0, 0, 60 * SECOND, 60 * SECOND, 60 * SECOND], took_us=0)
    assert begun == [0, 0, SECOND, 60 * SECOND, 60 * SECOND, 61 * SECOND]


def test_writes_without_a_least_period_are_never_delayed() -> None:
    assert writes(0, [0, 0, 0, 1], took_us=0) == [0, 0, 0, 1]


@pytest.mark.parametrize("asked_at_us", [10, 500 * MS, 999 * MS])
def test_waiting_write_is_due_a_period_after_the_last_one_ended(asked_at_us: int) -> None:
    frequency = Frequency(SECOND)
    for _ in range(2):
        assert frequency.wait_us(0) == 0
        frequency.ended(5)
    assert asked_at_us + frequency.wait_us(asked_at_us) == SECOND + 5
