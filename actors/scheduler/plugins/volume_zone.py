"""Keeps pods off nodes in other zones or regions than those in the labels of their volumes.

Mirrors  kubernetes v1.25 pkg/scheduler/framework/plugins/volumezone; k8s.io/cloud-provider
         volume/helpers/zones.go: LabelZonesToSet.
"""

from __future__ import annotations

from actors.scheduler.cluster import NodeInfo
from actors.scheduler.plugins.base import ClusterEvent, Status, VolumePlugin
from actors.scheduler.volumes.pod_volumes import PodVolumes
from sim.api.kinds.common.volumes.binding import class_of, delays_binding
from sim.api.objects import labels_of
from sim.api.types import Obj

CONFLICT = Status("VolumeZone", ("node(s) had no available volume zone",), True)
_SEPARATOR = "__"  # between the zones of a volume that is in several


class VolumeZone(VolumePlugin):
    """Compares the zone and region labels of bound volumes with those of the node."""

    name = "VolumeZone"
    events = (
        ClusterEvent.STORAGE_CLASS_ADD
        | ClusterEvent.NODE_ADD
        | ClusterEvent.NODE_LABEL
        | ClusterEvent.CLAIM_ADD
        | ClusterEvent.VOLUME
    )

    def filter(self, pod: PodVolumes, node: NodeInfo) -> Status | None:
        """Refuse a node in another zone or region than a volume; a node without both may be
        anywhere.
        """
        names = pod.storage.names
        keys = (names.label_beta_zone, names.label_beta_region, names.label_zone, names.label_region)
        if not any(key in node.labels for key in keys):
            return None
        for volume in pod.volumes:
            if volume.get("persistentVolumeClaim") is None:
                continue
            found = self._volume_of(pod, volume)
            if isinstance(found, Status):
                return found
            if found is None:
                continue
            labels = labels_of(found)
            for key in keys:
                zones = [zone.strip() for zone in labels.get(key, "").split(_SEPARATOR)]
                if key in labels and all(zones) and node.labels.get(key, "") not in zones:
                    return CONFLICT
        return None

    def _volume_of(self, pod: PodVolumes, volume: Obj) -> Obj | Status | None:
        """Return the volume of a claim, or the refusal; None if a driver makes it after the choice."""
        storage, key = pod.storage, pod.claim_key(volume)
        claim = storage.shown_claim(key)
        if claim is None:
            name = key.partition("/")[2]
            return self.refuse(f'persistentvolumeclaim "{name}" not found', unresolvable=True)
        name = claim["spec"].get("volumeName") or ""
        if name:
            found = storage.shown_volume(name)
            return found or self.refuse(f'persistentvolume "{name}" not found', unresolvable=True)
        class_name = class_of(claim, storage.names)
        if not class_name:
            reason = "PersistentVolumeClaim had no pv name and storageClass name"
            return self.refuse(reason, unresolvable=True)
        storage_class = storage.storage_class(class_name)
        if storage_class is None:
            group = storage.names.group("storage")
            reason = f'storageclass.{group} "{class_name}" not found'
            return self.refuse(reason, unresolvable=True)
        if delays_binding(storage_class):
            return None
        return self.refuse("PersistentVolume had no name", unresolvable=True)
