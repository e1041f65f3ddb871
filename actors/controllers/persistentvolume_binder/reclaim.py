"""What happens to a volume that has lost its claim: it is recycled or deleted.  Pure.

Holds: before it begins, an operation reads the volume from the API server, and ends if the volume
       is bound again.

Mirrors  kubernetes v1.25 pkg/controller/volume/persistentvolume/pv_controller.go
         (recycleVolumeOperation, deleteVolumeOperation, findDeletablePlugin),
         pkg/volume/util/recyclerclient/recycler_client.go, pkg/volume/hostpath/host_path.go
         (Recycle, Delete), pkg/volume/nfs/nfs.go (Recycle).
Differs  the pod that recycles is read once a second in place of being watched; the events of the
         pod are not repeated on the volume.
"""

from __future__ import annotations

from contextlib import suppress

from actors.controllers.persistentvolume_binder import decide
from actors.controllers.persistentvolume_binder.actions import VOLUMES, Seen, Steps, unbind, write
from actors.controllers.shared.pods_by_claim import is_terminated
from actors.controllers.shared.steps import Create, Delete, Event, Get, Sleep, SyncFailed, Update
from sim.api.objects import (
    annotations_of,
    is_deleting,
    is_terminal,
    key_of,
    metadata_of,
    name_of,
    phase_of,
    with_metadata,
)
from sim.api.types import Obj
from sim.ident import Names
from sim.patterns import pattern
from sim.units import SECOND

_DELETABLE = pattern("/tmp/.+")
_LOOK_US = 1 * SECOND


def _released(volume: Obj, seen: Seen) -> Steps[Obj | None]:
    """The volume as the API server has it, if it still has no claim."""
    live = (yield Get(VOLUMES, "", name_of(volume))).reply
    if not live.ok or not live.obj["spec"].get("claimRef"):
        return None
    claim = seen.claim_of(decide.claim_key_of(live.obj))
    return live.obj if decide.is_released(live.obj, claim) else None


# --- recycle --------------------------------------------------------------------------------------


def recycle(volume: Obj, seen: Seen) -> Steps[None]:
    """Empty a volume by a pod, and make it available.  Raises SyncFailed."""
    new = yield from _released(volume, seen)
    if new is None:
        return
    key = decide.claim_key_of(volume)
    users = sorted(key_of(pod) for pod in seen.pods_of(key) if not is_terminated(pod))
    if users and seen.claim_of(key) is None:
        yield Event(volume, "Normal", "VolumeFailedRecycle", f"Volume is used by pods: {','.join(users)}")
        return
    if not decide.recycles(new):
        yield from _fail(new, "VolumeFailedRecycle", "No recycler plugin found for the volume!")
        return
    try:
        yield from _empty(new, seen)
    except SyncFailed as failure:
        yield from _fail(new, "VolumeFailedRecycle", f"Recycle failed: {failure}")
        return
    yield Event(new, "Normal", "VolumeRecycled", "Volume recycled")
    with suppress(SyncFailed):  # the next sync of the volume tries again
        yield from unbind(new, seen.names)


def _empty(volume: Obj, seen: Seen) -> Steps[None]:
    """Run the pod that empties a volume.  Raises SyncFailed."""
    options = seen.options
    is_host_path = "hostPath" in volume["spec"]
    times = (
        (options.recycler_minimum_hostpath, options.recycler_increment_hostpath)
        if is_host_path
        else (options.recycler_minimum_nfs, options.recycler_increment_nfs)
    )
    given = options.recycler_template_hostpath if is_host_path else options.recycler_template_nfs
    deadline_s = decide.recycler_deadline_s(volume, *times)
    pod = decide.recycler_pod(volume, {**given} or decide.RECYCLER, deadline_s)
    namespace, name = metadata_of(pod).get("namespace", ""), name_of(pod)
    problem = "unexpected error creating recycler pod:  "
    if not namespace:  # the client refuses it
        raise SyncFailed(f"{problem}an empty namespace may not be set during creation")
    made = (yield Create("pods", namespace, pod)).reply
    if made.reason == "AlreadyExists":
        gone = (yield Delete("pods", namespace, name)).reply
        if not gone.ok:
            raise SyncFailed(f"failed to delete old recycler pod {namespace}/{name}: {gone.message}")
        raise SyncFailed("old recycler pod found, will retry later")
    if not made.ok:
        raise SyncFailed(problem + made.message)
    error = yield from _outcome(namespace, name)
    gone = (yield Delete("pods", namespace, name)).reply
    if error is not None:
        raise SyncFailed(f"failed to recycle volume: {error}")
    if not gone.ok:
        raise SyncFailed(f"failed to delete recycler pod: {gone.message}")


