"""Candidates for numbers and durations."""

from __future__ import annotations

import pytest

from sim.app.hunt.shrinking.numbers import duration_of, rounder, shorter, smaller, text_of
from sim.units import MINUTE, SECOND


def test_smaller_numbers_lie_between_the_least_and_the_value() -> None:
    assert smaller(9, 1) == [1, 2, 3, 5, 7, 8]
    assert smaller(1, 1) == []


@pytest.mark.parametrize(
    ("us", "expected"),
    [
        (135 * SECOND, [2 * MINUTE, 3 * MINUTE, 130 * SECOND, 140 * SECOND]),
        (130 * SECOND, [2 * MINUTE, 3 * MINUTE]),
        (4 * MINUTE, []),
        (1_500_000, [MINUTE, 10 * SECOND, SECOND, 2 * SECOND]),
    ],
)
def test_rounder_offers_the_roundest_neighbours_first(us: int, expected: list[int]) -> None:
    assert rounder(us) == expected


def test_shorter_durations_are_as_round_as_the_value() -> None:
    offers = shorter(16 * MINUTE)
    assert offers == sorted(offers)
    assert (offers[0], offers[-1]) == (MINUTE, 15 * MINUTE)
    assert shorter(SECOND) == []


@pytest.mark.parametrize("text", ["7m", "1h", "1h30m", "90ms", "0s", "10s", "20m"])
def test_text_of_a_duration_has_no_needless_zeros(text: str) -> None:
    us = duration_of(text)
    assert us is not None
    assert text_of(us) == text


def test_duration_of_a_range_and_of_a_number_is_none() -> None:
    assert (duration_of("1s..2s"), duration_of(3), duration_of(None)) == (None, None, None)
