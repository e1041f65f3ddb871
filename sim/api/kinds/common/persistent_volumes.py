"""The spec of a persistent volume, alone or inline in a VolumeAttachment.

Mirrors  kubernetes v1.25 pkg/apis/core/validation/validation.go: ValidatePersistentVolumeSpec,
         validateVolumeNodeAffinity; pkg/apis/core/v1/{defaults,zz_generated.defaults}.go.
Quirk    field paths of some sources are spelled differently from the JSON; a flexVolume beside
         another source is no error.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from functools import partial
from typing import Any

from sim.api.go.printing import GoValue
from sim.api.kinds.common.claims import access_mode_errors
from sim.api.kinds.common.fill import amounts, fill, present, within
from sim.api.kinds.common.pods.affinity import node_selector
from sim.api.kinds.common.pods.defaults import AZURE_DISK, ISCSI, RBD, SCALE_IO
from sim.api.kinds.common.pods.vendor_volumes import PERSISTENT_CHECKS, PORTAL_MAX, PORTAL_TOO_LONG
from sim.api.kinds.common.pods.volumes import csi_driver_errors, host_path_errors, nfs_errors
from sim.api.types import Json, Obj
from sim.api.validation import text
from sim.api.validation.errors import (
    ABOVE_ZERO,
    Errors,
    checked,
    forbidden,
    invalid,
    named,
    required,
    unsupported,
)
from sim.units import quantity_nano, quantity_text, quantity_value

RECLAIM_POLICIES = ("Delete", "Recycle", "Retain")
VOLUME_MODES = ("Block", "Filesystem")

# --- defaults -------------------------------------------------------------------------------------

_SOURCES: dict[str, Mapping[str, Any]] = {
    "rbd": RBD,
    "iscsi": ISCSI,
    "azureDisk": AZURE_DISK,
    "scaleIO": SCALE_IO,
}


def fill_volume_source(spec: Obj) -> Obj:
    """Defaults of the source and the capacity of a volume."""
    for source, defaults in _SOURCES.items():
        spec = within(spec, source, partial(fill, defaults=defaults))
    spec = within(spec, "azureFile", lambda value: present(value, {"secretNamespace": None}))
    spec = within(spec, "hostPath", lambda value: present(value, {"type": ""}))
    return within(spec, "capacity", amounts)


# --- validation -----------------------------------------------------------------------------------

_INLINE = "in the context of inline volumes"
_NOT_INLINE = f"may not be specified {_INLINE}"
_SECRETS = (
    "controllerPublishSecretRef",
    "controllerExpandSecretRef",
    "nodePublishSecretRef",
    "nodeExpandSecretRef",
)


def volume_spec(
    spec: Obj, field: str, name: str = "", inline: bool = False, for_one_pod: bool = False
) -> Errors:
    """Errors of the spec of a volume.

    name: of the volume, which counts for the length of an iSCSI name
    inline: True for a spec in a VolumeAttachment, which must be of a CSI driver
    """
    errors: Errors = []
    if inline:
        for key in ("claimRef", "capacity"):
            if spec.get(key):
                errors.append(forbidden(f"{field}.{key}", _NOT_INLINE))
        if spec.get("csi") is None:
            errors.append(required(f"{field}.csi", f"has to be specified {_INLINE}"))
    errors += _mode_errors(spec.get("accessModes") or (), f"{field}.accessModes", for_one_pod)
    if not inline:
        errors += _capacity_errors(spec.get("capacity"), f"{field}.capacity")
    policy, at = spec.get("persistentVolumeReclaimPolicy") or "", f"{field}.persistentVolumeReclaimPolicy"
    if policy and inline and policy != "Retain":
        errors.append(forbidden(at, f"may only be Retain {_INLINE}"))
    elif policy and not inline and policy not in RECLAIM_POLICIES:
        errors.append(unsupported(at, policy, RECLAIM_POLICIES))
    affinity = spec.get("nodeAffinity")
    if affinity is not None:
        at_affinity = f"{field}.nodeAffinity"
        errors += [forbidden(at_affinity, _NOT_INLINE)] if inline else _affinity_errors(affinity, at_affinity)
    errors += _source_errors(spec, field, name, inline)
    root = posixpath.normpath((spec.get("hostPath") or {}).get("path") or ".")
    if root in ("/", "//") and policy == "Recycle":
        errors.append(forbidden(at, "may not be 'recycle' for a hostPath mount of '/'"))
    return errors + _class_and_mode_errors(spec, field, inline)


def _mode_errors(modes: Json, at: str, for_one_pod: bool) -> Errors:
    errors: Errors = [] if modes else [required(at)]
    return errors + access_mode_errors(modes, at, for_one_pod)


def _capacity_errors(capacity: Obj | None, at: str) -> Errors:
    errors: Errors = [] if capacity else [required(at)]
    if not capacity or "storage" not in capacity or len(capacity) > 1:
        errors.append(unsupported(at, GoValue("core.ResourceList", capacity), ("storage",)))
    for name, amount in (capacity or {}).items():
        if quantity_value(amount) < 0:
            detail = "must be a valid resource quantity"
            errors.append(invalid(f"{at}[{name}]", quantity_value(amount), detail))
        if quantity_nano(amount) <= 0:
            errors.append(invalid(f"{at}[{name}]", quantity_text(amount), ABOVE_ZERO))
    return errors


def _affinity_errors(affinity: Obj, at: str) -> Errors:
    wanted = affinity.get("required")
    if wanted is None:
        return [required(f"{at}.required", "must specify required node constraints")]
    return node_selector(wanted, f"{at}.required")


def _source_errors(spec: Obj, field: str, name: str, inline: bool) -> Errors:
    errors: Errors = []
    count = 0
    for kind in _ORDER:
        source = spec.get(kind)
        if source is None:
            continue
        if count and kind != "flexVolume":
            errors.append(forbidden(f"{field}.{_SECOND.get(kind, kind)}", _ONE_TYPE))
            continue
        count += 1
        at = f"{field}.{_SPELLED.get(kind, kind)}"
        if kind == "iscsi":
            errors += _portal_errors(source, name, at)
        errors += _CHECKS[kind](source, at)
        if kind == "local" and (inline or spec.get("nodeAffinity") is None):
            errors.append(required(f"{field}.nodeAffinity", "Local volume requires node affinity"))
    return errors if count else [*errors, required(field, "must specify a volume type")]


def _portal_errors(source: Obj, name: str, at: str) -> Errors:
    """Errors of the length of the name that the volume and its portal form together."""
    portal = source.get("targetPortal") or ""
    if source.get("initiatorName") is None or len(f"{name}:{portal}".encode()) <= PORTAL_MAX:
        return []
    return [invalid(f"{at}.targetportal", portal, PORTAL_TOO_LONG)]


def _class_and_mode_errors(spec: Obj, field: str, inline: bool) -> Errors:
    errors: Errors = []
    name, mode = spec.get("storageClassName") or "", spec.get("volumeMode")
    if name and inline:
        errors.append(forbidden(f"{field}.storageClassName", _NOT_INLINE))
    elif name:
        errors += checked(f"{field}.storageClassName", name or None, text.subdomain)
    if mode is not None and inline and mode != "Filesystem":
        detail = f"may not specify volumeMode other than Filesystem {_INLINE}"
        errors.append(forbidden(f"{field}.volumeMode", detail))
    elif mode is not None and not inline and mode not in VOLUME_MODES:
        errors.append(unsupported(f"{field}.volumeMode", mode, VOLUME_MODES))
    return errors


# --- sources --------------------------------------------------------------------------------------

_ONE_TYPE = "may not specify more than 1 volume type"
_SPELLED = {"gcePersistentDisk": "persistentDisk"}
_SECOND = {"cephfs": "cephFS"}  # in an error about a second source
_ORDER = (
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
)
SOURCES = _ORDER


def _local(source: Obj, at: str) -> Errors:
    path = source.get("path")
    if not path:
        return [required(f"{at}.path")]
    return [invalid(f"{at}.path", path, "must not contain '..'")] if ".." in path.split("/") else []


def _csi(source: Obj, at: str) -> Errors:
    errors = csi_driver_errors(source.get("driver") or "", f"{at}.driver")
    if not source.get("volumeHandle"):
        errors.append(required(f"{at}.volumeHandle"))
    for field in _SECRETS:
        reference = source.get(field)
        if reference is None:
            continue
        for key in ("name", "namespace"):
            value, where = reference.get(key), f"{at}.{field}.{key}"
            errors += named(where, value, text.label)
    return errors


_CHECKS = {
    **PERSISTENT_CHECKS,
    "hostPath": host_path_errors,
    "nfs": nfs_errors,
    "local": _local,
    "csi": _csi,
}
