"""How slices mirror an Endpoints object."""

from __future__ import annotations

from typing import Any

import pytest

from actors.controllers.endpointslicemirroring.decide import (
    endpoint_of,
    groups_of,
    is_mirrored,
    reconcile,
    repacked,
    wanted_of,
)
from sim.api.types import Obj
from sim.ident import NAMES

N = NAMES["kubernetes"]
REF: Obj = {"kind": "Endpoints", "name": "web"}
HTTP: Obj = {"name": "http", "port": 80, "protocol": "TCP"}
DNS: Obj = {"name": "dns", "port": 53, "protocol": "UDP"}


def address(ip: str, **more: Any) -> Obj:
    return {"ip": ip, **more}


def subset(ready: str = "", waiting: str = "", *ports: Obj) -> Obj:
    """A subset of addresses separated by spaces."""
    return {
        "addresses": [address(ip) for ip in ready.split()] or None,
        "notReadyAddresses": [address(ip) for ip in waiting.split()] or None,
        "ports": list(ports) or None,
    }


def endpoints(*subsets: Obj, **meta: Any) -> Obj:
    return {"metadata": {"name": "web", "namespace": "d", **meta}, "subsets": list(subsets)}


def mirrored(found: Obj, *existing: Obj, limit: int = 1000) -> Any:
    return reconcile(wanted_of(found, REF, N, limit), existing)


def shown(piece: Obj) -> list[tuple[str, bool]]:
    return [(each["addresses"][0], each["conditions"]["ready"]) for each in piece["endpoints"]]


def named(piece: Obj, name: str) -> Obj:
    """A slice as the API keeps it."""
    return {**piece, "metadata": {**piece["metadata"], "name": name}}


@pytest.mark.parametrize(
    ("meta", "wanted"),
    [
        ({}, True),
        ({"labels": {N.label_skip_mirror: "true"}}, False),
        ({"labels": {N.label_skip_mirror: "false"}}, True),
        ({"annotations": {N.annotation_leader: ""}}, False),
        ({"annotations": {"other": ""}}, True),
        ({"labels": None, "annotations": None}, True),
    ],
)
def test_labelled_objects_and_records_of_elections_are_not_mirrored(meta: Obj, wanted: bool) -> None:
    assert is_mirrored(endpoints(**meta), N) is wanted


def test_labels_and_annotations_are_copied_but_for_those_of_tools() -> None:
    annotations = {"a": "1", N.annotation_last_change_trigger_time: "t", N.annotation_last_applied: "x"}
    (changes, _) = mirrored(endpoints(subset("10.0.0.1"), labels={"app": "web"}, annotations=annotations))
    meta = changes.create[0]["metadata"]
    assert meta == {
        "generateName": "web-",
        "namespace": "d",
        "labels": {
            "app": "web",
            N.label_service_name: "web",
            N.label_managed_by: N.managed_by_mirroring_controller,
        },
        "annotations": {"a": "1"},
        "ownerReferences": [REF],
    }
    assert changes.create[0]["ports"] is None
    (plain, _) = mirrored(endpoints(subset("10.0.0.1"), labels=None, annotations=None))
    assert "annotations" not in plain.create[0]["metadata"]


def test_subsets_with_equal_addresses_are_merged() -> None:
    found = repacked([subset("1.1.1.1", "", HTTP), subset("1.1.1.1", "", DNS), subset("2.2.2.2", "", DNS)])
    assert [(ports, [(a["ip"], ready) for a, ready in members]) for ports, members in found] == [
        ([HTTP], [("1.1.1.1", True)]),
        ([DNS], [("1.1.1.1", True), ("2.2.2.2", True)]),
    ]
    both = repacked([subset("1.1.1.1", "", HTTP, DNS)])
    assert [ports for ports, _ in both] == [[HTTP, DNS]]
    assert repacked([subset("1.1.1.1")])[0][0] == []
    assert repacked([]) == []


@pytest.mark.parametrize(
    ("subsets", "ready"),
    [
        ([subset("1.1.1.1", "", HTTP)], True),
        ([subset("", "1.1.1.1", HTTP)], False),
        ([subset("1.1.1.1", "1.1.1.1", HTTP)], False),
        ([subset("", "1.1.1.1", HTTP), subset("1.1.1.1", "", HTTP)], False),
        ([subset("1.1.1.1", "", HTTP), subset("1.1.1.1", "", HTTP)], True),
    ],
)
def test_an_address_is_ready_at_a_port_if_it_is_nowhere_unready(subsets: list[Obj], ready: bool) -> None:
    ((_, members),) = repacked(subsets)
    assert [each for _, each in members] == [ready]


def test_ready_addresses_come_first_and_targets_set_addresses_apart() -> None:
    ((_, members),) = repacked([subset("3.3.3.3", "1.1.1.1 2.2.2.2")])
    assert [each["ip"] for each, _ in members] == ["3.3.3.3", "1.1.1.1", "2.2.2.2"]
    twins = [address("1.1.1.1", targetRef={"uid": uid}) for uid in "ab"]
    ((_, members),) = repacked([{"addresses": [*twins, address("1.1.1.1")]}])
    assert len(members) == 3


