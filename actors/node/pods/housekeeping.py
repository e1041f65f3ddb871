"""Housekeeping: what no pod of the agent's sources accounts for is removed.

Turns the agent's pods and the containers of the machine into orphans that are stopped, mirror pods
that are deleted and static pods that start again.

Holds: nothing is scheduled while nothing can be found; a pass falls on the two-second rhythm of the
agent's start.

Mirrors  pkg/kubelet/kubelet_pods.go: HandlePodCleanups (v1.25).
"""

from __future__ import annotations

from actors.node.pod_work import FINISHED
from actors.node.pods.ports import PodAgent
from sim.units import SECOND

PERIOD_US = 2 * SECOND  # kubelet.go: housekeepingPeriod
ORPHAN_GRACE_US = 1 * SECOND  # kubelet_pods.go: HandlePodCleanups


class Housekeeping:
    """The housekeeping of one agent incarnation.  done: True once a pass has run."""

    __slots__ = ("_agent", "_began_us", "done")

    def __init__(self, agent: PodAgent) -> None:
        self._agent = agent
        self._began_us = agent.now_us
        self.done = False

    def after_us(self) -> int:
        """How long it is until the next pass of the rhythm."""
        return PERIOD_US - (self._agent.now_us - self._began_us) % PERIOD_US

    def later(self) -> None:
        """Run the next pass, which is skipped otherwise."""
        self._agent.ctx.call_later_us(self.after_us(), self._run)

    def _run(self, _: object) -> None:
        agent = self._agent
        if not agent.sources_ready:
            return  # the API may still list the pods of containers that look like orphans
        if agent.loop.stalled():
            self.later()
            return
        self.done = True
        for uid in [uid for uid, worker in agent.workers.items() if worker.state == FINISHED]:
            agent.statuses.stopped(uid)
        self._kill_orphans()
        agent.mirrors.remove_orphans()
        agent.manifests.restart()

    def _kill_orphans(self) -> None:
        """Stop the containers of pods that no source has, and of pods that ran and are refused now.

        The former are left by a deletion during which no agent ran.
        """
        agent, now_us = self._agent, self._agent.now_us
        machine = agent.machine
        for uid, runtime in list(machine.pods.items()):
            worker = agent.workers.get(uid)
            if (worker is not None and worker.state != FINISHED) or agent.preemption.holds(uid):
                continue
            running = runtime.running(now_us)
            for container in running:
                machine.stop(container, ORPHAN_GRACE_US, now_us)
            machine.stop_sandbox(runtime)
            if running:
                agent.image_gc.remove(uid)
            elif worker is None:
                agent.container_gc.consider()
