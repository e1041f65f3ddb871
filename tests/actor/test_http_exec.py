"""Commands in containers over WebSocket and SPDY: channels, exit codes, input, terminals, refusals."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
import trio
from trio_websocket import ConnectionClosed, ConnectionRejected, WebSocketConnection

from actors.node.programs.ends import receive, send
from actors.node.programs.process import Process, Signal
from actors.node.programs.waits import Main, Wait
from actors.node.runtime.interpreter import Interpreter
from actors.node.server import sessions
from sim.app.cluster import Cluster
from sim.errors import first_of
from sim.options.node.agent import parse_node_agent
from sim.units import SECOND
from sim.wire.spdy.frames import Frame, Kind, Reader, Writer
from tests.actor.test_http import PODS, opened, served
from tests.actor.test_http_streams import output

pytestmark = [pytest.mark.usefixtures("each_front"), pytest.mark.slow]
V4, V5 = "v4.channel.k8s.io", "v5.channel.k8s.io"
FAILURE = {
    "metadata": {},
    "status": "Failure",
    "message": "command terminated with non-zero exit code: error executing command [both], exit code 3",
    "reason": "NonZeroExitCode",
    "details": {"causes": [{"reason": "ExitCode", "message": "3"}]},
}


def echo(process: Process) -> Main:
    """Write what is read, up to the end."""
    while data := (yield from receive(process.ends[0])):
        yield from send(process.ends[1], data)
    return 0


def both(process: Process) -> Main:
    yield from send(process.ends[1], b"out")
    yield from send(process.ends[2], b"err")
    return 3


def stay(process: Process) -> Main:
    """Run until SIGINT."""
    process.caught.add(Signal.INT)
    while Signal.INT not in process.pending:
        yield Wait()
    return 7


def flood(process: Process) -> Main:
    """Write for ever."""
    while True:
        yield from send(process.ends[1], b"x" * 1024)


def later(process: Process) -> Main:
    """Write a line after a minute."""
    until_us = process.now_us + 60 * SECOND
    while process.now_us < until_us:
        yield Wait(until_us=until_us)
    yield from send(process.ends[1], b"later\n")
    return 0


PROGRAMS = Interpreter({"later": later, "echo": echo, "both": both, "stay": stay, "flood": flood})


@asynccontextmanager
async def running(
    context: ssl.SSLContext | None = None, **fields: Any
) -> AsyncIterator[tuple[Cluster, httpx.AsyncClient]]:
    """A served cluster with pod p, which runs without processes; time is paused.

    fields: of its container
    """
    async with served(nodes=1, context=context) as (cluster, client):
        cluster.kernel.set_rate(float("inf"))
        await cluster.run_until("5s")
        cluster.nodes["node-0"].machine.interpreter = PROGRAMS
        spec = {"containers": [{"name": "c", "image": "i", **fields}], "terminationGracePeriodSeconds": 1}
        await client.post(PODS, json={"metadata": {"name": "p"}, "spec": spec})
        await cluster.run_until("30s")
        yield cluster, client


def path(*words: str, sub: str = "exec", **options: bool) -> str:
    given = {"stdout": True, "stderr": True, **options}
    pairs = [("command", word) for word in words] + [
        (key, str(value).lower()) for key, value in given.items()
    ]
    return f"{PODS}/p/{sub}?{urlencode(pairs)}"


async def messages(socket: WebSocketConnection) -> list[bytes | str]:
    """All messages up to the end of the connection."""
    found = []
    with trio.fail_after(30):
        try:
            while True:
                found.append(await socket.get_message())
        except ConnectionClosed as closed:
            assert closed.reason is not None and closed.reason.code == 1000
    return found


async def test_a_command_has_its_channels_and_a_status_at_its_end() -> None:
    async with running() as (_, client):
        async with opened(client, path("both"), subprotocols=[V4]) as socket:
            assert socket.subprotocol == V4
            *first, last = await messages(socket)
        assert first == [b"\x01", b"\x01out", b"\x02err"]
        assert isinstance(last, bytes) and last[:1] == b"\x03"
        assert json.loads(last[1:]) == FAILURE
        async with opened(client, path("both"), subprotocols=["base64.channel.k8s.io"]) as socket:
            found = await messages(socket)
        assert found[:3] == ["1", "1b3V0", "2ZXJy"] and str(found[3]).startswith("3Y29tbWFuZCB0")


async def test_an_input_reaches_a_command_and_ends() -> None:
    async with running() as (_, client):
        wanted = path("echo", stdin=True, stderr=False)
        async with opened(client, wanted, subprotocols=[V5, V4]) as socket:
            assert socket.subprotocol == V5
            assert await socket.get_message() == b"\x01"
            size = 300_000
            await socket.send_message(b"\x00" + b"y" * size)
            held = 0
            while held < size:
                held += len(await socket.get_message()) - 1
            await socket.send_message(b"\xff\x00")
            assert await messages(socket) == [b'\x03{"metadata":{},"status":"Success"}']
            assert held == size


async def test_a_terminal_echoes_and_interrupts() -> None:
    async with running() as (_, client):
        wanted = path("stay", stdin=True, tty=True)
        async with opened(client, wanted, subprotocols=[V4]) as socket:
            await socket.send_message(b'\x04{"Width":80,"Height":24}')
            await socket.send_message(b"\x00a\r\x03")
            found = await messages(socket)
        shown = b"".join(each[1:] for each in found if isinstance(each, bytes) and each[:1] == b"\x01")
        assert shown == b"a\r\n^C"
        assert json.loads(bytes(found[-1])[1:])["details"]["causes"][0]["message"] == "7"


async def test_a_command_that_is_not_in_the_image_is_an_error_of_the_runtime() -> None:
    async with running() as (_, client):
        async with opened(client, path("nope"), subprotocols=[V4]) as socket:
            last = json.loads(bytes((await messages(socket))[-1])[1:])
        assert last["reason"] == "InternalError" and last["code"] == 500
        assert last["message"].endswith('exec: "nope": executable file not found in $PATH: unknown')


async def refused(client: httpx.AsyncClient, wanted: str, *protocols: str) -> int:
    try:
        async with opened(client, wanted, subprotocols=protocols):
            return 101
    except* ConnectionRejected as rejected:
        found = first_of(rejected).status_code
    return found


async def test_what_the_agent_refuses_precedes_the_change_of_the_protocol() -> None:
    async with running() as (cluster, client):
        assert await refused(client, path("both"), "v9.channel.k8s.io") == 403
        assert await refused(client, path("both", stdout=False, stderr=False), V4) == 400
        headers = {"Connection": "Upgrade", "Upgrade": "odd/1"}
        odd = await client.post(path("both"), headers=headers)
        assert (odd.status_code, odd.text) == (400, "unable to upgrade: missing upgrade headers in request\n")
        headers = {
            "Connection": "Upgrade",
            "Upgrade": "SPDY/3.1",
            "X-Stream-Protocol-Version": "v9.channel.k8s.io",
        }
        old = await client.post(path("both"), headers=headers)
        assert old.status_code == 403 and "client supports [v9.channel.k8s.io]" in old.text
        cluster.nodes["node-0"].machine.agent.workers.clear()
        gone = await client.post(path("both"), headers=headers)
        assert (gone.status_code, gone.text) == (404, "pod does not exist")


async def test_a_stream_ends_with_its_pod() -> None:
    async with running() as (cluster, client):
        async with opened(client, path("stay"), subprotocols=[V4]) as socket:
            assert await socket.get_message() == b"\x01"
            await client.delete(f"{PODS}/p")
            await cluster.run_until("60s")
            last = json.loads(bytes((await messages(socket))[-1])[1:])
        assert last["details"]["causes"][0]["message"] == "137"
        assert not cluster.nodes["node-0"].machine.agent.sessions.peers


async def test_endless_output_waits_for_a_client_that_does_not_read() -> None:
    async with running() as (cluster, client), opened(client, path("flood"), subprotocols=[V4]):
        await cluster.run_until("60s")
        [peer] = cluster.nodes["node-0"].machine.agent.sessions.peers
        assert peer.free == 0


class Spdy:
    """A client of SPDY/3.1."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.writer, self._reader = Writer(), Reader()

    async def switch(self, wanted: str, protocol: str) -> bytes:
        """Ask for the protocol; returns the head of the answer."""
        head = (
            f"POST {wanted} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer root\r\nConnection: Upgrade\r\n"
            f"Upgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: {protocol}\r\nContent-Length: 0\r\n\r\n"
        )
        await self.stream.send_all(head.encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += await self.stream.receive_some()
        head_bytes, _, self._early = answer.partition(b"\r\n\r\n")
        return head_bytes

    async def frames(self) -> list[Frame]:
        """All frames up to the end of the connection."""
        found = list(self._reader.feed(self._early))
        with trio.fail_after(30):
            while data := await self.stream.receive_some():
                found += self._reader.feed(data)
        return found


@asynccontextmanager
async def spdy(client: httpx.AsyncClient) -> AsyncIterator[Spdy]:
    async with await trio.open_tcp_stream("127.0.0.1", client.base_url.port or 0) as stream:
        yield Spdy(stream)


async def test_a_command_over_spdy_has_a_stream_for_each_channel() -> None:
    async with running() as (_, client), spdy(client) as wire:
        head = await wire.switch(path("both"), V4)
        assert head.startswith(b"HTTP/1.1 101") and b"X-Stream-Protocol-Version: " + V4.encode() in head
        for number, kind in ((1, "error"), (3, "stdout"), (5, "stderr")):
            await wire.stream.send_all(wire.writer.begin(number, {"streamtype": kind}))
        frames = await wire.frames()
        said = dict.fromkeys((1, 3, 5), b"")
        for frame in frames:
            if frame.kind is Kind.DATA:
                said[frame.stream] += frame.data
        assert (json.loads(said[1]), said[3], said[5]) == (FAILURE, b"out", b"err")
        assert [frame.kind for frame in frames].count(Kind.SYN_REPLY) == 3


async def test_input_over_spdy_ends_with_its_stream() -> None:
    async with running() as (_, client), spdy(client) as wire:
        await wire.switch(path("echo", stdin=True, stderr=False), V4)
        for number, kind in ((1, "error"), (3, "stdin"), (5, "stdout")):
            await wire.stream.send_all(wire.writer.begin(number, {"streamtype": kind}))
        await wire.stream.send_all(wire.writer.data(3, b"hello") + wire.writer.data(3, b"", fin=True))
        frames = await wire.frames()
        assert (
            b"".join(frame.data for frame in frames if frame.kind is Kind.DATA and frame.stream == 5)
            == b"hello"
        )


async def test_a_connection_to_a_port_on_which_nothing_listens_is_an_error() -> None:
    async with running() as (_, client):
        wanted = f"{PODS}/p/portforward?ports=80"
        async with opened(client, wanted, subprotocols=[V4]) as socket:
            first = [await socket.get_message() for _ in range(3)]
        assert first[:2] == [b"\x00\x50\x00", b"\x01\x50\x00"]
        assert b"127.0.0.1:80: connect: connection refused" in bytes(first[2])
        async with spdy(client) as wire:
            await wire.switch(f"{PODS}/p/portforward", "portforward.k8s.io")
            for number, kind in ((1, "error"), (3, "data")):
                headers = {"streamtype": kind, "port": "80", "requestid": "0"}
                await wire.stream.send_all(wire.writer.begin(number, headers))
            found = list[Frame]()
            reader = Reader()
            with trio.fail_after(30):
                while not any(frame.kind is Kind.DATA and frame.data for frame in found):
                    found += reader.feed(wire._early or await wire.stream.receive_some())
                    wire._early = b""
        [text] = [frame.data for frame in found if frame.kind is Kind.DATA and frame.data]
        assert text.startswith(b"error forwarding port 80 to pod ")


async def test_an_attached_client_sees_what_a_container_writes_from_now_on() -> None:
    async with running() as (cluster, client):
        log = output(cluster)
        log.take("stdout", b"before\n", cluster.kernel.now_us)
        async with opened(client, path(sub="attach"), subprotocols=[V4]) as socket:
            assert await socket.get_message() == b"\x01"
            log.take("stderr", b"after\n", cluster.kernel.now_us)
            await cluster.run_until("40s")
            assert await socket.get_message() == b"\x02after\n"
            await client.delete(f"{PODS}/p")
            await cluster.run_until("60s")
            assert await messages(socket) == [b'\x03{"metadata":{},"status":"Success"}']


@pytest.mark.parametrize("once", [True, False])
async def test_an_attached_client_writes_to_the_input_which_ends_with_it_if_so_stated(once: bool) -> None:
    async with running(command=["echo"], stdin=True, stdinOnce=once) as (cluster, client):
        wanted = path(sub="attach", stdin=True)
        for expected in (b"\x01hello", b"\x01again"):
            async with opened(client, wanted, subprotocols=[V4]) as socket:
                assert await socket.get_message() == b"\x01"
                await socket.send_message(b"\x00" + expected[1:])
                with trio.fail_after(20):
                    assert await socket.get_message() == expected
            with trio.fail_after(20):  # the server has to notice the end of the connection
                while once and not output(cluster).ended:
                    await trio.lowlevel.checkpoint()
                    await cluster.run_until(f"{cluster.kernel.now_us + 100_000}us")
            if once:
                break
        assert output(cluster).ended is once


async def test_an_ephemeral_container_of_a_running_pod_is_attached_to() -> None:
    async with running() as (cluster, client):
        debugger = {"name": "d", "image": "i", "command": ["echo"], "stdin": True, "tty": True}
        patch = {"spec": {"ephemeralContainers": [debugger]}}
        headers = {"Content-Type": "application/strategic-merge-patch+json"}
        made = await client.patch(f"{PODS}/p/ephemeralcontainers", json=patch, headers=headers)
        assert made.status_code == 200, made.text
        await cluster.run_until("50s")
        wanted = f"{path(sub='attach', stdin=True)}&container=d"
        async with opened(client, wanted, subprotocols=[V4]) as socket:
            await socket.send_message(b"\x00hi\r\x04")
            shown = b""
            with trio.fail_after(20):
                while not shown.endswith(b"hi\r\nhi\r\n"):
                    shown += bytes(await socket.get_message())[1:]


@pytest.mark.parametrize(("given", "ends"), [("30m", True), ("2h", False), ("0", False)])
async def test_an_idle_stream_ends_after_the_time_of_its_option(given: str, ends: bool) -> None:
    async with running() as (cluster, client):
        agent = cluster.nodes["node-0"].machine.agent
        agent.options = parse_node_agent({"streaming-connection-idle-timeout": given})
        async with opened(client, path("stay"), subprotocols=[V4]) as socket:
            assert await socket.get_message() == b"\x01"
            async with client.stream("GET", f"{PODS}/p/log?follow=true"):
                await cluster.run_until("31m")
                assert len(agent.sessions.peers) == (1 if ends else 2)


async def test_a_stream_to_ports_ends_with_the_sandbox_of_its_pod() -> None:
    wanted = f"{PODS}/p/portforward?ports=80"
    async with running() as (cluster, client), opened(client, wanted, subprotocols=[V4]) as socket:
        assert await socket.get_message() == b"\x00\x50\x00"
        await client.delete(f"{PODS}/p")
        await cluster.run_until("60s")
        assert (await messages(socket))[0] == b"\x01\x50\x00"


async def test_an_agent_without_debugging_handlers_opens_no_stream() -> None:
    async with running() as (cluster, client):
        cluster.options.nodes["node-0"] = parse_node_agent({"enable-debugging-handlers": False})
        found = await client.post(path("both"), headers={"Connection": "Upgrade", "Upgrade": "SPDY/3.1"})
        assert (found.status_code, found.text) == (405, "Debug endpoints are disabled.\n")


async def test_streams_of_an_agent_are_bounded_and_idle_ones_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 1)
    async with running() as (cluster, client), opened(client, path("stay"), subprotocols=[V4]) as socket:
        assert await socket.get_message() == b"\x01"
        assert await refused(client, path("stay"), V4) == 429
        await cluster.run_until("4h1m")
        assert await messages(socket) == []
        async with opened(client, path("both"), subprotocols=[V4]) as other:
            assert len(await messages(other)) == 4


