"""Notes about a plan: claims that pods mount and that are not waited for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from sim.app.cli.main import main
from sim.app.endless import endless_jobs
from sim.app.notes import NOT_WAITED_FOR, mounts_claim, note_of_pod, unwaited_claims
from sim.scenario.plan.compile import load

CLAIM = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
CONTAINERS = [{"name": "c", "image": "i"}]


def pod_spec(*volumes: dict[str, Any]) -> dict[str, Any]:
    return {"containers": CONTAINERS, "volumes": list(volumes)}


def template(*volumes: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"labels": {"a": "b"}}, "spec": pod_spec(*volumes)}


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


def pod(name: str, *volumes: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": pod_spec(*volumes)}


def stateful_set(**spec: Any) -> dict[str, Any]:
    whole = {
        "serviceName": "s",
        "selector": {"matchLabels": {"a": "b"}},
        "template": template(),
        **spec,
    }
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": whole}


@pytest.mark.parametrize(
    ("volume", "is_claim"),
    [
        (CLAIM, True),
        ({"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}, True),
        ({"name": "v", "emptyDir": {}}, False),
    ],
)
def test_volume_of_a_claim_is_recognized(volume: dict[str, Any], is_claim: bool) -> None:
    assert mounts_claim(pod_spec(volume)) is is_claim
    created = {"metadata": {"namespace": "n", "name": "p"}, "spec": pod_spec(volume)}
    assert note_of_pod(created) == (f"Pod n/p: {NOT_WAITED_FOR}" if is_claim else "")


def test_claims_are_noted_once_for_all_kinds_of_owners(tmp_path: Path) -> None:
    access = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    templates = [{"metadata": {"name": "data"}, "spec": access}]
    first = stateful_set(volumeClaimTemplates=templates)
    file = scenario(tmp_path, first, pod("p", CLAIM), pod("q"))
    assert unwaited_claims(load(file)) == [f"{file}: StatefulSet db (and 1 more): {NOT_WAITED_FOR}"]
    assert unwaited_claims(load(scenario(tmp_path, pod("q"), stateful_set()))) == []


@pytest.mark.parametrize("options", [[], ["--json"], ["--json", "--seeds", "1"]])
def test_run_notes_claims_in_plain_and_json_output(
    tmp_path: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    file = scenario(tmp_path, pod("p", CLAIM))
    assert main(["run", str(file), "--no-report", "--quiet", *options]) == 0
    out, err = capsys.readouterr()
    note = f"{file}: Pod p: {NOT_WAITED_FOR}"
    assert err.count(note) == 1
    if options:
        assert json.loads(out)["notes"] == [note]


def test_validate_notes_claims(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = scenario(tmp_path, pod("p", CLAIM))
    assert main(["validate", str(file)]) == 0
    assert capsys.readouterr().err.count(NOT_WAITED_FOR) == 1


def test_jobs_of_an_established_cluster_that_never_end_are_noted(tmp_path: Path) -> None:
    containers = [{"name": "c", "image": "i", "command": ["perl", "x"]}]
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "pi"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": containers}}},
    }
    file = scenario(tmp_path, job)
    file.write_text(
        file.read_text().replace("naming: kubernetes", "naming: kubernetes\n    established: true")
    )
    plan = load(file)
    assert plan.cluster.established and len(endless_jobs(plan)) == 1
