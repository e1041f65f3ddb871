"""The picture of a run as a Vega-Lite specification."""

from typing import Any

import pytest

from sim.ident import NAMES
from sim.report import Timeline
from sim.report.charts.chart import Chart
from sim.report.charts.run import CHOICES_MAX, INSTANTS_MAX, LINES_MAX, ROWS_MAX, run_chart
from sim.report.palette import STATES
from sim.series import Series

MINUTE_US = 60_000_000


def rows(timeline: Timeline, end_us: int = 2 * MINUTE_US) -> dict[str, Any]:
    """The rows of the picture by title, without the strip."""
    return {row["title"]: row for row in run_chart(timeline, end_us).spec["vconcat"][:-1]}


def layers(row: dict[str, Any], mark: str) -> list[dict[str, Any]]:
    """The layers of a row with this mark, each with its data."""
    return [{"data": row.get("data"), **one} for one in row["layer"] if one["mark"]["type"] == mark]


def table(layer: dict[str, Any]) -> list[list[str]]:
    return [line.split(",") for line in layer["data"]["values"].splitlines()]


def series(*points: tuple[int, int]) -> Series:
    return Series([(at_s * 1_000_000, value) for at_s, value in points])


def outage() -> Timeline:
    timeline = Timeline(NAMES["orch"])
    timeline.nodes["a<b"] = {"ready": series((1, 2), (40, 1)), "unknown": series((40, 1))}
    timeline.pods = {"running": series((2, 9))}
    timeline.available = {"seen": series((2, 9)), "truth": series((2, 9), (30, 5))}
    timeline.step("dark/1", "fail", 30_000_000)
    timeline.step("end of dark/1", "end of fail", 50_000_000)
    timeline.step("dark/2", "fail", 60_000_000)
    timeline.sample(10_000_000, 50)
    return timeline


def test_areas_hold_their_values_from_one_change_to_the_next() -> None:
    (area,) = layers(rows(outage())["nodes, zone a<b"], "area")
    assert table(area) == [
        ["t", "until", "ready", "unknown"],
        ["0", "1000", "0", "0"], ["1000", "40000", "2", "0"], ["40000", "120000", "1", "1"],
        ["120000", "120000", "1", "1"],
    ]  # fmt: skip
    assert area["encoding"]["color"]["scale"]["range"] == [STATES["ready"], STATES["unknown"]]


def test_pods_on_dead_machines_are_what_is_seen_beyond_the_truth() -> None:
    (area,) = layers(rows(outage())["pods available"], "area")
    assert table(area)[2:] == [
        ["2000", "30000", "9", "0"], ["30000", "120000", "5", "4"], ["120000", "120000", "5", "4"],
    ]  # fmt: skip


def test_occurrences_of_a_step_share_a_line_and_last_as_long_as_their_fault() -> None:
    chart = run_chart(outage(), 2 * MINUTE_US)
    first, second = chart.spec["datasets"]["steps"]
    assert (first["line"], first["t"], first["until"]) == ("dark", 30_000, 50_000)
    assert (second["line"], second["t"], second["until"]) == ("dark", 60_000, 60_000)
    assert first["what"] == "dark/1: fail, for 20.0 s"


def test_steps_beyond_the_lines_of_a_picture_share_the_last_line() -> None:
    timeline = Timeline(NAMES["orch"])
    for number in range(LINES_MAX + 4):
        timeline.step(f"s{number}", "fail", number)
    lines = dict.fromkeys(one["line"] for one in run_chart(timeline, 100).spec["datasets"]["steps"])
    assert len(lines) == LINES_MAX and list(lines)[-1] == "5 steps more"


def test_long_series_keep_their_lowest_and_highest_value() -> None:
    timeline = Timeline(NAMES["orch"])
    values = [(at, 50 + at % 7) for at in range(1, 20_000)]
    values[7_777], values[12_345] = (7_778, 1), (12_346, 99)
    timeline.pods["running"] = Series([(at * 1000, value) for at, value in values])
    (area,) = layers(rows(timeline, 20_000_000)["pods"], "area")
    shown = [int(line[2]) for line in table(area)[1:]]
    assert len(shown) <= INSTANTS_MAX and min(shown[1:]) == 1 and max(shown) == 99


def test_lines_of_zones_differ_by_their_dashes_and_have_a_legend() -> None:
    timeline = Timeline(NAMES["orch"])
    timeline.taints = {"z'&": series((1, 1), (2, 0)), "a": series((1, 2), (2, 0))}
    (line,) = layers(rows(timeline)["nodes with a NoExecute taint"], "line")
    dashes = line["encoding"]["strokeDash"]
    assert dashes["scale"]["range"][0] != dashes["scale"]["range"][1]
    assert dashes["legend"]["labelExpr"] == '({"z0": "zone a", "z1": "zone z\'&"})[datum.value]'
    assert table(line)[2] == ["1000", "2000", "2", "1"]


