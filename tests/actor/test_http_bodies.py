"""Bodies of requests come after credentials, and one that does not come takes no place."""

from __future__ import annotations

from contextlib import AsyncExitStack, suppress

import httpx
import pytest
import trio
from trio.testing import MockClock

from sim.wire import exchange, patience
from sim.wire.exchange import BODY_MAX
from tests.actor.test_http import MAPS, served
from tests.actor.test_http_connections import GET, dial
from tests.actor.test_http_pauses import get

BODY = b'{"metadata":{"name":"a"}}'
HEAD = "POST {} HTTP/1.1\r\nHost: x\r\n{}Content-Length: {}\r\n\r\n"
ROOT, STRANGER = "Authorization: Bearer root\r\n", "Authorization: Bearer nobody\r\n"
EXPECT = "Expect: 100-continue\r\n"

pytestmark = pytest.mark.usefixtures("each_front")


@pytest.fixture
def clock() -> MockClock:
    """Trio's time does not pass: what is answered waits for no limit."""
    return MockClock()


async def head_of_answer(stream: trio.SocketStream, *, has_body: bool = True) -> bytes:
    """The head of the next answer; its body is read too."""
    answer = b""
    while b"\r\n\r\n" not in answer:
        part = await stream.receive_some()
        assert part, answer
        answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    while has_body and len(body) < int(fields.get(b"content-length", b"0")):
        body += await stream.receive_some()
    return head


@pytest.mark.parametrize(
    ("path", "credentials", "line"),
    [
        ("/version", "", b"HTTP/1.1 403 Forbidden"),
        (MAPS, "", b"HTTP/1.1 403 Forbidden"),
        (MAPS, STRANGER, b"HTTP/1.1 401 Unauthorized"),
        ("/apis/none/v1/things", ROOT, b"HTTP/1.1 404 Not Found"),
    ],
)
async def test_answer_that_needs_no_body_does_not_wait_for_it(
    clock: MockClock, path: str, credentials: str, line: bytes
) -> None:
    async with served() as (_, client), await dial(client) as stream:
        await stream.send_all(HEAD.format(path, credentials, len(BODY)).encode())
        head = await head_of_answer(stream)
        assert head.startswith(line + b"\r\n")
        assert b"connection: close" not in head.lower()
        await stream.send_all(BODY)
        assert await get(stream) == 200


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_read_with_a_body_does_not_wait_for_it(clock: MockClock, method: str) -> None:
    async with served() as (_, client), await dial(client) as stream:
        request = HEAD.replace("POST", method).format("/livez", ROOT, len(BODY))
        await stream.send_all(request.encode())
        head = await head_of_answer(stream, has_body=method == "GET")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        await stream.send_all(BODY)
        assert await get(stream) == 200


async def test_large_refused_body_leaves_the_connection_usable(clock: MockClock) -> None:
    async with served() as (_, client), await dial(client) as stream:
        await stream.send_all(HEAD.format(MAPS, "", BODY_MAX).encode() + BODY_MAX * b" ")
        assert (await head_of_answer(stream)).startswith(b"HTTP/1.1 403 ")
        assert await get(stream) == 200


async def test_body_is_asked_for_after_the_credentials(clock: MockClock) -> None:
    async with served() as (_, client):
        async with await dial(client) as stream:
            await stream.send_all(HEAD.format(MAPS, EXPECT, len(BODY)).encode())
            head = await head_of_answer(stream)
            assert head.startswith(b"HTTP/1.1 403 Forbidden\r\n")
            assert b"connection: close" in head.lower()
        async with await dial(client) as stream:
            await stream.send_all(HEAD.format(MAPS, ROOT + EXPECT, len(BODY)).encode())
            assert (await head_of_answer(stream)).startswith(b"HTTP/1.1 100 Continue")
            await stream.send_all(BODY)
            assert (await head_of_answer(stream)).startswith(b"HTTP/1.1 201 Created\r\n")
            assert await get(stream) == 200


class Stalls:
    """What requests note about their bodies. states: True for each that has stalled, in their order"""

    def __init__(self) -> None:
        self.states: list[bool] = []
        self._more = trio.Event()

    def take(self, stalled: bool) -> None:
        self.states.append(stalled)
        self._more.set()

    async def reach(self, count: int) -> None:
        """Wait for so many stalled bodies."""
        while self.states.count(True) < count:
            self._more = trio.Event()
            await self._more.wait()


