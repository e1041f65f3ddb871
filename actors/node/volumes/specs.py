"""What a volume of a pod is on the node: the disk behind its claim and its mount.  Pure.

Turns a pod, one of its volumes, the claim and the persistent volume into a `Target`, or the reason
why there is none yet.

Mirrors  pkg/kubelet/volumemanager/populator/desired_state_of_world_populator.go: createVolumeSpec,
         getPVCExtractPV, getPVSpec; pkg/volume/util/util.go: GetPodVolumeNames;
         pkg/volume/csi/csi_mounter.go: supportsFSGroup; pkg/volume/util/operationexecutor/
         operation_generator.go: checkNodeAffinity, the checks of ReadWriteOncePod (v1.25).
Differs  volumes of drivers that are neither CSI nor moved to CSI (NFS, iSCSI and so on) mount in no
         time and never fail.
"""

from __future__ import annotations

from collections.abc import Mapping

from sim.api.kinds.common.volumes.binding import foreign_claim_problem, reaches, volume_mode
from sim.api.kinds.common.volumes.names import csi_volume_name
from sim.api.kinds.common.volumes.translation import translated
from sim.api.objects import is_deleting, phase_of
from sim.api.types import Obj, Reply
from sim.dataclass import dataclass
from sim.ident import Names

# In-tree disks are mounted by the CSI drivers that have replaced their own: driver, handle's field.
MIGRATED = {
    "awsElasticBlockStore": ("ebs.csi.aws.com", "volumeID"),
    "gcePersistentDisk": ("pd.csi.storage.gke.io", "pdName"),
    "azureDisk": ("disk.csi.azure.com", "diskURI"),
    "cinder": ("cinder.csi.openstack.org", "volumeID"),
    "vsphereVolume": ("csi.vsphere.vmware.com", "volumePath"),
}
IN_USE = "volume uses the ReadWriteOncePod access mode and is already in use by another pod"
_SOURCES = frozenset(("persistentVolumeClaim", "ephemeral", "csi", *MIGRATED))


@dataclass(frozen=True, slots=True)
class Target:
    """What is mounted for a volume of a pod.

    title: the name in events: of the persistent volume, or of the volume in the pod
    unique: its name among all volumes of the node
    driver: of a CSI volume, otherwise ""
    is_inline: True for a CSI volume of the pod itself, which is not attached
    is_block: True if containers get the device
    fs_group: True if the first mount changes the group of the files, if the driver leaves that to
        the agent
    host_path: path and type of a hostPath volume
    disk: the persistent volume; None for a volume without a claim
    read_only: True if the pod uses the claim to read only
    """

    title: str
    unique: str
    driver: str = ""
    is_inline: bool = False
    is_block: bool = False
    fs_group: bool = False
    host_path: tuple[str, str] | None = None
    disk: Obj | None = None
    read_only: bool = False


def used_volumes(spec: Obj) -> tuple[dict[str, None], dict[str, None]]:
    """The names of the volumes that containers mount, and of those that they use as devices."""
    containers = [
        *(spec.get("initContainers") or ()),
        *spec["containers"],
        *(spec.get("ephemeralContainers") or ()),
    ]
    mounts = {mount["name"]: None for c in containers for mount in c.get("volumeMounts") or ()}
    devices = {device["name"]: None for c in containers for device in c.get("volumeDevices") or ()}
    return mounts, devices


def managed_volumes(spec: Obj) -> list[Obj]:
    """The volumes that are more than a directory, as far as containers use them."""
    found = [
        volume
        for volume in spec.get("volumes") or ()
        if _SOURCES & volume.keys() or (volume.get("hostPath") or {}).get("type")
    ]
    if not found:
        return found
    mounts, devices = used_volumes(spec)
    return [volume for volume in found if volume["name"] in mounts or volume["name"] in devices]


def claim_problem(pod: Obj, volume: Obj, name: str, reply: Reply) -> str:
    """Why the claim of a volume cannot be used; "" if it can."""
    prefix = f"error processing PVC {pod['metadata']['namespace']}/{name}"
    if not reply.ok:
        return f"{prefix}: failed to fetch PVC from API server: {reply.message}"
    claim = reply.obj
    if is_deleting(claim):
        return f"{prefix}: PVC is being deleted"
    if phase_of(claim) != "Bound":
        return f"{prefix}: PVC is not bound"
    if not claim["spec"].get("volumeName"):
        return f"{prefix}: PVC has empty pvc.Spec.VolumeName"
    return foreign_claim_problem(pod, claim) if volume.get("ephemeral") is not None else ""


