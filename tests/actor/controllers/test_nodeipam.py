"""The node IPAM controller, which gives nodes their pod CIDRs."""

from __future__ import annotations

from typing import Any

from sim.api.types import Obj
from tests.actor.apiserver.cluster import SCHEME
from tests.actor.controllers.clouds import StatedCloud
from tests.actor.controllers.workload import World, world

MERGE = SCHEME.names.media_merge_patch
RANGE: dict[str, Any] = {"allocate_node_cidrs": True, "cluster_cidr": "10.0.0.0/23"}


async def add(w: World, name: str, **spec: Any) -> None:
    reply = await w.plane.ask("create", "nodes", body={"metadata": {"name": name}, "spec": spec})
    assert reply.ok, reply.message


async def cidrs(w: World) -> dict[str, list[str]]:
    reply = await w.plane.ask("list", "nodes")
    found = [item.obj for item in reply.items or ()]
    return {node["metadata"]["name"]: node["spec"].get("podCIDRs", []) for node in found}


async def test_nodes_get_parts_until_none_is_left_and_again_after_a_delete() -> None:
    async with world(("nodeipam",), **RANGE) as w:
        for name in ("a", "b", "c"):
            await add(w, name)
            await w.settle()
        assert await cidrs(w) == {"a": ["10.0.0.0/24"], "b": ["10.0.1.0/24"], "c": []}
        event = ("CIDRNotAvailable", "Node c status is now: CIDRNotAvailable")
        assert await w.events("c") == [event]
        await w.plane.ask("delete", "nodes", "", "a")
        await w.settle()
        assert (await cidrs(w))["c"] == []  # no event of the node came yet
        await w.plane.ask(
            "patch", "nodes", "", "c", body={"metadata": {"labels": {"a": "b"}}}, content_type=MERGE
        )
        await w.settle()
        assert await cidrs(w) == {"b": ["10.0.1.0/24"], "c": ["10.0.0.0/24"]}


async def test_two_families_masks_and_services_decide_a_nodes_parts() -> None:
    options = {
        "allocate_node_cidrs": True,
        "cluster_cidr": "10.0.0.0/16,fd00::/60",
        "service_cluster_ip_range": "10.0.0.0/20",
        "node_cidr_mask_size_ipv4": 20,
        "node_cidr_mask_size_ipv6": 62,
    }
    async with world(("nodeipam",), **options) as w:
        await add(w, "a", podCIDRs=["10.0.16.0/20"])
        await w.settle()
        await add(w, "b")
        await w.settle()
        assert await cidrs(w) == {"a": ["10.0.16.0/20"], "b": ["10.0.32.0/20", "fd00::/62"]}


async def test_refused_patch_releases_the_parts_and_is_sent_again() -> None:
    async with world(("nodeipam",), **RANGE) as w:
        w.quota.refuse(3, "patch", "nodes", 500, "InternalError", "no")
        await add(w, "a")
        await w.settle()
        assert await cidrs(w) == {"a": ["10.0.0.0/24"]}
        assert ("CIDRAssignmentFailed", "Node a status is now: CIDRAssignmentFailed") in await w.events("a")


async def test_cloud_allocator_writes_the_range_of_the_instance() -> None:
    cloud = StatedCloud(ranges={"a": "10.9.0.0/24"})
    options = {
        "allocate_node_cidrs": True,
        "cidr_allocator_type": "CloudAllocator",
        "configure_cloud_routes": False,
        "cloud_provider": "orrery",
    }
    async with world(("nodeipam",), cloud=cloud, **options) as w:
        for name in ("a", "b"):
            await add(w, name)
        await w.settle()
        assert await cidrs(w) == {"a": ["10.9.0.0/24"], "b": []}
        node: Obj = (await w.plane.ask("get", "nodes", "", "a")).obj
        shown = {c["type"]: (c["status"], c["reason"]) for c in node["status"]["conditions"]}
        assert shown["NetworkUnavailable"] == ("False", "RouteCreated")
        assert "CIDRNotAvailable" in [reason for reason, _ in await w.events("b")]
