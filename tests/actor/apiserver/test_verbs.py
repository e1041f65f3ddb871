"""The verbs through a real server on the virtual clock (timing cases 50 to 54)."""

from __future__ import annotations

from typing import Any

import pytest

from actors.apiserver.options import ApiServerOptions
from actors.apiserver.outside_time import ask
from sim.api.types import UserInfo
from sim.api.verbs import single as verbs
from sim.units import SECOND, parse_time
from sim.wire.stack import CALLS_MAX
from tests.actor.apiserver.cluster import ADMIN, NAMES_ORCH, Plane, Seen, lease, plane, request

MANAGER = UserInfo("system:orch-controller-manager", ("system:masters",))
POD: dict[str, Any] = {
    "metadata": {"name": "p", "labels": {"app": "web"}},
    "spec": {"containers": [{"name": "c", "image": "i"}], "automountServiceAccountToken": False},
}


async def make_account(p: Plane) -> None:
    made = await p.ask("create", "serviceaccounts", body={"metadata": {"name": "default"}})
    assert made.code == 201, made


async def bound_pod(p: Plane, name: str, ready: bool = True) -> None:
    made = await p.ask("create", "pods", body={**POD, "metadata": {**POD["metadata"], "name": name}})
    assert made.code == 201, made
    target = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "n1"}}
    assert (await p.ask("create", "pods", name=name, subresource="binding", body=target)).code == 201
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]}
    patch = await p.ask(
        "patch",
        "pods",
        name=name,
        subresource="status",
        body={"status": status},
        content_type="application/strategic-merge-patch+json",
    )
    assert patch.code == 200, patch


async def test_a_created_object_has_uid_time_and_revision_and_can_be_read() -> None:
    async with plane() as p:
        made = await p.ask("create", "leases", body=lease("a"))
        assert made.code == 201
        metadata = made.obj["metadata"]
        assert metadata["namespace"] == "default" and len(metadata["uid"]) == 36
        assert metadata["creationTimestamp"] == "2026-01-01T00:00:00Z"
        again = await p.ask("get", "leases", name="a")
        assert again.item is made.item
        assert again.item is not None and again.item.managed[0].manager == "test"
        taken = await p.ask("create", "leases", body=lease("a"))
        assert (taken.code, taken.reason) == (409, "AlreadyExists")
        assert taken.message.endswith('"a" already exists')


async def test_the_second_put_of_one_revision_conflicts_and_an_equal_put_writes_nothing() -> None:
    async with plane() as p:
        made = await p.ask("create", "leases", body=lease("a"))
        first = {**made.obj, "spec": {"holderIdentity": "one"}}
        done = await p.ask("update", "leases", name="a", body=first)
        assert done.code == 200 and done.obj["spec"] == {"holderIdentity": "one"}
        late = await p.ask("update", "leases", name="a", body={**made.obj, "spec": {"holderIdentity": "two"}})
        assert (late.code, late.reason) == (409, "Conflict")
        before = p.storage.store.revision
        same = await p.ask("update", "leases", name="a", body=done.obj)
        assert same.code == 200 and same.item is done.item and p.storage.store.revision == before


async def test_an_owner_that_is_named_twice_is_named_once_and_warned_of_by_every_write() -> None:
    async with plane() as p:
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u1"}
        named = {"metadata": {"name": "m", "ownerReferences": [owner, owner, owner]}}
        merge = {"content_type": "application/merge-patch+json"}
        for verb, name, more, when in (
            ("create", "", {}, ""),
            ("update", "m", {}, ""),
            ("patch", "m", merge, " after mutating admission happens"),
        ):
            reply = await p.ask(verb, "configmaps", name=name, body=named, **more)
            assert reply.ok and reply.obj["metadata"]["ownerReferences"] == [owner]
            (warning,) = reply.warnings
            assert warning.startswith(f".metadata.ownerReferences contains duplicate entries{when}; ")
            assert warning.endswith("observed: u1, u1")


async def test_a_lease_needs_a_revision_to_be_updated_and_a_config_map_does_not() -> None:
    async with plane() as p:
        await p.ask("create", "leases", body=lease("a"))
        refused = await p.ask("update", "leases", name="a", body=lease("a", holderIdentity="x"))
        assert refused.code == 422 and "must be specified for an update" in refused.message
        body = {"metadata": {"name": "m"}, "data": {"k": "1"}}
        await p.ask("create", "configmaps", body=body)
        done = await p.ask("update", "configmaps", name="m", body={**body, "data": {"k": "2"}})
        assert done.code == 200 and done.obj["data"] == {"k": "2"}
        assert done.obj["metadata"]["uid"]


