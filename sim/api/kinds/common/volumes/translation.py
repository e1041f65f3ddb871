"""Disks that pods name themselves, of plugins that have migrated to drivers.  Pure.

Turns a volume of a pod into the persistent volume that stands for it, which is stored nowhere.

Mirrors  kubernetes v1.25 csi-translation-lib/plugins/{aws_ebs,azure_disk,gce_pd,openstack_cinder,
         vsphere_volume}.go (TranslateInTreeInlineVolumeToCSI), pkg/volume/util/
         operationexecutor and attachdetach/util/util.go (CreateVolumeSpec).
Differs  shares of azureFile are not attached, and are not translated. The handle is the field that
         names the disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from sim.api.kinds.common.volumes.binding import MIGRATED
from sim.api.types import Obj
from sim.patterns import pattern

_DISKS = frozenset(field for field, moved in MIGRATED.items() if moved.handle)
_UNSPECIFIED = "UNSPECIFIED"
_AWS_ID = pattern(r"vol-[^/]*")


def uses_disks(pod: Obj) -> bool:
    """True if a pod names a disk of a plugin that has migrated."""
    return any(not _DISKS.isdisjoint(volume) for volume in pod["spec"].get("volumes") or ())


def translated(volume: Mapping[str, Any]) -> Obj | None:
    """The persistent volume for a disk that a pod names; None for other volumes, and for a disk
    that cannot be translated.
    """
    for field, moved in MIGRATED.items():
        source = volume.get(field)
        if source is None or not moved.handle:
            continue
        given = str(source.get(moved.handle) or "")
        handle = _handle(field, given)
        if handle is None or (source.get("kind") or "Managed").lower() != "managed":
            return None
        csi: dict[str, Any] = {"driver": moved.driver, "volumeHandle": handle}
        if source.get("readOnly"):
            csi["readOnly"] = True
        if source.get("fsType"):
            csi["fsType"] = source["fsType"]
        csi["volumeAttributes"] = _attributes(field, source)
        shown = given if field == "gcePersistentDisk" else handle
        name = handle if field == "azureDisk" else f"{moved.driver}-{shown}"
        shared = field == "gcePersistentDisk" and source.get("readOnly")
        spec: dict[str, Any] = {"accessModes": ["ReadOnlyMany" if shared else "ReadWriteOnce"]}
        if field == "gcePersistentDisk":
            spec["volumeMode"] = "Filesystem"
        return {"metadata": {"name": name}, "spec": {**spec, "csi": {k: v for k, v in csi.items() if v}}}
    return None


def is_inline(volume: Obj) -> bool:
    """True for the volume of a disk that a pod names, which is not stored."""
    return "uid" not in volume["metadata"]


def _handle(field: str, given: str) -> str | None:
    if field == "gcePersistentDisk":
        return f"projects/{_UNSPECIFIED}/zones/{_UNSPECIFIED}/disks/{given}"
    if field == "awsElasticBlockStore" and given.startswith("aws://"):
        disk = urlsplit(given).path.strip("/")
        return disk if _AWS_ID.fullmatch(disk) else None
    return given


def _attributes(field: str, source: Mapping[str, Any]) -> dict[str, str]:
    partition = source.get("partition") or 0
    if field == "awsElasticBlockStore":
        return {"partition": str(partition)}
    if field == "gcePersistentDisk":
        return {"partition": str(partition) if partition else ""}
    if field == "azureDisk":
        kept = ("cachingMode", "fsType")
        return {"kind": "Managed"} | {key.lower(): source[key] for key in kept if source.get(key)}
    return {}
