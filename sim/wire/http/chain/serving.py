"""The stages that pass a request to the API server behind the gate: for a stream, and for a reply.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/handlers/{rest,get,create,update,patch,delete}.go.
Differs  A request that takes 60 real seconds is 504.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from sim.api.aggregation.delegation import is_upgrade
from sim.api.types import Reply, Request
from sim.api.verbs import connect
from sim.ident import Names
from sim.kernel import OutsideRequest
from sim.wire.exchange import OPENED, Exchange, Response
from sim.wire.http.chain.information import seconds_of
from sim.wire.http.chain.passing import passed, passed_log
from sim.wire.http.chain.request import COMMON, HttpRequest, Outcome, response_of
from sim.wire.http.forms import negotiation, rendering
from sim.wire.http.forms.rendering import View
from sim.wire.http.gateway import REQUEST_TIMEOUT_S, Gateway
from sim.wire.http.options import manager_of
from sim.wire.http.streams import OutsideStream
from sim.wire.http.upgraded import STREAMED


def request_of(request: HttpRequest, options: Mapping[str, str]) -> Request:
    """The request to its target, without a body."""
    target = request.target
    resource = target.resource
    return Request(
        verb=target.verb,
        resource=resource.plural,
        group=resource.group,
        version=resource.version,
        subresource=target.subresource,
        namespace=target.namespace if resource.namespaced else "",
        name=target.name,
        options=options,
        user=request.user,
        manager=manager_of(request.header("user-agent")),
    )


class Connecting:
    """The stage for requests to exec, attach, portforward and proxy: their bodies belong to the
    backend, and any form is accepted.
    """

    def __init__(self, names: Names, gateway: Gateway) -> None:
        self._names = names
        self._gateway = gateway

    def __call__(self, request: HttpRequest) -> Outcome:
        """The answer to such a request."""
        return self._connect(request) if request.target.connects else None

    async def _connect(self, request: HttpRequest) -> Response:
        exchange, target = request.exchange, request.target
        entry = {**request.options, connect.PATH: target.path, connect.QUERY: exchange.query}
        entry.pop(connect.UPGRADE, None)
        if STREAMED in exchange.extensions or is_upgrade(exchange.headers.pairs):
            entry[connect.UPGRADE] = "true"
        reply, _ = await self._gateway.call(request_of(request, entry))
        if isinstance(reply.body, OutsideRequest):
            request.audited.reply(Reply(HTTPStatus.OK), target.resource)
            return await passed(request, reply.body)
        request.audited.reply(reply, target.resource)
        if reply.stream is not None and reply.stream.request.kind in ("proxy", "agent"):
            return await self._proxied(request, reply.stream)
        if reply.stream is not None:
            return _switched(exchange, reply.stream, self._names.group_domain)
        if reply.code == HTTPStatus.MOVED_PERMANENTLY:
            query = f"?{exchange.query}" if exchange.query else ""
            return Response(reply.code, b"", [("Location", f"{exchange.path}/{query}"), COMMON])
        return self._rendered(request, reply)

    def _rendered(self, request: HttpRequest, reply: Reply) -> Response:
        form = negotiation.error_form(self._names, request.header("accept"), request.indents)
        view = View(self._names, request.target.resource, form, request.begun_us)
        return response_of(rendering.prepare(view, reply)())

    async def _proxied(self, request: HttpRequest, stream: OutsideStream) -> Response:
        """The answer of the program to which a stream leads."""
        from sim.wire.http.remote.proxying import NoAnswer, proxied

        request.exchange.extensions[OPENED].append(stream.stop)
        try:
            if stream.request.kind == "agent":
                from sim.wire.http.remote.agents import proxied_to_agent

                domain = self._names.group_domain
                response = await proxied_to_agent(
                    request.exchange, stream, request.path, request.target.path, domain
                )
            else:
                response = await proxied(request.exchange, stream, request.path, request.target.path)
        except NoAnswer as error:
            stream.stop()
            return self._rendered(request, Reply(error.body["code"], body=error.body))
        if response.carry is None and COMMON[0].lower() not in {name.lower() for name, _ in response.headers}:
            response.headers.append(COMMON)
        return response


class Serving:
    """The stage that waits for the reply of the API server."""

    def __init__(self, names: Names, gateway: Gateway) -> None:
        self._media = names.media_json
        self._gateway = gateway

    async def __call__(self, request: HttpRequest) -> Response | None:
        """Notes reply and watch; the answer if a server outside gives it."""
        options, target = request.options, request.target
        sent = request_of(request, options)
        if request.body.text is not None:
            sent.body = request.body.text
        sent.content_type = request.header("content-type") or self._media
        sent.repeated = request.body.repeated
        limit_s = REQUEST_TIMEOUT_S if target.verb == "watch" else seconds_of(options)
        request.reply, request.watch = await self._gateway.call(sent, limit_s, request.mark)
        answered = None
        if isinstance(request.reply.body, OutsideRequest):
            result = await passed_log(request, request.reply.body)
            request.reply, answered = (
                (result, None) if isinstance(result, Reply) else (Reply(HTTPStatus.OK), result)
            )
        request.audited.reply(request.reply, target.resource)
        return answered


def _switched(exchange: Exchange, stream: OutsideStream, domain: str) -> Response:
    """The answer that changes the protocol, or refuses to, since the agent has opened a stream."""
    from sim.wire.http.remote.agreement import Agreed, agree
    from sim.wire.http.remote.carrying import Carrying

    exchange.extensions[OPENED].append(stream.stop)
    agreed = agree(exchange, stream.request, domain)
    if isinstance(agreed, Agreed):
        code = HTTPStatus.SWITCHING_PROTOCOLS
        return Response(code, b"", agreed.headers, carry=Carrying(stream, agreed).carry)
    stream.stop()
    headers = [("Content-Type", "text/plain; charset=utf-8"), *agreed.headers]
    return Response(agreed.code, f"{agreed.text}\n".encode() if agreed.text else b"", headers)
