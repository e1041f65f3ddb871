"""Restricts pods to the nodes that their node selector and node affinity select.

Mirrors  kubernetes v1.25 pkg/scheduler/framework/plugins/nodeaffinity.
"""

from __future__ import annotations

from actors.scheduler.cluster import NodeInfo
from actors.scheduler.plugins.base import ClusterEvent, DefaultPlugin, Reads, Status
from actors.scheduler.pods import Template, node_terms_of
from sim.api.scheduling import required_nodes
from sim.options.scheduling.profiles import ProfileSpec

NODE_AFFINITY = Status("NodeAffinity", ("node(s) didn't match Pod's node affinity/selector",), True)
ENFORCED = Status("NodeAffinity", ("node(s) didn't match scheduler-enforced node affinity",), True)
AFFINITY_CONFLICT = Status("NodeAffinity", ("pod affinity terms conflict",), True)


class NodeAffinity(DefaultPlugin):
    """Refuses nodes that the pod does not select, and prefers those that it prefers."""

    name = "NodeAffinity"
    weight = 2
    events = ClusterEvent.NODE
    reads = Reads.NODE

    def take(self, spec: ProfileSpec) -> None:
        """Follow the affinity that a profile adds."""
        self._added = None
        if spec.affinity:
            required = required_nodes({"affinity": {"nodeAffinity": spec.affinity}})
            self._added = node_terms_of(required, spec.affinity)

    def filter(self, pod: Template, node: NodeInfo) -> Status | None:
        """Refuse a node that the added affinity, the selector or the required one does not match."""
        if self._added is not None and not self._added.required.match(node.name, node.labels):
            return ENFORCED
        return None if matches_node(pod, node) else NODE_AFFINITY

    def score(self, pod: Template, node: NodeInfo) -> int:
        """Sum the weights of the preferences that match the node."""
        preferred = pod.node_terms.preferred
        if self._added is not None:
            preferred = (*self._added.preferred, *preferred)
        return sum(weight for weight, term in preferred if term.holds(node.name, node.labels))


def matches_node(template: Template, node: NodeInfo) -> bool:
    """Return True if the node selector and the required node affinity match the node."""
    return template.node_terms.required.match(node.name, node.labels)
