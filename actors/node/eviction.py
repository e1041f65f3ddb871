"""The eviction manager: which pod goes when the node runs out of memory.

Turns the machine's free memory and its pods' use of it into the MemoryPressure condition and evictions, one per
check.

Holds: a machine that has enough memory, or whose scenario says nothing about memory, schedules nothing; critical
pods are never evicted.

Mirrors  pkg/kubelet/eviction/eviction_manager.go: synchronize, evictPod, waitForPodsCleanup; helpers.go: rankMemoryPressure
         (v1.25).
Differs  hard `memory.available` only (disks and process numbers can be put under pressure by a fault, without
         evictions); a check is planned when memory can have become short, at the time that the 10 s poll would make it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from actors.node.admit import is_critical
from actors.node.node_status import threshold_value
from actors.node.pod_status import priority_of
from actors.node.worker import FINISHED, SYNC
from sim.units import BINARY_SI, SECOND, format_quantity, quantity_value

if TYPE_CHECKING:
    from actors.node.agent import NodeAgent
    from actors.node.worker import Worker

Obj = dict[str, Any]

POLL_US = 10 * SECOND  # kubelet.go: evictionMonitoringPeriod
CLEANUP_POLL_US = 1 * SECOND  # eviction_manager.go: podCleanupPollFreq
KILL_WAIT_US = 10 * SECOND  # pod_workers.go: killPodNow waits max(10, 1.5 x grace override of 0)
CLEANUP_WAIT_US = 30 * SECOND  # podCleanupTimeout
SIGNAL = "memory.available"
CONDITION = "MemoryPressure"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod that may be evicted, with what its containers use and asked for: (name, used, requested)."""

    name: str
    priority: int
    containers: tuple[tuple[str, int, int], ...]

    @property
    def over(self) -> int:
        return sum(used - asked for _, used, asked in self.containers)


def rank(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Over their requests first, then the less important, then the larger use beyond the request."""
    return sorted(candidates, key=lambda c: (c.over <= 0, c.priority, -c.over, c.name))


def eviction_message(candidate: Candidate) -> str:
    text = "The node was low on resource: memory. "
    for name, used, asked in candidate.containers:
        if used > asked:
            shown = format_quantity(used, BINARY_SI), format_quantity(asked, BINARY_SI)
            text += f"Container {name} was using {shown[0]}, which exceeds its request of {shown[1]}. "
    return text


class Evictor:
    """One agent's eviction manager.  `pressures`: the conditions it holds."""

    __slots__ = ("_agent", "_began_us", "_due_us", "_seen_us", "_threshold", "_waiting", "pressures")

    def __init__(self, agent: NodeAgent) -> None:
        self._agent = agent
        self._began_us = agent.now_us
        capacity = agent.spec.capacity.get("memory", "0")
        text = agent.options.eviction_hard.get(SIGNAL)
        self._threshold = threshold_value(text, capacity) if text else 0
        self._seen_us = -1
        self._due_us = -1
        self._waiting: Worker | None = None
        self.pressures: tuple[str, ...] = ()

    def available(self) -> int:
        """Free memory of the machine now."""
        machine, now_us = self._agent.machine, self._agent.now_us
        used = machine.system_memory
        for pod in machine.pods.values():
            for container in pod.running(now_us):
                used += container.behaviour.memory_bytes
        return quantity_value(machine.spec.capacity.get("memory", "0")) - used

    def consider(self) -> None:
        """Memory may have become short: check at the next poll."""
        if self._waiting is None and self.available() < self._threshold:
            now_us = self._agent.now_us
            poll_us = now_us + POLL_US - (now_us - self._began_us) % POLL_US
            if self._due_us < 0 or poll_us < self._due_us:
                self._plan(poll_us)

    def _plan(self, at_us: int) -> None:
        self._due_us = at_us
        self._agent.ctx.call_later_us(at_us - self._agent.now_us, self._check, at_us)

    def _check(self, planned_us: int) -> None:
        if planned_us != self._due_us:
            return
        self._due_us = -1
        agent, now_us = self._agent, self._agent.now_us
        if self.available() < self._threshold:
            self._seen_us = now_us
            self._show((CONDITION,))
            agent.node_event("EvictionThresholdMet")
            if self._evict():
                agent.ctx.call_later_us(CLEANUP_POLL_US, self._clean, now_us)
            else:
                self._plan(now_us + POLL_US)
        elif self.pressures:
            until_us = self._seen_us + agent.options.eviction_pressure_transition_period_us
            if now_us > until_us:
                self._show(())
            else:
                self._plan(until_us + POLL_US - (until_us - self._began_us) % POLL_US)

    def _show(self, pressures: tuple[str, ...]) -> None:
        if pressures != self.pressures:
            self.pressures = pressures
            self._agent.node_changed()

    def _evict(self) -> bool:
        """Kill the first pod of the ranking; False if there is none."""
        agent = self._agent
        candidates = {c.name: (c, w) for w in agent.workers.values() if (c := self._candidate(w)) is not None}
        for candidate in rank([c for c, _ in candidates.values()])[:1]:
            worker = candidates[candidate.name][1]
            message = eviction_message(candidate)
            agent.event(worker.pod, "Warning", "Evicted", message)
            self._waiting = worker
            worker.kill(grace_s=0, override=("Failed", "Evicted", message))
            return True
        return False

    def _candidate(self, worker: Worker) -> Candidate | None:
        agent, pod = self._agent, worker.pod
        if worker.state != SYNC or worker.runtime is None or is_critical(pod, agent.is_static(pod)):
            return None
        running = {c.name: c.behaviour.memory_bytes for c in worker.runtime.running(agent.now_us)}
        rows = []
        for container in pod["spec"]["containers"]:
            asked = ((container.get("resources") or {}).get("requests") or {}).get("memory", "0")
            rows.append((container["name"], running.get(container["name"], 0), quantity_value(str(asked))))
        meta = pod["metadata"]
        return Candidate(f"{meta['namespace']}/{meta['name']}", priority_of(pod), tuple(rows))

    def _clean(self, since_us: int) -> None:
        """Wait for the evicted pod to be gone, at most a while, then check again at once."""
        agent, worker = self._agent, self._waiting
        over = agent.now_us - since_us >= KILL_WAIT_US + CLEANUP_WAIT_US
        if worker is not None and worker.state != FINISHED and not over:
            agent.ctx.call_later_us(CLEANUP_POLL_US, self._clean, since_us)
            return
        self._waiting = None
        self._plan(agent.now_us)