async def test_a_finalizer_keeps_a_deleted_object_until_it_is_removed() -> None:
    async with plane() as p:
        body = {"metadata": {"name": "m", "finalizers": ["example.com/f"]}}
        await p.ask("create", "configmaps", body=body)
        marked = await p.ask("delete", "configmaps", name="m")
        assert marked.code == 200 and marked.obj["metadata"]["deletionTimestamp"]
        grow = {"metadata": {"finalizers": ["example.com/f", "example.com/g"]}}
        merge = "application/merge-patch+json"
        refused = await p.ask("patch", "configmaps", name="m", body=grow, content_type=merge)
        assert refused.code == 422 and "no new finalizers can be added" in refused.message
        before = p.storage.store.revision
        gone = await p.ask(
            "patch", "configmaps", name="m", body={"metadata": {"finalizers": None}}, content_type=merge
        )
        assert gone.code == 200 and p.storage.store.revision == before + 1
        assert (await p.ask("get", "configmaps", name="m")).code == 404


async def test_a_pod_on_a_node_is_deleted_gracefully_and_its_grace_only_shrinks() -> None:
    async with plane() as p:
        await make_account(p)
        await bound_pod(p, "a")
        marked = await p.ask("delete", "pods", name="a")
        assert marked.obj["metadata"]["deletionGracePeriodSeconds"] == 30
        meta = marked.obj["metadata"]
        assert parse_time(meta["deletionTimestamp"]) - parse_time(meta["creationTimestamp"]) == 30 * SECOND
        for grace, left in ((60, 30), (10, 10), (20, 10)):
            reply = await p.ask("delete", "pods", name="a", options={"gracePeriodSeconds": grace})
            assert reply.obj["metadata"]["deletionGracePeriodSeconds"] == left
        done = await p.ask("delete", "pods", name="a", body={"gracePeriodSeconds": 0})
        assert done.code == 200
        assert (await p.ask("get", "pods", name="a")).code == 404


async def test_negative_grace_is_one_second() -> None:
    async with plane() as p:
        await make_account(p)
        for name, graces in (("a", (-1,)), ("b", (20, -1))):
            await bound_pod(p, name)
            for grace in graces:
                reply = await p.ask("delete", "pods", name=name, options={"gracePeriodSeconds": grace})
            assert reply.obj["metadata"]["deletionGracePeriodSeconds"] == 1


async def test_second_delete_of_a_pod_changes_its_grace_only() -> None:
    async with plane() as p:
        await make_account(p)
        await bound_pod(p, "a")
        await p.ask("delete", "pods", name="a")
        before = p.storage.store.revision
        again = await p.ask("delete", "pods", name="a", options={"propagationPolicy": "Orphan"})
        assert "finalizers" not in again.obj["metadata"] and p.storage.store.revision == before
        done = {"status": {"phase": "Succeeded"}}
        merge = "application/merge-patch+json"
        await p.ask("patch", "pods", name="a", subresource="status", body=done, content_type=merge)
        shorter = await p.ask("delete", "pods", name="a", options={"gracePeriodSeconds": 10})
        assert shorter.obj["metadata"]["deletionGracePeriodSeconds"] == 10
        assert (await p.ask("get", "pods", name="a")).code == 200


