"""The zones of a cluster as one pass after the other finds them, and the worker that taints their
nodes.

Turns nodes counted as ready or not into zone states and rates, and what is queued in each zone, at
its rate, into NoExecute taints.

Holds: a node is counted in one zone at a time; what a node is tainted for is what is known of it
when its turn comes.

Mirrors  kubernetes v1.25 pkg/controller/nodelifecycle/node_lifecycle_controller.go
         (doNoExecuteTaintingPass, handleDisruption).
Differs  the 0.1 s tainting worker runs only at those of its ticks at which a queue has a node and a
         token.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from actors.controllers.nodelifecycle.decide import (
    NO_EXECUTE,
    Health,
    last_verdict,
    opposite_taint,
    taint_for,
)
from actors.controllers.nodelifecycle.zone_states import (
    Disruption,
    TaintQueue,
    Zone,
    ZoneState,
    decide_disruption,
)
from sim.api.objects import condition_of, zone_key
from sim.api.types import Obj
from sim.kernel import TIMED_OUT
from sim.units import MS

if TYPE_CHECKING:
    from actors.controllers.nodelifecycle.taints import TaintWriter
    from actors.controllers.shared.shell import Env
    from sim.client.cache.informer import Informer
    from sim.kernel import Future

TICK_US = 100 * MS  # NodeEvictionPeriod
# A 0.1 s timer loop of a real process comes round every 100.6 ms: recorded taints that wait for a
# token are 10.07 s apart, of which 8 ms are their requests, and 70 recorded taints fit a tick of
# 100.66 ms best (tests/data/measured).
TICK_LATE_US = 600


class Zones:
    """By key, in the order in which they came.

    health: of each node by its name, as the passes find it.
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

    # --- as passes find them ----------------------------------------------------------------------

    def _key(self, node: Obj) -> str:
        return zone_key(node["metadata"].get("labels") or {}, self._names)

    def _of(self, key: str) -> Zone:
        zone = self._zones.get(key)
        if zone is None:
            zone = self._zones[key] = Zone(TaintQueue(self._options.node_eviction_rate))
        return zone

    def count(self, health: Health, node: Obj, ready: bool) -> Zone:
        """Let a node stand in its zone's counts, if it is not exempt from them; the zone."""
        key = self._key(node)
        exempt = self._names.label_node_exclude_disruption in (node["metadata"].get("labels") or {})
        self._count(health, key, None if exempt else ready)
        return self._of(key)

    def leave_out(self, health: Health) -> None:
        """Let a node not be counted."""
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
        """What the counts of a pass mean for the states; zones that nobody counts in are left."""
        counted = {key: zone for key, zone in self._zones.items() if zone.size}
        decision = decide_disruption(counted, self._options)
        if len(counted) < len(self._zones):
            self._leave(counted, nodes)
        return decision

    def _leave(self, counted: Mapping[str, Zone], nodes: Mapping[str, Obj]) -> None:
        """Forget zones without nodes; one whose nodes all are exempt has no state, but its queue
        goes on.
        """
        inhabited = {self._key(node) for node in nodes.values()}
        for key in [key for key in self._zones if key not in counted]:
            if key in inhabited:
                self._zones[key].state = ZoneState.INITIAL
            else:
                del self._zones[key]

    def settle(self, decision: Disruption, everyone: Iterable[Health]) -> None:
        """Set states and rates; a state is seen because of who of the zone fell silent last."""
        kernel, now_us = self._ctx.kernel, self._ctx.now_us()
        for key, state in decision.states.items():
            zone = self._zones[key]
            if zone.queue.swap(decision.rates[key], now_us):
                self._wake()
            if zone.state is not state:
                zone.state = state
                seen = last_verdict(everyone, key) or kernel.cause
                kernel.trace.add(self._kind, kernel.now_us, seen, (key, state.value))

    # --- tainting ---------------------------------------------------------------------------------

    def queue(self, zone: Zone, node: Obj, *, anew: bool) -> None:
        """Have a node tainted in its turn; anew: also if it was taken from the queue before."""
        name = node["metadata"]["name"]
        if anew:
            zone.queue.remove(name)
        if zone.queue.add(name):
            self._wake()

    def unqueue(self, node: Obj) -> None:
        zone = self._zones.get(self._key(node))
        if zone is not None:
            zone.queue.remove(node["metadata"]["name"])

    def _wake(self) -> None:
        if self._kick is not None:
            self._kick.set(None)

    async def taint_forever(self) -> None:
        """Every 0.1 s, slidingly, taint what the queues give."""
        # The first tick is as the loop starts, before the first pass has met a zone: it finds
        # nothing, though what that pass queues is queued at the same instant here.
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
            cause = self._ctx.kernel.cause
            for zone in list(self._zones.values()):
                await self._taint(zone)
            self._ctx.kernel.cause = cause
            base_us = self._ctx.now_us() + tick_us

    async def _taint(self, zone: Zone) -> None:
        while (name := zone.queue.head(self._ctx.now_us())) is not None:
            node = self._nodes.get(name)
            ready = condition_of(node, "Ready") if node is not None else None
            taint = taint_for(ready["status"], self._names) if ready is not None else None
            if node is None or taint is None:
                zone.queue.done(name)  # gone, or ready again: the token is spent
                continue
            opposite = opposite_taint(taint, self._names)
            health = self._health.get(name)
            why = {"taint": f"{taint}:{NO_EXECUTE}", "zone": zone.state.value}
            self._ctx.decided("taint", f"nodes/{name}", why, health.verdict if health is not None else 0)
            if await self._writer.swap(node, [(taint, NO_EXECUTE)], [(opposite, NO_EXECUTE)]):
                zone.queue.done(name)
            else:
                zone.queue.failed(name)
