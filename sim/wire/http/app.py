"""The ASGI application: the path of one request from the socket to the API server and back.

Order, as upstream: time-out parameter, authentication, impersonation, authorization, route, form of
the reply, body, then the API server behind the gate.

Mirrors  kubernetes v1.25 apiserver pkg/server/config.go (DefaultBuildHandlerChain),
         pkg/endpoints/filters.
Differs  `timeout=` counts in virtual and in real time: what ends first ends the request. A request
         that takes 60 real seconds is 504. `timeoutSeconds` of a watch is virtual.
"""

from __future__ import annotations

import gzip
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus
from math import inf
from typing import Any

import trio
from quart_trio import QuartTrio

from sim.api import status
from sim.api.aggregation.delegation import Forwarded, answered_headers, is_upgrade
from sim.api.audit.events import unstored
from sim.api.auth.attributes import AccessAttributes, OpinionGiver
from sim.api.auth.authenticator import Rejected
from sim.api.auth.chain import refusal
from sim.api.crd.served import CustomResource
from sim.api.schema.resource import Resource
from sim.api.scheme.scheme import Scheme
from sim.api.types import Obj, Reply, Request, UserInfo
from sim.api.verbs import connect
from sim.kernel import OutsideRequest
from sim.options.features.gates import COMPRESSION
from sim.units import SECOND, parse_duration_us
from sim.wire.exchange import BODY_MAX, Exchange, Response, serve_exchange
from sim.wire.http import routing
from sim.wire.http.audited import AuditedExchange, HttpAudit
from sim.wire.http.documents import Documents
from sim.wire.http.forms import negotiation, rendering
from sim.wire.http.forms.body import BadBody, in_one, json_text, repeated_warnings
from sim.wire.http.forms.negotiation import Form, NotAcceptable, accepts_gzip, has_table
from sim.wire.http.forms.rendering import PART_MAX, Answer, EventWriter, View
from sim.wire.http.gateway import REQUEST_TIMEOUT_S, Gateway, OutsideWatch, failure_line
from sim.wire.http.identity.identification import Identification
from sim.wire.http.identity.impersonation import Impersonation, impersonated
from sim.wire.http.identity.judging import judged
from sim.wire.http.measures.counts import Counts
from sim.wire.http.options import BadOption, check_gates, check_list, check_options, manager_of
from sim.wire.http.pages import pprof
from sim.wire.http.pages.content import Content, http_time, serve, year_after
from sim.wire.http.pages.document import NO_PAGE, NO_SNIFF, Document
from sim.wire.http.routing import NoRoute, Target
from sim.wire.http.upgraded import STREAMED, log_protocols
from sim.wire.outside.passages import is_long_running, passed_through
from sim.wire.patience import within

