"""The example node autoscaler in whole clusters: it adds nodes, and removes them within budgets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from orrery.examples import node_autoscaler
from orrery.examples.node_autoscaler import GROUP, LEAVING, Group
from sim import load, run_plan
from sim.app.cluster import Cluster
from sim.app.run import Result
from sim.client import Client

pytestmark = pytest.mark.slow
SMALL = Group("small", {"cpu": "4", "memory": "8Gi", "pods": "110"}, most=3)


def web(replicas: int, cpu: str = "1500m") -> dict[str, Any]:
    """A Deployment, of which a node of the group holds one pod or two."""
    container = {"name": "c", "image": "r/web:1", "resources": {"requests": {"cpu": cpu}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def budget(least: int) -> dict[str, Any]:
    spec = {"minAvailable": least, "selector": {"matchLabels": {"app": "web"}}}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": spec,
    }


async def autoscaler(client: Client) -> None:
    await node_autoscaler.run(client, [SMALL])


def written(folder: Path, objects: list[Any], timeline: list[Any], **more: Any) -> Path:
    """A scenario with one node of four processors, in which Node objects get machines."""
    cluster = {
        "naming": "kubernetes",
        "nodes": [{"count": 1, "capacity": {"cpu": 4, "memory": "8Gi"}}],
        "adoptNodes": {"selector": GROUP},
    }
    spec = {"duration": "1m", "cluster": cluster, "objects": objects, "timeline": timeline, **more}
    document = {"apiVersion": "orrery.dev/v1", "kind": "Scenario", "metadata": {"name": "s"}, "spec": spec}
    path = folder / "s.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


async def ran(
    folder: Path, objects: list[Any], timeline: list[Any], fast: bool = True, **more: Any
) -> Result:
    plan = load(written(folder, objects, timeline, **more))
    return await run_plan(
        plan, picture=False, fast=fast, prepare=lambda c: c.add_program("node-autoscaler", autoscaler)
    )


def broken(result: Result) -> dict[str, str]:
    return {verdict.name: verdict.measured for verdict in result.verdicts if not verdict.ok}


async def test_nodes_come_for_pods_without_room_and_go_when_they_are_gone(tmp_path: Path) -> None:
    timeline = [
        {"at": "2m", "name": "more", "scale": {"resource": "deployments", "name": "web", "replicas": 5}},
        {"at": "10m", "name": "less", "scale": {"resource": "deployments", "name": "web", "replicas": 1}},
    ]
    of_group = f"nodes labelled {GROUP}"
    expect = [
        {
            "name": "grown",
            "when": f"at least 2 {of_group}=small have Ready=True",
            "after": "more",
            "within": ["30s", "60s"],
        },
        {
            "name": "all run",
            "when": "at least 5 pods labelled app=web are ready",
            "after": "more",
            "within": ["30s", "90s"],
        },
        {"name": "not more", "never": f"at least 3 {of_group}=small exist"},
        {"name": "shrunk", "when": f"no {of_group}=small exist", "after": "less", "within": ["10m", "11m"]},
        {"name": "at rest", "invariant": {"name": "steady", "within": "12m"}},
    ]
    result = await ran(tmp_path, [web(1)], timeline, duration="30m", expect=expect)
    assert broken(result) == {}


@pytest.mark.parametrize(("least", "goes"), [(1, False), (0, True)])
async def test_node_goes_only_if_the_budget_of_its_pods_allows_it(
    least: int, goes: bool, tmp_path: Path
) -> None:
    """The last pod is that of the new node, and would have room on the old one."""
    timeline = [
        {"at": "2m", "name": "full", "scale": {"resource": "deployments", "name": "web", "replicas": 3}},
        {"at": "5m", "name": "less", "scale": {"resource": "deployments", "name": "web", "replicas": 1}},
    ]
    expect = [
        {"name": "goes", "eventually": f"no nodes labelled {GROUP}=small exist", "after": "10m"},
        {"name": "kept", "invariant": "budgets-kept"},
    ]
    result = await ran(tmp_path, [web(1), budget(least)], timeline, duration="25m", expect=expect)
    assert [*broken(result)] == ([] if goes else ["goes"])


async def test_autoscaler_that_crashes_during_a_removal_opens_the_node_again(tmp_path: Path) -> None:
    def taints(cluster: Cluster) -> list[list[str]]:
        nodes = [node for node in cluster.list("nodes") if GROUP in node["metadata"]["labels"]]
        return [[taint["key"] for taint in node["spec"].get("taints", ())] for node in nodes]

    path = written(tmp_path, [], [])
    async with Cluster(load(path).cluster) as cluster:
        program = cluster.add_program("node-autoscaler", autoscaler)
        cluster.apply(web(3))
        await cluster.run_for("3m")
        assert taints(cluster) == [[]]
        cluster.do.workload(stop="never")
        cluster.do.scale(resource="deployments", name="web", replicas=1)
        assert await cluster.run_while(lambda: taints(cluster) == [[]], limit="20m")
        program.crash()
        await cluster.run_for("1s")
        assert taints(cluster) == [[LEAVING]]
        program.start()
        await cluster.run_for("5s")
        assert taints(cluster) == [[]]
        await cluster.run_for("12m")
        assert taints(cluster) == []


async def test_runs_with_the_autoscaler_are_the_same_twice_and_without_fast_paths(tmp_path: Path) -> None:
    timeline = [
        {"at": "1m", "name": "more", "scale": {"resource": "deployments", "name": "web", "replicas": 5}}
    ]
    runs = [
        await ran(tmp_path, [web(1)], timeline, fast, duration="3m", expect=[])
        for fast in (True, True, False)
    ]
    assert len({result.trace_sha256 for result in runs}) == 1
