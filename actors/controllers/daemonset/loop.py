"""DaemonSet controller: keeps one pod on every node that matches the set.

A pod gets node affinity for its node and is bound by the default scheduler. Turns a set, the nodes
and its pods into creates, deletes, revisions, events and a status.

Holds: a sync makes at most 250 creates and 250 deletes; a sync that created or deleted makes no
       rolling update step; a failed pod is deleted at most once per back-off (1 s doubling to
       900 s).

Mirrors  kubernetes v1.25 pkg/controller/daemon/{daemon_controller.go,update.go}.
Differs  nodes are processed in the order of their names (upstream: the order of its workers).
"""

from __future__ import annotations

from collections.abc import Sequence

from actors.controllers.daemonset import decide
from actors.controllers.shared import revisions as history
from actors.controllers.shared.pod_owners import (
    CONTROLLER_INDEX,
    PodControl,
    PodEvents,
    candidates_of,
    index_by_controller,
    index_by_namespace,
    owner_ref,
    selector_of,
    selects_nothing,
)
from actors.controllers.shared.pod_template_hash import revision_data
from actors.controllers.shared.shell import Env, Expectations, Owner, claim_objects, run_workers
from sim.api.objects import controller_of, is_deleting, key_of
from sim.api.types import Obj
from sim.client import unmoved
from sim.units import SECOND

RESOURCE = "daemonsets"
CLIENT = "daemon-set-controller"
WORKERS = 2  # cmd/kube-controller-manager/app/apps.go: fixed
BURST = 250  # daemon_controller.go: BurstReplicas
BACKOFF_US, BACKOFF_MAX_US = 1 * SECOND, 900 * SECOND  # daemonset.go: NewBackOff(1s, 15m)


async def start(env: Env) -> None:
    """Run the DaemonSet controller until its process ends."""
    loop = DaemonSetLoop(env)
    await env.informers.start_and_sync()
    loop.attribute_node_changes()
    run_workers(env, loop.queue, loop.sync, WORKERS)


class FailedPodBackoff:
    """The back-off between deletes of failed pods, per set, generation and node.

    Bound: a new entry drops the oldest one if that is older than twice the longest delay.
    """

    def __init__(self) -> None:
        # (set uid, generation, node) -> (delay, time of the last delete), oldest first
        self._entries: dict[tuple[str, int, str], tuple[int, int]] = {}

    def wait_us(self, key: tuple[str, int, str], now_us: int) -> int:
        """The delay before the pod may be deleted; 0: delete it now, which doubles the delay."""
        wait_us, since_us = self._entries.get(key, (0, 0))
        if wait_us and now_us - since_us < wait_us:
            return wait_us
        kept = wait_us and now_us - since_us <= 2 * BACKOFF_MAX_US
        self._entries.pop(key, None)
        self._entries[key] = (min(2 * wait_us, BACKOFF_MAX_US) if kept else BACKOFF_US, now_us)
        oldest = next(iter(self._entries))
        if now_us - self._entries[oldest][1] > 2 * BACKOFF_MAX_US:
            del self._entries[oldest]
        return 0


