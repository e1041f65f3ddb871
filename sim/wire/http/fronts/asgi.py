"""Requests that hypercorn's protocols read: HTTP/2, upgrades, WebSocket, and pages of Quart.

The bytes of a connection become requests of an ASGI application.  One task reads ahead of the
present request, within bounds, so that the end of the stream is noticed at once; one task feeds the
protocol; the application runs in a task of its own.

Holds: a client that has closed its connection is noticed at any time, and its requests are
cancelled.

Mirrors  golang net/http server.go (conn.serve), at go1.19.
Differs  a client that closes only its sending side counts as gone; Go serves the requests that it
         had sent before. Up to 24 MiB of a refused body are read for up to 60 s, and the connection
         stays open; Go reads 256 KiB and closes it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState
from hypercorn.utils import parse_socket_addr

from sim.wire.exchange import ASK, OPENED, PEER, SWITCH, WAIT, Response
from sim.wire.http.fronts import http2
from sim.wire.http.fronts.http1 import Http1, Refused, head_of
from sim.wire.http.fronts.http2 import Http2
from sim.wire.http.fronts.line import LAST_SEND_S, Line, Phase
from sim.wire.http.fronts.stream import GONE
from sim.wire.http.upgraded import Upgraded
from sim.wire.patience import within

AHEAD_MAX = 2  # reads ahead of the protocol
App = Callable[[Any, Any, Any], Awaitable[None]]


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


class Asgi:
    """The requests of one connection.  It is the TaskGroup of hypercorn's protocol, as far as that
    uses one.
    """

    def __init__(self, line: Line, app: App, config: Config, nursery: trio.Nursery) -> None:
        self._line, self._stream = line, line.stream
        self._app, self._config = app, config
        self._nursery = nursery
        self._requests = _Requests()
        self._is_over = False
        self._lock = trio.Lock()  # of writes
        self._pieces, self._ahead = trio.open_memory_channel[bytes](AHEAD_MAX)
        tasks: Any = self
        raw, is_http2 = self._stream.socket, self._stream.protocol == http2.PROTOCOL
        self._protocol: Http1 | Http2 = (Http2 if is_http2 else Http1)(
            ASGIWrapper(self._run_app), config, WorkerContext(None), tasks, ConnectionState({}),
            self._stream.is_encrypted, parse_socket_addr(raw.family, raw.getpeername()),
            parse_socket_addr(raw.family, raw.getsockname()), self._send,
        )  # fmt: skip

    @property
    def answering(self) -> bool:
        """True once an answer to the present request has begun."""
        return self._protocol.answering

    async def serve(self, early: bytes) -> None:
        """Serve until the connection can no longer be used.  early: what was read before"""
        if isinstance(self._protocol, Http2):
            await self._protocol.initiate()
        if early:
            self._pieces.send_nowait(early)
        self._nursery.start_soon(self._read, self._pieces)
        try:
            await self._feed()
        except Refused as refused:
            # Not out of the nursery: its group of exceptions refers to itself through frames.
            self._line.refused = refused.code
            if self.answering and self._requests.count:
                with within(LAST_SEND_S):  # the answer that has begun
                    await self._requests.quiet.wait()
        finally:
            self._is_over = True

    def release(self) -> None:
        """Cut the references in circles."""
        vars(self._protocol).clear()
        vars(self).clear()

    def leave(self) -> bool:
        """Let the client open no further stream; False if the protocol has no streams."""
        if not isinstance(self._protocol, Http2):
            return False
        if not self._is_over:
            self.spawn(self._protocol.leave)
        return True

    async def _read(self, pieces: trio.MemorySendChannel[bytes]) -> None:
        """Read until the client closes the connection."""
        async with pieces:
            try:
                while data := await self._stream.receive_some():
                    await self._pieces.send(data)
            except GONE:
                self._line.close()
                return
        if self._line.state is Phase.IDLE:
            self._line.move(Phase.ENDING)
        else:
            self._line.close()

    async def _feed(self) -> None:
        try:
            async for data in self._ahead:
                await self._protocol.handle(RawData(data))
            await self._protocol.handle(RawData(b""))
        except Exception:
            self._line.failed = 400
            raise

    # --- what hypercorn's protocol asks of its connection -----------------------------------------

    async def _send(self, event: Event) -> None:
        if isinstance(event, RawData):
            with trio.CancelScope(shield=True):  # what is not written was not answered
                await self._lock.acquire()
            try:
                await self._line.write(event.data)
            finally:
                self._lock.release()
        elif isinstance(event, Closed):
            self._line.scope.cancel()
        elif isinstance(event, Updated):
            if event.idle:
                self._line.wait_for_request()
            else:
                self._line.begin_request(stalled=self._requests.all_stalled)

    def _note(self, request: int, stalled: bool) -> None:
        """Note that a request waits for the rest of its body, or that it does not."""
        waiting = self._requests.stalled
        (waiting.add if stalled else waiting.discard)(request)
        if self._line.state in (Phase.BUSY, Phase.STALLED):
            self._line.begin_request(stalled=self._requests.all_stalled)

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
        self._nursery.start_soon(task, *arguments)

    async def _switch(self, response: Response) -> None:
        """Give the connection to an answer that changes the protocol, until it ends.

        From here on the HTTP protocol of this connection reads and writes nothing.
        """
        assert response.carry is not None
        assert isinstance(self._protocol, Http1)
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

        if self._line.state is Phase.BUSY:
            self._line.move(Phase.SWITCHED)
        self._protocol.answering = True
        await self._line.write(head_of(response.code, response.headers))
        await response.carry(from_client, self._line.write)
        self._line.scope.cancel()

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
        scope["extensions"] = {
            **(scope.get("extensions") or {}),
            PEER: self._stream.certificate,
            OPENED: opened,
        }
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
