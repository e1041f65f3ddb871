"""Requests that a proxy of the API server passes to a program of a pod, and its answers.

Turns a client's request into one over a stream of bytes, and the program's answer into the one for
the client: its body as it comes, links rewritten, and after a change of the protocol bytes in both
directions.

Holds: a page in HTML, which is read as a whole, has at most `PAGE_MAX` bytes; the stream ends with
the request.

Mirrors  apimachinery v1.25 pkg/util/proxy/{upgradeaware,transport}.go; golang net/http/httputil
         reverseproxy.go at go1.19.
Differs  a request has at most 3 MiB; each has a connection of its own; the query of a
         request to change the protocol is not passed on, as upstream.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from urllib.parse import quote

import trio

from sim.api import status
from sim.api.aggregation.delegation import answered_headers, is_upgrade, passed_headers
from sim.api.dialing import joined as address_of
from sim.api.status import Body
from sim.wire.exchange import Exchange, Response
from sim.wire.http.remote.links import Proxied, joined, rewritten
from sim.wire.http.streams import OutsideStream
from sim.wire.outside.answers import AnswerReader, BrokenAnswer

BYTES = 0  # the channel; the other has the error that broke the connection
PIECE_BYTES = 64 << 10
PAGE_MAX = 16 << 20
# transport.go: corsRemovingTransport.
_CORS = ("allow-credentials", "allow-headers", "allow-methods", "allow-origin")
_DROPPED = tuple(f"access-control-{name}" for name in _CORS)


class NoAnswer(Exception):
    """The program gave no answer.  body: the Status for the client"""

    def __init__(self, body: Body) -> None:
        super().__init__(body["message"])
        self.body = body


class _Backend:
    """The bytes of the program."""

    def __init__(self, stream: OutsideStream) -> None:
        self._stream = stream
        self._error = ""

    async def send(self, data: bytes) -> None:
        for begin in range(0, len(data), PIECE_BYTES):
            await self._stream.put(BYTES, data[begin : begin + PIECE_BYTES])

    async def receive(self) -> bytes:
        """What has come; b"" at the end.  Raises BrokenAnswer."""
        if self._error:
            raise BrokenAnswer(self._error)
        data = b""
        while not data and (came := await self._stream.take()):
            data = b"".join(piece for channel, piece in came if channel == BYTES)
            self._error = "".join(piece.decode() for channel, piece in came if channel != BYTES)
            if self._error and not data:
                raise BrokenAnswer(self._error)
        return data

    def close(self) -> None:
        self._stream.stop()

    async def carry(
        self, from_client: Callable[[], Awaitable[bytes]], to_client: Callable[[bytes], Awaitable[None]]
    ) -> None:
        """Carry bytes in both directions until one side closes."""
        async with trio.open_nursery() as nursery:

            async def up() -> None:
                while data := await from_client():
                    await self.send(data)
                nursery.cancel_scope.cancel()

            nursery.start_soon(up)
            try:
                while data := await self.receive():
                    await to_client(data)
            except BrokenAnswer:
                pass
            nursery.cancel_scope.cancel()
        self.close()


async def proxied(exchange: Exchange, stream: OutsideStream, path: str, rest: str) -> Response:
    """The answer of the program at the end of a stream.  Raises NoAnswer.

    path: of the request; rest: what of it follows `proxy`
    """
    upgrades = is_upgrade(exchange.headers.pairs)
    body = b"" if upgrades else await exchange.body.read()
    if body is None:
        raise NoAnswer(status.too_large())
    backend, reader = _Backend(stream), AnswerReader(exchange.method, None, decodes=False, switches=True)
    prefix = path.removesuffix(rest) if rest else path
    try:
        await backend.send(_head(exchange, rest, prefix, len(body), upgrades=upgrades) + body)
        first = b""
        while reader.head is None:
            data = await backend.receive()
            first += reader.feed(data) if data else reader.end()
    except BrokenAnswer as error:
        text = f"error trying to reach service: {error}"
        raise NoAnswer(
            status.plain_error(str(error)) if upgrades else status.service_unavailable(text)
        ) from None
    code, headers = reader.head.code, list(reader.head.headers)
    if code == 101:
        early = reader.rest

        async def carry(
            from_client: Callable[[], Awaitable[bytes]], to_client: Callable[[bytes], Awaitable[None]]
        ) -> None:
            if early:
                await to_client(early)
            await backend.carry(from_client, to_client)

        return Response(code, b"", headers, carry=carry)
    if upgrades and code < 400:
        raise NoAnswer(status.plain_error(f"invalid upgrade response: status code {code}"))
    parts = _parts(backend, reader, first)
    if upgrades:
        return Response(code, parts, answered_headers(headers, whole=False))
    return await rewritten_answer(code, headers, parts, proxied_at(exchange, stream, prefix))


def proxied_at(exchange: Exchange, stream: OutsideStream, prefix: str) -> Proxied:
    """Where the answers of a backend lead to.  prefix: of the paths that lead to it"""
    return Proxied(address_of(*stream.request.backend), exchange.headers.get("host"), prefix)


def _head(exchange: Exchange, rest: str, prefix: str, size: int, *, upgrades: bool) -> bytes:
    """The head of the request to the program."""
    target = quote(rest or "/", safe="/$&+,:;=@")
    if exchange.query and not upgrades:
        target += f"?{exchange.query}"
    pairs = [("Host", exchange.headers.get("host"))]
    pairs += passed_headers(exchange.headers.pairs, exchange.client, upgrades=upgrades)
    if not upgrades:
        slash = "/" if rest.endswith("/") else ""
        pairs.append(("X-Forwarded-Uri", quote(joined(prefix, rest) + slash, safe="/$&+,:;=@")))
        if size or exchange.method in ("POST", "PUT", "PATCH"):
            pairs.append(("Content-Length", str(size)))
    lines = [
        f"{exchange.method} {target} HTTP/1.1",
        *(f"{name.title()}: {value}" for name, value in pairs),
        "",
        "",
    ]
    return "\r\n".join(lines).encode("latin-1", "replace")


async def _parts(backend: _Backend, reader: AnswerReader, first: bytes) -> AsyncGenerator[bytes, None]:
    """The body as it comes; the connection is closed at its end."""
    try:
        part = first
        while True:
            if part:
                yield part
            if reader.is_done:
                return
            data = await backend.receive()
            part = reader.feed(data) if data else reader.end()
    finally:
        backend.close()


async def rewritten_answer(
    code: int, headers: list[tuple[str, str]], parts: AsyncGenerator[bytes, None], where: Proxied
) -> Response:
    """The answer with links that lead through the proxy."""
    named = {name.lower(): value for name, value in reversed(headers)}
    kept = [pair for pair in answered_headers(headers, whole=False) if pair[0].lower() not in _DROPPED]
    if named.get("location"):
        moved = where.rewrite(named["location"])
        kept = [(name, moved if name.lower() == "location" else value) for name, value in kept]
        return Response(code, parts, kept)
    media, encoding = (
        named.get("content-type", "").partition(";")[0].strip(),
        named.get("content-encoding", ""),
    )
    if media != "text/html" or encoding not in ("", "gzip", "deflate"):
        return Response(code, parts, kept)
    try:
        page = await _page(parts, encoding)
    except (BrokenAnswer, zlib.error) as error:
        raise NoAnswer(status.service_unavailable(f"error trying to reach service: {error}")) from None
    page = rewritten(page, where.rewrite)
    if encoding == "gzip":
        page = gzip.compress(page, mtime=0)
    elif encoding == "deflate":
        squeezer = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
        page = squeezer.compress(page) + squeezer.flush()
    return Response(code, page, [pair for pair in kept if pair[0].lower() != "content-length"])


async def _page(parts: AsyncGenerator[bytes, None], encoding: str) -> bytes:
    """A whole page, decoded.  Raises BrokenAnswer and zlib.error."""
    held = bytearray()
    wbits = {"gzip": zlib.MAX_WBITS | 16, "deflate": -zlib.MAX_WBITS}.get(encoding)
    inflater = None if wbits is None else zlib.decompressobj(wbits)
    async for part in parts:
        held += part if inflater is None else inflater.decompress(part, PAGE_MAX + 1 - len(held))
        if len(held) > PAGE_MAX:
            raise BrokenAnswer(f"the page is larger than {PAGE_MAX} bytes")
    return bytes(held)
