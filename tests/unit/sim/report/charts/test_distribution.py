"""Histograms, pairs of distributions, and quantities over a setting."""

from typing import Any

import pytest

from sim.report.charts.distribution import Pair, histogram_chart, pairs_chart
from sim.report.charts.setting import POINTS_MAX, Line, Place, setting_chart
from sim.statistics import summarize


def histogram(
    values: list[float], wanted: tuple[float, float] | None = None, unit: str = "s", missing: int = 0
) -> dict[str, Any]:
    summary = summarize([values], missing)
    assert summary is not None
    return histogram_chart("name", values, summary, wanted, unit).spec


def bars(spec: dict[str, Any]) -> list[dict[str, Any]]:
    (found,) = [one["data"]["values"] for one in spec["layer"] if "y2" in one.get("encoding", {})]
    return list(found)


def texts(spec: dict[str, Any]) -> list[str]:
    found = []
    for one in spec["layer"]:
        if one["mark"]["type"] == "text":
            found.append(one["mark"].get("text") or one["data"]["values"][0]["label"])
    return found


def test_bars_outside_of_the_wanted_interval_are_marked() -> None:
    values = [float(number) for number in range(30, 50)]
    assert not any(bar["out"] for bar in bars(histogram(values, (20, 60))))
    marked = bars(histogram(values, (30, 40)))
    assert [bar["out"] for bar in marked] == [bar["from"] > 40 for bar in marked]
    assert sum(bar["n"] for bar in marked) == len(values)


def test_labels_of_quantiles_have_rows_of_their_own() -> None:
    spec = histogram([0.0] * 5)
    rows = [one["encoding"]["y"]["value"] for one in spec["layer"] if one["mark"]["type"] == "text"]
    assert len(set(rows)) == 3 and texts(spec) == ["p50 0.00s", "p90 0.00s", "p99 0.00s"]


def test_histogram_names_the_number_of_missing_values() -> None:
    assert "and 120 never" in texts(histogram([31.0, 44.0], missing=120))
    assert not any("never" in text for text in texts(histogram([31.0, 44.0])))


@pytest.mark.parametrize("values", [[2.0] * 9, [0.0, 1.0, 1.0, 5.0], [0.0, 20.0]])
def test_counts_are_whole_and_in_the_middle_of_their_bars(values: list[float]) -> None:
    spec = histogram(values, (2, 2), "")
    for bar in bars(spec):
        whole = [value for value in values if bar["from"] < value < bar["to"]]
        assert len(whole) == bar["n"] and bar["from"] % 1 == 0.5
    assert spec["encoding"]["x"]["axis"]["format"] == "d"


def test_pairs_have_a_row_each_with_shares_on_both_sides() -> None:
    rows = pairs_chart([Pair(name, [1.0, 2.0, 3.0], [1.5, 2.5], "p < 2") for name in ("a", "b")]).spec[
        "vconcat"
    ]
    assert [row["title"]["text"] for row in rows] == ["a", "b"]
    shares = [one["share"] for one in rows[0]["data"]["values"]]
    assert sum(share for share in shares if share > 0) == pytest.approx(1)
    assert sum(share for share in shares if share < 0) == pytest.approx(-1)


def test_setting_without_a_median_is_marked_never() -> None:
    places = [Place(1, "1m", [1.0, 2.0]), Place(2, "2m", [1.0], missing=5)]
    spec = setting_chart("q", [Line("", places)], "how long", "s").spec
    (line,) = [one for one in spec["layer"] if one["mark"] == "line"]
    assert [one["median"] for one in line["data"]["values"]] == [1.0, None]
    assert [one["mark"]["text"] for one in spec["layer"] if "text" in one["mark"]] == ["never"]
    assert spec["encoding"]["x"]["axis"]["labelExpr"] == '(["1m", "2m"])[indexof([1, 2], datum.value)]'


def test_lines_that_may_coincide_have_dashes_and_many_values_no_points() -> None:
    places = [Place(float(number), f"{number}s", [1.0] * (POINTS_MAX // 20)) for number in range(20)]
    spec = setting_chart("q", [Line("a", places), Line("b", places)], "x", "s").spec
    assert not [
        one for one in spec["layer"] if isinstance(one["mark"], dict) and one["mark"]["type"] == "circle"
    ]
    (line,) = [one for one in spec["layer"] if one["mark"] == "line"]
    first, second = line["encoding"]["strokeDash"]["scale"]["range"]
    assert first == [1, 0] and second != first


@pytest.mark.parametrize(("equal", "ticks"), [(1, [0, 1]), (2, [0, 1, 2]), (7, [0, 2, 4, 6]), (90, [0, 50])])
def test_numbers_of_values_have_whole_ticks(equal: int, ticks: list[int]) -> None:
    values = [3.0] * equal + [5.0]
    chart = histogram_chart("a", values, summarize([values], 0), None, "s")
    layers = [one["encoding"] for one in chart.spec["layer"] if "y2" in one.get("encoding", {})]
    assert [one["y"]["axis"]["values"] for one in layers] == [ticks]
