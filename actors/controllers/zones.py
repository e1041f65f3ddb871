"""Zones of nodes: their health state, and the queue from which each zone's nodes get their NoExecute taint.

Turns how many nodes of each zone are ready into zone states and a taint rate per zone, and hands out queued
nodes at that rate.

Holds: a node is queued once; a token is spent for every node taken from a queue, also when it turns out to be
ready again; nothing here reads a clock.

Mirrors  kubernetes v1.25 pkg/controller/nodelifecycle/node_lifecycle_controller.go (ComputeZoneState,
         ReducedQPSFunc, setLimiterInZone), scheduler/rate_limited_queue.go, component-helpers node/topology.
Differs  shares are compared as 64-bit floats (upstream: 32 bit).
Quirk:   a limiter that never accepts says that its rate is 1: with an eviction rate of exactly 1.0 a queue that
         was stopped stays stopped (issue 104639).  A zone begins with a token also where the eviction rate is 0, so
         that one of its nodes is tainted.  When all zones go dark, taints come off the nodes that had them as the
         pass began (markNodeAsReachable looks at its list): one given while that pass wrote stays, and evicts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from sim.options.controller_manager import ControllerManagerOptions
from sim.units import SECOND

NEVER_QPS = 1.0  # what flowcontrol.NewFakeNeverRateLimiter says of itself
# Fewer nodes than this that are not ready never make a zone partly disrupted (ComputeZoneState: > 2).
PARTIAL_MIN = 3


class ZoneState(Enum):
    INITIAL = "Initial"
    NORMAL = "Normal"
    PARTIAL = "PartialDisruption"
    FULL = "FullDisruption"


def zone_state(ready: int, not_ready: int, unhealthy_share: float) -> ZoneState:
    """The state of a zone in which so many nodes are ready and not."""
    if not ready and not_ready:
        return ZoneState.FULL
    if not_ready >= PARTIAL_MIN and not_ready / (not_ready + ready) >= unhealthy_share:
        return ZoneState.PARTIAL
    return ZoneState.NORMAL


def taint_rate(state: ZoneState, size: int, options: ControllerManagerOptions) -> float:
    """Nodes tainted per second in a zone of this state and size."""
    if state is not ZoneState.PARTIAL:
        return options.node_eviction_rate
    return options.secondary_node_eviction_rate if size > options.large_cluster_size_threshold else 0.0


class Limiter:
    """A token bucket of one token, full at first: at a rate of 0 that one is all.  `never`: it has none at all."""

    __slots__ = ("_full_at_us", "_period_us", "qps")

    def __init__(self, qps: float, never: bool = False) -> None:
        self._period_us = round(SECOND / qps) if qps > 0 else None
        self._full_at_us: int | None = None if never else 0
        self.qps = NEVER_QPS if never else qps

    def accept(self, now_us: int) -> bool:
        if self._full_at_us is None or now_us < self._full_at_us:
            return False
        self._full_at_us = None if self._period_us is None else now_us + self._period_us
        return True

    def due_us(self) -> int | None:
        """When the next token is there (None: never)."""
        return self._full_at_us


class TaintQueue:
    """The nodes of one zone that wait for their NoExecute taint, each at most once."""

    __slots__ = ("_known", "_limiter", "_waiting")

    def __init__(self, qps: float) -> None:
        self._limiter = Limiter(qps)
        self._waiting: dict[str, None] = {}
        self._known: dict[str, None] = {}

    def add(self, node: str) -> bool:
        """Queue a node; False if it is there, or was taken and never removed since."""
        if node in self._known:
            return False
        self._known[node] = self._waiting[node] = None
        return True

    def remove(self, node: str) -> bool:
        """Forget a node, so that it can be added again."""
        self._waiting.pop(node, None)
        if node not in self._known:
            return False
        del self._known[node]
        return True

    def swap(self, qps: float, now_us: int) -> bool:
        """Change the rate.  The new bucket starts empty where the old one was; False: nothing changed."""
        old = self._limiter
        if old.qps == qps:
            return False
        self._limiter = Limiter(qps, never=qps <= 0)
        if not old.accept(now_us):
            self._limiter.accept(now_us)
        return True

    def due_us(self) -> int | None:
        """When the first node may be taken (None: nobody waits, or never)."""
        return self._limiter.due_us() if self._waiting else None

    def head(self, now_us: int) -> str | None:
        """The next node, for one token; it waits on until it is `done`.  None: nobody waits, or no token."""
        if not self._waiting or not self._limiter.accept(now_us):
            return None
        return next(iter(self._waiting))

    def done(self, node: str) -> None:
        """It no longer waits, though it be added anew meanwhile, and cannot be added until it is removed."""
        self._waiting.pop(node, None)

    def failed(self, node: str) -> None:
        """It waits behind all others (a node removed meanwhile stays removed)."""
        if node in self._waiting:
            del self._waiting[node]
            self._waiting[node] = None

    def __len__(self) -> int:
        return len(self._waiting)


@dataclass(slots=True)
class Zone:
    """One zone: its queue, its state as of the last pass, and its nodes that count, by readiness."""

    queue: TaintQueue
    state: ZoneState = ZoneState.INITIAL
    ready: int = 0
    not_ready: int = 0

    @property
    def size(self) -> int:
        return self.ready + self.not_ready


@dataclass(frozen=True, slots=True)
class Disruption:
    """What a pass does about the states of its zones.

    states: state to set per zone; rates: rate to set per zone; absolve: take the NoExecute taints off every
    node (all zones went dark); fresh: every node gets a fresh grace period (they are back)
    """

    states: dict[str, ZoneState] = field(default_factory=dict)
    rates: dict[str, float] = field(default_factory=dict)
    absolve: bool = False
    fresh: bool = False


def decide_disruption(zones: Mapping[str, Zone], options: ControllerManagerOptions) -> Disruption:
    """Compare the counts of this pass with the states of the last one.  `zones`: those with nodes that count.

    When every zone is down, the controller itself is the likelier cause: it stops tainting altogether.
    """
    states = {
        key: zone_state(zone.ready, zone.not_ready, options.unhealthy_zone_threshold)
        for key, zone in zones.items()
    }
    all_full = all(state is ZoneState.FULL for state in states.values())
    all_were_full = all(zone.state is ZoneState.FULL for zone in zones.values())
    if all_full and all_were_full:
        return Disruption()
    if all_full:
        return Disruption(states, dict.fromkeys(states, 0.0), absolve=True)
    changed = {key: state for key, state in states.items() if all_were_full or state is not zones[key].state}
    rates = {key: taint_rate(state, zones[key].size, options) for key, state in changed.items()}
    return Disruption(changed, rates, fresh=all_were_full)
