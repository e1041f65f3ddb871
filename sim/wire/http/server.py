"""The listener: TLS, client certificates, hypercorn's connections.

Turns an application and certificates into a served address; `serve` runs until its task is cancelled.

Holds: a client certificate is believed only after the TLS handshake verified it against the server's own authority.

Mirrors  nothing upstream.
Differs  HTTP/1.1 only: hypercorn's HTTP/2 answers at two thirds of the rate.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState

from sim.wire.http.access import Certificate, subject
from sim.wire.http.app import OPENED, PEER
from sim.wire.http.upgraded import Upgraded

HANDSHAKE_S = 10
GRACE_S = 2
LAST_SEND_S = 5  # for a client that does not read
_App = Callable[[Any, Any, Any], Awaitable[None]]


def _config() -> Config:
    config = Config()
    config.accesslog = None
    config.errorlog = None
    config.keep_alive_timeout = 120.0
    config.graceful_timeout = GRACE_S
    config.include_server_header = False
    config.h11_max_incomplete_size = 64 * 1024
    return config


class _Connection:
    """The application as one connection sees it."""

    def __init__(self, app: _App, peer: Certificate | None) -> None:
        self._app = app
        self._peer = peer

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            upgraded = Upgraded(scope, receive, send)
            scope, receive, send = upgraded.scope, upgraded.receive, upgraded.send

        async def last_shielded(message: Any) -> None:
            # quart-trio cancels its nursery in the midst of the last send; hypercorn then forgets keep-alive
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                with trio.move_on_after(LAST_SEND_S, shield=True):
                    await send(message)
            else:
                await send(message)

        opened: list[Callable[[], None]] = []
        scope["extensions"] = {**(scope.get("extensions") or {}), PEER: self._peer, OPENED: opened}
        try:
            await self._app(scope, receive, last_shielded)
        finally:
            for close in opened:
                close()


async def _serve_stream(app: _App, config: Config, context: WorkerContext, stream: Any) -> None:
    peer = None
    if isinstance(stream, trio.SSLStream):
        try:
            with trio.fail_after(HANDSHAKE_S):
                await stream.do_handshake()
        except (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
            await trio.aclose_forcefully(stream)
            return
        peer = subject(stream.getpeercert())
    wrapped = ASGIWrapper(_Connection(app, peer))
    await TCPServer(wrapped, config, context, ConnectionState({}), stream)


async def serve(
    app: _App,
    host: str,
    port: int,
    context: ssl.SSLContext | None,
    *,
    task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Listen and serve; reports the port once listening.  Cancel it to stop."""
    worker = WorkerContext(None)
    listeners: list[Any] = list(await trio.open_tcp_listeners(port, host=host))
    actual = listeners[0].socket.getsockname()[1]
    if context is not None:
        listeners = [trio.SSLListener(listener, context, https_compatible=True) for listener in listeners]
    async with trio.open_nursery() as connections:
        try:
            handler = partial(_serve_stream, app, _config(), worker)
            task_status.started(actual)
            await trio.serve_listeners(handler, listeners, handler_nursery=connections)
        finally:
            await worker.terminated.set()
            connections.cancel_scope.cancel()
