"""Volumes of drivers in a whole cluster: attaching, detaching by force, and faults of drivers.

The nodes here are objects without a machine, so that the test says what they report.
"""

from __future__ import annotations

from typing import Any

import pytest

from sim import Cluster
from sim.api.types import Obj
from sim.ident import NAMES
from sim.options.storage_drivers import UNREACHABLE
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from sim.scenario.plan.storage import storage_of
from sim.units import SECOND

from .test_volume_binding import claim, events, phases, volume

NAMING = NAMES["orch"]
DISK = "disk.csi.example.com"
MERGE = "application/merge-patch+json"


def node(name: str) -> Obj:
    marks = {NAMING.annotation_attach_detach: "true"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "annotations": marks}}


def pod(name: str, node_name: str, claim_name: str = "data") -> Obj:
    source = {"persistentVolumeClaim": {"claimName": claim_name}}
    containers = [{"name": "c", "image": "i"}]
    spec = {"nodeName": node_name, "containers": containers, "volumes": [{"name": "v", **source}]}
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def attached_at(c: Cluster, name: str) -> list[str]:
    found = c.get("nodes", name, "")
    assert found is not None
    return [one["name"] for one in found["status"].get("volumesAttached") or ()]


def report_in_use(c: Cluster, name: str, volumes: list[str]) -> None:
    body = {"status": {"volumesInUse": volumes}}
    reply = c.request("patch", "nodes", "", name, body=body, content_type=MERGE, subresource="status")
    assert reply.ok, reply.message


async def started(c: Cluster) -> str:
    """Start a pod on n1, and let n1 use its volume; returns the name of the volume."""
    c.apply(node("n1"), node("n2"), claim("data", "1Gi", storageClassName="disk"))
    await c.run_for("20s")
    c.apply(pod("first", "n1"))
    await c.run_for("10s")
    assert c.refused == ()
    (volume,) = attached_at(c, "n1")
    assert volume.startswith(f"orch.io/csi/{DISK}^pvc-")
    report_in_use(c, "n1", [volume])
    await c.run_for("1s")
    return volume


def remove(c: Cluster, name: str) -> None:
    body: dict[str, Any] = {"gracePeriodSeconds": 0}
    assert c.request("delete", "pods", "default", name, body=body).ok


async def test_volume_of_a_dead_node_is_detached_after_six_minutes() -> None:
    async with Cluster(storage=[{"driver": DISK, "attachTime": "3s", "detachTime": "1s"}]) as c:
        volume = await started(c)
        name = volume.partition("^")[2]
        assert ("SuccessfulAttachVolume", f'AttachVolume.Attach succeeded for volume "{name}" ') in events(
            c, "first"
        )
        c.apply(pod("second", "n2"))
        await c.run_for("1s")
        text = f'Multi-Attach error for volume "{name}" Volume is already used by pod(s) first'
        assert events(c, "second") == {("FailedAttachVolume", text)}
        remove(c, "first")
        removed_us = c.kernel.now_us
        await c.run_until(removed_us + 359 * SECOND)
        assert attached_at(c, "n1") == [volume] and attached_at(c, "n2") == []
        await c.run_until(removed_us + 361 * SECOND)
        assert attached_at(c, "n1") == []
        await c.run_for("10s")
        assert attached_at(c, "n2") == [volume]
        # a node that does not use the volume gives it back at once
        report_in_use(c, "n2", [])
        remove(c, "second")
        await c.run_for("5s")
        assert attached_at(c, "n2") == [] and c.list("volumeattachments") == []


async def test_volume_of_a_node_out_of_service_is_detached_at_once() -> None:
    flags = {"feature-gates": "NodeOutOfServiceVolumeDetach=true"}
    plan = ClusterPlan(
        controller_manager=ComponentPlan(flags=flags), storage=storage_of([{"driver": DISK}], NAMING)
    )
    async with Cluster(plan) as c:
        volume = await started(c)
        c.apply(pod("second", "n2"))
        taint = {"key": NAMING.taint_out_of_service, "effect": "NoExecute"}
        c.request("patch", "nodes", "", "n1", body={"spec": {"taints": [taint]}}, content_type=MERGE)
        remove(c, "first")
        await c.run_for("15s")
        assert attached_at(c, "n1") == [] and attached_at(c, "n2") == [volume]


