"""One connection of the HTTP server: TLS, reading ahead, writing, and all ways in which it ends.

A byte stream and an application become requests that are answered one after the other. One task
reads ahead of the present request, within bounds, so that the end of the stream is noticed at once;
one task feeds the protocol; the application runs in a task of its own.

Holds: an exception ends only this connection, with one line in the log, and with an answer if none
was begun; a connection that its client has closed is closed at once, and its request is cancelled;
a write that makes no progress for SEND_S ends the connection, even if the application is shielded
from cancellation.

Mirrors  golang net/http server.go (conn.serve, closeWriteAndWait), at go1.19.
Differs  a client that closes only its sending side counts as gone; Go serves the requests that it
         had sent before.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from typing import Any

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState
from hypercorn.utils import parse_socket_addr

from sim.wire.accepting import first_of, log_failure
from sim.wire.http import http2
from sim.wire.http.app import OPENED, PEER
from sim.wire.http.exchange import SWITCH, Response
from sim.wire.http.http1 import Http1, Refused, head_of, refusal
from sim.wire.http.http2 import Http2
from sim.wire.http.upgraded import Upgraded

HANDSHAKE_S = 10
KEEP_ALIVE_S = 120.0  # without a request, or within the head of one
GRACE_S = 2  # for what is being sent when the server ends
SEND_S = 60.0  # for PIECE_BYTES to a client that does not read
LAST_SEND_S = 2  # for the rest of an answer after the end of its request
LINGER_S = 0.5  # Go's rstAvoidanceDelay: for the client to read the answer to what was not all read
PIECE_BYTES = 1 << 18
RECEIVE_BYTES, AHEAD_MAX = 1 << 16, 4  # of one read; reads ahead of the protocol
# net/http server.go (tlsRecordHeaderLooksLikeHTTP) and what it writes to such a client.
HEAD_BYTES, PLAIN_HEADS = 5, (b"GET /", b"HEAD ", b"POST ", b"PUT /", b"OPTIO")
PLAIN_ANSWER = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
GONE = (trio.BrokenResourceError, trio.ClosedResourceError, OSError)
App = Callable[[Any, Any, Any], Awaitable[None]]
_Stream = trio.SSLStream[trio.SocketStream] | trio.SocketStream


class Connection:
    """One client's connection. on_idle: called with True when it waits for a request, with False
    otherwise.
    """

    def __init__(
        self, app: App, config: Config, stream: _Stream, on_idle: Callable[[Connection, bool], None]
    ) -> None:
        self._app = app
        self._config = config
        self._stream = stream
        self._socket = stream.transport_stream if isinstance(stream, trio.SSLStream) else stream
        self._on_idle = on_idle
        self._scope = trio.CancelScope()
        self._lock = trio.Lock()  # of writes
        self._sending: trio.CancelScope | None = None
        self._send_until = float("inf")
        self._nursery: trio.Nursery | None = None
        self._protocol: Http1 | Http2 | None = None
        self._pieces: trio.MemorySendChannel[bytes] | None = None  # for the reader of the protocol
        self._ahead: trio.MemoryReceiveChannel[bytes] | None = None
        self._peer: bytes | None = None
        self._idle = True
        self._ended = False  # the client sends no more
        self._gone = False  # nothing can be sent any more
        self._refusal_code = 0  # of the last answer, 0: there is none
        self._failure_code = 500  # the code of an exception: 400 where the client's bytes raised it

    async def serve(self) -> None:
        """Serve until one side closes the connection.  Raises nothing."""
        try:
            code = await self._serve_guarded()
            if not self._gone:
                await self._close_write(code)
        finally:
            self._socket.socket.close()
            self._release()

    def _release(self) -> None:
        """Cut the references in a circle between this connection, its TLS stream and its protocol.

        They would wait for a full garbage collection, which a served cluster does not make; TLS
        alone holds some 40 KiB.
        """
        for part in (self._stream, self._protocol):
            if part is not None and part is not self._socket:
                vars(part).clear()
        self._protocol = self._nursery = self._pieces = self._ahead = None

    async def _serve_guarded(self) -> int:
        """Serve; returns the code of a last answer, 0 where there is none to give."""
        code = 0
        try:
            with self._scope:
                await self._serve()
            code = self._refusal_code
        except* Refused as refused:
            code = first_of(refused).code
        except* GONE:
            self._gone = True
        except* Exception as met:
            if not self._scope.cancel_called:
                log_failure(self._name(), met)
            code = self._failure_code
        return code

    def close(self) -> None:
        """Closes it at once, in any state."""
        self._gone = True
        self._scope.cancel()
        self._socket.socket.close()

    def limit_sending(self, until: float) -> None:
        """Let writes end at an instant of Trio's clock, also those that are shielded."""
        self._send_until = until
        if self._sending is not None:
            self._sending.deadline = min(self._sending.deadline, until)

    def _name(self) -> str:
        try:
            return str(self._socket.socket.getpeername())
        except OSError:
            return "a client that has gone"

    # --- the life of it ---------------------------------------------------------------------------

    async def _serve(self) -> None:
        if isinstance(self._stream, trio.SSLStream):
            with trio.move_on_after(HANDSHAKE_S) as handshake:
                # Peeked at: a client without TLS gets an answer that it can read.
                if (await self._socket.socket.recv(HEAD_BYTES, socket.MSG_PEEK)) in PLAIN_HEADS:
                    await self._socket.send_all(PLAIN_ANSWER)
                    return
                await self._stream.do_handshake()
            if handshake.cancelled_caught:
                self._gone = True
                return
            self._peer = self._stream.getpeercert(True)
        raw = self._socket.socket
        client = parse_socket_addr(raw.family, raw.getpeername())
        server = parse_socket_addr(raw.family, raw.getsockname())
        self._set_idle(True)
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            tasks: Any = self  # hypercorn's TaskGroup, as far as its protocol uses one
            kind = Http2 if self._speaks_http2() else Http1
            self._protocol = kind(
                ASGIWrapper(self._run_app), self._config, WorkerContext(None), tasks, ConnectionState({}),
                isinstance(self._stream, trio.SSLStream), client, server, self._send,
            )  # fmt: skip
            pieces, ahead = trio.open_memory_channel[bytes](AHEAD_MAX)
            if isinstance(self._protocol, Http2):
                await self._protocol.initiate()
            self._pieces, self._ahead = pieces, ahead
            nursery.start_soon(self._read, pieces)
            try:
                await self._feed(ahead, self._protocol)
            except Refused as refused:
                # Not out of the nursery: its group of exceptions refers to itself through frames.
                self._refusal_code = refused.code
            self._scope.cancel()

    def _speaks_http2(self) -> bool:
        """True if the client chose HTTP/2 during the handshake."""
        stream = self._stream
        return isinstance(stream, trio.SSLStream) and stream.selected_alpn_protocol() == http2.PROTOCOL

    async def _read(self, pieces: trio.MemorySendChannel[bytes]) -> None:
        """Read until the client closes the connection."""
        async with pieces:
            try:
                while data := await self._stream.receive_some(RECEIVE_BYTES):
                    assert self._pieces is not None
                    await self._pieces.send(bytes(data))
            except GONE:
                self._gone = True
        self._ended = True
        if not self._idle:
            self.close()

    async def _feed(self, pieces: trio.MemoryReceiveChannel[bytes], protocol: Http1 | Http2) -> None:
        try:
            async for data in pieces:
                await protocol.handle(RawData(data))
            await protocol.handle(RawData(b""))
        except Exception:
            self._failure_code = 400
            raise

    async def _close_write(self, code: int) -> None:
        """Send a last answer, if none was begun, and wait for the client to read it."""
        if code and self._protocol is not None and not self._protocol.answering:
            with trio.move_on_after(LAST_SEND_S):
                try:
                    await self._stream.send_all(refusal(code))
                except GONE:
                    return
        with trio.move_on_after(LINGER_S):
            try:
                await self._socket.send_eof()
                while await self._socket.receive_some(RECEIVE_BYTES):
                    pass  # a connection that is closed with bytes unread takes its answer back
            except GONE:
                return

    # --- what hypercorn's protocol asks of its connection -----------------------------------------

    async def _send(self, event: Event) -> None:
        if isinstance(event, RawData):
            async with self._lock:
                await self._write(event.data)
        elif isinstance(event, Closed):
            self._scope.cancel()
        elif isinstance(event, Updated):
            self._set_idle(event.idle)

    def _set_idle(self, idle: bool) -> None:
        self._idle = idle
        self._scope.deadline = trio.current_time() + KEEP_ALIVE_S if idle else float("inf")
        self._on_idle(self, idle)
        if self._ended and not idle:
            self.close()

    async def _write(self, data: bytes) -> None:
        """Writes what an application sends, shielded from cancellation, which would leave half an
        answer.
        """
        view = memoryview(data)
        for begin in range(0, len(data), PIECE_BYTES):
            until = min(trio.current_time() + SEND_S, self._send_until)
            with trio.CancelScope(deadline=until, shield=True) as self._sending:
                try:
                    await self._stream.send_all(view[begin : begin + PIECE_BYTES])
                except GONE:
                    self.close()
            scope, self._sending = self._sending, None
            if scope.cancelled_caught:
                self.close()
            if self._gone:
                return

    async def spawn_app(
        self, app: ASGIWrapper, _: Config, scope: Any, send: Callable[[Any], Awaitable[None]]
    ) -> Callable[[Any], Awaitable[None]]:
        """Run the application for one request; returns the function that takes the request's
        messages.
        """
        put, take = trio.open_memory_channel[Any](self._config.max_app_queue_size)

        async def run() -> None:
            await app(scope, take.receive, send, trio.to_thread.run_sync, trio.from_thread.run)
            await send(None)

        self.spawn(run)
        return put.send

    def spawn(self, task: Callable[..., Awaitable[Any]], *arguments: Any) -> None:
        """Start a task that ends with the connection."""
        assert self._nursery is not None
        self._nursery.start_soon(task, *arguments)

    async def _switch(self, response: Response) -> None:
        """Give the connection to an answer that changes the protocol, until it ends.

        From here on the HTTP protocol of this connection reads and writes nothing.
        """
        assert response.carry is not None
        assert isinstance(self._protocol, Http1)
        assert self._ahead is not None
        put, take = trio.open_memory_channel[bytes](AHEAD_MAX)
        early = bytes(self._protocol.connection.trailing_data[0])
        while self._ahead.statistics().current_buffer_used:
            early += self._ahead.receive_nowait()
        self._pieces = put

        async def from_client() -> bytes:
            nonlocal early
            if early:
                data, early = early, b""
                return data
            return await take.receive()

        self._protocol.answering = True
        await self._write(head_of(response.code, response.headers))
        await response.carry(from_client, self._write)
        self._scope.cancel()

    # --- the application --------------------------------------------------------------------------

    async def _run_app(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            upgraded = Upgraded(scope, receive, send)
            scope, receive, send = upgraded.scope, upgraded.receive, upgraded.send
        else:
            _set_method(scope, self._protocol)

        async def last_shielded(message: Any) -> None:
            # The application cancels its nursery during the last send; hypercorn then forgets
            # keep-alive.
            last = message["type"] == "http.response.body" and not message.get("more_body", False)
            if last and isinstance(self._protocol, Http1):
                with trio.move_on_after(LAST_SEND_S, shield=True) as sending:
                    await send(message)
                if sending.cancelled_caught:
                    self._scope.cancel()
            else:
                await send(message)

        opened: list[Callable[[], None]] = []
        scope["extensions"] = {**(scope.get("extensions") or {}), PEER: self._peer, OPENED: opened}
        scope["extensions"][SWITCH] = self._switch
        try:
            await self._app(scope, receive, last_shielded)
        finally:
            for close in opened:
                close()


def _set_method(scope: Any, protocol: Http1 | Http2 | None) -> None:
    """Give the application the method as it was sent; hypercorn makes it upper-case."""
    if isinstance(protocol, Http1):
        scope["method"] = protocol.method
        return
    scope["method"] = next(value for name, value in scope["headers"] if name == http2.METHOD).decode()
    scope["headers"] = [pair for pair in scope["headers"] if pair[0] != http2.METHOD]
