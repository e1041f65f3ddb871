"""How an API server ends when it is asked to (SIGTERM).

Turns the signal into three times: at first it serves as ever and says only that it is not ready (--shutdown-delay-duration),
and takes its address out of the endpoints of all servers, for which it serves on;
then it takes no request any more, answers those in flight and goes on with its watches; when nothing is left, or after
--request-timeout, it ends, and the watches with it.  With --shutdown-send-retry-after it tells who comes meanwhile to try
again in 5 s, and waits only 2 s for its watches.

Holds: a request that was taken is answered; one that is not taken has done nothing.

Mirrors  kubernetes v1.25 apiserver pkg/server/genericapiserver.go (preparedGenericAPIServer.Run), secure_serving.go (RunServer),
         config.go (ShutdownTimeout), filters/with_retry_after.go; Go's net/http Server.Shutdown.
Differs  what is started with the server (it settles definitions, names of flows) goes on until it ends, upstream's ends with
         the signal; a client learns that its connection is closed for new requests (GOAWAY) when it sends the next, which
         goes to the next server then, as upstream's would on another connection.
"""

from __future__ import annotations

from collections.abc import Callable

from actors.apiserver.ports import EndingServer
from sim.api.types import Reply
from sim.kernel import Context
from sim.units import MS, SECOND

RETRY_S = 5  # with_retry_after.go
WATCHES_US = 2 * SECOND  # genericapiserver.go: shutdownTimeout with ShutdownSendRetryAfter
# A wait group wakes its waiter at once; a reply that was made takes less than that to be sent.
REQUESTS_US = 10 * MS
SHUTDOWN_US = 500 * MS  # net/http: shutdownPollIntervalMax
SHUTTING_DOWN = "The {} is shutting down, please try again later.\n"
REFUSED = Reply(0, lost="ConnectionRefused")


class Ending:
    """Of one incarnation.

    leave: takes the server's address out of the endpoints of all servers, and calls what it is given when that is done
    """

    def __init__(
        self, server: EndingServer, ctx: Context, leave: Callable[[Callable[[], None]], None]
    ) -> None:
        self._server = server
        self._ctx = ctx
        self._leave = leave
        self._open_for = 2  # how many still keep it open: the delay, and `leave`
        self._until_us = 0  # when it ends, whoever still watches; 0: not known yet

    def begin(self) -> None:
        """The signal has come."""
        self._server.ready = False
        self._leave(self._close)
        self._ctx.call_later_us(self._server.options.shutdown_delay_us, self._close)

    def _close(self, _: object = None) -> None:
        """No request is taken from now on, if the delay is over and the address is gone."""
        server, ctx = self._server, self._ctx
        self._open_for -= 1
        if self._open_for:
            return
        if server.options.sends_retry_after:
            text = SHUTTING_DOWN.format(server.scheme.names.component("apiserver"))
            server.turn_away(
                Reply(429, body=text, headers={"Connection": "close", "Retry-After": str(RETRY_S)})
            )
        else:
            server.turn_away(REFUSED)
            self._until_us = ctx.now_us() + server.options.request_timeout_us
        ctx.decided("close", server.name, {"requests": server.in_flight, "watches": server.watched})
        ctx.call_later_us(REQUESTS_US, self._look)

    def _look(self, _: object) -> None:
        """Is it over?"""
        server, now_us = self._server, self._ctx.now_us()
        if server.in_flight:
            self._ctx.call_later_us(REQUESTS_US, self._look)
            return
        self._until_us = self._until_us or now_us + WATCHES_US
        if server.watched and now_us < self._until_us:
            self._ctx.call_later_us(min(SHUTDOWN_US, self._until_us - now_us), self._look)
        else:
            self._ctx.exit("terminated")
