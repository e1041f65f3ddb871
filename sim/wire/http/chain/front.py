"""The chain of stages of one front, and what finishes each answer.

Mirrors  kubernetes v1.25 apiserver pkg/server/config.go (DefaultBuildHandlerChain),
         pkg/server/filters/wrap.go (WithPanicRecovery), pkg/endpoints/filters/audit_init.go,
         pkg/endpoints/metrics/metrics.go (MonitorRequest).
"""

from __future__ import annotations

import gzip
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from time import perf_counter

import trio

from sim.api import status
from sim.api.auth.attributes import OpinionGiver
from sim.api.crd.served import CustomResource
from sim.api.schema.resource import Resource
from sim.api.scheme.scheme import Scheme
from sim.api.types import Reply
from sim.units import SECOND
from sim.wire.exchange import Exchange, Response
from sim.wire.http.chain.answer import Answering
from sim.wire.http.chain.audit import Audit
from sim.wire.http.chain.audited import HttpAudit
from sim.wire.http.chain.authentication import Authentication, Identification
from sim.wire.http.chain.authorization import Authorization, Covers
from sim.wire.http.chain.body import BodyReader
from sim.wire.http.chain.fairness import Classification
from sim.wire.http.chain.forwarding import Forwarding
from sim.wire.http.chain.impersonation import Impersonator
from sim.wire.http.chain.information import check_timeout, find_information
from sim.wire.http.chain.negotiation import Negotiation
from sim.wire.http.chain.pages import Pages
from sim.wire.http.chain.request import HttpRequest, Stage, plain_text, refusal_of
from sim.wire.http.chain.route import Route
from sim.wire.http.chain.serving import Connecting, Serving
from sim.wire.http.chain.threads import INLINE_MAX, on_thread
from sim.wire.http.documents import Documents
from sim.wire.http.forms import negotiation, rendering
from sim.wire.http.forms.negotiation import accepts_gzip
from sim.wire.http.gateway import Gateway, failure_line
from sim.wire.http.measures.counts import Counts
from sim.wire.http.refused import Refused
from sim.wire.turns import HEADER

GZIP_LEVEL = 4  # writers.go
HTTP2 = "2"
LOG = logging.getLogger(__name__)


