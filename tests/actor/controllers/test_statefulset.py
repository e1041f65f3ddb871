"""The StatefulSet controller against the real API server."""

from __future__ import annotations

import pytest

from sim.api.types import Obj
from sim.units import SECOND
from tests.actor.controllers.workload import POD_SPEC, World, template, workload, world

LOOPS = ("statefulset",)


def stateful(**spec: object) -> Obj:
    return workload("StatefulSet", "web", serviceName="svc", **spec)


async def versions(w: World) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["metadata"]["labels"]["v"] for pod in await w.stored("pods")}


async def test_ordered_pods_start_one_ready_pod_after_the_other() -> None:
    async with world(LOOPS) as w:
        await w.create("statefulsets", stateful(replicas=3))
        for count in (1, 2, 3):
            await w.settle()
            assert await w.names("pods") == [f"web-{i}" for i in range(count)]
            await w.make_ready(f"web-{count - 1}")
        await w.settle()
        stored = await w.get("statefulsets", "web")
        status = stored["status"]
        assert (status["readyReplicas"], status["currentReplicas"], status["updatedReplicas"]) == (3, 3, 3)
        pod = await w.get("pods", "web-0")
        assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("web-0", "svc")
        label = w.plane.server.scheme.names.label_controller_revision_hash
        assert pod["metadata"]["labels"][label] == status["currentRevision"]
        assert await w.events("web") == [
            ("SuccessfulCreate", f"create Pod web-{i} in StatefulSet web successful") for i in range(3)
        ]


async def test_parallel_pods_are_created_and_deleted_at_once() -> None:
    async with world(LOOPS) as w:
        await w.create("statefulsets", stateful(replicas=3, podManagementPolicy="Parallel"))
        await w.settle()
        assert await w.names("pods") == ["web-0", "web-1", "web-2"]
        await w.patch("statefulsets", "web", {"spec": {"replicas": 0}})
        await w.settle()
        assert await w.names("pods") == []


async def test_terminating_pod_is_not_replaced_before_it_is_gone() -> None:
    async with world(LOOPS) as w:
        await w.create("statefulsets", stateful(replicas=2))
        await w.settle()
        await w.make_ready("web-0")
        await w.settle()
        await w.make_ready("web-1")
        uid = (await w.get("pods", "web-1"))["metadata"]["uid"]
        await w.patch("pods", "web-1", {"metadata": {"finalizers": ["x.io/hold"]}})
        await w.delete("pods", "web-1")
        await w.settle(3600 * SECOND)
        assert (await w.get("pods", "web-1"))["metadata"]["uid"] == uid
        await w.patch("pods", "web-1", {"metadata": {"finalizers": None}})
        await w.settle()
        assert (await w.get("pods", "web-1"))["metadata"]["uid"] != uid


async def test_update_proceeds_from_the_highest_pod_to_the_partition() -> None:
    async with world(LOOPS) as w:
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
        spec = stateful(
            replicas=3,
            podManagementPolicy="Parallel",
            updateStrategy=strategy,
            template=template("web", v="1"),
        )
        await w.create("statefulsets", spec)
        await w.settle()
        await w.make_all_ready()
        await w.settle()
        await w.patch("statefulsets", "web", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}})
        await w.settle()
        assert await versions(w) == {"web-0": "1", "web-1": "1", "web-2": "2"}
        await w.make_ready("web-2")
        await w.settle()
        await w.make_ready("web-1")
        await w.settle()
        assert await versions(w) == {"web-0": "1", "web-1": "2", "web-2": "2"}
        revisions = await w.stored("controllerrevisions")
        assert sorted(revision["revision"] for revision in revisions) == [1, 2]


async def test_failed_pod_is_deleted_and_recreated() -> None:
    async with world(LOOPS) as w:
        await w.create("statefulsets", stateful(replicas=1))
        await w.settle()
        uid = (await w.get("pods", "web-0"))["metadata"]["uid"]
        await w.patch("pods", "web-0", {"status": {"phase": "Failed"}}, "status")
        await w.settle()
        assert (await w.get("pods", "web-0"))["metadata"]["uid"] != uid
        text = "StatefulSet default/web is recreating failed Pod web-0"
        assert ("RecreatingFailedPod", text) in await w.events("web")


async def test_claims_are_created_before_their_pod_and_outlive_it() -> None:
    async with world(LOOPS) as w:
        claim = {
            "metadata": {"name": "data", "labels": {"l": "m"}},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
        await w.create("statefulsets", stateful(replicas=1, volumeClaimTemplates=[claim]))
        await w.settle()
        (stored,) = await w.stored("persistentvolumeclaims")
        assert stored["metadata"]["name"] == "data-web-0"
        assert stored["metadata"]["labels"] == {"l": "m", "app": "web"}
        pod = await w.get("pods", "web-0")
        assert pod["spec"]["volumes"] == [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}}
        ]
        await w.patch("statefulsets", "web", {"spec": {"replicas": 0}})
        await w.settle()
        assert await w.names("pods") == []
        assert await w.names("persistentvolumeclaims") == ["data-web-0"]


