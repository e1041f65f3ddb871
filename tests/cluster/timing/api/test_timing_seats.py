"""Seats of API servers on whole clusters: known timing case 56, and what they are for."""

from __future__ import annotations

from itertools import pairwise

import pytest

from sim.api.fairness.classification import Plan
from sim.api.store import Change
from sim.api.types import Reply, Request, UserInfo
from sim.app.cluster import Cluster
from sim.app.plain_plan import plain_nodes
from sim.kernel import Context
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from sim.units import MS, SECOND


def patch(cluster: Cluster, number: int) -> Request:
    """A write by a user outside of the system's components."""
    return Request(
        verb="patch",
        resource="configmaps",
        namespace="default",
        name=f"none-{number}",
        body={"data": {"k": "v"}},
        content_type="application/merge-patch+json",
        user=UserInfo("alice", (cluster.names.group_authenticated,)),
    )


async def test_56_levels_have_their_seats_and_a_wait_of_15_s_ends_with_429() -> None:
    async with Cluster(nodes=1, seed=1) as cluster:
        await cluster.run_for("20s")
        kinds = cluster.list("flowschemas"), cluster.list("prioritylevelconfigurations")
        levels = Plan(cluster.names, *kinds, cluster.options.api_server.seats).levels
        assert {name: level.limit for name, level in levels.items() if not level.exempt} == {
            "system": 74,
            "node-high": 98,
            "leader-election": 25,
            "workload-high": 98,
            "workload-low": 245,
            "global-default": 49,
            "catch-all": 13,
        }
        server = cluster.api_servers["apiserver-0"]
        server.overload(25 * SECOND, None)
        replies: list[tuple[int, Reply]] = []
        start_us = cluster.kernel.now_us

        def answered(reply: Reply) -> None:
            replies.append((cluster.kernel.now_us - start_us, reply))

        for number in range(50):
            server.handle(patch(cluster, number), answered)
        await cluster.run_for("24s")
        ((waited_us, reply),) = replies
        assert (waited_us, reply.code, reply.headers) == (15 * SECOND, 429, {"Retry-After": "1"})
        await cluster.run_for("2s")
        assert [reply.code for _, reply in replies[1:]] == [403] * 49  # the user has no rights


@pytest.mark.parametrize("fair", [True, False])
async def test_flood_of_writes_blocks_lease_renewals_unless_it_has_to_queue(
    fair: bool,
) -> None:
    """250 writes a second, of which two may run at once, for a quarter of a second each; with
    seats, all but a few wait.
    """
    flags = {"max-requests-inflight": 50, "max-mutating-requests-inflight": 2}
    plan = ClusterPlan(
        nodes=plain_nodes(4),
        api_server=ComponentPlan(flags={**flags, "enable-priority-and-fairness": fair}),
    )
    renewals = {node.name: [60 * SECOND] for node in plan.nodes}

    def flood(ctx: Context) -> None:
        server = cluster.api_servers["apiserver-0"]

        def send(number: int) -> None:
            server.handle(patch(cluster, number), lambda _: None)
            ctx.call_later_us(4 * MS, send, number + 1)

        send(0)

    def see(change: Change) -> None:
        metadata = change.item.obj["metadata"]
        if metadata.get("namespace") == cluster.names.lease_namespace:
            renewals[metadata["name"]].append(change.at_us)

    async with Cluster(plan, seed=1) as cluster:
        await cluster.run_for("60s")
        cluster.observe(see)
        cluster.api_servers["apiserver-0"].overload(250 * MS, None)
        cluster.supervisor.add("flood", flood)
        await cluster.run_for("2m")
        end_us = cluster.kernel.now_us
    longest_us = max(b - a for seen in renewals.values() for a, b in pairwise([*seen, end_us]))
    assert longest_us < 12 * SECOND if fair else longest_us > 40 * SECOND
