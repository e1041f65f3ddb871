"""What a server or the network does wrong: one reply each, nothing hangs, and no task is left."""

from __future__ import annotations

import logging
import socket
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trio

from sim.api.types import Reply, Watch, WatchEvent
from sim.client import Informers
from sim.wire.authority import Authority
from sim.wire.rest import transport
from sim.wire.rest.access import Source
from sim.wire.tls import server_context
from tests.unit.sim.wire.rest.fake_server import (
    HOST,
    OPENED,
    Answer,
    Asked,
    Stream,
    answer,
    event,
    piece,
    pod,
    pods,
    world,
)


def reset(stream: Stream) -> None:
    """Let the connection end by a reset."""
    assert isinstance(stream, trio.SocketStream)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stream.socket.close()


def in_order(*parts: bytes) -> Answer:
    """The parts, one for each request; the last one again and again."""
    left = list(parts)

    async def reply(_: Asked, stream: Stream) -> None:
        await stream.send_all(left.pop(0) if len(left) > 1 else left[0])

    return reply


def take_all(watch: Watch | None) -> list[WatchEvent]:
    """The list to which the events of a watch go."""
    assert watch is not None
    found: list[WatchEvent] = []
    watch.attach(lambda: found.extend(watch.take()))
    return found


async def test_a_reset_in_a_list_is_a_reset_reply_and_the_next_request_works() -> None:
    asked = 0

    async def reply(_: Asked, stream: Stream) -> None:
        nonlocal asked
        asked += 1
        if asked > 1:
            await stream.send_all(pods("a"))
            return
        await stream.send_all(pods("a")[:-10])
        reset(stream)

    async with world(reply) as found:
        assert (await found.ask()).lost == "ConnectionReset"
        await found.rests()
        items = (await found.ask()).items
        assert items is not None and [item.key for item in items] == ["//pods/default/a"]


async def test_a_watch_gives_whole_lines_and_ends_with_its_connection() -> None:
    line = event("ADDED", pod("b", 12))

    async def reply(_: Asked, stream: Stream) -> None:
        await stream.send_all(OPENED + piece(event("ADDED", pod("a", 11)) + line[:20]))
        await stream.send_all(piece(line[20:]) + piece(line[:30]))
        reset(stream)

    async with world(reply) as found:
        watch = (await found.ask("watch")).watch
        events = take_all(watch)
        await found.rests()
        await found.until(lambda: watch is None or watch.ended)
        assert [each.item.key for each in events if each.item] == ["//pods/default/a", "//pods/default/b"]


async def test_a_process_that_ends_leaves_no_watch_open() -> None:
    ended = trio.Event()

    async def reply(_: Asked, stream: Stream) -> None:
        await stream.send_all(OPENED)
        await stream.receive_some()
        ended.set()

    async with world(reply) as found:
        assert (await found.ask("watch")).watch is not None
        found.actor.crash()
        await ended.wait()
        await found.rests()


@pytest.mark.parametrize("code", [429, 503])
async def test_a_request_is_sent_again_after_the_time_that_the_server_names(code: int) -> None:
    status = {"kind": "Status", "code": code, "message": "busy"}
    busy = answer(code, status, "Retry-After: 7\r\n")
    async with world(in_order(busy, pods("a")), pace=100) as found:
        began_us = found.kernel.now_us
        replies: list[Reply] = []
        client = found.client()
        client.call(client.request("list", "pods", "default"), replies.append)
        await found.until(lambda: replies)
        assert replies[0].items is not None and len(found.asked) == 2
        assert found.kernel.now_us - began_us >= 7_000_000


async def test_an_informer_lists_again_after_a_watch_of_lost_history() -> None:
    gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
    lists = [pods("a"), pods("a", "b", revision=20)]
    sent: list[str] = []

    async def reply(asked: Asked, stream: Stream) -> None:
        if "watch=true" not in asked.path:
            await stream.send_all(lists[min(len(sent), 1)])
        elif not sent:
            sent.append(asked.path)
            await stream.send_all(OPENED + piece(event("ERROR", gone)) + b"0\r\n\r\n")
        else:
            await stream.send_all(OPENED)
            await trio.sleep_forever()

    async with world(reply, pace=100) as found:
        informers = Informers(found.ctx, found.client(), 0)
        names: list[str] = []
        informers["pods"].on(add=lambda pod: names.append(pod["metadata"]["name"]))
        informers.start()
        await found.until(lambda: "b" in names)
        assert names == ["a", "b"]


async def test_watches_of_one_resource_are_one_watch() -> None:
    async def reply(asked: Asked, stream: Stream) -> None:
        await stream.send_all(OPENED if "watch=true" in asked.path else pods("a"))

    async with world(reply) as found:
        informers = Informers(found.ctx, found.client(), 0)
        seen: list[str] = []
        for who in ("first", "second"):
            informers["pods"].on(add=lambda _, who=who: seen.append(who))  # type: ignore[misc]
        informers.start()
        await found.until(lambda: len(found.asked) == 2)
        assert seen == ["first", "second"]
        assert ["watch=true" in each.path for each in found.asked] == [False, True]


async def test_requests_over_rest_keep_to_the_rate_of_their_client() -> None:
    async with world(in_order(pods("a")), pace=100) as found:
        client, began_us = found.client(qps=2, burst=3), found.kernel.now_us
        replies: list[Reply] = []
        for _ in range(7):
            client.call(client.request("list", "pods", "default"), replies.append)
        await found.until(lambda: len(replies) == 7)
        # Three at once, and four more of two a second.
        assert found.kernel.now_us - began_us >= 2_000_000


