"""`study`: the numbers of the command line, as a value for notebooks."""

from __future__ import annotations

import asyncio
import csv
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from orrery import InputError, study
from sim.app.study.many import StudyResult

ROOT = Path(__file__).resolve().parents[3]
GRACE = "cluster.controllerManager.flags.node-monitor-grace-period"
SMALL: dict[str, Any] = {
    "apiVersion": "orrery.dev/v1",
    "kind": "Scenario",
    "metadata": {"name": "small"},
    "spec": {
        "seed": 4,
        "duration": "70s",
        "cluster": {"nodes": [{"count": 3}], "boot": "10s"},
        "timeline": [
            {"at": "20s", "name": "death", "fail": {"nodes": {"name": "node-1"}, "how": "power-loss"}}
        ],
        "expect": [
            {
                "name": "found",
                "when": "nodes named node-1 have Ready=Unknown",
                "after": "death",
                "within": ["10s", "46s"],
            },
            {"name": "kept", "never": {"deleted": "nodes"}},
        ],
    },
}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("scenarios") / "small.yaml"
    path.write_text(json.dumps(SMALL))
    return path


@pytest.fixture(scope="module")
def varied(file: Path) -> StudyResult:
    return study(file, seeds=2, vary={GRACE: ["20s", "40s"]}, jobs=1)


def orrery(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "orrery", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    return done.stdout


@pytest.mark.slow
def test_study_has_the_values_of_run_with_seeds(file: Path) -> None:
    told = json.loads(orrery("run", str(file), "--seeds", "3", "-j", "1", "--json"))
    frame = study(file, seeds=3, jobs=2).frame()
    assert frame.columns == ["seed", "expectation", "kind", "ok", "value", "unit", "part"]
    found = [row for row in frame.to_dicts() if row["expectation"] == "found"]
    assert [row["value"] for row in found] == told["expectations"][0]["quantities"][0]["values"]
    assert [(row["seed"], row["kind"], row["unit"], row["part"]) for row in found] == [
        (seed, "when", "s", 1) for seed in (4, 5, 6)
    ]
    kept = [row for row in frame.to_dicts() if row["expectation"] == "kept"]
    assert [(row["ok"], row["value"]) for row in kept] == [(True, None)] * 3


@pytest.mark.slow
def test_varied_study_saves_the_lines_of_sweep(file: Path, varied: StudyResult, tmp_path: Path) -> None:
    theirs, mine = tmp_path / "theirs.csv", tmp_path / "mine.csv"
    told = orrery("sweep", str(file), "--seeds", "2", "-j", "1", "--vary", f"{GRACE}=20s,40s",
                  "--values", str(theirs), "--json")  # fmt: skip
    varied.save(mine)
    assert mine.read_text() == theirs.read_text()
    with mine.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert [(row["seed"], row[GRACE], row["expectation"], row["ok"]) for row in rows[:3]] == [
        ("4", "20s", "found", "true"),
        ("4", "20s", "kept", "true"),
        ("5", "20s", "found", "true"),
    ]
    assert json.loads(told)["values"] == varied.frame().to_dicts()
    assert json.loads(told)["rows"] == varied.sweep.rows()


@pytest.mark.slow
def test_plot_draws_the_median_of_each_setting(varied: StudyResult) -> None:
    chart = varied.plot("found").to_dict()
    (one,) = chart["vconcat"]
    assert one["title"] == "found"
    medians = one["layer"][2]["data"]["values"]
    values = {row["x"]: row["median"] for row in medians}
    summaries = {row[GRACE]: row["p50"] for row in varied.sweep.rows() if row["quantity"] == "found"}
    assert values == {20.0: summaries["20s"], 40.0: summaries["40s"]}
    with pytest.raises(InputError, match="measures nothing"):
        varied.plot("kept")
    with pytest.raises(InputError, match="did you mean 'found'"):
        varied.plot("foudn")


@pytest.mark.slow
def test_result_shows_its_numbers_in_a_notebook(varied: StudyResult, tmp_path: Path) -> None:
    assert repr(varied) == "<study of small: 4 of 4 runs at 2 settings; everything holds in 4>"
    assert "<svg" in varied._repr_html_() and "found" in varied._repr_html_()
    for name in ("all.html", "all.json", "all.parquet"):
        varied.save(tmp_path / name)
    assert json.loads((tmp_path / "all.json").read_text()) == varied.frame().to_dicts()
    with pytest.raises(InputError, match=r"end it in \.csv"):
        varied.save(tmp_path / "all.xls")


@pytest.mark.slow
def test_document_runs_inside_an_event_loop_with_settings_and_typed_columns() -> None:
    async def cell() -> StudyResult:
        return study(SMALL, 1, vary={"cluster.nodes[0].count": [2, 3]}, settings={GRACE: "20s"}, first_seed=9)

    found = asyncio.run(cell()).frame()
    assert found["cluster.nodes[0].count"].to_list() == [2, 2, 3, 3]
    assert set(found["seed"].to_list()) == {9}
    assert max(row["value"] for row in found.to_dicts() if row["expectation"] == "found") < 27
    assert SMALL["spec"]["cluster"]["nodes"] == [{"count": 3}]


@pytest.mark.slow
def test_script_without_a_guard_runs_its_study_once(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"from orrery import study\nprint(study({SMALL!r}, seeds=2, jobs=2))\n")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout == "<study of small: 2 of 2 runs; everything holds in 2>\n"


DASK = """
import asyncio, sys
from distributed import Client, LocalCluster
from orrery import study

async def cell(cluster):
    return [study(sys.argv[1], 2, dask=address) for address in (cluster.scheduler_address, client)]

if __name__ == "__main__":
    local = dict(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None)
    with LocalCluster(**local) as cluster, Client(cluster) as client:
        by_address, by_client = asyncio.run(cell(cluster))
        print(client.status, by_address.frame().equals(by_client.frame()))
        print(by_client.frame().equals(study(sys.argv[1], 2, jobs=1).frame()))
"""


@pytest.mark.slow
def test_dask_client_and_address_give_the_values_of_processes(file: Path, tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="the extra dask is missing")
    script = tmp_path / "script.py"
    script.write_text(DASK)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, script, file], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout == "running True\nTrue\n"


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (partial(study, SMALL, 0), "0 is no number of seeds"),
        (partial(study, SMALL, jobs=0), "at least one process"),
        (partial(study, SMALL, jobs=1, dask="tcp://127.0.0.1:1"), "is not for a Dask cluster"),
        (partial(study, SMALL, vary={"cluster.boot": []}), "vary cluster.boot: has no values"),
        (partial(study, SMALL, vary={"cluster.boot": ["1s", "1s"]}), "has a value twice"),
        (partial(study, SMALL, vary={"cluster.bot": ["1s"]}), "cluster.bot"),
        (partial(study, "single-node-deth"), "did you mean 'single-node-death'"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_runs(call: partial[StudyResult], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        call()


def test_missing_packages_name_the_command_that_installs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    from sim.report.charts.chart import stacked

    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(InputError, match=r"pip install 'orrery\[lab\]'"):
        stacked([], "nothing").altair()
