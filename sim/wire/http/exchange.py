"""One HTTP exchange over ASGI: the request that the front reads, and the response that it sends.

The scope and the messages of an ASGI server become an `Exchange`, with a body that is read in the
background, and a `Response` becomes messages.

Holds: the departure of the client cancels the exchange at any moment before its last message; what
a client sends beyond `BODY_MAX` is thrown away; an exchange leaves no reference cycle behind, so
that its memory is freed without the cyclic garbage collector.

Why past the router of the web framework: every path belongs to the API's own router; Quart's would
raise and catch NotFound for each request and leave some 12 KB of reference cycles.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import trio

from sim.wire.http.body import BODY_MAX

# Bytes of a body that is refused for its size which are read and thrown away.
DISCARDED_MAX = 8 * BODY_MAX
SEND_S = 60.0  # real seconds for a complete answer to be taken by its client
_Receive = Callable[[], Awaitable[Any]]
_Send = Callable[[Any], Awaitable[None]]
Carry = Callable[[Callable[[], Awaitable[bytes]], Callable[[bytes], Awaitable[None]]], Awaitable[None]]
# Extension of the ASGI scope: takes over the connection, with an answer that has a `carry`.
SWITCH = "orrery.switch"


class Headers:
    """Request headers in their order; names are compared in lower case."""

    def __init__(self, raw: list[tuple[bytes, bytes]]) -> None:
        self.pairs = [(name.decode("latin1").lower(), value.decode("latin1")) for name, value in raw]

    def get(self, name: str) -> str:
        """The first value under a lower-case name, "" if there is none."""
        return next((value for key, value in self.pairs if key == name), "")


class Body:
    """The body of a request as far as it has come."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self.too_large = False
        self._settled, self._ended = trio.Event(), trio.Event()

    def take(self, part: bytes, more: bool) -> None:
        """Keep a part up to `BODY_MAX`.  more: further parts follow"""
        self._size += len(part)
        if self._size > BODY_MAX:
            self.too_large = True
            self._parts.clear()
            self._settled.set()
        else:
            self._parts.append(part)
        if not more:
            self._settled.set()
        if not more or self._size > DISCARDED_MAX:
            self._ended.set()

    @property
    def ended(self) -> bool:
        """True if nothing more is read of it."""
        return self._ended.is_set()

    async def read(self) -> bytes | None:
        """The whole body; None if it is too large."""
        await self._settled.wait()
        return None if self.too_large else b"".join(self._parts)

    async def end(self) -> None:
        """Wait until it has been sent or has exceeded what is thrown away."""
        await self._ended.wait()


class Exchange:
    """One request.

    path: with its escapes, unchanged; version: of HTTP, such as "1.1"
    client: the address of the peer; ident: the id of the request for the audit
    answered: True once the last message is being sent
    """

    def __init__(self, scope: Any) -> None:
        self.method: str = scope["method"]
        self.version: str = scope.get("http_version", "1.1")
        self.path: str = scope["raw_path"].decode("latin1")
        self.query: str = scope["query_string"].decode("latin1")
        self.headers = Headers(scope["headers"])
        self.extensions: dict[str, Any] = scope.get("extensions") or {}
        self.body = Body()
        self.client: str = (scope.get("client") or ("",))[0]
        self.ident = ""
        self.answered = False

    @property
    def content_length(self) -> int:
        """Bytes of the body as the request announces them, 0 if it does not."""
        text = self.headers.get("content-length")
        return int(text) if text.isdecimal() and len(text) < 20 else 0


@dataclass(slots=True)
class Response:
    """An answer.

    body: complete, or parts as they come
    compressed_from: bytes of a body above which it may be compressed; 0: never
    carry: carries bytes in both directions after a change of the protocol, with functions that
        read from and write to the client; None for an ordinary answer
    """

    code: int
    body: bytes | AsyncGenerator[bytes, None]
    headers: list[tuple[str, str]] = field(default_factory=list)
    compressed_from: int = 0
    carry: Carry | None = None

    def raw_headers(self) -> list[tuple[bytes, bytes]]:
        """The headers as pairs of bytes."""
        pairs = [(name.lower().encode(), value.encode("utf-8", "replace")) for name, value in self.headers]
        if isinstance(self.body, bytes) and self.code not in (101, 204, 304):
            pairs.append((b"content-length", b"%d" % len(self.body)))
        return pairs


async def _listen(exchange: Exchange, receive: _Receive, scope: trio.CancelScope) -> None:
    """Take what the client sends; cancel the exchange when it has gone."""
    while not (exchange.body.ended and exchange.body.too_large):
        message = await receive()
        if message["type"] == "http.request":
            exchange.body.take(message.get("body", b""), message.get("more_body", False))
        elif message["type"] == "http.disconnect":
            if not exchange.answered:
                scope.cancel()
            return


async def _respond(exchange: Exchange, response: Response, send: _Send) -> None:
    start = {"type": "http.response.start", "status": response.code, "headers": response.raw_headers()}
    if isinstance(response.body, bytes):
        with trio.move_on_after(SEND_S):
            await send(start)
            exchange.answered = True
            await send({"type": "http.response.body", "body": response.body, "more_body": False})
        return
    await send(start)
    async with aclosing(response.body) as parts:
        async for part in parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
    exchange.answered = True
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def serve_exchange(
    answer: Callable[[Exchange], Awaitable[Response]], scope: Any, receive: _Receive, send: _Send
) -> None:
    """Answer one request."""
    exchange = Exchange(scope)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_listen, exchange, receive, nursery.cancel_scope)
        response = await answer(exchange)
        if response.carry is None:
            await _respond(exchange, response, send)
        else:
            exchange.answered = True
            await exchange.extensions[SWITCH](response)
        nursery.cancel_scope.cancel()
