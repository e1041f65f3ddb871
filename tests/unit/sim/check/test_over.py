"""Bounds on distributions: how they are written, and what they make of the values of many runs."""

from typing import Any

import msgspec
import pytest

from sim.check import build
from sim.check.over import judge, parse_over
from sim.ident import NAMES
from sim.scenario.schema.sections import Expectation


def test_a_bound_is_an_interval_or_one_sided() -> None:
    bounds = parse_over(
        {"p99": "<= 44.2s", "mean": ["36s", "39s"], "min": ">= 29.6s", "seeds": 3}, timed=True
    )
    found = judge(bounds, [[30.0], [38.0], [44.0]], missing=0, held=3)
    assert found.ok
    assert found.measured == "p99 44.00s, mean 37.33s, min 30.00s"
    assert found.wanted == "p99 <= 44.20s, mean 36.00s to 39.00s, min >= 29.60s over 3 seeds"
    assert judge(bounds, [[30.0], [38.0], [45.0]], missing=0, held=3).ok is False


def test_too_few_runs_judge_nothing() -> None:
    assert judge(parse_over({"p50": "<= 1s", "seeds": 10}, timed=True), [[5.0]] * 9, 0, 0).ok is None


def test_what_never_happened_is_later_than_everything() -> None:
    groups = [[float(n)] for n in range(98)] + [[], []]
    for what, ok in (("p90", True), ("p99", False), ("max", False), ("mean", False)):
        found = judge(parse_over({what: "<= 1000s"}, timed=True), groups, missing=2, held=98)
        assert found.ok is ok, what
        if not ok:
            assert found.measured == f"{what} never"


def test_a_share_of_the_runs_may_be_asked_for_in_percent() -> None:
    bounds = parse_over({"share": ">= 95%"}, timed=True, measures=False)
    assert judge(bounds, [[]] * 100, 0, held=95).ok
    assert judge(bounds, [[]] * 100, 0, held=94).measured == "share 94%"
    assert judge(bounds, [[]] * 100, 0, held=94).ok is False


@pytest.mark.parametrize("bound", [">= 150%", "<= -1%", [2, 3]])
def test_a_share_that_no_number_of_runs_has_is_refused(bound: Any) -> None:
    with pytest.raises(ValueError, match="lies between 0 and 100%"):
        parse_over({"share": bound}, timed=True)


def like(values: list[float], seeds: int = 10, **more: Any) -> Any:
    given = {"file": "deaths.csv", "column": "found", "values": values, **more}
    return parse_over({"like": given, "p50": "<= 99s", "seeds": seeds}, timed=True)


def test_values_are_compared_with_samples_from_elsewhere() -> None:
    there = [30 + n * 0.3 for n in range(50)]
    bounds = like(there)
    assert bounds.wanted == "p50 <= 99.00s, as deaths.csv found (p >= 0.01) over 10 seeds"
    same = judge(bounds, [[30.1 + n * 0.5] for n in range(30)], missing=0, held=30)
    assert same.ok and same.measured == "p50 37.10s, D 0.020, p 1.000"
    later = judge(bounds, [[36.0 + n * 0.5] for n in range(30)], missing=0, held=30)
    assert later.ok is False and later.measured == "p50 43.00s, D 0.413, p 0.002"
    assert judge(like(there, level="0.1%"), [[36.0 + n * 0.5] for n in range(30)], 0, 30).ok
    assert judge(bounds, [[30.0]] * 9, missing=0, held=9).ok is None


def test_so_few_values_that_any_would_pass_are_not_judged() -> None:
    bounds = like([1.0, 2.0, 3.0, 4.0], level=0.02, seeds=1)
    found = judge(bounds, [[90.0], [91.0], [92.0], [93.0]], missing=0, held=4)  # p is 2/70 at least
    assert found.ok is None and found.measured == "p50 91.00s, 4 values beside 4 are too few"
    assert judge(bounds, [[190.0]] * 4, missing=0, held=4).ok is False  # for its median
    assert judge(bounds, [[90.0]] * 5, missing=0, held=5).ok is False  # 2/126


def test_what_never_happened_is_unlike_what_did() -> None:
    there = [float(n) for n in range(40)]
    groups: list[list[float]] = [[float(n)] for n in range(20)]
    assert judge(like(there), groups, missing=20, held=20).ok is False
    assert judge(like(there), [[]] * 10, missing=10, held=0).ok is False


