"""The eviction manager: pods are evicted before a node runs out of memory, disk or process numbers.

Turns what the machine has left, at the ticks of a 10 s poll, into the node's pressure conditions,
the removal of dead containers and images, and evictions, one pod per check.

Holds: a node on which nothing can become short schedules nothing, and one that will be short
schedules only the first tick at which it is; critical pods are never evicted.

Mirrors  pkg/kubelet/eviction/eviction_manager.go: Start, synchronize, reclaimNodeLevelResources,
         evictPod, waitForPodsCleanup, localStorageEviction (v1.25).
Differs  the memory cgroup's notifications (--kernel-memcg-notification) are those of cgroup v1, and
         none arrives while a pod is being evicted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from actors.node.pod_spec import amount, is_critical, priority_of, requests_of
from actors.node.pod_work import FINISHED, TERMINATED
from actors.node.pressure.eviction_decide import (
    ALLOCATABLE,
    MEMORY_SIGNALS,
    RANKS,
    Candidate,
    LocalUse,
    Observed,
    Past,
    Threshold,
    eviction_message,
    first,
    judge,
    kind_of,
    met,
    over_local_limit,
    rank,
    thresholds_of,
    whole_limit,
)
from actors.node.runtime.container_gc import ContainerGC
from actors.node.runtime.containers import Container, PodRuntime
from actors.node.runtime.forecast import (
    SIGNALS,
    available,
    capacity,
    first_below,
    least_available,
    log_bytes_of,
    memory_of,
    pods_use,
    pods_use_most,
    turns,
)
from actors.node.runtime.image_store.gc import ImageGC
from actors.node.runtime.machine import Machine
from actors.node.runtime.ports import Agent, NodePod
from sim.api.types import Obj
from sim.kernel.causes import caused_by
from sim.units import SECOND, quantity_value

POLL_US = 10 * SECOND  # kubelet.go: evictionMonitoringPeriod
CLEANUP_POLL_US = 1 * SECOND  # eviction_manager.go: podCleanupPollFreq
CLEANUP_WAIT_US = 30 * SECOND  # eviction_manager.go: podCleanupTimeout
RESOURCES = {signal: resource for resource, signal in SIGNALS.items()} | {ALLOCATABLE: "memory"}
GONE = (TERMINATED, FINISHED)
NO_PAST = Past()


# pod, grace in seconds, message, annotations
Eviction = tuple[NodePod, int, str, Mapping[str, str]]


def _writes(container: Container) -> bool:
    """True if the container uses local storage at all, which most do not."""
    behaviour = container.behaviour
    return bool(behaviour.log_bytes or behaviour.log_rate or behaviour.volume_bytes or behaviour.layer_bytes)


def _storage_limits(containers: Iterable[Obj]) -> dict[str, str]:
    """The limits of local storage of these containers, for those that have one."""
    limits = {c["name"]: (c.get("resources") or {}).get("limits") or {} for c in containers}
    return {
        name: str(held["ephemeral-storage"]) for name, held in limits.items() if "ephemeral-storage" in held
    }


def _request_of(pod: Obj, resource: str) -> int:
    """The pod's request.  Quirk: 0 if it consists of the overhead alone.

    Mirrors  resource/helpers.go: GetResourceRequestQuantity.
    """
    requested = dict(requests_of(pod).amounts).get(resource, 0)
    overhead = (pod["spec"].get("overhead") or {}).get(resource)
    return 0 if overhead is not None and requested == amount(resource, overhead) else requested


def _left_in_logs(machine: Machine, runtime: PodRuntime, running: Container, now_us: int) -> int:
    """What the logs of earlier instances hold, which are in the same directory."""
    if not runtime.several:
        return 0
    others = (one for one in runtime.instances(running.name) if one is not running)
    return sum(log_bytes_of(machine, one, now_us) for one in others)


def _is_active(worker: NodePod) -> bool:
    """True if the pod counts: while anything of it runs, unless it was deleted by force."""
    return worker.state not in GONE and not worker.removed


class Evictor:
    """The eviction manager of one agent incarnation.

    past: what the last check left, with the conditions in force
    _tick_us: an instant of the poll's rhythm
    _waiting_since_us: the first check that waits for statistics; -1 without one
    _due_us: the planned check; -1 without one
    _crossing_us: when a notification about memory is due; -1 for none
    _notified: True while the check under way was started by a notification
    _evicting: pods to be evicted, or evicted and not yet cleaned up
    _queue: those of them that wait for their eviction
    _cause: the trace record behind the last check
    """

    __slots__ = (
        "_agent", "_cause", "_cleaning", "_container_gc", "_crossing_us", "_due_us", "_evicting", "_image_gc",
        "_notified", "_queue", "_thresholds", "_tick_us", "_waiting_since_us", "past",
    )  # fmt: skip

    def __init__(self, agent: Agent, container_gc: ContainerGC, image_gc: ImageGC) -> None:
        self._agent, self._container_gc, self._image_gc = agent, container_gc, image_gc
        self._thresholds: tuple[Threshold, ...] | None = None
        self._tick_us = agent.now_us
        self._waiting_since_us = -1
        self._due_us = -1
        self._crossing_us = -1
        self._notified = False
        self._evicting: list[NodePod] = []
        self._queue: list[Eviction] = []
        self._cleaning = False
        self._cause = 0
        self.past = NO_PAST

    @property
    def thresholds(self) -> tuple[Threshold, ...]:
        """Computed when first needed, because most nodes are never short of anything."""
        if self._thresholds is None:
            self._thresholds = thresholds_of(self._agent.options)
        return self._thresholds

    def start(self) -> None:
        """The runtime is ready: the first check with statistics follows a period later."""
        self._tick_us = self._agent.now_us

    # --- planning ---------------------------------------------------------------------------------

    def consider(self) -> None:
        """A resource may become short, or sooner than was planned for."""
        if not self._evicting and self._agent.runtime.up:
            self._plan_checks()

    def _plan_next(self) -> None:
        """Plan the next tick at which a check can do anything; under pressure this is the next one."""
        now_us = self._agent.now_us
        short_us = self._short_us(now_us) if self.past.quiet else now_us
        if short_us is not None:
            self._plan(self._tick_after(max(now_us, short_us - 1)))

    def _tick_after(self, at_us: int) -> int:
        return at_us + POLL_US - (at_us - self._tick_us) % POLL_US

    def _short_us(self, now_us: int) -> int | None:
        """When a threshold will first be met, or a pod be over its limits; None if never."""
        machine = self._agent.machine
        times = [now_us] if self._over_limits() or machine.growing(now_us) else []
        turning_us: list[int] | None = None
        for threshold in self.thresholds:
            signal = threshold.signal
            floor = threshold.floor(self._capacity(signal), reclaimed=False)
            if self._least(signal, now_us) >= floor:
                continue

            def left(at_us: int, signal: str = signal) -> int:
                return self._observe(signal, at_us).available

            turning_us = turns(machine, now_us) if turning_us is None else turning_us
            at_us = first_below(left, floor, turning_us, now_us)
            if at_us is not None:
                times.append(at_us)
        return min(times, default=None)

    def _plan(self, at_us: int) -> None:
        if self._due_us < 0 or at_us < self._due_us:
            self._due_us = at_us
            self._agent.ctx.call_at_us(at_us, self._check, at_us)

    # --- a runtime that does not answer -----------------------------------------------------------

    def unanswered(self) -> None:
        """The runtime gives no statistics from now on.

        The call for those of the images' file system comes first and has no timeout
        (remote_image.go: ImageFsInfo).
        """
        self._waiting_since_us = self._tick_after(self._agent.now_us - 1)

    def answered(self) -> None:
        """The runtime gives statistics again: the check that waits continues.

        The next check follows a period later.
        """
        agent, began_us, self._waiting_since_us = self._agent, self._waiting_since_us, -1
        if not self._evicting and agent.runtime.up and agent.now_us >= began_us:
            self._plan(agent.now_us)

    # --- notifications ----------------------------------------------------------------------------

    def _plan_notification(self) -> None:
        """Plan the notification that memory falls below a threshold that no check has found met."""
        machine, now_us = self._agent.machine, self._agent.now_us
        turning_us = turns(machine, now_us)
        times = []
        for threshold in self.thresholds:
            if threshold.signal in MEMORY_SIGNALS and threshold not in self.past.since_us:
                floor = threshold.floor(self._capacity(threshold.signal), reclaimed=False)

                def left(at_us: int, signal: str = threshold.signal) -> int:
                    return self._observe(signal, at_us).available

                times.append(first_below(left, floor, turning_us, now_us))
        at_us = min((at_us for at_us in times if at_us is not None), default=-1)
        if at_us >= 0 and at_us != self._crossing_us:
            self._agent.ctx.call_at_us(at_us, self._notification, at_us)
        self._crossing_us = at_us

    def _notification(self, planned_us: int) -> None:
        """A check outside of the poll's rhythm.

        Quirk: it does not wait for the cleanup of the pod that it evicts.
        """
        if planned_us == self._crossing_us and not self._evicting and not self._agent.runtime.silent:
            self._crossing_us = -1
            self._notified = True
            self._run_check()

    # --- a check ----------------------------------------------------------------------------------

    def _capacity(self, signal: str) -> int:
        whole = capacity(self._agent.machine, RESOURCES[signal])
        if signal != ALLOCATABLE:
            return whole
        options = self._agent.options
        reserved = (options.orch_reserved, options.system_reserved)
        return whole - sum(quantity_value(held.get("memory", "0")) for held in reserved)

    def _observe(self, signal: str, at_us: int) -> Observed:
        machine, whole = self._agent.machine, self._capacity(signal)
        if signal == ALLOCATABLE:
            return Observed(max(0, whole - pods_use(machine, "memory", at_us)), whole)
        return Observed(available(machine, RESOURCES[signal], at_us), whole)

    def _least(self, signal: str, now_us: int) -> int:
        """The smallest amount that will be available unless something new starts."""
        machine = self._agent.machine
        if signal == ALLOCATABLE:
            return self._capacity(signal) - pods_use_most(machine, "memory", now_us)
        return least_available(machine, RESOURCES[signal], now_us)

    def _observations(self) -> dict[str, Observed]:
        now_us = self._agent.now_us
        return {t.signal: self._observe(t.signal, now_us) for t in self.thresholds}

    def _check(self, planned_us: int) -> None:
        if planned_us != self._due_us:
            return
        self._due_us = -1
        agent, now_us = self._agent, self._agent.now_us
        self._tick_us = now_us
        # Without statistics, or while an eviction is under way, a check does nothing.
        if agent.runtime.silent or self._evicting:
            self._plan(now_us + POLL_US)
            return
        self._notified = False
        self._run_check()

    def _run_check(self) -> None:
        agent, now_us = self._agent, self._agent.now_us
        shown = self.past.conditions
        transition_us = agent.options.eviction_pressure_transition_period_us
        self.past = judge(self.thresholds, self.past, self._observations(), now_us, transition_us)
        self._cause = self._record_of_shortage()
        with caused_by(agent.ctx.kernel, self._cause):
            if self.past.conditions != shown:
                agent.node_changed()
            self._act()

    def _record_of_shortage(self) -> int:
        """The record by which a resource is short now, or no longer is.

        Without a fault of the machine this is the present cause.
        """
        machine, short = self._agent.machine, [one.signal for one in self.past.since_us]
        # What pods may use does not depend on the use from outside, so no fault explains this
        # shortage.
        resources = [machine.shared(RESOURCES[signal]) for signal in short if signal != ALLOCATABLE]
        if by_fault := machine.fault_record(*(one for one in resources if one in machine.outside)):
            return by_fault
        return (
            machine.records.relief
            if not short and machine.records.relief > self._cause
            else self._agent.ctx.kernel.cause
        )

    def _act(self) -> None:
        over: list[Eviction] = [(worker, 0, message, {}) for worker, message in self._over_limits()]
        self._queue = over or self._relief(first(self.past.met))
        self._evicting = [worker for worker, *_ in self._queue]
        if self._evicting:
            self._evict_next()
        else:
            self._plan_checks()

    def _plan_checks(self) -> None:
        self._plan_next()
        if self._agent.options.kernel_memcg_notification:
            self._plan_notification()

    def _relief(self, threshold: Threshold | None) -> list[Eviction]:
        """Act on a met threshold: the pod to evict, if reclaiming is not enough."""
        if threshold is None:
            return []
        agent, resource = self._agent, RANKS[threshold.signal][1]
        agent.node_event("EvictionThresholdMet", f"Attempting to reclaim {resource}", "Warning")
        if self._reclaimed(threshold.signal):
            return []
        found = {
            c.name: (c, w) for w in agent.workers.values() if (c := self._candidate(w, threshold.signal))
        }
        for candidate in rank(threshold.signal, [c for c, _ in found.values()]):
            worker = found[candidate.name][1]
            if is_critical(worker.pod, agent.is_static(worker.uid)):
                continue
            message, annotations = eviction_message(resource, candidate)
            grace_s = agent.options.eviction_max_pod_grace_period_s if threshold.grace_us else 0
            return [(worker, grace_s, message, annotations)]
        return []

    def _reclaimed(self, signal: str) -> bool:
        """Remove what no pod needs; True if nothing is short then.

        Where images have a disk of their own, this gives the node's disk nothing.
        """
        own_disk = bool(self._agent.spec.profile.image_disk_bytes)
        if kind_of(signal) != "disk" or (own_disk and signal.startswith("nodefs")):
            return False
        self._container_gc.collect(ended=True)
        self._image_gc.clear()
        return not met(self.thresholds, self._observations(), reclaimed=True)

    def _evict_next(self, _: bool = True) -> None:
        """Evict one pod after the other; after the last one, wait for the cleanup of all of them."""
        if not self._queue and self._notified:
            self._evicting = []
            self._plan_checks()
            return
        if not self._queue:
            self._await_cleanup()
            return
        worker, grace_s, message, annotations = self._queue.pop(0)
        agent, meta = self._agent, worker.pod["metadata"]
        target = f"pods/{meta['namespace']}/{meta['name']}"
        agent.ctx.decided("evict", target, {"message": message}, cause=self._cause)
        agent.event(worker.pod, "Warning", "Evicted", message, annotations=annotations)
        agent.end_pod(worker, ("Failed", "Evicted", message), self._evict_next, grace_s)

    # --- after an eviction ------------------------------------------------------------------------

    def _await_cleanup(self) -> None:
        if not self._cleaning:
            self._cleaning = True
            self._agent.ctx.call_later_us(CLEANUP_POLL_US, self._clean, self._agent.now_us)

    def _clean(self, since_us: int) -> None:
        """Check each second whether nothing is left of the pods, then run a check at once."""
        agent = self._agent
        now_us = agent.now_us
        left = [w for w in self._evicting if w.state != FINISHED]
        if left and now_us - since_us < CLEANUP_WAIT_US:
            agent.ctx.call_later_us(CLEANUP_POLL_US, self._clean, since_us)
            return
        self._evicting = []
        self._cleaning = False
        self._due_us = -1
        self._plan(now_us)

    # --- pods -------------------------------------------------------------------------------------

    def _candidate(self, worker: NodePod, signal: str) -> Candidate | None:
        """The pod as the ranking uses it.

        Quirk: a pod that is being killed already, for any reason, can be chosen, and the next one
        waits for it.
        """
        runtime, pod = worker.runtime, worker.pod
        if not _is_active(worker):
            return None
        resource = RANKS[signal][1]
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        requested = _request_of(pod, resource)
        # Quirk: a pod's inodes count beyond its request of bytes (helpers.go: disk).
        allowed = _request_of(pod, "ephemeral-storage") if resource == "inodes" else requested
        machine, now_us = self._agent.machine, self._agent.now_us
        running = runtime.running(now_us) if runtime is not None else []
        if runtime is None or not running:  # its use is unknown
            return Candidate(name, priority_of(pod), 0, requested, is_measured=False)
        uses = {
            one.name: self._use(one, _left_in_logs(machine, runtime, one, now_us), signal) for one in running
        }
        total = sum(counted for _, counted in uses.values()) + self._left_in_volumes(runtime, signal)
        rows = []
        for spec in pod["spec"]["containers"]:
            if spec["name"] in uses and resource in ("memory", "ephemeral-storage"):
                wanted = ((spec.get("resources") or {}).get("requests") or {}).get(resource, "0")
                rows.append((spec["name"], uses[spec["name"]][0], str(wanted)))
        return Candidate(name, priority_of(pod), total, requested, tuple(rows), allowed=allowed)

    def _left_in_volumes(self, runtime: PodRuntime, signal: str) -> int:
        """What containers that have ended left in the pod's volumes, if it counts for the signal."""
        own_disk = bool(self._agent.spec.profile.image_disk_bytes)
        if signal != "nodefs.available" and (own_disk or signal != "imagefs.available"):
            return 0
        newest = {container.name: container for container in runtime.containers}
        now_us = self._agent.now_us
        return sum(self._in_volumes(c) for c in newest.values() if not c.running(now_us))

    def _in_volumes(self, container: Container) -> int:
        """The container's use of the pod's volumes, as statistics show it."""
        return container.behaviour.volume_bytes if self._agent.options.volume_stats_agg_period_us else 0

    def _use(self, container: Container, left: int, signal: str) -> tuple[int, int]:
        """(use in messages, use in the ranking) of a running container.

        left: what the logs of earlier instances hold
        """
        behaviour, now_us = container.behaviour, self._agent.now_us
        kind = kind_of(signal)
        if kind != "disk":
            used = memory_of(container, now_us) if kind == "memory" else behaviour.processes
            return used, used
        own_disk = bool(self._agent.spec.profile.image_disk_bytes)
        on_images = own_disk and signal.startswith("imagefs")
        if signal.endswith("inodesFree"):
            return behaviour.inodes, 0 if on_images else behaviour.inodes
        logs = log_bytes_of(self._agent.machine, container, now_us) + left
        shown = logs + behaviour.layer_bytes
        if (programs := self._agent.machine.programs.get(container.uid)) is not None:
            shown += programs.layer(container)[0]
        if not own_disk:
            return shown, shown + self._in_volumes(container)
        return shown, behaviour.layer_bytes if on_images else logs + self._in_volumes(container)

    # --- limits of local storage ------------------------------------------------------------------

    def _over_limits(self) -> list[tuple[NodePod, str]]:
        """Pods that write more than their limits allow, each with the reason."""
        agent, found = self._agent, []
        for worker in agent.workers.values():
            runtime = worker.runtime
            if not _is_active(worker) or runtime is None:
                continue
            if worker.uid not in agent.machine.programs and not any(map(_writes, runtime.containers)):
                continue
            text = over_local_limit(self._local_use(worker.pod["spec"], runtime))
            if text and not is_critical(worker.pod, agent.is_static(worker.uid)):
                found.append((worker, text))
        return found

    def _local_use(self, spec: Obj, runtime: PodRuntime) -> LocalUse:
        """The pod's use of local storage.

        It is empty while nothing of the pod runs, as there are no statistics then.
        """
        running = {container.name: container for container in runtime.running(self._agent.now_us)}
        if not running:
            return LocalUse()
        limits_of = {
            v["name"]: str(v["emptyDir"].get("sizeLimit", "0"))
            for v in spec.get("volumes") or ()
            if v.get("emptyDir") is not None
        }
        volumes = dict.fromkeys(limits_of, 0)
        for container in spec["containers"]:
            newest = runtime.newest(container["name"])
            mounted = [m["name"] for m in container.get("volumeMounts") or () if m["name"] in limits_of]
            if newest is not None and mounted:
                volumes[mounted[0]] += self._in_volumes(newest)
        limits = _storage_limits(spec["containers"])
        layers = {name: one.behaviour.layer_bytes for name, one in running.items()}
        machine, now_us = self._agent.machine, self._agent.now_us
        if (programs := machine.programs.get(runtime.uid)) is not None:
            for name in volumes:
                volumes[name] += programs.volume(name)[0]
            for name, one in running.items():
                layers[name] += programs.layer(one)[0]
        logs = {
            name: log_bytes_of(machine, one, now_us) + _left_in_logs(machine, runtime, one, now_us)
            for name, one in running.items()
        }
        own_disk = bool(self._agent.spec.profile.image_disk_bytes)  # then layers do not count
        rows = [
            (name, logs[name] + (0 if own_disk else layers[name]), limit)
            for name, limit in limits.items()
            if name in logs
        ]
        in_memory = programs.use()[2] if programs is not None else 0
        total = sum(volumes.values()) - in_memory + sum(logs.values()) + sum(layers.values())
        init = _storage_limits(spec.get("initContainers") or ())
        overhead = str((spec.get("overhead") or {}).get("ephemeral-storage", "0"))
        whole = whole_limit([*limits.values()], [*init.values()], overhead)
        rooms = tuple((name, used, limits_of[name]) for name, used in volumes.items())
        return LocalUse(rooms, tuple(rows), total, whole)
