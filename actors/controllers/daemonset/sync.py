"""One sync of a DaemonSet as steps: the order of its writes, and what follows an answer.  Pure.

Turns a set, the nodes and the answers to its requests into the next action: the revision of the
present template first, then creates and deletes of pods, then the status.

Holds: a sync makes at most 250 creates and 250 deletes; a sync that created or deleted makes no
       rolling update step; while the cache does not show earlier creates and deletes, a sync writes
       only the status; a failed pod is deleted at most once per back-off (1 s doubling to 900 s).

Mirrors  kubernetes v1.25 pkg/controller/daemon/{daemon_controller.go (syncDaemonSet, manage,
         syncNodes, updateDaemonSetStatus),update.go (constructHistory, dedupCurHistories, snapshot,
         cleanupHistory)}.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

from actors.controllers.daemonset import decide
from actors.controllers.shared import revisions as history
from actors.controllers.shared.pod_owners import selects_nothing
from actors.controllers.shared.pod_template_hash import revision_data
from actors.controllers.shared.steps import (
    DONE,
    Create,
    Delete,
    Event,
    Get,
    Requeue,
    SyncFailed,
    T,
    Update,
)
from sim.api.objects import is_deleting, key_of, labels_of, spec_of, status_of
from sim.api.types import Obj, Reply
from sim.dataclass import dataclass
from sim.ident import Names
from sim.units import SECOND

RESOURCE = "daemonsets"
BURST = 250  # daemon_controller.go: BurstReplicas


@dataclass(frozen=True, slots=True)
class Claim:
    """Adopt the set's orphans of a resource and release what it no longer selects."""

    resource: str


@dataclass(frozen=True, slots=True)
class Relabel:
    """Set labels of a pod."""

    pod: Obj
    labels: Obj


@dataclass(frozen=True, slots=True)
class Expect:
    """Expect so many creates and deletes of pods, in place of earlier expectations."""

    creates: int
    deletes: int


@dataclass(frozen=True, slots=True)
class CreatePods:
    """Create pods in growing batches."""

    pods: Sequence[Obj]


@dataclass(frozen=True, slots=True)
class DeletePods:
    """Delete pods in parallel."""

    pods: Sequence[Obj]


@dataclass(frozen=True, slots=True)
class BackOff:
    """Begin the next back-off of a node's failed pods, unless the last one has not ended."""

    generation: int
    node: str


Action = (
    Claim
    | Relabel
    | Expect
    | CreatePods
    | DeletePods
    | BackOff
    | Get
    | Create
    | Update
    | Delete
    | Event
    | Requeue
)


class Answer(NamedTuple):
    """What follows an action.

    wall_us: the time by the clock of the process
    satisfied: True if the cache shows all expected creates and deletes
    objects: those that the set controls after a claim
    error: the first of a claim, of creates or of deletes
    wait_us: the delay of a back-off that has not ended, else 0
    """

    wall_us: int
    satisfied: bool
    reply: Reply = DONE
    objects: Sequence[Obj] = ()
    error: str | None = None
    wait_us: int = 0


Steps = Generator[Action, Answer, T]


class Seen(NamedTuple):
    """What a sync sees besides the set.

    reference: the controller reference of new pods and revisions
    fit: `NodeFit` of the set's template
    """

    names: Names
    nodes: Sequence[Obj]
    reference: Obj
    fit: Callable[[Obj], tuple[bool, bool]]


def sync_set(owner: Obj, seen: Seen) -> Steps[str | None]:
    """The sync of a DaemonSet; returns an error text or None."""
    if selects_nothing(owner):
        text = "This daemon set is selecting all pods. A non-empty selector is required."
        yield Event(owner, "Warning", "SelectingAll", text)
        return None
    if is_deleting(owner):
        return None
    return (yield from _error_of(_Sync(owner, seen).run()))


def _error_of(steps: Steps[None]) -> Steps[str | None]:
    """Carry steps out; returns the text of the error that ended them, or None."""
    try:
        yield from steps
    except SyncFailed as failure:
        return str(failure)
    return None


def _check(error: str | None) -> None:
    if error is not None:
        raise SyncFailed(error)


