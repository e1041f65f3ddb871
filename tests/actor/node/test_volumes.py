"""Pods wait for their volumes, which are attached by a controller and mounted by a driver."""

from typing import Any

import pytest

from actors.node.volumes.registration import csi_node, node_patch, reconciled
from sim.api.types import Obj
from sim.kernel.kernel import Kernel
from sim.options.node.agent import parse_node_agent
from sim.options.storage_drivers import DriverFault, StorageDriver, StorageDrivers
from sim.units import MS, SECOND
from tests.actor.node.fake import NAMES_USED, FakeApi, one_node

DISK = "disk.example"
UNIQUE = f"kubernetes.io/csi/{DISK}^h1"


def drivers(**more: Any) -> StorageDrivers:
    return StorageDrivers([StorageDriver(DISK, **more)])


def pod_spec(*volumes: Obj, device: bool = False, **spec: Any) -> Obj:
    volumes = volumes or ({"name": "data", "persistentVolumeClaim": {"claimName": "c"}},)
    uses = "volumeDevices" if device else "volumeMounts"
    container = {"name": "c", "image": "img:1", uses: [{"name": volume["name"]} for volume in volumes]}
    return {"containers": [container], "volumes": list(volumes), "terminationGracePeriodSeconds": 0, **spec}


def claim(api: FakeApi, driver: str = DISK, phase: str = "Bound", **spec: Any) -> None:
    """A claim `c` and its volume `pv`."""
    meta = {"name": "c", "namespace": "default", "uid": "uid-c"}
    api.put(
        "persistentvolumeclaims", {"metadata": meta, "spec": {"volumeName": "pv"}, "status": {"phase": phase}}
    )
    source = {
        "csi": {"driver": driver, "volumeHandle": "h1", "fsType": "ext4"},
        "accessModes": ["ReadWriteOnce"],
    }
    disk = {"claimRef": {"uid": "uid-c", "namespace": "default", "name": "c"}, **source, **spec}
    api.put("persistentvolumes", {"metadata": {"name": "pv"}, "spec": disk})


def attach(api: FakeApi) -> None:
    """The controller attaches the volume."""
    node = api.objects["nodes", "", "n1"]
    rows = [{"name": UNIQUE, "devicePath": ""}]
    api.put("nodes", {**node, "status": {**node["status"], "volumesAttached": rows}})


def in_use(api: FakeApi) -> list[str]:
    found: list[str] = api.objects["nodes", "", "n1"]["status"].get("volumesInUse", [])
    return found


async def until(kernel: Kernel, seconds: int) -> None:
    """Run until a time; the node is registered at 5 s."""
    await kernel.run_until((15 + seconds) * SECOND)


def runs(api: FakeApi) -> bool:
    return "running" in api.pod("web")["status"]["containerStatuses"][0]["state"]


async def test_pod_starts_after_its_claim_was_bound_attached_and_mounted() -> None:
    async with one_node(drivers=drivers()) as (kernel, api, node):
        await until(kernel, 5)
        claim(api, phase="Pending")
        api.bind("web", pod_spec())
        await until(kernel, 7)
        (text,) = [text for _, text in api.events("FailedMount")]
        assert text == (
            "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[data]: "
            "error processing PVC default/c: PVC is not bound"
        )
        assert in_use(api) == []
        claim(api)
        await until(kernel, 40)
        assert in_use(api) == [UNIQUE] and not runs(api)
        attach(api)
        # The check of the attachment is repeated after 0.5, 1, 2, 4, 8, 16, 32 ... seconds.
        await until(kernel, 85)
        assert runs(api) and len(api.events("FailedMount")) == 1
        # A restarted agent finds the mount: nothing is attached or mounted again.
        node.crash_agent()
        node.start_agent()
        await until(kernel, 110)
        assert runs(api) and list(node.machine.mounts) == [UNIQUE] == in_use(api)
        api.delete("web", 0)
        await until(kernel, 125)
        assert not api.has("web") and node.machine.mounts == {} and in_use(api) == []


