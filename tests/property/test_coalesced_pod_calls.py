"""A cluster of node agents that read and write pods and events without requests, and one with
requests, give one trace.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import trio
from hypothesis import given

from sim.api.store import Change
from sim.app.cluster import Cluster
from sim.kernel import NEVER_US
from sim.kernel.fast import FAST, FastPaths
from sim.units import SECOND
from tests.property.disturbed import FAULTS, PLAN, Steps, disturb, steps, whole_runs

APPLY_US, END_US = 15 * SECOND, 100 * SECOND
POD = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "app", "image": "registry.example/app:1"}]},
}
DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"replicas": 6, "selector": {"matchLabels": {"app": "web"}}, "template": POD},
}
STEPS = steps(60, FAULTS)
SINGLE_CALLS = replace(FAST, read_writes=False)
REQUESTS = replace(FAST, calls=False)


class AtOnce(dict[Any, None]):
    """Replaces the table of deferred work by one that defers nothing."""

    def __setitem__(self, plan: Any, _: None) -> None:
        plan()


async def history(
    chosen: Steps, times_us: list[int], fast: FastPaths, deferred: bool = True
) -> tuple[str, list[int], int, int]:
    """The hash of the trace, when pods and events were written, requests by templates, kernel
    events.
    """
    async with Cluster(PLAN, seed=3, fast=fast) as cluster:
        seen: list[int] = []

        def see(change: Change) -> None:
            seen.append(change.at_us)

        cluster.observe(see, ["pods", "events"])
        await cluster.run_until(APPLY_US)
        if not deferred:
            cluster.kernel.standing.deferred = AtOnce()
        cluster.apply(DEPLOYMENT)
        await disturb(cluster, chosen, times_us)
        await cluster.run_until(END_US)
        lives = [server.life for server in cluster.api_servers.values() if server.life is not None]
        followed = sum(life.fast.templates.followed for life in lives if life.fast.templates is not None)
        return cluster.kernel.trace.sha256(), seen, followed, cluster.kernel.steps


TIMES_US = [at_us for at_us in trio.run(history, [], [], FAST)[1] if at_us > APPLY_US]


def test_an_agent_with_tokens_reads_and_writes_without_requests() -> None:
    assert len(TIMES_US) >= 6 * 8
    assert trio.run(history, [], [], REQUESTS)[2] - trio.run(history, [], [], FAST)[2] >= 2 * 6


def test_a_reply_that_changes_nothing_is_no_kernel_event() -> None:
    told, deferred = (trio.run(history, [], [], FAST, each) for each in (False, True))
    assert told[0] == deferred[0]
    assert told[3] - deferred[3] >= 6


@whole_runs(24)
@given(STEPS)
def test_coalesced_calls_about_pods_and_single_ones_give_the_same_trace(chosen: Steps) -> None:
    hashes = {trio.run(history, chosen, TIMES_US, fast)[0] for fast in (FAST, SINGLE_CALLS, REQUESTS)}
    assert len(hashes) == 1


def test_answered_requests_leave_no_call_that_is_never_due() -> None:
    async def planned() -> list[int]:
        async with Cluster(nodes=2) as cluster:
            for image in ("a", "b"):
                container = {"name": "app", "image": image}
                template = {**POD, "spec": {"containers": [container]}}
                cluster.apply({**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "template": template}})
                await cluster.run_for("20s")
            return [call[0] for calls in cluster.kernel._later.values() for call in calls]

    assert max(trio.run(planned)) < NEVER_US
