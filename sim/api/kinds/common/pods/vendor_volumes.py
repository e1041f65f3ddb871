"""Validation of volumes of vendors: cloud disks, iSCSI, Ceph and others, which no node mounts.

Turns a volume source and its field path into field errors.

Mirrors  kubernetes v1.25 pkg/apis/core/validation/validation.go (validate...VolumeSource of each).
"""

from __future__ import annotations

from collections.abc import Callable

from sim.api.go.printing import GoValue
from sim.api.types import Json, Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, checked, invalid, named, required, unsupported
from sim.ident import NAMES
from sim.patterns import pattern

Check = Callable[[Obj, str], Errors]
PARTITION_MAX = LUN_MAX = 255
TENANT_MAX, PORTAL_MAX = 65, 64
PORTAL_TOO_LONG = (
    "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters "
    "if iscsi.initiatorName is specified."
)
_VALID = "must be valid format"
_IQN = pattern(r"iqn\.\d{4}-\d{2}\.([a-zA-Z0-9.-]+)(:[^,;*&$|\s]+)$")
_EUI = pattern(r"^eui.[a-zA-Z0-9]{16}$")
_NAA = pattern(r"^naa.[a-zA-Z0-9]{32}$")
_RESERVED = {
    domain: f"{names.domain} and {names.group_domain} namespaces are reserved"
    for names in NAMES.values()
    for domain in (names.domain, names.group_domain)
}.items()
_QUOBYTE = "must be a host:port pair or multiple pairs separated by commas"
_BLOB = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
_MANAGED = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"


def _lacking(source: Obj, at: str, *fields: str) -> Errors:
    return [required(f"{at}.{field}") for field in fields if not source.get(field)]


def _within(source: Obj, field: str, at: str, low: int, high: int) -> Errors:
    value = source.get(field) or 0
    if low <= value <= high:
        return []
    return [invalid(f"{at}.{field}", value, f"must be between {low} and {high}, inclusive")]


def _partitioned(name: str) -> Check:
    def check(source: Obj, at: str) -> Errors:
        errors = _lacking(source, at, name)
        # 0 is the whole disk
        return errors + (
            _within(source, "partition", at, 1, PARTITION_MAX) if source.get("partition") else []
        )

    return check


def _mandatory(*fields: str) -> Check:
    return lambda source, at: _lacking(source, at, *fields)


def _secret(source: Obj, at: str, *fields: str) -> Errors:
    """Errors of a reference to a secret.  fields: that it needs, besides the name"""
    reference = source.get("secretRef")
    return _lacking(reference, f"{at}.secretRef", "name", *fields) if reference is not None else []


def _is_qualified(name: str) -> bool:
    return bool(_IQN.search(name) or _EUI.search(name) or _NAA.search(name))


def _iscsi(source: Obj, at: str) -> Errors:
    return _iscsi_errors(source, at, f"{_VALID} starting with iqn, eui, or naa")


def _persistent_iscsi(source: Obj, at: str) -> Errors:
    return _iscsi_errors(source, at, _VALID)


def _iscsi_errors(source: Obj, at: str, unknown: str) -> Errors:
    """Errors of an iSCSI source.  unknown: the detail about a name of an unknown form"""
    errors = _lacking(source, at, "targetPortal")
    name, initiator = source.get("iqn") or "", source.get("initiatorName")
    errors += _iscsi_name_errors(name, f"{at}.iqn", unknown) if name else [required(f"{at}.iqn")]
    errors += _within(source, "lun", at, 0, LUN_MAX)
    secret = source.get("secretRef")
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and secret is None:
        errors.append(required(f"{at}.secretRef"))
    if secret is not None and unknown == _VALID:  # of a persistent volume
        errors += _lacking(secret, f"{at}.secretRef", "name")
    if initiator is not None:
        # Quirk: upstream spells the path like this.
        errors += _iscsi_name_errors(initiator, f"{at}.initiatorname", unknown)
    return errors


def _iscsi_name_errors(name: str, at: str, unknown: str) -> Errors:
    if not name.startswith(("iqn", "eui", "naa")):
        return [invalid(at, name, unknown)]
    return [] if _is_qualified(name) else [invalid(at, name, _VALID)]


def iscsi_name(volume: Obj, at: str) -> Errors:
    """Errors of the length of the name that the volume and its portal form together."""
    source = volume.get("iscsi") or {}
    name, portal = volume.get("name", ""), source.get("targetPortal") or ""
    if source.get("initiatorName") is None or len(f"{name}:{portal}") <= PORTAL_MAX:
        return []
    return [invalid(f"{at}.name", name, PORTAL_TOO_LONG)]


def _flocker(source: Obj, at: str) -> Errors:
    name, uid = source.get("datasetName") or "", source.get("datasetUUID")
    errors: Errors = []
    if not name and not uid:
        errors.append(required(at, "one of datasetName and datasetUUID is required"))
    if name and uid:
        errors.append(
            invalid(at, "resource", "datasetName and datasetUUID can not be specified simultaneously")
        )
    if "/" in name:
        errors.append(invalid(f"{at}.datasetName", name, "must not contain '/'"))
    return errors


def _cinder(source: Obj, at: str) -> Errors:
    return _lacking(source, at, "volumeID") + _secret(source, at)