class Front:
    """Serves one scheme through one gateway.  gateway: where requests enter the simulation"""

    def __init__(
        self,
        scheme: Scheme,
        gateway: Gateway,
        identification: Identification,
        authorizer: OpinionGiver,
        covers: Covers,
        documents: Documents,
        counts: Counts,
        audit: HttpAudit | None = None,
        *,
        gates: Collection[str] = (),
        added: Sequence[tuple[str, str]] = (),
        profile: Callable[[int], Awaitable[bytes]] | None = None,
        known: Sequence[Stage] = (),
        unknown: Sequence[Stage] = (),
        note: Callable[[HttpRequest, int, float], None] | None = None,
        goaway: Callable[[], bool] | None = None,
        ident: Callable[[], str] | None = None,
    ) -> None:
        """covers: True if a user may use a verb on a resource everywhere
        gates: feature gates with another value than their default
        added: headers of all answers
        known: stages of paths that are not the API's, for authorized users
        unknown: stages of such paths for users without a login
        note: called with each answered request, the code, and the real seconds that it took
        goaway: True if a connection of HTTP/2 ends with its present request (filters/goaway.go)
        ident: makes the id of a request; by default the next one of a series

        profile: measures this program for some seconds; None if it must not be measured
        """
        self._scheme, self._names = scheme, (names := scheme.names)
        self.gateway = gateway
        self._counts = counts
        self._added, self._goaway = added, goaway
        self._ident = ident or self._new_ident
        self._served, self._note = 0, note
        self._threads = trio.CapacityLimiter(1)  # for bodies, one at a time
        judge, wall_us, threads = gateway.judge, gateway.wall_us, self._threads
        pages = Pages(scheme, gateway, documents, profile)
        self._stages: tuple[Stage, ...] = (
            find_information,
            *unknown,
            check_timeout,
            Authentication(identification, counts, wall_us, audit),
            *([] if audit is None else [Audit(audit)]),
            Impersonator(names, authorizer, judge),
            Classification(names),
            Authorization(authorizer, covers, judge),
            *known,
            Forwarding(gateway),
            pages,
            Route(pages.no_page),
            Connecting(names, gateway),
            Negotiation(names),
            BodyReader(names, identification, gates, threads),
            Serving(names, gateway),
            Answering(names, gateway, counts, gates, threads),
        )

    async def answer(self, exchange: Exchange) -> Response:
        """Handles one request. A defect of the server affects this request only."""
        server = self.gateway.serving()
        scheme = self._scheme if server is None else server.sees
        began_s = perf_counter()
        request = HttpRequest(exchange, self.gateway.wall_us(), server, scheme)
        exchange.ident = exchange.headers.get("audit-id") or self._ident()
        if header := exchange.headers.get(HEADER):
            request.mark = self.gateway.clients.turns.mark(header)
        try:
            response = await self._answered(request)
        except Exception as error:  # the supervisor of requests
            LOG.error(
                "%s %s met an error of the server: %s", exchange.method, exchange.path, failure_line(error)
            )
            LOG.debug("the error", exc_info=error)
            response = plain_text(500, status.PANIC)
            request.audited.panic(str(error))
        finally:
            if request.mark is not None:
                request.mark.answered()
        body = response.body
        if response.compressed_from and isinstance(body, bytes) and len(body) > response.compressed_from:
            await self._compress(exchange, response, body)
        response.headers += [("Audit-Id", exchange.ident), *request.flow, *self._added]
        request.audited.complete(response.code)
        if self._note is not None:
            self._note(request, response.code, perf_counter() - began_s)
        leaves = self._goaway is not None and exchange.version == HTTP2 and self._goaway()
        if leaves or exchange.closes(response.code):
            response.headers.append(("Connection", "close"))
        return response

    async def _answered(self, request: HttpRequest) -> Response:
        """Pass the stages up to the one that answers."""
        try:
            for stage in self._stages:
                result = stage(request)
                if result is not None:
                    answered = result if isinstance(result, Response) else await result
                    if answered is not None:
                        response = answered
                        break
            else:
                raise AssertionError("the last stage answers")
        except Refused as refused:
            names, body = self._names, refused.body
            form = negotiation.error_form(names, request.header("accept"), request.indents)
            response = refusal_of(names, form, body)
            response.headers += [("Warning", text) for text in rendering.warning_headers(request.warned)]
            request.handled = not status.is_of_route(body)
            request.audited.reply(Reply(response.code, body=body), request.resource)
        if request.counted:
            self._count(request, response)
        return response

    def _count(self, request: HttpRequest, response: Response) -> None:
        """Counts the request, and warns if its version is deprecated."""
        query, resource = request.attributes, request.resource
        took_s = (self.gateway.wall_us() - request.begun_us) / SECOND
        size = len(response.body) if isinstance(response.body, bytes) else 0
        content = request.header("content-type")
        self._counts.answered(query, response.code, content, request.options, took_s, size)
        if not request.handled or resource is None:
            return
        if resource.lifecycle is not None:
            self._counts.deprecated(query, resource.lifecycle)
            _warn_first(response, _deprecated(resource))
        elif isinstance(resource, CustomResource) and resource.warning:
            _warn_first(response, resource.warning)

    async def _compress(self, exchange: Exchange, response: Response, body: bytes) -> None:
        """Compress a large answer if its client accepts that (responsewriters/writers.go)."""
        if not accepts_gzip(exchange.headers.get("accept-encoding")):
            return
        packed = partial(gzip.compress, body, GZIP_LEVEL, mtime=0)
        response.body = packed() if len(body) <= INLINE_MAX else await on_thread(packed, self._threads)
        response.headers.append(("Content-Encoding", "gzip"))
        if ("Vary", "Accept-Encoding") not in response.headers:
            response.headers.append(("Vary", "Accept-Encoding"))

    def _new_ident(self) -> str:
        """An id of a request: a running number in the form of a UUID."""
        self._served += 1
        return f"00000000-0000-4000-8000-{self._served:012x}"


def _warn_first(response: Response, warning: str) -> None:
    response.headers[:0] = [("Warning", value) for value in rendering.warning_headers([warning])]


def _deprecated(resource: Resource) -> str:
    """The warning for a request of a deprecated version."""
    lifecycle = resource.lifecycle
    assert lifecycle is not None
    text = f"{resource.api_version} {resource.kind} is deprecated in v1.{lifecycle.deprecated}+"
    if lifecycle.removed:
        text += f", unavailable in v1.{lifecycle.removed}+"
    if lifecycle.replacement:
        text += f"; use {resource.group}/{lifecycle.replacement} {resource.kind}"
    return text
