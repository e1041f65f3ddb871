"""Watches and changed protocols of aggregated APIs, passed on as they come."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import httpx
import trio

from sim.app.cluster import Cluster
from sim.app.serving.serve import served
from sim.kernel import NEVER_US, OutsideRequest
from sim.wire.authority import Authority
from sim.wire.outside.passages import passed_through
from sim.wire.tls import server_context
from tests.cluster.cli.outside_server import ROOT, any_certificate
from tests.cluster.cli.test_api_services import APIS, GROUP, PLAN, api_service, service

FLUNDERS = f"/apis/{GROUP}/v1/flunders"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json;stream=watch\r\nTransfer-Encoding: chunked\r\n\r\n"
)
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %b\r\n\r\n"


class Flunders:
    """A server that speaks bytes.  read: set by the client of a watch; heads: of all requests"""

    def __init__(self) -> None:
        self.read = trio.Event()
        self.closed = trio.Event()
        self.heads: list[bytes] = []

    async def answer(self, stream: trio.SSLStream[trio.SocketStream]) -> None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += bytes(await stream.receive_some(1))
        self.heads.append(head)
        if b"watch=true" in head:
            await stream.send_all(CHUNKED + b"2\r\na\n\r\n")
            await self.read.wait()  # the second event follows once the client has read the first
            await stream.send_all(b"2\r\nb\n\r\n0\r\n\r\n")
        elif b"pgrade: " in head:
            name = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"upgrade: "))
            await stream.send_all(SWITCHED % name[9:])
            while data := bytes(await stream.receive_some(100)):
                await stream.send_all(data.upper())
            self.closed.set()
        elif b"/moved" in head:
            await stream.send_all(b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n")
        else:
            await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nX-Own: 1\r\n\r\n{}\n")


@asynccontextmanager
async def flunders() -> AsyncIterator[tuple[Flunders, str, httpx.AsyncClient]]:
    """The server behind an available APIService of a served cluster, the URL and a client."""
    authority = Authority("outside")
    context = server_context(authority.server(("wardle.default.svc",)), authority.pem)
    context.set_alpn_protocols(["http/1.1"])
    server = Flunders()

    async def handle(stream: trio.SSLStream[trio.SocketStream]) -> None:
        try:
            await server.answer(stream)
        except trio.BrokenResourceError:
            pass
        stream.transport_stream.socket.close()

    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listener.socket.getsockname()[1]
        secured = trio.SSLListener(listener, context, https_compatible=True)
        nursery.start_soon(trio.serve_listeners, handle, [secured])
        cluster, addresses = Cluster(PLAN), {"default/wardle": ("127.0.0.1", port)}
        headers = {"Authorization": "Bearer root"}
        async with (
            cluster,
            served(cluster, None, 2, tokens=ROOT, service_addresses=addresses) as url,
            httpx.AsyncClient(base_url=url, verify=any_certificate(), headers=headers) as client,
        ):
            cluster.kernel.set_goal(NEVER_US)
            await client.post("/api/v1/namespaces/default/services", json=service())
            await client.post(APIS, json=api_service())
            while (await client.get(FLUNDERS)).status_code != 200:
                pass
            yield server, url, client
        nursery.cancel_scope.cancel()


async def switched(url: str, protocol: bytes, more: bytes = b"") -> bytes:
    """What a client of another protocol reads: the head of the answer and what it gets for 8 bytes."""
    parts = urlsplit(url)
    context = any_certificate()
    context.set_alpn_protocols(["http/1.1"])
    tcp = await trio.open_tcp_stream(parts.hostname or "", parts.port or 0)
    stream = trio.SSLStream(tcp, context, server_hostname="localhost", https_compatible=True)
    head = (
        b"GET %b HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer root\r\nConnection: Upgrade\r\n"
        % FLUNDERS.encode()
    )
    await stream.send_all(head + b"Upgrade: %b\r\n%b\r\n" % (protocol, more))
    got = b""
    while not got.endswith(b"\r\n\r\n"):
        got += bytes(await stream.receive_some(1))
    await stream.send_all(b"\x00\xffabcde\r")
    while not got.endswith(b"\r\n\r\n\x00\xffABCDE\r"):
        got += bytes(await stream.receive_some(100))
    tcp.socket.close()
    return got.partition(b"\r\n\r\n")[0]


async def test_answers_of_aggregated_servers_are_passed_on_as_they_come() -> None:
    async with flunders() as (server, url, client):
        async with client.stream("GET", FLUNDERS, params={"watch": "true", "a": "b"}) as watch:
            assert watch.headers["content-type"] == "application/json;stream=watch"
            got = []
            async for line in watch.aiter_lines():
                got.append(line)
                server.read.set()
            assert got == ["a", "b"]
        assert server.heads[-1].startswith(f"GET {FLUNDERS}?a=b&watch=true HTTP/1.1\r\n".encode())
        whole = await client.get(FLUNDERS)
        assert (whole.text, whole.headers["x-own"], whole.headers["content-length"]) == ("{}\n", "1", "3")
        moved = await client.get(f"{FLUNDERS}/moved")
        refused = "the backend attempted to redirect this request, which is not permitted"
        assert (moved.status_code, moved.text) == (502, refused)
        assert (await switched(url, b"SPDY/3.1")).startswith(b"HTTP/1.1 101 Switching Protocols\r\n")
        assert b"upgrade: spdy/3.1\r\n" in server.heads[-1].lower()
        assert b"X-Remote-User: admin\r\n" in server.heads[-1]
        key = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
        await server.closed.wait()
        assert b"Upgrade: websocket" in await switched(url, b"websocket", key)


async def test_server_that_is_not_reached_is_503_with_the_cause() -> None:
    with socket.socket() as bound:  # nothing listens
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        request = OutsideRequest("GET", "https://a.b.svc/x", connect_to=("127.0.0.1", port), verified=False)
        why = f"dial tcp 127.0.0.1:{port}: connect: connection refused"
        for upgrades, what in ((False, "error trying to reach service"), (True, "error dialing backend")):
            answer = await passed_through(request, 5, lambda close: None, upgrades=upgrades)
            assert (answer.code, answer.body) == (503, f"{what}: {why}\n".encode())