async def test_an_unscheduled_pod_is_deleted_at_once() -> None:
    async with plane() as p:
        await make_account(p)
        made = await p.ask("create", "pods", body=POD)
        assert made.obj["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
        assert (await p.ask("delete", "pods", name="p")).code == 200
        assert (await p.ask("get", "pods", name="p")).code == 404


async def test_watch_receives_the_grace_of_zero_before_a_pods_removal() -> None:
    """Recorded of a real server (50-lifecycle): the change and the end are two events, each of a
    revision of its own.
    """
    async with plane() as p:
        await make_account(p)
        seen = Seen(p.kernel, (await p.ask("watch", "pods")).watch)
        await p.ask("create", "pods", body={**POD, "metadata": {"name": "waits"}})
        await p.ask("delete", "pods", name="waits")
        held = {**POD, "metadata": {"name": "held", "finalizers": ["example.com/f"]}}
        await p.ask("create", "pods", body=held)
        await p.ask("delete", "pods", name="held")
        free = {"metadata": {"finalizers": None}}
        await p.ask("patch", "pods", name="held", body=free, content_type="application/merge-patch+json")
        await bound_pod(p, "runs")
        await p.ask("delete", "pods", name="runs")
        forced = await p.ask("delete", "pods", name="runs", options={"gracePeriodSeconds": "0"})
        await p.run(SECOND)
        told: dict[str, list[tuple[str, int | None]]] = {"waits": [], "held": [], "runs": []}
        revisions = []
        for _, event in seen.events:
            assert event.item is not None
            metadata = event.item.obj["metadata"]
            told[metadata["name"]].append((event.type, metadata.get("deletionGracePeriodSeconds")))
            revisions.append(event.item.rev)
        assert told == {
            "waits": [("ADDED", None), ("MODIFIED", 0), ("DELETED", 0)],
            "held": [("ADDED", None), ("MODIFIED", 0), ("DELETED", 0)],
            "runs": [("ADDED", None), ("MODIFIED", None), ("MODIFIED", None), ("MODIFIED", 30), ("MODIFIED", 0), ("DELETED", 0)],
        }  # fmt: skip
        assert revisions == sorted(set(revisions))
        assert forced.obj["metadata"]["deletionGracePeriodSeconds"] == 0
        assert int(forced.obj["metadata"]["resourceVersion"]) == revisions[-2]


async def test_what_becomes_of_dependents_is_said_in_one_way_only() -> None:
    async with plane() as p:
        await p.ask("create", "configmaps", body={"metadata": {"name": "x"}})
        both = 'Invalid value: "Foreground": orphanDependents and deletionPropagation cannot be both set'
        body = {"orphanDependents": False, "propagationPolicy": "Foreground"}
        refused = await p.ask("delete", "configmaps", name="x", body=body)
        assert (refused.code, refused.reason) == (422, "Invalid")
        assert refused.message == f'DeleteOptions.meta.orch.io "" is invalid: propagationPolicy: {both}'
        odd = await p.ask("delete", "configmaps", name="x", body={"propagationPolicy": "Odd"})
        assert odd.code == 422 and 'Unsupported value: "Odd"' in odd.message
        alone = await p.ask("delete", "configmaps", name="x", body={"orphanDependents": False})
        assert alone.code == 200


async def test_an_object_that_is_another_than_was_meant_to_be_deleted_stays() -> None:
    """The refusal names the kind with its group, if it has one."""
    async with plane() as p:
        made = await p.ask("create", "configmaps", body={"metadata": {"name": "x"}})
        await p.ask("create", "leases", body=lease("x"))
        for resource, kind, group in (
            ("configmaps", "ConfigMap", {}),
            ("leases", "Lease.coordination.orch.io", {"group": "coordination.orch.io"}),
        ):
            body = {"preconditions": {"uid": "u"}}
            refused = await p.ask("delete", resource, name="x", body=body)
            text = (
                f'Operation cannot be fulfilled on {kind} "x": the UID in the precondition (u) does not match'
            )
            assert refused.reason == "Conflict" and refused.message.startswith(text)
            details = {"name": "x", **group, "kind": kind.partition(".")[0]}
            assert isinstance(refused.body, dict) and refused.body["details"] == details
            assert (await p.ask("get", resource, name="x")).ok
        right = {"preconditions": {"uid": made.obj["metadata"]["uid"]}}
        assert (await p.ask("delete", "configmaps", name="x", body=right)).ok


async def test_a_pod_is_bound_once() -> None:
    async with plane() as p:
        await make_account(p)
        await bound_pod(p, "a")
        pod = (await p.ask("get", "pods", name="a")).obj
        assert pod["spec"]["nodeName"] == "n1"
        types = {c["type"]: c["status"] for c in pod["status"]["conditions"]}
        assert types == {"PodScheduled": "True", "Ready": "True"}
        target = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n2"}}
        again = await p.ask("create", "pods", name="a", subresource="binding", body=target)
        assert again.code == 409 and 'already assigned to node "n1"' in again.message


async def budget(p: Plane, allowed: int, healthy: int, name: str = "b") -> None:
    body = {
        "metadata": {"name": name},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
    }
    made = await p.ask("create", "poddisruptionbudgets", body=body)
    assert made.code == 201, made
    status = {
        "observedGeneration": 1,
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": 2,
        "expectedPods": 3,
    }
    done = await p.ask(
        "update", "poddisruptionbudgets", name=name, subresource="status", body={**made.obj, "status": status}
    )
    assert done.code == 200, done


async def evict(p: Plane, name: str) -> Any:
    return await p.ask("create", "pods", name=name, subresource="eviction", body={"metadata": {"name": name}})


async def test_an_eviction_spends_the_budget_and_is_refused_when_it_is_spent() -> None:
    async with plane() as p:
        await make_account(p)
        for name in ("a", "b", "c"):
            await bound_pod(p, name)
        await budget(p, 1, 3)
        assert (await evict(p, "a")).code == 201
        status = (await p.ask("get", "poddisruptionbudgets", name="b")).obj["status"]
        assert status["disruptionsAllowed"] == 0 and list(status["disruptedPods"]) == ["a"]
        refused = await evict(p, "b")
        assert (refused.code, refused.reason, refused.headers) == (429, "TooManyRequests", {})
        assert refused.body["details"]["causes"][0]["reason"] == "DisruptionBudget"
        await bound_pod(p, "d", ready=False)
        assert (await evict(p, "d")).code == 201
        await budget(p, 1, 3, "second")
        assert (await evict(p, "c")).code == 500


async def test_generation_counts_spec_changes_and_scale_writes_but_not_status() -> None:
    async with plane() as p:
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
        made = await p.ask("create", "replicasets", body={"metadata": {"name": "r"}, "spec": spec})
        assert made.code == 201 and made.obj["metadata"]["generation"] == 1
        status = {**made.obj, "status": {"replicas": 1}, "spec": {**spec, "replicas": 9}}
        done = await p.ask("update", "replicasets", name="r", subresource="status", body=status)
        assert done.obj["metadata"]["generation"] == 1 and done.obj["spec"]["replicas"] == 1
        scale = (await p.ask("get", "replicasets", name="r", subresource="scale")).body
        assert (scale["spec"], scale["status"]) == ({"replicas": 1}, {"replicas": 1, "selector": "a=b"})
        scaled = await p.ask(
            "update", "replicasets", name="r", subresource="scale", body={**scale, "spec": {"replicas": 4}}
        )
        assert scaled.body["spec"] == {"replicas": 4}
        now = (await p.ask("get", "replicasets", name="r")).obj
        assert (now["metadata"]["generation"], now["spec"]["replicas"]) == (2, 4)


async def test_services_get_addresses_of_their_own() -> None:
    async with plane() as p:
        seen = {"10.0.0.1"}
        for n in range(5):
            body = {"metadata": {"name": f"s{n}"}, "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}}
            made = await p.ask("create", "services", body=body)
            assert made.code == 201, made
            assert made.obj["spec"]["clusterIPs"] == [made.obj["spec"]["clusterIP"]]
            seen.add(made.obj["spec"]["clusterIP"])
        assert len(seen) == 6
        taken = {"metadata": {"name": "t"}, "spec": {"clusterIP": "10.0.0.1", "ports": [{"port": 80}]}}
        refused = await p.ask("create", "services", body=taken)
        assert refused.code == 422 and "provided IP is already allocated" in refused.message


async def test_a_dry_run_answers_and_stores_nothing() -> None:
    async with plane() as p:
        before = p.storage.store.revision
        made = await p.ask("create", "leases", body=lease("a"), options={"dryRun": "All"})
        assert made.code == 201 and "resourceVersion" not in made.obj["metadata"]
        assert p.storage.store.revision == before
        bad = await p.ask("create", "leases", body=lease("a"), options={"dryRun": ""})
        assert bad.code == 422


async def test_taken_generated_name_appears_whole_in_the_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verbs, "generated_name", lambda base, _: f"{base}same")
    async with plane() as p:
        kept = {"generateName": "g-", "finalizers": ["example.com/f"]}
        assert (await p.ask("create", "configmaps", body={"metadata": kept})).code == 201
        taken = 'configmaps "g-same" already exists, the server was not able to generate a unique name for the object'
        for expected in (taken, f"object is being deleted: {taken}"):
            reply = await p.ask("create", "configmaps", body={"metadata": kept})
            assert (reply.code, reply.message) == (409, expected)
            assert reply.body["details"] == {"name": "g-same", "kind": "configmaps", "retryAfterSeconds": 1}
            await p.ask("delete", "configmaps", name="g-same")


async def test_generated_names_differ_and_deletecollection_takes_what_matches() -> None:
    async with plane() as p:
        names = []
        for n in range(4):
            body = {"metadata": {"generateName": "x-", "labels": {"half": str(n % 2)}}}
            names.append((await p.ask("create", "configmaps", body=body)).obj["metadata"]["name"])
        assert len(set(names)) == 4 and all(name.startswith("x-") and len(name) == 7 for name in names)
        gone = await p.ask("deletecollection", "configmaps", options={"labelSelector": "half=1"})
        assert gone.items is not None and len(gone.items) == 2
        left = await p.ask("list", "configmaps")
        assert left.items is not None
        assert [i.obj["metadata"]["labels"]["half"] for i in left.items] == ["0", "0"]


ENDLESS = "1" * 5000


@pytest.mark.parametrize(
    ("verb", "option", "code"),
    [
        ("list", "limit", 400),
        ("list", "resourceVersion", 500),  # as upstream's cache answers what is no number
        ("get", "resourceVersion", 500),
        ("watch", "resourceVersion", 500),
        ("watch", "timeoutSeconds", 400),
        ("delete", "gracePeriodSeconds", 400),
    ],
)
async def test_an_option_that_is_a_number_without_end_is_refused(verb: str, option: str, code: int) -> None:
    async with plane() as p:
        await p.run(SECOND)
        name = "a" if verb in ("get", "delete") else ""
        reply = await p.ask(verb, "leases", name=name, options={option: ENDLESS})
        assert reply.code == code and "value out of range" in reply.message


def _made(kind: str, api_version: str, spec: Any, **annotations: str) -> dict[str, Any]:
    meta = {"name": "a", "annotations": annotations}
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": spec}


CONTAINERS = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}
JOB = {"spec": {"template": {"spec": CONTAINERS}}}