def _quobyte(source: Obj, at: str) -> Errors:
    registry, tenant = source.get("registry") or "", source.get("tenant") or ""
    errors: Errors = []
    if not registry:
        errors.append(required(f"{at}.registry", _QUOBYTE))
    elif len(tenant) >= TENANT_MAX:
        detail = "must be a UUID and may not exceed a length of 64 characters"
        errors.append(required(f"{at}.tenant", detail))
    elif any(":" not in pair for pair in registry.split(",")):
        errors.append(invalid(f"{at}.registry", registry, _QUOBYTE))
    return errors + _lacking(source, at, "volume")


def _fibre(source: Obj, at: str) -> Errors:
    targets, ids, lun = source.get("targetWWNs"), source.get("wwids"), source.get("lun")
    errors: Errors = []
    if not targets and not ids:
        detail = "must specify either targetWWNs or wwids, but not both"
        errors.append(required(f"{at}.targetWWNs", detail))
    if targets and ids:
        detail = "targetWWNs and wwids can not be specified simultaneously"
        errors.append(invalid(f"{at}.targetWWNs", GoValue("[]string", targets), detail))
    if targets:
        if lun is None:
            errors.append(required(f"{at}.lun", "lun is required if targetWWNs is specified"))
        else:
            errors += _within(source, "lun", at, 0, LUN_MAX)
    return errors


def _flex(source: Obj, at: str) -> Errors:
    errors = _lacking(source, at, "driver")
    for key in source.get("options") or {}:
        domain = key.lower().partition("/")[0]
        for reserved, detail in _RESERVED:
            if domain == reserved or domain.endswith(f".{reserved}"):
                errors.append(invalid(f"{at}.options[{key}]", key, detail))
    return errors


def _one_of(source: Obj, field: str, at: str, known: tuple[str, ...]) -> Errors:
    value: Json = source.get(field)
    return [unsupported(f"{at}.{field}", value, known)] if value is not None and value not in known else []


def _azure_disk(source: Obj, at: str) -> Errors:
    errors = _lacking(source, at, "diskName", "diskURI")
    errors += _one_of(source, "cachingMode", at, ("None", "ReadOnly", "ReadWrite"))
    errors += _one_of(source, "kind", at, ("Dedicated", "Managed", "Shared"))
    uri, managed = source.get("diskURI") or "", source.get("kind") == "Managed"
    if managed and not uri.startswith("/subscriptions/"):
        errors.append(unsupported(f"{at}.diskURI", uri, (_MANAGED,)))
    if not managed and not uri.startswith("https://"):
        errors.append(unsupported(f"{at}.diskURI", uri, (_BLOB,)))
    return errors


def _storage_os(source: Obj, at: str) -> Errors:
    return _storage_os_errors(source, at) + _secret(source, at)


def _persistent_storage_os(source: Obj, at: str) -> Errors:
    return _storage_os_errors(source, at) + _secret(source, at, "namespace")


def _persistent_cinder(source: Obj, at: str) -> Errors:
    return _lacking(source, at, "volumeID") + _secret(source, at, "namespace")


def _persistent_azure_file(source: Obj, at: str) -> Errors:
    errors = _lacking(source, at, "secretName", "shareName")
    return errors + ([required(f"{at}.secretNamespace")] if source.get("secretNamespace") == "" else [])


def _persistent_glusterfs(source: Obj, at: str) -> Errors:
    errors, namespace = _lacking(source, at, "endpoints", "path"), source.get("endpointsNamespace")
    if namespace is None:
        return errors
    detail = "if the endpointnamespace is set, it must be a valid namespace name"
    problems = text.label(namespace) if namespace else (detail,)
    return errors + [invalid(f"{at}.endpointsNamespace", namespace, problem) for problem in problems]


def _storage_os_errors(source: Obj, at: str) -> Errors:
    name, namespace = source.get("volumeName") or "", source.get("volumeNamespace") or ""
    errors: Errors = []
    errors += named(f"{at}.volumeName", name, text.label)
    if namespace:
        errors += checked(f"{at}.volumeNamespace", namespace, text.label)
    return errors


def _git_repo(source: Obj, at: str) -> Errors:
    path = source.get("directory") or ""
    errors = _lacking(source, at, "repository")
    return errors + checked(f"{at}.directory", path, text.relative_path)


CHECKS: dict[str, Check] = {
    "gitRepo": _git_repo,
    "gcePersistentDisk": _partitioned("pdName"),
    "awsElasticBlockStore": _partitioned("volumeID"),
    "iscsi": _iscsi,
    "glusterfs": _mandatory("endpoints", "path"),
    "flocker": _flocker,
    "rbd": _mandatory("monitors", "image"),
    "cinder": _cinder,
    "cephfs": _mandatory("monitors"),
    "quobyte": _quobyte,
    "fc": _fibre,
    "flexVolume": _flex,
    "azureFile": _mandatory("secretName", "shareName"),
    "vsphereVolume": _mandatory("volumePath"),
    "photonPersistentDisk": _mandatory("pdID"),
    "portworxVolume": _mandatory("volumeID"),
    "azureDisk": _azure_disk,
    "storageos": _storage_os,
    "scaleIO": _mandatory("gateway", "system", "volumeName"),
}
# Those of persistent volumes, which name secrets and endpoints of any namespace.
PERSISTENT_CHECKS: dict[str, Check] = {
    **CHECKS,
    "iscsi": _persistent_iscsi,
    "glusterfs": _persistent_glusterfs,
    "cinder": _persistent_cinder,
    "azureFile": _persistent_azure_file,
    "storageos": _persistent_storage_os,
}