class _Sync:
    """One sync; its steps raise SyncFailed.  last: the answer to the last action"""

    last: Answer

    def __init__(self, owner: Obj, seen: Seen) -> None:
        self.owner, self.seen = owner, seen
        self.label = seen.names.label_controller_revision_hash
        self.namespace, self.name = owner["metadata"]["namespace"], owner["metadata"]["name"]

    def _do(self, action: Action) -> Steps[Answer]:
        self.last = yield action
        return self.last

    def _send(self, action: Action) -> Steps[Reply]:
        """Send a request that must succeed."""
        reply = (yield from self._do(action)).reply
        _check(None if reply.ok else reply.message)
        return reply

    def _claim(self, resource: str) -> Steps[Sequence[Obj]]:
        """The objects that the set controls, after adopting and releasing others."""
        answer = yield from self._do(Claim(resource))
        _check(answer.error)
        return answer.objects

    def _claim_pods(self) -> Steps[dict[str, list[Obj]]]:
        return decide.pods_by_node((yield from self._claim("pods")))

    def run(self) -> Steps[None]:
        current, olds = yield from self._construct_history()
        names = self.seen.names
        generation = decide.template_generation(self.owner, names)
        hashed = labels_of(current).get(self.label, "")
        view = decide.View(self.owner, hashed, generation, names, self.seen.fit, self.last.wall_us)
        if not self.last.satisfied:
            yield from self._update_status(view, observe=False)
            return
        error = yield from _error_of(self._update(view, olds))
        refused = yield from _error_of(self._update_status(view, observe=True))
        _check(error or refused)

    # --- pods -------------------------------------------------------------------------------------

    def _update(self, view: decide.View, olds: Sequence[Obj]) -> Steps[None]:
        nodes = self.seen.nodes
        changes = decide.decide_nodes(view, nodes, (yield from self._claim_pods()))
        yield from self._take_failed(changes)
        yield from self._apply(view, changes)
        strategy = spec_of(self.owner).get("updateStrategy") or {}
        if self.last.satisfied and strategy.get("type", "RollingUpdate") == "RollingUpdate":
            by_node = yield from self._claim_pods()
            yield from self._apply(view, decide.decide_roll(view, nodes, by_node))
        yield from self._cleanup(olds)

    def _take_failed(self, changes: decide.Changes) -> Steps[None]:
        """Delete failed pods after their back-off; queue the set for the end of the others'."""
        generation = int(status_of(self.owner).get("observedGeneration", 0))
        for pod, node in changes.failed:
            wait_us = (yield from self._do(BackOff(generation, node))).wait_us
            if wait_us:
                yield from self._do(Requeue(key_of(self.owner), wait_us))
                continue
            text = f"Found failed daemon pod {key_of(pod)} on node {node}, will try to kill it"
            yield from self._do(Event(self.owner, "Warning", "FailedDaemonPod", text))
            changes.delete.append(pod)

    def _apply(self, view: decide.View, changes: decide.Changes) -> Steps[None]:
        create, delete = changes.create[:BURST], changes.delete[:BURST]
        yield from self._do(Expect(len(create), len(delete)))
        error = refused = None
        if create:
            template = decide.daemon_template(self.owner, view.hash, view.generation, self.seen.names)
            pods = [decide.daemon_pod(template, self.owner, self.seen.reference, node) for node in create]
            error = (yield from self._do(CreatePods(pods))).error
        if delete:
            refused = (yield from self._do(DeletePods(delete))).error
        _check(error or refused)

    # --- status -----------------------------------------------------------------------------------

    def _update_status(self, view: decide.View, observe: bool) -> Steps[None]:
        """Write the counts if they changed.  observe: True to set the observed generation too"""
        counts = decide.count_status(view, self.seen.nodes, (yield from self._claim_pods()))
        if decide.is_status_stale(self.owner, counts):
            generation = {"observedGeneration": self.owner["metadata"].get("generation", 0)}
            yield from self._write_status({**counts, **generation} if observe else counts)
        min_ready_s = spec_of(self.owner).get("minReadySeconds")
        if min_ready_s and counts["numberReady"] != counts["numberAvailable"]:
            yield from self._do(Requeue(key_of(self.owner), min_ready_s * SECOND))

    def _write_status(self, changes: dict[str, int]) -> Steps[None]:
        """Write changes to the status; on failure, read the set and write once more."""

        def write(found: Obj) -> Update:
            status = decide.with_counts(found.get("status") or {}, changes)
            return Update(RESOURCE, {**found, "status": status}, "status")

        answer = yield from self._do(write(self.owner))
        if not answer.reply.ok:
            live = yield from self._send(Get(RESOURCE, self.namespace, self.name))
            yield from self._send(write(live.obj))

    # --- history ----------------------------------------------------------------------------------

    def _construct_history(self) -> Steps[tuple[Obj, list[Obj]]]:
        """(revision of the present template, older revisions).

        The revision is created if it does not exist and renumbered if it is not the newest.
        """
        revisions = history.ordered((yield from self._claim(history.RESOURCE)))
        for place, revision in enumerate(revisions):
            revisions[place] = yield from self._labelled(revision)
        data = revision_data(spec_of(self.owner)["template"])
        equal = [revision for revision in revisions if history.same_data(revision, data)]
        olds = [revision for revision in revisions if not history.same_data(revision, data)]
        number = history.next_number(olds)
        if not equal:
            return (yield from self._snapshot(data, number)), olds
        current = equal[-1]
        for twin in equal[:-1]:
            yield from self._merge(twin, current)
        if current["revision"] < number:
            renumbered = Update(history.RESOURCE, {**current, "revision": number})
            current = (yield from self._send(renumbered)).obj
        return current, olds

    def _labelled(self, revision: Obj) -> Steps[Obj]:
        """The revision with its hash label, which is its name if it had no label."""
        meta, labels = revision["metadata"], labels_of(revision)
        if self.label in labels:
            return revision
        made = {**revision, "metadata": {**meta, "labels": {**labels, self.label: meta["name"]}}}
        return (yield from self._send(Update(history.RESOURCE, made))).obj

    def _delete(self, revision: Obj) -> Steps[None]:
        meta = revision["metadata"]
        yield from self._send(Delete(history.RESOURCE, meta["namespace"], meta["name"]))

    def _merge(self, twin: Obj, kept: Obj) -> Steps[None]:
        """Delete a revision with the same data as another, and relabel the set's pods to that one."""
        hashed = kept["metadata"]["labels"][self.label]
        by_node = yield from self._claim_pods()
        for pod in [pod for pods in by_node.values() for pod in pods]:
            if labels_of(pod).get(self.label) != hashed:
                yield from self._send(Relabel(pod, {self.label: hashed}))
        yield from self._delete(twin)

    def _snapshot(self, data: Obj, number: int) -> Steps[Obj]:
        """Create the revision of the present template.

        If another one has its name, the collision count is raised, which gives the next sync
        another name.
        """
        made = decide.new_revision(self.owner, self.seen.reference, number, self.seen.names)
        reply = (yield from self._do(Create(history.RESOURCE, self.namespace, made))).reply
        if reply.ok:
            return reply.obj
        if reply.reason != "AlreadyExists":
            raise SyncFailed(reply.message)
        live = yield from self._send(Get(history.RESOURCE, self.namespace, made["metadata"]["name"]))
        if history.same_data(live.obj, data):
            return live.obj
        current = (yield from self._send(Get(RESOURCE, self.namespace, self.name))).obj
        status = status_of(current)
        if status.get("collisionCount") != status_of(self.owner).get("collisionCount"):
            raise SyncFailed("found a stale collision count; will retry until it is updated")
        counted = {**status, "collisionCount": status.get("collisionCount", 0) + 1}
        yield from self._send(Update(RESOURCE, {**current, "status": counted}, "status"))
        raise SyncFailed(reply.message)

    def _cleanup(self, olds: Sequence[Obj]) -> Steps[None]:
        """Delete the oldest revisions without pods, down to the limit."""
        by_node = yield from self._claim_pods()
        surplus = len(olds) - int(spec_of(self.owner).get("revisionHistoryLimit", 10))
        live = {
            labels_of(pod).get(self.label) for pods in by_node.values() for pod in pods
        }  # membership only
        unused = [revision for revision in olds if labels_of(revision).get(self.label) not in live]
        for revision in unused[: max(0, surplus)]:
            yield from self._delete(revision)
