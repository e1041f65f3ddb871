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

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import ExitStack
from http import HTTPStatus
from math import inf

import trio

from sim.api.aggregation.delegation import NOT_REACHED, answered_headers
from sim.api.auth.attributes import AccessAttributes
from sim.kernel import OutsideRequest
from sim.kernel.outside import DEADLINE_EXCEEDED
from sim.wire.exchange import Response
from sim.wire.outside.answers import AnswerReader, BrokenAnswer
from sim.wire.outside.connections import (
    BROKEN,
    UNREADABLE_ROOTS,
    Connection,
    NotReached,
    connect,
    head_of,
    sending,
    url_of,
)
from sim.wire.patience import Deadline
from sim.wire.tls import client_context

REDIRECTED = "the backend attempted to redirect this request, which is not permitted"
_LONG_SUBRESOURCES = ("attach", "exec", "proxy", "log", "portforward")


class Passage:
    """One request that was sent, and its answer as it comes.

    code, headers: of the answer
    """

    def __init__(self, connection: Connection, method: str, deadline: Deadline) -> None:
        self.code = 0
        self.headers: list[tuple[str, str]] = []
        self._connection, self._deadline = connection, deadline
        self._reader = AnswerReader(method, None, decodes=False, switches=True)
        self._first = b""  # of the body, with the head

    def close(self) -> None:
        """Close the connection at once."""
        self._deadline.lift()
        self._connection.close()

    async def ask(self, request: OutsideRequest) -> None:
        """Send the request and read the head of its answer.  Raises NotReached, BrokenAnswer."""
        has_body = bool(request.body) or request.method in ("POST", "PUT", "PATCH")
        head = head_of(request, url_of(request), (), length=has_body)
        async with sending(self._connection, (head, request.body)):
            while self._reader.head is None:
                data = await self._connection.receive()
                self._first += self._reader.feed(data) if data else self._reader.end()
        found = self._reader.head
        self.code, self.headers = found.code, list(found.headers)

    async def parts(self) -> AsyncGenerator[bytes, None]:
        """The body as it comes; the connection is closed at its end.

        An answer that breaks off before its end raises, so that its client does not take it for a
        whole one.
        """
        try:
            part = self._first
            while True:
                if part:
                    yield part
                if self._reader.is_done:
                    return
                with self._deadline.bounded():
                    data = await self._connection.receive()
                part = self._reader.feed(data) if data else self._reader.end()
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
                        await self._connection.send(data)
                except BROKEN:
                    pass
                nursery.cancel_scope.cancel()

            nursery.start_soon(up)
            try:
                data = self._reader.rest
                while data or (data := await self._connection.receive()):
                    await to_client(data)
                    data = b""
            except (*BROKEN, NotReached):
                pass
            nursery.cancel_scope.cancel()


async def open_passage(request: OutsideRequest, limit_s: float = inf) -> Passage:
    """Send a request and read the head of its answer.  Raises NotReached.

    limit_s: real seconds for the whole answer, of those in which this process ran
    """
    deadline = Deadline(limit_s)
    try:
        with ExitStack() as failed, deadline.bounded():
            failed.callback(deadline.lift)
            passage = Passage(await _connected(request), request.method, deadline)
            failed.callback(passage.close)
            await passage.ask(request)
            failed.pop_all()
    except trio.TooSlowError:
        raise NotReached(DEADLINE_EXCEEDED) from None
    except BrokenAnswer as error:
        raise NotReached(str(error)) from None
    return passage


async def _connected(request: OutsideRequest) -> Connection:
    try:
        context = client_context(request.authorities, request.client_pair, verified=request.verified)
    except (OSError, ValueError):
        raise NotReached(UNREADABLE_ROOTS) from None
    return await connect(request, context)


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
