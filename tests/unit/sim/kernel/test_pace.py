"""How far virtual time may go by the rate, the goal, and what lets it rest."""

from __future__ import annotations

import math
from itertools import count

import pytest

from sim.kernel.pace import LOOK_S, NEVER_US, Pace

NOW_US, GOAL_US, DUE_US = 5_000_000, 9_000_000, 7_000_000


def pace(rate: float, holds: int = 0, rests: int = 0, goal_us: int = GOAL_US) -> Pace:
    made = Pace(count(step=0.05).__next__)  # the real clock, with time between its looks
    made.rate, made.goal_us, made.holds, made.rests = rate, goal_us, holds, rests
    made.rebase(NOW_US)
    return made


@pytest.mark.parametrize(
    ("made", "limit_us"),
    [
        (pace(math.inf), GOAL_US),
        (pace(math.inf, holds=1), NOW_US),
        (pace(math.inf, rests=1), NOW_US),
        (pace(0), -1),
        (pace(0, rests=1), -1),
        (pace(1e12), GOAL_US),
        (pace(1e12, holds=1), GOAL_US),
        (pace(1e12, rests=1), NOW_US),
        (pace(math.inf, goal_us=1), NOW_US),
    ],
)
def test_limit_follows_from_rate_goal_and_rest(made: Pace, limit_us: int) -> None:
    assert made.limit_us(NOW_US) == limit_us


@pytest.mark.parametrize(
    ("made", "next_us", "wait_s"),
    [
        (pace(math.inf), DUE_US, math.inf),
        (pace(0), DUE_US, math.inf),
        (pace(1e12, rests=1), DUE_US, math.inf),
        (pace(1e12, goal_us=NEVER_US), NEVER_US, LOOK_S),
        (pace(1e12), NOW_US, 0.0),
        (pace(1e12, goal_us=NOW_US), DUE_US, math.inf),
        (pace(1e12), DUE_US, 0.001),
    ],
)
def test_driver_sleeps_until_the_next_call_of_a_timed_run(made: Pace, next_us: int, wait_s: float) -> None:
    assert made.wait_s(NOW_US, next_us) == wait_s


def test_shown_time_is_never_beyond_the_next_call_or_the_goal() -> None:
    assert pace(math.inf).shown_us(NOW_US, DUE_US) == NOW_US
    assert pace(1e12).shown_us(NOW_US, DUE_US) == DUE_US
    assert pace(1e12).shown_us(NOW_US, NEVER_US) == GOAL_US
    assert pace(1e12, rests=1).shown_us(NOW_US, DUE_US) == NOW_US
