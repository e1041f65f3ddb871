"""Topology hints in slices while nodes and pods change."""

from __future__ import annotations

from typing import Any

import pytest

from actors.controllers.endpointslice.topology_hints import allocations_of, hinted, is_overloaded, shares_of
from sim.api.types import Obj
from sim.ident import NAMES
from tests.actor.controllers.test_endpoints import pod, service
from tests.actor.controllers.workload import World, world

LOOPS = ("endpointslice",)
ORCH = NAMES["orch"]
AUTO = {ORCH.annotation_topology_hints: "Auto"}


def node(name: str, zone: str = "", cpu: str = "4", ready: str = "True", role: str = "") -> Obj:
    labels = {ORCH.label_zone: zone} if zone else {}
    if role:
        labels[f"{ORCH.label_node_role_prefix}{role}"] = ""
    status: Obj = {"conditions": [{"type": "Ready", "status": ready}], "allocatable": {"cpu": cpu}}
    return {"metadata": {"name": name, "labels": labels}, "status": status}


def endpoint(ip: str, zone: str, ready: bool = True, hint: str = "") -> Obj:
    made: Obj = {"addresses": [ip], "conditions": {"ready": ready}, "zone": zone}
    return {**made, "hints": {"forZones": [{"name": hint}]}} if hint else made


def test_zone_shares_count_cpu_of_ready_nodes_outside_of_the_control_plane() -> None:
    nodes = [node("a", "a"), node("b", "b", "2"), node("b2", "b", "2000m"), node("c", "c", ready="False")]
    assert shares_of([*nodes, node("m", role="control-plane"), node("n", role="master")], ORCH) == {
        "a": 0.5,
        "b": 0.5,
    }
    assert shares_of(nodes[:1], ORCH) == {}  # one zone
    assert shares_of([*nodes, node("x")], ORCH) == {}  # a node without zone
    assert shares_of([*nodes, node("x", "a", "0")], ORCH) == {}  # a node without CPU


def test_zone_allocations_follow_the_shares() -> None:
    # 10 endpoints: 5, 3, 2 desired; minima are a sixth less, rounded up: 4.17, 2.5, 1.67; room 0.
    found = allocations_of({"a": 0.5, "b": 0.3, "c": 0.2}, 10)
    assert {zone: (a.least, a.most) for zone, a in found.items()} == {"a": (5, 5), "b": (3, 3), "c": (2, 2)}
    found = allocations_of({"a": 0.5, "b": 0.5}, 30)  # minima 12.5, rounded up to 13; 4 are free
    assert {zone: (a.least, a.most, a.desired) for zone, a in found.items()} == {
        "a": (13, 17, 15.0),
        "b": (13, 17, 15.0),
    }
    assert allocations_of({"a": 0.5, "b": 0.5}, 1) == {}  # fewer endpoints than zones
    assert (
        allocations_of({"a": 0.34, "b": 0.33, "c": 0.33}, 4) == {}
    )  # the minima of 2 each exceed the number of endpoints
    assert allocations_of({}, 9) == {}


def test_zone_with_surplus_gives_to_the_zone_with_the_largest_gap() -> None:
    piece: Obj = {"endpoints": [*(endpoint(f"10.0.0.{i}", "a") for i in range(5)), endpoint("10.0.0.9", "b")]}
    found = hinted([piece], [], {"a": 1 / 3, "b": 1 / 3, "c": 1 / 3})
    zones = [e["hints"]["forZones"][0]["name"] for e in found.written[0]["endpoints"]]
    assert zones == ["b", "c", "c", "a", "a", "b"]
    assert found.counts == {"a": 2, "b": 2, "c": 2} and found.more == []