# Extensions of the ASGI scope: the certificate of the connection, DER, or None; resources to be
# closed at the end of the request, also if the client leaves before the answer begins.
PEER, OPENED = "orrery.peer", "orrery.opened"
WRITES = ("create", "update", "patch", "delete", "deletecollection")
# Of creates and patches: refusals of the type of a body.
_BEFORE_OPTIONS = (HTTPStatus.NOT_ACCEPTABLE, HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
INLINE_MAX = 8 * 1024  # bytes of a body that is converted at once: a few milliseconds at most
# Bytes of a resource above which it is compressed, and how hard (writers.go).
COMPRESSED_FROM, GZIP_LEVEL = 128 * 1024, 4
SERVED_MAX = 512  # documents with a known time of their first answer
ITEM_BYTES = 1024  # about as much is one object of a list
LOG = logging.getLogger(__name__)


class Refused(Exception):
    """The request is answered by this Status."""

    def __init__(self, body: Obj) -> None:
        super().__init__("refused")
        self.body = body


def _caught(convert: Callable[[], Any]) -> tuple[Any, BadBody | None]:
    """The result of a conversion, or its refusal.

    The refusal is returned without its traceback: one that Trio carries from thread to thread
    refers to itself through a frame, and keeps the body until a full garbage collection.
    """
    try:
        return convert(), None
    except BadBody as refused:
        refused.__context__ = None
        return None, refused.with_traceback(None)


@dataclass(slots=True)
class _Found:
    """The results of the routing steps so far.

    asked: set once the path is understood
    audited: the audit of the exchange, which does nothing until the user is known
    handled: False if the route refused the request
    warned: the warnings of a reply that cannot have the form that was asked for
    flow: headers with the uids of FlowSchema and priority level
    begun_us: when the request came, in the time of the cluster
    """

    asked: AccessAttributes | None = None
    resource: Resource | None = None
    audited: AuditedExchange = field(default_factory=AuditedExchange)
    handled: bool = True
    warned: tuple[str, ...] = ()
    flow: tuple[tuple[str, str], ...] = ()
    begun_us: int = 0


class Front:
    """Serves one scheme through one gateway."""

    def __init__(
        self,
        scheme: Scheme,
        gateway: Gateway,
        identification: Identification,
        authorizer: OpinionGiver,
        documents: Documents,
        counts: Counts,
        audit: HttpAudit | None = None,
        *,
        gates: Collection[str] = (),
        added: Sequence[tuple[str, str]] = (),
        profile: Callable[[int], Awaitable[bytes]] | None = None,
    ) -> None:
        """gates: feature gates with another value than their default
        added: headers of all answers

        profile: measures this program for some seconds; None if it must not be measured
        """
        self._scheme = scheme
        self._document_times: dict[str, int] = {}  # tags of documents: seconds
        self._names = scheme.names
        self._gateway = gateway
        self._identification = identification
        self._authorizer = authorizer
        self._documents = documents
        self._counts = counts
        self._audit = audit
        self._gates, self._added = gates, added
        self._profile = profile
        self._served = 0
        # For bodies and for documents: one at a time of each.
        self._threads, self._makers = trio.CapacityLimiter(1), trio.CapacityLimiter(1)

    async def answer(self, exchange: Exchange) -> Response:
        """Handles one request. A defect of the server affects this request only."""
        found = _Found(begun_us=self._gateway.wall_us())
        exchange.ident = exchange.headers.get("audit-id") or self._new_ident()
        try:
            response = await self._answered(exchange, found)
        except Exception as error:  # the supervisor of requests
            LOG.error(
                "%s %s met an error of the server: %s", exchange.method, exchange.path, failure_line(error)
            )
            LOG.debug("the error", exc_info=error)
            response = self._response(Answer(500, rendering.TEXT, status.PANIC.encode()))
            found.audited.panic(str(error))
        await self._compress(exchange, response)
        response.headers += [("Audit-Id", exchange.ident), *found.flow, *self._added]
        found.audited.complete(response.code)
        if exchange.closes(response.code):
            response.headers.append(("Connection", "close"))
        return response

    async def _answered(self, exchange: Exchange, found: _Found) -> Response:
        header = exchange.headers.get("accept")
        try:
            response = await self._answer(exchange, header, found)
        except Refused as refused:
            form = negotiation.error_form(self._names, header, _indents(exchange))
            response = self._refusal(form, refused.body)
            response.headers += [("Warning", text) for text in rendering.warning_headers(found.warned)]
            found.handled = not status.is_of_route(refused.body)
            found.audited.reply(Reply(response.code, body=refused.body), found.resource)
        if found.asked is not None:
            self._count(exchange, response, found.asked, found)
        return response

    def _count(self, exchange: Exchange, response: Response, asked: AccessAttributes, found: _Found) -> None:
        """Counts the request, and warns if its version is deprecated."""
        resource = found.resource
        options = routing.parse_query(exchange.query)
        content = exchange.headers.get("content-type")
        took_s = (self._gateway.wall_us() - found.begun_us) / SECOND
        size = len(response.body) if isinstance(response.body, bytes) else 0
        self._counts.answered(asked, response.code, content, options, took_s, size)
        if not found.handled:
            return
        if resource is not None and resource.lifecycle is not None:
            self._counts.deprecated(asked, resource.lifecycle)
            _warn_first(response, _deprecated(resource))
        elif isinstance(resource, CustomResource) and resource.warning:
            _warn_first(response, resource.warning)

    async def _answer(self, exchange: Exchange, header: str, found: _Found) -> Response:
        path = routing.decode_path(exchange.path)
        if path is None:
            return self._response(Answer(400, rendering.TEXT, b"400 Bad Request"))
        options = routing.parse_query(exchange.query)
        asked = routing.attributes(exchange.method, path, options)
        if asked.verb != "watch":
            self._check_timeout(options)
        user = await self._user(exchange, asked, options, found)
        if isinstance(user, Answer):
            return self._response(user)
        found.flow = self._flow_headers(user, asked)
        judge = self._gateway.judge
        opinion = await judged(self._authorizer, judge, lambda giver: giver.authorize(user, asked))
        found.audited.decide(opinion)
        refused = refusal(user, asked, opinion)
        if refused is not None:
            raise Refused(refused)
        if self._gateway.is_delegated(path):
            return await self._forward(exchange, asked, user, found)
        if self._profile is not None and path == pprof.PROFILE:
            measured = await self._profile(pprof.seconds_of(exchange.query))
            headers = {"Content-Disposition": 'attachment; filename="profile"', **NO_SNIFF}
            return self._response(Answer(200, "application/octet-stream", measured, headers=headers))
        document = await self._document_at(exchange, path)
        if document is not None:
            found.asked = None if document.code == HTTPStatus.NOT_FOUND else asked
            response = self._response(self._document(document, exchange))
            response.headers += [("Vary", name) for name in document.vary]
            response.compressed_from = document.compressed
            return response
        try:
            target = routing.route(self._gateway.scheme(self._scheme), exchange.method, path, options)
            found.asked, found.resource = asked, target.resource
            if target.connects:
                return await self._connect(exchange, target, user, options, found.audited)
            listing = target.verb in ("list", "watch", "deletecollection")
            if not target.resource.custom:
                if target.verb == "patch":
                    content, length = (exchange.headers.get(f"content-{what}") for what in ("type", "length"))
                    negotiation.check_patch(self._names, content, length)
                listed, logged = listing and exchange.method == "GET", target.subresource == "log"
                negotiation.check_route(self._names, header, listed, of_text=logged)
            return await self._resource(exchange, target, user, options, found)
        except (NoRoute, NotAcceptable, BadBody, BadOption) as error:
            if error.body is None:
                return self._response(self._document(NO_PAGE, exchange))
            if isinstance(error, NoRoute) and error.resource is not None:
                found.asked, found.resource = asked, error.resource
            raise Refused(error.body) from None

    async def _forward(
        self, exchange: Exchange, asked: AccessAttributes, user: UserInfo, found: _Found
    ) -> Response:
        """A request for a group version that another server answers."""
        found.asked = asked
        headers = (*exchange.headers.pairs, ("audit-id", exchange.ident))
        raw = await _read(exchange)
        address = exchange.client
        sent = Forwarded(exchange.method, exchange.path, exchange.query, headers, raw, user, address)
        answer = await self._gateway.forward(sent)
        if isinstance(answer, OutsideRequest):
            limit_s = inf if is_long_running(asked) or sent.upgrades else answer.timeout_us / SECOND
            opened = exchange.extensions[OPENED].append
            response = await passed_through(answer, limit_s, opened, upgrades=sent.upgrades)
        else:
            response = Response(answer.code, answer.body, answered_headers(answer.headers))
        if response.carry is None:
            known = {name.lower() for name, _ in response.headers}
            response.headers += [each for each in self._common() if each[0].lower() not in known]
        return response

    # --- access -----------------------------------------------------------------------------------

    async def _user(
        self, exchange: Exchange, asked: AccessAttributes, options: dict[str, str], found: _Found
    ) -> UserInfo | Answer:
        headers, peer = exchange.headers, exchange.extensions.get(PEER)
        identified = await self._identification.identify(headers.pairs, peer)
        user = None if isinstance(identified, Rejected) else identified.user
        result = "success"
        if isinstance(identified, Rejected):
            result = "error" if identified.errors else "failure"
        took_s = (self._gateway.wall_us() - found.begun_us) / SECOND
        self._counts.authenticated(result, "" if user is None else user.name, took_s)
        if self._audit is not None:
            found.audited = self._audit.open(exchange, asked, user)
            exchange.extensions.setdefault(OPENED, []).append(found.audited.close)
        if isinstance(identified, Rejected):
            LOG.debug("unable to authenticate the request: %s", identified.text)
            found.audited.refuse_credentials(exchange, options, peer is not None)
            raise Refused(status.unauthorized())
        user = identified.user
        if not await found.audited.receive():
            return Answer(500, rendering.TEXT, f"{unstored(exchange.path)}\n".encode())
        wanted = Impersonation.of(headers.pairs)
        userless = wanted.without_user(self._names)
        if userless:
            text = f'Internal Server Error: "{exchange.path}": requested [{userless}] without impersonating a user\n'
            return Answer(500, rendering.TEXT, text.encode())
        if not wanted.name:
            return user
        acting = await judged(
            self._authorizer,
            self._gateway.judge,
            lambda giver: impersonated(self._names, giver, user, wanted),
        )
        if isinstance(acting, UserInfo):
            found.audited.impersonate(acting)
            return acting
        raise Refused(acting)

    def _flow_headers(self, user: UserInfo, asked: AccessAttributes) -> tuple[tuple[str, str], ...]:
        """The headers with the classification of a request (priority-and-fairness.go)."""
        fairness = self._gateway.fairness()
        if fairness is None:
            return ()
        return tuple(zip(self._names.headers_flow, fairness.uids(user, asked), strict=True))

    @staticmethod
    def _check_timeout(options: dict[str, str]) -> None:
        text = options.get("timeout", "")
        try:
            parse_duration_us(text or "0")
        except ValueError as error:
            why = f"invalid timeout specified in the request URL - {error}"
            raise Refused(status.bad_request(why)) from None

    async def _document_at(self, exchange: Exchange, path: str) -> Document | None:
        """The document at a path; None for paths of resources."""
        if path == pprof.VERBOSITY and exchange.method == "PUT" and self._profile is not None:
            raw = await exchange.body.read()
            return pprof.set_verbosity((raw or b"").decode("utf-8", "replace"))
        accept = exchange.headers.get("accept")
        find = partial(self._documents.find, exchange.method, path, exchange.query, accept)
        if not path.startswith("/openapi/"):
            return find()
        # A document of many definitions takes seconds to make.
        made: Document | None = await self._on_thread(find, self._makers)
        return made

    # --- documents --------------------------------------------------------------------------------

    def _document(self, document: Document, exchange: Exchange) -> Answer:
        names, header = self._names, exchange.headers.get("accept")
        if document.value is None:
            if document.parted:
                return serve(self._content(document), exchange.method, exchange.headers.get)
            return Answer(document.code, document.media, document.raw, headers=document.headers)
        if document.code != HTTPStatus.OK:
            raise Refused(document.value)
        try:
            if document.routed:
                negotiation.check_consumed(names, exchange.headers.get("content-type"), document.json_only)
                negotiation.check_route(names, header, False, document.json_only)
            if document.json_only:
                form = Form(names.media_json, pretty=True)  # WriteRawJSON
            else:
                form = negotiation.choose(names, header, _indents(exchange), convertible=False)
        except NotAcceptable as error:
            raise Refused(error.body) from None
        return Answer(200, form.media, rendering.encode(names, form, document.value))

    def _content(self, document: Document) -> Content:
        """A document as content with the time at which it was first served."""
        now_s = self._gateway.wall_us() // SECOND
        headers = dict(document.headers)
        if document.unchanging:
            headers["Expires"] = http_time(year_after(now_s)).replace("GMT", "UTC")
        if not document.etag:
            return Content(document.raw, document.media, "", now_s, headers)
        known = self._document_times
        if document.etag not in known and len(known) >= SERVED_MAX:
            known.pop(next(iter(known)))
        modified_s = known.setdefault(document.etag, now_s)
        return Content(document.raw, document.media, f'"{document.etag}"', modified_s, headers)

    # --- resources --------------------------------------------------------------------------------

    async def _resource(
        self,
        exchange: Exchange,
        target: Target,
        user: UserInfo,
        options: dict[str, str],
        found: _Found,
    ) -> Response:
        names, headers, audited = self._names, exchange.headers, found.audited
        watching = target.verb == "watch"
        resource = target.resource
        form = negotiation.choose(
            names,
            headers.get("accept"),
            _indents(exchange),
            convertible=target.subresource != "log",
            tabular=has_table(resource, target.subresource),
            watching=watching,
            protobuf=not resource.json_only,
        )
        view = View(names, resource, form, self._gateway.wall_us(), options.get("includeObject", ""))
        if watching:
            rendering.check_included(view)
        body = None
        content = headers.get("content-type")
        warnings: tuple[str, ...] = ()
        twice: list[str] = []
        check_gates(names, target, content, exchange.query, self._gates)
        if target.verb in WRITES:
            check_list(names, target, exchange.query)
            raw = await _read(exchange)
            try:
                body = await self._aside(len(raw), partial(json_text, names, target, content, raw, twice))
            except BadBody as refused:
                if target.verb == "update" or refused.body["code"] not in _BEFORE_OPTIONS:
                    check_options(names, target, content, exchange.query, raw)
                raise
            if target.verb == "patch":
                warnings = repeated_warnings(twice, options.get("fieldValidation", ""))
            audited.send(body, target.verb)
            if resource.plural == "tokenreviews" and not resource.custom:
                await self._identification.prepare_review(body)
        check_options(names, target, content, exchange.query, body)
        asked = _request(target, user, options, headers.get("user-agent"))
        asked.body, asked.content_type = body, content or names.media_json
        refused_twice = target.verb != "patch" or options.get("fieldValidation", "") == "Strict"
        asked.repeated = in_one(twice) if refused_twice else ""
        reply, watch = await self._gateway.call(asked, REQUEST_TIMEOUT_S if watching else _seconds(options))
        audited.reply(reply, resource)
        if watch is not None:
            audited.stream()
            exchange.extensions[OPENED].append(watch.stop)
            if found.asked is not None:
                self._counts.streams_by(found.asked, 1)
                exchange.extensions[OPENED].append(partial(self._counts.streams_by, found.asked, -1))
            return self._stream(EventWriter(view), watch, exchange.extensions.get(STREAMED), resource)
        if warnings and reply.ok:
            reply.warnings += warnings
        found.warned = reply.warnings
        view = self._shown(view, reply, headers.get("accept"))
        # YAML is printed node by node, some 8 us each.
        size = len(reply.items or ()) * ITEM_BYTES if form.media == names.media_yaml else 0
        response = self._response(await self._aside(size, rendering.prepare(view, reply)))
        if STREAMED in exchange.extensions and target.subresource == "log" and reply.code == HTTPStatus.OK:
            exchange.extensions[STREAMED].extend(log_protocols(names))
            return response
        response.compressed_from = 0 if COMPRESSION in self._gates else COMPRESSED_FROM
        return response

    def _shown(self, view: View, reply: Reply, header: str) -> View:
        """The view of a reply; an error takes no other form. Raises NotAcceptable."""
        if reply.ok:
            rendering.check_form(view, reply)
        elif view.form.kind:
            return replace(view, form=negotiation.error_form(self._names, header, view.form.pretty))
        return view

    async def _connect(
        self,
        exchange: Exchange,
        target: Target,
        user: UserInfo,
        options: dict[str, str],
        audited: AuditedExchange,
    ) -> Response:
        """A request for a stream: its body belongs to the backend, and any form is accepted."""
        names, headers, resource = self._names, exchange.headers, target.resource
        given = {**options, connect.PATH: target.path, connect.QUERY: exchange.query}
        given.pop(connect.UPGRADE, None)
        if STREAMED in exchange.extensions or is_upgrade(headers.pairs):
            given[connect.UPGRADE] = "true"
        reply, _ = await self._gateway.call(_request(target, user, given, headers.get("user-agent")))
        audited.reply(reply, resource)
        if reply.code == HTTPStatus.MOVED_PERMANENTLY:
            query = f"?{exchange.query}" if exchange.query else ""
            return Response(reply.code, b"", [("Location", f"{exchange.path}/{query}"), *self._common()])
        form = negotiation.error_form(names, headers.get("accept"), _indents(exchange))
        view = View(names, resource, form, self._gateway.wall_us(), "")
        return self._response(rendering.prepare(view, reply)())

    async def _aside(self, size: int, convert: Callable[[], Any]) -> Any:
        """The result of a pure conversion; of much data on a thread, one at a time, so that other
        requests proceed.
        """
        return convert() if size <= INLINE_MAX else await self._on_thread(convert, self._threads)

    async def _on_thread(self, convert: Callable[[], Any], threads: trio.CapacityLimiter) -> Any:
        """The result of a pure conversion on one of these threads."""
        result, refused = await trio.to_thread.run_sync(partial(_caught, convert), limiter=threads)
        if refused is None:
            return result
        try:
            raise refused
        finally:
            del refused  # to which this frame would otherwise refer, and its traceback to the frame

    async def _compress(self, exchange: Exchange, response: Response) -> None:
        """Compress a large answer if its client accepts that (responsewriters/writers.go)."""
        body = response.body
        if not response.compressed_from or not isinstance(body, bytes):
            return
        if len(body) > response.compressed_from and accepts_gzip(exchange.headers.get("accept-encoding")):
            response.body = await self._aside(len(body), partial(gzip.compress, body, GZIP_LEVEL, mtime=0))
            response.headers.append(("Content-Encoding", "gzip"))
            if ("Vary", "Accept-Encoding") not in response.headers:
                response.headers.append(("Vary", "Accept-Encoding"))

    def _stream(
        self, writer: EventWriter, watch: OutsideWatch, streamed: list[str] | None, resource: Resource
    ) -> Response:
        """Sends a watch.

        streamed: of a request over WebSocket, see `upgraded`
        """
        if streamed is not None:
            streamed.append(writer.media)

        async def lines() -> AsyncGenerator[bytes, None]:
            while events := await watch.take():
                size = 0
                # Of a WebSocket, one event a message.
                for part in writer.parts(
                    events, self._gateway.wall_us(), PART_MAX if streamed is None else 0
                ):
                    size += len(part)
                    yield part
                self._counts.sent(resource, len(events), size)

        return Response(200, lines(), [("Content-Type", writer.media), *self._common()])

    # --- answers ----------------------------------------------------------------------------------

    def _response(self, answer: Answer) -> Response:
        typed = answer.media and answer.code != HTTPStatus.NO_CONTENT
        headers = [("Content-Type", answer.media)] if typed else []
        headers += answer.headers.items()
        headers += [("Warning", warning) for warning in rendering.warning_headers(answer.warnings)]
        common = [each for each in self._common() if each[0] not in answer.headers]
        return Response(answer.code, answer.body, [*headers, *common])

    def _refusal(self, form: Form, body: Obj) -> Response:
        response = self._response(rendering.failure(self._names, form, body))
        if body.get("code") == HTTPStatus.FORBIDDEN:
            response.headers += NO_SNIFF.items()
        return response

    def _common(self) -> list[tuple[str, str]]:
        return [("Cache-Control", "no-cache, private")]

    def _new_ident(self) -> str:
        """An id of a request: a running number in the form of a UUID."""
        self._served += 1
        return f"00000000-0000-4000-8000-{self._served:012x}"


def _request(target: Target, user: UserInfo, options: dict[str, str], agent: str) -> Request:
    """The request to a target, without a body."""
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
        user=user,
        manager=manager_of(agent),
    )