@pytest.fixture
def stalls(monkeypatch: pytest.MonkeyPatch) -> Stalls:
    made, wait = Stalls(), exchange.Exchange.wait

    def noted(self: exchange.Exchange, stalled: bool) -> None:
        wait(self, stalled)
        made.take(stalled)

    monkeypatch.setattr(exchange.Exchange, "wait", noted)
    return made


async def stall(
    stack: AsyncExitStack, client: httpx.AsyncClient, credentials: str, count: int, stalls: Stalls
) -> list[trio.SocketStream]:
    """Connections with a request without its body."""
    made = []
    for n in range(count):
        stream = await stack.enter_async_context(await dial(client))
        await stream.send_all(HEAD.format(MAPS, credentials, len(BODY)).encode())
        await stalls.reach(n + 1)
        made.append(stream)
    return made


async def test_stalled_bodies_without_credentials_give_way(clock: MockClock, stalls: Stalls) -> None:
    async with served(connections_max=4) as (cluster, client), AsyncExitStack() as stack:
        watching, idle = [await stack.enter_async_context(await dial(client)) for _ in range(2)]
        await watching.send_all(GET.format(f"{MAPS}?watch=1").encode())
        assert (await watching.receive_some()).startswith(b"HTTP/1.1 200 OK\r\n")
        assert await get(idle) == 200
        stalled = await stall(stack, client, "", 6, stalls)
        assert await get(idle) == 200
        async with await dial(client) as other:
            assert await get(other) == 200
            assert (await head_of_answer(stalled[4])).startswith(b"HTTP/1.1 403 Forbidden\r\n")
            assert await stalled[4].receive_some() == b""
        assert await get(idle) == 200
        assert (await client.post(MAPS, content=BODY)).status_code == 201
        assert "watch-stop" not in [each.name for each in cluster.kernel.gate.journal]


async def test_stalled_body_with_credentials_gives_way(
    monkeypatch: pytest.MonkeyPatch, stalls: Stalls
) -> None:
    monkeypatch.setattr(exchange, "STALL_S", 0.01)
    monkeypatch.setattr(patience, "TICK_S", 0.01)
    async with served(connections_max=1) as (_, client), AsyncExitStack() as stack:
        [stalled] = await stall(stack, client, ROOT, 1, stalls)
        async with await dial(client) as other:
            assert await get(other) == 200
            assert await stalled.receive_some() == b""


async def test_body_that_continues_after_a_rest_is_read(
    monkeypatch: pytest.MonkeyPatch, stalls: Stalls
) -> None:
    monkeypatch.setattr(exchange, "STALL_S", 0.01)
    monkeypatch.setattr(patience, "TICK_S", 0.01)
    async with served() as (_, client), AsyncExitStack() as stack:
        [stream] = await stall(stack, client, ROOT, 1, stalls)
        await stream.send_all(BODY)
        assert (await head_of_answer(stream)).startswith(b"HTTP/1.1 201 Created\r\n")
        assert stalls.states == [True, False]


async def test_address_with_most_connections_gives_way_to_another(clock: MockClock) -> None:
    async with served(connections_max=4) as (_, client), AsyncExitStack() as stack:

        async def open_from(address: str) -> trio.SocketStream:
            stream = await trio.open_tcp_stream("127.0.0.1", client.base_url.port or 0, local_address=address)
            await stack.enter_async_context(stream)
            await stream.send_all(GET.format(f"{MAPS}?watch=1").encode())
            return stream

        watches = [await open_from(f"127.0.0.{n}") for n in (1, 2, 2, 2)]
        for stream in watches:
            assert (await stream.receive_some()).startswith(b"HTTP/1.1 200 OK\r\n")
        other = await open_from("127.0.0.3")
        assert (await other.receive_some()).startswith(b"HTTP/1.1 200 OK\r\n")
        assert await watches[3].receive_some() == b""
        refused = await open_from("127.0.0.2")  # it holds its share
        with suppress(trio.BrokenResourceError):
            assert await refused.receive_some() == b""
