"""Validation of the volumes of a pod spec.

Mirrors  kubernetes v1.25 pkg/apis/core/validation/validation.go: ValidateVolumes,
         validateVolumeSource.
"""

from __future__ import annotations

from typing import Any

from sim.api.kinds.common.claims import claim_spec
from sim.api.kinds.common.pods import vendor_volumes as volumes_vendor
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import (
    Errors,
    checked,
    duplicate,
    forbidden,
    invalid,
    required,
    too_long,
    unsupported,
)
from sim.api.validation.metadata import annotation_map, labels
from sim.units import quantity_nano, quantity_text

_MODE_ERROR = "must be a number between 0 and 0777 (octal), both inclusive"
_HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_POD_FIELDS = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
RESOURCES = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_TOKEN_SECONDS_MIN = 600
_TOKEN_SECONDS_MAX = 1 << 32

# Field paths that upstream spells differently from the JSON.
_SPELLED = {"gcePersistentDisk": "persistentDisk"}
_SECOND = {"downwardAPI": "downwarAPI", "cephfs": "cephFS"}  # in an error about a second source
_ORDER = (
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
)


def volumes(given: Any, field: str) -> tuple[dict[str, Obj], Errors]:
    """The volumes that mounts may name, and the errors.  A volume with an error cannot be
    mounted.
    """
    known: dict[str, Obj] = {}
    errors: Errors = []
    for i, volume in enumerate(given or ()):
        at = f"{field}[{i}]"
        found = _source(volume, at) + volumes_vendor.iscsi_name(volume, at)
        name = volume.get("name", "")
        if not name:
            found.append(required(f"{at}.name"))
        else:
            found += checked(f"{at}.name", name, text.label)
        if name in known:
            found.append(duplicate(f"{at}.name", name))
        if not found:
            known[name] = volume
        errors += found
    return known, errors


def _source(volume: Obj, at: str) -> Errors:
    errors: Errors = []
    count = 0
    for kind in _ORDER:
        source = volume.get(kind)
        if source is None:
            continue
        count += 1
        field = f"{at}.{_SPELLED.get(kind, kind)}"
        if count > 1:
            field = f"{at}.{_SECOND.get(kind, kind)}"
            errors.append(forbidden(field, "may not specify more than 1 volume type"))
        else:
            errors += _CHECKS[kind](source, field)
    if not count:
        errors.append(required(at, "must specify a volume type"))
    return errors


def _empty_dir(source: Obj, field: str) -> Errors:
    limit = source.get("sizeLimit")
    if limit is not None and quantity_nano(limit) < 0:
        return [forbidden(f"{field}.sizeLimit", "SizeLimit field must be a valid resource quantity")]
    return []


def host_path_errors(source: Obj, field: str) -> Errors:
    """Errors of a path on the node."""
    path = source.get("path")
    if not path:
        return [required(f"{field}.path")]
    errors: Errors = []
    if ".." in path.split("/"):
        errors.append(invalid(f"{field}.path", path, "must not contain '..'"))
    kind = source.get("type") or ""
    if kind not in _HOST_PATH_TYPES:
        errors.append(unsupported(f"{field}.type", kind, _HOST_PATH_TYPES))
    return errors


def nfs_errors(source: Obj, field: str) -> Errors:
    """Errors of an NFS server and its path."""
    errors = [required(f"{field}.{name}") for name in ("server", "path") if not source.get(name)]
    path = source.get("path")
    if not (path or "").startswith("/"):
        errors.append(invalid(f"{field}.path", path or "", "must be an absolute path"))
    return errors


def _mode(source: Obj, field: str, key: str = "defaultMode") -> Errors:
    mode = source.get(key)
    if mode is not None and not 0 <= mode <= 0o777:
        return [invalid(f"{field}.{key}", mode, _MODE_ERROR)]
    return []


def _items(items: Any, field: str) -> Errors:
    errors: Errors = []
    for i, item in enumerate(items or ()):
        at = f"{field}[{i}]"
        if not item.get("key"):
            errors.append(required(f"{at}.key"))
        errors += _item_path(item, at)
        errors += _mode(item, at, "mode")
    return errors


def _item_path(item: Obj, at: str) -> Errors:
    path = item.get("path")
    if not path:
        return [required(f"{at}.path")]
    return checked(f"{at}.path", path, text.reserved_relative_path)


