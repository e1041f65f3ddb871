"""The Quart application: one request on its way from the socket to the API server and back.

Order, as upstream: time-out parameter, authentication, impersonation, authorization, route, form of the answer,
body, then the API server behind the gate.

Mirrors  kubernetes v1.25 apiserver pkg/server/config.go (DefaultBuildHandlerChain), pkg/endpoints/filters.
Differs  `timeout=` is checked, but the time-out itself is the same 60 real seconds for every request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import trio
from quart import Response
from quart import request as current
from quart_trio import QuartTrio

from sim.machinery import status
from sim.machinery.api import Obj, Request, UserInfo
from sim.machinery.custom import CustomResource
from sim.machinery.scheme import Resource, Scheme
from sim.units import parse_duration_us
from sim.wire.http import negotiation, rendering, routing
from sim.wire.http.access import Access, Authenticator, Certificate, Impersonation
from sim.wire.http.account_tokens import AccountTokens
from sim.wire.http.body import BODY_MAX, BadBody, json_text, strict_warnings
from sim.wire.http.documents import NO_PAGE, Document, Documents
from sim.wire.http.gateway import REQUEST_TIMEOUT_S, Gateway, OutsideWatch
from sim.wire.http.metrics import Counts
from sim.wire.http.negotiation import Form, NotAcceptable
from sim.wire.http.options import BadOption, check_options, manager_of
from sim.wire.http.rendering import PART_MAX, Answer, EventWriter, View
from sim.wire.http.routing import Attributes, NoRoute, Target
from sim.wire.http.upgraded import STREAMED

# Extensions of the ASGI scope: the `Certificate` of the connection; what is to be closed when the request is over, also
# if the client went before its answer was begun.
PEER, OPENED = "orrery.peer", "orrery.opened"
_BROWSERS = ("curl", "Wget", "Mozilla/5.0")  # whom upstream answers pretty without being asked
WRITES = ("create", "update", "patch", "delete", "deletecollection")
# Of a body that is refused for its size: read and thrown away (bytes; real seconds, long enough for a busy machine).
DISCARDED_MAX, DISCARD_S = 8 * BODY_MAX, 2.0


class Refused(Exception):
    """The request is answered by this Status."""

    def __init__(self, body: Obj) -> None:
        super().__init__("refused")
        self.body = body


@dataclass(slots=True)
class _Found:
    """What a request's path leads to, as far as it has been followed.  asked: set where there is something."""

    asked: Attributes | None = None
    resource: Resource | None = None