def _seconds(options: dict[str, str]) -> float:
    """How long a request may take in real time (request_deadline.go, parseTimeout)."""
    wanted = parse_duration_us(options.get("timeout", "") or "0") / SECOND
    return wanted if 0 < wanted < REQUEST_TIMEOUT_S else REQUEST_TIMEOUT_S


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


def _indents(exchange: Exchange) -> bool:
    """True if JSON for the client is indented."""
    options = routing.parse_query(exchange.query)
    return negotiation.wants_indentation(options, exchange.headers.get("user-agent"))


async def _read(exchange: Exchange) -> bytes:
    """The body, up to the limit."""
    found = None
    if exchange.content_length <= BODY_MAX:
        with within(REQUEST_TIMEOUT_S) as scope:
            found = await exchange.body.read()
        if scope.cancelled_caught:
            raise Refused(status.timeout("request did not complete within the allotted timeout"))
    if found is None:
        raise Refused(status.too_large())
    return found


class Application(QuartTrio):
    """The Quart application of a served cluster.

    Quart is the host: it answers ASGI scopes other than HTTP requests, and a program may add its
    own pages below `pages`. Every other path belongs to the API's own router; these requests bypass
    Quart's router, which would raise and catch NotFound for each and leave 12 KB of reference
    cycles.
    """

    def __init__(self, front: Front, pages: str = "") -> None:
        """pages: prefix of the paths that Quart routes, such as "/pages/"; "" for none"""
        super().__init__("orrery", static_folder=None)
        self._front = front
        self._pages = pages

    async def asgi_app(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request, or let Quart do it."""
        if scope["type"] == "http" and not (self._pages and scope["path"].startswith(self._pages)):
            await serve_exchange(self._front.answer, scope, receive, send)
        else:
            await super().asgi_app(scope, receive, send)
