"""One sync of a Deployment as steps: what is written, in which order, and what follows an answer.

Turns a Deployment, its ReplicaSets and the answers to its writes into the next action.

Holds: a sync makes one step of a rollout: after it has scaled, it writes the status and ends; what
       is calculated is in `decide`.
Quirk: during a sync the Deployment keeps the resourceVersion that it was read with, so that a
       second status write in one sync conflicts and the key is retried after 5 ms, as upstream.

Mirrors  kubernetes v1.25 pkg/controller/deployment/{deployment_controller.go (syncDeployment),
         sync.go,rolling.go,recreate.go,rollback.go}.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from actors.controllers.deployment import decide
from actors.controllers.shared.pod_owners import is_terminating_refusal, selector_of
from actors.controllers.shared.steps import Action, Create, Delete, Event, Requeue, Steps, SyncFailed, Update
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
from sim.client.events.recorder import EventKind
from sim.ident import Names
from sim.units import SECOND

RESOURCE = "deployments"


class Seen(NamedTuple):
    """What a sync sees besides the Deployment and its ReplicaSets.

    owner_ref: the controller reference of a new ReplicaSet
    set_of: a ReplicaSet by its key, in the cache; pods_of: the pods of a ReplicaSet, by its uid
    wall_us: the time by the clock of the process
    """

    names: Names
    owner_ref: Obj
    set_of: Callable[[str], Obj | None]
    pods_of: Callable[[str], Iterable[Obj]]
    wall_us: int


def refuse(deployment: Obj, seen: Seen) -> Steps[bool]:
    """The sync of a Deployment that selects all pods: an event, and the observed generation."""
    return (yield from _Rollout(deployment, (), seen).refuse())


def roll_out(deployment: Obj, owned: Sequence[Obj], seen: Seen) -> Steps[bool]:
    """The sync of a Deployment with its ReplicaSets.

    Returns True if it only queued the key since the progress deadline is over, and nothing but a
    change of these objects can make another sync do more.  Raises SyncFailed.
    """
    return (yield from _Rollout(deployment, owned, seen).run())


class _Rollout:
    """One sync of one Deployment; `d` is the Deployment with the changes of this sync so far."""

    def __init__(self, deployment: Obj, owned: Sequence[Obj], seen: Seen) -> None:
        self.seen = seen
        self.names = seen.names
        self.wall_us = seen.wall_us
        self.d = self.read = deployment
        self.sets = decide.by_creation(owned)
        # The Deployment, its new ReplicaSet and the others, once nothing is left to refresh.
        self._fresh: tuple[Obj, Obj, list[Obj]] | None = None

    def _ask(self, action: Action) -> Steps[Reply]:
        answer = yield action
        self.wall_us = answer.wall_us
        return answer.reply

    def _write(self, action: Action) -> Steps[Obj]:
        """Write an object; returns the stored object.  Raises SyncFailed."""
        reply = yield from self._ask(action)
        if not reply.ok:
            raise SyncFailed(reply.message, is_terminating_refusal(reply))
        return reply.obj

    def _event(self, kind: EventKind, reason: str, message: str) -> Steps[None]:
        yield from self._ask(Event(self.d, kind, reason, message))

    def refuse(self) -> Steps[bool]:
        text = "This deployment is selecting all pods. A non-empty selector is required."
        yield from self._event("Warning", "SelectingAll", text)
        generation = self.d["metadata"].get("generation", 0)
        if decide.counted(self.d, "observedGeneration") < generation:
            yield from self._write_status({**self.d.get("status", {}), "observedGeneration": generation})
        return False

    def run(self) -> Steps[bool]:
        if is_deleting(self.d):
            new, olds = yield from self._sync_revision(create=False)
            yield from self._status([*olds, *([new] if new else [])], new)
            return False
        yield from self._check_paused()
        if self.d["spec"].get("paused"):
            yield from self._scale_and_status()
        elif decide.rollback_revision(self.d, self.names) is not None:
            yield from self._rollback()
        elif (yield from self._is_scaling()):
            yield from self._scale_and_status()
        elif decide.is_rolling(self.d):
            return (yield from self._roll())
        else:
            yield from self._recreate()
        return False

    # --- strategies -------------------------------------------------------------------------------

    def _roll(self) -> Steps[bool]:
        new, olds = yield from self._sync_revision(create=True)
        assert new is not None
        rss = [*olds, new]
        size = self._size_of_new(new, olds)
        if size != replicas_of(new):
            yield from self._scale(new, size)
            yield from self._rollout_status(rss, new)
            return False
        if (yield from self._shrink_old(rss, new, olds)):
            yield from self._rollout_status(rss, new)
            return False
        if decide.is_complete(self.d, self.d.get("status", {})):
            yield from self._cleanup(olds)
        late = yield from self._rollout_status(rss, new)
        current = condition_of(self.d, decide.PROGRESSING)
        return (
            late
            and self.d is self.read
            and any(rs is new for rs in self.sets)
            and not decide.total(olds)
            and current is not None
            and current.get("reason") == decide.NEW_AVAILABLE
        )

    def _size_of_new(self, new: Obj, olds: Sequence[Obj]) -> int:
        wanted = replicas_of(self.d)
        return wanted if replicas_of(new) > wanted else decide.new_size(self.d, olds, replicas_of(new))

    def _shrink_old(self, rss: list[Obj], new: Obj, olds: list[Obj]) -> Steps[bool]:
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
                now[rs["metadata"]["uid"]] = yield from self._scale(rs, size)
            if behind:
                return False
            left = list(now.values())
            cut = left != olds
            for rs, size in decide.available_cuts(self.d, [*left, new], left):
                yield from self._scale(rs, size)
                cut = True
        except SyncFailed:
            # Quirk: upstream drops errors here, and the sync continues as if nothing was scaled.
            return False
        return cut

    def _recreate(self) -> Steps[None]:
        new, olds = yield from self._sync_revision(create=False)
        rss = [*olds, *([new] if new else [])]
        running = decide.active(olds)
        for rs in running:
            yield from self._scale(rs, 0)
        if running or self._old_pods_run(new, olds):
            yield from self._rollout_status(rss, new)
            return
        if new is None:
            new, olds = yield from self._sync_revision(create=True)
            assert new is not None
            rss = [*olds, new]
        yield from self._scale(new, replicas_of(self.d))
        if decide.is_complete(self.d, self.d.get("status", {})):
            yield from self._cleanup(olds)
        yield from self._rollout_status(rss, new)

    def _old_pods_run(self, new: Obj | None, olds: Sequence[Obj]) -> bool:
        if sum(decide.counted(rs, "replicas") for rs in olds):
            return True
        matches = selector_of(self.d)
        for rs in olds:
            for pod in self.seen.pods_of(rs["metadata"]["uid"]):
                # Quirk: a terminating pod with changed labels is not waited for.
                if not is_terminal(pod) and matches(pod):
                    return True
        return False

    def _is_scaling(self) -> Steps[bool]:
        new, olds = yield from self._sync_revision(create=False)
        wanted = replicas_of(self.d)
        key = self.names.annotation_desired_replicas
        running = decide.active([*olds, *([new] if new else [])])
        return any(decide.int_annotation(rs, key) not in (None, wanted) for rs in running)

    def _scale_and_status(self) -> Steps[None]:
        new, olds = yield from self._sync_revision(create=False)
        rss = [*olds, *([new] if new else [])]
        yield from self._scale_all(new, olds)
        paused = self.d["spec"].get("paused")
        if paused and decide.rollback_revision(self.d, self.names) is None:
            yield from self._cleanup(olds)
        yield from self._status(rss, new)

    def _scale_all(self, new: Obj | None, olds: Sequence[Obj]) -> Steps[None]:
        olds = olds[::-1]  # upstream's FindActiveOrLatest leaves them newest first
        one = decide.active_or_latest(new, olds)
        if one is not None:
            yield from self._scale(one, replicas_of(self.d))
        elif decide.is_saturated(self.d, new, self.names):
            for rs in decide.active(olds):
                yield from self._scale(rs, 0)
        elif decide.is_rolling(self.d):
            rss = [*olds, *([new] if new else [])]
            sizes = decide.proportional_sizes(self.d, rss, self.names)
            # Quirk: the event names the direction of the total, even for a set that is scaled the
            # other way.
            direction = "up" if decide.to_add(self.d, rss) > 0 else "down"
            for rs, size in sizes:
                yield from self._scale(rs, size, direction)

    def _scale(self, rs: Obj, size: int, direction: str = "") -> Steps[Obj]:
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
        stored = yield from self._write(Update("replicasets", changed))
        if was != size:
            direction = direction or ("up" if size > was else "down")
            text = f"Scaled {direction} replica set {meta['name']} to {size} from {was}"
            yield from self._event("Normal", "ScalingReplicaSet", text)
        return stored

    # --- the new ReplicaSet -----------------------------------------------------------------------

    def _sync_revision(self, create: bool) -> Steps[tuple[Obj | None, list[Obj]]]:
        """(new ReplicaSet or None, old ones from oldest to newest).

        Updates the revision and the annotations of the new ReplicaSet, or creates it if `create`.
        """
        d = self.d
        if self._fresh is not None and self._fresh[0] is d:
            return self._fresh[1:]
        found = decide.find_new(d, self.sets, self.names.label_pod_template_hash)
        olds = [rs for rs in self.sets if rs is not found]
        number = max((decide.revision(rs, self.names) for rs in olds), default=0) + 1
        if found is not None:
            new = yield from self._refresh_new(found, number)
            if new is found and self.d is d:
                self._fresh = d, new, olds
            return new, olds
        if not create:
            return None, olds
        return (yield from self._create_new(olds, number)), olds

    def _refresh_new(self, rs: Obj, number: int) -> Steps[Obj]:
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
            return (yield from self._write(Update("replicasets", changed)))
        changed_revision = self._set_revision(annotations.get(self.names.annotation_revision, ""))
        lacks = decide.has_deadline(self.d) and condition_of(self.d, decide.PROGRESSING) is None
        if lacks:
            self._set_progress("True", "FoundNewReplicaSet", f'Found new replica set "{meta["name"]}"')
        if changed_revision or lacks:
            yield from self._write(self._status_update())
        return rs

    def _create_new(self, olds: Sequence[Obj], number: int) -> Steps[Obj]:
        d, names = self.d, self.names
        size = decide.new_size(d, olds, 0)
        made = decide.new_replica_set(d, self.seen.owner_ref, number, size, names)
        name = made["metadata"]["name"]
        reply = yield from self._ask(Create("replicasets", d["metadata"]["namespace"], made))
        existed = False
        if reply.reason == "AlreadyExists":
            stored = yield from self._existing(made, reply)
            existed = True
        elif not reply.ok:
            if is_terminating_refusal(reply):
                raise SyncFailed(reply.message, True)
            text = f'Failed to create new replica set "{name}": {reply.message}'
            if decide.has_deadline(d):
                self._set_progress("False", "ReplicaSetCreateError", text)
                yield from self._ask(self._status_update())
            yield from self._event("Warning", "ReplicaSetCreateError", text)
            raise SyncFailed(reply.message)
        else:
            stored = reply.obj
        if not existed and size:
            yield from self._event("Normal", "ScalingReplicaSet", f"Scaled up replica set {name} to {size}")
        changed = self._set_revision(str(number))
        if not existed and decide.has_deadline(d):
            self._set_progress("True", "NewReplicaSetCreated", f'Created new replica set "{name}"')
            changed = True
        if changed:
            yield from self._write(self._status_update())
        return stored

    def _existing(self, made: Obj, reply: Reply) -> Steps[Obj]:
        """The stored ReplicaSet after a create found the name in use.

        If it is not the new ReplicaSet of this Deployment, the hashes collide: the collision count
        grows and the sync fails.
        """
        found = self.seen.set_of(f"{self.d['metadata']['namespace']}/{made['metadata']['name']}")
        if found is None:
            raise SyncFailed(reply.message)
        ref = controller_of(found)
        label = self.names.label_pod_template_hash
        if ref is not None and ref["uid"] == self.d["metadata"]["uid"]:
            if decide.same_template(self.d["spec"]["template"], found["spec"]["template"], label):
                return found
        status = self.d.get("status", {})
        self.d = {**self.d, "status": {**status, "collisionCount": status.get("collisionCount", 0) + 1}}
        yield from self._ask(self._status_update())
        raise SyncFailed(reply.message)

    def _set_revision(self, number: str) -> bool:
        meta = self.d["metadata"]
        have = meta.get("annotations") or {}
        if have.get(self.names.annotation_revision, "") == number:
            return False
        annotations = {**have, self.names.annotation_revision: number}
        self.d = {**self.d, "metadata": {**meta, "annotations": annotations}}
        return True

    def _set_progress(self, status: str, reason: str, message: str) -> None:
        made = decide.make_condition(decide.PROGRESSING, status, reason, message, self.wall_us)
        self.d = decide.with_status(self.d, decide.with_condition(decide.conditions_of(self.d), made))

    # --- status, history, rollback ----------------------------------------------------------------

    def _status_update(self) -> Update:
        return Update(RESOURCE, self.d, subresource="status")

    def _write_status(self, status: Obj) -> Steps[None]:
        self.d = {**self.d, "status": status}
        yield from self._write(self._status_update())

    def _status(self, rss: Sequence[Obj], new: Obj | None) -> Steps[None]:
        status = decide.base_status(self.d, rss, new, self.wall_us)
        if status != self.d.get("status"):
            yield from self._write_status(status)

    def _rollout_status(self, rss: Sequence[Obj], new: Obj | None) -> Steps[bool]:
        """Write the status if it differs, else queue the key for the progress deadline.

        Returns True if the deadline is over.
        """
        status = decide.rollout_status(self.d, rss, new, self.wall_us)
        if status != self.d.get("status"):
            yield from self._write_status(status)
            return False
        current = condition_of(self.d, decide.PROGRESSING)
        if current is None or not decide.has_deadline(self.d):
            return False
        if decide.is_complete(self.d, status) or current.get("reason") == decide.TIMED_OUT:
            return False
        key = key_of(self.d)
        left_us = decide.deadline_us(self.d, current) - self.wall_us
        if left_us < SECOND:
            yield from self._ask(Requeue(key))
            return True
        # One second more, as times are cut to seconds.
        yield from self._ask(Requeue(key, left_us + SECOND))
        return False

    def _check_paused(self) -> Steps[None]:
        change = decide.pause_change(self.d)
        if change is not None:
            self._set_progress("Unknown", change.reason, change.message)
            yield from self._write(self._status_update())

    def _cleanup(self, olds: Sequence[Obj]) -> Steps[None]:
        for rs in decide.cleanup_victims(self.d, olds, self.names):
            meta = rs["metadata"]
            reply = yield from self._ask(Delete("replicasets", meta["namespace"], meta["name"]))
            if not reply.ok and reply.reason != "NotFound":
                raise SyncFailed(reply.message)

    def _rollback(self) -> Steps[None]:
        new, olds = yield from self._sync_revision(create=True)
        rss = [*olds, *([new] if new else [])]
        wanted = decide.rollback_revision(self.d, self.names) or decide.last_revision(rss, self.names)
        if not wanted:
            text = "Unable to find last revision."
            yield from self._event("Warning", "DeploymentRollbackRevisionNotFound", text)
            yield from self._clear_rollback()
            return
        found = next((rs for rs in rss if decide.revision(rs, self.names) == wanted), None)
        if found is None:
            text = "Unable to find the revision to rollback to."
            yield from self._event("Warning", "DeploymentRollbackRevisionNotFound", text)
            yield from self._clear_rollback()
            return
        name, label = self.d["metadata"]["name"], self.names.label_pod_template_hash
        if decide.same_template(self.d["spec"]["template"], found["spec"]["template"], label):
            text = f'The rollback revision contains the same template as current deployment "{name}"'
            yield from self._event("Warning", "DeploymentRollbackTemplateUnchanged", text)
            yield from self._clear_rollback()
            return
        self._restore(found)
        yield from self._clear_rollback()
        yield from self._event(
            "Normal", "DeploymentRollback", f'Rolled back deployment "{name}" to revision {wanted}'
        )

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

    def _clear_rollback(self) -> Steps[None]:
        meta = self.d["metadata"]
        annotations = {k: v for k, v in meta["annotations"].items() if k != self.names.annotation_rollback_to}
        yield from self._write(Update(RESOURCE, {**self.d, "metadata": {**meta, "annotations": annotations}}))
