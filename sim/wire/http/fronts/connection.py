"""One connection of the HTTP server: TLS, reading ahead, writing, and all ways in which it ends.

A byte stream and an application become requests that are answered one after the other. One task
reads ahead of the present request, within bounds, so that the end of the stream is noticed at once;
one task feeds the protocol; the application runs in a task of its own.

Holds: an exception ends only this connection, with one line in the log, and with an answer if none
was begun; a connection that its client has closed is closed at once, and its request is cancelled;
a write that makes no progress for SEND_S ends the connection, even if the application is shielded
from cancellation; a complete answer leaves the connection usable, however long its last message
took; limits do not count the time in which this process was stopped.

Mirrors  golang net/http server.go (conn.serve, closeWriteAndWait), at go1.19.
Differs  a client that closes only its sending side counts as gone; Go serves the requests that it
         had sent before. Up to 24 MiB of a refused body are read for up to 60 s, and the connection
         stays open; Go reads 256 KiB and closes it.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import Enum
from functools import partial
from typing import Any

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState
from hypercorn.utils import parse_socket_addr

from sim.transitions import Transitions
from sim.wire.accepting import first_of, log_failure
from sim.wire.exchange import ASK, OPENED, PEER, SWITCH, WAIT, Response
from sim.wire.http.fronts import http2
from sim.wire.http.fronts.http1 import Http1, Refused, head_of, refusal
from sim.wire.http.fronts.http2 import Http2
from sim.wire.http.upgraded import Upgraded
from sim.wire.patience import Limit, within

HANDSHAKE_S = 10
KEEP_ALIVE_S = 120.0  # without a request, or within the head of one
# What a connection waits for: a request, or the rest of the body of each request that it has.
IDLE, STALLED = "idle", "stalled"
GRACE_S = 2  # for what is being sent when the server ends
SEND_S = 60.0  # for PIECE_BYTES to a client that does not read
LAST_SEND_S = 2  # for an answer that has begun, and for the refusal, before what is no request
LINGER_S = 0.5  # Go's rstAvoidanceDelay: for the client to read the answer to what was not all read
PIECE_BYTES = 1 << 16
RECEIVE_BYTES, AHEAD_MAX = 1 << 16, 2  # of one read; reads ahead of the protocol
# net/http server.go (tlsRecordHeaderLooksLikeHTTP) and what it writes to such a client.
HEAD_BYTES, PLAIN_HEADS = 5, (b"GET /", b"HEAD ", b"POST ", b"PUT /", b"OPTIO")
PLAIN_ANSWER = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
GONE = (trio.BrokenResourceError, trio.ClosedResourceError, OSError)
App = Callable[[Any, Any, Any], Awaitable[None]]
_Stream = trio.SSLStream[trio.SocketStream] | trio.SocketStream


class Phase(Enum):
    """The states of a connection.

    BUSY: it has requests
    STALLED: each of its requests waits for the rest of its body
    SWITCHED: an answer has changed the protocol, and uses the connection
    ENDING: the client sends no more, and there is no request
    CLOSING: a last answer is sent, and the client may read it
    GONE: nothing can be sent any more
    """

    HANDSHAKE = "handshake"
    IDLE = "idle"
    BUSY = "busy"
    STALLED = "stalled"
    SWITCHED = "switched"
    ENDING = "ending"
    CLOSING = "closing"
    GONE = "gone"


_CLOSED = "the client closes it, or the server chooses it to make room"
TRANSITIONS = Transitions(
    Phase.HANDSHAKE,
    {
        Phase.HANDSHAKE: {
            Phase.IDLE: "the handshake is done, or there is none",
            Phase.CLOSING: "the client speaks no TLS, and receives an answer that says so",
            Phase.GONE: "the handshake takes too long, or the client closes it",
        },
        Phase.IDLE: {
            Phase.BUSY: "a request begins",
            Phase.ENDING: "the client sends no more",
            Phase.CLOSING: "no request comes for too long, or the bytes are no request",
            Phase.GONE: _CLOSED,
        },
        Phase.BUSY: {
            Phase.IDLE: "the last request is answered",
            Phase.STALLED: "each request waits for the rest of its body",
            Phase.SWITCHED: "an answer changes the protocol",
            Phase.CLOSING: "the protocol ends it, or an exception was met",
            Phase.GONE: _CLOSED,
        },
        Phase.STALLED: {
            Phase.BUSY: "a body is complete, or another request begins",
            Phase.IDLE: "the last request is answered before its body is complete",
            Phase.CLOSING: "the protocol ends it, or an exception was met",
            Phase.GONE: _CLOSED,
        },
        Phase.SWITCHED: {Phase.CLOSING: "the answer has ended", Phase.GONE: _CLOSED},
        Phase.ENDING: {
            Phase.CLOSING: "what it sent before is fed to the protocol",
            Phase.GONE: "a request begins in what it sent before",
        },
        Phase.CLOSING: {Phase.GONE: "the client has read the answer, or takes too long"},
        Phase.GONE: {},
    },
)


class _Requests:
    """The requests of a connection that the application has.

    stalled: those that wait for the rest of their bodies
    quiet: set when the last one is over
    """

    __slots__ = ("count", "quiet", "stalled")

    def __init__(self) -> None:
        self.count = 0
        self.quiet = trio.Event()
        self.stalled: set[int] = set()

    def begin(self) -> None:
        """One more has begun."""
        if not self.count:
            self.quiet = trio.Event()
        self.count += 1

    def end(self) -> None:
        """One is over."""
        self.count -= 1
        if not self.count:
            self.quiet.set()

    @property
    def all_stalled(self) -> bool:
        """True if there are requests, and all are stalled."""
        return bool(self.stalled) and len(self.stalled) == self.count


# The states that follow from the requests, and what the owner knows the connection to wait for.
_OPEN = (Phase.HANDSHAKE, Phase.IDLE, Phase.BUSY, Phase.STALLED)
_WAITS = {Phase.HANDSHAKE: IDLE, Phase.IDLE: IDLE, Phase.STALLED: STALLED}


class Connection:
    """One client's connection. on_wait: called with what it waits for, IDLE or STALLED, or "" """

    def __init__(
        self, app: App, config: Config, stream: _Stream, on_wait: Callable[[Connection, str], None]
    ) -> None:
        self._app = app
        self._config = config
        self._stream = stream
        self._socket = stream.transport_stream if isinstance(stream, trio.SSLStream) else stream
        self._on_wait = on_wait
        self._scope = trio.CancelScope()
        self._limit = Limit(self._scope)
        self._state: Phase = TRANSITIONS.start
        self._requests = _Requests()
        self._lock = trio.Lock()  # of writes
        self._sending: within | None = None
        self._ending: Limit | None = None  # of all writes, when the server ends
        self._nursery: trio.Nursery | None = None
        self._protocol: Http1 | Http2 | None = None
        self._pieces: trio.MemorySendChannel[bytes] | None = None  # for the reader of the protocol
        self._ahead: trio.MemoryReceiveChannel[bytes] | None = None
        self._peer: bytes | None = None
        self._refusal_code = 0  # of the last answer, 0: there is none
        self._failure_code = 500  # the code of an exception: 400 where the client's bytes raised it

    async def serve(self) -> None:
        """Serve until one side closes the connection.  Raises nothing."""
        try:
            code = await self._serve_guarded()
            if self._state is not Phase.GONE:
                self._move(Phase.CLOSING)
                await self._close_write(code)
        finally:
            self._lose()
            self._socket.socket.close()
            self._release()

    def _release(self) -> None:
        """Cut the references in a circle between this connection, its TLS stream and its protocol.

        They would wait for a full garbage collection, which a served cluster does not make; TLS
        alone holds some 40 KiB.
        """
        self._limit.set(float("inf"))
        if self._ending is not None:
            self._ending.set(float("inf"))
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
            self._lose()
        except* Exception as met:
            if not self._scope.cancel_called:
                log_failure(self._name(), met)
            code = self._failure_code
        return code

    def close(self) -> None:
        """Closes it at once, in any state."""
        self._lose()
        self._scope.cancel()
        self._socket.socket.close()

    def limit_sending(self, seconds: float) -> None:
        """Let writes end within some seconds, also those that are shielded."""
        self._ending = Limit(trio.CancelScope())
        self._ending.set(seconds)
        if self._sending is not None:
            self._sending.shorten(seconds)

    def _name(self) -> str:
        try:
            return str(self._socket.socket.getpeername())
        except OSError:
            return "a client that has gone"

    # --- the life of it ---------------------------------------------------------------------------

    async def _serve(self) -> None:
        if isinstance(self._stream, trio.SSLStream):
            with within(HANDSHAKE_S) as handshake:
                # Peeked at: a client without TLS gets an answer that it can read.
                if (await self._socket.socket.recv(HEAD_BYTES, socket.MSG_PEEK)) in PLAIN_HEADS:
                    await self._socket.send_all(PLAIN_ANSWER)
                    return
                await self._stream.do_handshake()
            if handshake.cancelled_caught:
                self._lose()
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
                if self._protocol.answering and self._requests.count:
                    with within(LAST_SEND_S):  # the answer that has begun
                        await self._requests.quiet.wait()
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
                self.close()
                return
        if self._state is Phase.IDLE:
            self._move(Phase.ENDING)
        else:
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
            with within(LAST_SEND_S):
                try:
                    await self._stream.send_all(refusal(code))
                except GONE:
                    return
        with within(LINGER_S):
            try:
                await self._socket.send_eof()
                while await self._socket.receive_some(RECEIVE_BYTES):
                    pass  # a connection that is closed with bytes unread takes its answer back
            except GONE:
                return

    # --- what hypercorn's protocol asks of its connection -----------------------------------------

    async def _send(self, event: Event) -> None:
        if isinstance(event, RawData):
            with trio.CancelScope(shield=True):  # what is not written was not answered
                await self._lock.acquire()
            try:
                await self._write(event.data)
            finally:
                self._lock.release()
        elif isinstance(event, Closed):
            self._scope.cancel()
        elif isinstance(event, Updated):
            self._set_idle(event.idle)

    def _move(self, state: Phase) -> None:
        self._state = TRANSITIONS.move(self._state, state)

    def _lose(self) -> None:
        """Note that nothing can be sent any more."""
        if self._state is not Phase.GONE:
            self._move(Phase.GONE)

    def _set_idle(self, idle: bool) -> None:
        self._limit.set(KEEP_ALIVE_S if idle else float("inf"))
        if self._state in _OPEN:
            self._follow(idle)
        elif self._state in (Phase.ENDING, Phase.GONE) and not idle:
            self.close()

    def _note(self, request: int, stalled: bool) -> None:
        """Note that a request waits for the rest of its body, or that it does not."""
        waiting = self._requests.stalled
        (waiting.add if stalled else waiting.discard)(request)
        if self._state in (Phase.BUSY, Phase.STALLED):
            self._follow(idle=False)

    def _follow(self, idle: bool) -> None:
        """Pass to the state that follows from the requests, and notify the owner of a new wait."""
        before = self._state
        after = Phase.IDLE if idle else Phase.STALLED if self._requests.all_stalled else Phase.BUSY
        if after is before:
            return
        if after is Phase.STALLED and before is not Phase.BUSY:
            self._move(Phase.BUSY)
        self._move(after)
        if (waits_for := _WAITS.get(after, "")) != _WAITS.get(before, ""):
            self._on_wait(self, waits_for)

    async def _write(self, data: bytes) -> None:
        """Writes what an application sends, shielded from cancellation, which would leave half an
        answer.
        """
        view = memoryview(data)
        for begin in range(0, len(data), PIECE_BYTES):
            left_s = SEND_S if self._ending is None else min(SEND_S, self._ending.left_s)
            self._sending = within(left_s, shield=True)
            with self._sending as scope:
                try:
                    await self._stream.send_all(view[begin : begin + PIECE_BYTES])
                except GONE:
                    self.close()
            self._sending = None
            if scope.cancelled_caught:
                self.close()
            if self._state is Phase.GONE:
                return

    async def spawn_app(
        self, app: ASGIWrapper, _: Config, scope: Any, send: Callable[[Any], Awaitable[None]]
    ) -> Callable[[Any], Awaitable[None]]:
        """Run the application for one request; returns the function that takes the request's
        messages.
        """
        inbox = _Inbox(self._config.max_app_queue_size)

        async def run() -> None:
            try:
                await app(scope, inbox.receive, send, trio.to_thread.run_sync, trio.from_thread.run)
            finally:
                inbox.close()
            await send(None)

        self.spawn(run)
        return inbox.put

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

        if self._state is Phase.BUSY:
            self._move(Phase.SWITCHED)
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
            # keep-alive.  Writes have a limit of their own, and nothing else in it waits.
            last = message["type"] == "http.response.body" and not message.get("more_body", False)
            with trio.CancelScope(shield=last and isinstance(self._protocol, Http1)):
                await send(message)

        opened: list[Callable[[], None]] = []
        scope["extensions"] = {**(scope.get("extensions") or {}), PEER: self._peer, OPENED: opened}
        scope["extensions"][SWITCH] = self._switch
        scope["extensions"][WAIT] = partial(self._note, id(opened))
        if isinstance(self._protocol, Http1):
            scope["extensions"][ASK] = self._protocol.ask_for_body
        self._requests.begin()
        try:
            await self._app(scope, receive, last_shielded)
        finally:
            self._requests.end()
            self._note(id(opened), False)
            for close in opened:
                close()


class _Inbox:
    """The messages of one request on their way from the protocol to the application.

    Holds: the news that the client has gone is taken at once, and comes after what was before it;
    once the application has ended, nothing waits.
    """

    def __init__(self, most: int) -> None:
        self._put, self._take = trio.open_memory_channel[Any](most)
        self._last: Any = {"type": "http.disconnect"}

    async def put(self, message: Any) -> None:
        """Hand over a message; waits while there is no room."""
        if message["type"].endswith(".disconnect"):
            self._last = message
            self._put.close()
            return
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await self._put.send(message)

    async def receive(self) -> Any:
        """The next message."""
        try:
            return await self._take.receive()
        except trio.EndOfChannel:
            return self._last

    def close(self) -> None:
        """The application has ended."""
        self._take.close()


def _set_method(scope: Any, protocol: Http1 | Http2 | None) -> None:
    """Give the application the method as it was sent; hypercorn makes it upper-case."""
    if isinstance(protocol, Http1):
        scope["method"] = protocol.method
        return
    scope["method"] = next(value for name, value in scope["headers"] if name == http2.METHOD).decode()
    scope["headers"] = [pair for pair in scope["headers"] if pair[0] != http2.METHOD]
