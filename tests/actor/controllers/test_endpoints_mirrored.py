"""Endpoints that somebody wrote by hand, and the slices that mirror them, on the real API server."""

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
    """Of each slice its family, and its addresses with whether they are ready."""
    return [
        (
            piece["addressType"],
            [(e["addresses"][0], e["conditions"]["ready"]) for e in piece.get("endpoints") or ()],
        )
        for piece in await w.stored("endpointslices")
    ]


async def test_hand_written_endpoints_have_a_slice_for_each_family_with_their_labels_and_annotations() -> (
    None
):
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


async def test_endpoints_that_wait_to_be_deleted_get_no_new_slices() -> None:
    async with world(LOOPS) as w:
        await w.create("services", SERVICE)
        await w.create("endpoints", by_hand("10.9.7.1", finalizers=["x.io/hold"]))
        await w.settle()
        await w.delete("endpoints", "m")
        (piece,) = await w.stored("endpointslices")
        await w.delete("endpointslices", piece["metadata"]["name"])
        await w.settle()
        assert await shown(w) == []


async def test_a_change_is_written_into_the_slice_that_is_there_and_nothing_is_written_without_one() -> None:
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
        (third,) = await w.stored("endpointslices")  # other ports: the slice of the old ones becomes theirs
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
async def test_slices_go_when_the_endpoints_are_not_to_be_mirrored_any_more(
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


async def test_what_somebody_else_does_to_a_slice_is_put_right() -> None:
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


async def test_more_addresses_than_allowed_are_told_and_left_out_those_not_ready_first() -> None:
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


async def test_endpoints_of_a_service_that_comes_later_and_of_an_address_that_is_not_ready_at_one_of_two_places() -> (
    None
):
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