def _secret(source: Obj, field: str) -> Errors:
    errors = [] if source.get("secretName") else [required(f"{field}.secretName")]
    return errors + _mode(source, field) + _items(source.get("items"), f"{field}.items")


def _config_map(source: Obj, field: str) -> Errors:
    errors = [] if source.get("name") else [required(f"{field}.name")]
    return errors + _mode(source, field) + _items(source.get("items"), f"{field}.items")


def _claim(source: Obj, field: str) -> Errors:
    return [] if source.get("claimName") else [required(f"{field}.claimName")]


def _downward(source: Obj, field: str) -> Errors:
    # Quirk: the path of items lacks the "d".
    errors = _mode(source, field)
    return errors + _downward_items(source.get("items"), field)


def _downward_items(items: Any, field: str) -> Errors:
    errors: Errors = []
    for item in items or ():
        if not item.get("path"):
            errors.append(required(f"{field}.path"))
        errors += [
            invalid(f"{field}.path", item["path"], problem)
            for problem in text.reserved_relative_path(item.get("path", ""))
        ]
        reference, resource = item.get("fieldRef"), item.get("resourceFieldRef")
        if reference is not None:
            errors += field_reference(reference, f"{field}.fieldRef", _POD_FIELDS)
            if resource is not None:
                detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
                errors.append(invalid(field, "resource", detail))
        elif resource is not None:
            errors += resource_reference(resource, f"{field}.resourceFieldRef", volume=True)
        else:
            errors.append(required(field, "one of fieldRef and resourceFieldRef is required"))
        errors += _mode(item, field, "mode")
    return errors


def field_reference(reference: Obj, field: str, supported: tuple[str, ...]) -> Errors:
    """Errors of a reference to a field of the pod.

    supported: the fields that the place of use supports
    """
    version, path = reference.get("apiVersion"), reference.get("fieldPath")
    if not version:
        return [required(f"{field}.apiVersion")]
    if not path:
        return [required(f"{field}.fieldPath")]
    if version != "v1":
        detail = f"error converting fieldPath: unsupported pod version: {version}"
        return [invalid(f"{field}.fieldPath", path, detail)]
    bracket = path.find("['")
    if bracket >= 0 and path.endswith("']"):
        base, key = path[:bracket], path[bracket + 2 : -2]
        if base in ("metadata.annotations", "metadata.labels"):
            lowered = key.lower() if base.endswith("annotations") else key
            return [invalid(field, key, problem) for problem in text.qualified_name(lowered)]
        return [
            invalid(
                f"{field}.fieldPath",
                path,
                f"error converting fieldPath: field label does not support subscript: {path}",
            )
        ]
    if path not in _CONVERTED:
        return [
            invalid(
                f"{field}.fieldPath", path, f"error converting fieldPath: field label not supported: {path}"
            )
        ]
    return [] if path in supported else [unsupported(f"{field}.fieldPath", path, supported)]


# core/v1/conversion.go and pods.ConvertDownwardAPIFieldLabel.
_CONVERTED = (
    *_POD_FIELDS,
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.podIP",
    "status.podIPs",
)


def resource_reference(reference: Obj, field: str, volume: bool) -> Errors:
    """Errors of a reference to a resource of a container."""
    errors: Errors = []
    resource = reference.get("resource", "")
    huge = ("limits.hugepages-", "requests.hugepages-")
    if volume and not reference.get("containerName"):
        errors.append(required(f"{field}.containerName"))
    elif not resource:
        errors.append(required(f"{field}.resource"))
    elif resource not in RESOURCES and not resource.startswith(huge):
        errors.append(unsupported(f"{field}.resource", resource, RESOURCES))
    if resource in RESOURCES or resource.startswith(huge):
        errors += _divisor(resource, reference.get("divisor"), f"{field}.divisor")
    return errors


def _divisor(resource: str, divisor: Any, field: str) -> Errors:
    if divisor is None or not quantity_nano(divisor):
        return []
    amount = quantity_text(divisor)
    what = resource.partition(".")[2]
    if what == "cpu":
        if amount in ("1m", "1"):
            return []
        return [
            invalid(
                field,
                resource,
                "only divisor's values 1m and 1 are supported with the cpu resource",
            )
        ]
    units = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
    if amount in units:
        return []
    name = {"memory": "memory", "ephemeral-storage": "local ephemeral storage"}.get(what, "hugepages")
    listed = ", ".join(units)
    return [
        invalid(field, resource, f"only divisor's values {listed} are supported with the {name} resource")
    ]


