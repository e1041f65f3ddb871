"""Pauses in long work: where it rests, how it is continued, and given up."""

from __future__ import annotations

import pytest

from sim import pauses
from sim.pauses import PART_US, Parts, paced, spent, weight_us


def halves() -> str:
    spent(PART_US - 1)
    spent(1)
    return "done"


def test_work_rests_where_it_has_spent_a_part() -> None:
    parts = Parts(halves)
    assert not parts.go_on()
    assert parts.found is None
    assert parts.go_on()
    assert parts.found is not None
    assert parts.found.unwrap() == "done"


def test_work_of_any_other_kind_never_rests() -> None:
    assert halves() == "done"
    assert [*paced([1, 2], PART_US)] == [1, 2]
    assert weight_us([0] * PART_US) == 0


def test_error_is_the_outcome_of_the_last_part() -> None:
    def fail() -> None:
        for _ in paced([1], PART_US):
            raise KeyError("a")

    parts = Parts(fail)
    assert not parts.go_on()
    assert parts.go_on()
    with pytest.raises(KeyError):
        assert parts.found is not None
        parts.found.unwrap()


def test_weight_of_a_value_follows_its_length() -> None:
    parts = Parts(lambda: weight_us("a" * (100 * pauses.BYTES_PER_US - 2)))
    parts.go_on()
    assert parts.found is not None
    assert parts.found.unwrap() == 100


def test_work_that_is_given_up_ends_where_it_rests() -> None:
    seen = []

    def work() -> None:
        try:
            seen.append(1)
            spent(PART_US)
            seen.append(2)
        finally:
            seen.append(3)

    parts = Parts(work)
    parts.go_on()
    parts.give_up()
    assert seen == [1, 3]
    assert parts.found is not None


def test_work_that_has_not_begun_is_not_begun_to_be_given_up() -> None:
    parts = Parts(lambda: 1 / 0)
    parts.give_up()
    assert parts.found is None
