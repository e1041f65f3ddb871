"""Quantiles, confidence, histograms and the two-sample test, against values known otherwise."""

from itertools import combinations
from math import inf
from random import Random

import pytest

from sim import statistics
from sim.statistics import (
    half_width,
    histogram,
    ks_distance,
    ks_p_value,
    ks_test,
    plain,
    quantile,
    student,
    summarize,
    ticks,
)


def test_a_quantile_is_the_nearest_rank_and_counts_what_never_happened_as_last() -> None:
    ordered = [float(n) for n in range(1, 101)]
    assert [quantile(ordered, share) for share in (0, 0.07, 0.5, 0.9, 0.99, 0.991, 1)] == [
        1,
        7,
        50,
        90,
        99,
        100,
        100,
    ]
    assert quantile(ordered[:90], 0.91, missing=10) == inf
    assert quantile(ordered[:90], 0.9, missing=10) == 90


def test_students_t_has_its_tabled_quantiles() -> None:
    few = [12.7062, 4.3027, 3.1824, 2.7764]
    assert [student(0.975, freedom) for freedom in (1, 2, 3, 4)] == pytest.approx(few, rel=0.002)
    assert student(0.975, 9) == pytest.approx(2.262, abs=0.003)
    assert student(0.975, 99) == pytest.approx(1.984, abs=0.001)
    assert student(0.995, 20) == pytest.approx(2.845, abs=0.003)


def test_confidence_interval_has_its_coverage_for_values_that_agree_within_runs() -> None:
    draw, covered = Random(3), 0
    for _ in range(400):
        runs = []
        for _ in range(20):
            # Shared by all values of a run: together they hold little more information than one.
            phase = draw.gauss(0, 1)
            runs.append([10 + phase + draw.gauss(0, 0.1) for _ in range(draw.randrange(5, 15))])
        summary = summarize(runs)
        assert summary is not None and summary.half_width is not None
        covered += abs(summary.mean - 10) <= summary.half_width
    assert 0.91 <= covered / 400 <= 0.98


def test_one_run_gives_no_confidence_and_none_gives_no_summary() -> None:
    assert half_width([[1.0, 2.0, 3.0]]) is None
    assert summarize([[], []]) is None
    alone = summarize([[7.0]])
    assert alone is not None and (alone.mean, alone.half_width, alone.deviation) == (7, None, None)
    summary = summarize([[4.0], [2.0, 3.0], []], missing=1)
    assert summary is not None
    assert (summary.count, summary.runs, summary.missing, summary.low, summary.high) == (3, 2, 1, 2, 4)
    assert summary.to_json()["p99"] is None


def test_a_histogram_has_round_bins_that_hold_every_value_once() -> None:
    draw = Random(1)
    values = [draw.uniform(29.6, 45.6) for _ in range(1000)]
    found = histogram(values, 20)
    assert found.width == 1 and found.start == 29 and sum(found.counts) == 1000
    tenths = histogram([0.1 * n for n in range(11)], 12)
    assert tenths.width == 0.1 and tenths.counts == (1,) * 11
    assert histogram([5.0, 5.0], 20).counts == (2,)
    # what lies outside counts at the edge
    assert sum(histogram(values, 20, low=35, high=40).counts) == 1000


def test_ticks_are_round() -> None:
    assert ticks(29.6, 45.6) == [30, 35, 40, 45]
    assert ticks(3, 3) == [3]


@pytest.mark.parametrize("high", [1, 7, 20, 43, 100, 107, 237, 5_000])
def test_whole_numbers_have_whole_ticks_and_bins_of_as_many_each(high: int) -> None:
    marks = ticks(0, high, 9, whole=True)
    assert marks == [float(int(mark)) for mark in marks] and len(set(marks)) >= 2
    width = histogram([0, high], 44, whole=True).width
    assert width == int(width)


def test_numbers_beside_an_axis_have_the_digits_that_they_have() -> None:
    assert [plain(tick) for tick in ticks(0, 0.3)] == ["0", "0.05", "0.1", "0.15", "0.2", "0.25", "0.3"]
    assert [plain(tick) for tick in ticks(1e6, 1e6 + 1, 2)] == ["1000000", "1000000.5", "1000001"]
    assert plain(30.000001) == "30.000001" and plain(2e7) == "20000000"


def test_the_two_sample_test_knows_equal_from_unequal() -> None:
    # at 0.9 all of the first sample lies below, three of five of the other
    assert ks_distance([0.1, 0.4, 0.7, 0.9], [0.2, 0.5, 0.6, 1.4, 2.0]) == pytest.approx(0.4)
    draw = Random(5)
    alike = [ks_p_value(ks_distance(*_two(draw, 0)), 70, 70) for _ in range(200)]
    apart = [ks_p_value(ks_distance(*_two(draw, 1.5)), 70, 70) for _ in range(50)]
    assert sum(p < 0.05 for p in alike) <= 20
    assert all(p < 0.01 for p in apart)


def test_the_two_sample_test_of_few_values_is_exact_ties_included() -> None:
    """Against a count of all ways to deal the values out."""
    draw = Random(1)
    for _ in range(60):
        one, other = ([_often_tied(draw) for _ in range(draw.randint(1, 5))] for _ in range(2))
        values, wanted, ways = one + other, ks_distance(one, other), 0
        picks = list(combinations(range(len(values)), len(one)))
        for pick in picks:
            mine = [values[at] for at in pick]
            others = [value for at, value in enumerate(values) if at not in pick]
            ways += ks_distance(mine, others) > wanted - 1e-9
        assert ks_test(one, other) == pytest.approx((wanted, ways / len(picks)))
    assert ks_test([1, 2, 3, 4], [5, 6, 7, 8]) == (1, pytest.approx(2 / 70))
    assert ks_test([1.0, 1.0], [1.0]) == (0, 1)


def test_the_exact_test_and_the_asymptotic_one_meet_where_values_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, other = _two(Random(5), 0.4)
    gap, p = ks_test(one, other)
    assert p == pytest.approx(ks_p_value(gap, 70, 70), rel=0.3) and p != ks_p_value(gap, 70, 70)
    monkeypatch.setattr(statistics, "EXACT_MAX", 70 * 70 - 1)
    assert ks_test(one, other) == pytest.approx((gap, ks_p_value(gap, 70, 70)))


def _often_tied(draw: Random) -> float:
    return draw.choice((1, 2, 3, inf, draw.uniform(0, 4)))


def _two(draw: Random, shift: float) -> tuple[list[float], list[float]]:
    return [draw.gauss(0, 1) for _ in range(70)], [draw.gauss(shift, 1) for _ in range(70)]