_PROJECTED = ("secret", "configMap", "downwardAPI", "serviceAccountToken")


def _projected(source: Obj, field: str) -> Errors:
    errors = _mode(source, field)
    paths: dict[str, None] = {}
    for i, item in enumerate(source.get("sources") or ()):
        at = f"{field}.sources[{i}]"
        kinds = [kind for kind in _PROJECTED if item.get(kind) is not None]
        for kind in kinds:
            given = item[kind]
            errors += _projection(kind, given, f"{at}.{kind}", field) + _taken(kind, given, field, paths)
        if len(kinds) > 1:
            errors.append(forbidden(at, "may not specify more than 1 volume type"))
    return errors


def _projection(kind: str, given: Obj, at: str, field: str) -> Errors:
    errors: Errors = []
    if kind == "serviceAccountToken":
        seconds = given.get("expirationSeconds", 0)
        if seconds < _TOKEN_SECONDS_MIN:
            errors.append(
                invalid(f"{at}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
            )
        if seconds > _TOKEN_SECONDS_MAX:
            errors.append(
                invalid(
                    f"{at}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds"
                )
            )
        if not given.get("path"):
            errors.append(required(f"{field}.path"))  # Quirk: at the volume, not at the source
        return errors
    if kind == "downwardAPI":
        return _downward_items(given.get("items"), at)
    if not given.get("name"):
        errors.append(required(f"{at}.name"))
    return errors + _items(given.get("items"), f"{at}.items")


def _taken(kind: str, given: Obj, field: str, paths: dict[str, None]) -> Errors:
    """Errors of files of one volume with the same path."""
    errors: Errors = []
    for item in given.get("items") or ():
        path = item.get("path")
        if path and path in paths:
            shown = path if kind == "downwardAPI" else given.get("name", "")
            errors.append(invalid(field, shown, "conflicting duplicate paths"))
        elif path:
            paths[path] = None
    return errors


# Of the metadata of a claim template, in the order of the Go struct.
_NOT_IN_TEMPLATE = (
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "ownerReferences",
    "finalizers",
    "managedFields",
)


# Pointers and lists, of which upstream's comparison by reflection notices the empty ones.
_POINTED = ("deletionGracePeriodSeconds", "ownerReferences", "finalizers", "managedFields")


def _ephemeral(source: Obj, field: str) -> Errors:
    claim, at = source.get("volumeClaimTemplate"), f"{field}.volumeClaimTemplate"
    if claim is None:
        return [required(at)]
    metadata, where = claim.get("metadata") or {}, f"{at}.metadata"
    errors = annotation_map(metadata.get("annotations"), f"{where}.annotations")
    errors += labels(metadata.get("labels"), f"{where}.labels")
    errors += [
        # Quirk: upstream lowers the first letter of the Go name only.
        forbidden(f"{where}.{'uID' if key == 'uid' else key}", "cannot be set for an ephemeral volume")
        for key in _NOT_IN_TEMPLATE
        if metadata.get(key) or (key in _POINTED and metadata.get(key) is not None)
    ]
    return errors + claim_spec(claim.get("spec") or {}, f"{at}.spec")


CSI_DRIVER_MAX = 63  # csi.go: driver names


def csi_driver_errors(driver: str, at: str) -> Errors:
    """Errors of the name of a CSI driver."""
    errors: Errors = [] if driver else [required(at)]
    if len(driver) > CSI_DRIVER_MAX:
        errors.append(too_long(at, CSI_DRIVER_MAX))
    return errors + [invalid(at, driver, problem) for problem in text.subdomain(driver.lower())]


def _csi(source: Obj, field: str) -> Errors:
    errors = csi_driver_errors(source.get("driver") or "", f"{field}.driver")
    reference = source.get("nodePublishSecretRef")
    if reference is not None:
        name = reference.get("name", "")
        if not name:
            return [*errors, required(f"{field}.nodePublishSecretRef.name")]
        # Quirk: the path of a bad name lacks the reference.
        errors += checked(f"{field}.name", name, text.subdomain)
    return errors


_CHECKS = {
    **volumes_vendor.CHECKS,
    "emptyDir": _empty_dir,
    "hostPath": host_path_errors,
    "nfs": nfs_errors,
    "secret": _secret,
    "configMap": _config_map,
    "persistentVolumeClaim": _claim,
    "downwardAPI": _downward,
    "projected": _projected,
    "csi": _csi,
    "ephemeral": _ephemeral,
}
