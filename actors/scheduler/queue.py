"""Which pod is tried next, and when a pod that did not fit is tried again.

Three places: active (by priority, then by the time of queueing), backoff (until its back-off is over) and
unschedulable (until an event that may help, or `leftover_us`).  Time is an argument.

Holds: a pod is in one place, or in flight after `pop` until it is added again or deleted; a pod whose try
overlapped an event goes to backoff, since the event may have come too late for that try to see.

Mirrors  kubernetes v1.25 pkg/scheduler/internal/queue/{scheduling_queue,events}.go, eventhandlers.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush

from actors.scheduler.pods import NamespaceLabels, PodInfo
from sim.units import SECOND

FLUSH_BACKOFF_US = SECOND
FLUSH_LEFTOVER_US = 30 * SECOND
STALE_MAX = 64  # heap entries of pods that are gone, kept beside as many live ones before a clean-up

# Events by upstream name; what each may help (EventsToRegister of each plugin).
_NODE_PLUGINS = ("NodeResourcesFit", "NodePorts", "NodeName", "NodeAffinity", "TaintToleration")
_WAKES: dict[str, tuple[str, ...]] = {
    "NodeSpecUnschedulableChange": (*_NODE_PLUGINS, "NodeUnschedulable"),
    "NodeAllocatableChange": _NODE_PLUGINS,
    "NodeLabelChange": (*_NODE_PLUGINS, "InterPodAffinity", "PodTopologySpread"),
    "NodeTaintChange": (*_NODE_PLUGINS, "NodeUnschedulable"),
    "NodeConditionChange": _NODE_PLUGINS,
    "AssignedPodAdd": ("InterPodAffinity", "PodTopologySpread"),
    "AssignedPodUpdate": ("InterPodAffinity", "PodTopologySpread"),
    "AssignedPodDelete": ("NodeResourcesFit", "NodePorts", "InterPodAffinity", "PodTopologySpread"),
}
WAKES_ALL = ("NodeAdd", "UnschedulableTimeout")


class QueuedPod:
    """A pod waiting to be scheduled.  `cause`: the trace record to which its next try goes back; `unplaced`: its last try found
    no node."""

    __slots__ = ("attempts", "cause", "failed_plugins", "place", "pod", "since_us", "ticket", "unplaced")

    def __init__(self, pod: PodInfo, now_us: int) -> None:
        self.pod = pod
        self.since_us = now_us
        self.attempts = 0
        self.cause = 0
        self.unplaced = False
        self.failed_plugins: frozenset[str] = frozenset()
        self.place = ""  # "active", "backoff", "unschedulable", "flight"
        self.ticket = 0  # the heap entry that counts


class SchedulingQueue:
    """All pods that wait for a node."""

    def __init__(self, initial_backoff_us: int, max_backoff_us: int, leftover_us: int) -> None:
        self.pods: dict[str, QueuedPod] = {}
        self.unschedulable: dict[str, QueuedPod] = {}
        self._sociable: dict[str, QueuedPod] = {}  # those of them that want to be near others
        self.cycle = 0
        self._initial_us = initial_backoff_us
        self._max_us = max_backoff_us
        self._leftover_us = leftover_us
        self._active: list[tuple[int, int, int, str]] = []
        self._backoff: list[tuple[int, int, str]] = []
        self._tickets = 0
        self._active_count = 0
        self._moved_at_cycle = -1

    def __len__(self) -> int:
        """How many pods can be tried now."""
        return self._active_count

    # --- places -----------------------------------------------------------------------------------------------

    def _leave(self, queued: QueuedPod) -> None:
        if queued.place == "active":
            self._active_count -= 1
        elif queued.place == "unschedulable":
            del self.unschedulable[queued.pod.key]
            self._sociable.pop(queued.pod.key, None)
        queued.ticket = 0

    def _enter(self, queued: QueuedPod, place: str) -> None:
        self._leave(queued)
        queued.place = place
        if place == "unschedulable":
            self.unschedulable[queued.pod.key] = queued
            if queued.pod.template.affinity:
                self._sociable[queued.pod.key] = queued
            return
        self._tickets += 1
        queued.ticket = self._tickets
        if place == "active":
            self._active_count += 1
            heappush(
                self._active,
                (-queued.pod.template.priority, queued.since_us, queued.ticket, queued.pod.key),
            )
            if len(self._active) > 2 * self._active_count + STALE_MAX:
                self._active = [entry for entry in self._active if self._counts(entry[3], entry[2])]
                heapify(self._active)
        elif place == "backoff":
            heappush(self._backoff, (self.backoff_until_us(queued), queued.ticket, queued.pod.key))

    def _counts(self, key: str, ticket: int) -> bool:
        queued = self.pods.get(key)
        return queued is not None and queued.ticket == ticket

    def backoff_until_us(self, queued: QueuedPod) -> int:
        duration_us = self._initial_us
        for _ in range(1, queued.attempts):
            if duration_us > self._max_us - duration_us:
                duration_us = self._max_us
                break
            duration_us += duration_us
        return queued.since_us + duration_us

    # --- pods -------------------------------------------------------------------------------------------------

    def add(self, pod: PodInfo, now_us: int) -> None:
        """A pod without a node was created, or changed while it was being tried."""
        known = self.pods.get(pod.key)
        if known is not None and known.place != "flight":
            self.update(pod, True, now_us)
            return
        queued = self.pods[pod.key] = QueuedPod(pod, now_us)
        self._enter(queued, "active")

    def update(self, pod: PodInfo, changed: bool, now_us: int) -> None:
        """A pod without a node was updated.  changed: in more than its status."""
        queued = self.pods.get(pod.key)
        if queued is None:
            self.add(pod, now_us)
            return
        moved = queued.pod.template.priority != pod.template.priority
        queued.pod = pod
        if queued.place == "unschedulable" and changed:
            backing_off = self.backoff_until_us(queued) > now_us
            self._enter(queued, "backoff" if backing_off else "active")
        elif queued.place == "active" and moved:
            self._enter(queued, "active")

    def delete(self, key: str) -> None:
        queued = self.pods.pop(key, None)
        if queued is not None:
            self._leave(queued)

    def pop(self) -> QueuedPod | None:
        """The next pod to try, now in flight."""
        while self._active:
            _, _, ticket, key = heappop(self._active)
            if self._counts(key, ticket):
                queued = self.pods[key]
                self._leave(queued)
                queued.place = "flight"
                queued.attempts += 1
                self.cycle += 1
                return queued
        return None

    def put_back(self, queued: QueuedPod, plugins: Iterable[str] | None, cycle: int, now_us: int) -> None:
        """A try of the cycle `cycle` failed, for these plugins (None: for what is said of none of them)."""
        if self.pods.get(queued.pod.key) is not queued:
            return  # deleted meanwhile, or added again
        queued.since_us = now_us
        if plugins is not None:  # else those of the last time go on to say which events may help
            queued.failed_plugins = frozenset(plugins)
        self._enter(queued, "backoff" if self._moved_at_cycle >= cycle else "unschedulable")

    # --- time and events ----------------------------------------------------------------------------------------

    def flush_backoff(self, now_us: int) -> None:
        while self._backoff and self._backoff[0][0] <= now_us:
            _, ticket, key = heappop(self._backoff)
            if self._counts(key, ticket):
                self._enter(self.pods[key], "active")

    def flush_leftover(self, now_us: int) -> None:
        old = [q for q in self.unschedulable.values() if now_us - q.since_us > self._leftover_us]
        if old:
            self._move(old, "UnschedulableTimeout", now_us)

    def move(self, event: str, now_us: int, may_help: Callable[[PodInfo], bool] | None = None) -> None:
        """An event came: try again what it may help."""
        chosen = [q for q in self.unschedulable.values() if may_help is None or may_help(q.pod)]
        self._move(chosen, event, now_us)

    def assigned_pod(
        self, pod: PodInfo, event: str, namespaces: NamespaceLabels, now_us: int, *, late: bool = False
    ) -> bool:
        """A pod got (or changed on) its node: pods that want to be near it may fit now.

        late: it counts as having come after the try under way.  Answers whether any is tried again.
        """
        moved_at = self._moved_at_cycle if late else self.cycle
        chosen = [
            q
            for q in self._sociable.values()
            if any(
                term.matches(pod.template.namespace, pod.template.labels, namespaces)
                for term in q.pod.template.affinity
            )
        ]
        if chosen:
            self._move(chosen, event, now_us)
        self._moved_at_cycle = moved_at
        return bool(chosen)

    def _move(self, chosen: Iterable[QueuedPod], event: str, now_us: int) -> None:
        for queued in chosen:
            if not _helps(event, queued.failed_plugins):
                continue
            backing_off = self.backoff_until_us(queued) > now_us
            self._enter(queued, "backoff" if backing_off else "active")
        self._moved_at_cycle = self.cycle


def _helps(event: str, plugins: frozenset[str]) -> bool:
    return not plugins or event in WAKES_ALL or any(plugin in plugins for plugin in _WAKES[event])
