"""What the controller writes: taints and labels of nodes, and conditions of their pods.

Holds: no request is sent if the cached node shows that there is nothing to remove; each attempt to
       change taints reads the node and patches the whole list of that revision, which takes two
       tokens of the client's bucket.

Mirrors  kubernetes v1.25 pkg/controller/controller_utils.go (SwapNodeControllerTaint,
         AddOrUpdateTaintOnNode, RemoveTaintOffNode, PatchNodeTaints, UpdateTaintBackoff);
         nodelifecycle/node_lifecycle_controller.go (doNoScheduleTaintingPass,
         reconcileNodeLabels); util/node/controller_utils.go (MarkPodsNotReady).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING

from actors.controllers.nodelifecycle.decide import (
    NO_SCHEDULE,
    ConditionTaints,
    label_fixes,
    not_ready_pod,
    taints_patch,
    with_taints,
    without_taints,
)
from sim.api.schema.typed_objects import Taint
from sim.api.types import Obj
from sim.units import MS, format_time

if TYPE_CHECKING:
    from actors.controllers.shared.shell import Env
    from sim.client import Client
    from sim.client.events.recorder import EventRecorder
    from sim.kernel import Context

TRIES = 5  # UpdateTaintBackoff: 5 steps of 100 ms, jitter 1.0
BACKOFF_US = 100 * MS


class TaintWriter:
    """Writes taints of nodes through one client."""

    def __init__(self, ctx: Context, client: Client, jitter: Random) -> None:
        self._ctx = ctx
        self._client = client
        self._jitter = jitter

    async def swap(
        self, node: Obj, add: Sequence[tuple[str, str]], remove: Sequence[tuple[str, str]]
    ) -> bool:
        """Add taints (key, effect) with the present time, then remove others; False on a failure."""
        if add:
            stamp = format_time(self._ctx.wall_us())
            taints: list[Taint] = [{"key": key, "effect": effect, "timeAdded": stamp} for key, effect in add]
            if not await self._change(node["metadata"]["name"], lambda old: with_taints(old, taints)):
                return False
        return await self.remove(node, remove)

    async def mark(self, name: str, key: str, effect: str) -> bool:
        """Add a taint without a time, reading the node first; False on a failure."""
        return await self._change(name, lambda old: with_taints(old, [{"key": key, "effect": effect}]))

    async def remove(self, node: Obj, remove: Sequence[tuple[str, str]]) -> bool:
        """Remove taints; sends no request if the given node has none of them. False on a failure."""
        if without_taints(node.get("spec", {}).get("taints") or (), remove) is None:
            return True
        return await self._change(node["metadata"]["name"], lambda old: without_taints(old, remove))

    async def _change(self, name: str, change: Callable[[Sequence[Taint]], list[Taint] | None]) -> bool:
        for attempt in range(TRIES):
            # The first read may be served from the cache; later ones must see what conflicted.
            live = await self._client.get("nodes", "", name, revision=None if attempt else "0")
            if not live.ok:
                return False
            taints = change(live.obj.get("spec", {}).get("taints") or ())
            if taints is None:
                return True
            reply = await self._client.patch("nodes", "", name, taints_patch(live.obj, taints))
            if reply.ok:
                return True
            if reply.reason != "Conflict":
                return False
            await self._ctx.sleep_us(BACKOFF_US + int(BACKOFF_US * self._jitter.random()))
        return False


class NodeTaints:
    """The nodes with wrong NoSchedule taints or labels, and the worker that corrects them.

    wrong: node name -> (taints to add, taints to remove)
    """

    def __init__(self, env: Env, client: Client, writer: TaintWriter) -> None:
        self._names = env.names
        self._client = client
        self._writer = writer
        self._nodes = env.informers["nodes"]
        self._condition_taints = ConditionTaints(env.names)
        self.wrong: dict[str, tuple[list[str], list[str]]] = {}
        self.queue = env.queue("node_lifecycle_controller")

    def check(self, node: Obj) -> None:
        """Queue a node with wrong NoSchedule taints or labels."""
        added, removed = self._condition_taints.diff(node)
        name = node["metadata"]["name"]
        if added or removed or label_fixes(node["metadata"].get("labels") or {}, self._names):
            changed = self.wrong.get(name) != (added, removed)
            self.wrong[name] = added, removed
            self.queue.add(name, anew=changed)
            self._nodes.deliver_promptly("nodelifecycle", True)
        else:
            self.forget(name)

    def forget(self, name: str) -> None:
        """The node is correct, or deleted."""
        self.wrong.pop(name, None)
        self._nodes.deliver_promptly("nodelifecycle", bool(self.wrong))

    async def sync(self, name: str) -> str | None:
        """Correct the NoSchedule taints and the labels of one node.

        After a failure, the next event of the node queues it again, as upstream.
        """
        node = self._nodes.get(name)
        if node is None:
            return None
        added, removed = self._condition_taints.diff(node)
        if added or removed:
            pairs = [(key, NO_SCHEDULE) for key in removed]
            await self._writer.swap(node, [(key, NO_SCHEDULE) for key in added], pairs)
        fixes = label_fixes(node["metadata"].get("labels") or {}, self._names)
        if fixes:
            await self._client.patch("nodes", "", name, {"metadata": {"labels": fixes}})
        return None


class PodMarks:
    """Marks pods as not ready.

    owed: names of the nodes with pods that could not all be marked
    queue: pods that were bound to nodes which are not ready
    """

    def __init__(self, env: Env, client: Client, recorder: EventRecorder) -> None:
        self._ctx = env.ctx
        self._client = client
        self._recorder = recorder
        self.owed: dict[str, None] = {}
        self.queue = env.queue("node_lifecycle_controller_pods")

    async def mark(self, pods: list[Obj]) -> bool:
        """Write Ready=False and record an event for each pod; False if a write failed."""
        done = True
        for pod in pods:
            changed = not_ready_pod(pod, format_time(self._ctx.wall_us()))
            if changed is None:
                continue
            reply = await self._client.update("pods", changed, subresource="status")
            if reply.reason == "NotFound":
                continue
            done = done and reply.ok
            self._recorder.event(pod, "Warning", "NodeNotReady", "Node is not ready")
        return done
