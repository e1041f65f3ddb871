"""Kills of pods that a part of the agent waits for, with a limit.

Turns the request of the eviction manager, of preemption or of a shutdown to end a pod into a kill,
and calls it back when nothing of the pod runs any more, or when the limit has passed.

Holds: each request is answered exactly once.

Mirrors  pkg/kubelet/pod_workers.go: killPodNow (v1.25).
"""

from __future__ import annotations

from collections.abc import Callable

from actors.node.pod_work import FINISHED, TERMINATED, Override
from actors.node.runtime.ports import Agent, NodePod
from sim.dataclass import dataclass
from sim.units import SECOND

WAIT_MIN_US = 10 * SECOND  # pod_workers.go: killPodNow, minTimeout
LATE = "Container runtime did not kill the pod within specified grace period."


def wait_us(grace_s: int) -> int:
    """How long the end of a killed pod is waited for."""
    return max(WAIT_MIN_US, (grace_s + grace_s // 2) * SECOND)


@dataclass(slots=True, eq=False)
class Kill:
    """One request.  then: gets True if the pod ended in time."""

    worker: NodePod
    then: Callable[[bool], None]


class Kills:
    """The pending requests of one agent incarnation."""

    __slots__ = ("_agent", "_pending")

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._pending: list[Kill] = []

    def end(
        self,
        worker: NodePod,
        override: Override,
        then: Callable[[bool], None],
        grace_s: int | None = None,
    ) -> None:
        """End a pod with this phase, reason and message; `grace_s` shortens its grace period.

        Quirk: the end of a pod that had finished before is never reported in time.
        """
        finished = worker.state == FINISHED
        worker.kill(grace_s=grace_s, override=override)
        if worker.removed or worker.state == TERMINATED or (worker.state == FINISHED and not finished):
            then(True)
            return
        kill = Kill(worker, then)
        self._pending.append(kill)
        own_s = worker.pod["spec"].get("terminationGracePeriodSeconds")
        requested_s = (own_s or 0) if grace_s is None else grace_s
        self._agent.ctx.call_later_us(wait_us(requested_s), self._give_up, kill)

    def stopped(self, worker: NodePod) -> None:
        """Nothing of a pod runs any more."""
        ended = [kill for kill in self._pending if kill.worker is worker]
        for kill in ended:
            self._pending.remove(kill)
        for kill in ended:
            kill.then(True)

    def _give_up(self, kill: Kill) -> None:
        if kill in self._pending:
            self._pending.remove(kill)
            self._agent.event(kill.worker.pod, "Warning", "ExceededGracePeriod", LATE)
            kill.then(False)