@pytest.mark.parametrize(
    ("level", "message"), [("many", "not a number"), (0, "between 0 and 1"), (2, "0 and 1")]
)
def test_a_level_is_a_share(level: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        like([1.0], level=level)


def test_counts_are_bounded_by_plain_numbers() -> None:
    assert judge(parse_over({"mean": [1, 2]}, timed=False), [[1.0], [2.0]], 0, 2).measured == "mean 1.5"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "at least one of"),
        ({"p100": "<= 1s"}, "does not know 'p100'"),
        ({"p99": "44s"}, "FROM, TO"),
        ({"p99": ["2s", "1s"]}, "ends before it begins"),
        ({"p99": "<= 44"}, "'44' is not a duration, write it as 44.2s"),
        ({"p99": [1, 2]}, "not a duration"),
        ({"share": "<= many"}, "'many' is not a number"),
        ({"p50": "<= 1s", "seeds": 0}, "from 1"),
        ({"p99": "<= -5s"}, "'over: p99' is never below 0, as '<= -5s' wants it"),
        ({"share": [True, 1]}, "True is not a number"),
    ],
)
def test_unknown_key_is_reported(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_over(given, timed=True)


@pytest.mark.parametrize("bound", ["<= nan", "<= inf", [float("nan"), 5], [False, 5]])
def test_a_bound_is_a_finite_number(bound: Any) -> None:
    with pytest.raises(ValueError, match="is not a number"):
        parse_over({"mean": bound}, timed=False)


def test_an_expectation_may_be_over_many_runs_only() -> None:
    def made(**spec: Any) -> Any:
        return build(msgspec.convert({"name": "x", **spec}, Expectation), NAMES["orch"])

    found = made(when="nodes are ready", over={"p99": "<= 4s", "seeds": 100})
    verdict = found.verdict(0)
    assert verdict.ok and verdict.missing == 1 and verdict.wanted == "p99 <= 4.00s over 100 seeds"
    with pytest.raises(ValueError, match="'within: \\[from, to\\]' or 'over"):
        made(when="nodes are ready")
    with pytest.raises(ValueError, match="measures nothing else"):
        made(never="nodes are ready", over={"p99": "<= 4s"})
    with pytest.raises(ValueError, match="does not know 'like'"):
        made(never="nodes are ready", over={"like": {"file": "a.csv", "values": [1.0]}})


@pytest.mark.parametrize(
    ("bound", "values", "ok"),
    [
        ([2, 4], [[2.0]], True),
        ([2, 4], [[4.0]], True),
        ([2, 4], [[1.999]], False),
        ([2, 4], [[4.001]], False),
        ("<= 4", [[-9.0]], True),
        (">= 4", [[4.0]], True),
        (">= 4", [[3.9]], False),
        ("<= 0", [[0.0]], True),
        ([3, 3], [[3.0]], True),
    ],
)
def test_a_bound_includes_its_ends(bound: Any, values: list[list[float]], ok: bool) -> None:
    assert judge(parse_over({"mean": bound}, timed=False), values, 0, 1).ok is ok


def test_what_is_measured_of_all_values() -> None:
    given = dict.fromkeys(("min", "max", "mean", "p50"), ">= 0")
    found = judge(parse_over(given, timed=False), [[4.0, 1.0], [3.0]], 0, 2)
    assert found.measured == "min 1, max 4, mean 2.66667, p50 3"
    missing = judge(parse_over(given, timed=False), [[4.0], [1.0], []], 1, 2)
    assert missing.measured == "min 1, max never, mean never, p50 4"
    assert missing.ok is False
    nothing = judge(parse_over({"min": ">= 0"}, timed=False), [[]], 0, 0)
    assert (nothing.ok, nothing.measured) == (False, "min never")


@pytest.mark.parametrize(
    ("runs", "seeds", "text"),
    [
        (0, 1, "0 seed is too few"),
        (1, 2, "1 seed is too few"),
        (2, 3, "2 seeds are too few"),
        (2, 2, "mean 1"),
    ],
)
def test_as_many_runs_as_seeds_are_judged(runs: int, seeds: int, text: str) -> None:
    bounds = parse_over({"mean": "<= 1", "seeds": seeds}, timed=False)
    assert judge(bounds, [[1.0]] * runs, 0, 0).measured == text
    assert bounds.wanted == ("mean <= 1 over seeds" if seeds == 1 else f"mean <= 1 over {seeds} seeds")


@pytest.mark.parametrize("seeds", [True, 1.5, "3", -1])
def test_seeds_are_a_whole_number(seeds: Any) -> None:
    with pytest.raises(ValueError, match="'over: seeds' is a whole number from 1"):
        parse_over({"mean": "<= 1", "seeds": seeds}, timed=False)


@pytest.mark.parametrize("level", [1, "100%", -1])
def test_a_level_lies_below_one(level: Any) -> None:
    with pytest.raises(ValueError, match="is a share between 0 and 1"):
        like([1.0], level=level)


@pytest.mark.parametrize("value", [3, None, [1], [1, 2, 3], "1", {"a": 1, "b": 2}])
def test_a_bound_of_another_form_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"is \[FROM, TO\]"):
        parse_over({"mean": value}, timed=False)


def test_shares_from_none_to_all_are_asked_for() -> None:
    for bound in ("<= 100%", ">= 100%", "<= 0", [0, 1]):
        bounds = parse_over({"share": bound}, timed=True)
        assert bounds.shares
    assert not parse_over({"mean": "<= 1s"}, timed=True).shares
    assert judge(parse_over({"share": ">= 50%"}, timed=True), [[], []], 0, held=1).measured == "share 50%"


def test_samples_from_elsewhere_alone_are_a_bound() -> None:
    given = {"like": {"file": "a.csv", "values": [1.0, 2.0]}}
    bounds = parse_over(given, timed=True)
    assert (bounds.wanted, bounds.bounds) == ("as a.csv (p >= 0.01) over seeds", ())
    assert judge(bounds, [[1.0]], 0, 1).ok is None
    assert judge(bounds, [[]], 0, 0).measured == "D 1.000, p 0.000"