async def test_faults_of_a_driver_delay_what_it_is_asked_for() -> None:
    async with Cluster(storage=[{"driver": DISK, "nodeExpandTime": "0s"}]) as c:
        await c.run_for("10s")
        gone = c.do.driver(name=DISK, how="away")
        await c.run_for("1s")
        assert not c.supervisor[f"csi-{DISK}"].running
        assert c.storage_drivers.call(DISK, "mount", "n1").error == UNREACHABLE
        c.apply(node("n1"), claim("data", "1Gi", storageClassName="disk"))
        await c.run_for("30s")
        assert phases(c, "persistentvolumeclaims") == {"data": "Pending"}
        c.do.heal(step=gone)
        broken = c.do.driver(name=DISK, how="failing", operation="attach", message="quota exceeded")
        await c.run_for("15s")
        assert phases(c, "persistentvolumeclaims") == {"data": "Bound"}
        c.apply(pod("first", "n1"))
        await c.run_for("20s")
        (found,) = c.list("persistentvolumes")
        name = found["metadata"]["name"]
        text = f'AttachVolume.Attach failed for volume "{name}" : quota exceeded'
        assert ("FailedAttachVolume", text) in events(c, "first") and attached_at(c, "n1") == []
        c.do.heal(step=broken)
        await c.run_for("60s")
        assert len(attached_at(c, "n1")) == 1
        c.do.driver(name=DISK, how="hanging", operation="expand", for_="30s")
        await c.run_for("1s")
        more = {"spec": {"resources": {"requests": {"storage": "3Gi"}}}}
        c.request("patch", "persistentvolumeclaims", "default", "data", body=more, content_type=MERGE)
        await c.run_for("15s")
        reasons = {reason for reason, _ in events(c, "data")}
        assert {"VolumeResizeFailed", "ExternalExpanding"} <= reasons
        await c.run_for("60s")
        grown = c.get("persistentvolumeclaims", "data")
        assert grown is not None and grown["status"]["capacity"] == {"storage": "3Gi"}


@pytest.mark.parametrize(
    ("flags", "stays"),
    [
        ({"attach-detach-reconcile-sync-period": "5s"}, False),
        ({"attach-detach-reconcile-sync-period": "5m"}, True),
        ({"attach-detach-reconcile-sync-period": "5s", "disable-attach-detach-reconcile-sync": True}, True),
    ],
)
async def test_attachment_that_is_lost_is_found_by_the_reconcile_sync(
    flags: dict[str, Any], stays: bool
) -> None:
    plan = ClusterPlan(
        controller_manager=ComponentPlan(flags=flags), storage=storage_of([{"driver": DISK}], NAMING)
    )
    async with Cluster(plan) as c:
        volume = await started(c)
        c.do.driver(name=DISK, how="away")
        await c.run_for("1s")
        (attachment,) = c.list("volumeattachments")
        body, name = {"status": {"attached": False}}, attachment["metadata"]["name"]
        c.request("patch", "volumeattachments", "", name, body=body, content_type=MERGE, subresource="status")
        await c.run_for("10s")
        assert attached_at(c, "n1") == ([volume] if stays else [])


