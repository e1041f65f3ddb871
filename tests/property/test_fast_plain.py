"""A run gives one trace with all fast paths, without any, and with each one alone, under any
faults.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import trio
from hypothesis import given

from sim.api.store import Change, HeartbeatItem
from sim.app.cluster import Cluster
from sim.app.plain_plan import plain_nodes
from sim.kernel import Trace
from sim.kernel.fast import FAST, NAMES, PLAIN, FastPaths
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from sim.units import SECOND
from tests.property.disturbed import FAULTS, LEASES, PLAN, Steps, disturb, steps, whole_runs
from tests.property.test_coalesced_pod_calls import DEPLOYMENT
from tests.property.test_columnar_renewals import crowd

APPLY_US = 20 * SECOND
END_US = 110 * SECOND
SIX = ClusterPlan(
    nodes=tuple(replace(node, flags={"node-status-report-frequency": "20s"}) for node in plain_nodes(6)),
    api_server=ComponentPlan(replicas=2),
)


async def run(
    chosen: Steps, times_us: list[int], fast: FastPaths, plan: ClusterPlan = PLAN, trace: Path | None = None
) -> tuple[str, list[int]]:
    """The hash of a run's trace, and when reports of the node, renewals of leaders, pods and events
    were written.
    """
    written: list[int] = []

    def see_node(change: Change) -> None:
        if type(change.item) is HeartbeatItem:
            written.append(change.at_us)

    def see(change: Change) -> None:
        written.append(change.at_us)

    to = Trace() if trace is None else Trace(trace)
    async with Cluster(plan, seed=3, fast=fast, trace=to) as cluster:
        cluster.observe(see_node, ["nodes"])
        cluster.observe(see, [f"leases/{cluster.names.system_namespace}", "pods", "events"])
        await cluster.run_until(APPLY_US)
        cluster.apply(DEPLOYMENT)
        await disturb(cluster, chosen, times_us)
        await cluster.run_until(END_US)
    to.close()
    return to.sha256(), [at_us for at_us in written if at_us > APPLY_US]


TIMES_US = trio.run(run, [], [], FAST)[1]


@cache
def undisturbed() -> str:
    """The hash of the plain run without any fault."""
    return trio.run(run, [], [], PLAIN)[0]


@whole_runs(20)
@given(steps(len(TIMES_US) - 1, FAULTS))
def test_fast_and_plain_runs_have_one_trace_under_any_disturbance(chosen: Steps) -> None:
    assert trio.run(run, chosen, TIMES_US, FAST)[0] == trio.run(run, chosen, TIMES_US, PLAIN)[0]


@whole_runs(10)
@given(steps(len(TIMES_US) - 1, [*FAULTS, *LEASES, *LEASES]))
def test_columnar_and_plain_renewals_have_one_trace(chosen: Steps) -> None:
    with crowd(4):
        fast = trio.run(run, chosen, TIMES_US, FAST, SIX)[0]
    assert fast == trio.run(run, chosen, TIMES_US, PLAIN, SIX)[0]


@pytest.mark.parametrize("name", NAMES)
def test_each_fast_path_alone_gives_the_plain_trace(name: str) -> None:
    alone = replace(PLAIN, **{name: True})
    assert trio.run(run, [], [], alone)[0] == undisturbed()


def test_a_slow_controller_manager_gives_one_trace() -> None:
    chosen: Steps = [(0, 0, ("controller-manager-0", "slow", 3_000), 12 * SECOND)]
    assert trio.run(run, chosen, TIMES_US, FAST)[0] == trio.run(run, chosen, TIMES_US, PLAIN)[0]


def test_a_slow_node_agent_gives_one_trace() -> None:
    chosen: Steps = [(10, 330, ("node-0", "slow", 3_000), 50 * SECOND)]
    assert trio.run(run, chosen, TIMES_US, FAST)[0] == trio.run(run, chosen, TIMES_US, PLAIN)[0]
