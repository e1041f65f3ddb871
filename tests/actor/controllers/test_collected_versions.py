"""The garbage collector and owners that are named by another served version of their kind."""

from __future__ import annotations

import pytest

from sim.api.types import Obj
from sim.units import SECOND
from tests.actor.apiserver.cluster import SCHEME
from tests.actor.controllers.test_collectors import config, maps, owned_by
from tests.actor.controllers.workload import World, world

NAMES = SCHEME.names
SCALER: Obj = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "owner"},
    "spec": {
        "maxReplicas": 3,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
    },
}
EVENT: Obj = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "owner"},
    "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
    "reason": "R",
    "type": "Normal",
}
OWNERS = {
    "horizontalpodautoscalers": (SCALER, ("autoscaling/v2", "autoscaling/v1", "autoscaling/v2beta2")),
    # An Event of v1 is refused as an owner.
    "events": (EVENT, (NAMES.api_version("events", "v1"),)),
}
CASES = [(plural, version) for plural, (_, versions) in OWNERS.items() for version in versions]


async def owned_map(found: World, plural: str, version: str, uid: str = "") -> Obj:
    owner = await found.create(plural, OWNERS[plural][0])
    ref = {**owned_by(owner), "apiVersion": version}
    made = config("dependent")
    made["metadata"]["ownerReferences"] = [{**ref, "uid": uid or ref["uid"]}]
    return await found.create("configmaps", made)


@pytest.mark.parametrize(("plural", "version"), CASES)
async def test_dependent_is_collected_with_an_owner_of_any_version(plural: str, version: str) -> None:
    async with world(["garbagecollector"]) as found:
        await owned_map(found, plural, version)
        await found.settle(20 * SECOND)
        assert await maps(found) == ["dependent"]
        await found.delete(plural, "owner")
        await found.settle(60 * SECOND)
        assert await maps(found) == []


@pytest.mark.parametrize(("plural", "version"), CASES)
async def test_dependent_of_an_absent_owner_of_any_version_is_collected(plural: str, version: str) -> None:
    async with world(["garbagecollector"]) as found:
        await owned_map(found, plural, version, "00000000-0000-4000-8000-000000000000")
        await found.settle(5 * SECOND)
        assert await maps(found) == []


async def test_foreground_deletion_waits_for_a_dependent_of_another_version() -> None:
    async with world(["garbagecollector"]) as found:
        owner = await found.create("horizontalpodautoscalers", SCALER)
        made = config("dependent", finalizers=["example.com/hold"])
        ref = owned_by(owner, blockOwnerDeletion=True)
        made["metadata"]["ownerReferences"] = [{**ref, "apiVersion": "autoscaling/v1"}]
        await found.create("configmaps", made)
        await found.settle(2 * SECOND)
        body = {"propagationPolicy": "Foreground"}
        await found.plane.ask("delete", "horizontalpodautoscalers", "default", "owner", body=body)
        await found.settle(5 * SECOND)
        assert await found.names("horizontalpodautoscalers") == ["owner"]
        await found.patch("configmaps", "dependent", {"metadata": {"finalizers": None}})
        await found.settle(5 * SECOND)
        assert await found.names("horizontalpodautoscalers") == []
        assert await maps(found) == []


async def test_reference_by_another_version_is_verified_at_the_server() -> None:
    async with world(["garbagecollector"]) as found:
        read = found.quota.watch("get", "horizontalpodautoscalers")
        await found.settle(2 * SECOND)
        await owned_map(found, "horizontalpodautoscalers", "autoscaling/v1")
        await found.settle(5 * SECOND)
        assert len(read) == 1
