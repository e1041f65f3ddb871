"""Who asks for a pod's end waits for it, but not for ever.

Turns the wish of the eviction manager, of preemption and of a shutdown that a pod ends into a kill, and tells them when
nothing of the pod runs any more, or when they have waited long enough.

Holds: each wish is answered once, whatever becomes of the pod.

Mirrors  pkg/kubelet/pod_workers.go: killPodNow (v1.25).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from actors.node.pod_work import FINISHED, TERMINATED, KillablePod, Obj
from sim.kernel.actor import Context
from sim.units import SECOND

LEAST_US = 10 * SECOND  # pod_workers.go: killPodNow, minTimeout
LATE = "Container runtime did not kill the pod within specified grace period."


def wait_us(grace_s: int) -> int:
    """How long whoever killed a pod waits for its end."""
    return max(LEAST_US, (grace_s + grace_s // 2) * SECOND)


@dataclass(slots=True, eq=False)
class Kill:
    """One wish.  then: told whether the pod has ended."""

    worker: KillablePod
    then: Callable[[bool], None]


class Owner(Protocol):
    """What `Kills` uses of the node agent."""

    ctx: Context

    def event(self, pod: Obj, type_: str, reason: str, message: str) -> None:
        """Record an event about a pod."""
        ...


class Kills:
    """One agent's.  _open: wishes that wait for their answer."""

    __slots__ = ("_agent", "_open")

    def __init__(self, agent: Owner) -> None:
        self._agent = agent
        self._open: list[Kill] = []

    def end(
        self,
        worker: KillablePod,
        override: tuple[str, str, str],
        then: Callable[[bool], None],
        *,
        grace_s: int | None = None,
    ) -> None:
        """End the pod, with this phase, reason and message and, if `grace_s` says so, sooner than by its own grace.

        Quirk: of a pod that had come to its end before, nobody tells that it has ended.
        """
        finished = worker.state == FINISHED
        worker.kill(grace_s=grace_s, override=override)
        if worker.removed or worker.state == TERMINATED or (worker.state == FINISHED and not finished):
            then(True)
            return
        kill = Kill(worker, then)
        self._open.append(kill)
        own_s = worker.pod["spec"].get("terminationGracePeriodSeconds")
        wanted_s = (own_s or 0) if grace_s is None else grace_s
        self._agent.ctx.call_later_us(wait_us(wanted_s), self._late, kill)

    def stopped(self, worker: KillablePod) -> None:
        """Nothing of a pod runs any more."""
        answered = [kill for kill in self._open if kill.worker is worker]
        for kill in answered:
            self._open.remove(kill)
        for kill in answered:
            kill.then(True)

    def _late(self, kill: Kill) -> None:
        if kill in self._open:
            self._open.remove(kill)
            self._agent.event(kill.worker.pod, "Warning", "ExceededGracePeriod", LATE)
            kill.then(False)