SEVERAL = {"feature_gates": {"MaxUnavailableStatefulSet": "true"}}
RETAINING = {"feature_gates": {"StatefulSetAutoDeletePVC": "true"}}


async def updated(w: World, unavailable: object, ready: int = 5) -> list[str]:
    """Names of the pods that an update of five pods replaces first, with `ready` of them ready."""
    strategy = {"rollingUpdate": {"maxUnavailable": unavailable}}
    spec = stateful(replicas=5, podManagementPolicy="Parallel", updateStrategy=strategy)
    await w.create("statefulsets", {**spec, "spec": {**spec["spec"], "template": template("web", v="1")}})
    await w.settle()
    for ordinal in range(ready):
        await w.make_ready(f"web-{ordinal}")
    await w.settle()
    await w.patch("statefulsets", "web", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}})
    await w.settle()
    return [name for name, version in (await versions(w)).items() if version == "2"]


@pytest.mark.parametrize(
    ("unavailable", "replaced"),
    [
        (2, ["web-3", "web-4"]),
        ("50%", ["web-3", "web-4"]),  # 2.5 pods
        ("10%", ["web-4"]),  # half a pod, but at least one
    ],
)
async def test_max_unavailable_gate_replaces_several_pods_at_once(
    unavailable: object, replaced: list[str]
) -> None:
    async with world(LOOPS, **SEVERAL) as w:
        assert await updated(w, unavailable) == replaced
        strategy = (await w.get("statefulsets", "web"))["spec"]["updateStrategy"]
        assert strategy["rollingUpdate"] == {"maxUnavailable": unavailable, "partition": 0}


async def test_unready_pods_count_towards_max_unavailable() -> None:
    async with world(LOOPS, **SEVERAL) as w:
        assert await updated(w, 2, ready=3) == []


async def test_max_unavailable_is_ignored_without_its_gate() -> None:
    async with world(LOOPS) as w:
        assert await updated(w, 2) == ["web-4"]
        strategy = (await w.get("statefulsets", "web"))["spec"]["updateStrategy"]
        assert strategy["rollingUpdate"] == {"partition": 0}


def claiming(**policy: str) -> Obj:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    return stateful(
        replicas=2,
        podManagementPolicy="Parallel",
        volumeClaimTemplates=[claim],
        persistentVolumeClaimRetentionPolicy=policy,
    )


async def owners(w: World) -> dict[str, list[str]]:
    """The owners of each claim; none of them is a controller."""
    found = await w.stored("persistentvolumeclaims")
    refs = {claim["metadata"]["name"]: claim["metadata"].get("ownerReferences") or [] for claim in found}
    assert all(ref.keys() == {"apiVersion", "kind", "name", "uid"} for each in refs.values() for ref in each)
    return {name: [f"{ref['kind']} {ref['name']}" for ref in each] for name, each in refs.items()}


SET = ["StatefulSet web"]


@pytest.mark.parametrize(
    ("policy", "before", "after"),
    [
        ({}, [], []),
        ({"whenDeleted": "Delete"}, SET, SET),
        ({"whenScaled": "Delete"}, [], ["Pod web-1"]),
        ({"whenDeleted": "Delete", "whenScaled": "Delete"}, SET, ["Pod web-1"]),
    ],
)
async def test_claim_retention_gate_sets_owners_of_claims(
    policy: dict[str, str], before: list[str], after: list[str]
) -> None:
    async with world(LOOPS, **RETAINING) as w:
        made = await w.create("statefulsets", claiming(**policy))
        kept = {"whenDeleted": "Retain", "whenScaled": "Retain"} | policy
        assert made["spec"]["persistentVolumeClaimRetentionPolicy"] == kept
        await w.settle()
        await w.make_all_ready()
        await w.settle()
        assert await owners(w) == {"data-web-0": before, "data-web-1": before}
        await w.patch("statefulsets", "web", {"spec": {"replicas": 1}})
        await w.settle()
        assert await w.names("pods") == ["web-0"]
        assert await owners(w) == {"data-web-0": before, "data-web-1": after}


async def test_pod_is_not_created_while_its_claim_belongs_to_an_earlier_pod() -> None:
    async with world((*LOOPS, "pvc-protection"), **RETAINING) as w:
        await w.create("statefulsets", claiming(whenScaled="Delete"))
        await w.settle()
        await w.make_all_ready()
        await w.settle()
        await w.patch("statefulsets", "web", {"spec": {"replicas": 1}})
        await w.settle()
        await w.patch("statefulsets", "web", {"spec": {"replicas": 2}})
        await w.settle(60 * SECOND)
        assert await w.names("pods") == ["web-0"]
        await w.delete("persistentvolumeclaims", "data-web-1")  # as the garbage collector would
        await w.patch("statefulsets", "web", {"metadata": {"labels": {"poke": "1"}}})
        await w.settle()
        assert await w.names("pods") == ["web-0", "web-1"]
        assert await owners(w) == {"data-web-0": [], "data-web-1": []}


