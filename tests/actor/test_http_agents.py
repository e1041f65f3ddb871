"""Servers of nodes' agents through the proxy of the API server: pages, streams, access, and ends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from math import inf
from typing import Any

import httpx
import pytest
import trio
import trio.testing

from actors.node.programs.process import Process
from actors.node.programs.waits import Main, Wait
from actors.node.runtime.interpreter import Interpreter
from actors.node.server import server as agent_server
from sim.app.cluster import Cluster
from sim.app.plain_plan import plain_nodes
from sim.kernel.network import Rule
from sim.scenario.plan.plan import ClusterPlan
from sim.units import SECOND
from tests.actor.test_http import PODS, opened, served
from tests.actor.test_http_exec import V4, echo, messages
from tests.actor.test_http_streams import output

pytestmark = [pytest.mark.usefixtures("each_front"), pytest.mark.slow]
PROXY = "/api/v1/nodes/node-0/proxy"


def stay(process: Process) -> Main:
    """Run for an hour."""
    until_us = process.now_us + 3600 * SECOND
    while process.now_us < until_us:
        yield Wait(until_us=until_us)
    return 0


PROGRAMS = Interpreter({"echo": echo, "stay": stay})


@asynccontextmanager
async def running(**flags: Any) -> AsyncIterator[tuple[Cluster, httpx.AsyncClient]]:
    """A served cluster with pod p; time is paused.  flags: of the agent"""
    plan = ClusterPlan(naming="kubernetes", nodes=(replace(plain_nodes(1)[0], flags=flags),))
    async with served(plan=plan) as (cluster, client):
        cluster.kernel.set_rate(inf)
        await cluster.run_until("5s")
        cluster.nodes["node-0"].machine.interpreter = PROGRAMS
        spec = {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 1}
        await client.post(PODS, json={"metadata": {"name": "p"}, "spec": spec})
        await cluster.run_until("30s")
        yield cluster, client


async def test_pages_of_an_agent_are_read_through_the_api_server() -> None:
    async with running() as (_, client):
        pods = await client.get(f"{PROXY}/pods")
        assert (pods.status_code, pods.headers["content-type"]) == (200, "application/json")
        assert [pod["metadata"]["name"] for pod in pods.json()["items"]] == ["p"]
        summary = (await client.get(f"{PROXY}/stats/summary?only_cpu_and_memory=true")).json()
        assert summary["pods"][0]["podRef"]["name"] == "p"
        assert (
            "# TYPE node_cpu_usage_seconds_total counter"
            in (await client.get(f"{PROXY}/metrics/resource")).text
        )
        missing = await client.get(f"{PROXY}/containerLogs/default/x/c")
        assert (missing.status_code, missing.text) == (404, 'pod "x" does not exist')
        assert (await client.put(f"{PROXY}/debug/flags/v", content=b"4")).text.endswith("to 4\n")
        links = (await client.get(f"{PROXY}/logs/")).text
        assert '<a href="pods/">pods/</a>' in links


async def test_commands_run_and_stream_through_the_proxy_of_a_node() -> None:
    async with running() as (_, client):
        path = f"{PROXY}/exec/default/p/c?command=echo&input=1&output=1&error=1"
        async with opened(client, path, subprotocols=[V4]) as socket:
            await socket.send_message(b"\x00hello")
            while (await socket.get_message()) != b"\x01hello":
                pass
        plain = await client.post(f"{PROXY}/exec/default/p/c?command=echo&output=1")
        assert (plain.status_code, plain.text) == (500, "Upgrade request required\n")
        absent = await client.post(f"{PROXY}/run/default/p/c?cmd=absent")
        assert absent.status_code == 500
        assert "executable file not found in $PATH" in absent.text


async def test_ports_logs_and_attachments_stream_through_the_proxy_of_a_node() -> None:
    async with running() as (cluster, client):
        async with opened(client, f"{PROXY}/portForward/default/p?port=80", subprotocols=[V4]) as socket:
            first = [await socket.get_message() for _ in range(3)]
            assert first[:2] == [b"\x00\x50\x00", b"\x01\x50\x00"]
            assert b"127.0.0.1:80: connect: connection refused" in bytes(first[2])
        log = output(cluster)
        async with (
            client.stream("GET", f"{PROXY}/containerLogs/default/p/c?follow=true&tailLines=0") as answer,
            opened(client, f"{PROXY}/attach/default/p/c?output=1", subprotocols=[V4]) as socket,
        ):
            assert answer.status_code == 200
            log.take("stdout", b"new\n", cluster.kernel.now_us)
            await cluster.run_until("35s")
            parts = answer.aiter_text()
            assert await anext(parts) == "new\n"
            with trio.fail_after(30):
                while await socket.get_message() != b"\x01new\n":
                    pass
            await client.delete(f"{PODS}/p")
            await cluster.run_until("60s")
            assert [part async for part in parts] == []
            await messages(socket)


async def test_the_end_of_an_agent_ends_what_it_serves() -> None:
    async with running() as (cluster, client), trio.open_nursery() as nursery:
        found: list[httpx.Response] = []

        async def run() -> None:
            found.append(await client.post(f"{PROXY}/run/default/p/c?cmd=stay"))

        path = f"{PROXY}/exec/default/p/c?command=stay&output=1"
        async with opened(client, path, subprotocols=[V4]) as socket:
            nursery.start_soon(run)
            server = agent_server.server_of(cluster.nodes["node-0"].machine.agent)
            while not server.waiting:
                await trio.lowlevel.checkpoint()
            cluster.nodes["node-0"].crash_agent()
            await cluster.run_until("31s")
            assert await messages(socket) == [b"\x01"]
        with trio.fail_after(30):
            while not found:
                await trio.lowlevel.checkpoint()
        assert found[0].status_code == 503
        assert "error trying to reach service: EOF" in found[0].text
        dead = await client.get(f"{PROXY}/healthz")
        assert dead.status_code == 503
        assert "connect: connection refused" in dead.text


async def test_no_stream_of_a_proxy_outlives_its_pod() -> None:
    async with running() as (cluster, client):
        path = f"{PROXY}/exec/default/p/c?command=stay&output=1"
        async with opened(client, path, subprotocols=[V4]) as socket:
            await client.delete(f"{PODS}/p")
            await cluster.run_until("60s")
            last = (await messages(socket))[-1]
            assert isinstance(last, bytes)
            assert b"exit code 137" in last


async def test_a_cut_link_or_a_hung_agent_holds_up_a_request_for_a_time() -> None:
    async with running() as (cluster, client), trio.open_nursery() as nursery:
        found: list[httpx.Response] = []

        async def read(path: str) -> None:
            found.append(await client.get(path, timeout=60))

        node = cluster.nodes["node-0"]
        node.hang()
        nursery.start_soon(read, f"{PROXY}/healthz")
        await trio.testing.wait_all_tasks_blocked(0.05)
        await cluster.run_until("35s")
        assert not found
        node.resume()
        await cluster.run_until("36s")
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert [one.text for one in found] == ["ok"]
        cluster.kernel.network.impose(Rule("cut", frozenset({"node-0"}), None, cut=True))
        nursery.start_soon(read, f"{PROXY}/healthz")
        await trio.testing.wait_all_tasks_blocked(0.05)
        await cluster.run_until("70s")
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert found[1].status_code == 503
        assert "i/o timeout" in found[1].text


@pytest.mark.parametrize("ca", ["", "/etc/ca.crt"])
async def test_api_servers_are_let_in_by_their_certificate(ca: str) -> None:
    flags = {"authorization-mode": "Webhook", "client-ca-file": ca}
    async with running(**flags) as (cluster, client), trio.open_nursery() as nursery:
        codes: list[tuple[int, str]] = []

        async def read(path: str) -> None:
            found = await client.get(path)
            codes.append((found.status_code, found.text))

        nursery.start_soon(read, f"{PROXY}/healthz")
        nursery.start_soon(read, f"{PODS}/p/log")
        with trio.fail_after(30):
            while len(codes) < 2:
                await cluster.run_for("1s")
        if ca:
            assert sorted(codes) == [(200, ""), (200, "ok")]
        else:
            about = "(user=system:anonymous, verb=get, resource=nodes, subresource=proxy)"
            assert (403, f"Forbidden {about}") in codes
            assert not any(code == 200 for code, _ in codes)


async def test_commands_without_an_end_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_server, "RUNS_MAX", 2)
    async with running() as (cluster, client), trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(client.post, f"{PROXY}/run/default/p/c?cmd=stay")
        server = agent_server.server_of(cluster.nodes["node-0"].machine.agent)
        with trio.fail_after(30):
            while server.waiting < 2:
                await trio.lowlevel.checkpoint()
        refused = await client.post(f"{PROXY}/run/default/p/c?cmd=stay")
        assert refused.status_code == 429
        nursery.cancel_scope.cancel()
