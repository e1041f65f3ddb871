"""Ephemeral volume controller: makes the claims of generic ephemeral volumes.

Turns a pod with such volumes into one claim for each, which the pod owns.

Mirrors  kubernetes v1.25 pkg/controller/volume/ephemeral/controller.go.
"""

from __future__ import annotations

from actors.controllers.shared.pods_by_claim import CLAIM_INDEX, index_by_claim
from actors.controllers.shared.shell import Env, controller_ref, run_workers
from sim.api.kinds.common.volumes.binding import claim_name, foreign_claim_problem
from sim.api.objects import is_deleting, key_of
from sim.api.types import Obj
from sim.kernel.measure import count

CLIENT = "ephemeral-volume-controller"
COMPONENT = "ephemeral_volume"
CLAIMS = "persistentvolumeclaims"


async def start(env: Env) -> None:
    """Run the controller until its process ends."""
    await EphemeralVolumes(env).run()


def claim_for(pod: Obj, volume: Obj) -> Obj:
    """The claim of an ephemeral volume of a pod."""
    template = volume["ephemeral"]["volumeClaimTemplate"]
    given = template.get("metadata") or {}
    metadata: Obj = {
        "name": claim_name(pod, volume),
        "namespace": pod["metadata"]["namespace"],
        "ownerReferences": [controller_ref("v1", "Pod", pod)],
    }
    metadata |= {field: given[field] for field in ("annotations", "labels") if given.get(field)}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": template["spec"],
    }


class EphemeralVolumes:
    """Shell of the controller: handlers, queue, and the sync of one pod."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._client = env.client(CLIENT)
        self._recorder = env.recorder(COMPONENT, self._client)
        self._pods, self._claims = env.informers["pods"], env.informers[CLAIMS]
        self._queue = env.queue(COMPONENT)

    async def run(self) -> None:
        """Start the handlers and the workers."""
        index_by_claim(self._pods)
        self._pods.on(self._pod_added)
        self._claims.on(delete=self._claim_gone)
        await self._env.informers.start_and_sync()
        workers = self._env.options.concurrent_ephemeralvolume_syncs
        run_workers(self._env, self._queue, self._sync, workers)

    def _pod_added(self, pod: Obj) -> None:
        volumes = pod["spec"].get("volumes") or ()
        if any("ephemeral" in volume for volume in volumes) and not is_deleting(pod):
            self._queue.add(key_of(pod))

    def _claim_gone(self, claim: Obj) -> None:
        for pod in self._pods.by_index(CLAIM_INDEX, key_of(claim)):
            self._queue.add(key_of(pod))

    async def _sync(self, key: str) -> str | None:
        pod = self._pods.get(key)
        if pod is None or is_deleting(pod):
            return None
        for volume in pod["spec"].get("volumes") or ():
            if volume.get("ephemeral") is None:
                continue
            error = await self._ensure(pod, volume)
            if error:
                text = f"ephemeral volume {volume['name']}: {error}"
                self._recorder.event(pod, "Warning", "FailedBinding", text)
                return f"pod {key}, {text}"
        return None

    async def _ensure(self, pod: Obj, volume: Obj) -> str:
        """Make the claim of a volume unless it exists; returns "" or the error text."""
        claim = claim_for(pod, volume)
        stored = self._claims.get(key_of(claim))
        if stored is not None:
            return foreign_claim_problem(pod, stored)
        reply = await self._client.create(CLAIMS, pod["metadata"]["namespace"], claim)
        count(self._env.ctx.kernel, "ephemeral_volume_controller_create_total")
        if not reply.ok:
            count(self._env.ctx.kernel, "ephemeral_volume_controller_create_failures_total")
        return "" if reply.ok else f"create PVC {claim['metadata']['name']}: {reply.message}"
