"""Removes dead containers: those that are too many of their name, and what is left of pods that are gone.

Turns the containers of a machine that have ended into those that go (`surplus`, `excess`: pure): beyond the newest of each
name as soon as a relist has shown the end, and each minute those that the options do not let stay.

Holds: a node with default options, of which no finished pod has been deleted and whose runtime answers, schedules nothing.

Mirrors  pkg/kubelet/kuberuntime/kuberuntime_gc.go: evictContainers; pkg/kubelet/pod_container_deletor.go; kubelet.go:
         cleanUpContainersInPod, StartGarbageCollection (v1.25).
Differs  what is removed while a sync goes on is removed when that is over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from actors.node.pod_work import FINISHED, SYNC, Obj, Reason
from actors.node.runtime.call_deadlines import GIVEN_UP
from actors.node.runtime.machine import Container, PodRuntime
from actors.node.runtime.ports import RuntimeHost
from sim.units import MINUTE

PERIOD_US = 1 * MINUTE  # kubelet.go: ContainerGCPeriod
LEAST = 1  # kubelet.go: minDeadContainerInPod
CALLS = 2  # of a pass, each given up by itself

Unit = list[Container]  # the dead instances of one container, oldest first


def surplus(unit: Sequence[Container], keep: int) -> list[Container]:
    """All but the newest `keep`."""
    return list(unit[: max(0, len(unit) - keep)])


def excess(units: Sequence[Unit], each: int, whole: int) -> list[Container]:
    """What goes for there to be `each` of a unit and `whole` of all of them at most; negative: so many as there are."""
    gone = [container for unit in units for container in surplus(unit, each)] if each >= 0 else []
    kept = [unit[-each:] if each > 0 else unit[:0] if each == 0 else unit for unit in units]
    count = sum(map(len, kept))
    if whole < 0 or count <= whole:
        return gone
    share = max(1, whole // len(kept))
    gone += [container for unit in kept for container in surplus(unit, share)]
    rest = sorted((one for unit in kept for one in unit[-share:]), key=lambda one: one.started_us)
    return gone + surplus(rest, whole)


class CollectedPod(Protocol):
    """A pod worker as seen by the garbage collection of its containers.

    runtime: the pod's sandbox and containers; None before the first sandbox
    reasons: why containers did not start when that was last tried
    """

    uid: str
    state: str
    runtime: PodRuntime | None
    reasons: Mapping[str, Reason]

    @property
    def pod(self) -> Obj:
        """The newest object of the pod."""
        ...

    def sync_is_due(self) -> bool:
        """True if the pod's status does not show the newest ends of containers."""
        ...

    def resync(self) -> None:
        """Run the next regular sync, which is left out otherwise."""
        ...


class Images(Protocol):
    """The garbage collection of images, which must know which containers are removed."""

    def drop(self, uid: str, gone: Sequence[Container]) -> None:
        """Remove dead containers of a pod."""
        ...


class WaitingPods(Protocol):
    """The critical pods that wait for room, which have no worker yet."""

    def holds(self, uid: str) -> bool:
        """True if the pod waits for room."""
        ...


class Owner(RuntimeHost, Protocol):
    """What the collection uses of the node agent.

    sources_ready: True once the API has listed the node's pods
    """

    sources_ready: bool

    @property
    def workers(self) -> Mapping[str, CollectedPod]:
        """The workers of all pods, by uid."""
        ...

    @property
    def image_gc(self) -> Images:
        """The garbage collection of images."""
        ...

    @property
    def preemption(self) -> WaitingPods:
        """The critical pods that wait for room."""
        ...

    def relist_after(self, at_us: int) -> int:
        """When the first relist of the runtime that begins strictly after an instant has ended."""
        ...


