"""A cluster with columnar renewals and one with single renewals are the same to every observer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import trio
from hypothesis import given

from actors.apiserver.fast import lease_updates as lease_path
from actors.controllers.nodelifecycle.decide import Health, Turns
from actors.controllers.nodelifecycle.renewal_columns import Columns
from actors.storage.columns.renewals import Beats
from sim.api.store import Compacted
from sim.api.watch.columnar_renewals import Run
from sim.app.cluster import Cluster
from sim.app.plain_plan import plain_nodes
from sim.kernel import Operation
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from sim.units import SECOND
from tests.property.disturbed import FAULTS, LEASES, Steps, disturb, steps, whole_runs

NODES = tuple(replace(node, flags={"node-status-report-frequency": "20s"}) for node in plain_nodes(6))
PLAN = ClusterPlan(nodes=NODES, api_server=ComponentPlan(replicas=2))
END_US = 170 * SECOND
TIMES_US = [at * SECOND for at in (30, 45, 52, 60, 75, 90)]
STEPS = steps(len(TIMES_US) - 1, [*FAULTS, *LEASES, *LEASES, *LEASES])


@contextmanager
def crowd(size: int) -> Iterator[None]:
    """Let so many leases of one server be renewed in columns."""
    with patch.object(lease_path, "CROWD", size):
        yield


def told(change: Any) -> tuple[Any, ...]:
    item, prev = change.item, change.prev
    before = None if prev is None else prev.obj
    return change.rev, item.key, change.deleted, item.obj, item.managed, before, change.at_us, change.cause


async def history(chosen: Steps, size: int) -> list[Any]:
    """What anybody can see: the trace, the store at some instants and as of a revision, its whole
    history.
    """
    seen: list[Any] = []
    async with Cluster(PLAN, seed=3) as cluster:
        with crowd(size):
            store, namespace = cluster.storage.store, cluster.names.lease_namespace

            def look(_: Any) -> None:
                server = cluster.api_servers["apiserver-0"]
                for revision in ("", str(store.revision - 9)):
                    exact = {"resourceVersion": revision, "resourceVersionMatch": "Exact"} if revision else {}
                    if cluster.storage.prompt and server.running:
                        reply = cluster.request("list", "leases", namespace, options=exact)
                        seen.append((reply.code, reply.revision, [item.obj for item in reply.items or ()]))
                seen.append((cluster.kernel.steps, store.revision, server.flown))
                store.compact(store.revision - 20)

            for at_us in (55 * SECOND, 100 * SECOND, 140 * SECOND):
                cluster.kernel.call_at(at_us, look)
            await disturb(cluster, chosen, TIMES_US)
            await cluster.run_until(END_US)
            changes = store.events(store.floor, "")
            leases = cluster.scheme.prefix("leases")
            whole, parts = store.events(store.floor, leases), store.stretches(store.floor, leases)
            assert not isinstance(changes, Compacted)
            assert not isinstance(whole, Compacted)
            assert not isinstance(parts, Compacted)
            assert [told(change) for part in parts for change in part] == [*map(told, whole)]
            seen += [cluster.kernel.trace.sha256(), cluster.kernel.steps, *map(told, changes)]
    return seen


def test_undisturbed_nodes_all_renew_in_columns_and_are_observed() -> None:
    reports: list[int] = []

    def report(self: Columns, nodes: Sequence[Health], turns: Turns) -> None:
        reports.append(len(nodes))
        original(self, nodes, turns)

    original = Columns.report

    async def main() -> tuple[int, int]:
        async with Cluster(PLAN, seed=3) as cluster:
            with crowd(4), patch.object(Columns, "report", report):
                await cluster.run_until(END_US)
                beats, log = (
                    cluster.storage.beats,
                    cluster.storage.store.bucket(cluster.scheme.prefix("leases")).log,
                )
                assert isinstance(beats, Beats)
                return beats.members, sum(run.hi - run.lo for run in log if isinstance(run, Run))

    members, renewed = trio.run(main)
    assert members == 6
    assert renewed > 6 * 12
    assert sum(reports) > 6 * 4


async def operated(replay: list[Operation] | None) -> tuple[str, int, list[Operation]]:
    """A run with operations from outside, or their repetition."""
    async with Cluster(PLAN, seed=3, replay=replay) as cluster:
        gate = cluster.kernel.gate

        def operate(payload: Any, done: Any) -> None:
            body = {"metadata": {"labels": {"a": str(payload)}}}
            kind = "application/merge-patch+json"
            where = ("leases", cluster.names.lease_namespace, "node-0")
            done(cluster.request("patch", *where, body=body, content_type=kind).code)

        gate.handle("label", operate)
        for at_us in (52_345_678, 71_000_001, 90_000_000):
            await cluster.run_until(at_us)
            if replay is None:
                assert await gate.submit("label", at_us) == 200
        await cluster.run_until(END_US)
        return cluster.kernel.trace.sha256(), cluster.kernel.steps, gate.journal


def test_a_journal_of_a_run_in_columns_replays_to_the_same_trace() -> None:
    with crowd(4):
        live = trio.run(operated, None)
        assert len(live[2]) == 3
        assert trio.run(operated, list(live[2])) == live
    assert trio.run(operated, None)[:2] == live[:2]


@whole_runs(25)
@given(STEPS)
def test_columns_change_nothing_that_anybody_can_see(chosen: Steps) -> None:
    assert trio.run(history, chosen, 4) == trio.run(history, chosen, 1 << 30)
