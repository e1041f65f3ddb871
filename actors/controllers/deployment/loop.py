"""Deployment controller: rolls from old ReplicaSets to the one of the present template.

Turns changes of Deployments, ReplicaSets and pods into keys, and carries out the steps of each
sync.

Holds: nothing is decided here; the steps are those of `rollout`, their values those of `decide`.

Mirrors  kubernetes v1.25 pkg/controller/deployment/deployment_controller.go.
Differs  no known deviation.
"""

from __future__ import annotations

from operator import is_

from actors.controllers.deployment import decide
from actors.controllers.deployment.rollout import RESOURCE, Seen, refuse, roll_out
from actors.controllers.shared.pod_owners import (
    CONTROLLER_INDEX,
    NAMESPACE_INDEX,
    attribute_causes,
    candidates_of,
    index_by_controller,
    index_by_namespace,
    owner_ref,
    selector_of,
    selects_nothing,
)
from actors.controllers.shared.shell import Env, Owner, claim_objects, run_workers
from actors.controllers.shared.steps import Shell, SyncFailed
from sim.api.objects import (
    controller_of,
    is_deleting,
    key_of,
)
from sim.api.types import Obj

MAX_RETRIES = 15  # deployment_controller.go: maxRetries
CLIENT = "deployment-controller"


async def start(env: Env) -> None:
    """Run the Deployment controller until its process ends."""
    loop = DeploymentLoop(env)
    await env.informers.start_and_sync()
    attribute_causes(loop.queue, loop.deployments, loop.sets)
    run_workers(env, loop.queue, loop.sync, env.options.concurrent_deployment_syncs, MAX_RETRIES)


