"""Slices that say which zone each endpoint is meant for, while nodes and pods come and go."""

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


def test_shares_are_of_the_processors_of_ready_nodes_that_are_no_control_plane() -> None:
    nodes = [node("a", "a"), node("b", "b", "2"), node("b2", "b", "2000m"), node("c", "c", ready="False")]
    assert shares_of([*nodes, node("m", role="control-plane"), node("n", role="master")], ORCH) == {
        "a": 0.5,
        "b": 0.5,
    }
    assert shares_of(nodes[:1], ORCH) == {}  # one zone
    assert shares_of([*nodes, node("x")], ORCH) == {}  # a node without zone
    assert shares_of([*nodes, node("x", "a", "0")], ORCH) == {}  # one without processors


def test_what_each_zone_may_have() -> None:
    # 10 endpoints: 5, 3, 2 are wanted; a sixth less will do: 4.17, 2.5, 1.67 rounded up; there is 0 left over
    found = allocations_of({"a": 0.5, "b": 0.3, "c": 0.2}, 10)
    assert {zone: (a.least, a.most) for zone, a in found.items()} == {"a": (5, 5), "b": (3, 3), "c": (2, 2)}
    found = allocations_of({"a": 0.5, "b": 0.5}, 30)  # 12.5 each at least, so 13; 4 may be anywhere
    assert {zone: (a.least, a.most, a.desired) for zone, a in found.items()} == {
        "a": (13, 17, 15.0),
        "b": (13, 17, 15.0),
    }
    assert allocations_of({"a": 0.5, "b": 0.5}, 1) == {}  # fewer endpoints than zones
    assert (
        allocations_of({"a": 0.34, "b": 0.33, "c": 0.33}, 4) == {}
    )  # 2 each at least is more than there are
    assert allocations_of({}, 9) == {}


def test_a_zone_with_too_many_gives_to_the_one_that_lacks_most() -> None:
    piece: Obj = {"endpoints": [*(endpoint(f"10.0.0.{i}", "a") for i in range(5)), endpoint("10.0.0.9", "b")]}
    found = hinted([piece], [], {"a": 1 / 3, "b": 1 / 3, "c": 1 / 3})
    zones = [e["hints"]["forZones"][0]["name"] for e in found.written[0]["endpoints"]]
    assert zones == ["b", "c", "c", "a", "a", "b"]
    assert found.counts == {"a": 2, "b": 2, "c": 2} and found.more == []


def test_slices_that_are_not_written_keep_their_hints_while_their_zone_may_have_so_many() -> None:
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


def test_an_endpoint_without_zone_takes_all_hints_away() -> None:
    old: Obj = {"endpoints": [endpoint("10.0.0.1", "a", hint="a")]}
    found = hinted([{"endpoints": [endpoint("10.0.0.2", "")]}], [old], {"a": 0.5, "b": 0.5})
    assert found.counts == {} and [e for piece in found.more for e in piece["endpoints"]] == [
        endpoint("10.0.0.1", "a")
    ]


def test_a_service_is_overloaded_when_a_zone_has_fewer_than_its_least() -> None:
    assert not is_overloaded({"a": 5, "b": 5}, {"a": 0.5, "b": 0.5})
    assert is_overloaded({"a": 5, "b": 5}, {"a": 0.2, "b": 0.8})
    assert is_overloaded({"a": 5}, {"a": 0.5, "b": 0.5}) and is_overloaded({"a": 5}, {})
    assert not is_overloaded({}, {"a": 0.5, "b": 0.5})


async def hints(w: World) -> dict[str, str]:
    """Zone for which each address is meant, "" where there is no hint."""
    return {
        e["addresses"][0]: "".join(zone["name"] for zone in (e.get("hints") or {}).get("forZones") or ())
        for piece in await w.stored("endpointslices")
        for e in piece.get("endpoints") or ()
    }


async def served(w: World, **meta: Any) -> None:
    """Two zones, a of 6 processors and b of 2; three pods in a, one in b."""
    for made in (node("n1", "a", "6"), node("n2", "b", "2")):
        await w.create("nodes", made, "")
    for index, where in enumerate(("n1", "n1", "n1", "n2"), 1):
        await w.create("pods", pod(f"p{index}", where))
        await w.make_ready(f"p{index}", ip=f"10.9.1.{index}")
    made = service()
    await w.create("services", {**made, "metadata": {**made["metadata"], "annotations": AUTO, **meta}})
    await w.settle()


async def test_endpoints_are_meant_for_their_zone_while_the_annotation_asks_for_it() -> None:
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
        (None, {"a", "b"}),  # a third node, of zone b: 6 processors each
    ],
)
async def test_services_whose_zones_have_too_few_after_a_change_of_nodes_are_looked_at_again(
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