async def test_pod_that_left_while_the_agent_was_dead_loses_its_mounts() -> None:
    async with one_node(drivers=drivers(attach_required=False)) as (kernel, api, node):
        await until(kernel, 5)
        claim(api)
        api.bind("web", pod_spec())
        await until(kernel, 9)
        assert runs(api) and list(node.machine.mounts) == [UNIQUE] and in_use(api) == []
        node.crash_agent()
        api.remove("pods", "default", "web")
        node.start_agent()
        await until(kernel, 15)
        assert node.machine.mounts == {}


UNKNOWN = f"driver name {DISK} not found in the list of registered CSI drivers"
CSI = "kubernetes.io/csi"


@pytest.mark.parametrize(
    ("known", "fault", "reason", "text"),
    [
        (False, None, "FailedMount",
         f"MountVolume.MountDevice failed for volume \"pv\" : {CSI}: attacher.MountDevice failed to create "
         f"newCsiDriverClient: {UNKNOWN}"),
        (True, DriverFault("failing", ("mount",), text="rpc error: code = Internal desc = full"), "FailedMount",
         'MountVolume.MountDevice failed for volume "pv" : rpc error: code = Internal desc = full'),
        (True, DriverFault("hanging", ("mount",)), "FailedMount",
         'MountVolume.MountDevice failed for volume "pv" : rpc error: code = DeadlineExceeded desc = context '
         "deadline exceeded"),
    ],
)  # fmt: skip
async def test_failed_mount_is_reported_and_tried_again(
    known: bool, fault: DriverFault | None, reason: str, text: str
) -> None:
    found = drivers(attach_required=False) if known else StorageDrivers()
    if fault is not None:
        found.set_faults(DISK, [fault])
    async with one_node(drivers=found) as (kernel, api, _):
        await until(kernel, 5)
        claim(api)
        api.bind("web", pod_spec())
        await until(kernel, 20)
        if not known:
            attach(api)  # the test is the controller
        await until(kernel, 140)
        texts = [text for _, text in api.events(reason)]
        assert text in texts
        error = "unmounted volumes=[data], unattached volumes=[data]: timed out waiting for the condition"
        assert f"Unable to attach or mount volumes: {error}" in texts
        if known:
            found.set_faults(DISK, [])
            await until(kernel, 400)
            assert runs(api)


async def test_group_change_of_files_delays_the_first_mount_only_if_the_root_has_it() -> None:
    async with one_node(drivers=drivers(attach_required=False, fs_group_us=30 * SECOND)) as (kernel, api, _):
        await until(kernel, 5)
        claim(api)
        context = {"fsGroup": 5, "fsGroupChangePolicy": "OnRootMismatch"}
        api.bind("web", pod_spec(securityContext=context))
        await until(kernel, 30)
        assert not runs(api)
        await until(kernel, 40)
        assert runs(api)
        api.delete("web", 0)
        await until(kernel, 50)
        api.bind("web", pod_spec(securityContext=context))
        await until(kernel, 55)
        assert runs(api)


async def test_volumes_of_a_node_are_checked_by_their_kind() -> None:
    async with one_node(drivers=drivers(attach_required=False)) as (kernel, api, node):
        await until(kernel, 5)
        inline = {"name": "i", "csi": {"driver": "gone.example"}}
        api.bind("inline", pod_spec(inline))
        path = {"name": "h", "hostPath": {"path": "/data", "type": "Directory"}}
        api.bind("path", pod_spec(path))
        made = {"name": "h", "hostPath": {"path": "/data/x", "type": "DirectoryOrCreate"}}
        claim(api, volumeMode="Block")
        await until(kernel, 7)
        api.bind("web", pod_spec(made))
        api.bind("mixed", pod_spec())
        api.bind("block", pod_spec(device=True))
        await until(kernel, 20)
        texts = [text for _, text in api.events("FailedMount")]
        assert (
            f'MountVolume.SetUp failed for volume "i" : {CSI}: mounter.SetUpAt failed to get CSI client: '
            "driver name gone.example not found in the list of registered CSI drivers"
        ) in texts
        assert (
            'MountVolume.SetUp failed for volume "h" : hostPath type check failed: /data is not a directory'
            in texts
        )
        assert (
            "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[data]: "
            "volume data has volumeMode Block, but is specified in volumeMounts"
        ) in texts
        assert [text for _, text in api.events("SuccessfulMountVolume")]
        assert runs(api) and node.machine.host_files.paths == {"/data/x": "Directory"}
        # The other volume has made the directory.
        assert "running" in api.pod("path")["status"]["containerStatuses"][0]["state"]


