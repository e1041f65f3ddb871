"""Connections of the HTTP front: malformed requests, HTTP/2, early ends, and how many there may be."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import httpx
import pytest
import trio
from hypercorn.config import Config

from sim.wire.http.chain.front import Front
from sim.wire.http.fronts import line
from sim.wire.http.fronts.heads import Heads
from sim.wire.http.fronts.http1 import Http1, reason_phrase
from tests.actor.test_http import MAPS, served
from tests.bench.wire_fuzz import HANDSHAKE, NAMED, PREFACE, get, h2_frame, h2_headers

pytestmark = pytest.mark.usefixtures("each_front")
GET = "GET {} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer root\r\n\r\n"


async def dial(client: httpx.AsyncClient) -> trio.SocketStream:
    return await trio.open_tcp_stream("127.0.0.1", client.base_url.port or 0)


async def answer_to(client: httpx.AsyncClient, data: bytes) -> bytes:
    """All bytes of the reply on a new connection, which the server has to close."""
    answer = b""
    async with await dial(client) as stream:
        await stream.send_all(data.replace(b"TOKEN", b"root"))
        with trio.fail_after(5):
            while part := await stream.receive_some():
                answer += part
    return answer


@pytest.mark.parametrize("name", [name for name in NAMED if "HTTP/2" not in name and "h2c" not in name])
async def test_malformed_request_gets_400_and_others_are_served(name: str) -> None:
    async with served() as (_, client):
        answer = await answer_to(client, NAMED[name])
        assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert answer.endswith(b"\r\nConnection: close\r\n\r\n400 Bad Request")
        assert (await client.get("/version")).status_code == 200


@pytest.mark.parametrize(
    "data",
    [
        NAMED["an HTTP/2 path that is no ASCII"],
        PREFACE + h2_frame(4, 0, 0, b"") + h2_headers(b"/version"),
        b"GET / HTTP/2.0\r\nHost: x\r\n\r\n",
    ],
)
async def test_http2_by_prior_knowledge_gets_505(data: bytes) -> None:
    async with served() as (_, client):
        answer = await answer_to(client, data)
        assert answer.startswith(b"HTTP/1.1 505 HTTP Version Not Supported\r\n")
        assert (await client.get("/version")).status_code == 200


async def test_upgrade_to_h2c_is_answered_in_http1() -> None:
    async with served() as (_, client), await dial(client) as stream:
        data = NAMED["an upgrade to h2c with settings that are no base64"]
        await stream.send_all(data)
        with trio.fail_after(5):
            answer = await stream.receive_some()
            while not answer.endswith(b"}"):
                answer += await stream.receive_some()
            assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
            assert await get(stream) == 200


async def test_head_of_a_request_beyond_the_limit_gets_431() -> None:
    async with served() as (_, client):
        answer = await answer_to(client, b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 70_000)
        assert answer.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")


@pytest.mark.parametrize(
    ("method", "path", "body", "line"),
    [
        ("GET", "/version", None, "200 OK"),
        ("GET", f"{MAPS}/none", None, "404 Not Found"),
        ("POST", MAPS, {"metadata": {"name": "a"}}, "201 Created"),
        ("POST", MAPS, {"metadata": {"name": "A"}}, "422 Unprocessable Entity"),
        ("PUT", MAPS, {}, "405 Method Not Allowed"),
    ],
)
async def test_status_line_has_a_reason_phrase(method: str, path: str, body: Any, line: str) -> None:
    async with served() as (_, client):
        response = await client.request(method, path, json=body)
        assert f"{response.status_code} {response.reason_phrase}" == line


def test_reason_phrases_are_upstreams_in_every_version_of_python() -> None:
    assert [reason_phrase(code) for code in (413, 422, 504, 599)] == [
        "Request Entity Too Large", "Unprocessable Entity", "Gateway Timeout", "status code 599"
    ]  # fmt: skip


async def test_absolute_url_is_served_as_its_path() -> None:
    async with served() as (_, client), await dial(client) as stream:
        assert await get(stream, "http://elsewhere:1/version") == 200
        assert await get(stream, "/version") == 200


async def test_exception_of_the_protocol_is_one_log_line_and_ends_no_other_connection(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    create = Http1._create_stream

    async def broken(self: Http1, request: Any) -> None:
        if request.target == b"/broken":
            raise ZeroDivisionError("division by nothing")
        await create(self, request)

    take = Heads.take

    def broken_too(self: Heads, data: bytes) -> Any:
        if b"/broken" in data:
            raise ZeroDivisionError("division by nothing")
        return take(self, data)

    monkeypatch.setattr(Http1, "_create_stream", broken)
    monkeypatch.setattr(Heads, "take", broken_too)
    async with served() as (_, client):
        assert (await client.get("/version")).status_code == 200
        answer = await answer_to(client, GET.format("/broken").encode())
        assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert (await client.get("/version")).status_code == 200
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 1
    assert "division by nothing" in lines[0]


async def test_exception_that_leaves_the_application_gets_500(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    whole, broken = Front.answer, trio.Event()

    async def answered(front: Front, exchange: Any) -> Any:
        if broken.is_set():
            raise ZeroDivisionError("division by nothing")
        return await whole(front, exchange)

    monkeypatch.setattr(Front, "answer", answered)
    async with served() as (_, client):
        broken.set()
        answer = await answer_to(client, GET.format("/version").encode())
        assert answer.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
        broken = trio.Event()
        assert (await client.get("/version")).status_code == 200
    assert [record.getMessage().count("division by nothing") for record in caplog.records] == [1]


async def test_lower_case_method_is_not_allowed() -> None:
    async with served() as (_, client):
        for method in ("get", "Delete", "post"):
            request = GET.format("/api/v1/namespaces").replace("GET", method)
            request = request.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n")
            answer = await answer_to(client, request.encode())
            assert answer.startswith(b"HTTP/1.1 405 Method Not Allowed\r\n"), answer


@pytest.mark.parametrize("requests", [0, 1])
async def test_connection_that_its_client_has_closed_is_closed_at_once(requests: int) -> None:
    async with served() as (_, client), await dial(client) as stream:
        for _ in range(requests):
            assert await get(stream) == 200
        await stream.send_eof()
        with trio.fail_after(5):
            assert await stream.receive_some() == b""


async def test_connection_lasts_for_any_number_of_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Config, "keep_alive_max_requests", 1)  # the default of the library
    async with served() as (_, client), await dial(client) as stream:
        for _ in range(4):
            await stream.send_all(GET.format("/version").encode())
            answer = await stream.receive_some()
            while b"gitVersion" not in answer:
                answer += await stream.receive_some()
            assert b"connection: close" not in answer.lower()


async def test_client_that_goes_with_requests_in_the_pipe_ends_its_watch() -> None:
    """The end of the stream lies behind a request that is not read before the watch is over."""
    async with served() as (cluster, client), await dial(client) as stream:
        await stream.send_all(GET.format(f"{MAPS}?watch=1").encode())
        assert (await stream.receive_some()).startswith(b"HTTP/1.1 200 OK\r\n")
        await stream.send_all(GET.format("/version").encode())
        await stream.send_eof()
        with trio.fail_after(5):
            while await stream.receive_some():
                pass
            while cluster.kernel.gate.journal[-1].name != "watch-stop":
                await trio.lowlevel.checkpoint()


async def test_client_that_does_not_read_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    closed, close = trio.Event(), line.Line.close

    def noted(self: line.Line) -> None:
        close(self)
        closed.set()

    monkeypatch.setattr(line, "SEND_S", 0.05)  # real seconds without progress
    monkeypatch.setattr(line.Line, "close", noted)
    async with served() as (_, client), await dial(client) as stream:
        await stream.send_all(20 * GET.format("/openapi/v2").encode())
        with trio.fail_after(20):
            await closed.wait()
            with suppress(trio.BrokenResourceError):
                while await stream.receive_some():
                    pass


async def test_new_connection_takes_the_place_of_the_one_that_was_idle_longest() -> None:
    async with (
        served(connections_max=3) as (_, client),
        await dial(client) as watching,
        await dial(client) as first,
        await dial(client) as second,
    ):
        await watching.send_all(GET.format(f"{MAPS}?watch=1").encode())
        await watching.receive_some()
        assert await get(first) == 200
        assert await get(second) == 200
        assert await get(first) == 200
        async with await dial(client) as third:
            assert await get(third) == 200
        assert await get(second) == 0
        assert await get(first) == 200


async def test_newest_connection_is_closed_where_all_have_requests(caplog: pytest.LogCaptureFixture) -> None:
    async with served(connections_max=2) as (_, client):
        async with await dial(client) as first, await dial(client) as second:
            for stream in (first, second):
                await stream.send_all(GET.format(f"{MAPS}?watch=1").encode())
                await stream.receive_some()
            for _ in range(2):
                async with await dial(client) as refused:
                    assert await get(refused) == 0
        with trio.fail_after(5):  # until the server has seen that the two are closed
            while True:
                async with await dial(client) as stream:
                    if await get(stream) == 200:
                        break
    assert len(caplog.records) == 1


async def test_websocket_handshake_that_is_complete_is_accepted_in_pieces() -> None:
    async with served(pace=60) as (_, client), await dial(client) as stream:
        whole = HANDSHAKE.replace(b"TOKEN", b"root") + b"\r\n"
        for part in (whole[:100], whole[100:]):
            await stream.send_all(part)
        with trio.fail_after(5):
            assert (await stream.receive_some()).startswith(b"HTTP/1.1 101 Switching Protocols\r\n")
