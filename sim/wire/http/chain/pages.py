"""The stage of documents: paths that are no resources are answered from `Documents`.

Mirrors  kubernetes v1.25 apiserver pkg/server/routes, pkg/endpoints/discovery.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus

import trio

from sim.api.scheme.scheme import Scheme
from sim.ident import Names
from sim.units import SECOND
from sim.wire.exchange import Response
from sim.wire.http.chain.request import HttpRequest, Outcome, response_of
from sim.wire.http.chain.threads import on_thread
from sim.wire.http.documents import Documents
from sim.wire.http.forms import negotiation, rendering
from sim.wire.http.forms.negotiation import Form, NotAcceptable
from sim.wire.http.forms.rendering import Answer
from sim.wire.http.gateway import Gateway
from sim.wire.http.pages import pprof
from sim.wire.http.pages.content import Content, http_time, serve, year_after
from sim.wire.http.pages.document import NO_PAGE, NO_SNIFF, Document
from sim.wire.http.refused import Refused

SERVED_MAX = 512  # documents with a known time of their first answer


class Pages:
    """The stage.  profile: measures this program for some seconds; None if it must not be measured"""

    def __init__(
        self,
        scheme: Scheme,
        gateway: Gateway,
        documents: Documents,
        profile: Callable[[int], Awaitable[bytes]] | None,
    ) -> None:
        self._names: Names = scheme.names
        self._gateway = gateway
        self._documents = documents
        self._profile = profile
        self._times: dict[str, int] = {}  # tags of documents: seconds
        self._makers = trio.CapacityLimiter(1)

    def __call__(self, request: HttpRequest) -> Outcome:
        """The document at a path; nothing for paths of resources.  Raises Refused."""
        asked, path = request.attributes, request.path
        if asked.resource and path.startswith("/api"):
            if request.scheme.find(asked.group, asked.version, asked.resource) is not None:
                return None  # the usual case: it leads to a resource that is served
        exchange = request.exchange
        if self._profile is not None:
            if path == pprof.PROFILE:
                return self._measured(exchange.query, self._profile)
            if path == pprof.VERBOSITY and exchange.method == "PUT":
                return self._set_verbosity(request)
        accept = request.header("accept")
        find = partial(self._documents.find, exchange.method, path, exchange.query, accept)
        if path.startswith("/openapi/"):  # a document of many definitions takes seconds to make
            return self._made(request, find)
        document = find()
        return None if document is None else self._answer(request, document)

    async def _measured(self, query: str, profile: Callable[[int], Awaitable[bytes]]) -> Response:
        measured = await profile(pprof.seconds_of(query))
        headers = {"Content-Disposition": 'attachment; filename="profile"', **NO_SNIFF}
        return response_of(Answer(200, "application/octet-stream", measured, headers=headers))

    async def _set_verbosity(self, request: HttpRequest) -> Response:
        raw = await request.exchange.body.read()
        return self._answer(request, pprof.set_verbosity((raw or b"").decode("utf-8", "replace")))

    async def _made(self, request: HttpRequest, find: Callable[[], Document | None]) -> Response | None:
        document = await on_thread(find, self._makers)
        return None if document is None else self._answer(request, document)

    def _answer(self, request: HttpRequest, document: Document) -> Response:
        request.counted = document.code != HTTPStatus.NOT_FOUND
        response = response_of(self.answer(request, document))
        response.headers += [("Vary", name) for name in document.vary]
        response.compressed_from = document.compressed
        return response

    def answer(self, request: HttpRequest, document: Document) -> Answer:
        """A document in the form that its client accepts.  Raises Refused."""
        names, header = self._names, request.header("accept")
        if document.value is None:
            if document.parted:
                return serve(self._content(document), request.exchange.method, request.header)
            return Answer(document.code, document.media, document.raw, headers=document.headers)
        if document.code != HTTPStatus.OK:
            raise Refused(document.value)
        try:
            if document.routed:
                negotiation.check_consumed(names, request.header("content-type"), document.json_only)
                negotiation.check_route(names, header, False, document.json_only)
            if document.json_only:
                form = Form(names.media_json, pretty=True)  # WriteRawJSON
            else:
                form = negotiation.choose(names, header, request.indents, convertible=False)
        except NotAcceptable as error:
            raise Refused(error.body) from None
        return Answer(200, form.media, rendering.encode(names, form, document.value))

    def no_page(self, request: HttpRequest) -> Response:
        """The answer at a path that leads nowhere."""
        return response_of(self.answer(request, NO_PAGE))

    def _content(self, document: Document) -> Content:
        """A document as content with the time at which it was first served."""
        now_s = self._gateway.wall_us() // SECOND
        headers = dict(document.headers)
        if document.unchanging:
            headers["Expires"] = http_time(year_after(now_s)).replace("GMT", "UTC")
        if not document.etag:
            return Content(document.raw, document.media, "", now_s, headers)
        known = self._times
        if document.etag not in known and len(known) >= SERVED_MAX:
            known.pop(next(iter(known)))
        modified_s = known.setdefault(document.etag, now_s)
        return Content(document.raw, document.media, f'"{document.etag}"', modified_s, headers)
