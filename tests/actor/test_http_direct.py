"""HTTP/1.1 without hypercorn: one write an answer, order, chunks, and refusals."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
import trio.testing

from sim.wire.http.fronts import direct, line, stream
from tests.actor.test_http import MAPS, served
from tests.actor.test_http_bodies import head_of_answer
from tests.actor.test_http_connections import GET, answer_to, dial
from tests.actor.test_http_pauses import get

POST = f"POST {MAPS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer root\r\n"


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What the server writes, one by one."""
    seen: list[bytes] = []
    send = stream.Stream.send_now

    def noted(self: stream.Stream, data: Any) -> bool:
        seen.append(bytes(data))
        return send(self, data)

    monkeypatch.setattr(stream.Stream, "send_now", noted)
    return seen


async def test_answer_that_waits_for_nothing_is_one_write_and_starts_no_task(
    monkeypatch: pytest.MonkeyPatch, writes: list[bytes]
) -> None:
    async with served() as (_, client), await dial(client) as connected:
        monkeypatch.delattr(direct.Direct, "_read")
        await trio.testing.wait_all_tasks_blocked(0.01)  # the cluster has started
        for _ in range(3):
            assert await get(connected, f"{MAPS}/none") == 404
    assert len(writes) == 3


async def test_requests_in_the_pipe_are_answered_in_their_order() -> None:
    async with served() as (_, client):
        names = [f"a{n}" for n in range(5)]
        data = b""
        for name in names:
            body = json.dumps({"metadata": {"name": name}}).encode()
            data += POST.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body
            data += GET.format(f"{MAPS}/{name}").encode()
        last = GET.format("/version").replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n")
        answer = await answer_to(client, data + last.encode())
        codes = [part.split(b" ", 1)[0] for part in answer.split(b"HTTP/1.1 ")[1:]]
        assert codes == [b"201", b"200"] * 5 + [b"200"]
        assert [answer.count(b'"name":"%b"' % name.encode()) for name in names] == [2] * 5


async def test_body_in_chunks_is_read_and_the_connection_stays_usable() -> None:
    async with served() as (_, client), await dial(client) as connected:
        chunks = b'c\r\n{"metadata":\r\ne\r\n{"name":"abc"}\r\n1\r\n}\r\n0\r\n\r\n'
        await connected.send_all(POST.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + chunks[:20])
        await trio.testing.wait_all_tasks_blocked()
        await connected.send_all(chunks[20:])
        assert (await head_of_answer(connected)).startswith(b"HTTP/1.1 201 Created\r\n")
        assert await get(connected, f"{MAPS}/abc") == 200


@pytest.mark.parametrize("in_parts", [False, True])
async def test_malformed_chunk_is_refused_and_ends_the_connection(in_parts: bool) -> None:
    async with served() as (_, client), await dial(client) as connected:
        begin = POST.encode() + b"Transfer-Encoding: chunked\r\n\r\n"
        if in_parts:
            await connected.send_all(begin)
            await trio.testing.wait_all_tasks_blocked()
        await connected.send_all((b"" if in_parts else begin) + b"zz\r\n")
        answer = b""
        while part := await connected.receive_some():
            answer += part
        assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert (await client.get("/version")).status_code == 200


async def test_head_is_answered_with_a_length_and_without_a_body() -> None:
    async with served() as (_, client), await dial(client) as connected:
        await connected.send_all(GET.format("/version").replace("GET", "HEAD").encode())
        head = await head_of_answer(connected, has_body=False)
        assert b"\r\nContent-Length: " in head
        assert await get(connected) == 200


async def test_old_client_gets_its_version_and_an_end() -> None:
    async with served(pace=60) as (_, client):
        answer = await answer_to(client, b"GET /version HTTP/1.0\r\n\r\n")
        assert answer.startswith(b"HTTP/1.0 200 OK\r\n")
        assert b"\r\nConnection: close\r\n" in answer
        path = f"{MAPS}?watch=1&timeoutSeconds=1"
        assert b"chunked" not in await answer_to(client, GET.format(path).replace("1.1", "1.0").encode())


async def test_client_that_sends_a_request_slowly_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "KEEP_ALIVE_S", 0.3)
    async with served() as (_, client), await dial(client) as connected:
        ended = False
        for part in GET.format("/version"):
            with trio.move_on_after(0.1):
                ended = await connected.receive_some() == b""
            if ended:
                break
            await connected.send_all(part.encode())
        assert ended


async def test_value_with_a_line_break_makes_no_second_header(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served() as (_, client), await dial(client) as connected:
        request = GET.format("/version").replace("\r\n\r\n", "\r\nAudit-ID: a\tb\r\n\r\n")
        monkeypatch.setattr("sim.wire.http.chain.request.COMMON", ("A", "b\r\nC: d"))
        await connected.send_all(request.encode())
        assert b"\r\nA: b  C: d\r\n" in await head_of_answer(connected)


async def test_client_that_goes_while_its_request_waits_ends_its_watch() -> None:
    async with served() as (cluster, client), await dial(client) as connected:
        await connected.send_all(GET.format(f"{MAPS}?watch=1").encode())
        assert (await connected.receive_some()).startswith(b"HTTP/1.1 200 OK\r\n")
        await connected.send_eof()
        with trio.fail_after(30):
            while cluster.kernel.gate.journal[-1].name != "watch-stop":
                await trio.lowlevel.checkpoint()


async def test_client_that_sends_at_once_leaves_turns_to_others() -> None:
    """Its next request comes before the server looks for it."""
    async with served() as (_, client), await dial(client) as busy, await dial(client) as other:
        for stream in (busy, other):
            assert await get(stream) == 200
        await busy.send_all(GET.format(f"{MAPS}/none").encode() * 200)
        await other.send_all(GET.format(f"{MAPS}/none").encode())
        assert (await head_of_answer(other)).startswith(b"HTTP/1.1 404 ")
        begun = await busy.receive_some(1 << 20)
        assert begun.count(b"HTTP/1.1 404 ") < 150