@pytest.mark.parametrize(
    ("resource", "obj", "code"),
    [
        ("pods", _made("Pod", "v1", CONTAINERS, **{"controller.orch.io/pod-deletion-cost": ENDLESS}), 422),
        ("services", _made("Service", "v1", {"ports": [{"port": 80}], "externalIPs": [f"{ENDLESS}.1.1.1"]}), 422),
        ("cronjobs", _made("CronJob", "batch/v1", {"schedule": f"*/{ENDLESS} * * * *", "jobTemplate": JOB}), 422),
        ("networkpolicies", _made("NetworkPolicy", "networking.orch.io/v1", {"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": f"10.0.0.0/{ENDLESS}"}}]}]}), 422),
        # Quirk: a share that is no number of 64 bits is not more than 100 %
        ("poddisruptionbudgets", _made("PodDisruptionBudget", "policy/v1", {"minAvailable": f"{ENDLESS}%"}), 201),
    ],
)  # fmt: skip
async def test_a_number_without_end_in_an_object_is_no_number(
    resource: str, obj: dict[str, Any], code: int
) -> None:
    async with plane(options=ApiServerOptions(disabled_admission=("ServiceAccount",))) as p:
        await p.run(SECOND)
        assert (await p.ask("create", resource, body=obj)).code == code


