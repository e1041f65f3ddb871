"""StatefulSet loop: pods with a name and claims of their own, made, updated and deleted in order.

Turns a set, its revisions and its pods into acts (`statefulset_decide.steps`), claims, events and a status.

Holds: a pod of a name is made only when no object of that name is there; claims are made before their pod and
never deleted.

Mirrors  kubernetes v1.25 pkg/controller/statefulset/{stateful_set.go,stateful_set_control.go,stateful_pod_control.go}.
Differs  volumes of claims stand before the template's own, in the order of the claim templates (upstream:
         in map order).
"""

from __future__ import annotations

from collections.abc import Sequence

from actors.controllers import revisions as history
from actors.controllers.pod_owners import (
    PodEvents,
    candidates_of,
    index_by_controller,
    index_by_namespace,
    key_of,
    owner_ref,
    selector_of,
)
from actors.controllers.pod_template_hash import revision_data, revision_hash, revision_json
from actors.controllers.shell import Env, Owner, claim_objects, run_workers
from actors.controllers.statefulset_decide import (
    Plan,
    Revisions,
    Verb,
    claims_of,
    ordinal_of,
    replicas_of,
    status_of,
    steps,
)
from sim.machinery.api import Obj, Reply
from sim.units import MS, SECOND

RESOURCE = "statefulsets"
STATUS_TRIES, STATUS_WAIT_US = 5, 10 * MS  # client-go retry.DefaultRetry
NAME_MAX = 223  # stateful_set_utils / history: prefix of a revision's name


async def start(env: Env) -> None:
    loop = StatefulSetLoop(env)
    await env.informers.start_and_sync()
    run_workers(env, loop.queue, loop.sync, env.options.concurrent_statefulset_syncs)


def template_of(revision: Obj) -> Obj:
    template = revision["data"]["spec"]["template"]
    return {k: v for k, v in template.items() if k != "$patch"}


