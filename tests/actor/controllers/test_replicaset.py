"""The ReplicaSet controller against the real API server."""

from __future__ import annotations

from itertools import pairwise

import pytest

from sim.api.types import Obj
from sim.units import MS, SECOND
from tests.actor.controllers.workload import POD_SPEC, workload, world

LOOPS = ("replicaset",)


async def test_replica_set_creates_its_pods_and_records_events() -> None:
    async with world(LOOPS) as w:
        await w.create("replicasets", workload("ReplicaSet", "web", replicas=3))
        await w.settle()
        pods = await w.stored("pods")
        assert len(pods) == 3
        assert all(pod["metadata"]["name"].startswith("web-") for pod in pods)
        ref = pods[0]["metadata"]["ownerReferences"][0]
        assert (ref["kind"], ref["name"], ref["controller"]) == ("ReplicaSet", "web", True)
        stored = await w.get("replicasets", "web")
        assert stored["status"] == {"replicas": 3, "fullyLabeledReplicas": 3, "observedGeneration": 1}
        reasons = [reason for reason, _ in await w.events("web")]
        assert reasons == ["SuccessfulCreate"] * 3


async def test_hundred_pods_are_created_in_batches_of_doubling_size() -> None:
    async with world(LOOPS) as w:
        made = w.watch_commits("pods")
        await w.create("replicasets", workload("ReplicaSet", "web", replicas=100))
        await w.settle(60 * SECOND)
        assert len(made) == 100
        # A batch is sent at one instant, the next one when its last reply has arrived.
        first, last = 0, -1
        for size in (1, 2, 4, 8, 16, 32, 37):
            times = [at for at, _ in made[first : first + size]]
            assert last < min(times)
            assert max(times) - min(times) < 2 * MS
            first, last = first + size, max(times)


