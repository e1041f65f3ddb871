"""The Endpoints and EndpointSlice of the API servers' own Service."""

from __future__ import annotations

import pytest

from actors.apiserver.builtin.endpoint_keeper import PORTS, is_shown, kept_endpoints, slice_of
from sim.api.types import Obj
from sim.units import SECOND
from tests.actor.apiserver.cluster import NAMES_ORCH, Plane, plane

NAME = NAMES_ORCH.apiserver_service
FIRST, SECOND_ONE = "172.16.250.1", "172.16.250.2"


# --- decisions ------------------------------------------------------------------------------------


def test_right_endpoints_are_kept_as_they_are() -> None:
    made = kept_endpoints(None, ["b", "a"], NAMES_ORCH)
    assert made["metadata"]["labels"] == {NAMES_ORCH.label_skip_mirror: "true"}
    assert made["subsets"] == [{"addresses": [{"ip": "a"}, {"ip": "b"}], "ports": PORTS}]
    assert kept_endpoints(made, ["a", "b"], NAMES_ORCH) is made


def test_wrong_endpoints_are_repaired_and_foreign_labels_stay() -> None:
    right = kept_endpoints(None, ["a"], NAMES_ORCH)
    labelled = {**right, "metadata": {**right["metadata"], "labels": {"x": "y"}}}
    repaired = kept_endpoints(labelled, ["a"], NAMES_ORCH)
    assert repaired["metadata"]["labels"] == {"x": "y", NAMES_ORCH.label_skip_mirror: "true"}
    for subsets in ([], [*right["subsets"], *right["subsets"]]):
        assert kept_endpoints({**right, "subsets": subsets}, ["a"], NAMES_ORCH)["subsets"] == right["subsets"]


def test_ports_of_endpoints_are_repaired_only_on_demand() -> None:
    other = [{"name": "x", "port": 1, "protocol": "TCP"}]
    found = kept_endpoints(None, ["a"], NAMES_ORCH)
    found = {**found, "subsets": [{**found["subsets"][0], "ports": other}]}
    assert kept_endpoints(found, ["a"], NAMES_ORCH) is found
    assert kept_endpoints(found, ["a"], NAMES_ORCH, with_ports=True)["subsets"][0]["ports"] == PORTS


def test_slice_shows_endpoints() -> None:
    made = slice_of(kept_endpoints(None, ["a"], NAMES_ORCH), NAMES_ORCH)
    assert made["metadata"]["labels"] == {NAMES_ORCH.label_service_name: NAME}
    assert made["endpoints"] == [{"addresses": ["a"], "conditions": {"ready": True}}]
    assert made["ports"] == PORTS and is_shown(made, made)
    assert not is_shown(made, {**made, "ports": []})


# --- servers --------------------------------------------------------------------------------------


async def shown(p: Plane, at: int = 0) -> list[str]:
    """The addresses in both objects, which must be the same."""
    endpoints = (await p.ask("get", "endpoints", name=NAME, at=at)).obj
    found = (await p.ask("get", "endpointslices", name=NAME, at=at)).obj
    assert is_shown(slice_of(endpoints, NAMES_ORCH), found)
    return [each["ip"] for each in endpoints["subsets"][0]["addresses"]]


async def test_endpoints_of_a_lone_server_are_there_at_once_and_never_rewritten() -> None:
    async with plane() as p:
        assert await shown(p) == [FIRST]
        before = p.storage.store.revision
        await p.run(60 * SECOND)
        assert await shown(p) == [FIRST] and p.storage.store.revision == before


async def test_address_of_a_crashed_server_goes_when_its_lease_has_ended() -> None:
    async with plane(replicas=2) as p:
        await p.run(SECOND)
        assert await shown(p) == [FIRST, SECOND_ONE]
        await p.run(SECOND)
        p.supervisor["apiserver-1"].crash()
        await p.run(11 * SECOND)
        assert await shown(p) == [FIRST, SECOND_ONE]
        await p.run(10 * SECOND)
        assert await shown(p) == [FIRST]
        p.supervisor["apiserver-1"].start()
        await p.run(SECOND)
        assert await shown(p) == [FIRST, SECOND_ONE]


async def test_address_of_a_terminating_server_is_removed_at_once() -> None:
    async with plane(replicas=2) as p:
        await p.run(SECOND)
        p.supervisor["apiserver-1"].terminate()
        await p.run(SECOND)
        assert await shown(p) == [FIRST]
        p.supervisor["apiserver-0"].terminate()  # the last one does not erase all
        await p.run(SECOND)
        item = p.storage.store.get(f"//endpoints/default/{NAME}")
        assert item is not None and item.obj["subsets"][0]["addresses"] == [{"ip": FIRST}]


@pytest.mark.parametrize("plural", ["endpoints", "endpointslices"])
async def test_deleted_or_changed_objects_are_restored_within_ten_seconds(plural: str) -> None:
    async with plane() as p:
        right: Obj = (await p.ask("get", plural, name=NAME)).obj
        field = "subsets" if plural == "endpoints" else "endpoints"
        changed = {**right, field: []}
        assert (await p.ask("update", plural, name=NAME, body=changed)).code == 200
        await p.run(10 * SECOND)
        assert (await p.ask("get", plural, name=NAME)).obj[field] == right[field]
        assert (await p.ask("delete", plural, name=NAME)).code == 200
        await p.run(10 * SECOND)
        assert await shown(p) == [FIRST]
