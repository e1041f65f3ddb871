"""The listener: TLS, client certificates, and how many connections there are.

Turns an application and certificates into a served address; `serve` runs until its task is
cancelled.

Holds: a client certificate is believed only after the TLS handshake verified it against the
server's own authority; there are never more connections than the bound: beyond it, the one that has
waited longest for a request is closed, and where all have a request, the newest; when `serve` is
cancelled, all sockets are closed within GRACE_S.

Mirrors  nothing upstream.
"""

from __future__ import annotations

import ssl
import sys
from contextlib import ExitStack
from typing import Any

import trio
from hypercorn.config import Config

from sim.wire.accepting import LOG, accept_connections
from sim.wire.descriptors import default_connections
from sim.wire.http.connection import GRACE_S, App, Connection
from sim.wire.http.http2 import STREAMS_MAX


def _config(streams_max: int) -> Config:
    config = Config()
    config.accesslog = None
    config.errorlog = None
    config.include_server_header = False
    config.h11_max_incomplete_size = 64 * 1024
    config.keep_alive_max_requests = sys.maxsize  # Go ends no connection for its number of requests
    config.h2_max_concurrent_streams = streams_max or STREAMS_MAX
    return config


class _Connections:
    """All that are open, up to a bound."""

    def __init__(
        self,
        app: App,
        context: ssl.SSLContext | None,
        nursery: trio.Nursery,
        most: int,
        streams_max: int,
    ) -> None:
        self._app = app
        self._config = _config(streams_max)
        self._context = context
        self._nursery = nursery
        self._most = most
        self._open: dict[Connection, None] = {}
        self._idle: dict[Connection, None] = {}  # those without a request, the longest first
        self._refusing = False

    def take(self, transport: trio.SocketStream) -> None:
        """Serve a connection, in place of an idle one if there are too many, or close it."""
        if len(self._open) >= self._most:
            if not self._idle:
                if not self._refusing:
                    LOG.error("a connection was refused: %d have requests (--max-connections)", self._most)
                self._refusing = True
                transport.socket.close()
                return
            oldest = next(iter(self._idle))
            self._remove(oldest)
            oldest.close()
        self._refusing = False
        stream: Any = transport
        if self._context is not None:
            stream = trio.SSLStream(transport, self._context, server_side=True, https_compatible=True)
        connection = Connection(self._app, self._config, stream, self._note)
        self._open[connection] = self._idle[connection] = None
        self._nursery.start_soon(self._serve, connection)

    def limit_sending(self, until: float) -> None:
        """Let all writes end at an instant of Trio's clock."""
        for connection in self._open:
            connection.limit_sending(until)

    async def _serve(self, connection: Connection) -> None:
        try:
            await connection.serve()
        finally:
            self._remove(connection)

    def _note(self, connection: Connection, idle: bool) -> None:
        self._idle.pop(connection, None)
        if idle and connection in self._open:
            self._idle[connection] = None

    def _remove(self, connection: Connection) -> None:
        self._open.pop(connection, None)
        self._idle.pop(connection, None)


async def serve(
    app: App,
    host: str,
    port: int,
    context: ssl.SSLContext | None,
    connections_max: int | None = None,
    streams_max: int = 0,
    *,
    task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Listen and serve; reports the port once listening.  Cancel it to stop.

    streams_max: requests at a time on one connection of HTTP/2; 0: upstream's default
    connections_max: open at a time; None: as many as the limit of descriptors leaves room for
    """
    most = default_connections() if connections_max is None else connections_max
    listeners = await trio.open_tcp_listeners(port, host=host)
    with ExitStack() as stack:
        for listener in listeners:
            stack.callback(listener.socket.close)
        async with trio.open_nursery() as nursery:
            connections = _Connections(app, context, nursery, most, streams_max)
            try:
                async with trio.open_nursery() as accepting:
                    for listener in listeners:
                        await accepting.start(accept_connections, listener, connections.take)
                    task_status.started(listeners[0].socket.getsockname()[1])
            finally:
                connections.limit_sending(trio.current_time() + GRACE_S)
                nursery.cancel_scope.cancel()