async def test_quota_of_ten_stops_the_batches_at_the_first_rejection() -> None:
    async with world(LOOPS, pods_max=10) as w:
        await w.create("replicasets", workload("ReplicaSet", "web", replicas=100))
        await w.settle(1 * SECOND)
        assert len(await w.stored("pods")) == 10
        # Batches of 1, 2, 4 and 8 creates, of which 5 are rejected; then one attempt at a time.
        tries = w.quota.attempts
        assert max(tries[7:15]) - min(tries[7:15]) < 2 * MS
        assert 15 < len(tries) < 25
        assert all(later - before > MS // 2 for before, later in pairwise(tries[14:]))
        stored = await w.get("replicasets", "web")
        condition = stored["status"]["conditions"][0]
        assert (condition["type"], condition["reason"]) == ("ReplicaFailure", "FailedCreate")
        assert "exceeded quota" in condition["message"]
        assert [reason for reason, _ in await w.events("web")].count("SuccessfulCreate") == 10


async def test_deleted_pod_is_replaced_while_it_terminates() -> None:
    async with world(LOOPS) as w:
        await w.create("replicasets", workload("ReplicaSet", "web", replicas=2))
        await w.settle()
        victim = (await w.names("pods"))[0]
        await w.patch("pods", victim, {"metadata": {"finalizers": ["x.io/hold"]}})
        await w.delete("pods", victim)
        await w.settle()
        names = await w.names("pods")
        assert victim in names
        assert len(names) == 3


async def test_relabelled_pod_is_released_and_replaced() -> None:
    async with world(LOOPS) as w:
        await w.create("replicasets", workload("ReplicaSet", "web", replicas=1))
        await w.settle()
        pod = (await w.names("pods"))[0]
        await w.patch("pods", pod, {"metadata": {"labels": {"app": "other"}}})
        await w.settle()
        released = await w.get("pods", pod)
        assert not released["metadata"].get("ownerReferences")
        assert len(await w.stored("pods")) == 2


async def test_surplus_pods_are_deleted_unready_first() -> None:
    async with world(LOOPS) as w:
        await w.create("replicasets", workload("ReplicaSet", "web", replicas=3))
        await w.settle()
        names = await w.names("pods")
        await w.make_ready(names[0])
        await w.make_ready(names[2])
        await w.patch("replicasets", "web", {"spec": {"replicas": 2}})
        await w.settle()
        assert await w.names("pods") == [names[0], names[2]]
        assert ("SuccessfulDelete", f"Deleted pod: {names[1]}") in await w.events("web")


async def test_pod_is_available_only_after_min_ready_seconds() -> None:
    async with world(LOOPS) as w:
        await w.create("replicasets", workload("ReplicaSet", "web", replicas=1, minReadySeconds=10))
        await w.settle()
        await w.make_ready((await w.names("pods"))[0])
        await w.settle()
        assert (await w.get("replicasets", "web"))["status"]["availableReplicas"] == 1


async def test_adopted_pod_is_available_after_min_ready_seconds_without_an_event() -> None:
    async with world(LOOPS) as w:
        labelled: Obj = {"metadata": {"name": "p", "labels": {"app": "web"}}, "spec": POD_SPEC}
        created = (await w.create("pods", labelled))["metadata"]["creationTimestamp"]
        condition = {"type": "Ready", "status": "True", "lastTransitionTime": created}
        await w.patch("pods", "p", {"status": {"phase": "Running", "conditions": [condition]}}, "status")
        await w.create("replicasets", workload("ReplicaSet", "web", replicas=1, minReadySeconds=30))
        await w.settle(25 * SECOND)
        assert "availableReplicas" not in (await w.get("replicasets", "web"))["status"]
        await w.settle(10 * SECOND)
        assert (await w.get("replicasets", "web"))["status"]["availableReplicas"] == 1


async def test_set_that_is_being_deleted_replaces_no_pod() -> None:
    async with world(LOOPS) as w:
        made = workload("ReplicaSet", "web", replicas=1)
        made["metadata"]["finalizers"] = ["x.io/hold"]
        await w.create("replicasets", made)
        await w.settle()
        await w.delete("replicasets", "web")
        await w.delete("pods", (await w.names("pods"))[0])
        await w.settle()
        assert await w.names("pods") == []
        assert (await w.get("replicasets", "web"))["status"]["replicas"] == 0


async def test_rejected_delete_is_reported_in_a_condition_with_its_prefix() -> None:
    async with world(LOOPS) as w:
        await w.create("replicasets", workload("ReplicaSet", "web", replicas=1))
        await w.settle()
        w.quota.refuse_once("delete", "pods", 403, "Forbidden", "no deletes today")
        writes = w.watch_conditions("replicasets")
        await w.patch("replicasets", "web", {"spec": {"replicas": 0}})
        await w.settle()
        assert ("FailedDelete", "unable to delete pods: no deletes today") in writes
        assert ("FailedDelete", "Error deleting: no deletes today") in await w.events("web")


@pytest.mark.parametrize("offset_s", [0, -3600, 3600])
async def test_setting_the_wall_clock_does_not_change_the_events_of_a_set(offset_s: int) -> None:
    """25 events at once and one each five minutes; from the tenth of a kind on they are combined."""
    async with world(LOOPS) as w:
        await w.create("replicasets", workload("ReplicaSet", "web", replicas=20))
        await w.settle()
        w.plane.supervisor["controller-manager-0"].clock.set(w.kernel.now_us, offset_us=offset_s * SECOND)
        for replicas, wait_s in ((0, 20), (3, 700), (6, 20)):
            await w.patch("replicasets", "web", {"spec": {"replicas": replicas}})
            await w.settle(wait_s * SECOND)
        assert len(await w.events("web")) == 17


async def test_orphan_is_adopted_after_a_live_read_of_its_owner() -> None:
    """If the set cannot be read, it neither adopts the pod nor creates another one."""
    async with world(LOOPS) as w:
        await w.create("pods", orphan("orphan", "n"))
        read = w.quota.watch("get", "replicasets")
        w.quota.refuse(3, "get", "replicasets", 500, "InternalError", "no")
        made = await w.create("replicasets", workload("ReplicaSet", "web", replicas=1))
        await w.settle()
        # The link delay in both directions is a millisecond.
        assert [round((b - a) / MS) - 1 for a, b in pairwise(read)] == [5, 10, 20]
        (pod,) = await w.stored("pods")
        (ref,) = pod["metadata"]["ownerReferences"]
        assert (ref["uid"], ref["controller"], ref["blockOwnerDeletion"]) == (
            made["metadata"]["uid"],
            True,
            True,
        )
        assert await w.events("web") == []


async def test_pod_that_shares_its_node_with_a_related_pod_is_deleted_first() -> None:
    """The related pod has another owner, and the deleted pod is the older one."""
    async with world(LOOPS) as w:
        set_of = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "u", "controller": True}
        owned = workload("ReplicaSet", "web", replicas=2)
        owned["metadata"]["ownerReferences"] = [set_of]
        for name in ("a", "b"):
            await w.create("pods", orphan(name, name))
            await w.settle(120 * SECOND)  # puts their ages into different powers of two
        made = await w.create("replicasets", owned)
        await w.settle()
        other = orphan("other", "a")
        other["metadata"]["ownerReferences"] = [{**set_of, "kind": "Job"}]
        await w.create("pods", other)
        await w.settle()
        assert [
            r["name"] for p in ("a", "b") for r in (await w.get("pods", p))["metadata"]["ownerReferences"]
        ] == [made["metadata"]["name"]] * 2
        await w.patch("replicasets", "web", {"spec": {"replicas": 1}})
        await w.settle()
        assert await w.names("pods") == ["b", "other"]


def orphan(name: str, node: str) -> Obj:
    return {"metadata": {"name": name, "labels": {"app": "web"}}, "spec": {**POD_SPEC, "nodeName": node}}
