"""A cluster whose nodes and leaders use the servers' short ways, and one without these, are the same to everybody."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.app.cluster import Cluster, plain_nodes
from sim.machinery.store import Beaten, Change
from sim.scenario.plan import ClusterPlan, ComponentPlan
from sim.units import MS, SECOND

NODE = plain_nodes(1)[0]
PLAN = ClusterPlan(
    nodes=(replace(NODE, flags={"node-status-report-frequency": "20s"}),),
    api_server=ComponentPlan(replicas=2),
)
END_US = 110 * SECOND
# Who is struck, in what, with what value.
FAULTS: list[tuple[str, str, Any]] = [
    *((NODE.name, aspect, value) for aspect, value in (
        ("power", True), ("pause", True), ("down", "agent crashed"), ("cut", True), ("slow", 3 * MS),
        ("clock", (5 * SECOND, 0)), ("clock", (0, 2_000)), ("runtime", "broken"),
    )),
    *((f"apiserver-{n}", aspect, value) for n in range(2) for aspect, value in (
        ("down", "killed"), ("pause", True), ("slow", 2 * MS), ("overload", (3 * MS, None)), ("overload", (0, 0)),
        ("lag", 5 * MS), ("frozen", True),
    )),
    *((name, aspect, value) for name in ("controller-manager-0", "scheduler-0") for aspect, value in (
        ("down", "killed"), ("pause", True), ("cut", True), ("slow", 3 * MS), ("clock", (0, 2_000)),
    )),
    ("storage", "pause", True), ("storage", "disk", 7 * MS), ("storage", "quorum", True),
    ("admin", "patch", {"metadata": {"labels": {"a": "b"}}}),
    ("admin", "patch", {"spec": {"unschedulable": True}}),
]  # fmt: skip
# Which report or renewal of a leader is disturbed, how long before it is written or after, by what and for how long.
STEPS = st.lists(
    st.tuples(
        st.integers(0, 8),
        st.integers(-3_000, 5_000),
        st.sampled_from(FAULTS),
        st.sampled_from([1 * MS, 3 * MS, 12 * SECOND, 50 * SECOND]),
    ),
    min_size=1,
    max_size=3,
)
Steps = list[tuple[int, int, tuple[str, str, Any], int]]


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


async def history(steps: Steps, times_us: list[int], folded: bool) -> tuple[str, Reports]:
    async with Cluster(PLAN, seed=3) as cluster:
        reports = Reports(cluster)
        cluster.observe(reports.see, ["nodes"])
        cluster.observe(reports.see_leader, [f"leases/{cluster.names.system_namespace}"])
        if not folded:
            for server in cluster.api_servers.values():
                server.short_way = lambda _: None  # type: ignore[method-assign]
        plans: list[tuple[int, int, Any]] = []
        for number, (report, offset_us, fault, length_us) in enumerate(steps):
            at_us = times_us[report % len(times_us)] + offset_us
            plans += [(at_us, number, fault), (at_us + length_us, number, None)]
        for at_us, number, fault in sorted(plans, key=lambda plan: plan[:2]):
            await cluster.run_until(max(at_us, cluster.kernel.now_us))
            if fault is None:
                cluster.faults.lift(str(number))
            elif fault[0] == "admin":
                servers = cluster.api_servers.values()
                if cluster.storage.prompt and any(server.running for server in servers):
                    kind = "application/merge-patch+json"
                    cluster.request("patch", "nodes", "", NODE.name, body=fault[2], content_type=kind)
            else:
                cluster.faults.impose(str(number), *fault)
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
def test_short_ways_of_reports_change_nothing_that_anybody_can_see(steps: Steps) -> None:
    assert trio.run(history, steps, TIMES_US, True)[0] == trio.run(history, steps, TIMES_US, False)[0]
