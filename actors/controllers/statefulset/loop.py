"""StatefulSet controller: creates, updates and deletes pods with stable names and claims, in order.

Turns a set, its revisions and its pods into acts (`statefulset_decide.steps`), claims, events and a
status.

Holds: a pod is created only if no pod of its name exists; claims are created before their pod and
       are never deleted here (with the gate StatefulSetAutoDeletePVC they get owner references, and
       the garbage collector deletes them).

Mirrors  kubernetes v1.25
         pkg/controller/statefulset/{stateful_set.go,stateful_set_control.go,
         stateful_pod_control.go}.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, assert_never

from actors.controllers.shared import revisions as history
from actors.controllers.shared.pod_owners import (
    PodEvents,
    candidates_of,
    index_by_controller,
    index_by_namespace,
    owner_ref,
    selector_of,
)
from actors.controllers.shared.pod_template_hash import revision_data
from actors.controllers.shared.shell import (
    BACKOFF_US,
    RETRY_US,
    Env,
    Owner,
    aggregate,
    claim_objects,
    retry_on_conflict,
    run_workers,
)
from actors.controllers.statefulset.claims import Retention, claims_of, storage_matches, with_storage
from actors.controllers.statefulset.decide import (
    Plan,
    Revisions,
    Verb,
    is_inconsistent,
    is_member,
    new_revision,
    ordinal_of,
    status_of,
    steps,
    with_identity,
)
from sim.api.objects import key_of, replicas_of
from sim.api.types import Obj, Reply
from sim.options.features.gates import CLAIM_RETENTION, MAX_UNAVAILABLE, enabled
from sim.units import SECOND

RESOURCE = "statefulsets"
CLIENT = "statefulset-controller"


async def start(env: Env) -> None:
    """Run the StatefulSet controller until its process ends."""
    loop = StatefulSetLoop(env)
    await env.informers.start_and_sync()
    run_workers(env, loop.queue, loop.sync, env.options.concurrent_statefulset_syncs)


def template_of(revision: Obj) -> Obj:
    """The pod template that a revision holds."""
    template = revision["data"]["spec"]["template"]
    return {k: v for k, v in template.items() if k != "$patch"}


def _error(reply: Reply) -> str | None:
    return None if reply.ok else reply.message


def _plain_ref(api_version: str, kind: str, owner: Obj) -> Obj:
    """An owner reference that is not the controller's; the uid is empty for a pod to be created."""
    meta = owner["metadata"]
    return {"apiVersion": api_version, "kind": kind, "name": meta["name"], "uid": meta.get("uid", "")}


