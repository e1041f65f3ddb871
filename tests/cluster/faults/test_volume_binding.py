"""Claims and volumes of a whole cluster: binding, loss, and the three reclaim policies."""

from __future__ import annotations

from typing import Any

from sim import Cluster
from sim.api.types import Obj
from sim.app.plain_plan import plain_nodes
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan


def volume(name: str, size: str, policy: str = "Retain", **spec: Any) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": f"/tmp/{name}"},
            "persistentVolumeReclaimPolicy": policy,
            **spec,
        },
    }


def claim(name: str, size: str, **spec: Any) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "resources": {"requests": {"storage": size}},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            **spec,
        },
    }


def storage_class(name: str, provisioner: str) -> Obj:
    return {
        "apiVersion": "storage.orch.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
    }


def phases(c: Cluster, resource: str) -> dict[str, str]:
    return {one["metadata"]["name"]: one["status"]["phase"] for one in c.list(resource)}


def events(c: Cluster, name: str) -> set[tuple[str, str]]:
    return {
        (one["reason"], one["message"]) for one in c.list("events") if one["involvedObject"]["name"] == name
    }


async def test_claims_bind_and_volumes_are_reclaimed_by_their_policy() -> None:
    async with Cluster(nodes=1) as c:
        c.apply(
            volume("spare", "1Gi", storageClassName="other"),
            *(
                volume("kept", "5Gi"),
                volume("scrubbed", "2Gi", "Recycle"),
                volume("dropped", "9Gi", "Delete"),
            ),
        )
        await c.run_for("15s")
        c.apply(
            *(claim("a", "1Gi"), claim("b", "5Gi"), claim("d", "8Gi"), claim("huge", "1Ti")),
            claim("early", "1Gi", volumeName="later"),
        )
        await c.run_for("30s")
        c.apply(
            claim("small", "9Gi", volumeName="dropped"),
            claim("wide", "1Gi", volumeName="spare", volumeMode="Block"),
        )
        await c.run_for("15s")
        assert c.refused == ()
        bound = {
            one["metadata"]["name"]: one["spec"].get("volumeName") for one in c.list("persistentvolumeclaims")
        }
        assert bound == {
            "a": "scrubbed",
            "b": "kept",
            "d": "dropped",
            "huge": None,
            "small": "dropped",
            "early": "later",
            "wide": "spare",
        }
        assert phases(c, "persistentvolumeclaims") == {
            **dict.fromkeys(("a", "b", "d"), "Bound"),
            **dict.fromkeys(("huge", "small", "early", "wide"), "Pending"),
        }
        unset = "no persistent volumes available for this claim and no storage class is set"
        assert events(c, "huge") == {("FailedBinding", unset)}
        assert events(c, "small") == {
            ("FailedBinding", 'volume "dropped" already bound to a different claim.')
        }
        mismatch = 'Cannot bind to requested volume "spare": storageClassName does not match'
        assert events(c, "wide") == {("VolumeMismatch", mismatch)}
        for name in ("a", "b", "d"):
            c.request("delete", "persistentvolumeclaims", "default", name)
        c.apply(volume("later", "1Gi"))
        await c.run_for("30s")
        assert phases(c, "persistentvolumes") == {
            "kept": "Released",
            "scrubbed": "Available",
            "spare": "Available",
            "later": "Bound",
        }
        assert ("VolumeRecycled", "Volume recycled") in events(c, "scrubbed")
        assert c.list("pods") == []
        c.request("delete", "persistentvolumes", "", "later")
        c.request("patch", "persistentvolumes", "", "later", body={"metadata": {"finalizers": None}},
                  content_type="application/merge-patch+json")  # fmt: skip
        await c.run_for("20s")
        lost = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
        assert phases(c, "persistentvolumeclaims")["early"] == "Lost"
        assert ("ClaimLost", lost) in events(c, "early")


