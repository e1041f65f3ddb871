"""The example descheduler in whole clusters: it spreads pods, and may fight with the scheduler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from orrery.examples import descheduler
from orrery.examples.descheduler import Policy
from orrery.examples.node_autoscaler import GROUP
from sim import load, run_plan
from sim.app.cluster import Cluster
from sim.app.run import Result
from sim.client import Client
from sim.units import MINUTE
from tests.cluster.examples.test_node_autoscaler import autoscaler, broken, budget, web
from tests.cluster.examples.test_node_autoscaler import written as autoscaled

pytestmark = pytest.mark.slow
DARK = {"at": "1m", "name": "dark", "fail": {"nodes": {"name": "node-2"}, "how": "power-loss"}, "for": "8m"}
PREFERRED = {
    "preferredDuringSchedulingIgnoredDuringExecution": [
        {
            "weight": 100,
            "preference": {
                "matchExpressions": [
                    {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-0"]}
                ]
            },
        }
    ]
}


async def run_descheduler(client: Client) -> None:
    await descheduler.run(client, Policy(interval_us=2 * MINUTE))


def preferring(replicas: int) -> dict[str, Any]:
    """The Deployment, with a wish for node-0 that the scheduler fulfils and the descheduler undoes."""
    deployment = web(replicas, "100m")
    deployment["spec"]["template"]["spec"]["affinity"] = {"nodeAffinity": PREFERRED}
    return deployment


def written(folder: Path, objects: list[Any], timeline: list[Any], expect: list[Any]) -> Path:
    cluster = {"naming": "kubernetes", "nodes": [{"count": 3, "capacity": {"cpu": 4, "memory": "8Gi"}}]}
    spec = {
        "duration": "30m",
        "cluster": cluster,
        "objects": objects,
        "timeline": timeline,
        "expect": expect,
    }
    document = {"apiVersion": "orrery.dev/v1", "kind": "Scenario", "metadata": {"name": "s"}, "spec": spec}
    path = folder / "s.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


async def ran(folder: Path, objects: list[Any], timeline: list[Any], expect: list[Any]) -> Result:
    plan = load(written(folder, objects, timeline, expect))
    return await run_plan(
        plan, picture=False, prepare=lambda c: c.add_program("descheduler", run_descheduler)
    )


def spread(count: int) -> list[Any]:
    """Each node has so many pods in the end."""
    return [
        {
            "name": f"spread {node}",
            "eventually": f"at least {count} pods on node node-{node} are ready",
            "after": "15m",
        }
        for node in range(3)
    ]


async def test_pods_of_one_owner_are_spread_again_when_a_node_is_back(tmp_path: Path) -> None:
    steady = {"name": "at rest", "invariant": {"name": "steady", "within": "6m"}}
    objects = [web(6, "100m"), budget(5)]
    kept = {"name": "kept", "invariant": "budgets-kept"}
    assert broken(await ran(tmp_path, objects, [DARK], [*spread(2), steady, kept])) == {}


async def test_descheduler_and_scheduler_that_disagree_never_come_to_rest(tmp_path: Path) -> None:
    """The scheduler prefers one node, and RemoveDuplicates does not look at preferences."""
    steady = {"name": "at rest", "invariant": {"name": "steady", "within": "6m"}}
    result = await ran(tmp_path, [preferring(3)], [], [steady])
    assert [*broken(result)] == ["at rest"]
    assert "replicasets/default/web-" in broken(result)["at rest"]


async def test_budget_without_room_keeps_the_descheduler_from_evicting(tmp_path: Path) -> None:
    never = {"name": "never", "never": {"deleted": "pods"}}
    assert broken(await ran(tmp_path, [preferring(3), budget(3)], [], [never])) == {}
    assert [*broken(await ran(tmp_path, [preferring(3), budget(2)], [], [never]))] == ["never"]


async def test_descheduler_and_autoscaler_come_to_rest_together(tmp_path: Path) -> None:
    """The one may fill the node that the other wants to remove, but not for ever."""

    def prepare(cluster: Cluster) -> None:
        cluster.add_program("descheduler", run_descheduler)
        cluster.add_program("node-autoscaler", autoscaler)

    timeline = [
        {"at": "2m", "name": "more", "scale": {"resource": "deployments", "name": "web", "replicas": 3}},
        {"at": "6m", "name": "less", "scale": {"resource": "deployments", "name": "web", "replicas": 2}},
    ]
    expect = [
        {"name": "grown", "eventually": f"at least 1 nodes labelled {GROUP}=small exist", "by": "4m"},
        {"name": "shrunk", "eventually": f"no nodes labelled {GROUP}=small exist", "after": "10m"},
        {"name": "at rest", "invariant": {"name": "steady", "within": "25m"}},
        {"name": "kept", "invariant": "budgets-kept"},
    ]
    path = autoscaled(tmp_path, [web(1), budget(1)], timeline, duration="45m", expect=expect)
    assert broken(await run_plan(load(path), picture=False, prepare=prepare)) == {}


@pytest.mark.seeds(2)
@pytest.mark.orrery(
    nodes=3,
    established=[web(6, "100m"), budget(5)],
    hunt={"runs": 3, "duration": "15m", "palette": ["fail", "crash"]},
)
async def test_drawn_faults_leave_pods_spread_and_the_cluster_at_rest(cluster: Any) -> None:
    cluster.add_program("descheduler", run_descheduler)
    await cluster.run_for("30m")
    assert await cluster.run_until_steady("6m", limit="30m")
    used = {pod["spec"]["nodeName"] for pod in cluster.list("pods")}
    assert len(used) == 3