class StatefulSetLoop:
    def __init__(self, env: Env) -> None:
        self.env = env
        self.names = env.names
        self.hash_label = f"controller.{env.names.domain}/hash"
        self.resource = env.scheme.resource(RESOURCE)
        self.client = env.client("statefulset-controller")
        self.recorder = env.recorder("statefulset-controller", self.client)
        self.queue = env.queue("statefulset")
        self.sets = env.informers[RESOURCE]
        self.pods = env.informers["pods"]
        self.claims = env.informers["persistentvolumeclaims"]
        self.revisions = env.informers["controllerrevisions"]
        index_by_namespace(self.sets)
        index_by_controller(self.pods)
        index_by_controller(self.revisions)
        self.sets.on(add=self._changed, update=lambda old, new: self._changed(new), delete=self._changed)
        PodEvents("StatefulSet", self.sets, self.queue).attach(self.pods)

    def _changed(self, owner: Obj) -> None:
        self.queue.add(key_of(owner))

    async def sync(self, key: str) -> str | None:
        owner = self.sets.get(key)
        if owner is None:
            return None
        identity = Owner(owner, RESOURCE, self.resource.api_version, self.resource.kind)
        revisions, error = await history.claimed(self.client, self.revisions, identity)
        if error is not None:
            return error
        members = [pod for pod in candidates_of(self.pods, owner) if ordinal_of(owner, pod) >= 0]
        pods, error = await claim_objects(self.client, identity, "pods", members, selector_of(owner))
        if error is not None:
            return error
        return await self._update(owner, revisions, sorted(pods, key=key_of))

    async def _update(self, owner: Obj, revisions: Sequence[Obj], pods: Sequence[Obj]) -> str | None:
        found = await self._sync_revisions(owner, revisions)
        if isinstance(found, str):
            return found
        pair, collisions = found
        plan = Plan(
            owner, owner_ref(self.env, RESOURCE, owner), pair, pods, self.names, self.env.ctx.wall_us()
        )
        error = await self._run(plan)
        status = status_of(plan, collisions)
        refused = await self._write_status(owner, status)
        if error is not None or refused is not None:
            return error or refused
        live = [pair.current, pair.update, *(plan.revision_of(pod) for pod in pods)]
        limit = owner["spec"].get("revisionHistoryLimit", 10)
        for revision in history.prunable(revisions, live, limit):
            meta = revision["metadata"]
            reply = await self.client.delete(history.RESOURCE, meta["namespace"], meta["name"])
            if not reply.ok and reply.reason != "NotFound":
                return reply.message
        min_ready_s = owner["spec"].get("minReadySeconds") or 0
        if min_ready_s and status["availableReplicas"] != replicas_of(owner):
            self.queue.add_after_us(key_of(owner), min_ready_s * SECOND)
        return None

    # --- acts ---------------------------------------------------------------------------------------------

    async def _run(self, plan: Plan) -> str | None:
        acts = steps(plan)
        answer: str | None = None
        while True:
            try:
                act = acts.send(answer)
            except StopIteration as ended:
                error: str | None = ended.value
                return error
            answer = None
            if act.verb is Verb.RECREATE:
                meta, name = plan.owner["metadata"], act.pod["metadata"]["name"]
                text = f"StatefulSet {meta['namespace']}/{meta['name']} is recreating failed Pod {name}"
                self.recorder.event(plan.owner, "Warning", "RecreatingFailedPod", text)
            elif act.verb is Verb.CREATE:
                answer = await self._create(plan.owner, act.pod)
            elif act.verb is Verb.UPDATE:
                answer = await self._repair(plan.owner, act.pod)
            else:
                meta = act.pod["metadata"]
                reply = await self.client.delete("pods", meta["namespace"], meta["name"])
                self._pod_event("delete", plan.owner, act.pod, reply)
                answer = None if reply.ok else reply.message

    def _pod_event(self, verb: str, owner: Obj, pod: Obj, reply: Reply) -> None:
        text = f"{verb} Pod {pod['metadata']['name']} in StatefulSet {owner['metadata']['name']}"
        if reply.ok:
            self.recorder.event(owner, "Normal", f"Successful{verb.title()}", f"{text} successful")
        else:
            self.recorder.event(
                owner, "Warning", f"Failed{verb.title()}", f"{text} failed error: {reply.message}"
            )

    async def _create(self, owner: Obj, pod: Obj) -> str | None:
        error = await self._create_claims(owner, pod)
        if error is not None:
            text = f"create Pod {pod['metadata']['name']} in StatefulSet {owner['metadata']['name']}"
            self.recorder.event(owner, "Warning", "FailedCreate", f"{text} failed error: {error}")
            return error
        reply = await self.client.create("pods", owner["metadata"]["namespace"], pod)
        if reply.reason == "AlreadyExists":
            # the pod of that name lingers, or is another's: told to nobody, tried again
            return reply.message
        self._pod_event("create", owner, pod, reply)
        return None if reply.ok else reply.message

    async def _create_claims(self, owner: Obj, pod: Obj) -> str | None:
        namespace, name = owner["metadata"]["namespace"], pod["metadata"]["name"]
        first: str | None = None
        for _, claim in claims_of(owner, ordinal_of(owner, pod)):
            claim_name = claim["metadata"]["name"]
            stored = self.claims.get(f"{namespace}/{claim_name}")
            if stored is not None:
                if "deletionTimestamp" in stored["metadata"]:
                    first = first or f"pvc {claim_name} is being deleted"
                continue
            reply = await self.client.create("persistentvolumeclaims", namespace, claim)
            set_name = owner["metadata"]["name"]
            if reply.ok or reply.reason == "AlreadyExists":
                text = f"create Claim {claim_name} Pod {name} in StatefulSet {set_name} success"
                if reply.ok:
                    self.recorder.event(owner, "Normal", "SuccessfulCreate", text)
                continue
            text = f"create Claim {claim_name} for Pod {name} in StatefulSet {set_name} failed error: {reply.message}"
            self.recorder.event(owner, "Warning", "FailedCreate", text)
            first = first or f"failed to create PVC {claim_name}: {reply.message}"
        return first

    async def _repair(self, owner: Obj, pod: Obj) -> str | None:
        error = await self._create_claims(owner, pod)
        if error is not None:
            return error
        reply = await self.client.update("pods", pod)
        self._pod_event("update", owner, pod, reply)
        return None if reply.ok else reply.message

    async def _write_status(self, owner: Obj, status: Obj) -> str | None:
        stored = owner.get("status") or {}
        if all(stored.get(k) == status.get(k) for k in {**stored, **status} if k != "conditions"):
            return None
        meta = owner["metadata"]
        message = ""
        for _ in range(STATUS_TRIES):
            kept = (
                {"conditions": owner["status"]["conditions"]}
                if (owner.get("status") or {}).get("conditions")
                else {}
            )
            reply = await self.client.update(
                RESOURCE, {**owner, "status": {**status, **kept}}, subresource="status"
            )
            if reply.ok:
                return None
            message = reply.message
            if reply.reason != "Conflict":
                break
            await self.env.ctx.sleep_us(STATUS_WAIT_US)
            owner = self.sets.get(key_of(owner)) or owner
            if owner["metadata"]["uid"] != meta["uid"]:
                break
        return message

    # --- revisions ----------------------------------------------------------------------------------------

    async def _sync_revisions(self, owner: Obj, revisions: Sequence[Obj]) -> tuple[Revisions, int] | str:
        """The current and the update revision (made, reused or renumbered), and the collision count."""
        collisions = int(owner.get("status", {}).get("collisionCount", 0))
        template = owner["spec"]["template"]
        data = revision_data(template)
        equal = [revision for revision in revisions if revision["data"] == data]
        if equal and equal[-1] is revisions[-1]:
            update = equal[-1]
        elif equal:
            reply = await history.renumber(self.client, equal[-1], history.next_number(revisions))
            if not reply.ok:
                return reply.message
            update = reply.obj
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
        namespace = owner["metadata"]["namespace"]
        labels = (owner["spec"]["template"].get("metadata") or {}).get("labels") or {}
        ref = owner_ref(self.env, RESOURCE, owner)
        while True:
            hashed = revision_hash(revision_json(data), collisions)
            name = f"{owner['metadata']['name'][:NAME_MAX]}-{hashed}"
            made = history.make_revision(owner, ref, name, {**labels, self.hash_label: hashed}, data, number)
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
