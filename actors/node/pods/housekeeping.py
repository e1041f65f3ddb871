"""Housekeeping: what no pod of the agent's sources accounts for is removed.

Turns the agent's pods and the containers of the machine into orphans that are stopped, mirror pods
that are deleted and static pods that start again.

Holds: nothing is scheduled while nothing can be found; a pass falls on the two-second rhythm of the
agent's start.

Mirrors  pkg/kubelet/kubelet_pods.go: HandlePodCleanups (v1.25).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from actors.node.pod_work import FINISHED, KillablePod
from actors.node.pods.preemption import Preemption
from actors.node.pods.status_manager import StatusManager
from actors.node.runtime.container_gc import ContainerGC
from actors.node.runtime.image_gc import ImageGC
from actors.node.runtime.ports import Host
from actors.node.sources.manifests import Manifests
from actors.node.sources.mirrors import Mirrors
from sim.units import SECOND

PERIOD_US = 2 * SECOND  # kubelet.go: housekeepingPeriod
ORPHAN_GRACE_US = 1 * SECOND  # kubelet_pods.go: HandlePodCleanups


class Loop(Protocol):
    """The agent's sync loop."""

    def stalled(self) -> bool:
        """True while no worker may begin anything."""
        ...


class Owner(Host, Protocol):
    """What housekeeping uses of the node agent.

    sources_ready: True once the API has listed the node's pods
    """

    sources_ready: bool
    statuses: StatusManager
    preemption: Preemption
    mirrors: Mirrors
    manifests: Manifests
    container_gc: ContainerGC
    image_gc: ImageGC

    @property
    def loop(self) -> Loop:
        """The agent's sync loop."""
        ...

    @property
    def workers(self) -> Mapping[str, KillablePod]:
        """The workers of all pods, by uid."""
        ...


class Housekeeping:
    """The housekeeping of one agent incarnation.  done: True once a pass has run."""

    __slots__ = ("_began_us", "_owner", "done")

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._began_us = owner.now_us
        self.done = False

    def after_us(self) -> int:
        """How long it is until the next pass of the rhythm."""
        return PERIOD_US - (self._owner.now_us - self._began_us) % PERIOD_US

    def later(self) -> None:
        """Run the next pass, which is skipped otherwise."""
        self._owner.ctx.call_later_us(self.after_us(), self._run)

    def _run(self, _: object) -> None:
        owner = self._owner
        if not owner.sources_ready:
            return  # the API may still list the pods of containers that look like orphans
        if owner.loop.stalled():
            self.later()
            return
        self.done = True
        for uid in [uid for uid, worker in owner.workers.items() if worker.state == FINISHED]:
            owner.statuses.stopped(uid)
        self._kill_orphans()
        owner.mirrors.remove_orphans()
        owner.manifests.restart()

    def _kill_orphans(self) -> None:
        """Stop the containers of pods that no source has, and of pods that ran and are refused now.

        The former are left by a deletion during which no agent ran.
        """
        owner, now_us = self._owner, self._owner.now_us
        machine = owner.machine
        for uid, runtime in list(machine.pods.items()):
            worker = owner.workers.get(uid)
            if (worker is not None and worker.state != FINISHED) or owner.preemption.holds(uid):
                continue
            running = runtime.running(now_us)
            for container in running:
                machine.stop(container, ORPHAN_GRACE_US, now_us)
            machine.stop_sandbox(runtime)
            if running:
                owner.image_gc.remove(uid)
            elif worker is None:
                owner.container_gc.consider()
