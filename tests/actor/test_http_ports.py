"""Connections to ports of pods over WebSocket and SPDY: data both ways, half-closed ones, ends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager

import httpx
import pytest
import trio
from trio_websocket import ConnectionClosed

from actors.node.programs.ends import receive, send
from actors.node.programs.network.sockets import STAND_IN, Connection
from actors.node.programs.network.tasks import Tasks
from actors.node.programs.process import Process
from actors.node.programs.waits import Main, Wait
from actors.node.runtime.interpreter import Interpreter
from actors.node.server import ports
from sim.app.cluster import Cluster
from sim.wire.spdy.frames import Frame, Kind, Reader
from tests.actor.test_http import PODS, opened, served
from tests.actor.test_http_exec import V4 as COMMAND
from tests.actor.test_http_exec import Spdy, messages, path, running, spdy

pytestmark = [pytest.mark.usefixtures("each_front"), pytest.mark.slow]
V4, SPDY = "v4.channel.k8s.io", "portforward.k8s.io"
PORTS = f"{PODS}/p/portforward"
Steps = Generator[Wait, None, None]


def shout(process: Process) -> Main:
    """Answer in capitals at port 80; say one line at port 81 and close; break at port 82."""
    tasks = Tasks(process)

    def capitals(connection: Connection) -> Steps:
        while data := (yield from receive(connection)):
            yield from send(connection, data.upper())

    def line(connection: Connection) -> Steps:
        yield from send(connection, b"bye\n")

    def broken(connection: Connection) -> Steps:
        yield from receive(connection)
        connection.reset()

    for port, serve in ((80, capitals), (81, line), (82, broken)):
        tasks.listen(port, serve)
    return (yield from tasks.run())


@asynccontextmanager
async def shouting() -> AsyncIterator[tuple[Cluster, httpx.AsyncClient]]:
    """A served cluster with pod p, which serves its ports; time is paused."""
    async with served(nodes=1) as (cluster, client):
        cluster.kernel.set_rate(float("inf"))
        await cluster.run_until("5s")
        cluster.nodes["node-0"].machine.interpreter = Interpreter({"shout": shout})
        spec = {"containers": [{"name": "c", "image": "i", "command": ["shout"]}]}
        await client.post(PODS, json={"metadata": {"name": "p"}, "spec": spec})
        await cluster.run_until("30s")
        yield cluster, client


class Ports:
    """Connections to ports over SPDY.  held: stream -> its bytes; ended: the streams that ended"""

    def __init__(self, wire: Spdy) -> None:
        self._wire, self._reader = wire, Reader()
        self.held: dict[int, bytes] = {}
        self.ended: list[int] = []

    async def begin(self, stream: int, port: int) -> None:
        """Begin the streams of errors, `stream`, and of data, the next."""
        for number, kind in ((stream, "error"), (stream + 2, "data")):
            headers = {"streamtype": kind, "port": str(port), "requestid": str(stream)}
            self.held[number] = b""
            await self._wire.stream.send_all(self._wire.writer.begin(number, headers))

    async def say(self, stream: int, data: bytes, *, fin: bool = False) -> None:
        await self._wire.stream.send_all(self._wire.writer.data(stream, data, fin=fin))

    async def read(self) -> None:
        """Read more frames."""
        frames: list[Frame] = []
        with trio.fail_after(30):
            data, self._wire._early = self._wire._early, b""
            frames += self._reader.feed(data or await self._wire.stream.receive_some())
        for frame in frames:
            if frame.kind is Kind.DATA:
                self.held[frame.stream] += frame.data
                if frame.fin:
                    self.ended.append(frame.stream)

    async def until(self, stream: int, data: bytes) -> None:
        """Read until a stream has these bytes."""
        while self.held[stream] != data:
            await self.read()

    async def until_ended(self, *streams: int) -> None:
        while not set(streams) <= set(self.ended):
            await self.read()


@asynccontextmanager
async def forwarded(client: httpx.AsyncClient) -> AsyncIterator[Ports]:
    async with spdy(client) as wire:
        assert (await wire.switch(PORTS, SPDY)).startswith(b"HTTP/1.1 101")
        yield Ports(wire)


async def test_a_port_carries_data_both_ways_over_websocket() -> None:
    wanted = f"{PORTS}?ports=80,81"
    async with shouting() as (_, client), opened(client, wanted, subprotocols=[V4]) as socket:
        first = [await socket.get_message() for _ in range(5)]
        assert first[:4] == [b"\x00\x50\x00", b"\x01\x50\x00", b"\x02\x51\x00", b"\x03\x51\x00"]
        assert first[4] == b"\x02bye\n"
        await socket.send_message(b"\x00hello")
        with trio.fail_after(20):
            assert await socket.get_message() == b"\x00HELLO"


async def test_a_websocket_ends_with_the_last_of_its_ports() -> None:
    async with (
        shouting() as (cluster, client),
        opened(client, f"{PORTS}?ports=81", subprotocols=[V4]) as socket,
    ):
        assert [await socket.get_message() for _ in range(3)][2] == b"\x00bye\n"
        await cluster.run_until("40s")
        with trio.fail_after(20), pytest.raises(ConnectionClosed):
            await socket.get_message()


async def test_connections_over_spdy_carry_large_data_at_the_same_time() -> None:
    async with shouting() as (_, client), forwarded(client) as found:
        size = 400_000
        for stream in (1, 5):
            await found.begin(stream, 80)

        async def say_both() -> None:
            for stream in (3, 7) * 4:
                await found.say(stream, b"a" * (size // 4))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(say_both)
            await found.until(3, b"A" * size)
            await found.until(7, b"A" * size)
        assert (found.held[1], found.held[5], found.ended) == (b"", b"", [])


async def test_a_half_closed_connection_ends_after_a_second() -> None:
    async with shouting() as (cluster, client), forwarded(client) as found:
        await found.begin(1, 80)
        await found.say(3, b"last", fin=True)
        await found.until(3, b"LAST")
        assert found.ended == []
        await cluster.run_until("32s")
        await found.until_ended(1, 3)
        assert found.held[1] == b""


async def test_a_connection_that_a_program_closes_ends_and_a_broken_one_is_an_error() -> None:
    async with shouting() as (cluster, client), forwarded(client) as found:
        await found.begin(1, 81)
        await found.until(3, b"bye\n")
        await found.begin(5, 82)
        await found.say(7, b"x")
        await found.begin(9, 83)
        await found.until_ended(9, 11)
        await cluster.run_until("32s")
        await found.until_ended(1, 3, 5, 7)
        assert found.held[1] == b""
        assert found.held[5].endswith(b"->127.0.0.1:82: read: connection reset by peer")
        assert b"dial tcp4 127.0.0.1:83: connect: connection refused" in found.held[9]


async def test_a_client_has_a_bounded_number_of_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "CONNECTIONS_MAX", 1)
    async with shouting() as (_, client), forwarded(client) as found:
        await found.begin(1, 80)
        await found.say(3, b"one")
        await found.until(3, b"ONE")
        await found.begin(5, 80)
        await found.until_ended(5, 7)
        assert b"too many open files" in found.held[5]


async def test_connections_to_ports_end_with_the_pod_and_with_the_client() -> None:
    async with shouting() as (cluster, client):
        machine = cluster.nodes["node-0"].machine
        [table] = [programs.table for programs in machine.programs.values()]
        [process] = table.processes
        async with forwarded(client) as found:
            await found.begin(1, 80)
            await found.say(3, b"one")
            await found.until(3, b"ONE")
            held = len(process.ends)
        with trio.fail_after(20):  # the server has to notice the end of the connection
            while len(process.ends) == held:
                await cluster.run_until(f"{cluster.kernel.now_us + 100_000}us")
                await trio.lowlevel.checkpoint()
        async with forwarded(client) as found:
            await found.begin(1, 80)
            await found.say(3, b"one")
            await found.until(3, b"ONE")
            await client.delete(f"{PODS}/p")
            await cluster.run_until("90s")
            await found.until_ended(1, 3)
        assert not machine.agent.sessions.peers


async def test_a_server_that_is_not_simulated_answers_at_its_port_also_after_a_command() -> None:
    async with running(ports=[{"containerPort": 80}]) as (_, client):
        async with opened(client, path("both"), subprotocols=[COMMAND]) as socket:
            await messages(socket)
        async with forwarded(client) as found:
            await found.begin(1, 80)
            await found.say(3, b"GET / HTTP/1.1\r\n\r\n")
            await found.until(3, STAND_IN)
