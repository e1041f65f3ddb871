"""Keeps pods off nodes without free resources for them, and prefers those with most of them.

Mirrors  kubernetes v1.25 pkg/scheduler/framework/plugins/noderesources/{fit,least_allocated}.go.
"""

from __future__ import annotations

from functools import lru_cache

from actors.scheduler.cluster import NodeInfo
from actors.scheduler.plugins.base import MAX_SCORE, ClusterEvent, DefaultPlugin, Reads, Status
from actors.scheduler.pods import Template


class NodeResourcesFit(DefaultPlugin):
    """Compares the pod's requests with what the pods on a node leave of its allocatable amounts."""

    name = "NodeResourcesFit"
    events = ClusterEvent.POD_DELETE | ClusterEvent.NODE
    absolute_scores = True
    reads = Reads.ROOM

    def filter(self, pod: Template, node: NodeInfo) -> Status | None:
        """Refuse a node for each resource of which it has too little."""
        short: list[str] = []
        if len(node.pods) + 1 > node.pods_max:
            short.append("Too many pods")
        want = pod.request
        if not want.nothing:
            have, taken = node.allocatable, node.requested
            if want.cpu > have.cpu - taken.cpu:
                short.append("Insufficient cpu")
            if want.memory > have.memory - taken.memory:
                short.append("Insufficient memory")
            if want.ephemeral > have.ephemeral - taken.ephemeral:
                short.append("Insufficient ephemeral-storage")
            for name, amount in want.scalars.items():
                if amount > have.scalars.get(name, 0) - taken.scalars.get(name, 0):
                    short.append(f"Insufficient {name}")
        return _insufficient(tuple(short)) if short else None

    def score(self, pod: Template, node: NodeInfo) -> int:
        """Return the average share of CPU and memory that stays free (LeastAllocated)."""
        have = node.allocatable
        total, count = 0, 0
        for capacity, taken, wanted in (
            (have.cpu, node.scoring.cpu, pod.scoring.cpu - pod.unscored_cpu),
            (have.memory, node.scoring.memory, pod.scoring.memory),
        ):
            if capacity:
                left = capacity - taken - wanted
                total += left * MAX_SCORE // capacity if left > 0 else 0
                count += 1
        return total // count if count else 0


@lru_cache(maxsize=1024)
def _insufficient(reasons: tuple[str, ...]) -> Status:
    return Status("NodeResourcesFit", reasons)
