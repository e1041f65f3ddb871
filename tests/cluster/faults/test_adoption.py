"""Node objects that clients create get a machine, which ends with its object."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.objects import is_ready
from sim.app.cluster import Cluster
from sim.errors import InputError
from sim.scenario.plan.plan import AdoptionPlan, ClusterPlan, NodePlan
from sim.scenario.schema.sections import Runtime

DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "r/web:1"}], "nodeSelector": {"type": "kwok"}},
        },
    },
}


def node(name: str, **labels: str) -> dict[str, Any]:
    size = {"cpu": "32", "memory": "256Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": size, "allocatable": size},
    }


def adopting(selector: str = "type=kwok", **more: Any) -> Cluster:
    own = NodePlan("own", "", "", {"cpu": "1", "memory": "1Gi"}, {"type": "own"}, (), Runtime(), {})
    plan = AdoptionPlan(selector, **more)
    return Cluster(ClusterPlan(naming="kubernetes", nodes=(own,), adoption=plan))


def running_on(cluster: Cluster, name: str) -> int:
    pods = cluster.list("pods")
    return sum(pod["spec"].get("nodeName") == name and pod["status"]["phase"] == "Running" for pod in pods)


async def test_created_node_object_becomes_ready_and_runs_pods() -> None:
    async with adopting() as cluster:
        await cluster.run_for("30s")
        cluster.apply(node("extra", type="kwok"), DEPLOYMENT)
        await cluster.run_for("60s")
        made = cluster.get("nodes", "extra")
        assert made is not None and is_ready(made)
        assert made["status"]["capacity"]["cpu"] == "32"
        assert running_on(cluster, "extra") == 2


async def test_deletion_of_adopted_node_takes_its_machine_away() -> None:
    async with adopting() as cluster:
        await cluster.run_for("30s")
        cluster.apply(node("extra", type="kwok"), DEPLOYMENT)
        await cluster.run_for("60s")
        cluster.do.delete(resource="nodes", name="extra")
        await cluster.run_for("5m")
        assert list(cluster.nodes) == ["own"] and cluster.get("nodes", "extra") is None
        assert running_on(cluster, "extra") == 0
        cluster.apply(node("extra", type="kwok"))  # another machine of the same name
        await cluster.run_for("60s")
        assert running_on(cluster, "extra") == 2


async def test_adopted_node_with_a_fault_is_taken_away_with_it() -> None:
    async with adopting() as cluster:
        await cluster.run_for("30s")
        cluster.apply(node("extra", type="kwok"))
        await cluster.run_for("30s")
        cluster.fail_node("extra", "power-loss")
        await cluster.run_for("30s")
        cluster.do.delete(resource="nodes", name="extra")
        await cluster.run_for("30s")
        assert list(cluster.nodes) == ["own"]
        cluster.apply(node("extra", type="kwok"))
        await cluster.run_for("60s")
        made = cluster.get("nodes", "extra")
        assert made is not None and is_ready(made)


async def test_node_object_without_the_labels_has_no_machine_until_it_has_them() -> None:
    async with adopting() as cluster:
        await cluster.run_for("30s")
        cluster.apply(node("extra", type="other"))
        await cluster.run_for("30s")
        assert list(cluster.nodes) == ["own"]
        cluster.apply(node("extra", type="kwok"))
        await cluster.run_for("30s")
        assert list(cluster.nodes) == ["own", "extra"]


async def test_deleted_node_of_the_plan_keeps_its_machine() -> None:
    async with adopting("") as cluster:
        await cluster.run_for("30s")
        cluster.do.delete(resource="nodes", name="own")
        await cluster.run_for("30s")
        assert cluster.nodes["own"].machine.powered


async def test_object_with_the_name_of_a_process_gets_no_machine() -> None:
    async with adopting("") as cluster:
        await cluster.run_for("30s")
        cluster.apply(node("scheduler-0"))
        await cluster.run_for("30s")
        assert list(cluster.nodes) == ["own"]


async def test_profile_gives_what_the_object_does_not_say() -> None:
    flags = {"max-pods": 7}
    async with adopting("", capacity={"cpu": "4"}, flags=flags) as cluster:
        await cluster.run_for("30s")
        cluster.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "extra"}})
        await cluster.run_for("60s")
        made = cluster.get("nodes", "extra")
        assert made is not None and is_ready(made)
        capacity = made["status"]["capacity"]
        assert (capacity["cpu"], capacity["memory"], capacity["pods"]) == ("4", "32Gi", "7")


def test_profile_with_a_wrong_flag_is_refused_before_the_run() -> None:
    with pytest.raises(InputError, match="max-pods"):
        adopting(flags={"max-pods": "many"})


async def test_adopted_node_keeps_the_zone_of_its_object() -> None:
    async with adopting("") as cluster:
        zone = cluster.names.label_zone
        await cluster.run_for("30s")
        cluster.apply(node("extra", **{zone: "z"}))
        await cluster.run_for("60s")
        made = cluster.get("nodes", "extra")
        assert made is not None and is_ready(made) and made["metadata"]["labels"][zone] == "z"


async def test_adopted_node_keeps_the_allocatable_amounts_of_its_object() -> None:
    async with adopting() as cluster:
        await cluster.run_for("30s")
        obj = node("extra", type="kwok")
        obj["status"]["allocatable"] = {"cpu": "31", "memory": "200Gi", "pods": "100"}
        cluster.apply(obj)
        for _ in range(3):  # at its registration, and by later passes
            await cluster.run_for("60s")
            held = cluster.get("nodes", "extra")["status"]["allocatable"]
            assert {key: held[key] for key in ("cpu", "memory", "pods")} == obj["status"]["allocatable"]


async def test_adopted_node_without_addresses_gets_two_of_them() -> None:
    async with adopting() as cluster:
        await cluster.run_for("30s")
        cluster.apply(node("extra", type="kwok"))
        for _ in range(12):
            await cluster.run_for("1s")
            held = cluster.get("nodes", "extra")["status"].get("addresses", [])
            assert [set(address) for address in held] == [{"type", "address"}] * len(held)
        assert [address["type"] for address in held] == ["InternalIP", "Hostname"]
