"""Several schedulers, each for its own pods, in one run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sim.app.checked import checked_plan
from sim.app.run import run_plan
from sim.errors import InputError
from sim.kernel import read
from tests.cluster.scenario import WEB, run

PROFILES = {
    "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": "packer"}, {"schedulerName": "other"}],
}  # fmt: skip


def workload(name: str, scheduler: str, **requests: str) -> dict[str, Any]:
    """A Deployment of two pods for one scheduler."""
    containers = [{"name": "c", "image": "i", "resources": {"requests": requests}}]
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"schedulerName": scheduler, "containers": containers},
    }
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {**WEB, "metadata": {"name": name}, "spec": spec}


async def test_each_scheduler_places_the_pods_of_its_profiles(tmp_path: Path) -> None:
    names = {"a": "batch", "b": "packer", "c": "other", "d": "default-scheduler"}
    timeline = [
        {"at": "1m", "name": "it", "crash": {"actor": "batch"}, "for": "3m"},
        *({"at": "2m", "scale": {"resource": "deployments", "name": name, "replicas": 4}} for name in names),
    ]
    expect = [
        {"name": "all run", "eventually": "at least 8 pods are Running", "by": "50s"},
        {
            "name": "those of one wait",
            "always": "exactly 14 pods are Running",
            "after": "2m30s",
            "until": "end of it",
        },
        {
            "name": "then all run",
            "when": "at least 16 pods are Running",
            "within": ["0s", "10s"],
            "after": "end of it",
        },
    ]
    cluster = {"schedulers": [{"name": "batch"}, {"name": "packed", "flags": {"config": PROFILES}}]}
    objects = [workload(name, scheduler) for name, scheduler in names.items()]
    result = await run(tmp_path, timeline, expect, cluster=cluster, objects=objects)
    placed = Counter(
        each.values["pod"].split("/")[-1][0] for each in read(tmp_path / "trace") if each.kind == "schedule"
    )
    assert placed == dict.fromkeys(names, 4)
    text = (tmp_path / "trace").read_bytes()
    again = await run(tmp_path, timeline, expect, cluster=cluster, objects=objects)
    assert again.trace_sha256 == result.trace_sha256 and (tmp_path / "trace").read_bytes() == text


async def test_schedulers_that_do_not_see_each_other_overload_a_node(tmp_path: Path) -> None:
    """Both choose for a node with room for one: the agent refuses the second pod."""
    objects = [workload(name, name, cpu="5") for name in ("one", "two")]
    for each in objects:
        each["spec"]["replicas"] = 1
    cluster = {
        "schedulers": [{"name": "one"}, {"name": "two"}],
        "nodes": [{"count": 1, "capacity": {"cpu": 8}}],
    }
    expect = [{"name": "refused", "eventually": {"event": "OutOfcpu"}, "by": "1m"}]
    await run(tmp_path, [], expect, cluster=cluster, objects=objects)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("schedulers: [{name: batch, replicas: 2}]", "2 schedulers without a leader place the same pods"),
        (
            "schedulers: [{name: node}], nodes: [{count: 1}]",
            "processes are named node-0 and so on, and there is node-0",
        ),
        ("schedulers: [{name: scheduler}]", "and there is scheduler-0"),
        (
            "schedulers: [{name: a, flags: {scheduler-name: default-scheduler}}]",
            "both place the pods of 'default-scheduler'",
        ),
        ("schedulers: [{name: a, flags: {scheduler-nam: x}}]", "unknown option scheduler-nam"),
        ("schedulers: [{name: a, repliques: 1}]", "unknown field 'repliques'"),
        ("schedulers: [{name: a}, {name: a}]", "two schedulers are named a"),
    ],
)
def test_wrong_further_schedulers_are_an_error(text: str, message: str, tmp_path: Path) -> None:
    head = "apiVersion: orrery.dev/v1\nkind: Scenario\nmetadata: {name: t}\nspec:\n  duration: 8m\n"
    file = tmp_path / "s.yaml"
    file.write_text(f"{head}  cluster: {{{text}}}\n")
    with pytest.raises(InputError) as caught:
        checked_plan(file)
    assert message in str(caught.value)


async def test_plan_with_further_schedulers_gives_the_same_run_without_fast_paths(tmp_path: Path) -> None:
    head = "apiVersion: orrery.dev/v1\nkind: Scenario\nmetadata: {name: t}\nspec:\n  duration: 2m\n"
    file = tmp_path / "s.yaml"
    file.write_text(
        f"{head}  cluster: {{nodes: [{{count: 3}}], schedulers: [{{name: batch}}]}}\n  objects: [w.yaml]\n"
    )
    (tmp_path / "w.yaml").write_text(str(workload("a", "batch")).replace("'", '"'))
    plan = checked_plan(file)
    first = await run_plan(plan, picture=False)
    assert first.trace_sha256 == (await run_plan(plan, picture=False, fast=False)).trace_sha256
