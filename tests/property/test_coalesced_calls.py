"""A cluster with coalesced reads and writes gives the trace of one with single calls."""

from __future__ import annotations

from dataclasses import replace

import trio
from hypothesis import given

from sim.api.store import Change, HeartbeatItem
from sim.app.cluster import Cluster
from sim.kernel.fast import FAST, FastPaths
from sim.units import SECOND
from tests.property.disturbed import FAULTS, PLAN, Steps, disturb, steps, whole_runs

END_US = 110 * SECOND
SINGLE_CALLS = replace(FAST, read_writes=False)
REQUESTS = replace(FAST, calls=False)
# Reports, and renewals of a leader.
STEPS = steps(8, FAULTS)


class Reports:
    """When the node reported heartbeat times alone, and when leaders renewed their leases."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.times_us: list[int] = []
        self.leaders_us: list[int] = []

    def see(self, change: Change) -> None:
        if type(change.item) is HeartbeatItem:
            self.times_us.append(change.at_us)

    def see_leader(self, change: Change) -> None:
        self.leaders_us.append(change.at_us)


async def history(chosen: Steps, times_us: list[int], fast: FastPaths) -> tuple[str, int, Reports]:
    """The hash of the trace, the number of kernel events, and what was reported."""
    async with Cluster(PLAN, seed=3, fast=fast) as cluster:
        reports = Reports(cluster)
        cluster.observe(reports.see, ["nodes"])
        cluster.observe(reports.see_leader, [f"leases/{cluster.names.system_namespace}"])
        await disturb(cluster, chosen, times_us)
        await cluster.run_until(END_US)
        return cluster.kernel.trace.sha256(), cluster.kernel.steps, reports


QUIET = trio.run(history, [], [], FAST)
TIMES_US = [*QUIET[2].times_us, *QUIET[2].leaders_us[10:16]]


def test_an_undisturbed_node_reports_heartbeat_times_alone() -> None:
    assert len(QUIET[2].times_us) == 3


def test_a_coalesced_read_and_write_saves_kernel_events() -> None:
    single, requests = (trio.run(history, [], [], fast) for fast in (SINGLE_CALLS, REQUESTS))
    assert QUIET[0] == single[0] == requests[0]
    # of four messages all but one; the replies to other quiet calls were no events before
    assert single[1] - QUIET[1] >= 2 * (len(QUIET[2].times_us) + len(QUIET[2].leaders_us[10:]))


@whole_runs(24)
@given(STEPS)
def test_coalesced_reads_and_writes_and_single_ones_give_the_same_trace(chosen: Steps) -> None:
    hashes = {trio.run(history, chosen, TIMES_US, fast)[0] for fast in (FAST, SINGLE_CALLS, REQUESTS)}
    assert len(hashes) == 1
