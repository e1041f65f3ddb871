"""Keeps pods off nodes that are marked as unschedulable.

Mirrors  kubernetes v1.25 pkg/scheduler/framework/plugins/nodeunschedulable.
"""

from __future__ import annotations

from actors.scheduler.cluster import NodeInfo
from actors.scheduler.plugins.base import ClusterEvent, DefaultPlugin, Reads, Status
from actors.scheduler.pods import Template
from sim.api.scheduling import NO_SCHEDULE, tolerates

UNSCHEDULABLE = Status("NodeUnschedulable", ("node(s) were unschedulable",), True)


class NodeUnschedulable(DefaultPlugin):
    """Refuses nodes with `spec.unschedulable`, except for pods that tolerate the matching taint."""

    name = "NodeUnschedulable"
    events = ClusterEvent.NODE_ADD | ClusterEvent.NODE_TAINT
    reads = Reads.NODE

    def filter(self, pod: Template, node: NodeInfo) -> Status | None:
        """Refuse an unschedulable node."""
        if not node.unschedulable:
            return None
        taint = (self.cluster.names.taint_unschedulable, "", NO_SCHEDULE)
        return None if tolerates(pod.tolerations, taint) else UNSCHEDULABLE
