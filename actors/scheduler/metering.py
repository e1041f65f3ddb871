"""What a scheduler counts for a reader of metrics, and what its queue and its view show.

Turns attempts and changes of the queue into counters and histograms of `Kernel.meters`, and the
present state into gauges.

Holds: nothing is counted while there is no reader; nothing here changes a decision.

Mirrors  kubernetes v1.25 pkg/scheduler/metrics/{metrics,profile_metrics}.go, schedule_one.go,
         internal/queue/{scheduling_queue,events}.go.
Differs  what the replica that leads does is counted, since all replicas have one page; times are
         virtual: of the extension points only PreBind and Bind take any, since the time of a
         search is that of all plugins together.  Every tenth attempt counts its plugins, since a
         draw would change the run; single plugins of the extension point Filter are not counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from actors.scheduler.attempt import UNSCHEDULABLE, Failed, Placed
from actors.scheduler.cluster import Cluster
from actors.scheduler.plugins.base import ClusterEvent
from actors.scheduler.pods import PodInfo
from actors.scheduler.queue import Place, QueuedPod, SchedulingQueue
from sim.kernel import Context
from sim.kernel.meters import Meters
from sim.units import SECOND

PREFIX = "scheduler_"
PLACES = ("active", "backoff", "unschedulable")
UNRESOLVABLE = "UnschedulableAndUnresolvable"
SAMPLED_EVERY = 10  # attempts; upstream draws one in ten (pluginMetricsSamplePercent)
# The plugins of the default profile at each point, in order (default_plugins.go).
POINTS = {
    "PreFilter": (
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "VolumeRestrictions",
        "VolumeBinding",
        "PodTopologySpread",
        "InterPodAffinity",
    ),
    "PostFilter": ("DefaultPreemption",),
    "PreScore": ("TaintToleration", "NodeAffinity", "PodTopologySpread", "InterPodAffinity"),
    "Score": (
        "TaintToleration",
        "NodeAffinity",
        "NodeResourcesFit",
        "VolumeBinding",
        "PodTopologySpread",
        "InterPodAffinity",
        "NodeResourcesBalancedAllocation",
        "ImageLocality",
    ),
    "Reserve": ("VolumeBinding",),
    "PreBind": ("VolumeBinding",),
    "Bind": ("DefaultBinder",),
}
ATTEMPTS_MAX = 15  # getAttemptsLabel: more are counted as one
LABELS = {
    ClusterEvent.NODE_ADD: "NodeAdd",
    ClusterEvent.NODE_ALLOCATABLE: "NodeAllocatableChange",
    ClusterEvent.NODE_LABEL: "NodeLabelChange",
    ClusterEvent.NODE_TAINT: "NodeTaintChange",
    ClusterEvent.NODE_CONDITION: "NodeConditionChange",
    ClusterEvent.POD_ADD: "AssignedPodAdd",
    ClusterEvent.POD_UPDATE: "AssignedPodUpdate",
    ClusterEvent.POD_DELETE: "AssignedPodDelete",
    ClusterEvent.CLAIM_ADD: "PvcAdd",
    ClusterEvent.CLAIM_UPDATE: "PvcUpdate",
    ClusterEvent.VOLUME_ADD: "PvAdd",
    ClusterEvent.VOLUME_UPDATE: "PvUpdate",
    ClusterEvent.STORAGE_CLASS_ADD: "StorageClassAdd",
    ClusterEvent.STORAGE_CLASS_UPDATE: "StorageClassUpdate",
    ClusterEvent.CSI_NODE_ADD: "CSINodeAdd",
    ClusterEvent.CSI_NODE_UPDATE: "CSINodeUpdate",
    ClusterEvent.CSI_DRIVER: "CSIDriverAdd",
    ClusterEvent.CSI_CAPACITY: "CSIStorageCapacityAdd",
}
TIMEOUT = "UnschedulableTimeout"


def label_of(event: ClusterEvent | str | None) -> str:
    """The value of the label `event`; None is the end of the time in the unschedulable place."""
    if event is None:
        return TIMEOUT
    return event if isinstance(event, str) else LABELS.get(event, str(event.name))


class Metering:
    """The metrics of one scheduler.

    profile: the name of the scheduler
    leads: True while it schedules pods; other replicas count nothing
    """

    def __init__(self, ctx: Context, profile: str, queue: SchedulingQueue, cluster: Cluster) -> None:
        self._ctx, self._profile = ctx, profile
        self._queue, self._cluster = queue, cluster
        self.leads = False
        self._attempts = 0
        self._sampled = False  # True if the present attempt counts each plugin
        self._binding: dict[QueuedPod, None] = {}  # pods that are being bound
        queue.entered = self._entered
        ctx.kernel.gauges[ctx.name] = self._gauges

    def _entered(self, place: Place, event: ClusterEvent | str | None) -> None:
        meters = self._ctx.kernel.meters
        if meters is not None and self.leads:
            meters.count(f"{PREFIX}queue_incoming_pods_total", (label_of(event), place))

    def searched(self, cycle_us: int, pod: PodInfo, result: Placed | Failed, feasible: int) -> None:
        """Count the search of a node.

        cycle_us: how long it took; feasible: among how many nodes one was chosen
        """
        meters = self._ctx.kernel.meters
        if meters is None:
            return
        self._attempts += 1
        self._sampled = self._attempts % SAMPLED_EVERY == 0
        if isinstance(result, Placed):
            meters.observe(f"{PREFIX}scheduling_algorithm_duration_seconds", (), cycle_us / SECOND)
            self._ran(meters, "PreFilter", "Success")
            self._filtered(meters, pod)
            if feasible > 1:
                for point in ("PreScore", "Score"):
                    self._ran(meters, point, "Success")
        elif result.plugins is not None:
            meters.count(f"{PREFIX}preemption_attempts_total", ())
            self._ran(meters, "PreFilter", UNRESOLVABLE if result.early else "Success")
            if not result.early:
                self._filtered(meters, pod)
            self._ran(meters, "PostFilter", "Success" if result.candidate is not None else UNSCHEDULABLE)

    def _filtered(self, meters: Meters, pod: PodInfo) -> None:
        """Count the filters of an attempt; the node in the pod's status is filtered before."""
        for _ in range(2 if pod.nominated else 1):
            self._ran(meters, "Filter", "Success")

    def _ran(self, meters: Meters, point: str, status: str, took_us: int = 0) -> None:
        """Count the plugins of an extension point, and each of them in sampled attempts."""
        labels = point, status, self._profile
        meters.observe(f"{PREFIX}framework_extension_point_duration_seconds", labels, took_us / SECOND)
        for plugin in POINTS.get(point, ()) if self._sampled else ():
            spent_s = took_us / SECOND if plugin == POINTS[point][-1] else 0.0
            meters.observe(f"{PREFIX}plugin_execution_duration_seconds", (plugin, point, status), spent_s)

    def reserved(self, queued: QueuedPod) -> None:
        """Count a pod that is assumed on its node; its binding begins."""
        meters = self._ctx.kernel.meters
        if meters is None:
            return
        for point in ("Reserve", "Permit"):
            self._ran(meters, point, "Success")
        queued.binding_us = self._ctx.now_us()
        self._binding[queued] = None

    def prepared(self, queued: QueuedPod, ok: bool) -> None:
        """Count what precedes the binding: the volumes of the pod are bound, or could not be."""
        meters = self._ctx.kernel.meters
        if meters is None:
            return
        now_us = self._ctx.now_us()
        self._ran(meters, "PreBind", "Success" if ok else "Error", now_us - queued.binding_us)
        queued.binding_us = now_us
        if not ok:
            meters.count("scheduler_volume_scheduling_stage_error_total", ("bind",))
            self._binding.pop(queued, None)

    def bound(self, queued: QueuedPod, ok: bool) -> None:
        """Count the end of a binding."""
        meters = self._ctx.kernel.meters
        if meters is None:
            return
        self._binding.pop(queued, None)
        took_us = self._ctx.now_us() - queued.binding_us
        self._ran(meters, "Bind", "Success" if ok else "Error", took_us)
        if ok:
            self._ran(meters, "PostBind", "Success")

    def preempted(self, victims: int) -> None:
        """Count the victims of one preemption."""
        meters = self._ctx.kernel.meters
        if meters is not None:
            meters.observe(f"{PREFIX}preemption_victims", (), victims)

    def failed(self, queued: QueuedPod, failed: Failed) -> None:
        """Count an attempt that gave the pod no node."""
        self._attempted(queued, "unschedulable" if failed.reason == UNSCHEDULABLE else "error")

    def placed(self, queued: QueuedPod) -> None:
        """Count an attempt after which the pod is bound."""
        meters = self._ctx.kernel.meters
        if meters is None:
            return
        self._attempted(queued, "scheduled")
        meters.observe(f"{PREFIX}pod_scheduling_attempts", (), queued.attempts)
        shown = str(queued.attempts) if queued.attempts < ATTEMPTS_MAX else f"{ATTEMPTS_MAX}+"
        took_us = self._ctx.now_us() - queued.first_us
        meters.observe(f"{PREFIX}pod_scheduling_duration_seconds", (shown,), took_us / SECOND)

    def _attempted(self, queued: QueuedPod, result: Literal["scheduled", "unschedulable", "error"]) -> None:
        meters = self._ctx.kernel.meters
        if meters is None:
            return
        labels = self._profile, result
        took_us = self._ctx.now_us() - queued.begun_us
        meters.count(f"{PREFIX}schedule_attempts_total", labels)
        meters.observe(f"{PREFIX}e2e_scheduling_duration_seconds", labels, took_us / SECOND)
        meters.observe(f"{PREFIX}scheduling_attempt_duration_seconds", labels, took_us / SECOND)

    def _gauges(self) -> Iterator[tuple[str, tuple[str, ...], float]]:
        """What the queue and the view hold now: family, labels and value."""
        queue, cluster = self._queue, self._cluster
        counts = dict.fromkeys(PLACES, 0)
        reasons: dict[str, int] = {}
        for queued in queue.pods.values():
            if queued.place in counts:
                counts[queued.place] += 1
                for plugin in sorted(queued.failed_plugins):
                    reasons[plugin] = reasons.get(plugin, 0) + 1
        if self._attempts:
            yield f"{PREFIX}scheduler_goroutines", ("binding",), len(self._binding)
        for place, count in counts.items():
            yield f"{PREFIX}pending_pods", (place,), count
        sizes = {
            "assumed_pods": len(cluster.assumed),
            "nodes": len(cluster.nodes),
            "pods": len(cluster.pods),
        }
        for kind, count in sizes.items():
            yield f"{PREFIX}scheduler_cache_size", (kind,), count
        for plugin, count in sorted(reasons.items()):
            yield f"{PREFIX}unschedulable_pods", (plugin, self._profile), count
