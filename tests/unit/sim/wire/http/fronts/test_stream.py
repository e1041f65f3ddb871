"""The stream of one connection, plain and through TLS."""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from sim.wire.authority import Authority
from sim.wire.http.fronts.stream import GONE, NotEncrypted, Stream
from sim.wire.tls import server_context

LARGE = bytes(range(256)) * 10_000


def context() -> ssl.SSLContext:
    authority = Authority("ca")
    return server_context(authority.server(("127.0.0.1",)), authority.pem)


@asynccontextmanager
async def connected(is_tls: bool) -> AsyncIterator[tuple[Stream, Any]]:
    """A stream, and its client."""
    ours, theirs = trio.socket.socketpair()
    stream = Stream(ours, context() if is_tls else None)
    client: Any = trio.SocketStream(theirs)
    if is_tls:
        client = trio.SSLStream(client, ssl._create_unverified_context(), https_compatible=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stream.handshake)
        if is_tls:
            await client.do_handshake()
    try:
        yield stream, client
    finally:
        stream.close()
        theirs.close()


@pytest.mark.parametrize("is_tls", [False, True])
async def test_bytes_pass_in_both_directions(is_tls: bool) -> None:
    async with connected(is_tls) as (stream, client):
        await client.send_all(b"hello")
        assert await stream.receive_some() == b"hello"
        assert stream.read_now() is None
        assert stream.send_now(b"world")
        assert bytes(await client.receive_some()) == b"world"


@pytest.mark.parametrize("is_tls", [False, True])
async def test_what_the_socket_does_not_take_is_sent_later_in_order(is_tls: bool) -> None:
    async with connected(is_tls) as (stream, client), trio.open_nursery() as nursery:
        assert not stream.send_now(LARGE)
        assert not stream.send_now(b"end")
        nursery.start_soon(stream.flush)
        taken = b""
        while not taken.endswith(b"end"):
            taken += bytes(await client.receive_some(1 << 16))
        assert taken == LARGE + b"end"


async def test_bytes_that_are_there_leave_others_their_turn() -> None:
    async with connected(is_tls=False) as (stream, client), trio.open_nursery() as nursery:
        turns: list[bytes] = []

        async def other() -> None:
            turns.append(b"other")

        nursery.start_soon(other)
        for _ in range(3):
            os.write(client.socket.fileno(), b"hello")
            turns.append(await stream.receive_some())
        # Both run in one pass of Trio's loop, in any order.
        assert turns[:2] in ([b"other", b"hello"], [b"hello", b"other"])


async def test_end_of_a_client_with_and_without_a_notice_is_an_end() -> None:
    for close in (lambda client: client.unwrap(), lambda client: client.transport_stream.send_eof()):
        async with connected(is_tls=True) as (stream, client), trio.open_nursery() as nursery:
            nursery.start_soon(close, client)
            assert await stream.receive_some() == b""
            assert stream.read_now() == b""
            nursery.cancel_scope.cancel()


async def test_bytes_that_are_no_record_lose_the_connection() -> None:
    async with connected(is_tls=True) as (stream, client):
        await client.transport_stream.send_all(b"\x17\x03\x03\x00\x20" + b"x" * 32)
        with pytest.raises(GONE):
            await stream.receive_some()


async def test_client_without_tls_is_recognized() -> None:
    ours, theirs = trio.socket.socketpair()
    with theirs:
        stream = Stream(ours, context())
        await theirs.send(b"GET / HTTP/1.1\r\n\r\n")
        with pytest.raises(NotEncrypted):
            await stream.handshake()
        stream.close()


async def test_closed_stream_raises_and_reads_no_other_descriptor() -> None:
    async with connected(is_tls=False) as (stream, _):
        stream.close()
        for use in (stream.read_now, lambda: stream.send_now(b"a")):
            with pytest.raises(GONE):
                use()
