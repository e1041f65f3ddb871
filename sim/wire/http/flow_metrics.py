"""Metrics of priority and fairness, for Prometheus.

Turns the state of a replica into values of the metric families `apiserver_flowcontrol_*`.

Holds: the values of several replicas are added up; a limit is that of one replica.

Mirrors  kubernetes v1.25 apiserver pkg/util/flowcontrol/metrics/metrics.go.
Differs  requests that take no time need no seat, and are counted from the first reader on.
"""

from __future__ import annotations

from sim.api.fairness.state import UNIT, FairnessState
from sim.kernel.meters import Histogram, Meters
from sim.units import SECOND

PREFIX = "apiserver_flowcontrol_"


def show_flows(state: FairnessState, shown: Meters) -> None:
    """Show the state of one replica."""
    waiting = {number for each in state.levels for queue in each.queues for number in queue.waiting}
    queued, running, seats = (
        f"{PREFIX}{name}"
        for name in (
            "current_inqueue_requests",
            "current_executing_requests",
            "request_concurrency_in_use",
        )
    )
    for key in state.dispatched:  # a flow that had requests keeps its series
        for family in (queued, running, seats):
            shown.count(family, key, 0)
    for number, held in state.held.items():
        key = (held.flow.level.name, held.flow.schema)
        if number in waiting:
            shown.count(queued, key)
        else:
            shown.count(running, key)
            shown.count(seats, key, max(held.work.seats, held.work.final_seats))
    for flow, count in state.dispatched.items():
        shown.count(f"{PREFIX}dispatched_requests_total", flow, count)
    for refusal, count in state.rejected.items():
        shown.count(f"{PREFIX}rejected_requests_total", refusal, count)
    for each in state.levels:
        if not each.level.exempt:
            shown.set(f"{PREFIX}request_concurrency_limit", (each.level.name,), each.level.limit)
            shown.set(f"{PREFIX}current_r", (each.level.name,), each.progress / UNIT)
    for (level, schema, executed), (*counts, total_us) in state.waits_us.items():
        labels = (level, schema, "true" if executed else "false")
        found = Histogram(len(counts) - 1)
        found.counts, found.total = counts, total_us / SECOND
        shown.merge(f"{PREFIX}request_wait_duration_seconds", labels, found)
