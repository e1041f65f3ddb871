"""Zones of the cluster: their states, the queue of nodes to taint in each, and the worker that adds
NoExecute taints.

Turns nodes counted as ready or not into zone states and taint rates, and the queued nodes of each
zone, at its rate, into NoExecute taints.

Holds: a node is counted in one zone and queued at most once; taking a node costs a token even if
       the node turns out to be ready again; the taint of a node follows from its condition at the
       time when it is taken from the queue.

Mirrors  kubernetes v1.25 pkg/controller/nodelifecycle/node_lifecycle_controller.go
         (ComputeZoneState, ReducedQPSFunc, setLimiterInZone, doNoExecuteTaintingPass,
         handleDisruption), scheduler/rate_limited_queue.go, component-helpers node/topology.
Differs  shares are compared as 64-bit floats (upstream: 32 bit); the worker with a period of 0.1 s
         runs only at ticks at which a queue has a node and a token.
Quirk:   a limiter that never accepts reports a rate of 1, so that with an eviction rate of exactly
         1.0 a stopped queue stays stopped (issue 104639). A new zone has one token even with an
         eviction rate of 0, so that one of its nodes is tainted. When all zones go dark, taints are
         removed from the nodes that had them at the start of the pass (markNodeAsReachable reads
         its list): a taint that is written during that pass remains, and evicts pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING

from actors.controllers.nodelifecycle.decide import (
    NO_EXECUTE,
    Health,
    last_verdict,
    opposite_taint,
    taint_for,
)
from sim.api.objects import condition_of, zone_key
from sim.api.types import Obj
from sim.dataclass import dataclass
from sim.kernel import TIMED_OUT
from sim.kernel.causes import caused_by
from sim.options.controllers.manager import ControllerManagerOptions
from sim.units import MS, SECOND

if TYPE_CHECKING:
    from actors.controllers.nodelifecycle.writes import TaintWriter
    from actors.controllers.shared.shell import Env
    from sim.client.cache.informer import Informer
    from sim.kernel import Future

NEVER_QPS = 1.0  # the rate that flowcontrol.NewFakeNeverRateLimiter reports
# A zone with fewer not ready nodes than this is never partially disrupted (ComputeZoneState: > 2).
PARTIAL_MIN = 3
TICK_US = 100 * MS  # NodeEvictionPeriod
# A 0.1 s timer loop of a real process has a period of 100.6 ms: recorded taints that wait for a
# token are 10.07 s apart, of which their requests take 8 ms, and 70 recorded taints fit a period of
# 100.66 ms best (tests/data/measured).
TICK_LATE_US = 600


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


class Zones:
    """The zones by key, in the order of their first node.

    health: node name -> health, maintained by the passes
    """

    def __init__(self, env: Env, nodes: Informer, writer: TaintWriter, health: Mapping[str, Health]) -> None:
        self._ctx = env.ctx
        self._names = env.names
        self._options = env.options
        self._nodes = nodes
        self._writer = writer
        self._health = health
        self._zones: dict[str, Zone] = {}
        self._kind = self._ctx.kernel.kind("zone", "zone", "state")
        self._kick: Future | None = None
        self._ctx.kernel.gauges[f"{self._ctx.name} node_collector"] = self._gauges

    def _gauges(self) -> Iterator[tuple[str, tuple[str, ...], float]]:
        """The zones that have nodes, for a reader of metrics (metrics.go)."""
        for key, zone in self._zones.items():
            if zone.size:
                if (meters := self._ctx.kernel.meters) is not None:
                    for counted in ("evictions_number", "evictions_total"):
                        meters.count(f"node_collector_{counted}", (key,), 0)
                yield "node_collector_zone_size", (key,), zone.size
                yield "node_collector_zone_health", (key,), 100 * zone.ready / zone.size
                yield "node_collector_unhealthy_nodes_in_zone", (key,), zone.not_ready

    # --- counts -----------------------------------------------------------------------------------

    def _key(self, node: Obj) -> str:
        return zone_key(node["metadata"].get("labels") or {}, self._names)

    def _of(self, key: str) -> Zone:
        zone = self._zones.get(key)
        if zone is None:
            zone = self._zones[key] = Zone(TaintQueue(self._options.node_eviction_rate))
        return zone

    def count(self, health: Health, node: Obj, ready: bool) -> None:
        """Count a node in its zone, unless its label exempts it."""
        key = self._key(node)
        exempt = self._names.label_node_exclude_disruption in (node["metadata"].get("labels") or {})
        self._count(health, key, None if exempt else ready)
        self._of(key)  # known from now on, even if the node is exempt

    def leave_out(self, health: Health) -> None:
        """Take a node out of the counts."""
        self._count(health, health.zone, None)

    def _count(self, health: Health, key: str, ready: bool | None) -> None:
        if health.counted is ready and health.zone == key:
            return
        if health.counted is not None:
            zone = self._zones[health.zone]
            zone.ready -= health.counted
            zone.not_ready -= not health.counted
        health.counted = ready
        if ready is not None:
            health.zone = key
            zone = self._of(key)
            zone.ready += ready
            zone.not_ready += not ready

    def decide(self, nodes: Mapping[str, Obj]) -> Disruption:
        """Compare the counts of a pass with the zones' states, and drop zones without nodes."""
        counted = {key: zone for key, zone in self._zones.items() if zone.size}
        decision = decide_disruption(counted, self._options)
        if len(counted) < len(self._zones):
            self._drop_empty(counted, nodes)
        return decision

    def _drop_empty(self, counted: Mapping[str, Zone], nodes: Mapping[str, Obj]) -> None:
        """Drop zones without nodes; a zone with only exempt nodes loses its state, not its queue."""
        inhabited = {self._key(node) for node in nodes.values()}
        for key in [key for key in self._zones if key not in counted]:
            if key in inhabited:
                self._zones[key].state = ZoneState.INITIAL
            else:
                del self._zones[key]

    def settle(self, decision: Disruption, nodes: Iterable[Health]) -> None:
        """Set states and rates; the cause of a state is the zone's latest verdict on a node."""
        kernel, now_us = self._ctx.kernel, self._ctx.now_us()
        for key, state in decision.states.items():
            zone = self._zones[key]
            if zone.queue.swap(decision.rates[key], now_us):
                self._wake()
            if zone.state is not state:
                zone.state = state
                seen = last_verdict(nodes, key) or kernel.cause
                kernel.trace.add(self._kind, kernel.now_us, seen, (key, state.value))

    # --- tainting ---------------------------------------------------------------------------------

    def queue(self, node: Obj, *, requeue: bool) -> None:
        """Queue a node for its taint.

        requeue: True to queue it even if it was taken from the queue before
        """
        name, zone = node["metadata"]["name"], self._of(self._key(node))
        if requeue:
            zone.queue.remove(name)
        if zone.queue.add(name):
            self._wake()

    def unqueue(self, node: Obj) -> None:
        """Take a node out of the queue of its zone."""
        zone = self._zones.get(self._key(node))
        if zone is not None:
            zone.queue.remove(node["metadata"]["name"])

    def _wake(self) -> None:
        if self._kick is not None:
            self._kick.set(None)

    async def taint_forever(self) -> None:
        """Every 0.1 s after the end of the last round, taint the nodes that the queues hand out."""
        # Upstream's first tick is at the start of the loop, before the first pass has found a zone,
        # and does nothing. Here that pass queues nodes at the same instant, so the tick is skipped.
        base_us = self._ctx.now_us() + TICK_US + TICK_LATE_US
        while True:
            now_us = self._ctx.now_us()
            dues = [due for zone in self._zones.values() if (due := zone.queue.due_us()) is not None]
            self._kick = self._ctx.future("a node to taint")
            if not dues:
                await self._kick.wait()
                continue
            tick_us = TICK_US + TICK_LATE_US
            ticks = max(0, -(-(max(now_us, min(dues)) - base_us) // tick_us))
            wait_us = base_us + ticks * tick_us - now_us
            if wait_us > 0 and await self._kick.wait_us(wait_us) is not TIMED_OUT:
                continue
            self._kick = None
            with caused_by(self._ctx.kernel, 0):
                for zone in list(self._zones.values()):
                    await self._taint(zone)
            base_us = self._ctx.now_us() + tick_us

    async def _taint(self, zone: Zone) -> None:
        while (name := zone.queue.head(self._ctx.now_us())) is not None:
            node = self._nodes.get(name)
            ready = condition_of(node, "Ready") if node is not None else None
            taint = taint_for(ready["status"], self._names) if ready is not None else None
            if node is None or taint is None:
                zone.queue.done(name)  # deleted, or ready again: the token is spent
                continue
            opposite = opposite_taint(taint, self._names)
            health = self._health.get(name)
            why = {"taint": f"{taint}:{NO_EXECUTE}", "zone": zone.state.value}
            self._ctx.decided("taint", f"nodes/{name}", why, health.verdict if health is not None else 0)
            if await self._writer.swap(node, [(taint, NO_EXECUTE)], [(opposite, NO_EXECUTE)]):
                zone.queue.done(name)
                if (meters := self._ctx.kernel.meters) is not None:
                    for counted in ("evictions_number", "evictions_total"):
                        meters.count(f"node_collector_{counted}", (self._key(node),))
            else:
                zone.queue.failed(name)
