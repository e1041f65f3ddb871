"""Arranged orders of arrival: fast paths give the plain trace, and the order shows in a run."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import trio
from hypothesis import given

from sim.app.cluster import Cluster
from sim.app.hunt.judging import planned
from sim.app.run import run_plan
from sim.kernel import Record, Trace, read
from sim.kernel.draws.arrivals import Arrivals
from sim.kernel.fast import FAST, PLAIN
from sim.scenario.plan.plan import ClusterPlan
from sim.units import MS, SECOND
from tests.cluster.hunt.test_judging import document
from tests.property.disturbed import FAULTS, PLAN, Steps, steps, whole_runs
from tests.property.test_coalesced_pod_calls import DEPLOYMENT
from tests.property.test_fast_plain import TIMES_US, run

ORDERS = [
    Arrivals(3),
    Arrivals(0, 30 * MS),
    Arrivals(4, 10 * MS, ("pods", "scheduler-0", "replicasets")),
    Arrivals(1, 0, ("node-0", "apiserver-1")),
]
COMPETING = ("scheduler-0", "controller-manager-0")
SPREAD_US = 40 * MS


def _arranged(arrivals: Arrivals) -> ClusterPlan:
    return replace(PLAN, arrivals=arrivals)


@pytest.mark.slow
@pytest.mark.parametrize("arrivals", ORDERS)
def test_fast_and_plain_runs_have_one_trace_in_any_order(arrivals: Arrivals) -> None:
    fast, plain = (trio.run(run, [], [], paths, _arranged(arrivals))[0] for paths in (FAST, PLAIN))
    assert fast == plain


@pytest.mark.slow
@whole_runs(6)
@given(steps(len(TIMES_US) - 1, FAULTS))
def test_fast_and_plain_runs_have_one_trace_in_an_order_under_disturbance(chosen: Steps) -> None:
    plan = _arranged(ORDERS[2])
    assert trio.run(run, chosen, TIMES_US, FAST, plan)[0] == trio.run(run, chosen, TIMES_US, PLAIN, plan)[0]


@pytest.mark.slow
def test_run_over_sockets_has_the_trace_of_the_order() -> None:
    arranged = document()
    arranged["spec"]["cluster"]["arrivals"] = {
        "order": 3,
        "spread": "10ms",
        "among": ["pods", "node-1", "scheduler-0"],
    }
    plan = planned(arranged)
    hashes = [trio.run(partial(run_plan, plan, sockets=sockets)).trace_sha256 for sockets in (False, True)]
    assert hashes[0] == hashes[1] != trio.run(run_plan, planned(document())).trace_sha256


@pytest.mark.slow
def test_each_order_has_a_trace_of_its_own() -> None:
    orders = [Arrivals(number, 10 * MS, ("pods", "scheduler-0", "replicasets")) for number in range(6)]
    assert len({trio.run(run, [], [], FAST, _arranged(each))[0] for each in orders}) == 6


async def _schedule(order: int, file: Path) -> None:
    trace = Trace(file)
    plan = _arranged(Arrivals(order, SPREAD_US, COMPETING))
    async with Cluster(plan, seed=3, trace=trace) as cluster:
        await cluster.run_until(20 * SECOND)
        cluster.apply(DEPLOYMENT)
        await cluster.run_until(25 * SECOND)
    trace.close()


@pytest.mark.parametrize(("order", "binds_first"), [(0, True), (1, False)])
def test_first_process_of_an_order_learns_first_of_a_new_pod(
    order: int, binds_first: bool, tmp_path: Path
) -> None:
    """The controller creates more pods when it has seen the first one, which the scheduler places."""
    file = tmp_path / "trace"
    trio.run(_schedule, order, file)
    records = [*read(file)]
    creates = [each.at_us for each in records if _is_create_of_pod(each)]
    placed_us = next(each.at_us for each in records if each.kind == "schedule")
    assert (placed_us < creates[1]) is binds_first


def _is_create_of_pod(record: Record) -> bool:
    values = record.values
    return record.kind == "write" and values["verb"] == "create" and values["key"].startswith("//pods/")
