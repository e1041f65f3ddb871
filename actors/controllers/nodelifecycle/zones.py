"""Zones of the cluster: their states, and the queue of nodes to taint in each.  Pure.

Turns numbers of ready and not ready nodes into zone states and taint rates, and the time into the
nodes that a queue hands out.

Holds: a node is queued at most once; taking a node costs a token even if the node turns out to be
       ready again.

Mirrors  kubernetes v1.25 pkg/controller/nodelifecycle/node_lifecycle_controller.go
         (ComputeZoneState, ReducedQPSFunc, setLimiterInZone, handleDisruption),
         scheduler/rate_limited_queue.go.
Differs  shares are compared as 64-bit floats (upstream: 32 bit).
Quirk:   a limiter that never accepts reports a rate of 1, so that with an eviction rate of exactly
         1.0 a stopped queue stays stopped (issue 104639). A new zone has one token even with an
         eviction rate of 0, so that one of its nodes is tainted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import Enum

from actors.controllers.nodelifecycle.decide import Counted
from sim.dataclass import dataclass
from sim.options.controllers.manager import ControllerManagerOptions
from sim.units import SECOND

NEVER_QPS = 1.0  # the rate that flowcontrol.NewFakeNeverRateLimiter reports
# A zone with fewer not ready nodes than this is never partially disrupted (ComputeZoneState: > 2).
PARTIAL_MIN = 3


class ZoneState(Enum):
    """Disruption state of a zone."""

    INITIAL = "Initial"
    NORMAL = "Normal"
    PARTIAL = "PartialDisruption"
    FULL = "FullDisruption"


def zone_state(ready: int, not_ready: int, unhealthy_share: float) -> ZoneState:
    """The state of a zone with these numbers of ready and not ready nodes.

    unhealthy_share: share of not ready nodes from which the zone counts as partially disrupted
    """
    if not ready and not_ready:
        return ZoneState.FULL
    if not_ready >= PARTIAL_MIN and not_ready / (not_ready + ready) >= unhealthy_share:
        return ZoneState.PARTIAL
    return ZoneState.NORMAL


def taint_rate(state: ZoneState, size: int, options: ControllerManagerOptions) -> float:
    """Nodes to taint per second in a zone of this state and size."""
    if state is not ZoneState.PARTIAL:
        return options.node_eviction_rate
    return options.secondary_node_eviction_rate if size > options.large_cluster_size_threshold else 0.0


class Limiter:
    """A token bucket for one token, full at the start; with rate 0 the bucket is never refilled.

    never: True for a bucket that never holds a token
    """

    __slots__ = ("_full_at_us", "_period_us", "qps")

    def __init__(self, qps: float, never: bool = False) -> None:
        self._period_us = round(SECOND / qps) if qps > 0 else None
        self._full_at_us: int | None = None if never else 0
        self.qps = NEVER_QPS if never else qps

    def accept(self, now_us: int) -> bool:
        """Take the token; returns False if the bucket is empty."""
        if self._full_at_us is None or now_us < self._full_at_us:
            return False
        self._full_at_us = None if self._period_us is None else now_us + self._period_us
        return True

    def due_us(self) -> int | None:
        """Time of the next token; None if there will be none."""
        return self._full_at_us


class TaintQueue:
    """The nodes of one zone that wait for their NoExecute taint.

    Holds: a node that was taken stays known, and cannot be added again before it is removed.
    """

    __slots__ = ("_known", "_limiter", "_waiting")

    def __init__(self, qps: float) -> None:
        self._limiter = Limiter(qps)
        self._waiting: dict[str, None] = {}
        self._known: dict[str, None] = {}

    def add(self, node: str) -> bool:
        """Queue a node; returns False if the node is already known."""
        if node in self._known:
            return False
        self._known[node] = self._waiting[node] = None
        return True

    def remove(self, node: str) -> bool:
        """Forget a node, so that it can be added again; returns False if it was not known."""
        self._waiting.pop(node, None)
        if node not in self._known:
            return False
        del self._known[node]
        return True

    def swap(self, qps: float, now_us: int) -> bool:
        """Change the rate; returns False if it is unchanged.

        The new bucket is empty if the old one was empty.
        """
        old = self._limiter
        if old.qps == qps:
            return False
        self._limiter = Limiter(qps, never=qps <= 0)
        if not old.accept(now_us):
            self._limiter.accept(now_us)
        return True

    def due_us(self) -> int | None:
        """Time at which the first node may be taken; None if the queue is empty or stopped."""
        return self._limiter.due_us() if self._waiting else None

    def head(self, now_us: int) -> str | None:
        """Pay a token for the first node, which stays queued until `done`.

        Returns None if the queue is empty or there is no token.
        """
        if not self._waiting or not self._limiter.accept(now_us):
            return None
        return next(iter(self._waiting))

    def done(self, node: str) -> None:
        """Take a node out of the queue; it stays known until it is removed.

        This also drops a second entry that was added while the node was being worked on.
        """
        self._waiting.pop(node, None)

    def failed(self, node: str) -> None:
        """Move a node to the end of the queue (a node that was removed in between stays removed)."""
        if node in self._waiting:
            del self._waiting[node]
            self._waiting[node] = None

    def __len__(self) -> int:
        return len(self._waiting)


@dataclass(slots=True)
class Zone:
    """One zone: its taint queue, its state after the last pass, and its counted nodes by readiness."""

    queue: TaintQueue
    state: ZoneState = ZoneState.INITIAL
    ready: int = 0
    not_ready: int = 0

    @property
    def size(self) -> int:
        """The number of counted nodes."""
        return self.ready + self.not_ready

    def count(self, counted: Counted, more: int) -> None:
        """Count a node more (1) or less (-1)."""
        if counted is Counted.READY:
            self.ready += more
        else:
            self.not_ready += more


@dataclass(frozen=True, slots=True)
class Disruption:
    """Changes that a pass makes to its zones.

    states: zone -> new state
    rates: zone -> new taint rate, nodes per second
    absolve: True if all zones went dark: remove the NoExecute taints of every node
    fresh: True if zones recover from that: every node gets a new grace period
    """

    states: dict[str, ZoneState] = field(default_factory=dict)
    rates: dict[str, float] = field(default_factory=dict)
    absolve: bool = False
    fresh: bool = False


def decide_disruption(zones: Mapping[str, Zone], options: ControllerManagerOptions) -> Disruption:
    """Compare the counts of this pass with the states of the last one.

    zones: the zones with counted nodes

    If every zone is down, the controller's own connection is the likely cause: it stops tainting.
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
