"""Varied settings become points, and their outcomes rows, charts and lines of CSV."""

import csv
from functools import partial
from pathlib import Path

import pytest

from sim.app.study.outcome import Measured, Outcome
from sim.app.study.sweep import Axis, Sweep, jobs_of_points, parse_axis, points_of, sweep_of
from sim.app.study.sweep_report import print_sweep, write_csv, write_sweep
from sim.app.study.values import value_rows, write_values
from sim.errors import InputError

SCENARIO = """
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: small}
spec:
  seed: 4
  duration: 30s
  cluster: {nodes: [{count: 2}]}
  expect:
    - {name: up, when: "all nodes are ready", within: [0s, 20s]}
"""


def test_commas_in_brackets_and_quotes_belong_to_a_value() -> None:
    assert parse_axis("a.b=1,[2, 3],{x: 4,y: 5},'6,7'") == Axis(
        "a.b", ("1", "[2, 3]", "{x: 4,y: 5}", "'6,7'")
    )
    assert Axis("k", ("20s", "1m", "0")).numbers == (20, 60, 0)
    assert Axis("k", ("20s", "orch")).numbers is None
    for bad in ("a", "a=", "=1", "a=1,,2", "a=1,1"):
        with pytest.raises(InputError, match="--vary"):
            parse_axis(bad)


@pytest.fixture
def swept(tmp_path: Path) -> Sweep:
    file = tmp_path / "small.yaml"
    file.write_text(SCENARIO)
    axes = [parse_axis("cluster.boot=10s,1s"), parse_axis("cluster.naming=orch,kubernetes")]
    points = points_of(file, ["duration=1m"], axes)
    jobs = list(jobs_of_points(points, None, 3))
    assert [job.seed for job in jobs] == [4, 5, 6] * 4 and len({job.key for job in jobs}) == 4
    outcomes = [
        Outcome(
            job.key,
            job.seed,
            expectations=(
                Measured("up", "when", index != 5, "…", "…", (float(index),)),
                Measured("down", "when", index == 5, "…", "…", ()),
            ),
        )
        for index, job in enumerate(jobs)
        if index != 11  # an interrupted sweep
    ]
    return sweep_of(axes, points, outcomes[::-1], jobs, 3)


def test_each_point_gets_its_own_outcomes(swept: Sweep) -> None:
    assert [point.settings for point in swept.points][1] == (
        "duration=1m",
        "cluster.boot=10s",
        "cluster.naming=kubernetes",
    )
    rows = swept.rows()
    assert [(row["cluster.boot"], row["cluster.naming"]) for row in rows] == [
        ("10s", "orch"),
        ("10s", "kubernetes"),
        ("1s", "orch"),
        ("1s", "kubernetes"),
    ]
    assert [row["mean"] for row in rows] == [1, 4, 7, 9.5]
    assert [(row["held"], row["seeds"]) for row in rows] == [(3, 3), (2, 3), (3, 3), (2, 2)]


def test_page_and_csv_hold_every_point(swept: Sweep, tmp_path: Path) -> None:
    page, lines = tmp_path / "page.html", tmp_path / "lines.csv"
    write_sweep(page, swept)
    text = page.read_text()
    assert text.count('<div class="chart"') == 1 and '["naming orch","naming kubernetes"]' in text
    write_csv(lines, swept)
    with lines.open() as read:
        rows = list(csv.DictReader(read))
    assert len(rows) == 4 and rows[1]["p50"] == "4.0" and rows[1]["cluster.naming"] == "kubernetes"


def test_a_chart_and_its_table_agree_on_what_mostly_never_happened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(SCENARIO)
    axes = [parse_axis("cluster.boot=10s,1s,2s")]
    points = points_of(file, [], axes)
    jobs = list(jobs_of_points(points, None, 3))
    outcomes = [
        Outcome(
            job.key,
            job.seed,
            expectations=(Measured("up", "when", False, "…", "…", (1.0,) * happened, 1 - happened),),
        )
        for job, happened in zip(jobs, (1, 1, 1, 1, 0, 0, 0, 0, 0), strict=True)
    ]
    sweep = sweep_of(axes, points, outcomes, jobs, 3)
    print_sweep(sweep, 1.0, None)
    said = [line.split() for line in capsys.readouterr().out.splitlines()[2:5]]
    assert [line[2:8] for line in said] == [
        ["3", "0", "1.00", "1.00", "1.00", "1.00"],
        ["1", "2", "1.00", "never", "never", "never"],
        ["0", "3", "never", "never", "never", "never"],
    ]
    page = tmp_path / "page.html"
    write_sweep(page, sweep)
    told = page.read_text()
    assert '"setting":"10s","p10":1.0,"median":1.0,"p90":1.0' in told
    assert '"setting":"1s","p10":1.0,"median":null,"p90":null' in told
    assert '"setting":"2s","p10":null,"median":null,"p90":null' in told and '"text":"never"' in told


