"""A connection of HTTP/2 that ends while the server asks all clients to leave."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import trio
from hypercorn.config import Config

from sim.wire.http.fronts.asgi import Asgi
from sim.wire.http.fronts.line import Phase


async def _write(_: bytes) -> None:
    """Take an answer."""


async def _closed() -> bytes:
    """What a connection gives that the client has closed."""
    return b""


async def _answer(_scope: Any, _receive: Any, _send: Any) -> None:
    """An application that is not asked."""


async def test_a_connection_that_is_over_opens_no_streams_and_no_tasks() -> None:
    here, there = trio.socket.socketpair()
    stream: Any = SimpleNamespace(socket=here, protocol="h2", is_encrypted=True, receive_some=_closed)
    line: Any = SimpleNamespace(
        stream=stream,
        state=Phase.IDLE,
        move=lambda _: None,
        write=_write,
        scope=trio.CancelScope(),
        wait_for_request=lambda: None,
    )
    with here, there:
        with line.scope:
            async with trio.open_nursery() as nursery:
                connection = Asgi(line, _answer, Config(), nursery)
                await connection.serve(b"")
                line.scope.cancel()
        assert connection.leave()