def _outcome(namespace: str, name: str) -> Steps[str | None]:
    """Wait until the pod has ended; returns the error text."""
    while True:
        yield Sleep(_LOOK_US)
        reply = (yield Get("pods", namespace, name, revision="0")).reply
        if reply.reason == "NotFound":
            return "recycler pod was deleted"
        if not reply.ok or not is_terminal(reply.obj):
            continue
        if phase_of(reply.obj) == "Succeeded":
            return None
        return (reply.obj.get("status") or {}).get("message") or "pod failed, pod.Status.Message unknown"


# --- delete ---------------------------------------------------------------------------------------


def delete(volume: Obj, seen: Seen) -> Steps[None]:
    """Delete a volume with its data, unless a driver does that.  Raises SyncFailed."""
    live = yield from _released(volume, seen)
    if live is None or (is_deleting(live) and not seen.honors):
        return
    problem = _deletion_problem(volume, seen.names)
    if problem is None:
        return
    try:
        if problem:
            raise SyncFailed(problem)
        if seen.honors:
            yield from _unprotect(volume, seen.names)
    except SyncFailed as failure:
        yield from _fail(volume, "VolumeFailedDelete", str(failure))
        raise
    yield Delete(VOLUMES, "", name_of(volume))


def _unprotect(volume: Obj, names: Names) -> Steps[None]:
    """Take the finalizer from a volume after its data are deleted.  Raises SyncFailed."""
    live = (yield Get(VOLUMES, "", name_of(volume))).reply
    if not live.ok:
        raise SyncFailed(live.message)
    mine, held = names.finalizer_volume_data, metadata_of(live.obj).get("finalizers") or []
    if mine in held:
        kept = [each for each in held if each != mine]
        text = "persistent volume controller can't update finalizer: "
        yield from write(VOLUMES, with_metadata(live.obj, finalizers=kept), text)


def _deletion_problem(volume: Obj, names: Names) -> str | None:
    """Why the data cannot be deleted; "" if they are; None if that is the work of a driver."""
    prefix = names.volume_plugin_prefix
    provisioner = annotations_of(volume).get(names.annotation_provisioned_by)
    if provisioner and not provisioner.startswith(prefix):
        return None
    if provisioner and provisioner != f"{prefix}host-path":
        return f"no volume plugin matched name: {provisioner}"
    source = volume["spec"].get("hostPath")
    if source is None and provisioner:
        text = "spec.PersistentVolumeSource.HostPath is nil"
        return f'failed to create deleter for volume "{name_of(volume)}": {text}'
    if source is None:
        text = "no deletable volume plugin matched"
        return f'error getting deleter volume plugin for volume "{name_of(volume)}": {text}'
    if not _DELETABLE.search(source["path"]):
        return f"host_path deleter only supports /tmp/.+ but received provided {source['path']}"
    return ""


def _fail(volume: Obj, reason: str, text: str) -> Steps[None]:
    """The volume is Failed, which is noted once."""
    if phase_of(volume) == "Failed":
        return
    failed = decide.volume_in_phase(volume, "Failed", text)
    if (yield Update(VOLUMES, failed, "status")).reply.ok:
        yield Event(volume, "Warning", reason, text)
