"""How long the work of an agent has taken, as its metrics show it.

Turns durations of calls of the runtime, of syncs and of starts of pods into histograms.

Holds: nothing in a simulation depends on these numbers; an agent without work holds none.

Mirrors  kubernetes v1.25 pkg/kubelet/metrics/metrics.go, server/metrics/metrics.go (buckets);
         kuberuntime/instrumented_services.go, pod_workers.go: managePodLoop, kubelet.go: syncPod.
Differs  the start of a sync counts, not the event that asked for it; the creation of a container is
         part of its start; cgroups take no time.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING

from sim.kernel.meters import Histogram
from sim.units import SECOND

if TYPE_CHECKING:
    from sim.kernel.kernel import Kernel

OPERATIONS, SYNCS, STARTS = "runtime_operations", "pod_worker", "pod_start"
CGROUPS, RELISTS, INTERVALS = "cgroup_manager", "pleg_relist", "pleg_relist_interval"
SANDBOXES, REQUESTS = "run_podsandbox", "http_requests"
_USUAL = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # prometheus.DefBuckets
_OPERATION = tuple(0.005 * 2.5**step for step in range(14))
BOUNDS: Mapping[str, tuple[float, ...]] = {OPERATIONS: _OPERATION}
Key = tuple[str, ...]  # the family, then its labels
Steps = Generator[int, None, str]


def bounds_of(family: str) -> tuple[float, ...]:
    """The bounds of the buckets of a family, in seconds."""
    return BOUNDS.get(family, _USUAL)


class Durations:
    """The durations of one incarnation.

    series: by family and labels; failures: failed calls of the runtime, by operation
    _since: when pods that do not run yet were seen; _updated: pods that wait for a sync since a
        change of their object
    """

    __slots__ = ("_since", "_updated", "failures", "series")

    def __init__(self) -> None:
        self.series: dict[Key, Histogram] = {}
        self.failures: dict[str, int] = {}
        self._since: dict[str, int] = {}
        self._updated: dict[str, None] = {}

    def add(self, took_us: int, *key: str, times: int = 1) -> None:
        """Add a duration to a series."""
        bounds = bounds_of(key[0])
        result = self.series.get(key)
        if result is None:
            result = self.series[key] = Histogram(len(bounds))
        result.add(bounds, took_us / SECOND, times)

    def called(self, operation: str, took_us: int, *, answered: bool = True) -> None:
        """A call of the runtime is over."""
        self.add(took_us, OPERATIONS, operation)
        if operation == "run_podsandbox":
            self.add(took_us, SANDBOXES, "")
        if not answered:
            self.failures[operation] = self.failures.get(operation, 0) + 1

    # --- pods -------------------------------------------------------------------------------------

    def updated(self, uid: str) -> None:
        """A pod's object has changed: a sync will follow."""
        self._updated[uid] = None

    def measured(self, uid: str, sync: Steps, kernel: Kernel, *, first: bool) -> Steps:
        """A sync of a pod, which is measured.

        Quirk: the first sync counts as a start too, which has taken no time.
        """
        began_us = kernel.now_us
        kind = "create" if first else "update" if uid in self._updated else "sync"
        self._updated.pop(uid, None)
        if first:
            self._since[uid] = began_us
            self.add(0, STARTS)
        error = yield from sync
        self.add(kernel.now_us - began_us, SYNCS, kind)
        return error

    def runs(self, uid: str, now_us: int) -> None:
        """A pod runs, which was Pending before."""
        since_us = self._since.pop(uid, None)
        if since_us is not None:
            self.add(now_us - since_us, STARTS)

    def forget(self, uid: str) -> None:
        """A pod has gone."""
        self._since.pop(uid, None)
        self._updated.pop(uid, None)