def test_every_row_shows_the_time_that_the_strip_chooses() -> None:
    chart = run_chart(outage(), 2 * MINUTE_US)
    *shown, strip = chart.spec["vconcat"]
    assert strip["params"][0]["name"] == "zoom"
    assert {str(row["encoding"]["x"]["scale"]["domain"]) for row in shown} == {
        str({"param": "zoom", "encoding": "x"})
    }
    assert chart.still is not None and len(chart.still["vconcat"]) == len(shown)


def test_leaders_have_a_line_each_until_the_next_one_leads() -> None:
    timeline = outage()
    plain = timeline.to_plain()
    plain["reigns"] = [
        ("scheduler", "s-0_x", 0),
        ("scheduler", "", 9_000_000),
        ("scheduler", "s-1_y", 20_000_000),
    ]
    bars = layers(rows(Timeline.of_plain(plain))["leads scheduler"], "bar")[0]
    assert [(one["line"], one["t"], one["until"]) for one in bars["data"]["values"]] == [
        ("s-0", 0, 9000), ("s-1", 20_000, 120_000),
    ]  # fmt: skip


def test_empty_run_has_a_picture() -> None:
    assert list(rows(Timeline(NAMES["orch"]), 0)) == ["API requests a second"]


def asked(**outcomes: dict[int, int]) -> Timeline:
    """Requests to the Service shop/web: by outcome, and by the second in which they were sent."""
    timeline = Timeline(NAMES["orch"])
    for outcome, seconds in outcomes.items():
        for second, number in seconds.items():
            for _ in range(number):
                timeline.request("shop/web", outcome.replace("_", " "), second * 1_000_000)
    return timeline


def test_failed_requests_are_shown_by_outcome_and_answered_ones_in_the_tooltip() -> None:
    timeline = asked(answered={1: 20, 2: 15, 3: 20}, timed_out={2: 4, 3: 1}, refused={2: 1})
    row = rows(timeline, 5_000_000)["failed requests to shop/web a second; in all 6 of 61"]
    (area,) = layers(row, "area")
    assert table(area) == [
        ["t", "until", "answered", "refused", "timed out"],
        ["0", "1000", "0.0", "0.0", "0.0"], ["1000", "2000", "20.0", "0.0", "0.0"],
        ["2000", "3000", "15.0", "1.0", "4.0"], ["3000", "4000", "20.0", "0.0", "1.0"],
        ["4000", "5000", "0.0", "0.0", "0.0"], ["5000", "5000", "0.0", "0.0", "0.0"],
    ]  # fmt: skip
    scale = area["encoding"]["color"]["scale"]
    assert scale == {
        "domain": ["refused", "timed out"],
        "range": [STATES["refused"], STATES["timed out"]],
    }
    assert area["encoding"]["color"]["legend"] == {}
    assert area["encoding"]["y"]["scale"]["domain"] == [0, 5]
    hover = layers(row, "rect")[-1]
    assert [one["title"] for one in hover["encoding"]["tooltip"]] == [
        "from", "to", "answered, a second", "refused, a second", "timed out, a second",
    ]  # fmt: skip


def test_failed_requests_of_a_long_run_are_rates_of_wider_parts() -> None:
    """An hour has 240 parts of 15 s each."""
    timeline = asked(answered={20: 29}, refused={16: 1})
    row = rows(timeline, 60 * MINUTE_US)["failed requests to shop/web a second; in all 1 of 30"]
    (area,) = layers(row, "area")
    assert table(area)[2] == ["15000", "30000", "1.93", "0.0667"]
    assert area["encoding"]["y"]["scale"]["domain"] == [0, 0.0667]


def test_requests_that_are_all_answered_have_a_row_without_areas() -> None:
    row = rows(asked(answered={1: 20}), 5_000_000)["failed requests to shop/web a second; in all 0 of 20"]
    assert layers(row, "area") == []
    (hover,) = (one for one in layers(row, "rect") if "tooltip" in one["encoding"])
    assert table(hover)[2] == ["1000", "2000", "20.0"]


def test_of_many_services_those_with_the_most_failed_requests_have_rows() -> None:
    timeline = Timeline(NAMES["orch"])
    for number in range(ROWS_MAX + 2):
        timeline.request(f"shop/s{number}", "answered" if number in (1, 4) else "cut off", 0)
    services = [title.split()[3] for title in rows(timeline) if title.startswith("failed requests")]
    assert services == [f"shop/s{number}" for number in range(ROWS_MAX + 2) if number not in (1, 4)]


def test_changes_within_one_millisecond_are_one_row_with_the_last_values() -> None:
    timeline = Timeline(NAMES["orch"])
    back_us = 60_000_100
    timeline.nodes["a"] = {
        "ready": Series([(0, 0), (back_us, 1), (back_us + 3, 2)]),
        "unknown": Series([(0, 2), (back_us, 1), (back_us + 3, 0)]),
    }
    (area,) = layers(rows(timeline)["nodes, zone a"], "area")
    assert table(area)[1:] == [
        ["0", "60000", "0", "2"], ["60000", "120000", "2", "0"], ["120000", "120000", "2", "0"],
    ]  # fmt: skip


