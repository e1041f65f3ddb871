"""Streams to containers over HTTP: logs that are followed, and how streams end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
import trio
import trio.testing

from actors.node.runtime.log.output import ContainerLog
from sim.app.cluster import Cluster
from sim.kernel.network import Rule
from tests.actor.test_http import PODS, served

LOG = f"{PODS}/p/log"
pytestmark = [pytest.mark.usefixtures("each_front"), pytest.mark.slow]


@asynccontextmanager
async def running(
    command: str = "echo hello; sleep 1000",
) -> AsyncIterator[tuple[Cluster, httpx.AsyncClient]]:
    """A served cluster with a node, on which pod p runs; time is paused."""
    async with served(nodes=1) as (cluster, client):
        cluster.kernel.set_rate(float("inf"))
        await cluster.run_until("5s")
        container = {"name": "c", "image": "i", "command": ["sh", "-c", command]}
        spec = {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 0}
        await client.post(PODS, json={"metadata": {"name": "p"}, "spec": spec})
        await cluster.run_until("30s")
        yield cluster, client


def output(cluster: Cluster) -> ContainerLog:
    """What the container has written, and what a test writes besides."""
    machine = cluster.nodes["node-0"].machine
    [pod] = [each for each in machine.pods.values() if each.key == "default/p"]
    [container] = pod.containers
    log = machine.output_of(container)
    if log is None:
        log = ContainerLog()
        machine.keep_output(container, log)
    return log


async def test_a_followed_log_shows_old_and_new_lines_and_ends_with_its_container() -> None:
    async with running() as (cluster, client):
        log = output(cluster)
        before = (await client.get(LOG)).text
        async with client.stream("GET", f"{LOG}?follow=true") as answer:
            assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/plain")
            parts = answer.aiter_text()
            assert await anext(parts) == before
            log.take("stdout", b"new\n", cluster.kernel.now_us)
            await cluster.run_until("40s")
            assert await anext(parts) == "new\n"
            await client.delete(f"{PODS}/p")
            await cluster.run_until("50s")
            with trio.fail_after(20):
                assert [part async for part in parts] == []


async def test_a_log_that_is_followed_ends_when_its_client_or_an_agent_goes() -> None:
    async with running() as (cluster, client):
        agent = cluster.nodes["node-0"].machine.agent
        async with client.stream("GET", f"{LOG}?follow=true"):
            assert len(agent.sessions.peers) == 1
        with trio.fail_after(20):  # the server has to notice the end of the connection
            while agent.sessions.peers:
                await cluster.run_for("1s")
        async with client.stream("GET", f"{LOG}?follow=true&tailLines=0") as answer:
            cluster.nodes["node-0"].crash_agent()
            await cluster.run_for("1s")
            with trio.fail_after(20):
                assert await answer.aread() == b""


async def test_a_log_beyond_a_partition_fails_after_the_time_of_a_dial() -> None:
    async with running() as (cluster, client):
        hosts = frozenset({"node-0"})
        cluster.kernel.network.impose(Rule("cut", hosts, None, cut=True))
        answers = []

        async def ask() -> None:
            answers.append(await client.get(f"{LOG}?follow=true", timeout=60))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked(0.05)
            await cluster.run_until("61s")
        assert answers[0].status_code == 500
        assert answers[0].json()["message"].endswith(":10250: i/o timeout")


async def test_a_partition_that_lasts_ends_a_stream() -> None:
    path = f"{LOG}?follow=true&tailLines=0"
    async with running() as (cluster, client), client.stream("GET", path) as answer:
        cluster.kernel.network.impose(Rule("cut", frozenset({"node-0"}), None, cut=True))
        await cluster.run_until("400s")
        with trio.fail_after(20):
            assert await answer.aread() == b""


async def test_a_client_that_does_not_read_holds_back_a_log_within_a_window() -> None:
    async with running() as (cluster, client):
        log = output(cluster)
        async with client.stream("GET", f"{LOG}?follow=true&tailLines=0") as answer:
            for _ in range(600):
                log.take("stdout", b"x" * 9_999 + b"\n", cluster.kernel.now_us)
            await cluster.run_until("40s")
            [peer] = cluster.nodes["node-0"].machine.agent.sessions.peers
            assert peer.free < 300_000
            size, parts = 0, answer.aiter_bytes()
            with trio.fail_after(60):
                while size < 6_000_000:
                    size += len(await anext(parts))
                    await cluster.run_until(f"{cluster.kernel.now_us + 1000}us")
            await client.delete(f"{PODS}/p")
            await cluster.run_until(f"{cluster.kernel.now_us + 10_000_000}us")
            assert (size, [part async for part in parts]) == (6_000_000, [])
