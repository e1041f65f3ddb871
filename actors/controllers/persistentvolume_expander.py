"""Expand controller: leaves claims that request more to the driver of their volume.

Mirrors  kubernetes v1.25 pkg/controller/volume/expand/expand_controller.go.
Differs  no plugin here makes a volume larger by itself, not even those of the volumes of glusterfs,
         rbd, portworx and flexVolume.
"""

from __future__ import annotations

from actors.controllers.shared.shell import Env, run_workers
from sim.api.kinds.common.volumes.binding import MIGRATED, claimed_bytes, requested_bytes
from sim.api.objects import annotations_of, key_of, phase_of, split_key, uid_of
from sim.api.types import Obj
from sim.client.events.recorder import EventKind

CLIENT = "expand-controller"
COMPONENT = "volume_expand"
CLAIMS, VOLUMES = "persistentvolumeclaims", "persistentvolumes"
WORKERS = 10  # defaultWorkerCount
IGNORED = (
    "Ignoring the PVC: didn't find a plugin capable of expanding the volume;"
    " waiting for an external controller to process this PVC."
)


async def start(env: Env) -> None:
    """Run the controller until its process ends."""
    await Expander(env).run()


class Expander:
    """Shell of the controller: handlers, queue, and the sync of one claim."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._client = env.client(CLIENT)
        self._recorder = env.recorder(COMPONENT, self._client)
        self._claims = env.informers[CLAIMS]
        self._queue = env.queue("expand")

    async def run(self) -> None:
        """Start the handlers and the workers."""
        self._claims.on(self._changed, self._updated, self._changed)
        await self._env.informers.start_and_sync()
        run_workers(self._env, self._queue, self._sync, WORKERS)

    def _changed(self, claim: Obj) -> None:
        if phase_of(claim) == "Bound":
            self._queue.add(key_of(claim))

    def _updated(self, old: Obj, new: Obj) -> None:
        if requested_bytes(new) > requested_bytes(old) or claimed_bytes(new) > claimed_bytes(old):
            self._changed(new)

    async def _sync(self, key: str) -> str | None:
        claim = self._claims.get(key)
        if claim is None:
            return None
        name = claim["spec"].get("volumeName", "")
        live = await self._client.get(VOLUMES, "", name)
        if not live.ok:
            return f'failed to get PV "{name}": {live.message}'
        if (live.obj["spec"].get("claimRef") or {}).get("uid") != uid_of(claim):
            return f"persistent Volume is not bound to PVC being updated : {key}"
        grown = self._env.names.annotation_pre_resize_capacity in annotations_of(live.obj)
        if requested_bytes(claim) > claimed_bytes(claim) or grown:
            return await self._leave(claim, live.obj)
        return None

    async def _leave(self, claim: Obj, volume: Obj) -> str | None:
        """Leave a claim to another process, and say so."""
        names = self._env.names
        moved = next((each for source, each in MIGRATED.items() if source in volume["spec"]), None)
        if moved is None:
            # Quirk: the one plugin that is known and does not expand makes the event a normal one.
            kind: EventKind = "Normal" if "fc" in volume["spec"] else "Warning"
            self._recorder.event(claim, kind, "ExternalExpanding", IGNORED)
            return None
        plugin, driver = names.in_tree(moved.plugin), moved.driver
        text = f"CSI migration enabled for {plugin}; waiting for external resizer to expand the pvc"
        self._recorder.event(claim, "Normal", "ExternalExpanding", text)
        key = names.annotation_storage_resizer
        if annotations_of(claim).get(key) == driver:
            return None
        patch = {"metadata": {"annotations": {key: driver}}}
        reply = await self._client.patch(CLAIMS, *split_key(key_of(claim)), patch, subresource="status")
        if reply.ok:
            return None
        error = f"error setting resizer annotation to pvc {key_of(claim)}, with error {reply.message}"
        self._recorder.event(claim, "Warning", "ExternalExpanding", error)
        return error
