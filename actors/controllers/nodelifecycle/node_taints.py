"""NoSchedule taints and labels of nodes, which follow from their conditions and old labels.

Turns nodes with wrong ones into a queue of names, and each name into writes.

Mirrors  kubernetes v1.25 pkg/controller/nodelifecycle/node_lifecycle_controller.go
         (doNoScheduleTaintingPass, reconcileNodeLabels).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.controllers.nodelifecycle.decide import NO_SCHEDULE, ConditionTaints, label_fixes
from sim.api.types import Obj

if TYPE_CHECKING:
    from actors.controllers.nodelifecycle.taints import TaintWriter
    from actors.controllers.shared.shell import Env
    from sim.client import Client


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
