"""HTTP/2: several streams on one connection, flow control, ends of streams and of connections."""

from __future__ import annotations

import json
import ssl
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import h2.config
import h2.connection
import h2.events
import httpx
import trio
import trio.testing
from hyperframe.frame import RstStreamFrame
from msgspec.structs import replace

from sim.api.types import Reply
from sim.app.cluster import Cluster
from sim.wire.authority import Authority
from sim.wire.exchange import BODY_MAX
from sim.wire.http.fronts import http2
from sim.wire.tls import server_context
from tests.actor.test_http import MAPS, config_map, served

HEADS = [(":scheme", "https"), (":authority", "x"), ("authorization", "Bearer root")]


@cache
def context() -> ssl.SSLContext:
    authority = Authority("ca")
    return server_context(authority.server(("127.0.0.1",)), authority.pem)


@asynccontextmanager
async def connected(pace: float = 0) -> AsyncIterator[tuple[Cluster, httpx.AsyncClient, int]]:
    """A served cluster, a client that speaks HTTP/2, and the port."""
    async with served(pace=pace, context=context()) as (cluster, plain):
        port = plain.base_url.port
        assert port is not None
        async with httpx.AsyncClient(
            base_url=plain.base_url, headers=plain.headers, verify=False, http2=True
        ) as client:
            yield cluster, client, port


class Raw:
    """A client that sends frames as the test says."""

    def __init__(self, stream: trio.SSLStream[Any]) -> None:
        self.stream = stream
        self.events: deque[h2.events.Event] = deque()
        self.h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(validate_outbound_headers=False, header_encoding="utf-8")
        )
        self.h2.initiate_connection()

    async def flush(self) -> None:
        await self.stream.send_all(self.h2.data_to_send())

    async def begin(self, method: str, path: str, *, end: bool = True) -> int:
        ident = self.h2.get_next_available_stream_id()
        self.h2.send_headers(ident, [(":method", method), (":path", path), *HEADS], end_stream=end)
        await self.flush()
        return ident

    async def until(self, *kinds: type[h2.events.Event]) -> Any:
        """The next event of one of these kinds; None when the server closes the connection."""
        while True:
            while self.events:
                event = self.events.popleft()
                if isinstance(event, kinds):
                    return event
            data = await self.stream.receive_some(65536)
            if not data:
                return None
            self.events.extend(self.h2.receive_data(data))
            await self.flush()


