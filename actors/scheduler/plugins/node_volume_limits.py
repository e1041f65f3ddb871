"""Keeps pods off nodes to which no more volumes of their driver can be attached.

Mirrors  kubernetes v1.25 pkg/scheduler/framework/plugins/nodevolumelimits: csi.go, non_csi.go,
         utils.go; pkg/volume/util/attach_limit.go; csi-translation-lib plugins: names and handles.
Differs  the variable KUBE_MAX_PD_VOLS is not read.
"""

from __future__ import annotations

import re
from hashlib import sha1
from typing import ClassVar

from actors.scheduler.cluster import NodeInfo
from actors.scheduler.plugins.base import ClusterEvent, CycleError, Status, VolumePlugin
from actors.scheduler.pods import PodInfo
from actors.scheduler.volumes.pod_volumes import PodVolumes
from actors.scheduler.volumes.storage import Storage
from sim.api.kinds.common.volumes.binding import claim_name, class_of, foreign_claim_problem
from sim.api.objects import annotations_of
from sim.api.types import Obj
from sim.ident import Names

EXCEEDED = "node(s) exceed max volume count"
_LIMIT = "attachable-volumes-"
RESOURCE_NAME_MAX = 63
_UNBOUND = "unbound"  # before the key of a claim that has no volume yet


class InTree(VolumePlugin):
    """The limit of one in-tree driver, on nodes where no CSI driver has replaced it.

    source: the field of the driver's volumes
    handle: the field in it that names the disk
    plugin: the name of the provisioner, without the domain
    resource: of the node's allocatable amount, without the prefix
    default: the limit of a node that states none
    """

    events = ClusterEvent.NODE_ADD | ClusterEvent.POD_DELETE
    source: ClassVar[str]
    handle: ClassVar[str]
    plugin: ClassVar[str]
    resource: ClassVar[str]
    default: ClassVar[int] = 16

    def filter(self, pod: PodVolumes, node: NodeInfo) -> Status | None:
        """Refuse a node on which the pod's disks and the present ones are more than the limit."""
        storage = pod.storage
        new = self._disks(storage, pod.info)
        if not new or is_migrated(storage.csi_node(node.name), self.plugin, storage.names):
            return None
        present: dict[str, None] = {}
        for other in node.pods.values():
            if other.volumes:
                present.update(self._disks(storage, other, is_new=False))
        limit = node.allocatable.scalars.get(f"{_LIMIT}{self.resource}", self._limit(node, storage.names))
        count = len(present) + len([disk for disk in new if disk not in present])
        return self.refuse(EXCEEDED) if count > limit else None

    def _limit(self, node: NodeInfo, names: Names) -> int:
        return self.default

    def _disks(self, storage: Storage, pod: PodInfo, is_new: bool = True) -> dict[str, None]:
        found: dict[str, None] = {}
        for volume in pod.volumes:
            if volume.get(self.source) is not None:
                found[str(volume[self.source].get(self.handle))] = None
            elif claim := claim_of(self, storage, pod, volume, is_new):
                name = claim["spec"].get("volumeName")
                disk = storage.shown_volume(name) if name else None
                if disk is None:
                    class_name = claim["spec"].get("storageClassName") or ""
                    storage_class = storage.storage_class(class_name)
                    if storage_class and storage_class["provisioner"] == storage.names.in_tree(self.plugin):
                        found[f"{_UNBOUND}-{claim['metadata']['namespace']}/{claim['metadata']['name']}"] = (
                            None
                        )
                elif disk["spec"].get(self.source) is not None:
                    found[str(disk["spec"][self.source].get(self.handle))] = None
        return found


class EBSLimits(InTree):
    """The limit of Amazon's disks."""

    name = "EBSLimits"
    source, handle, plugin, resource = "awsElasticBlockStore", "volumeID", "aws-ebs", "aws-ebs"
    default = 39
    NITRO_MAX = 25
    _NITRO = re.compile(r"^[cmr]5.*|t3|z1d")

    def _limit(self, node: NodeInfo, names: Names) -> int:
        labels = node.labels
        kind = labels.get(names.label_beta_instance_type) or labels.get(names.label_instance_type) or ""
        return self.NITRO_MAX if self._NITRO.search(kind) else self.default


class GCEPDLimits(InTree):
    """The limit of Google's disks."""

    name = "GCEPDLimits"
    source, handle, plugin, resource = "gcePersistentDisk", "pdName", "gce-pd", "gce-pd"


class AzureDiskLimits(InTree):
    """The limit of Azure's disks."""

    name = "AzureDiskLimits"
    source, handle, plugin, resource = "azureDisk", "diskName", "azure-disk", "azure-disk"


