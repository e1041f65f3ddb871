"""A cluster whose node agents use the servers' short ways for what they say of pods, and one without, are the same."""

from __future__ import annotations

from typing import Any

import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.apiserver.pod_ways import EventWay, PodWay
from sim.app.cluster import Cluster
from sim.machinery.api import Request
from sim.machinery.store import Change
from sim.units import MS, SECOND
from tests.property.test_folded import FAULTS, PLAN

APPLY_US, END_US = 15 * SECOND, 100 * SECOND
POD = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "app", "image": "registry.example/app:1"}]},
}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"replicas": 6, "selector": {"matchLabels": {"app": "web"}}, "template": POD},
}
STEPS = st.lists(
    st.tuples(
        st.integers(0, 60),
        st.integers(-3_000, 5_000),
        st.sampled_from([fault for fault in FAULTS if fault[0] != "admin"]),
        st.sampled_from([1 * MS, 3 * MS, 12 * SECOND, 50 * SECOND]),
    ),
    min_size=1,
    max_size=3,
)
Steps = list[tuple[int, int, tuple[str, str, Any], int]]
WAYS = (PodWay, EventWay)


async def history(steps: Steps, times_us: list[int], short: bool) -> tuple[str, list[int], int]:
    async with Cluster(PLAN, seed=3) as cluster:
        seen: list[int] = []

        def see(change: Change) -> None:
            seen.append(change.at_us)

        cluster.observe(see, ["pods", "events"])
        if not short:
            for server in cluster.api_servers.values():
                _close(server)
        await cluster.run_until(APPLY_US)
        cluster.apply(DEPLOYMENT)
        plans: list[tuple[int, int, Any]] = []
        for number, (write, offset_us, fault, length_us) in enumerate(steps):
            at_us = times_us[write % len(times_us)] + offset_us
            plans += [(at_us, number, fault), (at_us + length_us, number, None)]
        for at_us, number, fault in sorted(plans, key=lambda plan: plan[:2]):
            await cluster.run_until(max(at_us, cluster.kernel.now_us))
            if fault is None:
                cluster.faults.lift(str(number))
            else:
                cluster.faults.impose(str(number), *fault)
        await cluster.run_until(END_US)
        servers = cluster.api_servers.values()
        followed = sum(server.plans.followed for server in servers if server.plans is not None)
        return cluster.kernel.trace.sha256(), seen, followed


def _close(server: Any) -> None:
    offer = server.short_way

    def others(request: Request) -> Any:
        way = offer(request)
        return None if isinstance(way, WAYS) else way

    server.short_way = others


TIMES_US = [at_us for at_us in trio.run(history, [], [], True)[1] if at_us > APPLY_US]


def test_an_agent_that_need_not_wait_goes_a_short_way() -> None:
    assert len(TIMES_US) >= 6 * 8
    assert trio.run(history, [], [], False)[2] - trio.run(history, [], [], True)[2] >= 2 * 6


@settings(max_examples=25, deadline=None)
@given(STEPS)
def test_short_ways_for_pods_change_nothing_that_anybody_can_see(steps: Steps) -> None:
    assert trio.run(history, steps, TIMES_US, True)[0] == trio.run(history, steps, TIMES_US, False)[0]
