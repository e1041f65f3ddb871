"""Pod collector, garbage collector, namespaces and accounts against the real API server."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from sim.api.types import Obj, Reply, Request
from sim.ident import NAMES
from sim.units import MS, SECOND
from tests.actor.controllers.workload import POD_SPEC, World, world

N = NAMES["orch"]


def pod(name: str, **spec: Any) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {**POD_SPEC, **spec},
    }


def config(name: str, *owners: Obj, **meta: Any) -> Obj:
    refs = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": True,
        }
        for owner in owners
    ]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "ownerReferences": refs, **meta},
    }


def lease(name: str, *owners: Obj) -> Obj:
    meta: Obj = {"name": name, "ownerReferences": [owned_by(owner) for owner in owners]}
    return {"apiVersion": N.api_version("coordination", "v1"), "kind": "Lease", "metadata": meta}


def owned_by(owner: Obj, **more: Any) -> Obj:
    meta = owner["metadata"]
    ref = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"]}
    return {**ref, **more}


async def maps(found: World) -> list[str]:
    return [name for name in await found.names("configmaps") if name != N.config_map_root_ca]


async def drop(found: World, name: str, policy: str) -> None:
    reply = await found.plane.ask("delete", "configmaps", "default", name, body={"propagationPolicy": policy})
    assert reply.ok, reply.message


async def namespace(found: World, name: str) -> Obj | None:
    reply = await found.plane.ask("get", "namespaces", "", name)
    return reply.obj if reply.ok else None


# --- garbage collection ---------------------------------------------------------------------------


async def test_dependents_are_deleted_in_the_background_after_their_owner() -> None:
    async with world(["garbagecollector"]) as found:
        a = await found.create("configmaps", config("a"))
        b = await found.create("configmaps", config("b", a))
        await found.create("configmaps", config("c", b))
        await found.settle(2 * SECOND)
        await drop(found, "a", "Background")
        await found.settle(5 * SECOND)
        assert await maps(found) == []


async def test_object_with_nonexistent_owner_is_deleted() -> None:
    async with world(["garbagecollector"]) as found:
        ghost = {"metadata": {"name": "ghost", "uid": "00000000-0000-4000-8000-000000000000"}}
        await found.create("configmaps", config("orphan", ghost))
        await found.settle(5 * SECOND)
        assert await maps(found) == []


async def test_owner_in_another_namespace_is_reported_and_keeps_no_object() -> None:
    async with world(["garbagecollector"]) as found:
        a = await found.create("configmaps", config("a"))
        await found.create("namespaces", {"metadata": {"name": "elsewhere"}}, "")
        await found.settle(2 * SECOND)
        await found.create("configmaps", config("b", a), "elsewhere")
        await found.settle(5 * SECOND)
        reply = await found.plane.ask("get", "configmaps", "elsewhere", "b")
        assert reply.code == 404
        events = (await found.plane.ask("list", "events", "elsewhere")).items or []
        reported = [(e.obj["reason"], e.obj["message"]) for e in events]
        owner = f"v1/ConfigMap, namespace: elsewhere, name: a, uid: {a['metadata']['uid']}"
        assert reported == [
            ("OwnerRefInvalidNamespace", f'ownerRef [{owner}] does not exist in namespace "elsewhere"')
        ]


async def test_no_reference_is_removed_while_an_owner_kind_is_unknown() -> None:
    async with world(["garbagecollector"]) as found:
        a = await found.create("configmaps", config("a"))
        b = config("b", a)
        strange = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "t", "uid": "t"}
        b["metadata"]["ownerReferences"].append(strange)
        await found.create("configmaps", b)
        await found.settle(2 * SECOND)
        gets = found.quota.watch("get", "configmaps")
        await drop(found, "a", "Background")
        await found.settle(5 * SECOND)
        assert len((await found.get("configmaps", "b"))["metadata"]["ownerReferences"]) == 2
        assert len(gets) > 3  # retried several times


async def test_reference_to_a_cached_owner_sends_no_request() -> None:
    async with world(["garbagecollector"]) as found:
        a = await found.create("configmaps", config("a"))
        await found.create("configmaps", config("b"))
        await found.settle(2 * SECOND)
        gets = found.quota.watch("get", "configmaps")
        refs = config("c", a)["metadata"]["ownerReferences"]
        await found.patch("configmaps", "b", {"metadata": {"ownerReferences": refs}})
        await found.settle(5 * SECOND)
        assert gets == []


async def test_one_existing_owner_keeps_an_object_and_dangling_reference_is_removed() -> None:
    async with world(["garbagecollector"]) as found:
        a = await found.create("configmaps", config("a"))
        b = await found.create("configmaps", config("b"))
        await found.create("configmaps", config("c", a, b))
        await found.settle(2 * SECOND)
        await drop(found, "a", "Background")
        await found.settle(5 * SECOND)
        assert await maps(found) == ["b", "c"]
        refs = (await found.get("configmaps", "c"))["metadata"]["ownerReferences"]
        assert [ref["name"] for ref in refs] == ["b"]


async def test_orphan_deletion_keeps_dependents_without_owner() -> None:
    async with world(["garbagecollector"]) as found:
        a = await found.create("configmaps", config("a"))
        await found.create("configmaps", config("b", a))
        await found.settle(2 * SECOND)
        await drop(found, "a", "Orphan")
        await found.settle(5 * SECOND)
        assert await maps(found) == ["b"]
        assert not (await found.get("configmaps", "b"))["metadata"].get("ownerReferences")


async def test_object_of_the_cluster_with_a_namespaced_owner_is_checked_once() -> None:
    async with world(["garbagecollector"]) as found:
        a = await found.create("configmaps", config("a"))
        gets = found.quota.watch("get", "namespaces")
        ghost = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "ghost", "uid": "g"}}
        meta = {"name": "kept", "ownerReferences": [owned_by(ghost), owned_by(a)]}
        await found.create("namespaces", {"metadata": meta}, "")
        await found.settle(20 * SECOND)
        assert await namespace(found, "kept") is not None
        assert len(gets) == 1


async def test_object_is_deleted_under_the_uid_that_was_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    async with world(["garbagecollector"]) as found:
        deletes: list[Request] = []
        handle = found.quota.handle

        def note(request: Request, respond: Callable[[Reply], None]) -> None:
            if request.verb == "delete":
                deletes.append(request)
            handle(request, respond)

        monkeypatch.setattr(found.quota, "handle", note)
        orphan = await found.create(
            "configmaps", config("orphan", {"metadata": {"name": "ghost", "uid": "g"}})
        )
        await found.settle(5 * SECOND)
        (sent,) = deletes
        assert sent.body["preconditions"] == {"uid": orphan["metadata"]["uid"]}


async def test_finalizer_that_conflicts_is_removed_after_growing_delays() -> None:
    async with world(["garbagecollector"]) as found:
        await found.create("configmaps", config("a"))
        await found.settle(2 * SECOND)
        found.quota.refuse(3, "patch", "configmaps", 409, "Conflict", "no")
        patches = found.quota.watch("patch", "configmaps")
        await drop(found, "a", "Orphan")
        await found.settle(5 * SECOND)
        assert await maps(found) == []
        waits = [after - before for before, after in pairwise(patches)]
        assert [wait_us // (10 * MS) for wait_us in waits] == [1, 5, 25]


async def test_foreground_deletion_waits_for_the_last_dependent() -> None:
    async with world(["garbagecollector"]) as found:
        a = await found.create("configmaps", config("a"))
        b = await found.create("configmaps", config("b", a))
        await found.create("configmaps", config("c", b, finalizers=["example.com/hold"]))
        await found.settle(2 * SECOND)
        await drop(found, "a", "Foreground")
        await found.settle(5 * SECOND)
        # The finalizer blocks c, and b waits for c, a for b.
        assert await maps(found) == ["a", "b", "c"]
        assert "deletionTimestamp" in (await found.get("configmaps", "b"))["metadata"]
        await found.patch("configmaps", "c", {"metadata": {"finalizers": None}})
        await found.settle(5 * SECOND)
        assert await maps(found) == []


async def test_waiting_owner_proceeds_when_a_blocking_dependent_is_gone_or_unblocks() -> None:
    """Neither owns the cluster-wide object, so it is not collected, but both block it."""
    async with world(["garbagecollector"]) as found:
        for name, change in (("a", {"metadata": {"ownerReferences": None}}), ("b", None)):
            owner = await found.create("configmaps", config(name))
            await found.settle(2 * SECOND)
            refs = [owned_by(owner, blockOwnerDeletion=True)]
            blocking = {"metadata": {"name": f"blocks-{name}", "ownerReferences": refs}, "value": 1}
            await found.create("priorityclasses", blocking, "")
            await found.settle(2 * SECOND)
            await drop(found, name, "Foreground")
            await found.settle(5 * SECOND)
            assert await maps(found) == [name]
            how: Obj = {"verb": "delete"} if change is None else {"verb": "patch", "body": change}
            kind = {"content_type": "application/merge-patch+json"} if change else {}
            verb = how.pop("verb")
            assert (await found.plane.ask(verb, "priorityclasses", "", f"blocks-{name}", **how, **kind)).ok
            await found.settle(5 * SECOND)
            assert await maps(found) == []


async def test_lease_is_deleted_with_its_node() -> None:
    async with world(["garbagecollector"]) as found:
        made = await found.create(
            "nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}, ""
        )
        ref = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": made["metadata"]["uid"]}
        lease = {
            "apiVersion": N.api_version("coordination", "v1"),
            "kind": "Lease",
            "metadata": {"name": "n", "ownerReferences": [ref]},
            "spec": {"holderIdentity": "n"},
        }
        await found.create("leases", lease, N.lease_namespace)
        await found.settle(31 * SECOND)
        reply = await found.plane.ask("delete", "nodes", "", "n")
        assert reply.ok
        await found.settle(5 * SECOND)
        assert (await found.plane.ask("get", "leases", N.lease_namespace, "n")).reason == "NotFound"


async def test_lease_with_nonexistent_owner_is_deleted_after_idle_sweeps() -> None:
    async with world(["garbagecollector"]) as found:
        lease: Obj = {
            "apiVersion": N.api_version("coordination", "v1"),
            "kind": "Lease",
            "metadata": {"name": "n"},
        }
        await found.create("leases", lease, N.lease_namespace)
        await found.settle(100 * SECOND)
        ref = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "00000000-0000-4000-8000-000000000000"}
        reply = await found.plane.ask(
            "patch", "leases", N.lease_namespace, "n", body={"metadata": {"ownerReferences": [ref]}},
            content_type="application/merge-patch+json",
        )  # fmt: skip
        assert reply.ok
        await found.settle(35 * SECOND)
        assert (await found.plane.ask("get", "leases", N.lease_namespace, "n")).reason == "NotFound"


async def test_lease_can_own_a_lease() -> None:
    """The policy and the owner changed since the collector last listed leases."""
    async with world(["garbagecollector"]) as found:
        a = await found.create("leases", lease("a"))
        await found.create("leases", lease("b"))
        await found.settle(31 * SECOND)
        await found.patch("leases", "a", {"metadata": {"labels": {"x": "y"}}})
        await found.patch("leases", "b", {"metadata": {"ownerReferences": [owned_by(a)]}})
        await found.settle(31 * SECOND)
        await found.delete("leases", "a")
        await found.settle(61 * SECOND)
        assert await found.names("leases") == []


@pytest.mark.parametrize("policy", ["Foreground", "Orphan"])
async def test_lease_deletion_finishes_and_dependents_follow_the_policy(policy: str) -> None:
    async with world(["garbagecollector"]) as found:
        a = await found.create("leases", lease("a"))
        owned = {"kind": "ConfigMap", "metadata": {"name": "b", "ownerReferences": [owned_by(a)]}}
        await found.create("configmaps", owned)
        await found.settle(31 * SECOND)
        assert (
            await found.plane.ask("delete", "leases", "default", "a", body={"propagationPolicy": policy})
        ).ok
        await found.settle(61 * SECOND)
        assert await found.names("leases") == []
        assert await maps(found) == (["b"] if policy == "Orphan" else [])


async def test_lease_deletion_can_change_its_policy() -> None:
    async with world(["garbagecollector"]) as found:
        a = await found.create("leases", lease("a"))
        refs = [owned_by(a, blockOwnerDeletion=True)]
        blocked = {"name": "b", "ownerReferences": refs, "finalizers": ["example.com/hold"]}
        await found.create("configmaps", {"kind": "ConfigMap", "metadata": blocked})
        for policy in ("Foreground", "Orphan"):
            body = {"propagationPolicy": policy}
            assert (await found.plane.ask("delete", "leases", "default", "a", body=body)).ok
            await found.settle(31 * SECOND)
        assert await found.names("leases") == [] and await maps(found) == ["b"]


@pytest.mark.parametrize(("policy", "left"), [("Foreground", []), ("Orphan", ["b"])])
async def test_lease_blocks_its_owner_and_survives_orphan_deletion(policy: str, left: list[str]) -> None:
    async with world(["garbagecollector"]) as found:
        a = await found.create("configmaps", config("a"))
        blocked = lease("b")
        blocked["metadata"]["ownerReferences"] = [owned_by(a, blockOwnerDeletion=True)]
        blocked["metadata"]["finalizers"] = ["example.com/hold"]
        await found.create("leases", blocked)
        await found.settle(2 * SECOND)
        gets = found.quota.watch("get", "configmaps")
        await drop(found, "a", policy)
        await found.settle(5 * SECOND)
        assert await maps(found) == ([] if left else ["a"])
        assert len(gets) == (1 if left else 2)  # it is checked again after a sweep only
        await found.patch("leases", "b", {"metadata": {"finalizers": None}})
        await found.settle(61 * SECOND)
        assert await maps(found) == [] and await found.names("leases") == left


# --- pods -----------------------------------------------------------------------------------------


async def test_pods_of_a_deleted_node_are_deleted_after_its_quarantine() -> None:
    async with world(["podgc"]) as found:
        await found.create("nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}, "")
        for name, node in (("stays", "n"), ("goes", "nowhere")):
            await found.create("pods", pod(name, nodeName=node))
        await found.create("pods", pod("too", nodeName="nowhere"))
        await found.settle(55 * SECOND)  # passes at 1, 21, 41, 61 s: found at 21 s, due at 61 s
        assert sorted(await found.names("pods")) == ["goes", "stays", "too"]
        deletes = found.quota.watch("delete", "pods")
        await found.settle(10 * SECOND)
        assert await found.names("pods") == ["stays"]
        assert len({*deletes}) == 2  # one after the other


async def test_pods_stay_while_no_server_says_that_their_node_is_gone() -> None:
    async with world(["podgc"]) as found:
        await found.create("pods", pod("goes", nodeName="nowhere"))
        found.quota.refuse_once("get", "nodes", 500, "InternalError", "no")
        gets = found.quota.watch("get", "nodes")
        # passes at 1, 21 s and so on: found at 21 s, asked for at 61 s
        await found.settle(65 * SECOND)
        assert len(gets) == 1 and await found.names("pods") == ["goes"]
        await found.settle(60 * SECOND)
        assert len(gets) == 2 and await found.names("pods") == []


async def test_failed_delete_of_orphaned_pod_is_retried_forty_seconds_later() -> None:
    async with world(["podgc"]) as found:
        await found.create("pods", pod("goes", nodeName="nowhere"))
        found.quota.refuse_once("delete", "pods", 500, "InternalError", "no")
        deletes = found.quota.watch("delete", "pods")
        # passes at 1, 21 s and so on: found at 21 s, rejected at 61 s
        await found.settle(95 * SECOND)
        assert len(deletes) == 1 and await found.names("pods") == ["goes"]
        await found.settle(8 * SECOND)
        assert (deletes[1] - deletes[0]) / SECOND == pytest.approx(40, abs=0.1)
        assert await found.names("pods") == []


@pytest.mark.parametrize("tells", [False, True])
async def test_terminating_pods_of_an_out_of_service_node_are_deleted_while_not_ready(tells: bool) -> None:
    gates = {"NodeOutOfServiceVolumeDetach": "true", "PodDisruptionConditions": str(tells).lower()}
    async with world(["podgc"], feature_gates=gates) as found:
        taint = {"key": "node.orch.io/out-of-service", "effect": "NoSchedule"}
        for node, taints in (("down", [taint]), ("up", [taint]), ("silent", [])):
            obj = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}, "spec": {"taints": taints}}
            status = {"conditions": [{"type": "Ready", "status": "True" if node == "up" else "Unknown"}]}
            await found.create("nodes", {**obj, "status": status}, "")
            for name in (f"{node}-deleted", f"{node}-alive"):
                await found.create("pods", pod(name, nodeName=node, terminationGracePeriodSeconds=30))
            await found.delete("pods", f"{node}-deleted")
        failures = found.quota.watch("patch", "pods/status")
        await found.settle(25 * SECOND)
        kept = ["down-alive", "silent-alive", "silent-deleted", "up-alive", "up-deleted"]
        assert sorted(await found.names("pods")) == kept
        assert len(failures) == tells


async def test_finished_pods_beyond_the_threshold_are_deleted_oldest_first() -> None:
    async with world(["podgc"], terminated_pod_gc_threshold=1) as found:
        for name in ("b", "a", "c"):
            await found.create("pods", pod(name, nodeName="n"))
            await found.patch("pods", name, {"status": {"phase": "Succeeded"}}, "status")
            await found.settle(2 * SECOND)
        await found.settle(20 * SECOND)
        assert await found.names("pods") == ["c"]


async def test_terminating_unscheduled_pod_is_deleted_each_pass_while_it_has_finalizers() -> None:
    """True for a pod that has finished, False for one that runs."""
    async with world(["podgc"]) as found:
        for name, phase in (("ended", "Failed"), ("waits", "Pending")):
            blocked = pod(name)
            blocked["metadata"]["finalizers"] = ["x.io/hold"]
            await found.create("pods", blocked)
            await found.patch("pods", name, {"status": {"phase": phase}}, "status")
            await found.delete("pods", name)
        deletes = found.quota.watch("delete", "pods")
        await found.settle(60 * SECOND)
        assert len(deletes) == 6 and await found.names("pods") == ["ended", "waits"]
        for name in ("ended", "waits"):
            await found.patch("pods", name, {"metadata": {"finalizers": None}})
        assert await found.names("pods") == []


# --- namespaces -----------------------------------------------------------------------------------


async def test_every_active_namespace_keeps_its_account_and_certificate() -> None:
    async with world(["serviceaccount", "root-ca-cert-publisher"]) as found:
        await found.create(
            "namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}, ""
        )
        await found.settle(3 * SECOND)

        async def uids() -> list[str]:
            account = await found.plane.ask("get", "serviceaccounts", "team", "default")
            config_map = await found.plane.ask("get", "configmaps", "team", N.config_map_root_ca)
            assert account.ok
            assert config_map.ok
            return [account.obj["metadata"]["uid"], config_map.obj["metadata"]["uid"]]

        before = await uids()
        assert (await found.plane.ask("delete", "serviceaccounts", "team", "default")).ok
        assert (await found.plane.ask("delete", "configmaps", "team", N.config_map_root_ca)).ok
        await found.settle(3 * SECOND)
        assert not set(before) & set(await uids())


async def test_namespace_is_deleted_with_its_content_after_its_grace_period() -> None:
    async with world(["namespace", "serviceaccount", "root-ca-cert-publisher"]) as found:
        await found.create(
            "namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}, ""
        )
        await found.create("configmaps", config("c"), "team")
        await found.create("pods", pod("p"), "team")
        assert (await found.plane.ask("delete", "namespaces", "", "team")).ok
        await found.settle(4 * SECOND)
        assert await namespace(found, "team") is not None
        ends = found.quota.watch("update", "namespaces/finalize")
        await found.settle(4 * SECOND)
        assert await namespace(found, "team") is None
        # the first attempt uses the object without the conditions just written
        assert len(ends) == 2
        for resource in ("configmaps", "pods", "serviceaccounts"):
            reply = await found.plane.ask("list", resource, "team")
            assert not reply.items


async def test_namespace_waits_for_a_finalizer_and_reports_it() -> None:
    async with world(["namespace"]) as found:
        await found.create(
            "namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}, ""
        )
        await found.create("configmaps", config("c", finalizers=["example.com/hold"]), "team")
        assert (await found.plane.ask("delete", "namespaces", "", "team")).ok
        await found.settle(10 * SECOND)
        left = await namespace(found, "team")
        assert left is not None
        texts = {c["type"]: c["message"] for c in left["status"]["conditions"] if c["status"] == "True"}
        assert texts == {
            "NamespaceContentRemaining": "Some resources are remaining: configmaps. has 1 resource instances",
            "NamespaceFinalizersRemaining": "Some content in the namespace has finalizers remaining: "
            "example.com/hold in 1 resource instances",
        }
        reply = await found.plane.ask(
            "patch",
            "configmaps",
            "team",
            "c",
            body={"metadata": {"finalizers": None}},
            content_type="application/merge-patch+json",
        )
        assert reply.ok
        await found.settle(20 * SECOND)
        assert await namespace(found, "team") is None
