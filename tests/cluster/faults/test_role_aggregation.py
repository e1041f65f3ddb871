"""Aggregated ClusterRoles while the controller manager is away."""

from __future__ import annotations

from typing import Any

from sim.app.cluster import Cluster
from tests.unit.sim.api.auth.rbac.builders import role, rule

PODS, NODES = rule("get", "pods"), rule("get", "nodes")
GATHERS = {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"part-of": "all"}}]}}


def create(cluster: Cluster, body: dict[str, Any]) -> None:
    reply = cluster.request("create", "clusterroles", body=body)
    assert reply.code == 201, reply.body


def selected(name: str, *rules: dict[str, Any]) -> dict[str, Any]:
    return {**role(name, *rules), "metadata": {"name": name, "labels": {"part-of": "all"}}}


def gathered(cluster: Cluster) -> Any:
    found = cluster.get("clusterroles", "all", "")
    assert found is not None
    return found["rules"]


async def test_roles_that_change_during_a_crash_are_gathered_after_it() -> None:
    async with Cluster(naming="kubernetes") as cluster:
        await cluster.run_for("10s")
        create(cluster, {**role("all"), **GATHERS})
        create(cluster, selected("a", PODS))
        await cluster.run_for("10s")
        assert gathered(cluster) == [PODS]
        manager = cluster.supervisor["controller-manager-0"]
        manager.crash()
        create(cluster, selected("b", NODES))
        cluster.request("delete", "clusterroles", "", "a")
        await cluster.run_for("1m")
        assert gathered(cluster) == [PODS]
        manager.start()
        await cluster.run_for("1m")
        assert gathered(cluster) == [NODES]
