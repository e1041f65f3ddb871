"""DaemonSet controller: keeps one pod on every node that matches the set.

Turns changes of sets, nodes, pods and revisions into keys, and carries out the steps of each sync.

Holds: nothing is decided here; the steps are those of `sync`, their values those of `decide`.

Mirrors  kubernetes v1.25 pkg/controller/daemon/daemon_controller.go.
Differs  nodes are processed in the order of their names (upstream: the order of its workers).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import assert_never

from actors.controllers.daemonset import decide
from actors.controllers.daemonset.sync import (
    RESOURCE,
    Action,
    Answer,
    BackOff,
    Claim,
    CreatePods,
    DeletePods,
    Expect,
    Relabel,
    Seen,
    sync_set,
)
from actors.controllers.shared.pod_owners import (
    CONTROLLER_INDEX,
    PodControl,
    PodEvents,
    candidates_of,
    index_by_controller,
    index_by_namespace,
    owner_ref,
    selector_of,
)
from actors.controllers.shared.shell import Env, Expectations, Owner, claim_objects, run_workers
from actors.controllers.shared.steps import (
    DONE,
    Create,
    Delete,
    Event,
    Get,
    Requeue,
    Shell,
    Update,
    carry_out,
)
from sim.api.objects import controller_of, is_deleting, key_of, uid_of
from sim.api.types import Obj
from sim.client import unmoved

CLIENT = "daemon-set-controller"
WORKERS = 2  # cmd/kube-controller-manager/app/apps.go: fixed


async def start(env: Env) -> None:
    """Run the DaemonSet controller until its process ends."""
    loop = DaemonSetLoop(env)
    await env.informers.start_and_sync()
    loop.attribute_node_changes()
    run_workers(env, loop.queue, loop.sync, WORKERS)


class DaemonSetLoop:
    """Shell of the controller: handlers, queue, and the requests of a sync."""

    def __init__(self, env: Env) -> None:
        self.env = env
        self.names = env.names
        self.resource = env.scheme.resource(RESOURCE)
        self.client = env.client(CLIENT)
        self.recorder = env.recorder("daemonset-controller", self.client)
        self.expectations = Expectations(env.ctx.now_us)
        self.control = PodControl(env, self.client, self.recorder, self.expectations, named=False)
        self.queue = env.queue("daemonset")
        self.shell = Shell(env.ctx, self.client, self.recorder, self.queue)
        self.backoff = decide.FailedPodBackoff()
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
        seen = Seen(self.names, self.nodes.list(), owner_ref(self.env, RESOURCE, owner), self._fit(owner))
        return await carry_out(sync_set(owner, seen), partial(self._do, owner))

    async def _do(self, owner: Obj, action: Action) -> Answer:
        ctx, client, key = self.env.ctx, self.client, key_of(owner)
        reply, wait_us = DONE, 0
        objects: Sequence[Obj] = ()
        error: str | None = None
        match action:
            case Claim(resource):
                identity = Owner(owner, RESOURCE, self.resource.api_version, self.resource.kind)
                candidates = candidates_of(self.env.informers[resource], owner)
                objects, error = await claim_objects(
                    client, identity, resource, candidates, selector_of(owner)
                )
            case Relabel(pod, labels):
                meta, patch = pod["metadata"], {"metadata": {"labels": labels}}
                reply = await client.patch("pods", meta["namespace"], meta["name"], patch, kind="merge")
            case Expect(creates, deletes):
                self.expectations.expect(key, creates, deletes)
            case CreatePods(pods):
                error = await self.control.create(owner, pods)
            case DeletePods(pods):
                error = await self.control.delete(owner, pods)
            case BackOff(generation, node):
                wait_us = self.backoff.wait_us((uid_of(owner), generation, node), ctx.now_us())
            case Get() | Create() | Update() | Delete() | Event() | Requeue():
                reply = await self.shell.do(action)
            case _:
                assert_never(action)
        return Answer(ctx.wall_us(), self.expectations.satisfied(key), reply, objects, error, wait_us)
