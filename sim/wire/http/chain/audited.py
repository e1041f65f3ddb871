"""Audit of requests from outside: those that a replica serves, and those that the front answers.

Turns one exchange into the events of its stages.  What the simulation notes (decisions of the
authorizer, annotations of plugins) comes with the reply.

Holds: an exchange that is recorded ends with exactly one last event, also if its client leaves.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/filters/{audit,authn_audit,audit_init}.go,
         apimachinery pkg/util/net/http.go (SourceIPs).
Differs  - Events are written at once in every mode of the log: batches are made of what happens in
           virtual time, and requests from outside enter at the gate only.
         - The last event of a complete answer is written before its bytes are sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import Any

from sim.api.audit.delivery import cut_to
from sim.api.audit.events import (
    COMPLETE,
    PANIC,
    RECEIVED,
    STARTED,
    Arrival,
    Record,
    attempted,
    decision_annotations,
    deprecation_annotations,
)
from sim.api.audit.policy import Level, Stage
from sim.api.audit.settings import AuditSettings
from sim.api.audit.sink import AuditSink
from sim.api.auth.attributes import AccessAttributes, Opinion
from sim.api.schema.resource import Resource
from sim.api.types import Reply, UserInfo, Verb
from sim.ident import Names
from sim.options.apiserver.audit import STRICT
from sim.wire.exchange import Exchange


class HttpAudit:
    """The audit of an HTTP front.

    wall_us: Unix time of the cluster
    """

    def __init__(
        self, names: Names, settings: AuditSettings, sink: AuditSink, wall_us: Callable[[], int]
    ) -> None:
        self.names = names
        self._settings = settings
        self._sink = sink
        self.wall_us = wall_us

    def open(self, exchange: Exchange, asked: AccessAttributes, user: UserInfo | None) -> AuditedExchange:
        """The audit of an exchange.  user: None if it could not be authenticated"""
        scope = self._settings.policy.scope(user, asked)
        self._sink.evaluate(scope.level)
        if scope.level is Level.NONE:
            return AuditedExchange(self, None)
        uri = f"{exchange.path}?{exchange.query}" if exchange.query else exchange.path
        arrival = Arrival(
            asked, user, uri, self.wall_us(), source_ips(exchange), exchange.headers.get("user-agent")
        )
        return AuditedExchange(self, Record(self.names, exchange.ident, scope, arrival))

    async def begin(self, record: Record) -> bool:
        """Send the first event; False if the request has to be refused, because it is not stored."""
        settings, first = self._settings, self._sink.first
        refuses = not self.stage(record, RECEIVED) and settings.log.batching.mode == STRICT
        event = record.event(RECEIVED, self.wall_us()) if first is not None else None
        if first is not None and event is not None and not await first(event):
            refuses = refuses or settings.webhook.batching.mode == STRICT
        if refuses:
            self._sink.refuse()
        return not refuses

    def stage(self, record: Record, stage: Stage) -> bool:
        """Send the event of a stage; False if it is not stored."""
        now_us = self.wall_us()
        event = record.event(stage, now_us)
        if event is None:
            return True
        self._sink.forward(event)
        cut = cut_to(event, self._settings.log.event_max, self.names)
        return cut is None or self._sink.write((cut,), now_us)


class AuditedExchange:
    """The audit of one exchange; all methods do nothing if the policy does not record it."""

    __slots__ = ("_audit", "_record", "_streams")

    def __init__(self, audit: HttpAudit | None = None, record: Record | None = None) -> None:
        self._audit = audit
        self._record = record
        self._streams = False

    @property
    def record(self) -> Record | None:
        """What is recorded so far; None if nothing is."""
        return self._record

    def refuse_credentials(self, exchange: Exchange, query: Mapping[str, str], certificate: bool) -> None:
        """The request could not be authenticated: it has this one event."""
        if self._audit is not None and self._record is not None:
            message = attempted(exchange.headers.pairs, query, certificate)
            self._record.respond_code(401, message)
            self._audit.stage(self._record, STARTED)
            self._record = None

    def impersonate(self, user: UserInfo) -> None:
        """The request acts as another user."""
        if self._record is not None:
            self._record.impersonate(user)

    def decide(self, opinion: Opinion) -> None:
        """The authorizer has judged the request."""
        if self._audit is not None and self._record is not None:
            self._record.annotate(decision_annotations(self._audit.names, opinion))

    def send(self, body: Any, verb: Verb) -> None:
        """The body of the request has been read."""
        if self._record is not None:
            self._record.request_body(body, verb)

    def reply(self, reply: Reply, resource: Resource | None) -> None:
        """The reply of a replica, or the Status of a refusal."""
        if self._audit is None or self._record is None:
            return
        self._record.annotate(reply.annotations)
        self._record.annotate(deprecation_annotations(self._audit.names, resource))
        if self._streams:
            self._record.respond_code(reply.code)
        else:
            self._record.respond(reply, resource)

    def stream(self) -> None:
        """The answer begins, and has no end of its own."""
        if self._audit is not None and self._record is not None:
            self._streams = True
            self._record.respond_code(200)
            self._audit.stage(self._record, STARTED)

    def complete(self, code: int) -> None:
        """The answer is complete."""
        if self._record is not None and not self._record.answered:
            self._record.respond_code(code)
        if not self._streams:
            self.close()

    def panic(self, text: str) -> None:
        """The server has failed."""
        if self._audit is not None and self._record is not None:
            self._record.panic(text)
            self._audit.stage(self._record, PANIC)
            self._record = None

    def close(self) -> None:
        """The exchange is over."""
        record, self._record = self._record, None
        if self._audit is not None and record is not None:
            record.close_early()
            if record.is_long_running and not self._streams:
                self._audit.stage(record, STARTED)
            self._audit.stage(record, COMPLETE)


NOT_AUDITED = AuditedExchange()


def source_ips(exchange: Exchange) -> tuple[str, ...]:
    """The addresses that a request comes from: of the client that proxies name, and of the peer."""
    found: list[str] = []
    for text in exchange.headers.get("x-forwarded-for").split(","):
        _add(found, text.strip(), False)
    _add(found, exchange.headers.get("x-real-ip"), exchange.headers.get("x-real-ip") in found)
    _add(found, exchange.client, found[-1:] == [exchange.client])
    return tuple(found)


def _add(found: list[str], text: str, known: bool) -> None:
    try:
        address = str(ip_address(text))
    except ValueError:
        return
    if not known:
        found.append(address)
