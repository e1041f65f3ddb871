"""PV protection controller: removes the finalizer of a deleted volume that no claim is bound to.

Mirrors  kubernetes v1.25 pkg/controller/volume/pvprotection/pv_protection_controller.go.
"""

from __future__ import annotations

from actors.controllers.shared.shell import Env, run_workers
from actors.controllers.volume_protection import decide
from sim.api.objects import is_deleting, key_of
from sim.api.types import Obj

CLIENT = "pv-protection-controller"
VOLUMES = "persistentvolumes"
WORKERS = 1  # app/core.go: startPVProtectionController


async def start(env: Env) -> None:
    """Run the controller until its process ends."""
    client, volumes = env.client(CLIENT), env.informers[VOLUMES]
    queue = env.queue("pvprotection")
    finalizer = env.names.finalizer_volume_protection

    def changed(volume: Obj) -> None:
        if decide.needs_sync(volume, finalizer):
            queue.add(key_of(volume))

    async def sync(key: str) -> str | None:
        volume = volumes.get(key)
        if volume is None or not decide.needs_sync(volume, finalizer):
            return None
        if not is_deleting(volume):
            written = decide.protected(volume, finalizer)
        elif decide.is_bound(volume):
            return None
        else:
            written = decide.released(volume, finalizer)
        reply = await client.update(VOLUMES, written)
        return None if reply.ok else reply.message

    volumes.on(add=changed, update=lambda _, new: changed(new))
    await env.informers.start_and_sync()
    run_workers(env, queue, sync, WORKERS)
