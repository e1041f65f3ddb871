"""The steps that provision a volume for a claim, here or by a driver.  Pure.

Mirrors  kubernetes v1.25 pkg/controller/volume/persistentvolume/pv_controller.go (provisionClaim,
         provisionClaimOperation, provisionClaimOperationExternal, findProvisionablePlugin,
         rescheduleProvisioning); pkg/volume/hostpath/host_path.go (Provision),
         csi-translation-lib/translate.go (names of plugins and their drivers).
"""

from __future__ import annotations

from collections.abc import Mapping

from actors.controllers.persistentvolume_binder import decide
from actors.controllers.persistentvolume_binder.actions import CLAIMS, VOLUMES, Begin, Seen, Steps, write
from actors.controllers.shared.steps import Create, Event, Get, Sleep, SyncFailed, Update
from sim.api.kinds.common.volumes.binding import MIGRATED as MOVED
from sim.api.kinds.common.volumes.binding import volume_mode
from sim.api.objects import annotations_of, key_of, name_of, uid_of, with_metadata
from sim.api.types import Obj
from sim.units import SECOND

CREATE_TRIES, CREATE_PAUSE_US = 5, 10 * SECOND  # createProvisionedPVRetryCount, -Interval
MIGRATED: Mapping[str, str] = {moved.plugin: moved.driver for moved in MOVED.values()}
# Plugins that the controller knows, and that do not provision (app/plugins.go).
_NOT_PROVISIONING = ("csi", "local-volume", "nfs")


def _failed(claim: Obj, text: str) -> Event:
    return Event(claim, "Warning", "ProvisioningFailed", text)


def begin(claim: Obj, class_name: str, seen: Seen) -> Steps[None]:
    """Begin to provision a volume for a claim, or to wait for a driver."""
    if not seen.options.enable_dynamic_provisioning:
        return
    storage_class = seen.class_of(class_name)
    if storage_class is None:
        yield _failed(claim, f'storageclass.{seen.names.group("storage")} "{class_name}" not found')
        return
    prefix, provisioner = seen.names.volume_plugin_prefix, storage_class["provisioner"]
    short = provisioner.removeprefix(prefix)
    in_tree = provisioner.startswith(prefix) and short not in MIGRATED
    if in_tree and short in _NOT_PROVISIONING:
        yield _failed(claim, "no provisionable volume plugin matched")
    elif in_tree and short != "host-path":
        yield _failed(claim, f"no volume plugin matched name: {provisioner}")
    else:
        steps = provision_here if in_tree else provision_outside
        operation = f"provision-{key_of(claim)}[{uid_of(claim)}]"
        yield Begin(operation, lambda: steps(claim, storage_class, seen))


def _with_provisioner(claim: Obj, provisioner: str, seen: Seen) -> Steps[Obj]:
    new = decide.with_provisioner(claim, provisioner, seen.names)
    return claim if new is claim else (yield from write(CLAIMS, new))


def provision_outside(claim: Obj, storage_class: Obj, seen: Seen) -> Steps[None]:
    """Let the driver of a class know that it has to provision a volume.  Raises SyncFailed."""
    provisioner = storage_class["provisioner"]
    short = provisioner.removeprefix(seen.names.volume_plugin_prefix)
    if short != provisioner:
        provisioner = MIGRATED[short]
    claim = yield from _with_provisioner(claim, provisioner, seen)
    text = (
        f'waiting for a volume to be created, either by external provisioner "{provisioner}"'
        " or manually created by system administrator"
    )
    yield Event(claim, "Normal", "ExternalProvisioning", text)


def provision_here(claim: Obj, storage_class: Obj, seen: Seen) -> Steps[None]:
    """Provision a directory of a host; this is the only plugin here that provisions.

    Raises SyncFailed.
    """
    provisioner = storage_class["provisioner"]
    if claim["spec"].get("dataSource") is not None:
        text = f'plugin "{provisioner}" is not a CSI plugin. Only CSI plugin can provision a claim with a datasource'
        yield _failed(claim, text)
        raise SyncFailed(text)
    claim = yield from _with_provisioner(claim, provisioner, seen)
    live = (yield Get(VOLUMES, "", f"pvc-{uid_of(claim)}")).reply
    if live.ok:
        return
    if live.reason != "NotFound":
        raise SyncFailed(live.message)
    problem = _host_path_problem(claim, storage_class, seen)
    if not problem and volume_mode(claim) == "Block":
        marks, mark = annotations_of(claim), seen.names.annotation_selected_node
        if mark in marks:  # the scheduler has to choose another node
            kept = {key: value for key, value in marks.items() if key != mark}
            yield Update(CLAIMS, with_metadata(claim, annotations=kept))
        reason = f"{provisioner} does not support block volume provisioning"
        problem = f'Failed to provision volume with StorageClass "{name_of(storage_class)}": {reason}'
    if problem:
        yield _failed(claim, problem)
        raise SyncFailed(problem)
    volume = decide.host_path_volume(claim, storage_class, f"/tmp/hostpath_pv/{seen.new_uid()}", seen.names)
    yield from _create_volume(claim, volume, provisioner, seen)


def _host_path_problem(claim: Obj, storage_class: Obj, seen: Seen) -> str:
    provisioner = storage_class["provisioner"]
    if storage_class.get("mountOptions"):
        return (
            f'Mount options are not supported by the provisioner but StorageClass "{name_of(storage_class)}"'
            f" has mount options [{' '.join(storage_class['mountOptions'])}]"
        )
    if not seen.options.enable_hostpath_provisioner:
        return f'Failed to create provisioner: provisioning in volume plugin "{provisioner}" is disabled'
    node = annotations_of(claim).get(seen.names.annotation_selected_node)
    if node is not None and seen.node_of(node) is None:
        return f'Failed to get target node: node "{node}" not found'
    return ""


def _create_volume(claim: Obj, volume: Obj, provisioner: str, seen: Seen) -> Steps[None]:
    error = ""
    if seen.honors:
        volume = decide.with_deletion_finalizers(volume, MIGRATED, seen.names)
    for _ in range(CREATE_TRIES):
        reply = (yield Create(VOLUMES, "", volume)).reply
        if reply.ok or reply.reason == "AlreadyExists":
            text = f"Successfully provisioned volume {name_of(volume)} using {provisioner}"
            yield Event(claim, "Normal", "ProvisioningSucceeded", text)
            return
        error = reply.message
        yield Sleep(CREATE_PAUSE_US)
    text = f"Error creating provisioned PV object for claim {key_of(claim)}: {error}. Deleting the volume."
    yield _failed(claim, text)
