"""HTTP/1.1 of one connection: requests that the front answers itself, one after the other.

The bytes of a connection become exchanges, and their responses bytes.  One task does all of it; a
second one, which notices that the client has gone, is started when a request first has to wait.

Holds: a request that is answered without waiting needs one wait for bytes, one read and one write;
requests that came together are answered in their order; what is for another protocol, or for a page
of Quart, is left to hypercorn with all bytes that were read; a head that is no request, or a body
that is malformed, is refused, and ends the connection.

Mirrors  golang net/http server.go (conn.serve, expectContinueReader, chunkWriter.writeHeader), at
         go1.19.
Differs  HTTP/2, upgrades and WebSocket are left to `hypercorn`.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import aclosing
from email.utils import formatdate
from typing import Any, Final, Generic, TypeVar

import trio

from sim.wire import exchange as exchanges
from sim.wire.exchange import OPENED, PEER, WAIT, Exchange, Response
from sim.wire.http.fronts.bodies import DirectBody, NoBody
from sim.wire.http.fronts.heads import Head, Heads
from sim.wire.http.fronts.http1 import Refused, reason_phrase
from sim.wire.http.fronts.line import Line
from sim.wire.http.fronts.stream import GONE, PIECE_BYTES
from sim.wire.patience import within

Answer = Callable[[Exchange], Coroutine[Any, Any, Response]]
AHEAD_BYTES: Final = 1 << 17  # from the client while a request is answered
_WITHOUT_BODY = (101, 204, 304)
_T = TypeVar("_T")


class DirectExchange(Exchange):
    """One request of a connection."""

    def __init__(
        self, head: Head, body: DirectBody | NoBody, extensions: dict[str, Any], client: str
    ) -> None:
        self.method, self.version = head.method, head.version
        self.path, self.query = head.path, head.query
        self.headers = head.headers
        self.extensions = extensions
        self.body: Any = body
        self.client, self.ident = client, ""
        self.resting = self.answered = False


class Direct:
    """The protocol of one connection.

    answerer: what answers requests of a path, None for a page of Quart
    answering: True once an answer to the present request has begun
    """

    def __init__(
        self,
        line: Line,
        answerer: Callable[[str], Answer | None],
        nursery: trio.Nursery,
        client: str,
    ) -> None:
        self.answering = False
        self._line, self._stream = line, line.stream
        self._answerer = answerer
        self._nursery = nursery
        self._client = client
        self._extensions: dict[str, Any] = {PEER: line.stream.certificate, WAIT: self._note}
        self._heads = Heads()
        self._data = b""  # behind the present request
        self._begun = False  # the owner of the connection has been informed of the request
        self._is_receiving = False  # the task that answers
        # The second task: what it has read, and whether the client has ended its side.
        self._reader: trio.CancelScope | None = None
        self._ahead, self._ended = b"", False
        self._news, self._room, self._stopped = trio.Event(), trio.Event(), trio.Event()

    async def serve(self) -> bytes | None:
        """Serve; returns None once the connection can no longer be used, or the bytes from a
        request on that is not for this protocol.

        Raises Refused.
        """
        while True:
            data = self._data
            try:
                head, self._data = self._heads.take(data)
            except Exception:
                self._line.failed = 400
                raise
            self._line.failed = 500
            if head is None:
                more = await self._receive()
                if not more:
                    return None
                self._data = self._data + more if self._data else more
                continue
            answer = None if head.switches else self._answerer(head.path)
            if answer is None:
                return data + await self._stop_reader()
            if not await self._serve_one(head, answer) or self._line.leaving:
                return None
            self._line.wait_for_request()
            if self._data:
                await trio.lowlevel.checkpoint()  # others have their turn

    async def _serve_one(self, head: Head, answer: Answer) -> bool:
        """Answer a request; False if the connection cannot be used after it."""
        opened: list[Callable[[], None]] = []
        extensions = {**self._extensions, OPENED: opened}
        self._begun = self.answering = False
        body: DirectBody | NoBody = NoBody()
        if head.length:
            body = DirectBody(head.length, self._feed)
            self._data = body.take(self._data)
        self._exchange = exchange = DirectExchange(head, body, extensions, self._client)
        self._expects = head.expects
        try:
            return await _Noticed(self._answer(exchange, head, answer), self._wait)
        finally:
            self._exchange = None
            for close in opened:
                close()

    _exchange: DirectExchange | None = None
    _expects = False  # the client waits to be asked for the body of the present request

    # --- reading ----------------------------------------------------------------------------------

    async def _receive(self) -> bytes:
        """Wait for further bytes; b"" at their end."""
        if self._reader is None:
            self._is_receiving = True
            try:
                return await self._stream.receive_some()
            except GONE:
                self._line.close()
            finally:
                self._is_receiving = False
            await trio.sleep_forever()
        while not self._ahead:
            if self._ended:
                return b""
            self._news = trio.Event()
            await self._news.wait()
        data, self._ahead = self._ahead, b""
        self._room.set()
        return data

    def _wait(self) -> None:
        """The present request waits: notice it if the client goes."""
        if not self._begun:
            self._begun = True
            self._line.begin_request()
        if self._reader is None and not self._is_receiving:
            self._reader = trio.CancelScope()
            self._nursery.start_soon(self._read, self._reader)

    async def _read(self, scope: trio.CancelScope) -> None:
        """Read ahead of the present request until the client ends its side."""
        with scope:
            try:
                while data := await self._stream.receive_some():
                    self._ahead += data
                    self._news.set()
                    while len(self._ahead) >= AHEAD_BYTES:
                        self._room = trio.Event()
                        await self._room.wait()
            except GONE:
                self._line.close()
                return
            self._ended = True
            self._news.set()
            if self._exchange is not None:
                self._line.close()
        self._stopped.set()

    async def _stop_reader(self) -> bytes:
        """Read no longer; returns what was read."""
        if self._reader is not None:
            self._reader.cancel()
            await self._stopped.wait()
        return self._ahead

    async def _feed(self, body: DirectBody) -> None:
        """Give the body of the present request further bytes, once they have come."""
        exchange = self._exchange
        assert exchange is not None
        if self._expects and body.asked:
            self._expects = False
            await self._line.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        data = await self._body_bytes(exchange)
        try:
            if not data:
                self._line.close()
                await trio.sleep_forever()
            self._data = body.take(data)
        except Refused as refused:
            self._line.refused = refused.code
            self._line.scope.cancel()
            await trio.sleep_forever()

    async def _body_bytes(self, exchange: Exchange) -> bytes:
        """Further bytes of a body; notes whether it has stalled."""
        if not exchange.resting:
            with within(exchanges.STALL_S):
                return await self._receive()
            exchange.wait(True)
        data = await self._receive()
        if not exchange.resting:
            exchange.wait(False)
        return data

    def _note(self, stalled: bool) -> None:
        """Note that the rest of a body is waited for, or that it is not."""
        self._begun = True
        self._line.begin_request(stalled=stalled)

    # --- answering --------------------------------------------------------------------------------

    async def _answer(self, exchange: DirectExchange, head: Head, answer: Answer) -> bool:
        response = await answer(exchange)
        assert response.carry is None, "no request here asks for another protocol"
        body = exchange.body
        rest_s = exchange.rest_s(response.code)
        keeps = head.keeps and not self._line.leaving and (body.ended or rest_s > 0)
        lines = [_status_line(response.code, head.version)]
        for name, value in response.headers:
            if name == "Connection":
                keeps = False
            else:
                lines.append(f"{name}: {value}")
        content = response.body
        if not isinstance(content, bytes):
            keeps = await self._stream_out(head, lines, content, keeps)
        else:
            if response.code not in _WITHOUT_BODY:
                lines.append(f"Content-Length: {len(content)}")
            await self._send(_head(lines, head, keeps), b"" if head.method == "HEAD" else content)
        if rest_s and not body.ended:
            exchange.resting = True
            exchange.wait(True)
            with within(rest_s):
                await body.skip()
            exchange.wait(False)
        exchange.answered = True
        return keeps and body.complete

    async def _send(self, head: bytes, content: bytes) -> None:
        self.answering = True
        first = max(0, PIECE_BYTES - len(head))
        if len(content) <= first:
            await self._line.write(head + content)
        else:
            await self._line.write(head + content[:first])
            await self._line.write(memoryview(content)[first:])

    async def _stream_out(
        self, head: Head, lines: list[str], parts: AsyncGenerator[bytes, None], keeps: bool
    ) -> bool:
        """Send an answer part by part; returns whether the connection may be used again."""
        chunked = head.version != "1.0"
        if chunked:
            lines.append("Transfer-Encoding: chunked")
        keeps = keeps and chunked
        await self._send(_head(lines, head, keeps), b"")
        async with aclosing(parts):
            if head.method == "HEAD":
                return keeps
            async for part in parts:
                if part:
                    await self._line.write(b"%x\r\n%b\r\n" % (len(part), part) if chunked else part)
        if chunked:
            await self._line.write(b"0\r\n\r\n")
        return keeps

    def release(self) -> None:
        """Cut the references in circles."""
        vars(self).clear()


class _Noticed(Generic[_T]):
    """Some work that is awaited; a function is called whenever it begins to wait."""

    __slots__ = ("_waits", "_work")

    def __init__(self, work: Coroutine[Any, Any, _T], waits: Callable[[], None]) -> None:
        self._work, self._waits = work, waits

    def __await__(self) -> Generator[Any, Any, _T]:
        try:
            trap = self._work.send(None)
            while True:
                self._waits()
                # Without a name for what is sent: an error in it refers to this frame.
                trap = self._work.send((yield trap))
        except StopIteration as done:
            result: _T = done.value
            return result


def _head(lines: list[str], head: Head, keeps: bool) -> bytes:
    """The head of an answer from its lines."""
    if not keeps:
        lines.append("Connection: close")
    elif head.version == "1.0":
        lines.append("Connection: keep-alive")
    lines.append(_date_line())
    text = "\r\n".join(lines)
    if text.count("\n") >= len(lines) or text.count("\r") >= len(lines):
        text = "\r\n".join(line.replace("\r", " ").replace("\n", " ") for line in lines)
    return f"{text}\r\n\r\n".encode("utf-8", "replace")


_STATUS_LINES: dict[tuple[int, str], str] = {}


def _status_line(code: int, version: str) -> str:
    result = _STATUS_LINES.get((code, version))
    if result is None:
        result = _STATUS_LINES[code, version] = f"HTTP/{version} {code} {reason_phrase(code)}"
    return result


_date = (0, "")


def _date_line() -> str:
    global _date
    now_s = int(time.time())
    if _date[0] != now_s:
        _date = now_s, f"Date: {formatdate(now_s, usegmt=True)}"
    return _date[1]
