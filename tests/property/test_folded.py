"""A cluster whose nodes and leaders use the servers' short ways, and one without these, are the same to everybody.

Likewise one in which reports are exchanges of one event, and one in which each goes on step by step.
"""

from __future__ import annotations

import trio
from hypothesis import assume, given, settings

from sim.api.store import Beaten, Change
from sim.app.cluster import Cluster
from sim.units import SECOND
from tests.property.disturbed import FAULTS, PLAN, Steps, disturb, no_exchanges, step_by_step, steps, ties

END_US = 110 * SECOND
# Reports, and renewals of a leader.
STEPS = steps(8, FAULTS)


class Reports:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.times_us: list[int] = []
        self.leaders_us: list[int] = []

    def see(self, change: Change) -> None:
        if type(change.item) is Beaten:
            self.times_us.append(change.at_us)

    def see_leader(self, change: Change) -> None:
        self.leaders_us.append(change.at_us)


async def history(chosen: Steps, times_us: list[int], folded: bool) -> tuple[str, Reports]:
    async with Cluster(PLAN, seed=3) as cluster:
        reports = Reports(cluster)
        cluster.observe(reports.see, ["nodes"])
        cluster.observe(reports.see_leader, [f"leases/{cluster.names.system_namespace}"])
        if not folded:
            for server in cluster.api_servers.values():
                server.short_way = lambda _: None  # type: ignore[method-assign]
        await disturb(cluster, chosen, times_us)
        await cluster.run_until(END_US)
        return cluster.kernel.trace.sha256(), reports


def quiet() -> Reports:
    """What is written of the undisturbed node and leaders."""
    return trio.run(history, [], [], True)[1]


QUIET = quiet()
TIMES_US = [*QUIET.times_us, *QUIET.leaders_us[10:16]]


def test_an_undisturbed_node_reports_heartbeat_times_alone() -> None:
    assert len(QUIET.times_us) == 3


@settings(max_examples=25, deadline=None)
@given(STEPS)
def test_short_ways_of_reports_change_nothing_that_anybody_can_see(chosen: Steps) -> None:
    with no_exchanges():
        short = trio.run(history, chosen, TIMES_US, True)[0]
    assert short == trio.run(history, chosen, TIMES_US, False)[0]


@settings(max_examples=25, deadline=None)
@given(STEPS)
def test_an_exchange_changes_nothing_that_anybody_can_see(chosen: Steps) -> None:
    with ties() as open_order:
        in_one = trio.run(history, chosen, TIMES_US, True)[0]
    assume(not open_order)
    with step_by_step():
        assert trio.run(history, chosen, TIMES_US, True)[0] == in_one
