"""What happens to a volume that has lost its claim: it is recycled or deleted.

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

import re

from actors.controllers.persistentvolume_binder import decide
from actors.controllers.persistentvolume_binder.store import VOLUMES, Store
from actors.controllers.shared.pods_by_claim import CLAIM_INDEX, is_terminated
from actors.controllers.shared.shell import Env
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
from sim.client import Client, EventRecorder, Informer
from sim.options.features.gates import HONOR_RECLAIM, enabled
from sim.units import SECOND

_DELETABLE = re.compile("/tmp/.+")
_LOOK_US = 1 * SECOND


class Reclaimer:
    """The two operations."""

    def __init__(
        self, env: Env, client: Client, recorder: EventRecorder, store: Store, pods: Informer
    ) -> None:
        self._env = env
        self._client = client
        self._recorder = recorder
        self._store = store
        self._pods = pods

    async def _released(self, volume: Obj) -> Obj | None:
        """The volume as the API server has it, if it still has no claim."""
        live = await self._client.get(VOLUMES, "", name_of(volume))
        if not live.ok or not live.obj["spec"].get("claimRef"):
            return None
        claim = self._store.claims.get(decide.claim_key_of(live.obj))
        return live.obj if decide.is_released(live.obj, claim) else None

    # --- recycle ----------------------------------------------------------------------------------

    async def recycle(self, volume: Obj) -> str | None:
        """Empty a volume by a pod, and make it available."""
        new = await self._released(volume)
        if new is None:
            return None
        key = decide.claim_key_of(volume)
        users = sorted(key_of(pod) for pod in self._pods.by_index(CLAIM_INDEX, key) if not is_terminated(pod))
        if users and self._store.claims.get(key) is None:
            text = f"Volume is used by pods: {','.join(users)}"
            self._recorder.event(volume, "Normal", "VolumeFailedRecycle", text)
            return None
        if not decide.recycles(new):
            await self._fail(new, "VolumeFailedRecycle", "No recycler plugin found for the volume!")
            return None
        error = await self._empty(new)
        if error is not None:
            await self._fail(new, "VolumeFailedRecycle", f"Recycle failed: {error}")
            return None
        self._recorder.event(new, "Normal", "VolumeRecycled", "Volume recycled")
        await self._store.unbind(new, self._env.names)
        return None

    async def _empty(self, volume: Obj) -> str | None:
        """Run the pod that empties a volume; returns the error text."""
        options = self._env.options
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
        if not namespace:  # the client refuses it
            return (
                "unexpected error creating recycler pod:  an empty namespace may not be set during creation"
            )
        made = await self._client.create("pods", namespace, pod)
        if made.reason == "AlreadyExists":
            gone = await self._client.delete("pods", namespace, name)
            if not gone.ok:
                return f"failed to delete old recycler pod {namespace}/{name}: {gone.message}"
            return "old recycler pod found, will retry later"
        if not made.ok:
            return f"unexpected error creating recycler pod:  {made.message}"
        error = await self._outcome(namespace, name)
        gone = await self._client.delete("pods", namespace, name)
        if error is not None:
            return f"failed to recycle volume: {error}"
        return None if gone.ok else f"failed to delete recycler pod: {gone.message}"

    async def _outcome(self, namespace: str, name: str) -> str | None:
        """Wait until the pod has ended; returns the error text."""
        while True:
            await self._env.ctx.sleep_us(_LOOK_US)
            reply = await self._client.get("pods", namespace, name, revision="0")
            if reply.reason == "NotFound":
                return "recycler pod was deleted"
            if not reply.ok or not is_terminal(reply.obj):
                continue
            if phase_of(reply.obj) == "Succeeded":
                return None
            return (reply.obj.get("status") or {}).get("message") or "pod failed, pod.Status.Message unknown"

    # --- delete -----------------------------------------------------------------------------------

    async def delete(self, volume: Obj) -> str | None:
        """Delete a volume with its data, unless a driver does that."""
        live = await self._released(volume)
        honors = enabled(self._env.options.feature_gates, HONOR_RECLAIM)
        if live is None or (is_deleting(live) and not honors):
            return None
        problem = self._deletion_problem(volume)
        if problem is None:
            return None
        if problem:
            await self._fail(volume, "VolumeFailedDelete", problem)
            return problem
        if honors:
            error = await self._unprotect(volume)
            if error is not None:
                await self._fail(volume, "VolumeFailedDelete", error)
                return error
        await self._client.delete(VOLUMES, "", name_of(volume))
        return None

    async def _unprotect(self, volume: Obj) -> str | None:
        """Take the finalizer from a volume after its data are deleted; returns the error text."""
        live = await self._client.get(VOLUMES, "", name_of(volume))
        if not live.ok:
            return live.message
        mine, held = self._env.names.finalizer_volume_data, metadata_of(live.obj).get("finalizers") or []
        if mine not in held:
            return None
        kept = [each for each in held if each != mine]
        written = await self._store.volumes.write(with_metadata(live.obj, finalizers=kept))
        text = "persistent volume controller can't update finalizer"
        return f"{text}: {written}" if isinstance(written, str) else None

    def _deletion_problem(self, volume: Obj) -> str | None:
        """Why the data cannot be deleted; "" if they are; None if that is the work of a driver."""
        prefix = self._env.names.volume_plugin_prefix
        provisioner = annotations_of(volume).get(self._env.names.annotation_provisioned_by)
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

    async def _fail(self, volume: Obj, reason: str, text: str) -> None:
        """The volume is Failed, which is noted once."""
        if phase_of(volume) != "Failed" and await self._store.volumes.phase(volume, "Failed", text) is None:
            self._recorder.event(volume, "Warning", reason, text)
