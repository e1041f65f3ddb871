"""The picture of a run as a Vega-Lite specification."""

from typing import Any

from sim.ident import NAMES
from sim.report import Timeline
from sim.report.charts.run import INSTANTS_MAX, LINES_MAX, run_chart
from sim.report.palette import STATES
from sim.series import Series

MINUTE_US = 60_000_000


def rows(timeline: Timeline, end_us: int = 2 * MINUTE_US) -> dict[str, Any]:
    """The rows of the picture by title, without the strip."""
    return {row["title"]: row for row in run_chart(timeline, end_us).spec["vconcat"][:-1]}


def layers(row: dict[str, Any], mark: str) -> list[dict[str, Any]]:
    return [one for one in row["layer"] if one["mark"]["type"] == mark]


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