class DeploymentLoop:
    """Handlers and queue; `_Rollout` is the sync of one Deployment."""

    def __init__(self, env: Env) -> None:
        self.env = env
        self.names = env.names
        self.client = env.client(CLIENT)
        self.recorder = env.recorder(CLIENT, self.client)
        self.queue = env.queue("deployment")
        self.queue.returns = self._is_overdue
        self.shell = Shell(env.ctx, self.client, self.recorder, self.queue)
        self.api_version = env.scheme.resource(RESOURCE).api_version
        self.deployments = env.informers[RESOURCE]
        self.sets = env.informers["replicasets"]
        self.pods = env.informers["pods"]
        self._overdue: dict[str, tuple[Obj, list[Obj]]] = {}
        index_by_namespace(self.deployments)
        index_by_controller(self.sets)
        index_by_controller(self.pods)
        self.deployments.on(
            add=self._changed, update=lambda old, new: self._changed(new), delete=self._changed
        )
        self.sets.on(add=self._set_added, update=self._set_updated, delete=self._set_deleted)
        self.pods.on(delete=self._pod_deleted)

    def _changed(self, deployment: Obj) -> None:
        self.queue.add(key_of(deployment))

    def _owner(self, obj: Obj, ref: Obj) -> Obj | None:
        if ref["kind"] != "Deployment":
            return None
        owner = self.deployments.get(f"{obj['metadata']['namespace']}/{ref['name']}")
        return owner if owner is not None and owner["metadata"]["uid"] == ref["uid"] else None

    def _set_added(self, rs: Obj) -> None:
        if is_deleting(rs):
            self._set_deleted(rs)
            return
        ref = controller_of(rs)
        if ref is None:
            self._queue_matching(rs)
        else:
            self._queue_owner(rs, ref)

    def _set_updated(self, old: Obj, new: Obj) -> None:
        if old["metadata"].get("resourceVersion") == new["metadata"].get("resourceVersion"):
            return
        before, ref = controller_of(old), controller_of(new)
        if before != ref and before is not None:
            self._queue_owner(old, before)
        if ref is not None:
            self._queue_owner(new, ref)
        elif before is not None or old["metadata"].get("labels") != new["metadata"].get("labels"):
            self._queue_matching(new)

    def _set_deleted(self, rs: Obj) -> None:
        ref = controller_of(rs)
        if ref is not None:
            self._queue_owner(rs, ref)

    def _queue_owner(self, rs: Obj, ref: Obj) -> None:
        owner = self._owner(rs, ref)
        if owner is not None:
            self.queue.add(key_of(owner))

    def _queue_matching(self, rs: Obj) -> None:
        for deployment in self.deployments.by_index(NAMESPACE_INDEX, rs["metadata"]["namespace"]):
            if not selects_nothing(deployment) and selector_of(deployment)(rs):
                self.queue.add(key_of(deployment))

    def _pod_deleted(self, pod: Obj) -> None:
        """Queue a Recreate Deployment without pods; ReplicaSet events cover all other cases."""
        ref = controller_of(pod)
        if ref is None or ref["kind"] != "ReplicaSet":
            return
        rs = self.sets.get(f"{pod['metadata']['namespace']}/{ref['name']}")
        if rs is None or rs["metadata"]["uid"] != ref["uid"]:
            return
        set_ref = controller_of(rs)
        owner = self._owner(rs, set_ref) if set_ref is not None else None
        if owner is not None and not decide.is_rolling(owner):
            self.env.ctx.spawn(self._queue_if_podless, owner, name="deployment-recreate")

    async def _queue_if_podless(self, deployment: Obj) -> None:
        meta = deployment["metadata"]
        reply = await self.client.list("replicasets", meta["namespace"])
        if not reply.ok:
            return
        matches = selector_of(deployment)
        for item in reply.items or ():
            ref = controller_of(item.obj)
            if ref is not None and ref["uid"] == meta["uid"] and matches(item.obj):
                if any(map(matches, self.pods.by_index(CONTROLLER_INDEX, item.obj["metadata"]["uid"]))):
                    return
        self.queue.add(key_of(deployment))

    async def sync(self, key: str) -> str | None:
        """Advance the rollout of one Deployment; returns an error text or None."""
        if self._is_overdue(key):
            self.queue.add_rate_limited(key)
            return None
        self._overdue.pop(key, None)
        deployment = self.deployments.get(key)
        if deployment is None:
            return None
        try:
            return await self._roll_out(key, deployment)
        except SyncFailed as failure:
            return None if failure.silent else str(failure)

    async def _roll_out(self, key: str, deployment: Obj) -> str | None:
        """Adopt and release ReplicaSets, then carry out the steps of the rollout.

        Quirk: a Deployment that was complete and lost pods is requeued at the rate of the queue
        after its progress deadline, until it is complete again, as upstream.
        """
        if selects_nothing(deployment):
            await self.shell.carry_out(refuse(deployment, self._seen(deployment)))
            return None
        candidates, matches = candidates_of(self.sets, deployment), selector_of(deployment)
        identity = Owner(deployment, RESOURCE, self.api_version, "Deployment")
        owned, error = await claim_objects(self.client, identity, "replicasets", candidates, matches)
        if error is not None:
            return error
        overdue = await self.shell.carry_out(roll_out(deployment, owned, self._seen(deployment)))
        if overdue and len(owned) == len(candidates):
            self._overdue[key] = deployment, candidates
        return None

    def _seen(self, deployment: Obj) -> Seen:
        def pods_of(uid: str) -> list[Obj]:
            return self.pods.by_index(CONTROLLER_INDEX, uid)

        reference = owner_ref(self.env, RESOURCE, deployment)
        return Seen(self.names, reference, self.sets.get, pods_of, self.env.ctx.wall_us())

    def _is_overdue(self, key: str) -> bool:
        """True if a sync would only requeue the key, as the last one did."""
        deployment, candidates = self._overdue.get(key, (None, ()))
        if deployment is None or self.deployments.get(key) is not deployment:
            return False
        now = candidates_of(self.sets, deployment)
        return len(now) == len(candidates) and all(map(is_, now, candidates))
