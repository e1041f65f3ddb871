"""The stage of aggregation: a request for a group version of another server is passed to it.

Mirrors  kubernetes v1.25 kube-aggregator pkg/apiserver/handler_proxy.go.
"""

from __future__ import annotations

from math import inf

from sim.api.aggregation.delegation import Forwarded, answered_headers
from sim.kernel import OutsideRequest
from sim.units import SECOND
from sim.wire.exchange import OPENED, Response
from sim.wire.http.chain.body import read_body
from sim.wire.http.chain.request import COMMON, HttpRequest, Outcome
from sim.wire.http.gateway import Gateway
from sim.wire.outside.passages import is_long_running, passed_through


class Forwarding:
    """The stage."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def __call__(self, request: HttpRequest) -> Outcome:
        """The answer of the other server, if one answers the path."""
        server = request.server
        delegated = server is not None and server.aggregator.find(request.path) is not None
        return self._forward(request) if delegated else None

    async def _forward(self, request: HttpRequest) -> Response:
        request.counted = True
        exchange = request.exchange
        headers = (*exchange.headers.pairs, ("audit-id", exchange.ident))
        raw, user = await read_body(exchange), request.user
        sent = Forwarded(exchange.method, exchange.path, exchange.query, headers, raw, user, exchange.client)
        answer = await self._gateway.forward(sent)
        if isinstance(answer, OutsideRequest):
            endless = is_long_running(request.attributes) or sent.upgrades
            limit_s = inf if endless else answer.timeout_us / SECOND
            opened = exchange.extensions[OPENED].append
            response = await passed_through(answer, limit_s, opened, upgrades=sent.upgrades)
        else:
            response = Response(answer.code, answer.body, answered_headers(answer.headers))
        if response.carry is None and COMMON[0].lower() not in {name.lower() for name, _ in response.headers}:
            response.headers.append(COMMON)
        return response
