"""One HTTP exchange over ASGI: the request that the front reads, and the response that it sends.

The scope and the messages of an ASGI server become an `Exchange`, with a body that is read in the
background, and a `Response` becomes messages.

Holds: the departure of the client cancels the exchange at any moment before its last message; of a
body that the front has not asked for, `HELD_MAX` bytes are held and the rest stays in the socket;
what a client sends beyond `BODY_MAX`, or after the beginning of its answer, is thrown away; an
answer does not wait for a body that it does not need; an exchange leaves no reference cycle behind,
so that its memory is freed without the cyclic garbage collector.

Why past the router of the web framework: every path belongs to the API's own router; Quart's would
raise and catch NotFound for each request and leave some 12 KB of reference cycles.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import field
from typing import Any

import trio

from sim.dataclass import dataclass
from sim.wire.patience import within

BODY_MAX = 3 * 1024 * 1024  # server.Config.MaxRequestBodyBytes
HELD_MAX = 1 << 16  # bytes of a body before it is asked for
# Bytes of a body that are read and thrown away.
DISCARDED_MAX = 8 * BODY_MAX
# Real seconds for the rest of a body after the answer, so that the connection stays usable, and so
# that the client reads its answer: the second for HTTP/2, and for a body refused for its size.
REST_S, DISCARD_S = 60.0, 2.0
STALL_S = 1.0  # after which a body that makes no progress is said to have stalled
PIECE_BYTES, SEND_S = 1 << 16, 60.0  # of an answer, and real seconds for the client to take them
_Receive = Callable[[], Awaitable[Any]]
_Send = Callable[[Any], Awaitable[None]]
Carry = Callable[[Callable[[], Awaitable[bytes]], Callable[[bytes], Awaitable[None]]], Awaitable[None]]
# Extensions of the ASGI scope: takes over the connection, with an answer that has a `carry`; asks
# the client for the body; notes that the request waits for the rest of its body, or does not.
TOO_LARGE, TIMEOUT = 413, 504
SWITCH, ASK, WAIT = "orrery.switch", "orrery.ask", "orrery.wait"
# The certificate of the connection, DER, or None; resources to be closed at the end of the request,
# also if the client leaves before the answer begins.
PEER, OPENED = "orrery.peer", "orrery.opened"


class Headers:
    """Request headers in their order; names are compared in lower case."""

    def __init__(self, raw: list[tuple[bytes, bytes]]) -> None:
        self.pairs = [(name.decode("latin1").lower(), value.decode("latin1")) for name, value in raw]
        self._first = dict(reversed(self.pairs))

    def get(self, name: str) -> str:
        """The first value under a lower-case name, "" if there is none."""
        return self._first.get(name, "")


class Body:
    """The body of a request as far as it has come.

    ask: lets a client that waits for it begin to send
    asked: True once the front reads it
    """

    def __init__(self, ask: Callable[[], Awaitable[None]] | None = None) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._ask = ask
        self._dropped = False
        self.asked = self.too_large = False
        self._wanted, self._settled, self._ended = trio.Event(), trio.Event(), trio.Event()

    async def room(self) -> None:
        """Wait until another part may be taken."""
        if self._size >= HELD_MAX:
            await self._wanted.wait()

    def take(self, part: bytes, more: bool) -> None:
        """Keep a part up to `BODY_MAX`.  more: further parts follow"""
        self._size += len(part)
        if self._size > BODY_MAX:
            self.too_large = True
            self._parts.clear()
            self._settled.set()
        elif not self._dropped:
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
        self.asked = True
        self._wanted.set()
        if self._ask is not None and not self.ended:
            await self._ask()
        await self._settled.wait()
        return None if self.too_large else b"".join(self._parts)

    def drop(self) -> None:
        """Keep nothing of it from now on."""
        self._dropped = True
        self._parts.clear()
        self._wanted.set()

    async def end(self) -> None:
        """Wait until it has been sent or has exceeded what is thrown away."""
        await self._ended.wait()


class Exchange:
    """One request.

    path: with its escapes, unchanged; version: of HTTP, such as "1.1"
    client: the address of the peer; ident: the id of the request for the audit
    resting: True while only the rest of the body is waited for
    answered: True once the last message is being sent
    """

    def __init__(self, scope: Any) -> None:
        self.method: str = scope["method"]
        self.version: str = scope.get("http_version", "1.1")
        self.path: str = scope["raw_path"].decode("latin1")
        self.query: str = scope["query_string"].decode("latin1")
        self.headers = Headers(scope["headers"])
        self.extensions: dict[str, Any] = scope.get("extensions") or {}
        self.body = Body(self.extensions.get(ASK))
        self.client: str = (scope.get("client") or ("",))[0]
        self.ident = ""
        self.resting = self.answered = False

    @property
    def content_length(self) -> int:
        """Bytes of the body as the request announces them, 0 if it does not."""
        text = self.headers.get("content-length")
        return int(text) if text.isdecimal() and len(text) < 20 else 0

    @property
    def unasked(self) -> bool:
        """True if the client still waits to be asked for its body."""
        expects = self.headers.get("expect").lower() == "100-continue"
        return expects and not self.body.asked and not self.body.ended

    def closes(self, code: int) -> bool:
        """True if the connection ends with an answer, since the body is not read to its end."""
        if not self.version.startswith("1."):
            return False
        if code in (TOO_LARGE, TIMEOUT):
            return True
        return not self.body.ended and (self.unasked or self.content_length > DISCARDED_MAX)

    def rest_s(self, code: int) -> float:
        """How long the rest of the body is waited for, in real seconds.

        HTTP/2 resets the stream then, which some clients see only when they have sent their body;
        an answer to HTTP/1.0 ends the connection.
        """
        if self.body.ended or self.version == "1.0":
            return 0
        if code == TOO_LARGE or not self.version.startswith("1."):
            return DISCARD_S
        return 0 if self.closes(code) else REST_S

    def wait(self, stalled: bool) -> None:
        """Note that the rest of the body is waited for, or that it is not."""
        note = self.extensions.get(WAIT)
        if note is not None:
            note(stalled)


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
        await exchange.body.room()
        message = await _next(exchange, receive)
        if message["type"] == "http.request":
            exchange.body.take(message.get("body", b""), message.get("more_body", False))
        elif message["type"] == "http.disconnect":
            if not exchange.answered:
                scope.cancel()
            return


async def _next(exchange: Exchange, receive: _Receive) -> Any:
    """The next message of the client; notes whether its body has stalled."""
    if exchange.body.ended or exchange.resting:
        return await receive()
    with within(STALL_S):
        return await receive()
    exchange.wait(True)
    try:
        return await receive()
    finally:
        if not exchange.resting:
            exchange.wait(False)


async def _respond(exchange: Exchange, response: Response, send: _Send) -> None:
    start = {"type": "http.response.start", "status": response.code, "headers": response.raw_headers()}
    exchange.body.drop()
    rest_s, last = exchange.rest_s(response.code), b""
    if isinstance(response.body, bytes):
        body = response.body
        whole = (len(body) - 1) // PIECE_BYTES * PIECE_BYTES if not rest_s else len(body)
        if not await _sent(send, start):
            return
        for begin in range(0, whole, PIECE_BYTES):
            piece = body[begin : min(whole, begin + PIECE_BYTES)]
            if not await _sent(send, {"type": "http.response.body", "body": piece, "more_body": True}):
                return
        last = body[max(0, whole) :]
    else:
        await send(start)
        async with aclosing(response.body) as parts:
            async for part in parts:
                await send({"type": "http.response.body", "body": part, "more_body": True})
    if rest_s:
        exchange.resting = True
        exchange.wait(True)
        with within(rest_s):
            await exchange.body.end()
        exchange.wait(False)
    exchange.answered = True
    await _sent(send, {"type": "http.response.body", "body": last, "more_body": False})


async def _sent(send: _Send, message: Any) -> bool:
    """True once a message is sent, False if the client did not take it in time."""
    with within(SEND_S) as scope:
        await send(message)
    return not scope.cancelled_caught


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
