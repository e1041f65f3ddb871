"""Requests to the servers of nodes' agents, through the proxy of an API server or directly.

Turns a client's request into the first bytes of a connection to an agent, and its messages into the
answer: a page, a log that is followed, or a change of the protocol.

Mirrors  apimachinery v1.25 pkg/util/proxy/upgradeaware.go; golang net/http server.go (the answer to
         a connection that breaks).
Differs  a request has at most 3 MiB; a proxy passes the header of a token not on, as upstream.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from http import HTTPStatus
from urllib.parse import parse_qsl, unquote

from sim.api import status
from sim.api.aggregation.delegation import is_upgrade
from sim.api.auth.authenticators.client_certificates import certificate_error
from sim.api.streams import HEAD, packed_request, unpacked_head
from sim.api.types import UserInfo
from sim.wire.exchange import OPENED, PEER, Exchange, Response
from sim.wire.http.certificates import CertificateReader
from sim.wire.http.remote.agreement import Agreed, agree
from sim.wire.http.remote.carrying import Carrying
from sim.wire.http.remote.proxying import NoAnswer, proxied_at, rewritten_answer
from sim.wire.http.streams import OutsideStream

PLAIN = ("Content-Type", "text/plain; charset=utf-8")


async def proxied_to_agent(
    exchange: Exchange, stream: OutsideStream, path: str, rest: str, domain: str
) -> Response:
    """The answer to a request through an API server.  Raises NoAnswer.

    path: of the request; rest: what of it follows `proxy`
    """
    response = await asked(exchange, stream, unquote(rest or "/"), domain)
    if response.carry is not None or isinstance(response.body, AsyncGenerator):
        return response
    prefix = path.removesuffix(rest) if rest else path
    return await rewritten_answer(
        response.code, response.headers, _whole(response.body), proxied_at(exchange, stream, prefix)
    )


async def _whole(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body


async def asked(
    exchange: Exchange,
    stream: OutsideStream,
    path: str,
    domain: str,
    token: str = "",
    certificate: UserInfo | None = None,
) -> Response:
    """The answer of an agent.  Raises NoAnswer.

    path: decoded
    domain: with which the names of protocols end
    """
    upgrade = is_upgrade(exchange.headers.pairs)
    body = b"" if upgrade else await exchange.body.read()
    if body is None:
        raise NoAnswer(status.too_large())
    query = parse_qsl(exchange.query, keep_blank_values=True)
    request = packed_request(
        exchange.method, path, query, body, token=token, certificate=certificate, upgrade=upgrade
    )
    await stream.put(HEAD, request)
    came = await stream.take()
    if not came:
        raise NoAnswer(status.service_unavailable("error trying to reach service: EOF"))
    (_, head), *more = came
    code, media, location, opened = unpacked_head(head)
    headers = [("Content-Type", media), *([("Location", location)] if location else [])]
    if opened is None:
        return Response(code, await _body(stream, more), headers)
    if opened.kind == "log":
        return Response(code, _pieces(stream, more), headers)
    stream.request = opened
    agreed = agree(exchange, opened, domain)
    if isinstance(agreed, Agreed):
        carrying = Carrying(stream, agreed, early=more)
        return Response(HTTPStatus.SWITCHING_PROTOCOLS, b"", agreed.headers, carry=carrying.carry)
    stream.stop()
    return Response(
        agreed.code, f"{agreed.text}\n".encode() if agreed.text else b"", [PLAIN, *agreed.headers]
    )


async def _body(stream: OutsideStream, more: list[tuple[int, bytes]]) -> bytes:
    held = [data for _, data in more]
    while came := await stream.take():
        held += [data for _, data in came]
    return b"".join(held)


async def _pieces(stream: OutsideStream, more: list[tuple[int, bytes]]) -> AsyncGenerator[bytes, None]:
    """The parts of a log as they come; the stream ends with the answer."""
    try:
        while more or (more := await stream.take()):
            for _, data in more:
                if data:
                    yield data
            more = []
    finally:
        stream.stop()


class AgentFront:
    """The front of one server of an agent, for clients that connect to it directly."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[OutsideStream | str]],
        domain: str,
        reader: CertificateReader | None,
        outside_us: Callable[[], int],
    ) -> None:
        """connect: a connection to the agent, or why there is none

        domain: with which the names of protocols end
        reader: of client certificates; None if none is asked for
        outside_us: reads the clock by which connections are judged
        """
        self._connect, self._domain = connect, domain
        self._reader, self._outside_us = reader, outside_us

    async def answer(self, exchange: Exchange) -> Response:
        """Handles one request."""
        user = None
        if self._reader is not None:
            certificate = self._reader.certificate(exchange.extensions.get(PEER))
            if certificate is not None:
                if certificate_error(certificate, certificate.client_ca, self._outside_us()):
                    return Response(HTTPStatus.UNAUTHORIZED, b"Unauthorized", [PLAIN])
                user = UserInfo(certificate.name, certificate.groups)
        stream = await self._connect()
        if isinstance(stream, str):
            return _failed(stream)
        exchange.extensions[OPENED].append(stream.stop)
        token = _bearer(exchange.headers.get("authorization"))
        try:
            return await asked(exchange, stream, unquote(exchange.path), self._domain, token, user)
        except NoAnswer as error:
            stream.stop()
            return _failed(str(error))


def _failed(why: str) -> Response:
    return Response(HTTPStatus.SERVICE_UNAVAILABLE, f"{why}\n".encode(), [PLAIN])


def _bearer(given: str) -> str:
    """The token of a header Authorization (authentication/request/bearertoken)."""
    parts = given.strip().split(" ")
    return parts[1] if len(parts) == 2 and parts[0].lower() == "bearer" else ""
