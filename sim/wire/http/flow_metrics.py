"""Metrics of priority and fairness, for Prometheus.

Turns the state of a replica into the metric families `apiserver_flowcontrol_*`.

Holds: the series of a family are sorted by their labels.

Mirrors  kubernetes v1.25 apiserver pkg/util/flowcontrol/metrics/metrics.go.
Differs  requests that take no time need no seat, and are counted from the first reader on; families
         about samples of each nanosecond, virtual time and the duration of executions are missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from sim.api.fairness.state import WAIT_BUCKETS_US, FairnessState
from sim.units import SECOND

PREFIX = "apiserver_flowcontrol_"
FLOW = ("priority_level", "flow_schema")


def flow_families(state: FairnessState) -> Iterator[Metric]:
    """The families of one replica."""
    waiting = {number for each in state.levels for queue in each.queues for number in queue.waiting}
    queued: dict[tuple[str, str], int] = {}
    running: dict[tuple[str, str], int] = {}
    seats: dict[tuple[str, str], int] = {}
    for number, held in state.held.items():
        key = (held.flow.level.name, held.flow.schema)
        if number in waiting:
            queued[key] = queued.get(key, 0) + 1
        else:
            running[key] = running.get(key, 0) + 1
            seats[key] = seats.get(key, 0) + max(held.work.seats, held.work.final_seats)
    # A flow that had requests keeps its series.
    zero = dict.fromkeys(state.dispatched, 0)
    yield _gauge(
        "current_executing_requests",
        "Number of requests in initial (for a WATCH) or any (for a non-WATCH) execution stage in the API Priority and "
        "Fairness subsystem",
        FLOW,
        zero | running,
    )
    yield _gauge(
        "current_inqueue_requests",
        "Number of requests currently pending in queues of the API Priority and Fairness subsystem",
        FLOW,
        zero | queued,
    )
    yield _counter(
        "dispatched_requests",
        "Number of requests executed by API Priority and Fairness subsystem",
        FLOW,
        state.dispatched,
    )
    yield _counter(
        "rejected_requests",
        "Number of requests rejected by API Priority and Fairness subsystem",
        (*FLOW, "reason"),
        state.rejected,
    )
    yield _gauge(
        "request_concurrency_in_use",
        "Concurrency (number of seats) occupied by the currently executing (initial stage for a WATCH, any stage "
        "otherwise) requests in the API Priority and Fairness subsystem",
        FLOW,
        zero | seats,
    )
    yield _gauge(
        "request_concurrency_limit",
        "Shared concurrency limit in the API Priority and Fairness subsystem",
        FLOW[:1],
        {(each.level.name,): each.level.limit for each in state.levels if not each.level.exempt},
    )
    yield _waits(state)


def _waits(state: FairnessState) -> Metric:
    found = HistogramMetricFamily(
        f"{PREFIX}request_wait_duration_seconds",
        "[ALPHA] Length of time a request spent waiting in its queue",
        labels=(*FLOW, "execute"),
    )
    for (level, schema, executed), (*counts, total_us) in sorted(state.waits_us.items()):
        reached, buckets = 0, []
        bounds = [f"{bound_us / SECOND:g}" for bound_us in WAIT_BUCKETS_US]
        for bound, count in zip([*bounds, "+Inf"], counts, strict=True):
            reached += count
            buckets.append((bound, reached))
        labels = (level, schema, "true" if executed else "false")
        found.add_metric(labels, buckets, total_us / SECOND)
    return found


def _gauge(name: str, text: str, labels: Iterable[str], values: Mapping[Any, int]) -> GaugeMetricFamily:
    found = GaugeMetricFamily(PREFIX + name, f"[ALPHA] {text}", labels=tuple(labels))
    for key in sorted(values):
        found.add_metric(key, values[key])
    return found


def _counter(name: str, text: str, labels: Iterable[str], values: Mapping[Any, int]) -> CounterMetricFamily:
    found = CounterMetricFamily(PREFIX + name, f"[ALPHA] {text}", labels=tuple(labels))
    for key in sorted(values):
        found.add_metric(key, values[key])
    return found
