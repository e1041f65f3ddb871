"""Invariants on whole runs: what keeps them, what breaks them, and that they change nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from sim import InputError, load, run_plan
from sim.app.possible import expectations_of
from sim.app.run import Result
from sim.check.invariants import INVARIANTS
from tests.cluster.faults.test_custom_resources import WIDGETS, definition, widget

WEB: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "r/web:1"}]},
        },
    },
}
BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "web"},
    "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
}
STUCK = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "kept", "finalizers": ["example.com/kept"]},
}
ALL = [{"name": name, "invariant": name} for name in INVARIANTS]


def scenario(folder: Path, timeline: list[Any], expect: list[Any], **more: Any) -> Path:
    """A scenario file of three nodes with a Deployment and its budget."""
    cluster = {"naming": "kubernetes", "nodes": [{"count": 3}], "controllerManager": {"replicas": 2}}
    spec = {
        "duration": "25m",
        "cluster": cluster,
        "objects": [WEB, BUDGET, STUCK],
        "timeline": timeline,
        "expect": expect,
    }
    path = folder / "s.yaml"
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "orrery.dev/v1",
                "kind": "Scenario",
                "metadata": {"name": "s"},
                "spec": {**spec, **more},
            }
        )
    )
    return path


async def ran(path: Path) -> Result:
    return await run_plan(load(path), picture=False)


def broken(result: Result) -> dict[str, str]:
    return {verdict.name: verdict.measured for verdict in result.verdicts if not verdict.ok}


@pytest.mark.slow
async def test_faults_that_end_keep_every_invariant_and_its_judgement_changes_no_trace(
    tmp_path: Path,
) -> None:
    timeline = [
        {"at": "2m", "name": "dark", "fail": {"nodes": {"name": "node-0"}, "how": "power-loss"}, "for": "8m"},
        {"at": "11m", "name": "gone", "crash": {"actor": "controller-manager-leader"}, "for": "1m"},
        {"at": "13m", "name": "empty", "drain": {"nodes": {"name": "node-1"}}},
    ]
    result = await ran(scenario(tmp_path, timeline, ALL))
    assert broken(result) == {}
    texts = {verdict.name: verdict.measured for verdict in result.verdicts}
    assert [name for name, text in texts.items() if "not judged" in text] == []
    assert result.trace_sha256 == (await ran(scenario(tmp_path, timeline, []))).trace_sha256


@pytest.mark.slow
async def test_finalizer_without_a_controller_is_a_stuck_deletion(tmp_path: Path) -> None:
    timeline = [{"at": "2m", "name": "rm", "delete": {"resource": "configmaps", "name": "kept"}}]
    result = await ran(scenario(tmp_path, timeline, ALL))
    assert [*broken(result)] == ["no-stuck-deletion"]
    assert broken(result)["no-stuck-deletion"].startswith("configmaps/default/kept for 23m")


@pytest.mark.slow
@pytest.mark.parametrize("finalizers", [[], ["example.com/kept"]])
async def test_custom_object_without_an_end_is_a_stuck_deletion(
    tmp_path: Path, finalizers: list[str]
) -> None:
    last = {**widget("b"), "metadata": {"name": "b", "finalizers": finalizers}}
    timeline = [
        {"at": "2m", "name": "one", "delete": {"resource": WIDGETS, "name": "b"}},
        {"at": "4m", "name": "all", "delete": {"resource": "customresourcedefinitions", "name": WIDGETS}},
    ]
    objects = [definition(), widget("a"), last]
    result = await ran(scenario(tmp_path, timeline[: 1 if finalizers else 2], ALL, objects=objects))
    stuck = "widgets/default/b for 23m00s, to the end"
    assert broken(result) == ({"no-stuck-deletion": stuck} if finalizers else {})


@pytest.mark.slow
async def test_stalled_leader_acts_beside_the_new_one_for_its_renew_deadline(tmp_path: Path) -> None:
    """As upstream: a new round of tries has the whole renew deadline, also after a stall."""
    timeline = [{"at": "3m", "name": "stall", "stall": {"actor": "controller-manager-leader"}, "for": "1m"}]
    strict = {"name": "strict", "invariant": {"name": "one-leader", "within": "0s"}}
    result = await ran(scenario(tmp_path, timeline, [*ALL, strict], duration="16m"))
    assert [*broken(result)] == ["strict"]
    assert "beside controller-manager-" in broken(result)["strict"]


@pytest.mark.slow
async def test_controller_that_is_gone_for_good_leaves_a_deployment_short(tmp_path: Path) -> None:
    timeline = [
        {"at": "3m", "name": "gone", "crash": {"actor": "controller-manager"}},
        {"at": "4m", "name": "dark", "fail": {"nodes": {"name": "node-*"}, "how": "power-loss"}, "for": "1m"},
        {"at": "8m", "name": "more", "scale": {"resource": "deployments", "name": "web", "replicas": 5}},
    ]
    result = await ran(scenario(tmp_path, timeline, ALL))
    assert [*broken(result)] == ["available-again"]
    assert broken(result)["available-again"].startswith("deployments/default/web has 3 of ")


def test_unknown_invariant_is_refused_at_its_place(tmp_path: Path) -> None:
    path = scenario(tmp_path, [], [{"name": "x", "invariant": "one-leadr"}])
    with pytest.raises(
        InputError, match="there is no invariant 'one-leadr'; did you mean 'one-leader'"
    ) as error:
        expectations_of(load(path))
    assert error.value.place.startswith(str(path))
