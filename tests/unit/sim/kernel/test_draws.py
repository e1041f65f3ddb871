"""Draws of some of several objects."""

from __future__ import annotations

from random import Random

import pytest

from sim.kernel.draws.streams import Drawn

NAMES = [f"web-{n}" for n in range(10)]


@pytest.mark.parametrize(
    ("low", "high", "share", "counts"),
    [
        (1, 1, False, {1}),
        (4, 4, False, {4}),
        (40, 40, False, {10}),
        (25, 25, True, {2}),
        (1, 1, True, {1}),
        (0, 30, True, {0, 1, 2, 3}),
    ],
)
def test_draw_takes_the_number_or_the_share(low: int, high: int, share: bool, counts: set[int]) -> None:
    drawn = Drawn(low, high, share, "s")
    found = [drawn.of(NAMES, Random(seed)) for seed in range(200)]
    assert {len(names) for names in found} == counts
    assert all(names == sorted(names) and {*names} <= {*NAMES} for names in found)


def test_draw_reaches_every_object() -> None:
    assert {Drawn(1, 1, False, "s").of(NAMES, Random(seed))[0] for seed in range(200)} == {*NAMES}


def test_draw_among_no_objects_is_empty() -> None:
    assert Drawn(1, 1, False, "s").of([], Random(0)) == []