class Marked:
    """An API server that closes the connection of each reply."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def __call__(self, request: Any, respond: Any, outside: Any = None) -> None:
        self._handle(request, lambda reply: respond(close(reply)), outside)


def close(reply: Reply) -> Reply:
    return replace(reply, headers={**reply.headers, "Connection": "close"})


@asynccontextmanager
async def raw(port: int) -> AsyncIterator[Raw]:
    client = ssl._create_unverified_context()
    client.set_alpn_protocols(["h2"])
    stream = await trio.open_ssl_over_tcp_stream("127.0.0.1", port, ssl_context=client, https_compatible=True)
    yield Raw(stream)
    await trio.aclose_forcefully(stream)


async def test_requests_share_a_connection_with_a_watch_which_ends_with_its_stream() -> None:
    async with connected(pace=60) as (cluster, client, port), raw(port) as one:
        watch = await one.begin("GET", f"{MAPS}?watch=1")
        await one.until(h2.events.ResponseReceived)
        for name in "abc":
            made = await client.post(MAPS, json=config_map(name))
            assert (made.http_version, made.status_code) == ("HTTP/2", 201)
        seen = ""
        while not {"a", "b", "c"} <= set(seen):
            data = (await one.until(h2.events.DataReceived)).data
            seen += "".join(json.loads(line)["object"]["metadata"]["name"] for line in data.splitlines())
        ident = await one.begin("GET", f"{MAPS}/a")
        assert (await one.until(h2.events.ResponseReceived)).stream_id == ident
        one.h2.reset_stream(watch)
        await one.flush()
        while cluster.kernel.gate.journal[-1].name != "watch-stop":
            await trio.testing.wait_all_tasks_blocked(0.005)
        assert (await client.get(f"{MAPS}/a")).http_version == "HTTP/2"


async def test_large_bodies_pass_in_both_directions_within_the_windows() -> None:
    async with connected() as (_, client, port):
        value = "v" * 1_000_000
        body = {"metadata": {"name": "large"}, "data": {"k": value}}
        assert (await client.post(MAPS, json=body)).status_code == 201
        found = await client.get(f"{MAPS}/large", headers={"Accept-Encoding": "identity"})
        assert found.json()["data"]["k"] == value
        async with raw(port) as slow:
            # This client opens no window: the answer waits, and others are answered.
            await slow.begin("GET", f"{MAPS}/large")
            size = 0
            while size < 65535:
                size += len((await slow.until(h2.events.DataReceived)).data)
            assert size == 65535
            assert (await client.get(MAPS)).status_code == 200


async def test_body_beyond_the_limit_is_refused_and_its_connection_stays_usable() -> None:
    async with connected() as (_, client, port):
        refused = await client.post(MAPS, content=b"x" * (BODY_MAX + 1))
        assert refused.status_code == 413
        async with raw(port) as one:
            await one.begin("POST", MAPS, end=False)
            one.h2.send_data(1, b"{")
            ident = await one.begin("GET", "/nope")
            answer = await one.until(h2.events.ResponseReceived)
            assert (answer.stream_id, dict(answer.headers)[":status"]) == (ident, "404")


async def test_answer_that_closes_its_connection_lets_open_streams_end() -> None:
    async with connected() as (cluster, client, port), raw(port) as one:
        watch = await one.begin("GET", f"{MAPS}?watch=1")
        await one.until(h2.events.ResponseReceived)
        server = cluster.api_servers["apiserver-0"]
        marked = Marked(server.handle)
        server.handle = marked  # type: ignore[method-assign]
        # A read is served by `handle` where a reply may be marked.
        server.serve = lambda _request: None  # type: ignore[method-assign]
        await one.begin("GET", MAPS)
        answer = await one.until(h2.events.ResponseReceived)
        assert "connection" not in dict(answer.headers)
        gone = await one.until(h2.events.ConnectionTerminated)
        assert (gone.error_code, gone.last_stream_id) == (0, http2.LAST_STREAM)
        with trio.move_on_after(0.05) as waited:
            await one.stream.receive_some()
        assert waited.cancelled_caught, "the watch keeps its connection"
        await one.stream.send_all(RstStreamFrame(watch, error_code=8).serialize())
        assert await one.until(h2.events.StreamReset) is None, "its end closes the connection"
        assert (await client.get(MAPS)).status_code == 200


async def test_malformed_request_resets_its_stream_and_no_other() -> None:
    async with connected() as (_, _client, port), raw(port) as one:
        for method, path in (("GET", "nope"), ("G T", "/")):
            ident = await one.begin(method, path)
            reset = await one.until(h2.events.StreamReset)
            assert reset.stream_id == ident
        await one.begin("get", MAPS)  # methods are case-sensitive
        assert dict((await one.until(h2.events.ResponseReceived)).headers)[":status"] == "405"
        await one.begin("GET", MAPS)
        assert dict((await one.until(h2.events.ResponseReceived)).headers)[":status"] == "200"


async def test_client_that_resets_stream_after_stream_loses_its_connection() -> None:
    async with connected() as (cluster, client, port):
        async with raw(port) as one:
            try:
                for _ in range(http2.RESETS_MAX + 2):
                    ident = one.h2.get_next_available_stream_id()
                    path = f"{MAPS}?watch=1&resourceVersion=0"
                    one.h2.send_headers(ident, [(":method", "GET"), (":path", path), *HEADS], end_stream=True)
                    one.h2.reset_stream(ident)
                    await one.flush()
                ended = await one.until(h2.events.ConnectionTerminated)
            except trio.BrokenResourceError:
                ended = None
            if ended is not None:
                assert ended.error_code == 11  # ENHANCE_YOUR_CALM
        assert (await client.get(MAPS)).status_code == 200
        assert cluster.api_servers["apiserver-0"].running
