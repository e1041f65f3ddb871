"""Keeps pods off nodes with taints that they do not tolerate.

Mirrors  kubernetes v1.25 pkg/scheduler/framework/plugins/tainttoleration.
"""

from __future__ import annotations

from functools import lru_cache

from actors.scheduler.cluster import NodeInfo
from actors.scheduler.plugins.base import ClusterEvent, DefaultPlugin, Reads, Status, shares
from actors.scheduler.pods import Template
from sim.api.scheduling import Taint, tolerates


class TaintToleration(DefaultPlugin):
    """Refuses nodes by NoSchedule and NoExecute taints, and avoids those with PreferNoSchedule
    taints.
    """

    name = "TaintToleration"
    weight = 3
    events = ClusterEvent.NODE
    reads = Reads.NODE

    def filter(self, pod: Template, node: NodeInfo) -> Status | None:
        """Refuse a node for its first taint that is not tolerated."""
        for taint in node.taints:
            if taint[2] != "PreferNoSchedule" and not tolerates(pod.tolerations, taint):
                return _untolerated(taint)
        return None

    def score(self, pod: Template, node: NodeInfo) -> int:
        """Count the PreferNoSchedule taints that are not tolerated."""
        if not node.taints:
            return 0
        mild = [t for t in pod.tolerations if t[3] in ("", "PreferNoSchedule")]
        return sum(t[2] == "PreferNoSchedule" and not tolerates(mild, t) for t in node.taints)

    def normalize(self, scores: list[int]) -> list[int]:
        """Give the nodes with the fewest such taints the highest scores."""
        return shares(scores, reverse=True)


@lru_cache(maxsize=1024)
def _untolerated(taint: Taint) -> Status:
    return Status("TaintToleration", (f"node(s) had untolerated taint {{{taint[0]}: {taint[1]}}}",), True)