async def test_claims_are_deleted_with_their_set() -> None:
    async with world((*LOOPS, "garbagecollector", "pvc-protection"), **RETAINING) as w:
        await w.create("statefulsets", claiming(whenDeleted="Delete"))
        await w.settle()
        await w.make_all_ready()
        await w.settle()
        await w.delete("statefulsets", "web")
        await w.settle(60 * SECOND)
        assert await w.names("pods") == await w.names("persistentvolumeclaims") == []


async def test_pod_with_a_foreign_name_is_released() -> None:
    async with world(LOOPS) as w:
        made = await w.create("statefulsets", stateful(replicas=0))
        ref = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "controller": True}
        meta = {"name": "odd", "labels": {"app": "web"}}
        meta_owned = {**meta, "ownerReferences": [{**ref, "uid": made["metadata"]["uid"]}]}
        await w.create("pods", {"metadata": meta_owned, "spec": POD_SPEC})
        await w.settle()
        assert "ownerReferences" not in (await w.get("pods", "odd"))["metadata"]


async def test_claim_missing_in_the_cache_delays_its_pod_and_is_reported() -> None:
    async with world(LOOPS) as w:
        claim = {
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
        refused = 'persistentvolumeclaims "data-web-0" already exists'
        w.quota.refuse_once("create", "persistentvolumeclaims", 409, "AlreadyExists", refused)
        await w.create("statefulsets", stateful(replicas=1, volumeClaimTemplates=[claim]))
        await w.settle()
        text = f"create Pod web-0 in StatefulSet web failed error: failed to create PVC data-web-0: {refused}"
        told = await w.events("web")
        assert told[0] == ("FailedCreate", text)
        assert told[-1] == ("SuccessfulCreate", "create Pod web-0 in StatefulSet web successful")


async def test_conflicting_repair_of_a_pod_is_retried_within_the_sync() -> None:
    async with world(LOOPS) as w:
        await w.create("statefulsets", stateful(replicas=1))
        await w.settle()
        await w.make_ready("web-0")
        await w.settle()
        label = w.plane.server.scheme.names.label_statefulset_pod_name
        w.quota.refuse_once("update", "pods", 409, "Conflict", "the object has been modified")
        await w.patch("pods", "web-0", {"metadata": {"labels": {label: "x"}}})
        await w.settle()
        assert (await w.get("pods", "web-0"))["metadata"]["labels"][label] == "web-0"
        assert (await w.events("web"))[1:] == [
            ("SuccessfulUpdate", "update Pod web-0 in StatefulSet web successful")
        ]


async def test_adopted_pod_keeps_the_order_of_its_volumes() -> None:
    """The pod gets its missing label; volumes in another order would be a forbidden change."""
    async with world(LOOPS) as w:
        claim = {
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
        own = {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}}
        spec = {**POD_SPEC, "volumes": [{"name": "tmp", "emptyDir": {}}, own]}
        await w.create("pods", {"metadata": {"name": "web-0", "labels": {"app": "web"}}, "spec": spec})
        kept = stateful(replicas=1, volumeClaimTemplates=[claim], updateStrategy={"type": "OnDelete"})
        await w.create("statefulsets", kept)
        await w.settle()
        await w.make_ready("web-0")
        await w.settle()
        assert await w.events("web") == [
            ("SuccessfulUpdate", "update Pod web-0 in StatefulSet web successful")
        ]
        pod = await w.get("pods", "web-0")
        assert pod["metadata"]["labels"][w.plane.server.scheme.names.label_statefulset_pod_name] == "web-0"
        assert [volume["name"] for volume in pod["spec"]["volumes"]] == ["tmp", "data"]


async def test_revision_has_the_hash_of_its_stored_template() -> None:
    """The JSON equals the recorded one, with an empty name that Go leaves out."""
    spec = {
        "containers": [{"image": "i:1", "name": "c"}],
        "dnsConfig": {"nameservers": ["10.0.0.2"], "options": [{"name": "ndots", "value": "2"}]},
        "dnsPolicy": "None",
        "enableServiceLinks": False,
        "hostAliases": [{"hostnames": ["a", "b"], "ip": "10.0.0.1"}],
        "hostname": "h",
        "initContainers": [{"image": "i:1", "name": "init"}],
        "os": {"name": "linux"},
        "priorityClassName": "",
        "readinessGates": [{"conditionType": "x.io/y"}],
        "setHostnameAsFQDN": True,
        "shareProcessNamespace": True,
        "subdomain": "s",
        "terminationGracePeriodSeconds": 5,
    }
    made = workload("StatefulSet", "rest", serviceName="s", replicas=0)
    made["spec"]["template"]["spec"] = spec
    async with world(LOOPS) as w:
        await w.create("statefulsets", made)
        await w.settle()
        assert await w.names("controllerrevisions") == ["rest-74588667ff"]