async def test_an_answer_that_never_comes_is_a_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "ANSWER_S", 0.05)

    async def reply(*_: object) -> None:
        await trio.sleep_forever()

    async with world(reply) as found:
        assert (await found.ask()).lost == "Timeout"
        await found.rests()


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (answer(502, b"<html>bad gateway</html>", kind="text/html"), "<html>bad gateway</html>"),
        (answer(200, b"<html>log in</html>", kind="text/html"), "unable to decode an answer: <html>log in"),
        (answer(200, {"items": [None]}), "unable to decode an answer"),
        (answer(200, {"items": [{"metadata": {}}]}), "unable to decode an answer"),
        (answer(200, {"metadata": 5}), "unable to decode an answer"),
    ],
)
async def test_a_list_that_is_none_is_an_error_reply(body: bytes, text: str) -> None:
    async with world(in_order(body)) as found:
        reply = await found.ask()
        assert (reply.code >= 500, reply.items) == (True, None)
        assert text in reply.message


async def test_bytes_that_are_not_http_are_a_reset() -> None:
    async with world(in_order(b"SSH-2.0-OpenSSH\r\n\r\n")) as found:
        assert (await found.ask()).lost == "ConnectionReset"


@pytest.mark.parametrize("unit", [b"9", "²".encode()])
async def test_a_revision_of_another_form_is_none(unit: bytes) -> None:
    line = event("ADDED", pod("a", 1)).replace(b'"1"', b'"' + unit * 5000 + b'"')
    async with world(in_order(OPENED + piece(line))) as found:
        events = take_all((await found.ask("watch")).watch)
        await found.until(lambda: events)
        assert [each.revision for each in events] == [0]


async def test_a_rotated_token_is_taken_when_the_server_refuses_the_old_one(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old")

    async def reply(asked: Asked, stream: Stream) -> None:
        known = asked.header("authorization") == "Bearer new"
        await stream.send_all(pods("a") if known else answer(401, {"kind": "Status", "code": 401}))

    async with world(reply, token=Source(file=file)) as found:
        assert (await found.ask()).code == 401
        file.write_text("new")
        assert (await found.ask()).code == 200


YEARS = timedelta(days=800)
Make = Callable[[Authority], Any]


@pytest.mark.parametrize(
    ("authority", "hosts", "trusts", "text"),
    [
        (Authority("ca", datetime.now(UTC) - YEARS), (HOST,), True, "has expired (renew the certificate"),
        (Authority("ca"), (HOST,), False, "issuer certificate (give the authority of its certificate"),
        (Authority("ca"), ("10.0.0.1",), True, f"not valid for '{HOST}' (use a name of its certificate"),
    ],
)
async def test_a_wrong_certificate_is_refused_and_logged_once_with_a_remedy(
    authority: Authority, hosts: tuple[str, ...], trusts: bool, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    context = server_context(authority.server(hosts), b"")
    trusted = Source((authority if trusts else Authority("other")).pem)
    async with world(in_order(pods()), context, authorities=trusted) as found:
        for _ in range(2):
            reply = await found.ask()
            assert (reply.lost, found.asked) == ("ConnectionRefused", [])
        logged = [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]
        assert len(logged) == 1 and text in logged[0] and found.credentials.access.server in logged[0]


async def test_a_server_with_another_name_is_reached_by_the_name_that_is_given() -> None:
    authority = Authority("ca")
    context = server_context(authority.server(("kubernetes",)), b"")
    async with world(
        in_order(pods()), context, authorities=Source(authority.pem), server_name="kubernetes"
    ) as found:
        assert (await found.ask()).code == 200


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
async def test_a_server_is_reached_over_ipv6() -> None:
    authority = Authority("ca")
    context = server_context(authority.server(("::1",)), b"")
    async with world(in_order(pods()), context, "::1", authorities=Source(authority.pem)) as found:
        assert (await found.ask()).code == 200


async def test_requests_pass_through_a_proxy() -> None:
    authority = Authority("ca")
    context = server_context(authority.server((HOST,)), b"")
    tunnels: list[bytes] = []

    async def proxy(client: trio.SocketStream) -> None:
        tunnels.append((await client.receive_some()).split(b"\r\n")[0])
        host, port = tunnels[-1].split()[1].decode().split(":")
        server = await trio.open_tcp_stream(host, int(port))
        await client.send_all(b"HTTP/1.1 200 OK\r\n\r\n")

        async def pass_on(source: trio.SocketStream, target: trio.SocketStream) -> None:
            async for data in source:
                await target.send_all(data)

        async with client, server, trio.open_nursery() as nursery:
            nursery.start_soon(pass_on, client, server)
            nursery.start_soon(pass_on, server, client)

    listeners = await trio.open_tcp_listeners(0, host=HOST)
    address = f"http://{HOST}:{listeners[0].socket.getsockname()[1]}"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, proxy, listeners)
        async with world(
            in_order(pods()), context, authorities=Source(authority.pem), proxy=address
        ) as found:
            assert (await found.ask()).code == 200
            server = found.credentials.access.server.removeprefix("https://")
            assert tunnels == [f"CONNECT {server} HTTP/1.1".encode()]
        nursery.cancel_scope.cancel()