class ContainerGC:
    """One agent's container garbage collection.  _asked_us: of the pass that waits for the runtime, -1 if none does."""

    __slots__ = ("_agent", "_asked_us", "_began_us", "_due", "_keeps")

    def __init__(self, agent: Owner) -> None:
        self._agent = agent
        self._began_us = agent.now_us
        self._asked_us = -1
        self._due = False
        self._keeps = max(LEAST, agent.options.maximum_dead_containers_per_container)

    def start(self) -> None:
        if self._is_strict():
            self.consider()

    def _is_strict(self) -> bool:
        """Whether passes may remove what the ends of containers leave."""
        options = self._agent.options
        return options.maximum_dead_containers_per_container == 0 or options.maximum_dead_containers >= 0

    # --- when a container has ended -----------------------------------------------------------------------

    def trim(self, worker: CollectedPod) -> bool:
        """Keep the newest dead instances whose ends a relist has shown.

        Returns whether the pod's status tells of one that is gone until it is worked out again.
        """
        runtime = worker.runtime
        if runtime is None or not runtime.several:
            return False
        gone, now_us = [], self._agent.now_us
        for unit in _units(runtime, now_us):
            seen = [one for one in unit if self._agent.relist_after(one.exit_us or 0) <= now_us]
            gone += surplus(seen, self._keeps)
            if len(seen) < len(unit) > self._keeps:  # a sync has come before the relist
                at_us = self._agent.relist_after(unit[-1].exit_us or 0)
                self._agent.ctx.call_at_us(at_us, self._trim_later, worker)
        if gone:
            self._agent.image_gc.drop(worker.uid, gone)
        return any(
            not newest.running(now_us) for one in gone if (newest := runtime.newest(one.name)) is not None
        )

    def _trim_later(self, worker: CollectedPod) -> None:
        if worker.sync_is_due():
            return  # the sync that is due now does it
        if self.trim(worker):
            _show(worker)

    # --- passes -------------------------------------------------------------------------------------------

    def consider(self) -> None:
        """The next pass may find something."""
        if not self._due:
            self._due = True
            now_us = self._agent.now_us
            at_us = now_us + PERIOD_US - (now_us - self._began_us) % PERIOD_US
            self._agent.ctx.call_at_us(at_us, self._pass)

    def _pass(self, _: object) -> None:
        if not self._agent.runtime.silent:
            self.collect()
            self._end()
            return
        self._asked_us = self._agent.now_us
        # It asks for containers, and then, whatever came of that, for sandboxes.
        limit_us = CALLS * self._agent.options.runtime_request_timeout_us
        self._agent.ctx.call_at_us(self._asked_us + limit_us, self._give_up, self._asked_us)

    def _give_up(self, asked_us: int) -> None:
        if asked_us == self._asked_us:
            self._fail()

    def answered(self) -> None:
        """The runtime answers: a pass that waits for containers goes on."""
        if self._asked_us < 0:
            return
        if self._agent.now_us - self._asked_us >= self._agent.options.runtime_request_timeout_us:
            self._fail()
        else:
            self._asked_us, self._began_us = -1, self._agent.now_us
            self.collect()
            self._end()

    def _fail(self) -> None:
        self._agent.node_event("ContainerGCFailed", GIVEN_UP, "Warning")
        self._asked_us, self._began_us = -1, self._agent.now_us
        self._end()

    def _end(self) -> None:
        self._due = False
        agent = self._agent
        if self._is_strict() or agent.runtime.silent or any(map(self._is_over, agent.machine.pods)):
            self.consider()

    def collect(self, *, ended: bool = False) -> None:
        """One pass; `ended`: nothing stays of pods that have ended either (DeleteAllUnusedContainers)."""
        agent, options = self._agent, self._agent.options
        oldest_us, said_us = agent.ctx.wall_us() - options.minimum_container_ttl_us, agent.ctx.said_us
        units: list[Unit] = []
        for uid, runtime in list(agent.machine.pods.items()):
            found = [
                [one for one in unit if said_us(one.started_us) <= oldest_us]
                for unit in _units(runtime, agent.now_us)
            ]
            if agent.sources_ready and self._is_over(uid, ended=ended):
                agent.image_gc.drop(uid, [one for unit in found for one in unit])
                if not runtime.containers:
                    agent.machine.remove(uid)
                continue
            units += [unit for unit in found if unit]
        each, whole = options.maximum_dead_containers_per_container, options.maximum_dead_containers
        for container in excess(units, each, whole):
            agent.image_gc.drop(container.uid, [container])
            worker = agent.workers.get(container.uid)
            if worker is not None:
                _show(worker)

    def _is_over(self, uid: str, *, ended: bool = False) -> bool:
        """Whether nothing need stay of the pod.  Mirrors pod_workers.go: ShouldPodContentBeRemoved."""
        worker = self._agent.workers.get(uid)
        if worker is None:
            return not self._agent.preemption.holds(uid)
        deleted = "deletionTimestamp" in worker.pod["metadata"]
        return worker.state == FINISHED and (ended or deleted)


def _show(worker: CollectedPod) -> None:
    """Its next sync tells of what is left: one that waits to start something anyhow, or a regular one."""
    if worker.state == SYNC and not worker.reasons:
        worker.resync()


def _units(runtime: PodRuntime, now_us: int) -> list[Unit]:
    """The dead instances of each container."""
    units: dict[str, Unit] = {}
    for container in runtime.containers:
        if container.exited(now_us):
            units.setdefault(container.name, []).append(container)
    return list(units.values())
