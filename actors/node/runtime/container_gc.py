"""Removes dead containers: surplus ones of a name, and those of pods that no longer exist.

Turns the dead containers of a machine into those to remove (`surplus`, `excess`: pure): all but the
newest of each name as soon as a relist has shown the end, and every minute those above the limits
of the options.

Holds: a node with default options, without containers of deleted pods, and with a runtime that
answers, schedules nothing.

Mirrors  pkg/kubelet/kuberuntime/kuberuntime_gc.go: evictContainers;
         pkg/kubelet/pod_container_deletor.go; kubelet.go: cleanUpContainersInPod,
         StartGarbageCollection (v1.25).
Differs  containers that upstream removes during a sync are removed at the end of the sync.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from actors.node.pod_work import FINISHED, SYNC
from actors.node.runtime.call_deadlines import GIVEN_UP
from actors.node.runtime.containers import Container, PodRuntime
from actors.node.runtime.image_store.gc import ImageGC
from actors.node.runtime.ports import Agent, NodePod
from sim.units import MINUTE

PERIOD_US = 1 * MINUTE  # kubelet.go: ContainerGCPeriod
KEEP_MIN = 1  # kubelet.go: minDeadContainerInPod
CALL_COUNT = 2  # calls of a pass, each with its own timeout

Unit = list[Container]  # the dead instances of one container, oldest first


def surplus(unit: Sequence[Container], keep: int) -> list[Container]:
    """All instances but the newest `keep`."""
    return list(unit[: max(0, len(unit) - keep)])


def excess(units: Sequence[Unit], per_unit: int, total: int) -> list[Container]:
    """What to remove to keep `per_unit` instances of a unit, and `total` of all units.

    A negative number is no limit.
    """
    gone = [container for unit in units for container in surplus(unit, per_unit)] if per_unit >= 0 else []
    kept = [unit[-per_unit:] if per_unit > 0 else unit[:0] if per_unit == 0 else unit for unit in units]
    count = sum(map(len, kept))
    if total < 0 or count <= total:
        return gone
    share = max(1, total // len(kept))
    gone += [container for unit in kept for container in surplus(unit, share)]
    rest = sorted((one for unit in kept for one in unit[-share:]), key=lambda one: one.started_us)
    return gone + surplus(rest, total)


class ContainerGC:
    """The container garbage collection of one agent incarnation.

    _began_us: the instant of a pass
    _waiting_since_us: the pass that waits for a silent runtime; -1 without one
    _planned: True if the next pass is scheduled
    _keep: how many dead instances of a container stay
    """

    __slots__ = ("_agent", "_began_us", "_holds", "_image_gc", "_keep", "_planned", "_waiting_since_us")

    def __init__(self, agent: Agent, image_gc: ImageGC, holds: Callable[[str], bool]) -> None:
        self._agent, self._image_gc, self._holds = agent, image_gc, holds
        self._began_us = agent.now_us
        self._waiting_since_us = -1
        self._planned = False
        self._keep = max(KEEP_MIN, agent.options.maximum_dead_containers_per_container)

    def start(self) -> None:
        """Plan the first pass if the options limit the dead containers."""
        if self._limits_containers():
            self.consider()

    def _limits_containers(self) -> bool:
        """True if the options let passes remove containers of pods that still exist."""
        options = self._agent.options
        return options.maximum_dead_containers_per_container == 0 or options.maximum_dead_containers >= 0

    # --- when a container has ended ---------------------------------------------------------------

    def trim(self, worker: NodePod) -> bool:
        """Remove surplus dead instances, once a relist has shown their ends.

        Returns True if the pod's status shows a removed instance until the next sync.
        """
        runtime = worker.runtime
        if runtime is None or not runtime.several:
            return False
        gone, now_us = [], self._agent.now_us
        for unit in _units(runtime, now_us):
            seen = [one for one in unit if self._agent.relist_after(one.exit_us or 0) <= now_us]
            gone += surplus(seen, self._keep)
            if len(seen) < len(unit) > self._keep:  # a sync ran before the relist
                at_us = self._agent.relist_after(unit[-1].exit_us or 0)
                self._agent.ctx.call_at_us(at_us, self._trim_later, worker)
        if gone:
            self._image_gc.drop(worker.uid, gone)
        return any(
            not newest.running(now_us) for one in gone if (newest := runtime.newest(one.name)) is not None
        )

    def _trim_later(self, worker: NodePod) -> None:
        if worker.sync_is_due():
            return  # the sync that is due now trims
        if self.trim(worker):
            _resync(worker)

    # --- passes -----------------------------------------------------------------------------------

    def consider(self) -> None:
        """Plan the next pass, which may find something to remove."""
        if not self._planned:
            self._planned = True
            now_us = self._agent.now_us
            at_us = now_us + PERIOD_US - (now_us - self._began_us) % PERIOD_US
            self._agent.ctx.call_at_us(at_us, self._pass)

    def _pass(self, _: object) -> None:
        if not self._agent.runtime.silent:
            self.collect()
            self._end()
            return
        self._waiting_since_us = self._agent.now_us
        # The pass lists containers and then, even if that fails, sandboxes.
        limit_us = CALL_COUNT * self._agent.options.runtime_request_timeout_us
        self._agent.ctx.call_at_us(self._waiting_since_us + limit_us, self._give_up, self._waiting_since_us)

    def _give_up(self, began_us: int) -> None:
        if began_us == self._waiting_since_us:
            self._fail()

    def answered(self) -> None:
        """The runtime answers: a pass that waits for containers continues."""
        if self._waiting_since_us < 0:
            return
        if self._agent.now_us - self._waiting_since_us >= self._agent.options.runtime_request_timeout_us:
            self._fail()
        else:
            self._waiting_since_us, self._began_us = -1, self._agent.now_us
            self.collect()
            self._end()

    def _fail(self) -> None:
        self._agent.node_event("ContainerGCFailed", GIVEN_UP, "Warning")
        self._waiting_since_us, self._began_us = -1, self._agent.now_us
        self._end()

    def _end(self) -> None:
        self._planned = False
        agent = self._agent
        if (
            self._limits_containers()
            or agent.runtime.silent
            or any(map(self._is_removable, agent.machine.pods))
        ):
            self.consider()

    def collect(self, *, ended: bool = False) -> None:
        """One pass.

        ended: True if nothing of pods that have ended stays (DeleteAllUnusedContainers)
        """
        agent, options = self._agent, self._agent.options
        youngest_us, said_us = agent.ctx.wall_us() - options.minimum_container_ttl_us, agent.ctx.said_us
        units: list[Unit] = []
        for uid, runtime in list(agent.machine.pods.items()):
            found = [
                [one for one in unit if said_us(one.started_us) <= youngest_us]
                for unit in _units(runtime, agent.now_us)
            ]
            if agent.sources_ready and self._is_removable(uid, ended=ended):
                self._image_gc.drop(uid, [one for unit in found for one in unit])
                if not runtime.containers:
                    agent.machine.remove(uid)
                continue
            units += [unit for unit in found if unit]
        per_unit, total = options.maximum_dead_containers_per_container, options.maximum_dead_containers
        for container in excess(units, per_unit, total):
            self._image_gc.drop(container.uid, [container])
            worker = agent.workers.get(container.uid)
            if worker is not None:
                _resync(worker)

    def _is_removable(self, uid: str, *, ended: bool = False) -> bool:
        """True if nothing of the pod need stay.

        Mirrors  pod_workers.go: ShouldPodContentBeRemoved.
        """
        worker = self._agent.workers.get(uid)
        if worker is None:
            return not self._holds(uid)
        deleted = "deletionTimestamp" in worker.pod["metadata"]
        return worker.state == FINISHED and (ended or deleted)


def _resync(worker: NodePod) -> None:
    """Make the pod's next sync show the remaining containers.

    A pod that waits to start something is synced anyway.
    """
    if worker.state == SYNC and not worker.reasons:
        worker.resync()


def _units(runtime: PodRuntime, now_us: int) -> list[Unit]:
    """The dead instances of each container."""
    units: dict[str, Unit] = {}
    for container in runtime.containers:
        if container.exited(now_us):
            units.setdefault(container.name, []).append(container)
    return list(units.values())