async def test_ephemeral_volume_gets_a_claim_that_ends_with_its_pod() -> None:
    spec = {"resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteOnce"]}
    template = {"metadata": {"labels": {"kind": "scratch"}}, "spec": {**spec, "storageClassName": "disk"}}
    one = pod("first", "n1")
    one["spec"]["volumes"] = [{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}]
    async with Cluster(storage=[{"driver": DISK}]) as c:
        c.apply(node("n1"), claim("other-v", "1Gi", storageClassName="none"))
        await c.run_for("20s")
        c.apply(one, {**one, "metadata": {**one["metadata"], "name": "other"}})
        await c.run_for("20s")
        made = c.get("persistentvolumeclaims", "first-v")
        assert made is not None and made["metadata"]["labels"] == {"kind": "scratch"}
        assert (
            made["metadata"]["ownerReferences"][0]["name"] == "first" and made["status"]["phase"] == "Bound"
        )
        assert len(attached_at(c, "n1")) == 1
        foreign = "PVC default/other-v was not created for pod default/other (pod is not owner)"
        assert ("FailedBinding", f"ephemeral volume v: {foreign}") in events(c, "other")
        remove(c, "first")
        await c.run_for("60s")
        assert phases(c, "persistentvolumeclaims") == {"other-v": "Pending"}
        assert c.list("persistentvolumes") == []


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ({"awsElasticBlockStore": {"volumeID": "vol-1"}}, "ebs.csi.aws.com^vol-1"),
        ({"gcePersistentDisk": {"pdName": "disk-1"}}, "pd.csi.storage.gke.io^disk-1"),
        ({"azureFile": {"secretName": "s", "shareName": "t"}}, ""),
    ],
)
async def test_volume_of_a_migrated_plugin_is_attached_by_its_driver(
    source: dict[str, Any], name: str
) -> None:
    driver = name.partition("^")[0] or "file.csi.azure.com"
    async with Cluster(storage=[{"driver": driver}]) as c:
        made = volume("v", "1Gi", **source)
        del made["spec"]["hostPath"]
        c.apply(node("n1"), made, claim("data", "1Gi", volumeName="v"))
        await c.run_for("20s")
        c.apply(pod("first", "n1"))
        await c.run_for("20s")
        assert c.refused == ()
        assert attached_at(c, "n1") == ([f"orch.io/csi/{name}"] if name else [])
        said = ("SuccessfulAttachVolume", 'AttachVolume.Attach succeeded for volume "v" ')
        assert (said in events(c, "first")) is bool(name)
        remove(c, "first")
        await c.run_for("20s")
        assert attached_at(c, "n1") == [] and c.list("volumeattachments") == []


@pytest.mark.parametrize("drivers", [["ebs.csi.aws.com"], []])
async def test_disk_that_a_pod_names_is_attached_by_the_driver_of_its_plugin(drivers: list[str]) -> None:
    """To see it fail: let the controller leave out volumes without a claim."""
    spec = pod("p", "node-0")["spec"]
    volumes = [{"name": "v", "awsElasticBlockStore": {"volumeID": "vol-7", "fsType": "ext4"}}]
    containers = [{**spec["containers"][0], "volumeMounts": [{"name": "v", "mountPath": "/data"}]}]
    named = {**pod("p", "node-0"), "spec": {**spec, "containers": containers, "volumes": volumes}}
    storage = [{"driver": each, "attachTime": "3s", "detachTime": "1s"} for each in drivers]
    async with Cluster(nodes=1, storage=storage) as c:
        await c.run_for("5s")
        c.apply(named)
        await c.run_for("30s" if drivers else "5m")
        (attachment,) = c.list("volumeattachments")
        source = attachment["spec"]["source"]["inlineVolumeSpec"]
        assert source["csi"]["volumeHandle"] == "vol-7"
        assert bool(attachment.get("status", {}).get("attached")) is bool(drivers)
        assert phases(c, "pods")["p"] == ("Running" if drivers else "Pending")
        if drivers:
            assert attached_at(c, "node-0") == ["orch.io/csi/ebs.csi.aws.com^vol-7"]
            remove(c, "p")
            await c.run_for("60s")
            assert c.list("volumeattachments") == []
        else:
            late = (
                "timed out waiting for external-attacher of ebs.csi.aws.com CSI driver to attach volume vol-7"
            )
            text = f'AttachVolume.Attach failed for volume "ebs.csi.aws.com-vol-7" : {late}'
            assert ("FailedAttachVolume", text) in events(c, "p")
