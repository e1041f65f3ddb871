"""What a claim demands of a driver, and why the driver cannot do it.  Pure.

Turns a claim, its class and, for a copy, the claim and the volume that it is copied from into the
error of the provisioner, "" if it may call the driver.

Mirrors  kubernetes-csi/external-provisioner v3.2 pkg/controller/controller.go: prepareProvision,
         checkDriverCapabilities, getPVCSource, removePrefixedParameters.
Differs  no driver here makes snapshots; a source that is not bound is named by its phase, without
         the rest of its status.
"""

from __future__ import annotations

from sim.api.kinds.common.volumes.binding import requested_bytes, volume_mode
from sim.api.objects import is_deleting, name_of, phase_of, uid_of
from sim.api.types import Obj
from sim.ident import Names
from sim.options.storage_drivers import StorageDriver

SNAPSHOT, CLAIM = "VolumeSnapshot", "PersistentVolumeClaim"
_CAPABILITY = "capability is not reported"
NO_SNAPSHOTS = (
    f"CSI driver does not support snapshot restore: controller CREATE_DELETE_SNAPSHOT {_CAPABILITY}"
)
NO_CLONES = f"CSI driver does not support clone operations: controller CLONE_VOLUME {_CAPABILITY}"
NO_SELECTOR = "claim Selector is not supported"
INVALID_SOURCE = "claim in dataSource not bound or invalid"
_PARAMETERS = (
    "fstype",
    "provisioner-secret-name",
    "provisioner-secret-namespace",
    "controller-publish-secret-name",
    "controller-publish-secret-namespace",
    "node-stage-secret-name",
    "node-stage-secret-namespace",
    "node-publish-secret-name",
    "node-publish-secret-namespace",
    "controller-expand-secret-name",
    "controller-expand-secret-namespace",
    "node-expand-secret-name",
    "node-expand-secret-namespace",
)


def is_populated(claim: Obj) -> bool:
    """True if the data of a claim come from a kind that no provisioner knows, so that another
    program makes its volume.
    """
    source = claim["spec"].get("dataSource")
    return source is not None and source["kind"] not in (SNAPSHOT, CLAIM)


def capability_problem(claim: Obj, driver: StorageDriver, names: Names) -> str:
    """Why the driver cannot make such a volume at all; "" if it can."""
    source = claim["spec"].get("dataSource")
    if source is not None and source["kind"] == SNAPSHOT:
        group = names.group("snapshot.storage")
        given = source.get("apiGroup") or ""
        if given != group:
            return f"the PVC source does not belong to the right APIGroup. Expected {group}, Got {given}"
        return NO_SNAPSHOTS
    if source is not None and source["kind"] == CLAIM and not driver.clones:
        return NO_CLONES
    return NO_SELECTOR if claim["spec"].get("selector") is not None else ""


def source_problem(claim: Obj, provisioner: str, source: Obj | None, volume: Obj | None) -> str:
    """Why a claim cannot be copied; "" if it can.

    source: the claim that is named as data source
    volume: the persistent volume of the source
    """
    name, namespace = claim["spec"]["dataSource"]["name"], claim["metadata"]["namespace"]
    if source is None:
        text = f'persistentvolumeclaim "{name}" not found'
        return f'error getting PVC {name} (namespace "{namespace}") from api server: {text}'
    if phase_of(source) != "Bound":
        return f"the PVC DataSource {name} must have a status of Bound.  Got {phase_of(source)}"
    if is_deleting(source):
        return f"the PVC DataSource {name} is currently being deleted"
    if source["spec"].get("storageClassName") is None:
        return f"the source PVC ({name}) storageclass cannot be empty"
    if claim["spec"].get("storageClassName") is None:
        return f"the requested PVC ({name_of(claim)}) storageclass cannot be empty"
    wanted, has = requested_bytes(claim), requested_bytes(source)
    if wanted < has:
        return (
            "error, new PVC request must be greater than or equal in size to the specified PVC data source, "
            f"requested {wanted} but source is {has}"
        )
    return _volume_problem(claim, provisioner, source, volume)


def _volume_problem(claim: Obj, provisioner: str, source: Obj, volume: Obj | None) -> str:
    csi = None if volume is None else volume["spec"].get("csi")
    if volume is None or csi is None or csi["driver"] != provisioner:
        return INVALID_SOURCE
    reference, meta = volume["spec"].get("claimRef") or {}, source["metadata"]
    if [reference.get(key) for key in ("uid", "namespace", "name")] != [
        uid_of(source),
        meta["namespace"],
        meta["name"],
    ]:
        return INVALID_SOURCE
    if phase_of(volume) != "Bound":
        return INVALID_SOURCE
    has, wanted = volume_mode(volume), volume_mode(claim)
    if has != wanted:
        return (
            "the source PVC and destination PVCs must have the same volume mode for cloning.  "
            f"Source is {has}, but new PVC requested {wanted}"
        )
    return ""


def parameter_problem(storage_class: Obj, names: Names) -> str:
    """Why the parameters of a class are wrong; "" if they are not."""
    parameters, prefix = storage_class.get("parameters") or {}, names.prefix_storage_parameters
    file_systems = [key for key in parameters if key.lower() == "fstype" or key == f"{prefix}fstype"]
    if len(file_systems) > 1:
        return f'fstype specified in parameters with both "fstype" and "{prefix}fstype" keys'
    for key in parameters:
        if key.startswith(prefix) and key.removeprefix(prefix) not in _PARAMETERS:
            text = f'found unknown parameter key "{key}" with reserved namespace {prefix}'
            return f"failed to strip CSI Parameters of prefixed keys: {text}"
    return ""


def file_system(storage_class: Obj, names: Names) -> str:
    """The file system of volumes of a class."""
    wanted = f"{names.prefix_storage_parameters}fstype"
    parameters = storage_class.get("parameters") or {}
    given = (value for key, value in parameters.items() if key.lower() == "fstype" or key == wanted)
    return str(next(given, "ext4"))