@pytest.mark.parametrize("kind", [NAMES_ORCH.media_merge_patch, NAMES_ORCH.media_strategic_patch])
async def test_patch_by_a_component_that_nests_too_deep_is_refused_with_400(kind: str) -> None:
    deep: dict[str, Any] = {}
    for _ in range(2 * CALLS_MAX):
        deep = {"a": deep}
    async with plane() as p:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
        made = request("create", "configmaps", "default", body=body, user=ADMIN)
        assert ask(p.server, made).code == 201
        patch = request(
            "patch", "configmaps", "default", "x", body={"data": deep}, user=MANAGER, content_type=kind
        )
        served = p.server.serve(patch)
        assert served is not None
        assert (served[0].code, ask(p.server, patch).code) == (400, 400)


async def test_directive_for_an_absent_list_of_a_patch_from_inside_is_not_stored() -> None:
    async with plane() as p:
        made = await p.ask("create", "nodes", "", body={"metadata": {"name": "n"}})
        assert made.ok
        patch = {"status": {"addresses": [{"type": "Hostname", "address": "n"}, {"$patch": "replace"}]}}
        reply = await p.ask(
            "patch",
            "nodes",
            "",
            "n",
            body=patch,
            subresource="status",
            content_type="application/strategic-merge-patch+json",
            user=UserInfo("system:node:n", ("system:nodes",)),
        )
        assert reply.ok, reply.message
        held = (await p.ask("get", "nodes", "", "n")).obj["status"]["addresses"]
        assert held == [{"type": "Hostname", "address": "n"}, {"type": "", "address": ""}]