async def test_classes_without_a_driver_say_what_they_wait_for() -> None:
    flags = {"enable-hostpath-provisioner": True, "pvclaimbinder-sync-period": "2s"}
    plan = ClusterPlan(nodes=plain_nodes(1), controller_manager=ComponentPlan(flags=flags))
    async with Cluster(plan) as c:
        c.apply(
            storage_class("host", "orch.io/host-path"),
            storage_class("none", "orch.io/no-provisioner"),
            storage_class("outside", "disk.example.com"),
            storage_class("share", "orch.io/nfs"),
            *(
                claim(name, "1Gi", storageClassName=name)
                for name in ("host", "none", "outside", "absent", "share")
            ),
        )
        await c.run_for("10s")
        assert phases(c, "persistentvolumeclaims") == {
            "host": "Bound",
            **dict.fromkeys(("absent", "none", "outside", "share"), "Pending"),
        }
        assert ("ProvisioningFailed", "no provisionable volume plugin matched") in events(c, "share")
        uid = c.get("persistentvolumeclaims", "host")["metadata"]["uid"]  # type: ignore[index]
        made = c.get("persistentvolumes", f"pvc-{uid}")
        assert made is not None and made["spec"]["hostPath"]["path"].startswith("/tmp/hostpath_pv/")
        assert ("ProvisioningFailed", "no volume plugin matched name: orch.io/no-provisioner") in events(
            c, "none"
        )
        assert ("ProvisioningFailed", 'storageclass.storage.orch.io "absent" not found') in events(
            c, "absent"
        )
        waiting = (
            'waiting for a volume to be created, either by external provisioner "disk.example.com"'
            " or manually created by system administrator"
        )
        assert ("ExternalProvisioning", waiting) in events(c, "outside")
        c.request("delete", "persistentvolumeclaims", "default", "host")
        await c.run_for("30s")
        assert c.list("persistentvolumes") == []


async def test_data_of_a_deleted_volume_are_deleted_if_the_gate_honors_its_policy() -> None:
    """A claim with a source is refused by the plugin.

    To see it fail: let the deletion of a volume that is being deleted end at once.
    """
    for gate in (False, True):
        flags = {
            "enable-hostpath-provisioner": True,
            "pvclaimbinder-sync-period": "1h",
            "feature-gates": f"HonorPVReclaimPolicy={gate}",
        }
        plan = ClusterPlan(nodes=plain_nodes(1), controller_manager=ComponentPlan(flags=flags))
        async with Cluster(plan) as c:
            source = {"kind": "PersistentVolumeClaim", "name": "host"}
            copy = claim("copy", "1Gi", storageClassName="host", dataSource=source)
            c.apply(storage_class("host", "orch.io/host-path"), copy)
            c.apply(claim("host", "1Gi", storageClassName="host"))
            await c.run_for("10s")
            text = (
                'plugin "orch.io/host-path" is not a CSI plugin. Only CSI plugin can provision a claim with'
                " a datasource"
            )
            assert ("ProvisioningFailed", text) in events(c, "copy")
            (made,) = c.list("persistentvolumes")
            assert ("orch.io/pv-controller" in made["metadata"]["finalizers"]) is gate
            c.request("delete", "persistentvolumes", "", made["metadata"]["name"])
            c.request("delete", "persistentvolumeclaims", "default", "host")
            await c.run_for("40s")
            assert c.list("persistentvolumes") == []


async def test_options_keep_volumes_from_being_provisioned() -> None:
    flags = {"enable-dynamic-provisioning": False, "pvclaimbinder-sync-period": "1h"}
    plan = ClusterPlan(nodes=plain_nodes(1), controller_manager=ComponentPlan(flags=flags))
    async with Cluster(plan) as c:
        c.apply(
            storage_class("outside", "disk.example.com"), claim("outside", "1Gi", storageClassName="outside")
        )
        c.apply(claim("later", "1Gi"))
        await c.run_for("30s")
        assert events(c, "outside") == set()
        c.apply(volume("late", "1Gi"))
        await c.run_for("30s")
        assert phases(c, "persistentvolumeclaims") == {"later": "Pending", "outside": "Pending"}
    flags = {"enable-hostpath-provisioner": False}
    plan = ClusterPlan(nodes=plain_nodes(1), controller_manager=ComponentPlan(flags=flags))
    async with Cluster(plan) as c:
        c.apply(storage_class("host", "orch.io/host-path"), claim("host", "1Gi", storageClassName="host"))
        await c.run_for("30s")
        text = 'Failed to create provisioner: provisioning in volume plugin "orch.io/host-path" is disabled'
        assert events(c, "host") == {("ProvisioningFailed", text)}
