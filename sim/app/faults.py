"""Everything that is wrong with a cluster, by who imposed it.

Turns faults that begin and end in any order, several on one target at once, into the state of machines, processes,
API servers and the storage: a fault is a value under (target, aspect) with the name of the step that imposed it; what
holds for the target is worked out anew from all values whenever one comes or goes.

Holds: the end of one fault never ends another one on the same target; a target without faults is as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from actors.node.runtime.machine import BAD_NETWORK, BAD_RUNTIME, SLOW_RUNTIME
from sim.kernel import Rule as NetworkRule
from sim.kernel.actor import PROCESS
from sim.report.story import END_OF
from sim.scenario.read.steps import DRIFT_MIN_PPM
from sim.units import format_duration

if TYPE_CHECKING:
    from sim.app.cluster import Cluster

CUTS = "cut nodes"  # the network rule that all cut nodes share
TERMINATED = "terminated"  # of a process that is asked to end; all other reasons end it at once
STOPPED, DELETED = "stopped", "deleted"  # of a node's instance
RUNTIME_MESSAGE = "the runtime does not answer"
NETWORK_MESSAGE = "the network plugin does not answer"
# Aspects that stand for a silence beside those of processes and of the network, each by itself -> whether nothing gets through.
STANDING = {"clock": False, "overload": False, "lag": False, "frozen": True, "quorum": True, "disk": False}
# Aspects that silence a target in the same way, so that it does not show when one of them comes or goes beside another.
ALIKE = (("power", "instance", "shutdown", "down"), ("pause",), ("cut",))
# Aspects by which something is wrong with a machine for as long as any fault says so: the first of those in force is why.
TROUBLES = (BAD_RUNTIME, SLOW_RUNTIME, BAD_NETWORK, "pressure")
# How a node fails -> which aspect of it, and with what value.
NODE_FAULTS: dict[str, tuple[str, Any]] = {
    "power-loss": ("power", True),
    "shutdown": ("shutdown", True),
    "hang": ("pause", True),
    "network-cut": ("cut", True),
    "agent-crash": ("down", "agent crashed"),
    "runtime-failure": ("runtime", RUNTIME_MESSAGE),
    "runtime-hang": ("runtime-delay", None),
    "pod-network-failure": ("pod-network", NETWORK_MESSAGE),
    "instance-stopped": ("instance", STOPPED),
    "instance-deleted": ("instance", DELETED),
}


class Faults:
    """All faults of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._kernel = cluster.kernel
        self._values: dict[tuple[str, str], dict[str, Any]] = {}
        self._records: dict[tuple[str, str], dict[str, int]] = {}  # by which they came
        self._keys: dict[str, dict[tuple[str, str], None]] = {}  # of each step, in order
        self._paces: dict[str, int] = {}  # process -> -1 paused, else microseconds it is slowed by
        self._settle: dict[str, Callable[[str], None]] = {
            "power": self._life,
            "instance": self._life,
            "shutdown": self._life,
            "down": self._life,
            "pause": self._pace,
            "slow": self._pace,
            "cut": self._cut,
            "runtime": self._runtime,
            "runtime-delay": self._runtime_delay,
            "pod-network": self._pod_network,
            "pressure": self._pressure,
            "behaviour": self._behaviour,
            "clock": self._clock,
            "overload": self._overload,
            "lag": self._lag,
            "frozen": self._frozen,
            "quorum": self._quorum,
            "disk": self._disk,
            # Who asks the cloud finds out (`sim.app.cloud`).
            "outage": lambda _: None,
            "call": lambda _: None,
        }

    def impose(self, step: str, target: str, aspect: str, value: Any = True) -> None:
        """From now on this is so, for `step`; a second value of the same step takes the first one's place."""
        if aspect in STANDING:
            mute, lasting = STANDING[aspect], aspect == "clock"
            self._kernel.standing.begin(f"{aspect} {step}", (target,), mute, lasting)
        self._values.setdefault((target, aspect), {})[step] = value
        self._records.setdefault((target, aspect), {})[step] = self._kernel.cause
        self._keys.setdefault(step, {})[target, aspect] = None
        self._settle[aspect](target)

    def lift(self, step: str) -> None:
        """Whatever the step imposed ends."""
        for target, aspect in self._keys.pop(step, {}):
            self._drop(target, aspect, step)
            self._settle[aspect](target)

    def started(self, name: str) -> None:
        """A process has started: the old one's death ended nothing of what holds it up."""
        self._paces.pop(name, None)
        self._pace(name)

    def fail(self, step: str, node: str, how: str, by_us: int = 0) -> None:
        """A node fails in one of the ways of `NODE_FAULTS`, or its disk is slow by so much."""
        aspect, value = ("runtime-delay", by_us) if how == "slow-disk" else NODE_FAULTS[how]
        self.impose(step, node, aspect, value)

    def press(self, step: str, node: str, resource: str, available: int, ramp_us: int) -> None:
        """Only so much of a resource stays available on a node; it may be another resource's under a second name."""
        one = self._cluster.nodes[node]
        target = f"{node}/{one.machine.shared(resource)}"
        self.impose(step, target, "pressure", one.pressure(resource, available, ramp_us))

    def heal(self, target: str, only: str = "") -> list[str]:
        """End all faults of a target (or those of one aspect); returns the steps that have no fault left by that."""
        ended = []
        of_it = [key for key in self._values if key[0].partition("/")[0] == target and only in ("", key[1])]
        for at, aspect in of_it:
            for step in list(self._values[at, aspect]):
                self._drop(at, aspect, step)
                keys = self._keys[step]
                del keys[at, aspect]
                if not keys:
                    del self._keys[step]
                    ended.append(step)
            self._settle[aspect](at)
        return ended

    def _drop(self, target: str, aspect: str, step: str) -> None:
        values, records = self._values[target, aspect], self._records[target, aspect]
        dropped = records[step]
        del values[step], records[step]
        if not values:
            del self._values[target, aspect], self._records[target, aspect]
        elif aspect in TROUBLES:
            node, _, resource = target.partition("/")
            self._cluster.nodes[node].machine.note_fault(resource or aspect, next(iter(records.values())))
        if aspect in STANDING:
            self._kernel.standing.end(f"{aspect} {step}", (target,))
        else:
            self._pass_on(target, aspect, dropped)

    def _pass_on(self, target: str, aspect: str, dropped: int) -> None:
        """Of several that silence a target alike the first is to blame, and the next one when that is over."""
        alike = next((group for group in ALIKE if aspect in group), ())
        held = [one for each in alike for one in self._records.get((target, each), {}).values()]
        if not held or dropped > min(held):
            return
        if aspect == "cut":
            self._kernel.standing.pass_on(CUTS, target, min(held))
            return
        runs = self._cluster.supervisor[target].running
        if runs is (aspect == "pause"):  # else it is silent for another reason
            self._kernel.standing.pass_on(PROCESS, target, min(held))

    def values(self, target: str, aspect: str) -> list[Any]:
        """The values in force, in the order in which they came."""
        return list(self._values.get((target, aspect), {}).values())

    def record(self, target: str, aspect: str, value: Any) -> int:
        """By which this value came first, of those in force; 0: it is not."""
        found = self._values.get((target, aspect), {})
        return next((self._records[target, aspect][step] for step in found if found[step] == value), 0)

    # --- what holds now -----------------------------------------------------------------------------------

    def _life(self, name: str) -> None:
        """Power of a machine, and whether a process may run."""
        cluster = self._cluster
        actor, node = cluster.supervisor[name], cluster.nodes.get(name)
        down = self.values(name, "down")
        actor.barred = bool(down)
        if node is not None:
            instance = self.values(name, "instance")
            if instance or self.values(name, "power"):
                if node.machine.powered:
                    node.power_loss()
                if DELETED in instance:
                    node.machine.erase()
                return
            if self.values(name, "shutdown"):
                node.shutdown()
            else:
                node.cancel_shutdown()
                if not node.machine.powered:
                    node.power_on()
        kills = [reason for reason in down if reason != TERMINATED]
        if kills:
            actor.crash(kills[-1])
        elif down:
            actor.terminate()
        elif not self.values(name, "shutdown"):
            actor.start()

    def _pace(self, name: str) -> None:
        """Paused, slow or free."""
        actor = self._cluster.supervisor[name]
        pace = -1 if self.values(name, "pause") else sum(self.values(name, "slow"))
        before = self._paces.get(name, 0)
        if pace == before:
            return
        self._paces[name] = pace
        self._trail(name)
        if pace < 0:
            actor.pause()
            return
        if before < 0 or not pace:
            actor.resume(pace)
        if pace:
            actor.slow(pace)

    def _cut(self, _: str) -> None:
        """One rule for all nodes that are cut off."""
        nodes = [target for target, aspect in self._values if aspect == "cut"]
        if nodes:
            self._kernel.network.impose(NetworkRule(CUTS, frozenset(nodes), None, cut=True))
        else:
            self._kernel.network.lift(CUTS)

    def _runtime(self, name: str) -> None:
        self._cluster.nodes[name].fail_runtime(next(iter(self.values(name, "runtime")), ""))

    def _runtime_delay(self, name: str) -> None:
        """Slow disks add up; a runtime that does not answer at all is slower than any."""
        node, delays = self._cluster.nodes[name], self.values(name, "runtime-delay")
        if None in delays:
            node.hang_runtime()
        else:
            node.slow_runtime(sum(delays))

    def _pod_network(self, name: str) -> None:
        self._cluster.nodes[name].fail_pod_network(next(iter(self.values(name, "pod-network")), ""))

    def _pressure(self, target: str) -> None:
        """Target NODE/RESOURCE: each fault uses what it did as it began, however others come and go; the most counts."""
        name, _, resource = target.partition("/")
        uses = self.values(target, "pressure")
        if uses:
            self._cluster.nodes[name].press(resource, uses)
        else:
            self._cluster.nodes[name].end_pressure(resource)

    def _behaviour(self, name: str) -> None:
        self._cluster.nodes[name].behave(self.values(name, "behaviour"))

    def _clock(self, name: str) -> None:
        """Offsets and drifts add up; however many slow it down, the clock goes on."""
        skews = self.values(name, "clock")
        offset_us = sum(offset_us for offset_us, _ in skews)
        drift_ppm = max(DRIFT_MIN_PPM, sum(drift_ppm for _, drift_ppm in skews))
        node = self._cluster.nodes.get(name)
        if node is not None:
            node.set_clock(offset_us=offset_us, drift_ppm=drift_ppm)
        else:
            self._cluster.supervisor[name].clock.set(
                self._kernel.now_us, offset_us=offset_us, drift_ppm=drift_ppm
            )

    def _noted(
        self, name: str, what: str, values: list[Any], reason: str = ""
    ) -> AbstractContextManager[None]:
        """A trace record of what befalls a process that goes on running, or of its end."""
        told = what if values else END_OF + what
        return self._cluster.supervisor.noted(told, name, reason, of_process=False)

    def _overload(self, name: str) -> None:
        """Delays add up, the tightest limit counts."""
        loads = self.values(name, "overload")
        limits = [inflight for _, inflight in loads if inflight is not None]
        by_us, limit = sum(by_us for by_us, _ in loads), min(limits) if limits else None
        told = [f"requests take {format_duration(by_us)} longer"] if by_us else []
        told += [] if limit is None else [f"{limit} at once"]
        with self._noted(name, "overload", loads, ", ".join(told)):
            self._cluster.api_servers[name].overload(by_us, limit)

    def _lag(self, name: str) -> None:
        lags = self.values(name, "lag")
        with self._noted(name, "lag", lags, f"by {format_duration(sum(lags))}" if lags else ""):
            self._trail(name)

    def _trail(self, name: str) -> None:
        """The caches of an API server that is slow take in each change so much later too."""
        server = self._cluster.api_servers.get(name)
        if server is not None:
            server.lag(sum(self.values(name, "lag")) + sum(self.values(name, "slow")))

    def _frozen(self, name: str) -> None:
        frozen = self.values(name, "frozen")
        with self._noted(name, "frozen", frozen):
            self._cluster.api_servers[name].freeze(bool(frozen))

    def _quorum(self, name: str) -> None:
        lost = self.values(name, "quorum")
        with self._noted(name, "lost-quorum", lost):
            self._cluster.storage.set_quorum(not lost)

    def _disk(self, name: str) -> None:
        slow = self.values(name, "disk")
        with self._noted(name, "slow-disk", slow, f"by {format_duration(sum(slow))}" if slow else ""):
            self._cluster.storage.extra_us = sum(slow)
