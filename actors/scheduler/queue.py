"""Decides which pod is tried next, and when a pod that did not fit is tried again.

A pod waits in one of three places: active (ordered by priority, then by the time of queueing),
backoff (until its back-off ends) and unschedulable (until an event that may help, or for
`leftover_us`). Time is an argument.

Holds: a pod is in one place, or in flight after `pop` until it is added again or deleted; if an
event occurs during the attempt of a pod, the pod goes to backoff, since the attempt may have missed
it.

Mirrors  kubernetes v1.25 pkg/scheduler/internal/queue/{scheduling_queue,events}.go,
         eventhandlers.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from heapq import heapify, heappop, heappush
from typing import Literal, assert_never

from actors.scheduler.plugins.base import ClusterEvent
from actors.scheduler.pods import NamespaceLabels, PodInfo
from sim.units import SECOND

FLUSH_BACKOFF_US = SECOND
FLUSH_LEFTOVER_US = 30 * SECOND
STALE_MAX = 64  # a heap is cleaned up at as many outdated entries as live ones, and so many more


# Where a pod is: "flight" from `pop` until it is added again; "" before it is added.
Place = Literal["active", "backoff", "unschedulable", "flight", ""]


def _unseen(place: Place, event: ClusterEvent | str | None) -> None:
    """Count nothing."""


class QueuedPod:
    """A pod that waits for a node.

    cause: the trace record that leads to its next attempt
    first_us: when it came into the queue; begun_us: when its last attempt began
    unplaced: True if its last attempt found no node
    ticket: number of the heap entry that is valid
    """

    __slots__ = (
        "attempts",
        "begun_us",
        "binding_us",
        "cause",
        "failed_plugins",
        "first_us",
        "place",
        "pod",
        "since_us",
        "ticket",
        "unplaced",
    )

    def __init__(self, pod: PodInfo, now_us: int) -> None:
        self.pod = pod
        self.since_us = self.first_us = self.begun_us = self.binding_us = now_us
        self.attempts = 0
        self.cause = 0
        self.unplaced = False
        self.failed_plugins: frozenset[str] = frozenset()
        self.place: Place = ""
        self.ticket = 0


class CycleState(Enum):
    """The state of the present scheduling cycle: one is scheduled at a time, and then runs."""

    NONE, DUE, RUNNING = "none", "due", "running"


class SchedulingQueue:
    """All pods that wait for a node.

    events: the events that wake a pod, by name of the plugin that refused it
    entered: is called with a place that a pod enters, and the reason, which is an event, None for
        `leftover_us` or one of the texts of upstream's metrics
    leftover_us: time in the unschedulable place after which a pod is tried again without an event
    """

    def __init__(
        self,
        events: Mapping[str, ClusterEvent],
        initial_backoff_us: int,
        max_backoff_us: int,
        leftover_us: int,
    ) -> None:
        self._helped = {
            event: frozenset(name for name, wanted in events.items() if event in wanted)
            for event in ClusterEvent
        }
        self.pods: dict[str, QueuedPod] = {}
        self.unschedulable: dict[str, QueuedPod] = {}
        self._with_affinity: dict[str, QueuedPod] = {}  # those of them with required pod affinity
        self.cycle = 0
        self._initial_us = initial_backoff_us
        self._max_us = max_backoff_us
        self._leftover_us = leftover_us
        self._active: list[tuple[int, int, int, str]] = []
        self._backoff: list[tuple[int, int, str]] = []
        self._tickets = 0
        self._active_count = 0
        self._moved_at_cycle = -1
        self.entered: Callable[[Place, ClusterEvent | str | None], None] = _unseen

    def __len__(self) -> int:
        """Return the number of pods that can be tried now."""
        return self._active_count

    # --- places -----------------------------------------------------------------------------------

    def _leave(self, queued: QueuedPod) -> None:
        match queued.place:
            case "active":
                self._active_count -= 1
            case "unschedulable":
                del self.unschedulable[queued.pod.key]
                self._with_affinity.pop(queued.pod.key, None)
            case "backoff" | "flight" | "":
                pass
            case _:
                assert_never(queued.place)
        queued.ticket = 0

    def _enter(self, queued: QueuedPod, place: Place) -> None:
        self._leave(queued)
        queued.place = place
        if place == "unschedulable":
            self.unschedulable[queued.pod.key] = queued
            if queued.pod.template.pod_terms.required:
                self._with_affinity[queued.pod.key] = queued
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
        elif place != "flight" and place != "":
            assert_never(place)

    def _counts(self, key: str, ticket: int) -> bool:
        queued = self.pods.get(key)
        return queued is not None and queued.ticket == ticket

    def backoff_until_us(self, queued: QueuedPod) -> int:
        """Return when the pod's back-off ends: the time doubles with each attempt, up to the
        maximum.
        """
        duration_us = self._initial_us
        for _ in range(1, queued.attempts):
            if duration_us > self._max_us - duration_us:
                duration_us = self._max_us
                break
            duration_us += duration_us
        return queued.since_us + duration_us

    # --- pods -------------------------------------------------------------------------------------

    def add(self, pod: PodInfo, now_us: int) -> None:
        """Add a pod without a node that was created, or that changed during its attempt."""
        known = self.pods.get(pod.key)
        if known is not None and known.place != "flight":
            self.update(pod, True, now_us)
            return
        queued = self.pods[pod.key] = QueuedPod(pod, now_us)
        self._enter(queued, "active")
        self.entered("active", "PodAdd")

    def update(self, pod: PodInfo, changed: bool, now_us: int) -> None:
        """Apply an update of a pod without a node.

        changed: True if more than its status is different
        """
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
        """Remove a pod."""
        queued = self.pods.pop(key, None)
        if queued is not None:
            self._leave(queued)

    def pop(self) -> QueuedPod | None:
        """Return the next pod to try, which is in flight from now on."""
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
        """Queue a pod again after its attempt failed.

        plugins: names of those that refused nodes; None if the failure has another reason
        cycle: the value of `cycle` during the attempt
        """
        if self.pods.get(queued.pod.key) is not queued:
            return  # the pod was deleted during the attempt, or added again
        queued.since_us = now_us
        if plugins is not None:
            # Otherwise the plugins of the attempt before still decide which events help.
            queued.failed_plugins = frozenset(plugins)
        self._enter(queued, "backoff" if self._moved_at_cycle >= cycle else "unschedulable")
        self.entered(queued.place, "ScheduleAttemptFailure")

    # --- time and events --------------------------------------------------------------------------

    def flush_backoff(self, now_us: int) -> None:
        """Move the pods with an ended back-off to the active place."""
        while self._backoff and self._backoff[0][0] <= now_us:
            _, ticket, key = heappop(self._backoff)
            if self._counts(key, ticket):
                self._enter(self.pods[key], "active")
                self.entered("active", "BackoffComplete")

    def flush_leftover(self, now_us: int) -> None:
        """Try the pods again that have been unschedulable for longer than `leftover_us`."""
        old = [q for q in self.unschedulable.values() if now_us - q.since_us > self._leftover_us]
        if old:
            self._move(old, None, now_us)

    def move(
        self, event: ClusterEvent, now_us: int, may_help: Callable[[PodInfo], bool] | None = None
    ) -> None:
        """Try the pods again that the event may help."""
        chosen = [q for q in self.unschedulable.values() if may_help is None or may_help(q.pod)]
        self._move(chosen, event, now_us)

    def assigned_pod(
        self,
        pod: PodInfo,
        event: ClusterEvent,
        namespaces: NamespaceLabels,
        clock: Callable[[], int],
        *,
        late: bool = False,
    ) -> bool:
        """Try pods again with a required pod affinity term that this pod matches, which has a node.

        late: True if the event counts as later than the attempt under way
        Returns True if a pod is tried again.
        """
        if not self._with_affinity:
            self._moved_at_cycle = self._moved_at_cycle if late else self.cycle
            return False
        moved_at = self._moved_at_cycle if late else self.cycle
        chosen = [
            q
            for q in self._with_affinity.values()
            if any(
                term.matches(pod.template.namespace, pod.template.labels, namespaces)
                for term in q.pod.template.pod_terms.required
            )
        ]
        if chosen:
            self._move(chosen, event, clock())
        self._moved_at_cycle = moved_at
        return bool(chosen)

    def _move(self, chosen: Iterable[QueuedPod], event: ClusterEvent | None, now_us: int) -> None:
        """Move pods out of the unschedulable place; event None (upstream's wild card) helps all of
        them.
        """
        helped = None if event is None else self._helped[event]
        for queued in chosen:
            failed = queued.failed_plugins
            if helped is not None and failed and helped.isdisjoint(failed):
                continue
            backing_off = self.backoff_until_us(queued) > now_us
            self._enter(queued, "backoff" if backing_off else "active")
            self.entered(queued.place, event)
        self._moved_at_cycle = self.cycle
