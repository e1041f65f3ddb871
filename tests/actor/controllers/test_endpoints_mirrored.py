"""Endpoints that a user wrote, and the slices that mirror them, on the real API server."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.types import Obj
from sim.units import SECOND
from tests.actor.controllers.workload import World, world

LOOPS = ("endpointslicemirroring",)
SERVICE: Obj = {"metadata": {"name": "m"}, "spec": {"ports": [{"name": "x", "port": 1}]}}


def by_hand(*ips: str, unready: tuple[str, ...] = (), **meta: Any) -> Obj:
    subset: Obj = {"ports": [{"name": "x", "port": 1}]}
    for part, named in (("addresses", ips), ("notReadyAddresses", unready)):
        if named:
            subset[part] = [{"ip": ip} for ip in named]
    return {"metadata": {"name": "m", **meta}, "subsets": [subset]}


async def shown(w: World) -> list[tuple[str, list[tuple[str, bool]]]]:
    """(family, [(address, True if ready)]) of each slice."""
    return [
        (
            piece["addressType"],
            [(e["addresses"][0], e["conditions"]["ready"]) for e in piece.get("endpoints") or ()],
        )
        for piece in await w.stored("endpointslices")
    ]


async def test_mirrored_endpoints_have_a_slice_per_family_with_labels_and_annotations() -> None:
    async with world(LOOPS) as w:
        names = w.plane.server.scheme.names
        noted = {"n": "o", names.annotation_last_change_trigger_time: "2026-01-01T00:00:00Z"}
        await w.create("services", SERVICE)
        wanted = by_hand(
            "10.9.7.2", "10.9.7.1", "fd00::1", unready=("10.9.7.3",), labels={"a": "b"}, annotations=noted
        )
        await w.create("endpoints", wanted)
        await w.settle()
        assert sorted(await shown(w)) == [
            ("IPv4", [("10.9.7.1", True), ("10.9.7.2", True), ("10.9.7.3", False)]),
            ("IPv6", [("fd00::1", True)]),
        ]
        owner = await w.get("endpoints", "m")
        for piece in await w.stored("endpointslices"):
            meta = piece["metadata"]
            assert meta["generateName"] == "m-" and meta["annotations"] == {"n": "o"}
            assert meta["labels"] == {
                "a": "b",
                names.label_service_name: "m",
                names.label_managed_by: names.managed_by_mirroring_controller,
            }
            (ref,) = meta["ownerReferences"]
            assert (ref["kind"], ref["uid"], ref["controller"]) == (
                "Endpoints",
                owner["metadata"]["uid"],
                True,
            )
            assert piece["ports"] == [{"name": "x", "port": 1, "protocol": "TCP"}]


async def test_endpoints_being_deleted_get_no_new_slices() -> None:
    async with world(LOOPS) as w:
        await w.create("services", SERVICE)
        await w.create("endpoints", by_hand("10.9.7.1", finalizers=["x.io/hold"]))
        await w.settle()
        await w.delete("endpoints", "m")
        (piece,) = await w.stored("endpointslices")
        await w.delete("endpointslices", piece["metadata"]["name"])
        await w.settle()
        assert await shown(w) == []


async def test_change_updates_the_existing_slice_and_no_change_sends_no_write() -> None:
    async with world(LOOPS) as w:
        await w.create("services", SERVICE)
        await w.create("endpoints", by_hand("10.9.7.1", "10.9.7.2"))
        await w.settle()
        (first,) = await w.stored("endpointslices")
        await w.patch("endpoints", "m", {"metadata": {"annotations": {"k": "v"}}})
        await w.settle()
        (second,) = await w.stored("endpointslices")
        assert second["metadata"]["uid"] == first["metadata"]["uid"]
        assert second["metadata"]["annotations"] == {"k": "v"} and "generateName" not in second["metadata"]
        await w.patch(
            "endpoints", "m", {"subsets": [{"addresses": [{"ip": "10.9.7.1"}], "ports": [{"port": 2}]}]}
        )
        await w.settle()
        # other ports: the slice of the old ones is reused
        (third,) = await w.stored("endpointslices")
        assert third["metadata"]["uid"] == first["metadata"]["uid"] and third["ports"][0]["port"] == 2
        revision = third["metadata"]["resourceVersion"]
        await w.patch("services", "m", {"metadata": {"labels": {"new": "x"}}})
        await w.settle()
        assert (await w.stored("endpointslices"))[0]["metadata"]["resourceVersion"] == revision


@pytest.mark.parametrize(
    ("resource", "change"),
    [
        ("endpoints", {"metadata": {"labels": {"SKIP": "true"}}}),
        ("endpoints", {"metadata": {"annotations": {"LEADER": "{}"}}}),
        ("services", {"spec": {"selector": {"app": "a"}}}),
        ("services", None),
    ],
)
async def test_slices_are_deleted_when_endpoints_are_no_longer_mirrored(
    resource: str, change: Obj | None
) -> None:
    async with world(LOOPS) as w:
        names = w.plane.server.scheme.names
        await w.create("services", SERVICE)
        await w.create("endpoints", by_hand("10.9.7.1"))
        await w.settle()
        assert len(await w.stored("endpointslices")) == 1
        if change is None:
            await w.delete(resource, "m")
        else:
            for part, key, full in (
                ("labels", "SKIP", names.label_skip_mirror),
                ("annotations", "LEADER", names.annotation_leader),
            ):
                given = change.get("metadata", {}).get(part, {})
                if key in given:
                    change = {"metadata": {part: {full: given[key]}}}
            await w.patch(resource, "m", change)
        await w.settle()
        assert await w.stored("endpointslices") == []


async def test_foreign_change_of_a_mirrored_slice_is_reverted() -> None:
    async with world(LOOPS) as w:
        await w.create("services", SERVICE)
        await w.create("endpoints", by_hand("10.9.7.1"))
        await w.settle()
        (piece,) = await w.stored("endpointslices")
        await w.patch(
            "endpointslices", piece["metadata"]["name"], {"endpoints": [{"addresses": ["10.9.7.9"]}]}
        )
        await w.settle()
        assert await shown(w) == [("IPv4", [("10.9.7.1", True)])]
        await w.delete("endpointslices", piece["metadata"]["name"])
        await w.settle()
        assert await shown(w) == [("IPv4", [("10.9.7.1", True)])]


async def test_addresses_beyond_the_limit_are_reported_and_skipped_unready_first() -> None:
    async with world(LOOPS, mirroring_max_endpoints_per_subset=2) as w:
        await w.create("services", SERVICE)
        await w.create("endpoints", by_hand("10.9.7.9", unready=("10.9.7.1", "10.9.7.2")))
        await w.settle(2 * SECOND)
        assert await shown(w) == [("IPv4", [("10.9.7.9", True), ("10.9.7.1", False)])]
        (event,) = [e for e in await w.stored("events") if e["reason"] == "TooManyAddressesToMirror"]
        assert event["message"] == (
            "A max of 2 addresses can be mirrored to EndpointSlices per Endpoints subset. 1 addresses were skipped"
        )
        assert event["source"]["component"] == "endpoint-slice-mirroring-controller"


async def test_endpoints_are_mirrored_when_their_service_is_created_later() -> None:
    async with world(LOOPS) as w:
        ports = [{"name": "x", "port": 1}]
        both = {
            "metadata": {"name": "m"},
            "subsets": [
                {"addresses": [{"ip": "10.9.7.1"}, {"ip": "10.9.7.2"}], "ports": ports},
                {"notReadyAddresses": [{"ip": "10.9.7.1"}], "ports": ports},
            ],
        }
        await w.create("endpoints", both)
        await w.settle()
        assert await shown(w) == []
        await w.create("services", SERVICE)
        await w.settle()
        assert await shown(w) == [("IPv4", [("10.9.7.2", True), ("10.9.7.1", False)])]