def test_an_endpoint_has_what_its_address_has() -> None:
    ref = {"uid": "u"}
    full = address("1.1.1.1", hostname="h", targetRef=ref, nodeName="n", other="x")
    assert endpoint_of(full, True) == {
        "addresses": ["1.1.1.1"], "conditions": {"ready": True}, "hostname": "h", "targetRef": ref, "nodeName": "n",
    }  # fmt: skip
    assert endpoint_of(address("1.1.1.1", hostname=""), False) == {
        "addresses": ["1.1.1.1"], "conditions": {"ready": False},
    }  # fmt: skip


@pytest.mark.parametrize(("limit", "kept", "skipped"), [(3, 3, 0), (2, 2, 1), (1, 1, 2), (9, 3, 0)])
def test_addresses_beyond_the_limit_are_skipped(limit: int, kept: int, skipped: int) -> None:
    groups, left = groups_of(endpoints(subset("1.1.1.1 2.2.2.2", "3.3.3.3", HTTP)), limit)
    assert ([len(pool) for _, pool in groups.values()], left) == ([kept], skipped)
    changes, left = mirrored(endpoints(subset("1.1.1.1 2.2.2.2", "3.3.3.3", HTTP)), limit=limit)
    assert (len(changes.create[0]["endpoints"]), left) == (kept, skipped)


def test_each_family_and_each_set_of_ports_has_a_slice() -> None:
    found = endpoints(subset("1.1.1.1 fd00::1", "", HTTP), subset("2.2.2.2", "", DNS))
    changes, _ = mirrored(found)
    assert [(piece["addressType"], shown(piece)) for piece in changes.create] == [
        ("IPv4", [("1.1.1.1", True)]),
        ("IPv6", [("fd00::1", True)]),
        ("IPv4", [("2.2.2.2", True)]),
    ]
    assert not changes.update
    assert not changes.delete
    assert mirrored({"metadata": {"name": "web", "namespace": "d"}, "subsets": None})[0].create == []


def test_a_slice_that_shows_its_endpoints_stays() -> None:
    found = endpoints(subset("1.1.1.1", "2.2.2.2", HTTP), labels={"app": "web"}, annotations={"a": "1"})
    made = named(mirrored(found)[0].create[0], "web-1")
    same, _ = mirrored(found, made)
    assert (same.create, same.update, same.delete) == ([], [], [])
    twice, _ = mirrored(found, made, named(made, "web-2"))
    assert [piece["metadata"]["name"] for piece in twice.delete] == ["web-2"]
    gone, _ = mirrored(endpoints(), made)
    assert (gone.create, gone.update, gone.delete) == ([], [], [made])


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found["metadata"].update(labels={"app": "db"}),
        lambda found: found["metadata"].update(annotations={"a": "2"}),
        lambda found: found["metadata"].update(annotations={}),
        lambda found: found["subsets"][0]["addresses"].append(address("3.3.3.3")),
        lambda found: found["subsets"][0]["addresses"].clear(),
        lambda found: found["subsets"][0]["addresses"][0].update(nodeName="n"),
        lambda found: found["subsets"][0]["addresses"][0].update(targetRef={"uid": "u"}),
        lambda found: found["subsets"][0].update(
            addresses=found["subsets"][0]["notReadyAddresses"],
            notReadyAddresses=found["subsets"][0]["addresses"],
        ),
    ],
)
def test_a_slice_that_differs_is_written_under_its_name(change: Any) -> None:
    def given() -> Obj:
        return endpoints(subset("1.1.1.1", "2.2.2.2", HTTP), labels={"app": "web"}, annotations={"a": "1"})

    made = named(mirrored(given())[0].create[0], "web-1")
    other = given()
    change(other)
    changes, _ = mirrored(other, made)
    assert (changes.create, changes.delete) == ([], [])
    assert [piece["metadata"]["name"] for piece in changes.update] == ["web-1"]
    assert "generateName" not in changes.update[0]["metadata"]


def test_a_slice_to_delete_becomes_one_to_create_of_its_family() -> None:
    four = named(mirrored(endpoints(subset("1.1.1.1", "", HTTP)))[0].create[0], "four")
    six = named(mirrored(endpoints(subset("fd00::1", "", HTTP)))[0].create[0], "six")
    changes, _ = mirrored(endpoints(subset("2.2.2.2", "", DNS)), six, four)
    assert changes.create == []
    assert changes.delete == [six]
    (reused,) = changes.update
    assert (reused["metadata"]["name"], shown(reused), reused["ports"]) == (
        "four",
        [("2.2.2.2", True)],
        [DNS],
    )
    assert "generateName" not in reused["metadata"]