def disk_problem(pod: Obj, volume: Obj, claim: Obj, reply: Reply) -> str:
    """Why the persistent volume of a claim cannot be used; "" if it can."""
    meta, name = claim["metadata"], claim["spec"]["volumeName"]
    prefix = f"error processing PVC {meta['namespace']}/{meta['name']}"
    if not reply.ok:
        return f"{prefix}: failed to fetch PV {name} from API server: {reply.message}"
    reference = reply.obj["spec"].get("claimRef")
    if reference is None:
        text = "but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim"
        return f"{prefix}: found PV object {name} {text}"
    if reference.get("uid") != meta["uid"]:
        return (
            f"{prefix}: found PV object {name} but its pv.Spec.ClaimRef.UID {reference.get('uid') or ''} "
            f"does not point to claim.UID {meta['uid']}"
        )
    mounts, devices = used_volumes(pod["spec"])
    mode, own = volume_mode(reply.obj), volume["name"]
    if own in mounts and mode != "Filesystem":
        return f"volume {own} has volumeMode {mode}, but is specified in volumeMounts"
    if own in devices and mode != "Block":
        return f"volume {own} has volumeMode {mode}, but is specified in volumeDevices"
    return ""


def target_of(pod: Obj, volume: Obj, disk: Obj | None, names: Names) -> Target:
    """What is mounted for a volume.  disk: the persistent volume of its claim, None without one."""
    moved = translated(volume) if disk is None else None
    source = moved["spec"] if moved is not None else volume if disk is None else disk["spec"]
    read_only = bool((volume.get("persistentVolumeClaim") or {}).get("readOnly"))
    title = volume["name"] if disk is None else disk["metadata"]["name"]
    local = f"{pod['metadata']['uid']}/{volume['name']}"
    is_block = disk is not None and volume_mode(disk) == "Block"
    has_group = ((pod["spec"].get("securityContext") or {}).get("fsGroup")) is not None
    if (csi := source.get("csi")) is not None:
        driver, handle = str(csi["driver"]), str(csi.get("volumeHandle") or "")
        if moved is not None:
            unique = csi_volume_name(names, driver, handle)
            return Target(
                moved["metadata"]["name"], unique, driver, fs_group=has_group and bool(csi.get("fsType"))
            )
        unique = local if disk is None else csi_volume_name(names, driver, handle)
        writers = source.get("accessModes") or ()
        usual = "ReadWriteOnce" in writers and bool(csi.get("fsType"))
        return Target(
            title, unique, driver, disk is None, is_block, has_group and usual, disk=disk, read_only=read_only
        )
    for field, (driver, key) in MIGRATED.items():
        if source.get(field) is not None:
            handle = str(source[field].get(key) or "")
            unique = csi_volume_name(names, driver, handle)
            return Target(title, unique, driver, False, is_block, has_group, disk=disk, read_only=read_only)
    path = source.get("hostPath")
    found = None if path is None else (str(path.get("path")), str(path.get("type") or ""))
    return Target(title, local, is_block=is_block, host_path=found, disk=disk)


def use_problem(target: Target, labels: Mapping[str, str], others: bool, alone: bool) -> tuple[str, str]:
    """The step that refuses to mount a volume here, and why; "" and "" if none does.

    labels: of the node
    others: True if another pod of the node has the volume mounted
    alone: True if the access mode ReadWriteOncePod is enforced
    """
    disk, kind = target.disk, "MapVolume" if target.is_block else "MountVolume"
    if disk is None:
        return "", ""
    if not reaches(disk, labels):
        return f"{kind}.NodeAffinity check failed", "no matching NodeSelectorTerms"
    if alone and others and disk["spec"].get("accessModes") == ["ReadWriteOncePod"]:
        step = f"{kind}.SetUpDevice" if target.is_block else f"{kind}.SetUp"
        return f"{step} failed", IN_USE
    return "", ""
