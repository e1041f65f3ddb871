"""Requests that are passed through to a server outside, and its answers as they come.

Turns an `OutsideRequest` into one HTTP/1.1 request on a connection of its own, and the server's
answer into a code, headers and parts of a body; after a change of the protocol (WebSocket, SPDY)
bytes are carried in both directions.

Holds: nothing here affects the simulation, so that no part of it is in the journal; an answer of
any length is never kept as a whole; a connection is closed with its request.

Mirrors  apimachinery v1.25 pkg/util/proxy/upgradeaware.go (ServeHTTP, tryUpgrade).
Differs  a connection serves one request; Go's client keeps connections open.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from http import HTTPStatus
from math import inf
from typing import Any
from urllib.parse import urlsplit

import h11
import trio

from sim.api.aggregation.delegation import NOT_REACHED, answered_headers
from sim.api.auth.attributes import AccessAttributes
from sim.kernel import OutsideRequest
from sim.wire.http.exchange import Response
from sim.wire.outside import HTTPS_PORT, context_of, failure_of

RECEIVE_BYTES = 1 << 16
HEAD_MAX = 1 << 20  # bytes of the head of an answer: http.DefaultMaxHeaderBytes
DIAL_S = 30.0  # net.Dialer of the API server
REDIRECTED = "the backend attempted to redirect this request, which is not permitted"
_LONG_SUBRESOURCES = ("attach", "exec", "proxy", "log", "portforward")
_BROKEN = (trio.BrokenResourceError, trio.ClosedResourceError, OSError, h11.RemoteProtocolError)


class NotReached(Exception):
    """The server gave no answer.  The text is what Go's client reports."""


class Passage:
    """One request that was sent, and its answer as it comes.

    code, headers: of the answer
    """

    def __init__(self, stream: trio.SSLStream[trio.SocketStream], deadline: float) -> None:
        self.code = 0
        self.headers: list[tuple[str, str]] = []
        self._stream, self._deadline = stream, deadline
        self._protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_MAX)

    def close(self) -> None:
        """Close the connection at once."""
        self._stream.transport_stream.socket.close()

    async def ask(self, request: OutsideRequest) -> None:
        """Send the request and read the head of its answer.  Raises an error of the connection."""
        parts = urlsplit(request.url)
        headers = [("Host", parts.netloc), *request.headers]
        if request.body or request.method in ("POST", "PUT", "PATCH"):
            headers.append(("Content-Length", str(len(request.body))))
        raw = [(name.encode("latin1"), value.encode("latin1", "replace")) for name, value in headers]
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        sent = h11.Request(method=request.method, target=target.encode("latin1"), headers=raw)
        events = (sent, h11.Data(data=request.body), h11.EndOfMessage())
        await self._stream.send_all(b"".join(self._protocol.send(event) or b"" for event in events))
        while True:
            event = await self._next()
            if isinstance(event, h11.Response) or self._is_switched:
                break
            if isinstance(event, h11.ConnectionClosed):
                raise trio.BrokenResourceError
        self.code = event.status_code
        self.headers = [
            (name.decode("latin1"), value.decode("latin1")) for name, value in event.headers.raw_items()
        ]

    @property
    def _is_switched(self) -> bool:
        return self._protocol.their_state is h11.SWITCHED_PROTOCOL

    async def _next(self) -> Any:
        """The next event of the answer."""
        while (event := self._protocol.next_event()) is h11.NEED_DATA:
            self._protocol.receive_data(bytes(await self._stream.receive_some(RECEIVE_BYTES)))
        return event

    async def parts(self) -> AsyncGenerator[bytes, None]:
        """The body as it comes; the connection is closed at its end.

        An answer that breaks off before its end raises, so that its client does not take it for a
        whole one.
        """
        try:
            while True:
                with trio.fail_at(self._deadline):
                    event = await self._next()
                if isinstance(event, h11.Data):
                    yield bytes(event.data)
                else:
                    return
        finally:
            self.close()

    async def carry(
        self,
        from_client: Callable[[], Awaitable[bytes]],
        to_client: Callable[[bytes], Awaitable[None]],
    ) -> None:
        """Carry bytes in both directions until one side closes.

        from_client: reads; b"" once the client has closed
        """
        async with trio.open_nursery() as nursery:

            async def up() -> None:
                try:
                    while data := await from_client():
                        await self._stream.send_all(data)
                except _BROKEN:
                    pass
                nursery.cancel_scope.cancel()

            nursery.start_soon(up)
            try:
                data = bytes(self._protocol.trailing_data[0])
                while data or (data := bytes(await self._stream.receive_some(RECEIVE_BYTES))):
                    await to_client(data)
                    data = b""
            except _BROKEN:
                pass
            nursery.cancel_scope.cancel()