def crowd(number: int, troubled: tuple[int, ...] = ()) -> Timeline:
    """Workloads of one running pod each; those that are troubled have a pending one for a minute."""
    timeline = Timeline(NAMES["orch"])
    for index in range(number):
        states = timeline.workloads[f"deployment d/w{index:03}"] = {"running": series((1, 1))}
        if index in troubled:
            states["pending: no node fits"] = series((10, 1), (70, 0))
    return timeline


def test_few_workloads_have_a_row_each_and_no_choice() -> None:
    timeline = crowd(ROWS_MAX, (3,))
    spec = run_chart(timeline, 2 * MINUTE_US).spec
    assert [row["title"] for row in spec["vconcat"][:ROWS_MAX]] == sorted(timeline.workloads)
    assert "params" not in spec
    (area,) = layers(rows(timeline)["deployment d/w003"], "area")
    assert table(area)[0] == ["t", "until", "running", "pending: no node fits"]
    assert ["10000", "70000", "1", "1"] in table(area)


def test_single_workload_has_no_workload() -> None:
    assert list(rows(crowd(1))) == ["API requests a second"]


def test_of_many_workloads_the_most_troubled_have_rows() -> None:
    troubled = tuple(range(90, 90 + ROWS_MAX))
    chart = run_chart(crowd(100, troubled), 2 * MINUTE_US)
    shown = [row["title"] for row in chart.spec["vconcat"][:ROWS_MAX]]
    assert shown == [f"deployment d/w{index:03}" for index in troubled]
    (choice,) = chart.spec["params"]
    assert len(choice["bind"]["options"]) == 100 - ROWS_MAX and "of 100 workloads" in choice["bind"]["name"]
    # A picture that is a file has no place to choose.
    assert chart.still is not None and "params" not in chart.still
    assert len(chart.still["vconcat"]) == len(chart.spec["vconcat"]) - 2


def test_chosen_workload_is_filtered_from_the_data_of_all() -> None:
    *_, row, _ = run_chart(crowd(ROWS_MAX + 2), 2 * MINUTE_US).spec["vconcat"]
    (area,) = layers(row, "area")
    assert row["title"] == {"text": {"expr": "workload"}}
    assert [line[:4] for line in table(area)] == [
        ["of", "t", "until", "running"],
        ["0", "0", "1000", "0"], ["0", "1000", "120000", "1"], ["0", "120000", "120000", "1"],
        ["1", "0", "1000", "0"], ["1", "1000", "120000", "1"], ["1", "120000", "120000", "1"],
    ]  # fmt: skip
    names = f'["deployment d/w{ROWS_MAX:03}", "deployment d/w{ROWS_MAX + 1:03}"]'
    assert area["transform"][0] == {"filter": f"datum.of === indexof({names}, workload)"}


@pytest.mark.slow
def test_choice_of_very_many_workloads_has_a_bound() -> None:
    timeline = crowd(2 * CHOICES_MAX)
    for states in timeline.workloads.values():
        states["running"] = Series([(at * 100_000, at % 9) for at in range(1, 1000)])
    chart = run_chart(timeline, 100_000_000)
    assert len(chart.spec["params"][0]["bind"]["options"]) == CHOICES_MAX
    assert len(chart.html()) < 200_000


@pytest.mark.slow
def test_drawn_picture_of_many_workloads_is_valid_with_its_choice() -> None:
    chart = run_chart(crowd(ROWS_MAX + 2, (1,)), 2 * MINUTE_US)
    svg = Chart(chart.spec, "").svg(600)
    assert "deployment d/w008" in svg and "deployment d/w001" in svg


@pytest.mark.slow
def test_drawn_picture_of_requests_names_the_outcomes_that_failed() -> None:
    timeline = asked(answered={1: 20}, without_a_name={2: 4})
    svg = run_chart(timeline, 5_000_000).svg(600)
    assert "failed requests to shop/web a second" in svg and "without a name" in svg
    assert STATES["without a name"] in svg
    whole = asked(answered={1: 20})
    assert "in all 0 of 20" in run_chart(whole, 5_000_000).svg(600)


def test_every_row_has_time_labels() -> None:
    chart = run_chart(outage(), 2 * MINUTE_US)
    *shown, _ = chart.spec["vconcat"]
    assert len(shown) > 3 and {row["encoding"]["x"]["axis"]["labels"] for row in shown} == {True}


def test_data_of_a_row_is_written_once() -> None:
    row = rows(outage())["nodes, zone a<b"]
    assert "values" in row["data"] and not [
        one for one in row["layer"][1:] if "values" in one.get("data", {})
    ]
    assert [one["mark"]["type"] for one in row["layer"] if "data" not in one] == ["area", "rect"]
