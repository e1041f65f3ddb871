"""Keeps pods off nodes without free resources for them, and prefers those with most of them.

Mirrors  kubernetes v1.25 pkg/scheduler/framework/plugins/noderesources/{fit,least_allocated}.go.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

from actors.scheduler.cluster import NodeInfo
from actors.scheduler.plugins.base import MAX_SCORE, ClusterEvent, DefaultPlugin, Reads, Status
from actors.scheduler.pods import Amounts, Template
from sim.options.scheduling.profiles import LEAST, MOST, Fit, ProfileSpec

DEFAULT_FIT = Fit()
# Capacity and use, in this order, to a score from 0 to 100.
Rate = Callable[[int, int], int]


class NodeResourcesFit(DefaultPlugin):
    """Compares the pod's requests with what the pods on a node leave of its allocatable amounts."""

    name = "NodeResourcesFit"
    events = ClusterEvent.POD_DELETE | ClusterEvent.NODE
    absolute_scores = True
    reads = Reads.ROOM

    def take(self, spec: ProfileSpec) -> None:
        """Follow what is ignored, and how nodes are scored."""
        self._fit, self._rate = spec.fit, _rate_of(spec.fit)

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
                if self._ignores(name):
                    continue
                if amount > have.scalars.get(name, 0) - taken.scalars.get(name, 0):
                    short.append(f"Insufficient {name}")
        return _insufficient(tuple(short)) if short else None

    def score(self, pod: Template, node: NodeInfo) -> int:
        """Return the average share of CPU and memory that stays free (LeastAllocated)."""
        if self._fit != DEFAULT_FIT:
            return self._score_otherwise(pod, node)
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

    def _ignores(self, name: str) -> bool:
        fit = self._fit
        return name in fit.ignored or name.partition("/")[0] in fit.ignored_groups

    def _score_otherwise(self, pod: Template, node: NodeInfo) -> int:
        """Return the weighted average of the resources, by the strategy of the profile."""
        total, weights = 0, 0
        is_ratio = self._fit.strategy not in (LEAST, MOST)
        for name, weight in self._fit.resources:
            capacity, used = use_of(name, pod, node, node.scoring, pod.scoring)
            if not capacity:
                continue
            rate = self._rate(capacity, used)
            if is_ratio and rate <= 0:  # Quirk: such a resource has no weight.
                continue
            total, weights = total + rate * weight, weights + weight
        if not weights:
            return 0
        return math.floor(total / weights + 0.5) if is_ratio else total // weights


def use_of(name: str, pod: Template, node: NodeInfo, taken: Amounts, wanted: Amounts) -> tuple[int, int]:
    """Return the capacity of a resource on a node, and how much is used with the pod; (0, 0) if the
    resource does not count (calculateResourceAllocatableRequest).

    taken, wanted: of the node and of the pod, as CPU and memory count
    """
    have = node.allocatable
    if name == "cpu":
        return have.cpu, taken.cpu + wanted.cpu - pod.unscored_cpu
    if name == "memory":
        return have.memory, taken.memory + wanted.memory
    if name == "ephemeral-storage":
        return have.ephemeral, node.requested.ephemeral + pod.request.ephemeral
    asked = pod.request.scalars.get(name, 0)
    if not asked:
        return 0, 0
    return have.scalars.get(name, 0), node.requested.scalars.get(name, 0) + asked


def _rate_of(fit: Fit) -> Rate:
    if fit.strategy == LEAST:
        return lambda capacity, used: max(0, capacity - used) * MAX_SCORE // capacity
    if fit.strategy == MOST:
        return lambda capacity, used: min(used, capacity) * MAX_SCORE // capacity
    shape = [(utilization, score * MAX_SCORE // 10) for utilization, score in fit.shape]
    return lambda capacity, used: _on_line(shape, used * 100 // capacity)


def _on_line(shape: Sequence[tuple[int, int]], at: int) -> int:
    """Return the value of a broken line (buildBrokenLinearFunction); divisions round towards zero."""
    for index, (utilization, score) in enumerate(shape):
        if at <= utilization:
            if not index:
                return score
            low, base = shape[index - 1]
            return base + int((score - base) * (at - low) / (utilization - low))
    return shape[-1][1]


@lru_cache(maxsize=1024)
def _insufficient(reasons: tuple[str, ...]) -> Status:
    return Status("NodeResourcesFit", reasons)