def test_bad_settings_are_reported_before_anything_runs(tmp_path: Path) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(SCENARIO)
    for text, message in (
        ("cluster.naming=orch,other", "invalid enum value .other."),
        ("cluster.controllerManager.flags.no-such-flag=1", "no-such-flag"),
    ):
        with pytest.raises(InputError, match=message):
            points_of(file, [], [parse_axis(text)])


def test_what_is_wrong_at_one_point_names_it(tmp_path: Path) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(
        SCENARIO.replace("  expect:", "  timeline: [{at: 5s, cordon: {nodes: {pick: 2}}}]\n  expect:")
    )
    axes = [parse_axis("cluster.nodes[0].count=2,1"), parse_axis("duration=30s,40s")]
    told = r"cannot pick 2: there are 1 \(with cluster\.nodes\[0\]\.count=1 duration=30s\)"
    with pytest.raises(InputError, match=told):
        points_of(file, [], axes)


def test_a_setting_of_a_varied_key_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(SCENARIO)
    with pytest.raises(InputError, match=r"--set duration=50s: has no effect, for the key is varied"):
        points_of(file, ["duration=50s"], [parse_axis("duration=30s,40s")])


def test_what_measures_nothing_and_what_is_left_to_run_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(SCENARIO + "    - {name: calm, never: {deleted: pods}}\n")
    axes = [parse_axis("cluster.boot=10s,1s")]
    points = points_of(file, [], axes)
    jobs = list(jobs_of_points(points, None, 2))
    outcomes = [
        Outcome(
            job.key,
            job.seed,
            expectations=(
                Measured("up", "when", True, "…", "…", (1.0,)),
                Measured("calm", "never", job.key == jobs[0].key, "…", "never", ()),
            ),
        )
        for job in jobs[:3]
    ]
    kept = outcomes[2].expectations
    outcomes[2] = Outcome(jobs[2].key, jobs[2].seed, error="OSError: a disk [full]")
    lost = sweep_of(axes, points, outcomes, jobs, 2)
    print_sweep(lost, 1.0, None)
    said = " ".join(capsys.readouterr().out.split())
    assert f"seed {jobs[2].seed} at 1s failed: OSError: a disk [full]" in said
    assert f"orrery run {file} --seed {jobs[2].seed} --set cluster.boot=1s" in said
    outcomes[2] = Outcome(jobs[2].key, jobs[2].seed, expectations=kept)
    sweep = sweep_of(axes, points, outcomes, jobs, 2)
    calm = [row for row in sweep.rows() if row["quantity"] == "calm"]
    assert [(row["cluster.boot"], row["held"], row["seeds"]) for row in calm] == [("10s", 2, 2), ("1s", 0, 1)]
    print_sweep(sweep, 1.0, None)
    said = " ".join(capsys.readouterr().out.split())
    assert "calm boot holds 10s 2/2 1s 0/1 3 of 4 runs in 1.0 s" in said


def test_values_have_a_row_for_each_value_and_for_what_did_not_occur(tmp_path: Path) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(SCENARIO + "    - {name: both, order: [all nodes are ready, no nodes exist]}\n")
    axes = [parse_axis("cluster.boot=10s")]
    points = points_of(file, [], axes)
    jobs = list(jobs_of_points(points, None, 3))
    up, both = partial(Measured, "up", "when"), partial(Measured, "both", "order")
    outcomes = [
        Outcome(jobs[0].key, 4, expectations=(up(True, "", "", (1.0,), 1), both(True, "", "", (2.0, 3.0)))),
        Outcome(jobs[1].key, 5, expectations=(up(False, "", "", (), 1), both(False, "", "", (4.0,)))),
        Outcome(jobs[2].key, 6, error="ValueError: no"),
    ]
    sweep = sweep_of(axes, points, outcomes, jobs, 3)
    rows = value_rows(sweep)
    assert list(rows[0]) == ["seed", "cluster.boot", "expectation", "kind", "ok", "value", "unit", "part"]
    assert [(row["seed"], row["expectation"], row["ok"], row["value"], row["part"]) for row in rows] == [
        (4, "up", True, 1.0, 1),
        (4, "up", True, None, 2),
        (4, "both", True, 2.0, 1),
        (4, "both", True, 3.0, 2),
        (5, "up", False, None, 1),
        (5, "both", False, 4.0, 1),
        (5, "both", False, None, 2),
        (6, "up", None, None, 1),
        (6, "both", None, None, 1),
    ]
    assert {row["unit"] for row in rows} == {"s"} and {row["cluster.boot"] for row in rows} == {"10s"}
    write_values(tmp_path / "values.csv", sweep)
    assert (tmp_path / "values.csv").read_text().splitlines()[-1] == "6,10s,both,order,,,s,1"