def test_unchanged_slices_keep_their_hints_within_the_zone_maximum() -> None:
    shares = {"a": 0.5, "b": 0.5}
    old: Obj = {"endpoints": [endpoint(f"10.0.0.{i}", "a", hint="a") for i in range(3)]}
    new: Obj = {"endpoints": [endpoint(f"10.0.1.{i}", "b") for i in range(3)]}
    kept = hinted([new], [old], shares)
    assert kept.more == [] and kept.counts == {"a": 3, "b": 3}
    crowded = hinted([], [old, {"endpoints": [endpoint("10.0.2.1", "b", hint="a")]}], shares)
    assert [e["hints"]["forZones"][0]["name"] for e in crowded.more[0]["endpoints"]] == ["b", "b", "a"]
    unready = {"endpoints": [endpoint("10.0.2.1", "", ready=False)]}
    assert (
        "hints"
        not in hinted(
            [unready], [old, {**new, "endpoints": [endpoint("10.0.3.1", "b", hint="b")]}], shares
        ).written[0]["endpoints"][0]
    )


def test_endpoint_without_zone_removes_all_hints() -> None:
    old: Obj = {"endpoints": [endpoint("10.0.0.1", "a", hint="a")]}
    found = hinted([{"endpoints": [endpoint("10.0.0.2", "")]}], [old], {"a": 0.5, "b": 0.5})
    assert found.counts == {} and [e for piece in found.more for e in piece["endpoints"]] == [
        endpoint("10.0.0.1", "a")
    ]


def test_service_is_overloaded_if_a_zone_is_below_its_minimum() -> None:
    assert not is_overloaded({"a": 5, "b": 5}, {"a": 0.5, "b": 0.5})
    assert is_overloaded({"a": 5, "b": 5}, {"a": 0.2, "b": 0.8})
    assert is_overloaded({"a": 5}, {"a": 0.5, "b": 0.5}) and is_overloaded({"a": 5}, {})
    assert not is_overloaded({}, {"a": 0.5, "b": 0.5})


async def hints(w: World) -> dict[str, str]:
    """Address -> zone of its hint, "" without a hint."""
    return {
        e["addresses"][0]: "".join(zone["name"] for zone in (e.get("hints") or {}).get("forZones") or ())
        for piece in await w.stored("endpointslices")
        for e in piece.get("endpoints") or ()
    }


async def served(w: World, **meta: Any) -> None:
    """Create zone a with 6 CPUs and three pods, and zone b with 2 CPUs and one pod."""
    for made in (node("n1", "a", "6"), node("n2", "b", "2")):
        await w.create("nodes", made, "")
    for index, where in enumerate(("n1", "n1", "n1", "n2"), 1):
        await w.create("pods", pod(f"p{index}", where))
        await w.make_ready(f"p{index}", ip=f"10.9.1.{index}")
    made = service()
    await w.create("services", {**made, "metadata": {**made["metadata"], "annotations": AUTO, **meta}})
    await w.settle()


async def test_endpoints_have_zone_hints_while_the_annotation_is_set() -> None:
    async with world(LOOPS) as w:
        await served(w)
        assert await hints(w) == {"10.9.1.1": "a", "10.9.1.2": "a", "10.9.1.3": "a", "10.9.1.4": "b"}
        (piece,) = await w.stored("endpointslices")
        await w.settle()
        (same,) = await w.stored("endpointslices")
        assert same["metadata"]["resourceVersion"] == piece["metadata"]["resourceVersion"]
        await w.patch("services", "s", {"metadata": {"annotations": dict.fromkeys(AUTO)}})
        await w.settle()
        assert set((await hints(w)).values()) == {""}


@pytest.mark.parametrize(
    ("change", "then"),
    [
        ({"conditions": [{"type": "Ready", "status": "False"}]}, {""}),  # one zone is left
        (None, {"a", "b"}),  # a third node, in zone b: 6 CPUs each
    ],
)
async def test_services_with_overloaded_zones_are_synced_after_a_node_change(
    change: Obj | None, then: set[str]
) -> None:
    async with world(LOOPS) as w:
        await served(w)
        if change is None:
            await w.create("nodes", node("n3", "b", "4"), "")
        else:
            await w.patch("nodes", "n2", {"status": change}, "status")
        await w.settle()
        found = await hints(w)
        assert set(found.values()) == then
        if change is None:
            assert sorted(found.values()) == ["a", "a", "b", "b"]


async def test_slices_have_no_hints_while_the_gate_is_off() -> None:
    async with world(LOOPS, feature_gates={"TopologyAwareHints": "false"}) as w:
        await served(w)
        assert set((await hints(w)).values()) == {""}
