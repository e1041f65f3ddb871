"""One connection of the HTTP server: its handshake, its protocol, and all ways in which it ends.

A byte stream and an application become requests that are answered one after the other: by `direct`,
or for HTTP/2, upgrades and pages of Quart by `asgi`.

Holds: an exception ends only this connection, with one line in the log, and with an answer if none
was begun; a connection that its client has closed is closed at once, and its request is cancelled;
a complete answer leaves the connection usable, however long its last message took.

Mirrors  golang net/http server.go (conn.serve, Server.Shutdown), at go1.19.
"""

from __future__ import annotations

from collections.abc import Callable

import trio
from hypercorn.config import Config

from sim.errors import first_of
from sim.wire.accepting import log_failure
from sim.wire.http.fronts import http2
from sim.wire.http.fronts.asgi import App, Asgi
from sim.wire.http.fronts.direct import Answer, Direct
from sim.wire.http.fronts.http1 import Refused, refusal
from sim.wire.http.fronts.line import Line, Phase
from sim.wire.http.fronts.stream import GONE, NotEncrypted, Stream
from sim.wire.patience import within

HANDSHAKE_S = 10
# net/http server.go: what it writes to a client that speaks no TLS.
PLAIN_ANSWER = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"


class Connection(Line):
    """One client's connection."""

    def __init__(
        self,
        app: App,
        config: Config,
        stream: Stream,
        on_wait: Callable[[Line, str], None],
        answerer: Callable[[str], Answer | None] | None = None,
    ) -> None:
        """answerer: what answers requests of a path without ASGI; None if all are the app's"""
        super().__init__(stream, on_wait)
        self._app = app
        self._config = config
        self._answerer = answerer
        self._protocol: Direct | Asgi | None = None

    async def serve(self) -> None:
        """Serve until one side closes the connection.  Raises nothing."""
        try:
            code = await self._serve_guarded()
            if self.state is not Phase.GONE:
                self.move(Phase.CLOSING)
                refuses = code and self._protocol is not None and not self._protocol.answering
                await self.end_writing(refusal(code) if refuses else b"")
        finally:
            self.close()
            self.release()

    def leave(self) -> None:
        """See `Line`."""
        if isinstance(self._protocol, Asgi) and self._protocol.leave():
            self.leaving = True
        else:
            super().leave()

    def release(self) -> None:
        """Cut the references in circles."""
        super().release()
        if self._protocol is not None:
            self._protocol.release()
        self._protocol = None

    async def _serve_guarded(self) -> int:
        """Serve; returns the code of a last answer, 0 where there is none to give."""
        try:
            with self.scope:
                await self._serve()
            return self.refused
        except* Refused as refused:
            self.failed = first_of(refused).code
        except* GONE:
            self.lose()
        except* Exception as met:
            if not self.scope.cancel_called:
                log_failure(self.name(), met)
        return self.failed

    async def _serve(self) -> None:
        with within(HANDSHAKE_S) as handshake:
            try:
                await self.stream.handshake()
            except NotEncrypted:
                await self.stream.send_plain(PLAIN_ANSWER)
                return
        if handshake.cancelled_caught:
            self.lose()
            return
        client = str(self.stream.socket.getpeername()[0])
        self.wait_for_request()
        async with trio.open_nursery() as nursery:
            early: bytes | None = b""
            if self._answerer is not None and self.stream.protocol != http2.PROTOCOL:
                self._protocol = direct = Direct(self, self._answerer, nursery, client)
                try:
                    early = await direct.serve()
                except Refused as refused:
                    self.refused, early = refused.code, None
            if early is not None:
                if self._protocol is not None:
                    self._protocol.release()
                self._protocol = Asgi(self, self._app, self._config, nursery)
                await self._protocol.serve(early)
            self.scope.cancel()
