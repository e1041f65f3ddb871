"""A scheduler with a configuration file in a cluster: each pod gets the profile that it names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sim.app.cluster import Cluster
from sim.app.plain_plan import plain_nodes
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan

CONFIG = {
    "apiVersion": "orchscheduler.config.orch.io/v1",
    "kind": "OrchSchedulerConfiguration",
    "profiles": [
        {"schedulerName": "default-scheduler"},
        {
            "schedulerName": "packing",
            "plugins": {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit"}]}},
            "pluginConfig": [
                {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}
            ],
        },
    ],
}


def pod(name: str, scheduler: str, node: str = "") -> dict[str, Any]:
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}}
    spec = {"schedulerName": scheduler, "containers": [{"name": "c", "image": "i", "resources": resources}]}
    if node:
        spec["nodeName"] = node
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


@pytest.mark.slow
async def test_profiles_place_their_own_pods_and_report_in_their_names() -> None:
    scheduler = replace(ComponentPlan(), flags={"config": CONFIG})
    async with Cluster(ClusterPlan(nodes=plain_nodes(3), scheduler=scheduler)) as cluster:
        await cluster.run_until("30s")
        cluster.apply(pod("first", "default-scheduler", "node-1"))
        await cluster.run_for("5s")
        names = ("packing", "packing", "default-scheduler", "unknown")
        cluster.apply(*[pod(f"p{number}", name) for number, name in enumerate(names)])
        await cluster.run_for("20s")
        nodes = [(cluster.get("pods", f"p{n}") or {})["spec"].get("nodeName") for n in range(len(names))]
        assert nodes[:2] == ["node-1", "node-1"]
        assert nodes[2] in ("node-0", "node-2")
        assert nodes[3] is None
        placed = [event for event in cluster.list("events", "default") if event["reason"] == "Scheduled"]
        reporters = {event["involvedObject"]["name"]: event["reportingComponent"] for event in placed}
        assert reporters == {"p0": "packing", "p1": "packing", "p2": "default-scheduler"}
