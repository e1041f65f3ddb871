"""The stage that reads the body of a write, and checks the options of the query.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/handlers/{create,update,delete,patch,rest}.go.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection
from functools import partial
from http import HTTPStatus

import trio

from sim.api import status
from sim.ident import Names
from sim.wire.exchange import BODY_MAX, Exchange
from sim.wire.http.chain.authentication import Identification
from sim.wire.http.chain.request import Body, HttpRequest
from sim.wire.http.chain.threads import INLINE_MAX, on_thread
from sim.wire.http.forms.body import BadBody, in_one, json_text, repeated_warnings
from sim.wire.http.gateway import REQUEST_TIMEOUT_S
from sim.wire.http.options import check_gates, check_list, check_options
from sim.wire.http.refused import Refused
from sim.wire.patience import within

WRITES = ("create", "update", "patch", "delete", "deletecollection")
# Of creates and patches: refusals of the type of a body.
_BEFORE_OPTIONS = (HTTPStatus.NOT_ACCEPTABLE, HTTPStatus.UNSUPPORTED_MEDIA_TYPE)


async def read_body(exchange: Exchange) -> bytes:
    """The body, up to the limit.  Raises Refused."""
    result, body = None, exchange.body
    if exchange.content_length <= BODY_MAX:
        if body.ended and not body.too_large:
            return await body.read() or b""
        with within(REQUEST_TIMEOUT_S) as scope:
            result = await body.read()
        if scope.cancelled_caught:
            raise Refused(status.timeout("request did not complete within the allotted timeout"))
    if result is None:
        raise Refused(status.too_large())
    return result


class BodyReader:
    """The stage.  gates: feature gates with another value than their default"""

    def __init__(
        self,
        names: Names,
        identification: Identification,
        gates: Collection[str],
        threads: trio.CapacityLimiter,
    ) -> None:
        self._names = names
        self._identification = identification
        self._gates = gates
        self._threads = threads

    def __call__(self, request: HttpRequest) -> Awaitable[None] | None:
        """Notes the body as JSON text.  Raises Refused."""
        if request.target.verb in WRITES:
            return self._take(request)
        check_options(self._names, request.target, "", request.options, "", None)
        return None

    async def _take(self, request: HttpRequest) -> None:
        names, target, options = self._names, request.target, request.options
        query, content = request.exchange.query, request.header("content-type")
        check_gates(names, target, content, query, self._gates)
        check_list(names, target, options)
        raw = await read_body(request.exchange)
        twice: list[str] = []
        convert = partial(json_text, names, target, content, raw, twice)
        try:
            body = convert() if len(raw) <= INLINE_MAX else await on_thread(convert, self._threads)
        except BadBody as refused:
            if target.verb == "update" or refused.body["code"] not in _BEFORE_OPTIONS:
                check_options(names, target, content, options, query, raw)
            raise
        validation, patches = options.get("fieldValidation", ""), target.verb == "patch"
        request.audited.send(body, target.verb)
        request.body = Body(
            body,
            in_one(twice) if not patches or validation == "Strict" else "",
            repeated_warnings(twice, validation) if patches else (),
        )
        if target.resource.plural == "tokenreviews" and not target.resource.custom:
            await self._identification.prepare_review(body)
        check_options(names, target, content, options, query, body)
