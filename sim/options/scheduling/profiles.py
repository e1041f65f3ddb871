"""What a profile of the scheduler is, once it is read.

Mirrors  kubernetes v1.25 pkg/scheduler/apis/config/{types,types_pluginargs}.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

LEAST, MOST, RATIO = "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"
DEFAULT_NAME = "default-scheduler"
CPU_AND_MEMORY = (("cpu", 1), ("memory", 1))


class Fit(NamedTuple):
    """The arguments of NodeResourcesFit.

    resources: with their weights
    shape: of RATIO: (utilization in percent, score from 0 to 10), in rising order
    """

    ignored: frozenset[str] = frozenset()
    ignored_groups: frozenset[str] = frozenset()
    strategy: str = LEAST
    resources: tuple[tuple[str, int], ...] = CPU_AND_MEMORY
    shape: tuple[tuple[int, int], ...] = ()


class DefaultSpread(NamedTuple):
    """A constraint of pods that have none of their own.  is_hard: DoNotSchedule"""

    topology_key: str
    max_skew: int
    is_hard: bool


class ProfileSpec(NamedTuple):
    """A profile.

    filters: plugins that filter; None for all of the default profile
    weights: the weight of each plugin that scores; None for those of the default profile
    preempts: True if pods of lower priority make room
    affinity: what every pod demands and prefers of nodes besides, as a NodeAffinity of the API
    spread: constraints of pods without their own; None for those of the system
    required_weight: of the required pod affinity of pods that have a node
    balanced: resources that are to be used evenly
    candidates: percentage and number of the nodes on which preemption is tried
    """

    name: str = DEFAULT_NAME
    filters: frozenset[str] | None = None
    weights: Mapping[str, int] | None = None
    preempts: bool = True
    affinity: Mapping[str, Any] = {}
    spread: Sequence[DefaultSpread] | None = None
    required_weight: int = 1
    fit: Fit = Fit()
    balanced: tuple[str, ...] = ("cpu", "memory")
    bind_timeout_s: int | None = None
    candidates: tuple[int, int] = (10, 100)