class Front:
    """Serves one scheme through one gateway."""

    def __init__(
        self,
        scheme: Scheme,
        gateway: Gateway,
        authenticator: Authenticator,
        access: Access,
        documents: Documents,
        counts: Counts,
        accounts: AccountTokens,
    ) -> None:
        self._scheme = scheme
        self._names = scheme.names
        self._gateway = gateway
        self._authenticator = authenticator
        self._access = access
        self._documents = documents
        self._counts = counts
        self._accounts = accounts
        self._served = 0

    async def answer(self) -> Response:
        """The whole life of the current request."""
        header = current.headers.get("Accept", "")
        found = _Found()
        try:
            response = await self._answer(header, found)
        except Refused as refused:
            form = negotiation.error_form(self._names, header)
            response = self._response(rendering.failure(self._names, form, refused.body))
        if found.asked is not None:
            self._count(response, found.asked, found.resource)
        if not await _drained(response):
            response.headers["Connection"] = "close"
        return response

    def _count(self, response: Response, asked: Attributes, resource: Resource | None) -> None:
        """Count the request, and warn of a version that is deprecated."""
        options = routing.parse_query(current.query_string.decode("latin1"))
        content = current.headers.get("Content-Type", "")
        self._counts.answered(asked, response.status_code, content, options)
        if resource is not None and resource.lifecycle is not None:
            self._counts.deprecated(asked, resource.lifecycle)
            _warn_first(response, _deprecated(resource))
        elif isinstance(resource, CustomResource) and resource.warning:
            _warn_first(response, resource.warning)

    async def _answer(self, header: str, found: _Found) -> Response:
        raw_path = current.scope["raw_path"].decode("latin1")
        path = routing.decode_path(raw_path)
        if path is None:
            return self._response(Answer(400, rendering.TEXT, b"400 Bad Request"))
        options = routing.parse_query(current.query_string.decode("latin1"))
        asked = routing.attributes(current.method, path, options)
        if asked.verb != "watch":
            self._check_timeout(options)
        user = self._user(asked)
        if isinstance(user, Answer):
            return self._response(user)
        refusal = self._access.refusal(user, asked)
        if refusal is not None:
            raise Refused(refusal)
        query = current.query_string.decode("latin1")
        document = self._documents.find(current.method, path, query, header)
        if document is not None:
            found.asked = None if document.code == HTTPStatus.NOT_FOUND else asked
            return self._response(self._document(document, header, options))
        try:
            target = routing.route(self._gateway.scheme(self._scheme), current.method, path, options)
            found.asked, found.resource = asked, target.resource
            listing = target.verb in ("list", "watch", "deletecollection")
            if not target.resource.custom:
                negotiation.check_route(self._names, header, listing and current.method == "GET")
            return await self._resource(target, user, header, options)
        except (NoRoute, NotAcceptable, BadBody, BadOption) as error:
            if error.body is None:
                return self._response(self._document(NO_PAGE, header, options))
            raise Refused(error.body) from None

    # --- who ----------------------------------------------------------------------------------------------

    def _user(self, asked: Attributes) -> UserInfo | Answer:
        headers = current.headers
        extensions: dict[str, Any] = dict(current.scope.get("extensions") or {})
        certificate: Certificate | None = extensions.get(PEER)
        user = self._authenticator.identify(headers.get("Authorization", ""), certificate)
        if user is None:
            raise Refused(status.unauthorized())
        wanted = Impersonation.of(headers)
        nobody = wanted.nobody(self._names)
        if nobody:
            text = (
                f'Internal Server Error: "{asked.path}": requested [{nobody}] without impersonating a user\n'
            )
            return Answer(500, rendering.TEXT, text.encode())
        if not wanted.name:
            return user
        found = self._access.impersonated(user, wanted)
        if isinstance(found, UserInfo):
            return found
        raise Refused(found)

    @staticmethod
    def _check_timeout(options: dict[str, str]) -> None:
        text = options.get("timeout", "")
        try:
            parse_duration_us(text or "0")
        except ValueError as error:
            why = f"invalid timeout specified in the request URL - {error}"
            raise Refused(status.bad_request(why)) from None

    # --- documents ----------------------------------------------------------------------------------------

    def _document(self, document: Document, header: str, options: dict[str, str]) -> Answer:
        names = self._names
        if document.value is None:
            return Answer(document.code, document.media, document.raw)
        if document.code != HTTPStatus.OK:
            raise Refused(document.value)
        if document.media:  # OpenAPI's index: JSON whatever is asked for
            form = Form(names.media_json)
            return Answer(200, document.media, rendering.encode(names, form, document.value))
        try:
            if document.routed:
                negotiation.check_route(names, header, False, document.json_only)
            form = negotiation.choose(names, header, options, convertible=False)
        except NotAcceptable as error:
            raise Refused(error.body) from None
        return Answer(200, form.media, rendering.encode(names, form, document.value))

    # --- resources ----------------------------------------------------------------------------------------

    async def _resource(
        self, target: Target, user: UserInfo, header: str, options: dict[str, str]
    ) -> Response:
        names = self._names
        watching = target.verb == "watch"
        convertible = target.subresource != "log"
        resource = target.resource
        form = negotiation.choose(
            names,
            header,
            options,
            convertible=convertible,
            watching=watching,
            protobuf=not resource.json_only,
        )
        agent = current.headers.get("User-Agent", "")
        if "pretty" not in options and agent.startswith(_BROWSERS) and not watching:
            form = Form(form.media, form.kind, form.version, True)
        view = View(names, resource, form, self._gateway.wall_us(), options.get("includeObject", ""))
        rendering.check_form(view, target.verb in ("list", "deletecollection"), watching)
        body = None
        content = current.headers.get("Content-Type", "")
        warnings: tuple[str, ...] = ()
        if target.verb in WRITES:
            raw = await _read()
            twice: list[str] = []
            body = json_text(names, target, content, raw, twice)
            warnings = strict_warnings(twice, options.get("fieldValidation", ""))
        check_options(names, target, content, current.query_string.decode("latin1"), body)
        asked = Request(
            verb=target.verb,
            resource=resource.plural,
            group=resource.group,
            version=resource.version,
            subresource=target.subresource,
            namespace=target.namespace if resource.namespaced else "",
            name=target.name,
            options=options,
            body=body,
            content_type=content or names.media_json,
            user=user,
            manager=manager_of(agent),
        )
        reply, watch = await self._gateway.call(asked)
        if watch is not None:
            extensions: dict[str, Any] = current.scope["extensions"]
            extensions[OPENED].append(watch.stop)
            return self._stream(EventWriter(view), watch)
        if warnings and reply.ok:
            reply.warnings += warnings
        if target.subresource == "token" and reply.ok and isinstance(reply.body, dict):
            answered = reply.body["status"]
            reply.body = {
                **reply.body,
                "status": {**answered, "token": self._accounts.sign(answered["token"])},
            }
        return self._response(rendering.render(view, reply))

    def _stream(self, writer: EventWriter, watch: OutsideWatch) -> Response:
        extensions: dict[str, Any] = current.scope["extensions"]
        streamed: list[str] | None = extensions.get(STREAMED)
        if streamed is not None:
            streamed.append(writer.media)

        async def lines() -> AsyncIterator[bytes]:
            while events := await watch.take():
                # Of a WebSocket, one event a message.
                for part in writer.parts(
                    events, self._gateway.wall_us(), PART_MAX if streamed is None else 0
                ):
                    yield part

        response = Response(lines(), 200, content_type=writer.media)
        response.timeout = None
        self._common(response)
        return response

    # --- answers ------------------------------------------------------------------------------------------

    def _response(self, answer: Answer) -> Response:
        response = Response(answer.body, answer.code, content_type=answer.media or None)
        if not answer.media:
            response.headers.pop("Content-Type", None)
        for name, value in answer.headers.items():
            response.headers[name] = value
        for warning in rendering.warning_headers(answer.warnings):
            response.headers.add("Warning", warning)
        self._common(response)
        return response

    def _common(self, response: Response) -> None:
        self._served += 1
        # An identifier of the answer only: a running number in the form of a UUID.
        response.headers["Audit-Id"] = f"00000000-0000-4000-8000-{self._served:012x}"
        response.headers["Cache-Control"] = "no-cache, private"