def test_csi_node_lists_drivers_with_limits_and_topology() -> None:
    node = {"metadata": {"name": "n1", "uid": "u", "labels": {}}}
    disk = StorageDriver(DISK, limit_per_node=3, topology_key="zone.example", mount_us=MS)
    made = csi_node(node, [disk], NAMES_USED)
    row = {"name": DISK, "nodeID": "n1", "topologyKeys": ["zone.example"], "allocatable": {"count": 3}}
    assert made["spec"] == {"drivers": [row]} and made["metadata"]["ownerReferences"][0]["uid"] == "u"
    assert "kubernetes.io/gce-pd" in made["metadata"]["annotations"][NAMES_USED.annotation_migrated_plugins]
    marks = {NAMES_USED.annotation_csi_node_id: f'{{"{DISK}":"n1"}}'}
    assert node_patch(node, [disk], "a", NAMES_USED) == {
        "labels": {"zone.example": "a"},
        "annotations": marks,
    }
    assert node_patch(node, [], "a", NAMES_USED) == {}
    assert reconciled(made, made) is None
    other = csi_node(node, [], NAMES_USED)
    new = reconciled(other, made)
    assert new is not None and new["spec"] == made["spec"]


async def test_agent_refuses_volumes_that_are_elsewhere_or_in_use_by_another_pod() -> None:
    options = parse_node_agent({"feature-gates": {"ReadWriteOncePod": "true"}})
    async with one_node(options=options, drivers=drivers(attach_required=False)) as (kernel, api, _):
        await until(kernel, 5)
        claim(api, accessModes=["ReadWriteOncePod"])
        api.bind("web", pod_spec())
        await until(kernel, 9)
        assert runs(api)
        api.bind("second", pod_spec())
        await until(kernel, 15)
        in_use = "volume uses the ReadWriteOncePod access mode and is already in use by another pod"
        assert f'MountVolume.SetUp failed for volume "pv" : {in_use}' in [
            text for _, text in api.events("FailedMount")
        ]
        term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["far"]}]}
        claim(api, nodeAffinity={"required": {"nodeSelectorTerms": [term]}})
        api.bind("third", pod_spec())
        await until(kernel, 20)
        text = 'MountVolume.NodeAffinity check failed for volume "pv" : no matching NodeSelectorTerms'
        assert text in [text for _, text in api.events("FailedMount")]


async def test_agent_without_controller_attach_never_attaches_csi_volumes() -> None:
    options = parse_node_agent({"enable-controller-attach-detach": False})
    async with one_node(options=options, drivers=drivers()) as (kernel, api, _):
        await until(kernel, 5)
        claim(api)
        api.bind("web", pod_spec())
        await until(kernel, 140)
        text = "unmounted volumes=[data], unattached volumes=[data]: timed out waiting for the condition"
        assert [found for _, found in api.events("FailedMount")] == [
            f"Unable to attach or mount volumes: {text}"
        ]
        assert api.events("FailedAttachVolume") == [] and in_use(api) == [UNIQUE]
        node = api.objects["nodes", "", "n1"]
        assert NAMES_USED.annotation_attach_detach not in node["metadata"].get("annotations", {})