class StatefulSetLoop:
    """Shell of the controller: handlers, queue, and the sync of one set."""

    def __init__(self, env: Env) -> None:
        self.env = env
        self.names = env.names
        self.resource = env.scheme.resource(RESOURCE)
        self.client = env.client(CLIENT)
        self.recorder = env.recorder("statefulset-controller", self.client)
        self.queue = env.queue("statefulset")
        self.sets = env.informers[RESOURCE]
        self.pods = env.informers["pods"]
        self.claims = env.informers["persistentvolumeclaims"]
        self.revisions = env.informers["controllerrevisions"]
        gates = env.options.feature_gates
        self._max_unavailable_enabled = enabled(gates, MAX_UNAVAILABLE)
        self._retention_enabled = enabled(gates, CLAIM_RETENTION)
        index_by_namespace(self.sets)
        index_by_controller(self.pods)
        index_by_controller(self.revisions)
        self.sets.on(add=self._changed, update=lambda old, new: self._changed(new), delete=self._changed)
        PodEvents("StatefulSet", self.sets, self.queue).attach(self.pods)

    def _changed(self, owner: Obj) -> None:
        self.queue.add(key_of(owner))

    async def sync(self, key: str) -> str | None:
        """Make the next changes to the pods of one set; returns an error text or None."""
        owner = self.sets.get(key)
        if owner is None:
            return None
        identity = Owner(owner, RESOURCE, self.resource.api_version, self.resource.kind)
        error = await history.adopt_orphans(self.client, self.revisions, identity)
        if error is not None:
            return error
        matches = selector_of(owner)
        pods, error = await claim_objects(
            self.client,
            identity,
            "pods",
            candidates_of(self.pods, owner),
            lambda pod: matches(pod) and is_member(owner, pod),
        )
        if error is not None:
            return error
        return await self._update(owner, sorted(pods, key=key_of))

    async def _update(self, owner: Obj, pods: Sequence[Obj]) -> str | None:
        revisions = history.listed(self.revisions, owner)
        label = self.names.label_controller_revision_hash
        live = [(pod["metadata"].get("labels") or {}).get(label, "") for pod in pods]
        found = await self._sync_revisions(owner, revisions)
        if isinstance(found, str):
            # Quirk: here the revisions that the status refers to are not protected.
            await self._truncate_history(owner, revisions, live)
            return found
        pair, collisions = found
        plan = Plan(
            owner,
            owner_ref(self.env, RESOURCE, owner),
            pair,
            pods,
            self.names,
            self.env.ctx.wall_us(),
            self._max_unavailable_enabled,
            self._retention(owner) if self._retention_enabled else None,
        )
        error = await self._run(plan)
        status = status_of(plan, collisions)
        refused = await self._write_status(owner, status)
        untidy = await self._truncate_history(owner, revisions, [pair.current, pair.update, *live])
        if (error := error or refused or untidy) is not None:
            return error
        min_ready_s = owner["spec"].get("minReadySeconds") or 0
        if min_ready_s and status["availableReplicas"] != replicas_of(owner):
            self.queue.add_after_us(key_of(owner), min_ready_s * SECOND)
        return None

    async def _truncate_history(
        self, owner: Obj, revisions: Sequence[Obj], live: Sequence[str]
    ) -> str | None:
        limit = owner["spec"].get("revisionHistoryLimit", 10)
        for revision in history.prunable(revisions, live, limit):
            meta = revision["metadata"]
            reply = await self.client.delete(history.RESOURCE, meta["namespace"], meta["name"])
            if not reply.ok:
                return reply.message
        return None

    # --- acts -------------------------------------------------------------------------------------

    async def _run(self, plan: Plan) -> str | None:
        acts = steps(plan)
        error: str | None = None
        while True:
            try:
                act = acts.send(error)
            except StopIteration as ended:
                result: str | None = ended.value
                return result
            error = None
            match act.verb:
                case Verb.RECREATE:
                    meta, name = plan.owner["metadata"], act.pod["metadata"]["name"]
                    text = f"StatefulSet {meta['namespace']}/{meta['name']} is recreating failed Pod {name}"
                    self.recorder.event(plan.owner, "Warning", "RecreatingFailedPod", text)
                case Verb.CREATE:
                    error = await self._create(plan, act.pod)
                case Verb.UPDATE:
                    error = await self._repair(plan, act.pod)
                case Verb.RETAIN:
                    error = await self._retain(plan, act.pod)
                case Verb.DELETE | Verb.REPLACE:
                    meta = act.pod["metadata"]
                    reply = await self.client.delete("pods", meta["namespace"], meta["name"])
                    error = self._record_outcome("delete", plan.owner, act.pod, _error(reply))
                    if act.verb is Verb.REPLACE and reply.reason == "NotFound":
                        error = None
                case _:
                    assert_never(act.verb)

    def _record_outcome(
        self, verb: Literal["create", "update", "delete"], owner: Obj, pod: Obj, error: str | None
    ) -> str | None:
        """Record the event of an act on a pod; returns the error."""
        text = f"{verb} Pod {pod['metadata']['name']} in StatefulSet {owner['metadata']['name']}"
        if error is None:
            self.recorder.event(owner, "Normal", f"Successful{verb.title()}", f"{text} successful")
        else:
            self.recorder.event(owner, "Warning", f"Failed{verb.title()}", f"{text} failed error: {error}")
        return error

    async def _create(self, plan: Plan, pod: Obj) -> str | None:
        owner = plan.owner
        error = await self._create_claims(owner, pod)
        if error is not None:
            return self._record_outcome("create", owner, pod, error)
        reply = await self.client.create("pods", owner["metadata"]["namespace"], pod)
        if reply.reason == "AlreadyExists":
            # The former pod still terminates, or another owner has it: retried without an event.
            return reply.message
        error = await self._retain(plan, pod)
        if error is not None:
            return self._record_outcome("update", owner, pod, error)
        return self._record_outcome("create", owner, pod, _error(reply))

    async def _create_claims(self, owner: Obj, pod: Obj) -> str | None:
        namespace, name = owner["metadata"]["namespace"], pod["metadata"]["name"]
        errors: list[str] = []
        for _, claim in claims_of(owner, ordinal_of(owner, pod)):
            claim_name = claim["metadata"]["name"]
            stored = self.claims.get(f"{namespace}/{claim_name}")
            if stored is not None:
                if "deletionTimestamp" in stored["metadata"]:
                    errors.append(f"pvc {claim_name} is being deleted")
                continue
            reply = await self.client.create("persistentvolumeclaims", namespace, claim)
            set_name = owner["metadata"]["name"]
            if reply.ok:
                text = f"create Claim {claim_name} Pod {name} in StatefulSet {set_name} success"
                self.recorder.event(owner, "Normal", "SuccessfulCreate", text)
                continue
            errors.append(f"failed to create PVC {claim_name}: {reply.message}")
            if reply.reason != "AlreadyExists":
                text = f"create Claim {claim_name} for Pod {name} in StatefulSet {set_name}"
                self.recorder.event(owner, "Warning", "FailedCreate", f"{text} failed error: {reply.message}")
        return aggregate(errors)

    def _retention(self, owner: Obj) -> Retention:
        namespace = owner["metadata"]["namespace"]
        pods = self.env.scheme.resource("pods")
        return Retention(
            owner,
            _plain_ref(self.resource.api_version, self.resource.kind, owner),
            lambda pod: _plain_ref(pods.api_version, pods.kind, pod),
            lambda name: self.claims.get(f"{namespace}/{name}"),
        )

    async def _retain(self, plan: Plan, pod: Obj) -> str | None:
        """Set the owner references of a pod's claims; returns an error text or None."""
        if plan.retention is None:
            return None
        for claim in plan.retention.changed(pod, ordinal_of(plan.owner, pod)):
            reply = await self.client.update("persistentvolumeclaims", claim)
            if not reply.ok:
                name = claim["metadata"]["name"]
                return f"Could not update claim {name} for delete policy ownerRefs: {reply.message}"
        return None

    async def _repair(self, plan: Plan, pod: Obj) -> str | None:
        """Restore the identity and the claims of a pod; after a conflict, use the cached pod."""
        owner = plan.owner
        failed: str | None = None  # error of the last attempt before its write

        async def attempt() -> Reply:
            nonlocal pod, failed
            ordinal, failed = ordinal_of(owner, pod), None
            repaired = with_identity(owner, pod, ordinal, self.names)
            # Volumes that match stay as they are: another order would be a forbidden change.
            if not storage_matches(owner, pod, ordinal):
                repaired = with_storage(owner, repaired, ordinal)
                failed = await self._create_claims(owner, pod)
            failed = failed or await self._retain(plan, pod)
            if failed is not None:
                return Reply(0)
            reply = await self.client.update("pods", repaired)
            pod = self.pods.get(key_of(pod)) or pod
            return reply

        reply = await retry_on_conflict(self.env.ctx, BACKOFF_US, attempt)
        return self._record_outcome("update", owner, pod, failed or _error(reply))

    async def _write_status(self, owner: Obj, status: Obj) -> str | None:
        if not is_inconsistent(owner.get("status") or {}, status):
            return None

        async def attempt() -> Reply:
            nonlocal owner
            reply = await self.client.update(RESOURCE, {**owner, "status": status}, subresource="status")
            owner = self.sets.get(key_of(owner)) or owner
            return reply

        reply = await retry_on_conflict(self.env.ctx, RETRY_US, attempt)
        return _error(reply)

    # --- revisions --------------------------------------------------------------------------------

    async def _sync_revisions(self, owner: Obj, revisions: Sequence[Obj]) -> tuple[Revisions, int] | str:
        """(current and update revision, collision count), or an error text.

        The update revision is created, reused or renumbered.
        """
        collisions = int(owner.get("status", {}).get("collisionCount", 0))
        template = owner["spec"]["template"]
        data = revision_data(template)
        equal = [revision for revision in revisions if history.same_data(revision, data)]
        if equal and equal[-1] is revisions[-1]:
            update = equal[-1]
        elif equal:
            number, update = history.next_number(revisions), equal[-1]

            async def attempt() -> Reply:
                nonlocal update
                reply = await history.renumber(self.client, update, number)
                update = reply.obj if reply.ok else self.revisions.get(key_of(update)) or update
                return reply

            reply = await retry_on_conflict(self.env.ctx, BACKOFF_US, attempt)
            if not reply.ok:
                return reply.message
        else:
            made = await self._create_revision(owner, data, history.next_number(revisions), collisions)
            if isinstance(made, str):
                return made
            update, collisions = made
        name = update["metadata"]["name"]
        wanted = owner.get("status", {}).get("currentRevision", "")
        current = next((r for r in revisions if r["metadata"]["name"] == wanted), update)
        current_name = current["metadata"]["name"]
        current_template = template if current_name == name else template_of(current)
        return Revisions(current_name, name, current_template, template), collisions

    async def _create_revision(
        self, owner: Obj, data: Obj, number: int, collisions: int
    ) -> tuple[Obj, int] | str:
        namespace, first = owner["metadata"]["namespace"], collisions
        ref = owner_ref(self.env, RESOURCE, owner)
        while True:
            made = new_revision(owner, ref, number, self.names, first, collisions)
            name = made["metadata"]["name"]
            reply = await self.client.create(history.RESOURCE, namespace, made)
            if reply.ok:
                return reply.obj, collisions
            if reply.reason != "AlreadyExists":
                return reply.message
            live = await self.client.get(history.RESOURCE, namespace, name)
            if not live.ok:
                return live.message
            if live.obj["data"] == data:
                return live.obj, collisions
            collisions += 1
