"""Deployment controller: rolls from old ReplicaSets to the one of the present template.

Turns a Deployment and its ReplicaSets into creates and sizes of ReplicaSets, revisions, events and
a status.

Holds: a sync makes one step: after it has scaled, it writes the status and ends; all decisions are
       in `decide`.
Quirk: during a sync the Deployment keeps the resourceVersion that it was read with, so that a
       second status write in one sync conflicts and the key is retried after 5 ms, as upstream.

Mirrors  kubernetes v1.25
         pkg/controller/deployment/{deployment_controller.go,sync.go,rolling.go,recreate.go,
         rollback.go}.
Differs  no known deviation.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_

from actors.controllers.deployment import decide
from actors.controllers.shared.pod_owners import (
    CONTROLLER_INDEX,
    NAMESPACE_INDEX,
    attribute_causes,
    candidates_of,
    index_by_controller,
    index_by_namespace,
    is_terminating_refusal,
    owner_ref,
    selector_of,
    selects_nothing,
)
from actors.controllers.shared.shell import Env, Owner, claim_objects, run_workers
from sim.api.objects import (
    annotations_of,
    condition_of,
    controller_of,
    is_deleting,
    is_terminal,
    key_of,
    replicas_of,
)
from sim.api.types import Obj, Reply
from sim.units import SECOND

MAX_RETRIES = 15  # deployment_controller.go: maxRetries
RESOURCE = "deployments"
CLIENT = "deployment-controller"


async def start(env: Env) -> None:
    """Run the Deployment controller until its process ends."""
    loop = DeploymentLoop(env)
    await env.informers.start_and_sync()
    attribute_causes(loop.queue, loop.deployments, loop.sets)
    run_workers(env, loop.queue, loop.sync, env.options.concurrent_deployment_syncs, MAX_RETRIES)


class RequestFailed(Exception):
    """Ends a sync because a request failed.

    silent: True if the namespace is being deleted, so that the key is not retried
    """

    def __init__(self, message: str, silent: bool = False) -> None:
        super().__init__(message)
        self.silent = silent


def _accepted(reply: Reply) -> Obj:
    if not reply.ok:
        raise RequestFailed(reply.message, is_terminating_refusal(reply))
    return reply.obj


class DeploymentLoop:
    """Handlers and queue; `_Rollout` is the sync of one Deployment."""

    def __init__(self, env: Env) -> None:
        self.env = env
        self.names = env.names
        self.client = env.client(CLIENT)
        self.recorder = env.recorder(CLIENT, self.client)
        self.queue = env.queue("deployment")
        self.queue.returns = self._is_overdue
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
            await _Rollout(self, deployment).run()
        except RequestFailed as failure:
            return None if failure.silent else str(failure)
        return None

    def record_overdue(self, deployment: Obj, candidates: list[Obj]) -> None:
        """Remember that a sync of these objects did nothing but requeue the key.

        Until one of them changes, a sync is skipped and the key is only put back.

        Quirk: a Deployment that was complete and lost pods is requeued at the rate of the queue
        after its progress deadline, until it is complete again, as upstream.
        """
        self._overdue[key_of(deployment)] = deployment, candidates

    def _is_overdue(self, key: str) -> bool:
        """True if a sync would only requeue the key, as the last one did."""
        deployment, candidates = self._overdue.get(key, (None, ()))
        if deployment is None or self.deployments.get(key) is not deployment:
            return False
        now = candidates_of(self.sets, deployment)
        return len(now) == len(candidates) and all(map(is_, now, candidates))


class _Rollout:
    """One sync of one Deployment; `d` is the Deployment with the changes of this sync so far."""

    def __init__(self, loop: DeploymentLoop, deployment: Obj) -> None:
        self.loop = loop
        self.names = loop.names
        self.client = loop.client
        self.d = self.read = deployment
        self.candidates: list[Obj] = []
        self.sets: list[Obj] = []

    def _wall_us(self) -> int:
        return self.loop.env.ctx.wall_us()

    def _event(self, kind: str, reason: str, message: str) -> None:
        self.loop.recorder.event(self.d, kind, reason, message)

    async def run(self) -> None:
        d = self.d
        if selects_nothing(d):
            text = "This deployment is selecting all pods. A non-empty selector is required."
            self._event("Warning", "SelectingAll", text)
            generation = d["metadata"].get("generation", 0)
            if decide.counted(d, "observedGeneration") < generation:
                await self._write_status({**d.get("status", {}), "observedGeneration": generation})
            return
        identity = Owner(d, RESOURCE, self.loop.env.scheme.resource(RESOURCE).api_version, "Deployment")
        self.candidates = candidates = candidates_of(self.loop.sets, d)
        owned, error = await claim_objects(self.client, identity, "replicasets", candidates, selector_of(d))
        if error is not None:
            raise RequestFailed(error)
        self.sets = decide.by_creation(owned)
        if is_deleting(d):
            new, olds = await self._sync_revision(create=False)
            await self._status([*olds, *([new] if new else [])], new)
            return
        await self._check_paused()
        if self.d["spec"].get("paused"):
            await self._scale_and_status()
        elif decide.rollback_revision(self.d, self.names) is not None:
            await self._rollback()
        elif await self._is_scaling():
            await self._scale_and_status()
        elif decide.is_rolling(self.d):
            await self._roll()
        else:
            await self._recreate()

    # --- strategies -------------------------------------------------------------------------------

    async def _roll(self) -> None:
        new, olds = await self._sync_revision(create=True)
        assert new is not None
        rss = [*olds, new]
        size = self._size_of_new(new, olds)
        if size != replicas_of(new):
            await self._scale(new, size)
            await self._rollout_status(rss, new)
            return
        if await self._shrink_old(rss, new, olds):
            await self._rollout_status(rss, new)
            return
        if decide.is_complete(self.d, self.d.get("status", {})):
            await self._cleanup(olds)
        late = await self._rollout_status(rss, new)
        untouched = self.d is self.read and len(self.sets) == len(self.candidates)
        if late and untouched and any(rs is new for rs in self.sets) and not decide.total(olds):
            current = condition_of(self.d, decide.PROGRESSING)
            if current is not None and current.get("reason") == decide.NEW_AVAILABLE:
                self.loop.record_overdue(self.d, self.candidates)

    def _size_of_new(self, new: Obj, olds: Sequence[Obj]) -> int:
        wanted = replicas_of(self.d)
        return wanted if replicas_of(new) > wanted else decide.new_size(self.d, olds, replicas_of(new))

    async def _shrink_old(self, rss: list[Obj], new: Obj, olds: list[Obj]) -> bool:
        # ReplicaSets of size 0 have nothing to give up: their remaining pods are terminating.
        olds = decide.active(olds)
        if not olds:
            return False
        budget = decide.old_budget(self.d, rss, new)
        if budget <= 0:
            return False
        now = {rs["metadata"]["uid"]: rs for rs in olds}
        cuts, behind = decide.unhealthy_cuts(olds, budget)
        try:
            for rs, size in cuts:
                now[rs["metadata"]["uid"]] = await self._scale(rs, size)
            if behind:
                return False
            left = list(now.values())
            cut = left != olds
            for rs, size in decide.available_cuts(self.d, [*left, new], left):
                await self._scale(rs, size)
                cut = True
        except RequestFailed:
            # Quirk: upstream drops errors here, and the sync continues as if nothing was scaled.
            return False
        return cut

    async def _recreate(self) -> None:
        new, olds = await self._sync_revision(create=False)
        rss = [*olds, *([new] if new else [])]
        running = decide.active(olds)
        for rs in running:
            await self._scale(rs, 0)
        if running or self._old_pods_run(new, olds):
            await self._rollout_status(rss, new)
            return
        if new is None:
            new, olds = await self._sync_revision(create=True)
            assert new is not None
            rss = [*olds, new]
        await self._scale(new, replicas_of(self.d))
        if decide.is_complete(self.d, self.d.get("status", {})):
            await self._cleanup(olds)
        await self._rollout_status(rss, new)

    def _old_pods_run(self, new: Obj | None, olds: Sequence[Obj]) -> bool:
        if sum(decide.counted(rs, "replicas") for rs in olds):
            return True
        matches = selector_of(self.d)
        for rs in olds:
            for pod in self.loop.pods.by_index(CONTROLLER_INDEX, rs["metadata"]["uid"]):
                # Quirk: a terminating pod with changed labels is not waited for.
                if not is_terminal(pod) and matches(pod):
                    return True
        return False

    async def _is_scaling(self) -> bool:
        new, olds = await self._sync_revision(create=False)
        wanted = replicas_of(self.d)
        key = self.names.annotation_desired_replicas
        running = decide.active([*olds, *([new] if new else [])])
        return any(decide.int_annotation(rs, key) not in (None, wanted) for rs in running)

    async def _scale_and_status(self) -> None:
        new, olds = await self._sync_revision(create=False)
        rss = [*olds, *([new] if new else [])]
        await self._scale_all(new, olds)
        paused = self.d["spec"].get("paused")
        if paused and decide.rollback_revision(self.d, self.names) is None:
            await self._cleanup(olds)
        await self._status(rss, new)

    async def _scale_all(self, new: Obj | None, olds: Sequence[Obj]) -> None:
        olds = olds[::-1]  # upstream's FindActiveOrLatest leaves them newest first
        one = decide.active_or_latest(new, olds)
        if one is not None:
            await self._scale(one, replicas_of(self.d))
        elif decide.is_saturated(self.d, new, self.names):
            for rs in decide.active(olds):
                await self._scale(rs, 0)
        elif decide.is_rolling(self.d):
            rss = [*olds, *([new] if new else [])]
            sizes = decide.proportional_sizes(self.d, rss, self.names)
            # Quirk: the event names the direction of the total, even for a set that is scaled the
            # other way.
            direction = "up" if decide.to_add(self.d, rss) > 0 else "down"
            for rs, size in sizes:
                await self._scale(rs, size, direction)

    async def _scale(self, rs: Obj, size: int, direction: str = "") -> Obj:
        """Set the size of a ReplicaSet and its replicas annotations; returns the stored object.

        direction: "up" or "down" for the event; if given, changed annotations alone are written too
        """
        was = replicas_of(rs)
        meta = rs["metadata"]
        annotations = {**(meta.get("annotations") or {}), **decide.replicas_annotations(self.d, self.names)}
        if was == size and (not direction or annotations == meta.get("annotations")):
            return rs
        changed = {
            **rs,
            "metadata": {**meta, "annotations": annotations},
            "spec": {**rs["spec"], "replicas": size},
        }
        stored = _accepted(await self.client.update("replicasets", changed))
        if was != size:
            direction = direction or ("up" if size > was else "down")
            text = f"Scaled {direction} replica set {meta['name']} to {size} from {was}"
            self._event("Normal", "ScalingReplicaSet", text)
        return stored

    # --- the new ReplicaSet -----------------------------------------------------------------------

    async def _sync_revision(self, create: bool) -> tuple[Obj | None, list[Obj]]:
        """(new ReplicaSet or None, old ones from oldest to newest).

        Updates the revision and the annotations of the new ReplicaSet, or creates it if `create`.
        """
        found = decide.find_new(self.d, self.sets, self.names.label_pod_template_hash)
        olds = [rs for rs in self.sets if rs is not found]
        number = max((decide.revision(rs, self.names) for rs in olds), default=0) + 1
        if found is not None:
            return await self._refresh_new(found, number), olds
        if not create:
            return None, olds
        return await self._create_new(olds, number), olds

    async def _refresh_new(self, rs: Obj, number: int) -> Obj:
        meta = rs["metadata"]
        have = meta.get("annotations") or {}
        annotations = decide.wanted_annotations(self.d, have, number, self.names)
        min_ready_s = self.d["spec"].get("minReadySeconds") or 0
        if annotations != have or (rs["spec"].get("minReadySeconds") or 0) != min_ready_s:
            spec = rs["spec"]
            if (spec.get("minReadySeconds") or 0) != min_ready_s:
                spec = {**spec, "minReadySeconds": min_ready_s}
                if not min_ready_s:
                    del spec["minReadySeconds"]
            changed = {**rs, "metadata": {**meta, "annotations": annotations}, "spec": spec}
            return _accepted(await self.client.update("replicasets", changed))
        changed_revision = self._set_revision(annotations.get(self.names.annotation_revision, ""))
        lacks = decide.has_deadline(self.d) and condition_of(self.d, decide.PROGRESSING) is None
        if lacks:
            self._set_progress("True", "FoundNewReplicaSet", f'Found new replica set "{meta["name"]}"')
        if changed_revision or lacks:
            _accepted(await self._put_status())
        return rs

    async def _create_new(self, olds: Sequence[Obj], number: int) -> Obj:
        d, names = self.d, self.names
        size = decide.new_size(d, olds, 0)
        made = decide.new_replica_set(d, owner_ref(self.loop.env, RESOURCE, d), number, size, names)
        name = made["metadata"]["name"]
        reply = await self.client.create("replicasets", d["metadata"]["namespace"], made)
        existed = False
        if reply.reason == "AlreadyExists":
            stored = await self._existing(made, reply)
            existed = True
        elif not reply.ok:
            if is_terminating_refusal(reply):
                raise RequestFailed(reply.message, True)
            text = f'Failed to create new replica set "{name}": {reply.message}'
            if decide.has_deadline(d):
                self._set_progress("False", "ReplicaSetCreateError", text)
                await self._put_status()
            self._event("Warning", "ReplicaSetCreateError", text)
            raise RequestFailed(reply.message)
        else:
            stored = reply.obj
        if not existed and size:
            self._event("Normal", "ScalingReplicaSet", f"Scaled up replica set {name} to {size}")
        changed = self._set_revision(str(number))
        if not existed and decide.has_deadline(d):
            self._set_progress("True", "NewReplicaSetCreated", f'Created new replica set "{name}"')
            changed = True
        if changed:
            _accepted(await self._put_status())
        return stored

    async def _existing(self, made: Obj, reply: Reply) -> Obj:
        """The stored ReplicaSet after a create found the name in use.

        If it is not the new ReplicaSet of this Deployment, the hashes collide: the collision count
        grows and the sync fails.
        """
        found = self.loop.sets.get(f"{self.d['metadata']['namespace']}/{made['metadata']['name']}")
        if found is None:
            raise RequestFailed(reply.message)
        ref = controller_of(found)
        label = self.names.label_pod_template_hash
        if ref is not None and ref["uid"] == self.d["metadata"]["uid"]:
            if decide.same_template(self.d["spec"]["template"], found["spec"]["template"], label):
                return found
        status = self.d.get("status", {})
        self.d = {**self.d, "status": {**status, "collisionCount": status.get("collisionCount", 0) + 1}}
        await self._put_status()
        raise RequestFailed(reply.message)

    def _set_revision(self, number: str) -> bool:
        meta = self.d["metadata"]
        have = meta.get("annotations") or {}
        if have.get(self.names.annotation_revision, "") == number:
            return False
        annotations = {**have, self.names.annotation_revision: number}
        self.d = {**self.d, "metadata": {**meta, "annotations": annotations}}
        return True

    def _set_progress(self, status: str, reason: str, message: str) -> None:
        made = decide.make_condition(decide.PROGRESSING, status, reason, message, self._wall_us())
        self.d = decide.with_status(self.d, decide.with_condition(decide.conditions_of(self.d), made))

    # --- status, history, rollback ----------------------------------------------------------------

    async def _put_status(self) -> Reply:
        return await self.client.update(RESOURCE, self.d, subresource="status")

    async def _write_status(self, status: Obj) -> None:
        self.d = {**self.d, "status": status}
        _accepted(await self._put_status())

    async def _status(self, rss: Sequence[Obj], new: Obj | None) -> None:
        status = decide.base_status(self.d, rss, new, self._wall_us())
        if status != self.d.get("status"):
            await self._write_status(status)

    async def _rollout_status(self, rss: Sequence[Obj], new: Obj | None) -> bool:
        """Write the status if it differs, else queue the key for the progress deadline.

        Returns True if the deadline is over.
        """
        status = decide.rollout_status(self.d, rss, new, self._wall_us())
        if status != self.d.get("status"):
            await self._write_status(status)
            return False
        current = condition_of(self.d, decide.PROGRESSING)
        if current is None or not decide.has_deadline(self.d):
            return False
        if decide.is_complete(self.d, status) or current.get("reason") == decide.TIMED_OUT:
            return False
        key = key_of(self.d)
        left_us = decide.deadline_us(self.d, current) - self._wall_us()
        if left_us < SECOND:
            self.loop.queue.add_rate_limited(key)
            return True
        # One second more, as times are cut to seconds.
        self.loop.queue.add_after_us(key, left_us + SECOND)
        return False

    async def _check_paused(self) -> None:
        change = decide.pause_change(self.d)
        if change is not None:
            self._set_progress("Unknown", change.reason, change.message)
            _accepted(await self._put_status())

    async def _cleanup(self, olds: Sequence[Obj]) -> None:
        for rs in decide.cleanup_victims(self.d, olds, self.names):
            meta = rs["metadata"]
            reply = await self.client.delete("replicasets", meta["namespace"], meta["name"])
            if not reply.ok and reply.reason != "NotFound":
                raise RequestFailed(reply.message)

    async def _rollback(self) -> None:
        new, olds = await self._sync_revision(create=True)
        rss = [*olds, *([new] if new else [])]
        wanted = decide.rollback_revision(self.d, self.names) or decide.last_revision(rss, self.names)
        if not wanted:
            text = "Unable to find last revision."
            self._event("Warning", "DeploymentRollbackRevisionNotFound", text)
            await self._clear_rollback()
            return
        found = next((rs for rs in rss if decide.revision(rs, self.names) == wanted), None)
        if found is None:
            text = "Unable to find the revision to rollback to."
            self._event("Warning", "DeploymentRollbackRevisionNotFound", text)
            await self._clear_rollback()
            return
        name, label = self.d["metadata"]["name"], self.names.label_pod_template_hash
        if decide.same_template(self.d["spec"]["template"], found["spec"]["template"], label):
            text = f'The rollback revision contains the same template as current deployment "{name}"'
            self._event("Warning", "DeploymentRollbackTemplateUnchanged", text)
            await self._clear_rollback()
            return
        self._restore(found)
        await self._clear_rollback()
        self._event("Normal", "DeploymentRollback", f'Rolled back deployment "{name}" to revision {wanted}')

    def _restore(self, rs: Obj) -> None:
        """Copy the template and the annotations of a ReplicaSet into the Deployment."""
        skipped = decide.skipped_annotations(self.names)
        kept = {k: v for k, v in annotations_of(self.d).items() if k in skipped}
        kept.update((k, v) for k, v in annotations_of(rs).items() if k not in skipped)
        template = rs["spec"]["template"]
        labels = dict(template["metadata"].get("labels") or {})
        labels.pop(self.names.label_pod_template_hash, None)
        template = {**template, "metadata": {**template["metadata"], "labels": labels}}
        self.d = {
            **self.d,
            "metadata": {**self.d["metadata"], "annotations": kept},
            "spec": {**self.d["spec"], "template": template},
        }

    async def _clear_rollback(self) -> None:
        meta = self.d["metadata"]
        annotations = {k: v for k, v in meta["annotations"].items() if k != self.names.annotation_rollback_to}
        _accepted(
            await self.client.update(RESOURCE, {**self.d, "metadata": {**meta, "annotations": annotations}})
        )