async def open_passage(request: OutsideRequest, limit_s: float = inf) -> Passage:
    """Send a request and read the head of its answer.  Raises NotReached.

    limit_s: real seconds for the whole answer
    """
    deadline = trio.current_time() + limit_s
    try:
        with trio.fail_at(deadline):
            passage = Passage(await _connected(request), deadline)
            try:
                await passage.ask(request)
            except BaseException:
                passage.close()
                raise
    except trio.TooSlowError:
        raise NotReached("context deadline exceeded") from None
    except (*_BROKEN, ssl.SSLError, ValueError) as error:
        raise NotReached(failure_of(error, request)) from None
    return passage


async def _connected(request: OutsideRequest) -> trio.SSLStream[trio.SocketStream]:
    parts = urlsplit(request.url)
    name = parts.hostname or ""
    host, port = request.connect_to or (name, parts.port or HTTPS_PORT)
    with trio.fail_after(DIAL_S):
        context = context_of(request.authorities, request.client_pair, verified=request.verified)
        tcp = await trio.open_tcp_stream(host, port)
        stream = trio.SSLStream(tcp, context, server_hostname=name, https_compatible=True)
        try:
            await stream.do_handshake()
        except BaseException:
            tcp.socket.close()
            raise
    return stream


async def passed_through(
    request: OutsideRequest, limit_s: float, opened: Callable[[Callable[[], None]], None], *, upgrades: bool
) -> Response:
    """The answer of a server outside, for the client that sent the request.

    limit_s: real seconds for the whole answer
    opened: takes what is to be closed at the end of the client's request
    upgrades: True if the client asks for another protocol
    """
    try:
        passage = await open_passage(request, limit_s)
    except NotReached as error:
        return refused(f"error dialing backend: {error}" if upgrades else f"{NOT_REACHED}: {error}")
    opened(passage.close)
    code = passage.code
    if code == HTTPStatus.SWITCHING_PROTOCOLS:
        return Response(code, b"", passage.headers, carry=passage.carry)
    if upgrades and code < HTTPStatus.BAD_REQUEST:
        passage.close()
        return refused(f"invalid upgrade response: status code {code}")
    leads = any(name.lower() == "location" for name, _ in passage.headers)
    if leads and HTTPStatus.MULTIPLE_CHOICES <= code < HTTPStatus.BAD_REQUEST:
        passage.close()
        return Response(HTTPStatus.BAD_GATEWAY, REDIRECTED.encode())
    return Response(code, passage.parts(), answered_headers(passage.headers, whole=False))


def refused(text: str) -> Response:
    """An answer in plain text for a server that gave none, as Go's http.Error writes it."""
    headers = [("Content-Type", "text/plain; charset=utf-8"), ("X-Content-Type-Options", "nosniff")]
    return Response(HTTPStatus.SERVICE_UNAVAILABLE, f"{text}\n".encode(), headers)


def is_long_running(asked: AccessAttributes) -> bool:
    """True for a request without a time limit (cmd/kube-apiserver server.go: BuildGenericConfig,
    LongRunningFunc).
    """
    return asked.verb in ("watch", "proxy") or asked.subresource in _LONG_SUBRESOURCES