def _warn_first(response: Response, warning: str) -> None:
    first = rendering.warning_headers([warning])
    response.headers.setlist("Warning", [*first, *response.headers.getlist("Warning")])


def _deprecated(resource: Resource) -> str:
    """What who asks for a version on its way out is warned of."""
    lifecycle = resource.lifecycle
    assert lifecycle is not None
    newer = f"{resource.group}/{lifecycle.replacement}"
    return (
        f"{resource.api_version} {resource.kind} is deprecated in v1.{lifecycle.deprecated}+, "
        f"unavailable in v1.{lifecycle.removed}+; use {newer} {resource.kind}"
    )


async def _read() -> bytes:
    """The body, up to the limit."""
    if (current.content_length or 0) > BODY_MAX:
        raise Refused(status.too_large())
    found = bytearray()
    with trio.move_on_after(REQUEST_TIMEOUT_S) as scope:
        async for chunk in current.body:
            found += chunk
            if len(found) > BODY_MAX:
                raise Refused(status.too_large())
    if scope.cancelled_caught:
        raise Refused(status.timeout("request did not complete within the allotted timeout"))
    return bytes(found)


async def _drained(response: Response) -> bool:
    """Read what a refusal left of the body, so that the connection can go on; False if it cannot."""
    if response.status_code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        await _discard()
    if response.status_code in (413, 504):
        return False
    try:
        await _read()
    except Refused:
        return False
    return True


async def _discard() -> None:
    """Let who sends too much come to its end, within bounds: a connection closed on its way loses the answer."""
    left = DISCARDED_MAX
    with trio.move_on_after(DISCARD_S):
        async for chunk in current.body:
            left -= len(chunk)
            if left < 0:
                return


def make_app(front: Front) -> QuartTrio:
    """The application around a front: every path is the API's own."""
    app = QuartTrio(__name__)
    app.config["MAX_CONTENT_LENGTH"] = None  # the front counts, and refuses in upstream's words
    serve: Callable[[], Any] = front.answer
    app.before_request(serve)
    return app
