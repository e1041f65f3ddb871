"""Keeps pods off nodes on which another pod uses the same disk, and claims of one pod for one pod.

Mirrors  kubernetes v1.25 pkg/scheduler/framework/plugins/volumerestrictions.
"""

from __future__ import annotations

from actors.scheduler.cluster import NodeInfo
from actors.scheduler.plugins.base import ClusterEvent, Status, VolumePlugin
from actors.scheduler.volumes.pod_volumes import PodVolumes
from sim.api.types import Obj
from sim.options.features.gates import READ_WRITE_ONCE_POD

DISK_CONFLICT = Status("VolumeRestrictions", ("node(s) had no available disk",))
IN_USE = Status(
    "VolumeRestrictions",
    ("node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode",),
    True,
)
# The sources that one node may mount once, and what names the disk in each.
_DISKS = {
    "gcePersistentDisk": ("pdName",),
    "awsElasticBlockStore": ("volumeID",),
    "iscsi": ("iqn",),
    "rbd": ("pool", "image"),
}


class VolumeRestrictions(VolumePlugin):
    """Refuses nodes with a conflicting disk, and every node for a claim that another pod has alone."""

    name = "VolumeRestrictions"
    events = ClusterEvent.POD_DELETE | ClusterEvent.NODE_ADD | ClusterEvent.CLAIM

    def pre_filter(self, pod: PodVolumes) -> Status | None:
        """Refuse a pod with a ReadWriteOncePod claim that is in use."""
        if READ_WRITE_ONCE_POD not in self.gates:
            return None
        for volume in pod.volumes:
            if volume.get("persistentVolumeClaim") is None:
                continue
            key = pod.claim_key(volume)
            claim = pod.storage.shown_claim(key)
            if claim is None:
                name = key.partition("/")[2]
                return self.refuse(f'persistentvolumeclaim "{name}" not found', unresolvable=True)
            modes = claim["spec"].get("accessModes") or ()
            if "ReadWriteOncePod" in modes and pod.is_used(key):
                return IN_USE
        return None

    def filter(self, pod: PodVolumes, node: NodeInfo) -> Status | None:
        """Refuse a node on which a pod uses one of the disks in a way that excludes this one."""
        for volume in pod.volumes:
            for source in _DISKS:
                if volume.get(source) is not None and any(
                    _conflicts(source, volume[source], other.get(source))
                    for present in node.pods.values()
                    for other in present.volumes
                ):
                    return DISK_CONFLICT
        return None


def _conflicts(source: str, disk: Obj, other: Obj | None) -> bool:
    if other is None or any(disk.get(key) != other.get(key) for key in _DISKS[source]):
        return False
    if source == "awsElasticBlockStore":
        return True
    if source == "rbd" and not any(m in (other.get("monitors") or ()) for m in disk.get("monitors") or ()):
        return False
    return not (disk.get("readOnly") and other.get("readOnly"))
