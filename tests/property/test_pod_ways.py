"""A cluster whose node agents use the servers' short ways for what they say of pods, and one without, are the same."""

from __future__ import annotations

from typing import Any

import trio
from hypothesis import assume, given, settings

from actors.apiserver.fast.coalesced_pod_calls import EventWay, PodWay
from sim.api.store import Change
from sim.api.types import Request
from sim.app.cluster import Cluster
from sim.units import SECOND
from tests.property.disturbed import FAULTS, PLAN, Steps, disturb, no_exchanges, step_by_step, steps, ties

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
STEPS = steps(60, [fault for fault in FAULTS if fault[0] != "admin"])
WAYS = (PodWay, EventWay)


class AtOnce(dict[Any, None]):
    """In the place of what is put off until something moves: nothing is."""

    def __setitem__(self, each: Any, _: None) -> None:
        each.plan()


async def history(
    chosen: Steps, times_us: list[int], short: bool, put_off: bool = True
) -> tuple[str, list[int], int, int]:
    async with Cluster(PLAN, seed=3) as cluster:
        seen: list[int] = []

        def see(change: Change) -> None:
            seen.append(change.at_us)

        cluster.observe(see, ["pods", "events"])
        if not short:
            for server in cluster.api_servers.values():
                _close(server)
        await cluster.run_until(APPLY_US)
        if not put_off:
            cluster.kernel.standing.put_off = AtOnce()
        cluster.apply(DEPLOYMENT)
        await disturb(cluster, chosen, times_us)
        await cluster.run_until(END_US)
        servers = cluster.api_servers.values()
        followed = sum(server.plans.followed for server in servers if server.plans is not None)
        return cluster.kernel.trace.sha256(), seen, followed, cluster.kernel.steps


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


def test_a_reply_that_nobody_waits_for_is_no_event_of_the_kernel() -> None:
    told, put_off = (trio.run(history, [], [], True, each) for each in (False, True))
    assert told[:3] == put_off[:3]
    assert told[3] - put_off[3] >= 6


@settings(max_examples=25, deadline=None)
@given(STEPS)
def test_short_ways_for_pods_change_nothing_that_anybody_can_see(chosen: Steps) -> None:
    with no_exchanges():
        short = trio.run(history, chosen, TIMES_US, True)[0]
        assert short == trio.run(history, chosen, TIMES_US, False)[0]


@settings(max_examples=25, deadline=None)
@given(STEPS)
def test_exchanges_about_pods_change_nothing_that_anybody_can_see(chosen: Steps) -> None:
    with ties() as open_order:
        in_one = trio.run(history, chosen, TIMES_US, True)[0]
    assume(not open_order)
    with step_by_step():
        assert trio.run(history, chosen, TIMES_US, True)[0] == in_one
