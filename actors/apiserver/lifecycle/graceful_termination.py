"""Graceful termination of an API server after SIGTERM.

Termination has three phases.  First the server serves as before, reports that it is not ready for
--shutdown-delay-duration, and removes its address from the endpoints of the API servers.  Then it
accepts no new request, finishes those in flight and keeps its watches.  It ends, with its watches,
when no request and no watch is left, or after --request-timeout.  With --shutdown-send-retry-after
a new request in the second phase is refused with Retry-After: 5, and watches are kept for 2 s only.

Holds: an accepted request is answered; a refused request has no effect.

Mirrors  kubernetes v1.25 apiserver pkg/server/genericapiserver.go (preparedGenericAPIServer.Run),
         secure_serving.go (RunServer), config.go (ShutdownTimeout), filters/with_retry_after.go;
         Go's net/http Server.Shutdown.
Differs  - Controllers inside the server (definitions, flow control status) run until it ends;
           upstream's end with the signal.
         - A client observes that its connection is closed for new requests (GOAWAY) when it sends
           the next one, which then goes to the next server, as upstream's would on a new
           connection.
"""

from __future__ import annotations

from collections.abc import Callable

from actors.apiserver.ports import Server
from sim.api.types import Reply
from sim.kernel import Context
from sim.units import MS, SECOND

RETRY_S = 5  # with_retry_after.go
WATCHES_US = 2 * SECOND  # genericapiserver.go: shutdownTimeout with ShutdownSendRetryAfter
# A wait group wakes its waiter at once; sending a reply that exists takes less than this.
REQUESTS_US = 10 * MS
SHUTDOWN_US = 500 * MS  # net/http: shutdownPollIntervalMax
SHUTTING_DOWN = "The {} is shutting down, please try again later.\n"
REFUSED = Reply(0, lost="ConnectionRefused")


class Ending:
    """Termination of one incarnation.

    begun: True once it has begun
    away: the reply to every request that arrives from now on; None while requests are served
    """

    def __init__(self, server: Server, ctx: Context) -> None:
        self.begun = False
        self.away: Reply | None = None
        self._server = server
        self._ctx = ctx
        self._open_reasons = 2  # the delay and `leave` keep the server open
        self._until_us = 0  # when it ends although watches are open; 0: not decided yet

    def begin(self, leave: Callable[[Callable[[], None]], None]) -> None:
        """Start termination: the signal has arrived.

        leave: removes the server's address from the endpoints and then calls its argument
        """
        self.begun = True
        leave(self._close)
        self._ctx.call_later_us(self._server.options.shutdown_delay_us, self._close)

    def _close(self, _: object = None) -> None:
        """Refuse new requests, once the delay has passed and the address is removed."""
        server, ctx = self._server, self._ctx
        self._open_reasons -= 1
        if self._open_reasons:
            return
        if server.options.shutdown_send_retry_after:
            text = SHUTTING_DOWN.format(server.scheme.names.component("apiserver"))
            self.away = Reply(429, body=text, headers={"Connection": "close", "Retry-After": str(RETRY_S)})
        else:
            self.away = REFUSED
            self._until_us = ctx.now_us() + server.options.request_timeout_us
        server.rebound()
        ctx.decided("close", server.name, {"requests": server.in_flight, "watches": server.watched})
        ctx.call_later_us(REQUESTS_US, self._check_end)

    def _check_end(self, _: object) -> None:
        """Exit if no request and no watch is left, or the time for watches is over."""
        server, now_us = self._server, self._ctx.now_us()
        if server.in_flight:
            self._ctx.call_later_us(REQUESTS_US, self._check_end)
            return
        self._until_us = self._until_us or now_us + WATCHES_US
        if server.watched and now_us < self._until_us:
            self._ctx.call_later_us(min(SHUTDOWN_US, self._until_us - now_us), self._check_end)
        else:
            server.end_audit()
            self._ctx.exit("terminated")
