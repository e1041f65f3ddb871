"""The zones of a running controller: counts of nodes, and the worker that adds NoExecute taints.

Turns nodes counted as ready or not into the states and rates of `zones`, and the queued nodes of
each zone, at its rate, into NoExecute taints.

Holds: a node is counted in one zone; the taint of a node follows from its condition at the time
       when it is taken from the queue.

Mirrors  kubernetes v1.25 pkg/controller/nodelifecycle/node_lifecycle_controller.go
         (addPodEvictorForNewZone, doNoExecuteTaintingPass, handleDisruption), component-helpers
         node/topology.
Differs  the worker with a period of 0.1 s runs only at ticks at which a queue has a node and a
         token.
Quirk:   when all zones go dark, taints are removed from the nodes that had them at the start of the
         pass (markNodeAsReachable reads its list): a taint that is written during that pass
         remains, and evicts pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from actors.controllers.nodelifecycle.decide import (
    NO_EXECUTE,
    Counted,
    Health,
    last_verdict,
    opposite_taint,
    taint_for,
)
from actors.controllers.nodelifecycle.zones import (
    Disruption,
    TaintQueue,
    Zone,
    ZoneState,
    decide_disruption,
)
from sim.api.objects import condition_of, zone_key
from sim.api.types import Obj
from sim.kernel import TIMED_OUT
from sim.kernel.causes import caused_by
from sim.kernel.measure import count
from sim.units import MS

if TYPE_CHECKING:
    from actors.controllers.nodelifecycle.writes import TaintWriter
    from actors.controllers.shared.shell import Env
    from sim.client.cache.informer import Informer
    from sim.kernel import Future

TICK_US = 100 * MS  # NodeEvictionPeriod
# A 0.1 s timer loop of a real process has a period of 100.6 ms: recorded taints that wait for a
# token are 10.07 s apart, of which their requests take 8 ms, and 70 recorded taints fit a period of
# 100.66 ms best (tests/data/measured).
TICK_LATE_US = 600


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

    def _count_evictions(self, zone: str, by: int) -> None:
        for counted in ("evictions_number", "evictions_total"):
            count(self._ctx.kernel, f"node_collector_{counted}", zone, by=by)

    def _gauges(self) -> Iterator[tuple[str, tuple[str, ...], float]]:
        """The zones that have nodes, for a reader of metrics (metrics.go)."""
        for key, zone in self._zones.items():
            if zone.size:
                self._count_evictions(key, 0)
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
        counted = Counted.READY if ready else Counted.NOT_READY
        self._count(health, key, Counted.OUT if exempt else counted)
        self._of(key)  # known from now on, even if the node is exempt

    def leave_out(self, health: Health) -> None:
        """Take a node out of the counts."""
        self._count(health, health.zone, Counted.OUT)

    def _count(self, health: Health, key: str, counted: Counted) -> None:
        if health.counted is counted and health.zone == key:
            return
        if health.counted is not Counted.OUT:
            self._zones[health.zone].count(health.counted, -1)
        health.counted = counted
        if counted is not Counted.OUT:
            health.zone = key
            self._of(key).count(counted, 1)

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
                self._count_evictions(self._key(node), 1)
            else:
                zone.queue.failed(name)
