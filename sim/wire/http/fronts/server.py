"""The listener: TLS, client certificates, and how many connections there are.

Turns an application and certificates into a served address; `serve` runs until its task is
cancelled.

Holds: a client certificate is believed only after the TLS handshake verified it against the
server's own authority; there are never more connections than the bound: beyond it, one that waits
for its client is closed, first one that waits for the rest of a body, then the one that has been
without a request for longest, and of the address that holds most; where all have requests, the
newest of an address that holds more than its share gives way to another address, and otherwise the
new one is closed; when `serve` is cancelled, all sockets are closed within GRACE_S.

Mirrors  nothing upstream.
"""

from __future__ import annotations

import ssl
import sys
from collections.abc import Sequence
from contextlib import ExitStack

import trio
from hypercorn.config import Config

from sim.wire.accepting import LOG, accept_connections
from sim.wire.descriptors import default_connections
from sim.wire.http.app import Application
from sim.wire.http.fronts.asgi import App
from sim.wire.http.fronts.connection import Connection
from sim.wire.http.fronts.http2 import STREAMS_MAX
from sim.wire.http.fronts.line import GRACE_S, IDLE, STALLED, Line
from sim.wire.http.fronts.stream import Stream


def _config(streams_max: int) -> Config:
    config = Config()
    config.accesslog = None
    config.errorlog = None
    config.include_server_header = False
    config.h11_max_incomplete_size = 64 * 1024
    config.keep_alive_max_requests = sys.maxsize  # Go ends no connection for its number of requests
    config.h2_max_concurrent_streams = streams_max or STREAMS_MAX
    config.max_app_queue_size = 1  # the body of a request waits in the socket until it is wanted
    return config


class _Held:
    """The connections of one address, the oldest first, and those that wait, the longest first."""

    def __init__(self) -> None:
        self.open: dict[Line, None] = {}
        self._stalled: dict[Line, None] = {}
        self._idle: dict[Line, None] = {}
        self.waiting = {STALLED: self._stalled, IDLE: self._idle}

    def note(self, connection: Line, waits_for: str) -> None:
        """Note what a connection waits for; "" for nothing."""
        if connection in self.open:
            self._stalled.pop(connection, None)
            self._idle.pop(connection, None)
            if waits_for:
                self.waiting[waits_for][connection] = None

    def remove(self, connection: Line) -> None:
        """Forget a connection."""
        self.note(connection, "")
        del self.open[connection]


class _Connections:
    """All that are open, up to a bound."""

    def __init__(
        self,
        app: App,
        context: ssl.SSLContext | None,
        nursery: trio.Nursery,
        most: int,
        streams_max: int,
        direct: bool,
    ) -> None:
        self._app = app
        self._answerer = app.answerer if direct and isinstance(app, Application) else None
        self._config = _config(streams_max)
        self._context = context
        self._nursery = nursery
        self._most = most
        self._open: dict[Line, str] = {}  # with their addresses
        self._held: dict[str, _Held] = {}  # by address
        self._refusing = False
        self._closed = trio.Event()  # set at the end of the next connection

    def take(self, transport: trio.SocketStream) -> None:
        """Serve a connection, in place of another one if there are too many, or close it."""
        address = _address_of(transport)
        if len(self._open) >= self._most:
            other = self._waiting() or self._of_the_greatest(address)
            if other is None:
                if not self._refusing:
                    LOG.error("a connection was refused: %d have requests (--max-connections)", self._most)
                self._refusing = True
                transport.socket.close()
                return
            self._remove(other)
            other.close()
        self._refusing = False
        stream = Stream(transport.socket, self._context)
        current = self._held.setdefault(address, _Held())
        connection = Connection(self._app, self._config, stream, current.note, self._answerer)
        self._open[connection] = address
        current.open[connection] = None
        current.note(connection, IDLE)
        self._nursery.start_soon(self._serve, connection)

    def _waiting(self) -> Line | None:
        """The connection that waits for its client, and can be done without most easily."""
        for waits_for in (STALLED, IDLE):
            those = [held for held in self._held.values() if held.waiting[waits_for]]
            if those:
                return next(iter(max(those, key=lambda held: len(held.open)).waiting[waits_for]))
        return None

    def _of_the_greatest(self, address: str) -> Line | None:
        """The newest connection of the address that holds most, if that is more than its share, and
        a new connection of another address is within its own.
        """
        own = self._held.get(address, _Held())
        share = self._most / len({*self._held, address})
        greatest = max(self._held.values(), key=lambda held: len(held.open))
        if len(greatest.open) > share and len(own.open) < share:
            return next(reversed(greatest.open))
        return None

    async def drain(self) -> None:
        """Close what waits for a request, and wait for the end of all others."""
        for connection in [*self._open]:
            connection.leave()
        while self._open:
            await self._closed.wait()

    def limit_sending(self, seconds: float) -> None:
        """Let all writes end within some seconds."""
        for connection in self._open:
            connection.limit_sending(seconds)

    async def _serve(self, connection: Connection) -> None:
        try:
            await connection.serve()
        finally:
            self._remove(connection)

    def _remove(self, connection: Line) -> None:
        address = self._open.pop(connection, None)
        if address is not None:
            self._closed.set()
            self._closed = trio.Event()
            current = self._held[address]
            current.remove(connection)
            if not current.open:
                del self._held[address]


def _address_of(transport: trio.SocketStream) -> str:
    """The address of a client without its port, "" if it has gone."""
    try:
        return str(transport.socket.getpeername()[0])
    except OSError:
        return ""


async def serve(
    app: App,
    host: str,
    port: int,
    context: ssl.SSLContext | None,
    connections_max: int | None = None,
    streams_max: int = 0,
    *,
    direct: bool = True,
    task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Listen and serve; reports the port once listening.  Cancel it to stop.

    streams_max: requests at a time on one connection of HTTP/2; 0: upstream's default
    connections_max: open at a time; None: as many as the limit of descriptors leaves room for
    direct: read HTTP/1.1 without hypercorn where that is possible
    """
    listeners = await trio.open_tcp_listeners(port, host=host)
    await serve_at(
        app, listeners, context, connections_max, streams_max, direct=direct, task_status=task_status
    )


async def serve_at(
    app: App,
    listeners: Sequence[trio.SocketListener],
    context: ssl.SSLContext | None,
    connections_max: int | None = None,
    streams_max: int = 0,
    *,
    direct: bool = True,
    drain: trio.Event | None = None,
    task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED,
) -> None:
    """As `serve` at listeners that are open already, for a caller that has to know the port before
    it has the application; they are closed at the end.

    drain: once it is set, no connection is accepted, and those that are open end with the answers
        to their requests; this returns after the last one
    """
    most = default_connections() if connections_max is None else connections_max
    with ExitStack() as stack:
        for listener in listeners:
            stack.callback(listener.socket.close)
        async with trio.open_nursery() as nursery:
            connections = _Connections(app, context, nursery, most, streams_max, direct)
            try:
                async with trio.open_nursery() as accepting:
                    for listener in listeners:
                        await accepting.start(accept_connections, listener, connections.take)
                    task_status.started(listeners[0].socket.getsockname()[1])
                    if drain is not None:
                        await drain.wait()
                        accepting.cancel_scope.cancel()
                for listener in listeners:
                    listener.socket.close()
                await connections.drain()
            finally:
                connections.limit_sending(GRACE_S)
                nursery.cancel_scope.cancel()
