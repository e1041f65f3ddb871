"""Expansion, copies, limits and capacities of drivers on a whole cluster with real node agents."""

from __future__ import annotations

from typing import Any

from sim import Cluster
from sim.api.types import Obj
from sim.app.plain_plan import plain_nodes
from sim.ident import NAMES
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from sim.scenario.plan.storage import storage_of

from .test_volume_attachment import MERGE
from .test_volume_binding import claim, events, phases

ONLINE, OFFLINE, LOCAL = "online.csi.example.com", "offline.csi.example.com", "local.csi.example.com"
STORAGE = [
    {"driver": ONLINE, "class": "online", "limitPerNode": 2},
    {"driver": OFFLINE, "class": "offline", "expandable": "offline", "clones": False},
    {"driver": LOCAL, "class": "local", "topology": "hostname", "capacity": "10Gi"},
]


def pod(name: str, node: str, claim_name: str = "") -> Obj:
    """A pod with one claim, on a node if one is given, past the scheduler."""
    source = {"persistentVolumeClaim": {"claimName": claim_name or name}}
    containers = [{"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]
    spec: dict[str, Any] = {"containers": containers, "volumes": [{"name": "v", **source}]}
    meta = {"name": name, "namespace": "default"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": spec | ({"nodeName": node} if node else {}),
    }


def status(c: Cluster, name: str) -> Obj:
    found = c.get("persistentvolumeclaims", name)
    assert found is not None
    return found["status"]


def conditions(c: Cluster, name: str) -> list[str]:
    return [each["type"] for each in status(c, name).get("conditions") or ()]


def grow(c: Cluster, name: str, size: str) -> None:
    body = {"spec": {"resources": {"requests": {"storage": size}}}}
    reply = c.request("patch", "persistentvolumeclaims", "default", name, body=body, content_type=MERGE)
    assert reply.ok, reply.message


def volume_of(c: Cluster, name: str) -> Obj:
    found = c.get("persistentvolumeclaims", name)
    assert found is not None
    volume = c.get("persistentvolumes", found["spec"]["volumeName"], "")
    assert volume is not None
    return volume


def copy(name: str, of: str, class_name: str, size: str = "1Gi") -> Obj:
    return claim(
        name, size, storageClassName=class_name, dataSource={"kind": "PersistentVolumeClaim", "name": of}
    )


async def test_expansion_is_continued_by_the_node_or_waits_until_the_disk_is_free() -> None:
    async with Cluster(nodes=1, storage=STORAGE) as c:
        await c.run_for("20s")
        for name in ("online", "offline"):
            c.apply(claim(name, "1Gi", storageClassName=name), pod(name, "node-0", name))
        await c.run_for("30s")
        assert phases(c, "pods") == {"offline": "Running", "online": "Running"}
        old = c.names.annotation_pre_resize_capacity
        failing = c.do.driver(name=ONLINE, how="failing", operation="node-expand", message="no room")
        for name in ("online", "offline"):
            grow(c, name, "3000M")
        await c.run_for("20s")
        # The disk has grown; the file system waits for the next regular sync of the pod.
        assert conditions(c, "online") == ["FileSystemResizePending"]
        assert status(c, "online")["capacity"] == {"storage": "1Gi"}
        online = volume_of(c, "online")
        assert online["spec"]["capacity"] == {"storage": "3G"}
        assert online["metadata"]["annotations"][old] == "1Gi"
        assert ("FileSystemResizeRequired", "Require file system resize of volume on node") in events(
            c, "online"
        )
        # A driver that expands only free disks refuses, and is not called while pods use them.
        assert conditions(c, "offline") == ["Resizing"]
        text = (
            f"Unable to expand default/offline because CSI driver {OFFLINE} only supports offline expansion"
            " and volume is currently in-use"
        )
        assert ("VolumeResizeFailed", text) in events(c, "offline")
        await c.run_for("90s")
        volume = online["metadata"]["name"]
        text = "Expander.NodeExpand failed to expand the volume : no room"
        text = f'NodeExpandVolume.NodeExpandVolume failed for volume "{volume}" : {text}'
        assert ("VolumeResizeFailed", text) in events(c, "online")
        c.do.heal(step=failing)
        c.request("delete", "pods", "default", "offline", body={"gracePeriodSeconds": 0})
        await c.run_for("150s")
        assert status(c, "online")["capacity"] == {"storage": "3G"} and conditions(c, "online") == []
        text = f'MountVolume.NodeExpandVolume succeeded for volume "{volume}" node-0'
        assert ("FileSystemResizeSuccessful", text) in events(c, "online")
        assert old not in volume_of(c, "online")["metadata"]["annotations"]
        # The free disk grew; its file system does so when it is mounted again.
        assert conditions(c, "offline") == ["FileSystemResizePending"]
        c.apply(pod("again", "node-0", "offline"))
        await c.run_for("60s")
        assert status(c, "offline")["capacity"] == {"storage": "3G"}
        assert "FileSystemResizeSuccessful" in {reason for reason, _ in events(c, "again")}


async def test_driver_refuses_what_it_cannot_do_and_publishes_what_it_has_left() -> None:
    async with Cluster(nodes=2, storage=STORAGE) as c:
        c.apply(*(claim(f"d{n}", "1Gi", storageClassName="online") for n in range(3)))
        c.apply(claim("uncopied", "2Gi", storageClassName="offline"))
        await c.run_for("30s")
        # The scheduler is passed by, so that the driver itself refuses the third disk of the node.
        c.apply(*(pod(f"d{n}", "node-0", f"d{n}") for n in range(3)))
        c.apply(copy("copied", "d0", "online"), copy("smaller", "d0", "online", "100Mi"))
        c.apply(copy("none", "uncopied", "offline", "2Gi"))
        await c.run_for("60s")
        assert sorted(phases(c, "pods").values()) == ["Pending", "Running", "Running"]
        (refused,) = [name for name, phase in phases(c, "pods").items() if phase == "Pending"]
        name = volume_of(c, refused)["metadata"]["name"]
        text = "rpc error: code = ResourceExhausted desc = no more volumes can be attached to the node"
        assert ("FailedAttachVolume", f'AttachVolume.Attach failed for volume "{name}" : {text}') in events(
            c, refused
        )
        claims = phases(c, "persistentvolumeclaims")
        assert (claims["copied"], claims["smaller"], claims["none"]) == ("Bound", "Pending", "Pending")
        assert "requested 104857600 but source is 1073741824" in _failure(c, "smaller")
        text = (
            "CSI driver does not support clone operations: controller CLONE_VOLUME capability is not reported"
        )
        assert _failure(c, "none").endswith(text)
        # One object for each node of a driver with local disks; a disk takes from it at once.
        assert _capacities(c) == {"node-0": "10Gi", "node-1": "10Gi"}
        c.apply(claim("local", "8Gi", storageClassName="local"), pod("local", ""))
        await c.run_for("30s")
        used = c.get("pods", "local")
        assert used is not None and used["status"]["phase"] == "Running"
        at = used["spec"]["nodeName"]
        assert _capacities(c)[at] == "2Gi"
        # The next pod goes where there is room, and one that needs more than any node has waits.
        c.apply(claim("other", "8Gi", storageClassName="local"), pod("other", ""))
        c.apply(claim("large", "11Gi", storageClassName="local"), pod("large", ""))
        await c.run_for("30s")
        other = c.get("pods", "other")
        assert other is not None and other["spec"]["nodeName"] != at and other["status"]["phase"] == "Running"
        text = "2 node(s) did not have enough free storage"
        assert any(text in message for _, message in events(c, "large"))
        assert c.refused == ()


async def test_node_has_the_rights_to_register_drivers_and_to_finish_expansions() -> None:
    flags = {"authorization-mode": "Node,RBAC", "enable-admission-plugins": "NodeRestriction"}
    plan = ClusterPlan(
        api_server=ComponentPlan(flags=flags),
        nodes=plain_nodes(1),
        storage=storage_of([{"driver": ONLINE, "class": "online"}], NAMES["orch"]),
    )
    async with Cluster(plan) as c:
        await c.run_for("20s")
        (registered,) = c.list("csinodes")
        assert [each["name"] for each in registered["spec"]["drivers"]] == [ONLINE]
        c.apply(claim("online", "1Gi", storageClassName="online"), pod("online", "", "online"))
        await c.run_for("30s")
        assert phases(c, "pods") == {"online": "Running"}
        grow(c, "online", "2Gi")
        await c.run_for("100s")
        assert status(c, "online")["capacity"] == {"storage": "2Gi"}


def _failure(c: Cluster, name: str) -> str:
    return next(text for reason, text in events(c, name) if reason == "ProvisioningFailed")


def _capacities(c: Cluster) -> dict[str, str]:
    key = c.names.label_hostname
    return {
        each["nodeTopology"]["matchLabels"][key]: each["capacity"] for each in c.list("csistoragecapacities")
    }


async def test_full_volume_ends_the_programs_that_write_to_it_until_it_is_expanded() -> None:
    async with Cluster(nodes=1, storage=STORAGE) as c:
        await c.run_for("20s")
        reader = pod("reader", "node-0", "online")
        reader["spec"]["containers"][0]["volumeMounts"][0]["readOnly"] = True
        c.apply(claim("online", "1Gi", storageClassName="online"), pod("writer", "node-0", "online"), reader)
        await c.run_for("40s")
        assert phases(c, "pods") == {"reader": "Running", "writer": "Running"}
        c.do.volume(claim="online", how="full", exit_code=74)
        await c.run_for("60s")
        assert _restarts(c, "reader") == 0 and _restarts(c, "writer") >= 2
        found = c.get("pods", "writer")
        assert found is not None
        assert found["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 74
        grow(c, "online", "2Gi")
        await c.run_for("5m")
        before = _restarts(c, "writer")
        await c.run_for("10m")
        assert _restarts(c, "writer") == before and status(c, "online")["capacity"] == {"storage": "2Gi"}
        ready = c.get("pods", "writer")
        assert ready is not None and ready["status"]["containerStatuses"][0]["ready"]


def _restarts(c: Cluster, name: str) -> int:
    found = c.get("pods", name)
    assert found is not None
    return int(found["status"]["containerStatuses"][0]["restartCount"])
