"""Faults put at chosen instants beside what a small cluster does: for tests that compare fast paths
with the ordinary ones.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from sim.app.cluster import Cluster
from sim.app.plain_plan import plain_nodes
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from sim.units import MS, SECOND

NODE = plain_nodes(1)[0]
PLAN = ClusterPlan(
    nodes=(replace(NODE, flags={"node-status-report-frequency": "20s"}),),
    api_server=ComponentPlan(replicas=2),
)
Fault = tuple[str, str, Any]
# Target, kind and value of each fault.
FAULTS: list[Fault] = [
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
LEASES: list[Fault] = [("lease", "patch", {"metadata": {"labels": {"a": "b"}}}), ("lease", "delete", None)]
# Which of the instants, how long before it or after, by what and for how long.
Steps = list[tuple[int, int, Fault, int]]


def whole_runs(nightly: int) -> settings:
    """Examples that each run whole clusters: all of them in the nightly tests, otherwise a third.

    Each run of the tests draws others.
    """
    share = 1 if "ORRERY_SCENARIO_SEEDS" in os.environ else 3
    return settings(max_examples=nightly // share)


def steps(last: int, faults: list[Fault]) -> st.SearchStrategy[Steps]:
    """Some faults beside the first, second … `last` of what is to be disturbed."""
    return st.lists(
        st.tuples(
            st.integers(0, last),
            st.integers(-3_000, 5_000),
            st.sampled_from(faults),
            st.sampled_from([1 * MS, 3 * MS, 12 * SECOND, 50 * SECOND]),
        ),
        min_size=1,
        max_size=3,
    )


async def disturb(cluster: Cluster, chosen: Steps, times_us: list[int]) -> None:
    """Run up to each fault's begin and end, and let it begin and end there.  `times_us`: the
    instants.
    """
    plans: list[tuple[int, int, Fault | None]] = []
    for number, (which, offset_us, fault, length_us) in enumerate(chosen):
        at_us = times_us[which % len(times_us)] + offset_us
        plans += [(at_us, number, fault), (at_us + length_us, number, None)]
    for at_us, number, begins in sorted(plans, key=lambda plan: plan[:2]):
        await cluster.run_until(max(at_us, cluster.kernel.now_us))
        if begins is None:
            cluster.faults.lift(str(number))
        elif begins[0] in ("admin", "lease"):
            where = ("nodes", "") if begins[0] == "admin" else ("leases", cluster.names.lease_namespace)
            servers = cluster.api_servers.values()
            if cluster.storage.prompt and any(server.running for server in servers):
                kind = "application/merge-patch+json"
                cluster.request(begins[1], *where, NODE.name, body=begins[2], content_type=kind)
        else:
            cluster.faults.impose(str(number), *begins)
