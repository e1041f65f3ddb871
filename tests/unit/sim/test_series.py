"""The step function of time."""

from __future__ import annotations

from sim.series import Series


def test_series_keeps_the_last_value_of_an_instant_and_no_repetition() -> None:
    series = Series()
    for at_us, value in [(0, 0), (1, 1), (1, 2), (5, 2), (7, 3), (7, 2), (9, 0)]:
        series.put(at_us, value)
    assert series.points == [(1, 2), (9, 0)]
    series.add(11, 4)
    assert [series.at(at_us) for at_us in (0, 1, 10, 11)] == [0, 2, 0, 4]
    assert series.pieces(0, 12) == [(0, 1, 0), (1, 9, 2), (9, 11, 0), (11, 12, 4)]
