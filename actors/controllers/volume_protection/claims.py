"""PVC protection controller: removes the finalizer of a deleted claim that no pod uses.

Turns events of claims and pods into updates of the claims' finalizers.

Holds: before a claim is released, the pods of its namespace are read from the API server, since
       the informer may not know the newest.

Mirrors  kubernetes v1.25 pkg/controller/volume/pvcprotection/pvc_protection_controller.go.
"""

from __future__ import annotations

from actors.controllers.shared.pod_owners import NAMESPACE_INDEX, index_by_namespace
from actors.controllers.shared.pods_by_claim import claim_keys
from actors.controllers.shared.shell import Env, run_workers
from actors.controllers.volume_protection import decide
from sim.api.objects import is_deleting, key_of, uid_of
from sim.api.types import Obj

CLIENT = "pvc-protection-controller"
CLAIMS = "persistentvolumeclaims"
WORKERS = 1  # app/core.go: startPVCProtectionController


async def start(env: Env) -> None:
    """Run the controller until its process ends."""
    await ClaimProtection(env).run()


class ClaimProtection:
    """Shell of the controller: handlers, queue, and the sync of one claim."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._client = env.client(CLIENT)
        self._claims = env.informers[CLAIMS]
        self._pods = env.informers["pods"]
        self._queue = env.queue("pvcprotection")
        self._finalizer = env.names.finalizer_claim_protection

    async def run(self) -> None:
        """Start the handlers and the workers."""
        index_by_namespace(self._pods)
        self._claims.on(add=self._changed, update=lambda _, new: self._changed(new))
        self._pods.on(add=self._pod_changed, update=self._pod_updated, delete=self._pod_gone)
        await self._env.informers.start_and_sync()
        run_workers(self._env, self._queue, self._sync, WORKERS)

    def _changed(self, claim: Obj) -> None:
        if decide.needs_sync(claim, self._finalizer):
            self._queue.add(key_of(claim))

    def _pod_changed(self, pod: Obj) -> None:
        keys = claim_keys(pod)
        if keys and decide.may_release(pod):  # few pods have claims: the cheaper question comes first
            for key in keys:
                self._queue.add(key)

    def _pod_updated(self, old: Obj, new: Obj) -> None:
        self._pod_changed(new)
        if uid_of(old) != uid_of(new):  # the deletion in between was not seen
            self._pod_gone(old)

    def _pod_gone(self, pod: Obj) -> None:
        for key in claim_keys(pod):
            self._queue.add(key)

    async def _sync(self, key: str) -> str | None:
        claim = self._claims.get(key)
        if claim is None or not decide.needs_sync(claim, self._finalizer):
            return None
        if not is_deleting(claim):
            return await self._write(decide.protected(claim, self._finalizer))
        namespace = claim["metadata"]["namespace"]
        if decide.is_used(claim, self._pods.by_index(NAMESPACE_INDEX, namespace)):
            return None
        live = await self._client.list("pods", namespace)
        if not live.ok:
            return f"live list of pods failed: {live.message}"
        if decide.is_used(claim, [item.obj for item in live.items or ()]):
            return None
        return await self._write(decide.released(claim, self._finalizer))

    async def _write(self, claim: Obj) -> str | None:
        reply = await self._client.update(CLAIMS, claim)
        return None if reply.ok else reply.message
