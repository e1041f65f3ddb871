"""Answers of servers outside, to which the API server behind the gate has directed a request.

An `OutsideRequest` in the place of a reply becomes the answer of an agent or a program as it comes:
a log, a change of the protocol, or a page.

Holds: nothing here affects the simulation.

Mirrors  apimachinery v1.25 pkg/util/proxy/upgradeaware.go; kubernetes v1.25 apiserver
         pkg/registry/generic/rest/{streamer,response_checker}.go.
Differs  the links of a page behind a proxy are not rewritten, and a redirection is refused.
"""

from __future__ import annotations

from http import HTTPStatus
from math import inf

from msgspec.structs import replace

from sim.api import status
from sim.api.aggregation.delegation import is_upgrade, passed_headers
from sim.api.types import Reply
from sim.kernel import OutsideRequest
from sim.wire.exchange import OPENED, Response
from sim.wire.http.chain.body import read_body
from sim.wire.http.chain.request import COMMON, HttpRequest
from sim.wire.outside.connections import NotReached
from sim.wire.outside.passages import open_passage, passed_through

ERROR_MAX = 2000  # response_checker.go: maxReadLength
TEXT = ("Content-Type", "text/plain")


async def passed(request: HttpRequest, to: OutsideRequest) -> Response:
    """The answer to a request of exec, attach, portforward or proxy."""
    exchange = request.exchange
    upgrades = is_upgrade(exchange.headers.pairs)
    body = b"" if upgrades else await read_body(exchange)
    headers = passed_headers(exchange.headers.pairs, exchange.client, upgrades=upgrades)
    url = to.url
    if request.target.subresource == "proxy":
        query = f"?{exchange.query}" if exchange.query else ""
        url += f"{request.target.path or '/'}{query}"
    sent = replace(to, method=exchange.method, url=url, headers=tuple(headers), body=body)
    response = await passed_through(sent, inf, exchange.extensions[OPENED].append, upgrades=upgrades)
    if response.carry is None and COMMON[0].lower() not in {name.lower() for name, _ in response.headers}:
        response.headers.append(COMMON)
    return response


async def passed_log(request: HttpRequest, to: OutsideRequest) -> Response | Reply:
    """The log of a container as it comes, or a refusal."""
    name = request.target.name
    try:
        passage = await open_passage(replace(to, method="GET"))
    except NotReached as error:
        return Reply(500, body=status.plain_error(f'Get "{to.url}": {error}'))
    request.exchange.extensions[OPENED].append(passage.close)
    if HTTPStatus.OK <= passage.code <= HTTPStatus.PARTIAL_CONTENT:
        return Response(200, passage.parts(), [TEXT, COMMON])
    text = ""
    async for part in passage.parts():
        text = (text + part.decode(errors="replace"))[:ERROR_MAX]
        if len(text) == ERROR_MAX:
            break
    passage.close()
    if passage.code == HTTPStatus.INTERNAL_SERVER_ERROR:
        body = status.internal_error(text)
    elif passage.code == HTTPStatus.BAD_REQUEST:
        body = status.bad_request(text)
    else:
        # Quirk: the sentence lacks a method.
        body = status.generic_response(passage.code, text, resource="pods/log", name=name)
    return Reply(body["code"], body=body)
