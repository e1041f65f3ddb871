"""What priority and fairness counts for a reader of metrics, besides what its pages need.

Turns arrivals, starts and ends of requests into histograms of `Kernel.meters`: how long requests
ran, the queues that they found, and for every nanosecond how full a level was.

Holds: nothing is counted while there is no reader; a level that does not change costs nothing until
a reader wants its values.

Mirrors  kubernetes v1.25 apiserver pkg/util/flowcontrol/metrics/{metrics,
         timing_ratio_histogram}.go, apf_filter.go, fairqueuing/queueset/queueset.go.
Differs  the families dispatch_r, latest_s, next_s_bounds, next_discounted_s_bounds,
         epoch_advance_total and request_dispatch_no_accommodation_total are missing.
"""

from __future__ import annotations

from sim.api.fairness.classification import Flow, Level, Work
from sim.api.fairness.state import Held
from sim.api.types import Request
from sim.kernel import Kernel
from sim.units import SECOND

PREFIX = "apiserver_flowcontrol_"
WAITING, EXECUTING = "waiting", "executing"
READS = ("get", "list", "watch")
NS_PER_US = 1000


class _Fullness:
    """How full something is, and since when.  limit: what 1 means"""

    __slots__ = ("count", "family", "labels", "limit", "since_us")

    def __init__(self, family: str, labels: tuple[str, ...]) -> None:
        self.family, self.labels = f"{PREFIX}{family}", labels
        self.count, self.limit, self.since_us = 0, 1, -1


class FlowMetering:
    """The counts of one replica."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._known: dict[tuple[str, ...], _Fullness] = {}
        self._levels: list[Level] = []

    def executed(self, flow: Flow, request: Request, took_us: int) -> None:
        """Count a request that has run."""
        meters = self._kernel.meters
        if meters is not None:
            kind = "watch" if request.verb == "watch" else "regular"
            labels = flow.level.name, flow.schema, kind
            meters.observe(f"{PREFIX}request_execution_seconds", labels, took_us / SECOND)

    def arrived(self, flow: Flow, work: Work, queued: int, watchers: int | None) -> None:
        """Count a request that needs a seat.

        queued: the requests in its queue, with this one; watchers: of a write, the watches that it
        concerns
        """
        meters = self._kernel.meters
        if meters is None:
            return
        labels = flow.level.name, flow.schema
        meters.observe(f"{PREFIX}work_estimated_seats", labels, max(work.seats, work.final_seats))
        if flow.level.queuing is not None:
            meters.observe(f"{PREFIX}request_queue_length_after_enqueue", labels, queued)
        if watchers is not None:
            meters.observe(f"{PREFIX}watch_count_samples", labels, watchers)

    def moved(self, held: Held, phase: str, by: int) -> None:
        """Follow a request into or out of a phase.  by: 1 or -1"""
        if self._kernel.meters is None:
            return
        level = held.flow.level
        queuing = level.queuing
        room = level.limit
        if phase == WAITING:
            room = 0 if queuing is None else queuing.queues * queuing.length
        self._change("priority_level_request_utilization", (phase, level.name), by, room)
        kind = "readOnly" if held.request.verb in READS else "mutating"
        self._change("read_vs_write_current_requests", (phase, kind), by, self._total(phase))
        if phase == EXECUTING:
            seats = max(held.work.seats, held.work.final_seats)
            self._change("priority_level_seat_utilization", (phase, level.name), by * seats, level.limit)

    def _total(self, phase: str) -> int:
        if phase == EXECUTING:
            return sum(level.limit for level in self._levels)
        return sum(level.queuing.queues * level.queuing.length for level in self._levels if level.queuing)

    def _change(self, family: str, labels: tuple[str, ...], by: int, limit: int) -> None:
        found = self._at(family, labels)
        self._settle(found)
        found.count, found.limit = max(0, found.count + by), max(1, limit)

    def _at(self, family: str, labels: tuple[str, ...]) -> _Fullness:
        found = self._known.get((family, *labels))
        if found is None:
            found = self._known[family, *labels] = _Fullness(family, labels)
        return found

    def _settle(self, found: _Fullness) -> None:
        meters, now_us = self._kernel.meters, self._kernel.now_us
        assert meters is not None
        past_us = now_us - (meters.begun_us if found.since_us < 0 else found.since_us)
        found.since_us = now_us
        if past_us > 0:
            value = found.count / found.limit
            meters.observe(found.family, found.labels, value, past_us * NS_PER_US)

    def settle(self, levels: list[Level]) -> None:
        """Count up to the present, also what has been empty throughout."""
        self._levels = [level for level in levels if not level.exempt]
        if self._kernel.meters is None:
            return
        for phase in (EXECUTING, WAITING):
            for level in self._levels:
                self._settle(self._at("priority_level_request_utilization", (phase, level.name)))
                if phase == EXECUTING:
                    self._settle(self._at("priority_level_seat_utilization", (phase, level.name)))
            for kind in ("mutating", "readOnly"):
                self._settle(self._at("read_vs_write_current_requests", (phase, kind)))
