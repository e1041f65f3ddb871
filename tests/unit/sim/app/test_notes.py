"""Notes about a plan, as commands print them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from sim.app.cli.main import main
from sim.app.notes import notes_of
from sim.scenario.check.endless import endless_jobs
from sim.scenario.compile import load


def endless_job() -> dict[str, Any]:
    containers = [{"name": "c", "image": "nginx"}]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "pi"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": containers}}},
    }


def scenario(folder: Path, *objects: dict[str, Any]) -> Path:
    file = folder / "s.yaml"
    spec = {
        "duration": "1s",
        "cluster": {"naming": "kubernetes", "nodes": [{"count": 1}]},
        "objects": list(objects),
        "expect": [{"name": "none", "never": "at least 9 pods are Running"}],
    }
    head = {"apiVersion": "orrery.dev/v1", "kind": "Scenario", "metadata": {"name": "s"}}
    file.write_text(yaml.safe_dump({**head, "spec": spec}))
    return file


@pytest.mark.parametrize("options", [[], ["--json"], ["--json", "--seeds", "1"]])
def test_run_prints_notes_in_plain_and_json_output(
    tmp_path: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    file = scenario(tmp_path, endless_job())
    assert main(["run", str(file), "--no-report", "--quiet", *options]) == 0
    out, err = capsys.readouterr()
    (note,) = endless_jobs(load(file))
    assert err.count(note) == 1
    if options:
        assert json.loads(out)["notes"] == [note]


def test_validate_prints_notes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = scenario(tmp_path, endless_job())
    assert main(["validate", str(file)]) == 0
    assert capsys.readouterr().err.count(endless_jobs(load(file))[0]) == 1


def test_jobs_of_an_established_cluster_that_never_end_are_noted(tmp_path: Path) -> None:
    file = scenario(tmp_path, endless_job())
    file.write_text(
        file.read_text().replace("naming: kubernetes", "naming: kubernetes\n    established: true")
    )
    plan = load(file)
    assert plan.cluster.established and len(endless_jobs(plan)) == 1


LISTS = {"at": "0s", "name": "flood", "load": {"rate": "9/s", "list": "pods"}}
OF_A_USER = {"at": "0s", "name": "flood", "load": {"rate": "9/s", "list": "pods", "user": "agent"}}
MAPS = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}
COSTLESS = "the lists of 'flood' slow nothing: requests cost an API server nothing without"


@pytest.mark.parametrize(
    ("timeline", "api_server", "notes"),
    [
        ([LISTS], {}, ["exempt from fairness"]),
        ([OF_A_USER], {}, ["as 500m"]),
        ([LISTS], {"capacity": "500m"}, []),
        ([OF_A_USER], {"capacity": "500m"}, []),
        ([{"at": "0s", "load": {"rate": "9/s", "create": MAPS}}], {}, []),
        ([LISTS, {"at": "0s", "overload": {"apiServer": "apiserver", "by": "2s"}}], {}, ["exempt from"]),
        ([OF_A_USER, {"at": "0s", "overload": {"apiServer": "apiserver", "by": "2s"}}], {}, []),
        ([LISTS, {"at": "0s", "overload": {"apiServer": "apiserver", "inflight": 9}}], {}, []),
    ],
)
def test_flood_that_slows_nothing_is_noted(
    tmp_path: Path, timeline: list[Any], api_server: dict[str, Any], notes: list[str]
) -> None:
    file = scenario(tmp_path)
    document = yaml.safe_load(file.read_text())
    document["spec"] |= {"timeline": timeline}
    document["spec"]["cluster"] |= {"apiServer": api_server}
    file.write_text(yaml.safe_dump(document))
    shown = notes_of(load(file))
    assert [COSTLESS in note and text in note for note, text in zip(shown, notes, strict=True)] == [
        True for _ in notes
    ]
