"""Prefers nodes on which CPU and memory are used to the same degree.

Mirrors  kubernetes v1.25 pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go.
Quirk    the shares are those of real requests, without the default amounts that NodeResourcesFit
         counts for containers that request nothing.
"""

from __future__ import annotations

from actors.scheduler.cluster import NodeInfo
from actors.scheduler.plugins.base import MAX_SCORE, DefaultPlugin, Reads
from actors.scheduler.pods import Template


class NodeResourcesBalancedAllocation(DefaultPlugin):
    """Scores nodes by the difference between the used shares of CPU and memory."""

    name = "NodeResourcesBalancedAllocation"
    absolute_scores = True
    reads = Reads.ROOM

    def score(self, pod: Template, node: NodeInfo) -> int:
        """Return 100 less the standard deviation of the two shares in percent."""
        have = node.allocatable
        spread = 0.0
        if have.cpu and have.memory:
            asked = pod.request.cpu - pod.unscored_cpu
            cpu = min((node.requested.cpu + asked) / have.cpu, 1.0)
            memory = min((node.requested.memory + pod.request.memory) / have.memory, 1.0)
            spread = abs((cpu - memory) / 2)
        return int((1 - spread) * MAX_SCORE)
