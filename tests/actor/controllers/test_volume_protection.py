"""The controllers that keep claims and volumes while they are in use."""

from __future__ import annotations

from sim.api.types import Obj
from tests.actor.apiserver.cluster import SCHEME
from tests.actor.controllers.workload import POD_SPEC, World, world

N = SCHEME.names
CLAIM = {
    "metadata": {"name": "c"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
VOLUME = {
    "metadata": {"name": "v"},
    "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}},
}


def pod(node: str) -> Obj:
    volumes = [{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}]
    return {"metadata": {"name": "p"}, "spec": {**POD_SPEC, "nodeName": node, "volumes": volumes}}


async def code(w: World, resource: str, name: str) -> int:
    return (await w.plane.ask("get", resource, "default", name)).code


async def test_deleted_claim_stays_until_the_pod_that_uses_it_is_gone() -> None:
    async with world(["pvc-protection"]) as w:
        created = await w.create("persistentvolumeclaims", CLAIM)
        assert created["metadata"]["finalizers"] == [N.finalizer_claim_protection]
        await w.create("pods", pod("n1"))
        await w.settle()
        await w.delete("persistentvolumeclaims", "c")
        await w.settle()
        assert "deletionTimestamp" in (await w.get("persistentvolumeclaims", "c"))["metadata"]
        await w.delete("pods", "p")
        await w.settle()
        assert await code(w, "persistentvolumeclaims", "c") == 404


async def test_deleted_claim_of_a_pod_without_a_node_is_released() -> None:
    async with world(["pvc-protection"]) as w:
        await w.create("persistentvolumeclaims", CLAIM)
        await w.create("pods", pod(""))
        await w.settle()
        await w.delete("persistentvolumeclaims", "c")
        await w.settle()
        assert await code(w, "persistentvolumeclaims", "c") == 404


async def test_claim_is_released_only_after_a_live_list_of_pods() -> None:
    async with world(["pvc-protection"]) as w:
        await w.create("persistentvolumeclaims", CLAIM)
        await w.settle()
        lists = w.quota.watch("list", "pods")
        w.quota.refuse_once("list", "pods", 500, "InternalError", "no")
        await w.delete("persistentvolumeclaims", "c")
        await w.settle()
        assert len(lists) == 2
        assert await code(w, "persistentvolumeclaims", "c") == 404


async def test_claim_without_its_finalizer_gets_it_back() -> None:
    async with world(["pvc-protection"]) as w:
        await w.create("persistentvolumeclaims", CLAIM)
        await w.patch("persistentvolumeclaims", "c", {"metadata": {"finalizers": None}})
        await w.settle()
        claim = await w.get("persistentvolumeclaims", "c")
        assert claim["metadata"]["finalizers"] == [N.finalizer_claim_protection]


async def test_deleted_volume_stays_while_it_is_bound() -> None:
    async with world(["pv-protection"]) as w:
        created = await w.create("persistentvolumes", VOLUME)
        assert created["metadata"]["finalizers"] == [N.finalizer_volume_protection]
        await w.patch("persistentvolumes", "v", {"status": {"phase": "Bound"}}, "status")
        await w.delete("persistentvolumes", "v")
        await w.settle()
        assert await code(w, "persistentvolumes", "v") == 200
        await w.patch("persistentvolumes", "v", {"status": {"phase": "Released"}}, "status")
        await w.settle()
        assert await code(w, "persistentvolumes", "v") == 404


async def test_refused_release_of_a_volume_is_tried_again() -> None:
    async with world(["pv-protection"]) as w:
        await w.create("persistentvolumes", VOLUME)
        await w.settle()
        w.quota.refuse_once("update", "persistentvolumes", 500, "InternalError", "no")
        await w.delete("persistentvolumes", "v")
        await w.settle()
        assert await code(w, "persistentvolumes", "v") == 404
