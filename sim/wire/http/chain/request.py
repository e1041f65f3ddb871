"""One request in the chain: what its stages have found so far, and what a stage is.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/request/{context,requestinfo,received_time}.go.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from sim.api.auth.attributes import AccessAttributes
from sim.api.schema.resource import Resource
from sim.api.scheme.scheme import Scheme
from sim.api.types import Obj, Reply, UserInfo
from sim.ident import Names
from sim.wire.exchange import Exchange, Response
from sim.wire.http.chain.audited import NOT_AUDITED, AuditedExchange
from sim.wire.http.forms import negotiation, rendering
from sim.wire.http.forms.negotiation import Form
from sim.wire.http.forms.rendering import Answer, View
from sim.wire.http.gateway import OutsideEndpoint, OutsideWatch
from sim.wire.http.pages.document import NO_SNIFF
from sim.wire.http.routing import Target
from sim.wire.turns import Mark

NO_CONTENT, FORBIDDEN = 204, 403  # an access to `http.HTTPStatus` takes 0.3 us
COMMON = ("Cache-Control", "no-cache, private")  # a header of each answer


class Body(NamedTuple):
    """The body of a request.

    text: as JSON; None for none
    repeated: the keys that its YAML has twice, as one error; warnings: the same for its sender
    """

    text: bytes | None = None
    repeated: str = ""
    warnings: tuple[str, ...] = ()


NO_BODY = Body()


class HttpRequest:
    """A request, with the findings of the stages in the order in which they are found.

    begun_us: when it came, in the time of the cluster
    server: the replica that a load balancer chooses for it, if one runs; scheme: its resources
    path: with its escapes decoded once; options: the first value of each parameter of the query
    attributes: what it asks for; user: its sender
    audited: the audit of it
    flow: headers with the uids of FlowSchema and priority level
    counted: True once its path has led to a resource or document, so that it is counted
    handled: False if the route refused it
    resource, target: what its path leads to
    view: how its answer is rendered
    warned: of a reply that cannot have the form that was asked for
    reply, watch: of the API server
    mark: of a program that follows the time of the cluster
    """

    path: str
    options: Mapping[str, str]
    attributes: AccessAttributes
    user: UserInfo
    target: Target
    view: View
    reply: Reply
    watch: OutsideWatch | None

    def __init__(
        self, exchange: Exchange, begun_us: int, server: OutsideEndpoint | None, scheme: Scheme
    ) -> None:
        self.exchange, self.begun_us = exchange, begun_us
        self.server, self.scheme = server, scheme
        self.audited: AuditedExchange = NOT_AUDITED
        self.flow: tuple[tuple[str, str], ...] = ()
        self.resource: Resource | None = None
        self.body = NO_BODY
        self.counted, self.handled = False, True
        self.warned: tuple[str, ...] = ()
        self.mark: Mark | None = None

    def header(self, name: str) -> str:
        """The first value of a header, named in lower case; "" if there is none."""
        return self.exchange.headers.get(name)

    @property
    def indents(self) -> bool:
        """True if JSON for the client is indented."""
        return negotiation.wants_indentation(self.options, self.header("user-agent"))


# What a stage makes of a request: an answer, nothing, or one of them once something is waited for.
Outcome = Response | Awaitable[Response | None] | None
Stage = Callable[[HttpRequest], Outcome]


def response_of(answer: Answer) -> Response:
    """An answer with the headers that follow from it."""
    headers = []
    if answer.media and answer.code != NO_CONTENT:
        headers.append(("Content-Type", answer.media))
    if answer.headers:
        headers += answer.headers.items()
    if answer.warnings:
        headers += [("Warning", warning) for warning in rendering.warning_headers(answer.warnings)]
    if COMMON[0] not in answer.headers:
        headers.append(COMMON)
    return Response(answer.code, answer.body, headers)


def plain_text(code: int, text: str) -> Response:
    """An answer in words alone."""
    return response_of(Answer(code, rendering.TEXT, text.encode()))


def refusal_of(names: Names, form: Form, body: Obj) -> Response:
    """A Status as an answer."""
    response = response_of(rendering.failure(names, form, body))
    if body.get("code") == FORBIDDEN:
        response.headers += NO_SNIFF.items()
    return response
