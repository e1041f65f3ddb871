"""Prefers nodes on which CPU and memory are used to the same degree.

Mirrors  kubernetes v1.25 pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go.
Quirk    the shares are those of real requests, without the default amounts that NodeResourcesFit
         counts for containers that request nothing.
"""

from __future__ import annotations

import math

from actors.scheduler.cluster import NodeInfo
from actors.scheduler.plugins.base import DEFAULT, MAX_SCORE, DefaultPlugin, Reads
from actors.scheduler.plugins.node_resources_fit import use_of
from actors.scheduler.pods import Template
from sim.options.scheduling.profiles import ProfileSpec


class NodeResourcesBalancedAllocation(DefaultPlugin):
    """Scores nodes by the difference between the used shares of CPU and memory."""

    name = "NodeResourcesBalancedAllocation"
    absolute_scores = True
    reads = Reads.ROOM

    def take(self, spec: ProfileSpec) -> None:
        """Follow which resources are to be used evenly."""
        self._resources = spec.balanced

    def score(self, pod: Template, node: NodeInfo) -> int:
        """Return 100 less the standard deviation of the two shares in percent."""
        if self._resources != DEFAULT.balanced:
            return self._score_otherwise(pod, node)
        have = node.allocatable
        spread = 0.0
        if have.cpu and have.memory:
            asked = pod.request.cpu - pod.unscored_cpu
            cpu = min((node.requested.cpu + asked) / have.cpu, 1.0)
            memory = min((node.requested.memory + pod.request.memory) / have.memory, 1.0)
            spread = abs((cpu - memory) / 2)
        return int((1 - spread) * MAX_SCORE)

    def _score_otherwise(self, pod: Template, node: NodeInfo) -> int:
        uses = [use_of(name, pod, node, node.requested, pod.request) for name in self._resources]
        shares = [min(used / capacity, 1.0) for capacity, used in uses if capacity]
        spread = 0.0
        if len(shares) == 2:
            spread = abs((shares[0] - shares[1]) / 2)
        elif len(shares) > 2:
            mean = sum(shares) / len(shares)
            spread = math.sqrt(sum((share - mean) ** 2 for share in shares) / len(shares))
        return int((1 - spread) * MAX_SCORE)
