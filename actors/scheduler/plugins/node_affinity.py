"""Restricts pods to the nodes that their node selector and node affinity select.

Mirrors  kubernetes v1.25 pkg/scheduler/framework/plugins/nodeaffinity.
"""

from __future__ import annotations

from actors.scheduler.cluster import NodeInfo
from actors.scheduler.plugins.base import ClusterEvent, DefaultPlugin, Reads, Status
from actors.scheduler.pods import Template

NODE_AFFINITY = Status("NodeAffinity", ("node(s) didn't match Pod's node affinity/selector",), True)
AFFINITY_CONFLICT = Status("NodeAffinity", ("pod affinity terms conflict",), True)


class NodeAffinity(DefaultPlugin):
    """Refuses nodes that the pod does not select, and prefers those that it prefers."""

    name = "NodeAffinity"
    weight = 2
    events = ClusterEvent.NODE
    reads = Reads.NODE

    def filter(self, pod: Template, node: NodeInfo) -> Status | None:
        """Refuse a node that the selector or the required affinity does not match."""
        return None if matches_node(pod, node) else NODE_AFFINITY

    def score(self, pod: Template, node: NodeInfo) -> int:
        """Sum the weights of the preferences that match the node."""
        return sum(weight for weight, term in pod.preferred if term.holds(node.name, node.labels))


def matches_node(template: Template, node: NodeInfo) -> bool:
    """Return True if the node selector and the required node affinity match the node."""
    return template.required.match(node.name, node.labels)
