"""Tokens of pods' service accounts: requested, refreshed after 80 % of their time, and over."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from actors.node.pods.launch import _ask
from sim.app.cluster import Cluster
from sim.app.plain_plan import plain_nodes
from sim.scenario.plan.plan import CertificatePlan, ClusterPlan, ComponentPlan
from sim.units import MINUTE, SECOND

pytestmark = pytest.mark.slow
TOKENS = "/var/run/secrets/tokens"


def plan(pod_tokens: bool = True, agents_us: int = 0, **flags: Any) -> ClusterPlan:
    nodes = tuple(replace(node, flags={}) for node in plain_nodes(1))
    server = ComponentPlan(flags=flags)
    certificates = CertificatePlan(agents_us=agents_us, pod_tokens=pod_tokens)
    return ClusterPlan(nodes=nodes, api_server=server, certificates=certificates)


def pod(seconds: int = 600) -> dict[str, Any]:
    """A pod with a simulated program and a token of its own that lives so long."""
    script = "while true; do sleep 10; done"
    source = {"serviceAccountToken": {"path": "token", "expirationSeconds": seconds}}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
        "spec": {
            "automountServiceAccountToken": False,
            "volumes": [{"name": "t", "projected": {"sources": [source]}}],
            "containers": [{
                "name": "c", "image": "busybox", "command": ["sh", "-c", script],
                "volumeMounts": [{"name": "t", "mountPath": TOKENS}],
            }],
        },
    }  # fmt: skip


def worker(cluster: Cluster) -> Any:
    agent = cluster.nodes["node-0"].machine.agent
    assert agent is not None
    return next(each for each in agent.workers.values() if each.pod["metadata"]["name"] == "web")


def token(cluster: Cluster) -> str:
    """What the file of the container holds."""
    programs = cluster.nodes["node-0"].machine.programs[worker(cluster).uid]
    (running,) = programs.held.values()
    return bytes(running.launch.surroundings.files.read(f"{TOKENS}/token")).decode()


async def code(cluster: Cluster) -> int:
    """The answer to a request of a program."""
    answer = _ask(worker(cluster), "get", "pods", "default", "web")
    await cluster.run_for("1s")
    assert answer.reply is not None
    return int(answer.reply.code)


async def test_token_is_refreshed_between_eighty_percent_and_the_next_sync() -> None:
    async with Cluster(plan()) as cluster:
        cluster.apply(pod())
        await cluster.run_for("30s")
        first, begun_us = token(cluster), cluster.kernel.now_us
        await cluster.run_until("7m50s")
        assert token(cluster) == first
        while token(cluster) == first:
            await cluster.run_for("5s")
        # 480 s, and at most 90 s until the volumes are looked at.
        assert 470 * SECOND <= cluster.kernel.now_us - begun_us + 30 * SECOND <= 585 * SECOND
        assert await code(cluster) == 403  # known, without rights
        await cluster.run_until("60m")
        assert await code(cluster) == 403


@pytest.mark.parametrize(("seconds", "extends", "expected"), [(600, "true", 401), (3607, "true", 403)])
async def test_program_gets_401_when_its_token_is_over(seconds: int, extends: str, expected: int) -> None:
    """The agent cannot refresh it, since its own certificate is over."""
    flags = {"service-account-extend-token-expiration": extends}
    async with Cluster(plan(agents_us=20 * MINUTE, **flags)) as cluster:
        cluster.apply(pod(seconds))
        await cluster.run_until("19m")
        assert await code(cluster) == 403
        await cluster.run_until("31m30s")
        assert await code(cluster) == expected


async def test_token_of_an_hour_is_over_if_servers_do_not_extend_it() -> None:
    flags = {"service-account-extend-token-expiration": "false"}
    async with Cluster(plan(agents_us=20 * MINUTE, **flags)) as cluster:
        cluster.apply(pod(3607))
        await cluster.run_until("60m")
        assert await code(cluster) == 403
        await cluster.run_until("63m")
        assert await code(cluster) == 401


async def test_without_the_setting_no_token_is_requested() -> None:
    async with Cluster(plan(pod_tokens=False)) as cluster:
        cluster.apply(pod())
        await cluster.run_for("30s")
        assert cluster.nodes["node-0"].machine.programs[worker(cluster).uid].tokens == {}
        assert await code(cluster) == 403