async def test_the_end_of_an_agent_or_of_an_api_server_ends_a_watched_command() -> None:
    for process in ("node-0", "apiserver-0"):
        async with running() as (cluster, client), opened(client, path("stay"), subprotocols=[V4]) as socket:
            assert await socket.get_message() == b"\x01"
            if process == "node-0":
                cluster.nodes[process].crash_agent()
            else:
                cluster.supervisor[process].crash()
            await cluster.run_until("31s")
            assert await messages(socket) == []


async def test_a_replay_of_a_journal_does_the_same_work_of_commands() -> None:
    async with running() as (cluster, client):
        async with opened(client, path("echo", stdin=True), subprotocols=[V5]) as socket:
            await socket.send_message(b"\x00hello")
            assert [await socket.get_message() for _ in range(2)] == [b"\x01", b"\x01hello"]
            await socket.send_message(b"\xff\x00")
            await messages(socket)
        journal = list(cluster.kernel.gate.journal)
        table = cluster.nodes["node-0"].machine.programs
        [held] = table.values()
        pids = held.table.processes[0].pid, len(held.table.processes)
    assert [one.name for one in journal if one.name.startswith("stream")] == ["stream-put", "stream-put"]
    async with served(nodes=1, replay=journal) as (cluster, _):
        cluster.kernel.set_rate(float("inf"))
        cluster.nodes["node-0"].machine.interpreter = PROGRAMS
        await cluster.run_until("30s")
        [held] = cluster.nodes["node-0"].machine.programs.values()
        assert (held.table.processes[0].pid, len(held.table.processes)) == pids
