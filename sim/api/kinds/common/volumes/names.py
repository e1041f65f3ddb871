"""The names by which processes mean the same volume or attachment.  Pure.

Mirrors  kubernetes v1.25 pkg/volume/util/util.go (GetUniqueVolumeName,
         GetUniqueVolumeNameFromSpecWithPod), pkg/volume/csi/csi_attacher.go (getAttachmentName),
         pkg/volume/csi/csi_plugin.go (GetVolumeName).
"""

from __future__ import annotations

from hashlib import sha256

from sim.ident import Names

_SEPARATOR = "^"  # between driver and handle


def csi_volume_name(names: Names, driver: str, handle: str) -> str:
    """The unique name of a CSI volume, as in `volumesAttached` and `volumesInUse` of a node."""
    return f"{names.volume_plugin_prefix}csi/{driver}{_SEPARATOR}{handle}"


def csi_volume_of(names: Names, unique_name: str) -> tuple[str, str] | None:
    """Driver and handle of a unique name; None if it is not that of a CSI volume."""
    prefix = f"{names.volume_plugin_prefix}csi/"
    if not unique_name.startswith(prefix):
        return None
    driver, separator, handle = unique_name.removeprefix(prefix).partition(_SEPARATOR)
    return (driver, handle) if separator else None


def attachment_name(driver: str, handle: str, node: str) -> str:
    """The name of the VolumeAttachment of a volume at a node."""
    return f"csi-{sha256(f'{handle}{driver}{node}'.encode()).hexdigest()}"