class DaemonSetLoop:
    """Shell of the controller: handlers, queue, and the sync of one set."""

    def __init__(self, env: Env) -> None:
        self.env = env
        self.names = env.names
        self.resource = env.scheme.resource(RESOURCE)
        self.client = env.client(CLIENT)
        self.recorder = env.recorder("daemonset-controller", self.client)
        self.expectations = Expectations(env.ctx.now_us)
        self.control = PodControl(env, self.client, self.recorder, self.expectations, named=False)
        self.queue = env.queue("daemonset")
        self.backoff = FailedPodBackoff()
        self.sets = env.informers[RESOURCE]
        self.pods = env.informers["pods"]
        self.nodes = env.informers["nodes"]
        self.revisions = env.informers["controllerrevisions"]
        self._fits: dict[str, decide.NodeFit] = {}
        index_by_namespace(self.sets)
        index_by_controller(self.pods)
        index_by_controller(self.revisions)
        self.sets.on(add=self._changed, update=self._updated, delete=self._deleted)
        self.nodes.on(add=self._node_added, update=self._node_updated, beat=unmoved)
        self.revisions.on(
            add=self._revision_added, update=self._revision_updated, delete=self._revision_deleted
        )
        self.events = PodEvents("DaemonSet", self.sets, self.queue, self.expectations, named=False)
        self.events.attach(self.pods)

    # --- handlers ---------------------------------------------------------------------------------

    def _changed(self, owner: Obj) -> None:
        self.queue.add(key_of(owner))

    def _updated(self, old: Obj, new: Obj) -> None:
        if old["metadata"]["uid"] != new["metadata"]["uid"]:
            self._deleted(old)  # the set was deleted and created again between two lists
        self._changed(new)

    def _deleted(self, owner: Obj) -> None:
        key = key_of(owner)
        self.expectations.forget(key)
        self._fits.pop(key, None)
        self.queue.add(key)

    def _revision_added(self, revision: Obj) -> None:
        """Queue the owners that might adopt an orphan; an owned revision needs no sync."""
        if is_deleting(revision):
            self._revision_deleted(revision)
        elif controller_of(revision) is None:
            self.events.queue_matching(revision)

    def _revision_updated(self, old: Obj, new: Obj) -> None:
        if old is new:  # resync
            return
        before, ref = controller_of(old), controller_of(new)
        if before != ref:
            self._revision_deleted(old)
        if ref is not None:
            self._revision_deleted(new)
        elif before is not None or old["metadata"].get("labels") != new["metadata"].get("labels"):
            self.events.queue_matching(new)

    def _revision_deleted(self, revision: Obj) -> None:
        """Queue the set that controls the revision."""
        ref = controller_of(revision)
        owner = self.events.owner(revision, ref) if ref is not None else None
        if owner is not None:
            self.queue.add(key_of(owner))

    def _node_added(self, node: Obj) -> None:
        for owner in self.sets.list():
            if self._fit(owner)(node)[0]:
                self.queue.add(key_of(owner))

    def _node_updated(self, old: Obj, new: Obj) -> None:
        same_spec = old.get("spec") is new.get("spec") or old.get("spec") == new.get("spec")
        if same_spec and old["metadata"].get("labels") == new["metadata"].get("labels"):
            return
        for owner in self.sets.list():
            fit = self._fit(owner)
            if fit.fresh(old) != fit(new):
                self.queue.add(key_of(owner))

    def attribute_node_changes(self) -> None:
        """Attribute each queued set to changes of nodes that hold a surplus pod of the set.

        Call before the first sync: after the first list, no handler reports that a node was
        deleted or stopped to match.
        """
        for owner in self.sets.list():
            fit = self._fit(owner)
            for pod in self.pods.by_index(CONTROLLER_INDEX, owner["metadata"]["uid"]):
                name = pod["spec"].get("nodeName", "")
                node = self.nodes.item(name)
                if node is None:
                    self.queue.add_cause(key_of(owner), self.queue.gone(self._node_key(name)))
                elif not fit(node.obj)[0]:
                    self.queue.add_cause(key_of(owner), node.cause)

    def _node_key(self, name: str) -> str:
        return self.env.scheme.key("nodes", "", name)

    def _fit(self, owner: Obj) -> decide.NodeFit:
        key, template = key_of(owner), owner["spec"]["template"]
        fit = self._fits.get(key)
        if fit is None or fit.template is not template:
            fit = self._fits[key] = decide.NodeFit(template, self.names)
        return fit

    # --- sync -------------------------------------------------------------------------------------

    async def sync(self, key: str) -> str | None:
        """Bring the pods, revisions and status of one set up to date; returns an error or None."""
        owner = self.sets.get(key)
        if owner is None:
            self.expectations.forget(key)
            return None
        nodes = self.nodes.list()
        if selects_nothing(owner):
            text = "This daemon set is selecting all pods. A non-empty selector is required."
            self.recorder.event(owner, "Warning", "SelectingAll", text)
            return None
        if is_deleting(owner):
            return None
        identity = Owner(owner, RESOURCE, self.resource.api_version, self.resource.kind)
        found = await self._construct_history(identity)
        if isinstance(found, str):
            return found
        current, olds = found
        hashed = (current["metadata"].get("labels") or {}).get(self.names.label_controller_revision_hash, "")
        generation = decide.template_generation(owner, self.names)
        view = decide.View(owner, hashed, generation, self.names, self._fit(owner), self.env.ctx.wall_us())
        if not self.expectations.satisfied(key):
            return await self._update_status(view, identity, nodes, observe=False)
        error = await self._update(view, identity, nodes, olds)
        refused = await self._update_status(view, identity, nodes, observe=True)
        return error or refused

    async def _owned(self, identity: Owner) -> dict[str, list[Obj]] | str:
        owner = identity.obj
        candidates = candidates_of(self.pods, owner)
        pods, error = await claim_objects(self.client, identity, "pods", candidates, selector_of(owner))
        return decide.pods_by_node(pods) if error is None else error

    async def _update(
        self, view: decide.View, identity: Owner, nodes: Sequence[Obj], olds: Sequence[Obj]
    ) -> str | None:
        by_node = await self._owned(identity)
        if isinstance(by_node, str):
            return by_node
        changes = decide.decide_nodes(view, nodes, by_node)
        self._take_failed(view.owner, changes)
        error = await self._apply(view, changes)
        if error is not None:
            return error
        if self.expectations.satisfied(key_of(view.owner)):
            strategy = view.owner["spec"].get("updateStrategy") or {}
            if strategy.get("type", "RollingUpdate") == "RollingUpdate":
                by_node = await self._owned(identity)
                if isinstance(by_node, str):
                    return by_node
                error = await self._apply(view, decide.decide_roll(view, nodes, by_node))
                if error is not None:
                    return error
        return await self._cleanup(identity, olds)

    def _take_failed(self, owner: Obj, changes: decide.Changes) -> None:
        """Delete failed pods after their back-off; queue the set for the end of the others'."""
        meta = owner["metadata"]
        generation = int(owner.get("status", {}).get("observedGeneration", 0))
        now_us = self.env.ctx.now_us()
        for pod, node in changes.failed:
            wait_us = self.backoff.wait_us((meta["uid"], generation, node), now_us)
            if wait_us:
                self.queue.add_after_us(key_of(owner), wait_us)
                continue
            text = f"Found failed daemon pod {key_of(pod)} on node {node}, will try to kill it"
            self.recorder.event(owner, "Warning", "FailedDaemonPod", text)
            changes.delete.append(pod)

    async def _apply(self, view: decide.View, changes: decide.Changes) -> str | None:
        owner = view.owner
        create, delete = changes.create[:BURST], changes.delete[:BURST]
        self.expectations.expect(key_of(owner), len(create), len(delete))
        error: str | None = None
        if create:
            template = decide.daemon_template(owner, view.hash, view.generation, self.names)
            ref = owner_ref(self.env, RESOURCE, owner)
            pods = [decide.daemon_pod(template, owner, ref, node) for node in create]
            error = await self.control.create(owner, pods)
        refused = await self.control.delete(owner, delete) if delete else None
        return error or refused

    async def _update_status(
        self, view: decide.View, identity: Owner, nodes: Sequence[Obj], observe: bool
    ) -> str | None:
        by_node = await self._owned(identity)
        if isinstance(by_node, str):
            return by_node
        owner = view.owner
        counts = decide.count_status(view, nodes, by_node)
        if decide.is_status_stale(owner, counts):
            error = await self._write_status(owner, counts, observe)
            if error is not None:
                return error
        min_ready_s = owner["spec"].get("minReadySeconds") or 0
        if min_ready_s and counts["numberReady"] != counts["numberAvailable"]:
            self.queue.add_after_us(key_of(owner), min_ready_s * SECOND)
        return None

    async def _write_status(self, owner: Obj, counts: Obj, observe: bool) -> str | None:
        """Write counts to the status; on failure, read the set and write once more.

        observe: True to set the observed generation too
        """
        changes = (
            {**counts, "observedGeneration": owner["metadata"].get("generation", 0)} if observe else counts
        )
        found = owner
        for last in (False, True):
            status = decide.with_counts(found.get("status") or {}, changes)
            reply = await self.client.update(RESOURCE, {**found, "status": status}, subresource="status")
            if reply.ok or last:
                break
            live = await self.client.get(RESOURCE, owner["metadata"]["namespace"], owner["metadata"]["name"])
            if not live.ok:
                return live.message
            found = live.obj
        return None if reply.ok else reply.message

    # --- history ----------------------------------------------------------------------------------

    async def _construct_history(self, identity: Owner) -> tuple[Obj, list[Obj]] | str:
        """(revision of the present template, older revisions), or an error text.

        The revision is created if it does not exist and renumbered if it is not the newest.
        """
        owner = identity.obj
        revisions, error = await history.claimed(self.client, self.revisions, identity)
        if error is not None:
            return error
        for place, revision in enumerate(revisions):
            labelled = await self._labelled(revision)
            if isinstance(labelled, str):
                return labelled
            revisions[place] = labelled
        data = revision_data(owner["spec"]["template"])
        equal = [revision for revision in revisions if history.same_data(revision, data)]
        olds = [revision for revision in revisions if not history.same_data(revision, data)]
        number = history.next_number(olds)
        if not equal:
            made = await self._snapshot(owner, data, number)
            return made if isinstance(made, str) else (made, olds)
        current = equal[-1]
        for twin in equal[:-1]:
            error = await self._merge(identity, twin, current)
            if error is not None:
                return error
        if current["revision"] < number:
            reply = await history.renumber(self.client, current, number)
            if not reply.ok:
                return reply.message
            current = reply.obj
        return current, olds

    async def _labelled(self, revision: Obj) -> Obj | str:
        """The revision with its hash label, which is its name if it had no label; or an error text."""
        meta, label = revision["metadata"], self.names.label_controller_revision_hash
        labels = meta.get("labels") or {}
        if label in labels:
            return revision
        made = {**revision, "metadata": {**meta, "labels": {**labels, label: meta["name"]}}}
        reply = await self.client.update(history.RESOURCE, made)
        return reply.obj if reply.ok else reply.message

    async def _merge(self, identity: Owner, twin: Obj, kept: Obj) -> str | None:
        """Delete a revision with the same data as another, and relabel the set's pods to that one."""
        label = self.names.label_controller_revision_hash
        hashed = kept["metadata"]["labels"][label]
        by_node = await self._owned(identity)
        if isinstance(by_node, str):
            return by_node
        for meta in [pod["metadata"] for pods in by_node.values() for pod in pods]:
            if (meta.get("labels") or {}).get(label) == hashed:
                continue
            patch = {"metadata": {"labels": {label: hashed}}}
            reply = await self.client.patch("pods", meta["namespace"], meta["name"], patch, kind="merge")
            if not reply.ok:
                return reply.message
        meta = twin["metadata"]
        reply = await self.client.delete(history.RESOURCE, meta["namespace"], meta["name"])
        return None if reply.ok else reply.message

    async def _snapshot(self, owner: Obj, data: Obj, number: int) -> Obj | str:
        namespace = owner["metadata"]["namespace"]
        made = decide.new_revision(owner, owner_ref(self.env, RESOURCE, owner), number, self.names)
        name = made["metadata"]["name"]
        reply = await self.client.create(history.RESOURCE, namespace, made)
        if reply.ok:
            return reply.obj
        if reply.reason != "AlreadyExists":
            return reply.message
        live = await self.client.get(history.RESOURCE, namespace, name)
        if not live.ok:
            return live.message
        if history.same_data(live.obj, data):
            return live.obj
        current = await self.client.get(RESOURCE, namespace, owner["metadata"]["name"])
        if not current.ok:
            return current.message
        status = current.obj.get("status", {})
        if status.get("collisionCount") != owner.get("status", {}).get("collisionCount"):
            return "found a stale collision count; will retry until it is updated"
        counted = {**current.obj, "status": {**status, "collisionCount": status.get("collisionCount", 0) + 1}}
        raised = await self.client.update(RESOURCE, counted, subresource="status")
        return reply.message if raised.ok else raised.message

    async def _cleanup(self, identity: Owner, olds: Sequence[Obj]) -> str | None:
        by_node = await self._owned(identity)
        if isinstance(by_node, str):
            return by_node
        surplus = len(olds) - int(identity.obj["spec"].get("revisionHistoryLimit", 10))
        if surplus <= 0:
            return None
        label = self.names.label_controller_revision_hash
        live = {  # membership only
            (pod["metadata"].get("labels") or {}).get(label) for pods in by_node.values() for pod in pods
        }
        for revision in olds:
            meta = revision["metadata"]
            if surplus <= 0:
                break
            if (meta.get("labels") or {}).get(label) in live:
                continue
            reply = await self.client.delete(history.RESOURCE, meta["namespace"], meta["name"])
            if not reply.ok:
                return reply.message
            surplus -= 1
        return None
