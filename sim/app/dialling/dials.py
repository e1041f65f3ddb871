"""The connections of an API server to programs of pods, for proxies and for webhooks.

A `StreamRequest` becomes a stream of bytes, and an `OutsideRequest` a request over the pod network
and then an `OutsideAnswer` with its answer or failure, in virtual time.

Holds: connections end with the API server's process; nothing of the pod network is imported before
the first one.

Mirrors  apiserver v1.25 pkg/util/webhook/client.go; golang net/http transport.go at go1.19.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING

from sim.api.crd.urls import parse_url
from sim.api.dialing import place_of
from sim.api.streams import StreamRequest
from sim.api.types import Reply
from sim.kernel import Context, OutsideAnswer, OutsideRequest
from sim.kernel.outside import DEADLINE_EXCEEDED, Arrived, failed
from sim.units import SECOND

if TYPE_CHECKING:
    from actors.node.programs.network.fabric import Network
    from actors.node.programs.waits import Wait
    from sim.app.dialling.backends import BackendStream


class Backends:
    """The connections of one API server.

    server: the API server's process; network: the sockets of its host
    """

    def __init__(self, server: Callable[[], Context], network: Callable[[], Network]) -> None:
        self._server, self._network = server, network
        self._streams: dict[BackendStream, None] = {}
        self._hooked: Context | None = None

    def dial(self, request: StreamRequest, failed: Callable[[str], Reply]) -> Reply:
        """A connection to the program that a request names.  failed: words what has gone wrong"""
        ctx = self._server()
        if ctx is not self._hooked:
            self._hooked = ctx
            ctx.on_stop(self._end)
        from sim.app.dialling.backends import BackendStream

        stream = BackendStream(ctx, self._network(), request, failed, self._left)
        self._streams[stream] = None
        return Reply(200, body="", stream=stream)

    def _left(self, stream: BackendStream) -> None:
        self._streams.pop(stream, None)

    def _end(self) -> None:
        """The API server's process ends."""
        for stream in tuple(self._streams):
            stream.stop()


class PodCalls:
    """The requests of one API server.

    has_programs: True for the address of a pod with simulated programs
    """

    def __init__(
        self,
        server: Callable[[], Context],
        network: Callable[[], Network],
        has_programs: Callable[[str], bool],
    ) -> None:
        """server: the API server's process; network: the sockets of its host"""
        self._server, self._network, self.has_programs = server, network, has_programs

    def send(self, request: OutsideRequest, arrived: Arrived) -> None:
        """Send a request; the answer arrives later."""
        from actors.node.programs.network.driving import Driven

        ctx = self._server()
        Driven(ctx, self._steps(ctx, request), arrived)

    def reach(self, address: tuple[str, int], timeout_us: int, done: Callable[[str], None]) -> None:
        """Connect to an address, and close the connection: "" or the text of the failure."""
        from actors.node.programs.network.dialer import DIAL_S, NotDialled, dialled
        from actors.node.programs.network.driving import Driven
        from actors.node.programs.network.sockets import Address

        ctx = self._server()
        kernel = ctx.kernel
        late_us = kernel.now_us + timeout_us
        until_us = min(late_us, kernel.now_us + DIAL_S * SECOND)

        def steps() -> Generator[Wait, None, str]:
            try:
                result = yield from dialled(
                    self._network(), Address(*address), lambda: kernel.now_us, until_us, None
                )
            except NotDialled as error:
                return DEADLINE_EXCEEDED if kernel.now_us >= late_us else str(error)
            result.close()
            return ""

        Driven(ctx, steps(), done)

    def _steps(self, ctx: Context, request: OutsideRequest) -> Generator[Wait, None, OutsideAnswer]:
        from actors.node.programs.network.client import NotAnswered, Place, ask
        from actors.node.programs.network.http import Request
        from actors.node.programs.network.sockets import Address
        from actors.node.programs.network.tls import Trust
        from sim.app.dialling.certificates import problem_of

        kernel, url = ctx.kernel, parse_url(request.url)
        begun_us = kernel.now_us
        until_us = begun_us + request.timeout_us
        host, port = place_of(url)
        place = Place(host, port, url.request_target, url.scheme == "https")
        verify = partial(problem_of, request.authorities, ctx.wall_us()) if request.verified else None
        sent = Request(request.method, place.path, (("Host", url.host), *request.headers), request.body)
        target = Address(*request.connect_to) if request.connect_to is not None else None
        try:
            result = yield from ask(
                self._network(), place, sent, lambda: kernel.now_us, until_us, Trust(host, verify), target
            )
        except NotAnswered as error:
            return failed(DEADLINE_EXCEEDED if kernel.now_us >= until_us else str(error))
        return OutsideAnswer(result.code, result.headers, result.body, took_us=kernel.now_us - begun_us)