class NodeVolumeLimits(VolumePlugin):
    """The limits of CSI drivers, which are in the CSINode of a node."""

    name = "NodeVolumeLimits"
    events = ClusterEvent.CSI_NODE_ADD | ClusterEvent.POD_DELETE

    def filter(self, pod: PodVolumes, node: NodeInfo) -> Status | None:
        """Refuse a node on which a driver has too few attachments left for the pod's volumes."""
        storage = pod.storage
        csi_node = storage.csi_node(node.name)
        limits = _limits(node, csi_node)
        new = self._attachments(storage, pod.info, csi_node)
        if not new or not limits:
            return None
        present: dict[str, str] = {}
        for other in node.pods.values():
            if other.volumes:
                present.update(self._attachments(storage, other, csi_node, is_new=False))
        counts: dict[str, int] = {}
        added = {driver: None for handle, driver in new.items() if handle not in present}
        for driver in {**present, **new}.values():
            counts[driver] = counts.get(driver, 0) + 1
        if any(counts[driver] > limits[driver] for driver in added if driver in limits):
            return self.refuse(EXCEEDED)
        return None

    def _attachments(
        self, storage: Storage, pod: PodInfo, csi_node: Obj | None, is_new: bool = True
    ) -> dict[str, str]:
        """Return the limit that each volume of the pod counts for, by driver and handle."""
        found: dict[str, str] = {}
        for volume in pod.volumes:
            claim = claim_of(self, storage, pod, volume, is_new)
            if claim is None:
                driver, handle = _of_source(volume, csi_node, storage.names)
            else:
                driver, handle = _of_claim(storage, claim, csi_node)
            if driver and handle:
                found[f"{driver}/{handle}"] = _limit_key(driver)
        return found


DRIVERS = {
    "awsElasticBlockStore": ("aws-ebs", "ebs.csi.aws.com", "volumeID"),
    "gcePersistentDisk": ("gce-pd", "pd.csi.storage.gke.io", "pdName"),
    "azureDisk": ("azure-disk", "disk.csi.azure.com", "diskURI"),
    "cinder": ("cinder", "cinder.csi.openstack.org", "volumeID"),
}


def claim_of(plugin: VolumePlugin, storage: Storage, pod: PodInfo, volume: Obj, is_new: bool) -> Obj | None:
    """Return the claim of a pod's volume; None if it has none, or one of a present pod is missing."""
    name = claim_name(pod.obj, volume)
    if not name:
        return None
    namespace = pod.template.namespace
    claim = storage.shown_claim(f"{namespace}/{name}")
    problem = ""
    if claim is None:
        if is_new:
            problem = f'looking up PVC {namespace}/{name}: persistentvolumeclaim "{name}" not found'
    elif volume.get("ephemeral") is not None:
        problem = foreign_claim_problem(pod.obj, claim)
    if problem:
        raise CycleError(f'running "{plugin.name}" filter plugin: {problem}')
    return claim


def _of_claim(storage: Storage, claim: Obj, csi_node: Obj | None) -> tuple[str, str]:
    name = claim["spec"].get("volumeName")
    volume = storage.shown_volume(name) if name else None
    if volume is not None:
        source = volume["spec"].get("csi")
        if source is not None:
            return str(source.get("driver")), str(source.get("volumeHandle"))
        return _of_source(volume["spec"], csi_node, storage.names)
    storage_class = storage.storage_class(class_of(claim, storage.names))
    if storage_class is None:
        return "", ""
    meta, provisioner = claim["metadata"], str(storage_class["provisioner"])
    for plugin, driver, _ in DRIVERS.values():
        if provisioner == storage.names.in_tree(plugin) and is_migrated(csi_node, plugin, storage.names):
            provisioner = driver
    return provisioner, f"{_UNBOUND}-{meta['namespace']}/{meta['name']}"


def _of_source(source: Obj, csi_node: Obj | None, names: Names) -> tuple[str, str]:
    """Return the driver and handle of an in-tree volume that a CSI driver serves on the node."""
    for field, (plugin, driver, handle) in DRIVERS.items():
        if source.get(field) is not None and is_migrated(csi_node, plugin, names):
            return driver, str(source[field].get(handle))
    return "", ""


def is_migrated(csi_node: Obj | None, plugin: str, names: Names) -> bool:
    """Return True if a CSI driver serves the volumes of the in-tree driver on the node."""
    listed = annotations_of(csi_node or {}).get(names.annotation_migrated_plugins) or ""
    return names.in_tree(plugin) in listed.split(",")


def _limits(node: NodeInfo, csi_node: Obj | None) -> dict[str, int]:
    limits = {name: n for name, n in node.allocatable.scalars.items() if name.startswith(_LIMIT)}
    for driver in ((csi_node or {}).get("spec") or {}).get("drivers") or ():
        count = (driver.get("allocatable") or {}).get("count")
        if count is not None:
            limits[_limit_key(driver["name"])] = count
    return limits


def _limit_key(driver: str) -> str:
    """Return the name of the resource that limits a CSI driver; a long name ends in a hash."""
    if len(f"{_LIMIT}csi-{driver}") < RESOURCE_NAME_MAX:
        return f"{_LIMIT}csi-{driver}"
    return f"{_LIMIT}csi-{driver[:23]}{sha1(driver.encode(), usedforsecurity=False).hexdigest()[:16]}"
