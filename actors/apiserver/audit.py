"""Audit of one API server replica: the requests that reach it become events, with virtual times.

Turns the arrival, the reply and the end of each request into events (`sim.api.audit`), and hands
them to the backends that the composition root has opened (`AuditSink`), in batches where the log's
mode says so.

Holds: a request that arrives gives the events that the policy records, in the order of their
instants.  The ids come from a random stream of their own, so that they shift no other draw.  Events
that wait in the memory of a process are lost in a crash, and written at a graceful termination.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/filters/audit.go (WithAudit).
Differs  - A request from outside is audited where it enters (`sim.wire.http.chain.audited`), which
           knows its URI, its headers and refusals that happen before it reaches a replica.
         - All replicas write to one log.
         - A replica that crashes leaves requests without their last event, as upstream's does; an
           event that it was writing is complete.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec.structs import replace

from actors.apiserver.flights import Flight
from sim.api.audit.arrivals import arrival_of
from sim.api.audit.delivery import Batcher, cut_to
from sim.api.audit.events import COMPLETE, RECEIVED, STARTED, Record, deprecation_annotations
from sim.api.audit.policy import Level, Stage
from sim.api.audit.settings import AuditSettings
from sim.api.audit.sink import AuditSink
from sim.api.generated_names import new_uid
from sim.api.scheme.scheme import Scheme
from sim.api.types import Obj, Reply, Request, UserInfo
from sim.kernel import Context
from sim.options.apiserver.audit import BATCH, STRICT


class Auditor:
    """The audit of one incarnation of a replica.

    address_of: returns the address of the client of a user
    ends_in_order: True from SIGTERM on: the process then writes what waits
    """

    def __init__(
        self,
        ctx: Context,
        scheme: Scheme,
        settings: AuditSettings,
        sink: AuditSink,
        address_of: Callable[[UserInfo], str],
    ) -> None:
        self._ctx: Context | None = ctx
        self._scheme = scheme
        self._settings = settings
        self._sink = sink
        self._address_of = address_of
        self._bits = ctx.stream("audit").getrandbits
        self._log = settings.log
        self._batcher = Batcher(settings.log.batching) if settings.log.batching.mode == BATCH else None
        self._flush_at_us = -1
        self._waits = bool(settings.webhook.config) and settings.webhook.batching.mode != BATCH
        self._first: Obj | None = None
        self.ends_in_order = False

    # --- requests ---------------------------------------------------------------------------------

    def begin_flight(self, flight: Flight) -> bool:
        """Record a request that has arrived; False if it has to be refused."""
        if flight.outside is not None:  # its transport audits it
            flight.request.annotations = {}
            return True
        flight.record = record = self.begin(flight.request)
        return record is None or self.received(record)

    def take_first(self) -> Obj | None:
        """The event that a webhook has to take before the request that arrived last continues."""
        first, self._first = self._first, None
        return first

    def post(self, event: Obj, then: Callable[[bool], None]) -> None:
        """Send an event to the webhook; `then` gets False if the request has to be refused."""
        ctx = self._ctx
        assert ctx is not None
        strict = self._settings.webhook.batching.mode == STRICT

        def posted(stored: bool) -> None:
            if not stored and strict:
                self._sink.refuse()
            then(stored or not strict)

        self._sink.post(event, lambda stored: ctx.run(posted, stored))

    def end_flight(self, flight: Flight, reply: Reply) -> Reply:
        """Record a reply, or pass the record to the request's transport with it."""
        if flight.record is not None:
            now_us = 0 if self._ctx is None else self._ctx.kernel.now_us
            self.answered(flight.record, flight.request, reply, now_us - (flight.began_us or now_us))
        elif flight.request.annotations:
            reply = replace(reply, annotations=flight.request.annotations)
        return reply

    def leave_flight(self, flight: Flight) -> None:
        """Record that the client of a request no longer waits for it."""
        if flight.record is not None:
            flight.record.close_early()
            self._stage(flight.record, COMPLETE)

    def begin(self, request: Request) -> Record | None:
        """Return the record of a request that has arrived; None if the policy does not record it."""
        ctx = self._ctx
        if ctx is None:
            return None
        arrival = arrival_of(request, ctx.wall_us(), self._address_of(request.user))
        scope = self._settings.policy.scope(request.user, arrival.attributes)
        self._sink.evaluate(scope.level)
        if scope.level is Level.NONE:
            return None
        ident = new_uid(self._bits)
        record = Record(self._scheme.names, ident, scope, arrival)
        record.request_body(request.body, request.verb)
        request.annotations = record.annotations
        return record

    def received(self, record: Record) -> bool:
        """Send the first event; False if it could not be stored, so that the request has to be
        refused.
        """
        if self._stage(record, RECEIVED) or self._log.batching.mode != STRICT:
            return True
        self._sink.refuse()
        return False

    def answered(self, record: Record, request: Request, reply: Reply, storage_us: int = 0) -> None:
        """Send the event of a reply, and for a watch one at its start and one at its end.

        storage_us: how long the request waited for the storage
        """
        resource = self._scheme.find(request.group, request.version, request.resource)
        record.annotate(deprecation_annotations(self._scheme.names, resource))
        watch: Any = reply.watch  # a `ServedWatch`
        if watch is not None:
            record.respond_code(reply.code)
            self._stage(record, STARTED)
            watch.observe_end(partial(self._stage, record, COMPLETE))
            return
        record.respond(reply, resource)
        if record.is_long_running:
            self._stage(record, STARTED)
        self._stage(record, COMPLETE, storage_us)

    # --- events -----------------------------------------------------------------------------------

    def _stage(self, record: Record, stage: Stage, storage_us: int = 0) -> bool:
        ctx = self._ctx
        if ctx is None:
            return True  # the process has ended
        event = record.event(stage, ctx.wall_us(), storage_us)
        return event is None or self.send(event)

    def send(self, event: Obj) -> bool:
        """Hand an event to the backends; False if the log could not store it."""
        ctx = self._ctx
        assert ctx is not None
        if self._waits and event["stage"] == RECEIVED:
            self._first = event
        self._sink.forward(event)
        cut = cut_to(event, self._log.event_max, self._scheme.names)
        if cut is None:
            return True
        if self._batcher is None:
            return self._sink.write((cut,), ctx.wall_us())
        now_us = ctx.kernel.now_us
        self._batcher.add(cut, now_us)
        self._flush(now_us)
        return True

    def _flush(self, now_us: int) -> None:
        ctx, batcher = self._ctx, self._batcher
        if ctx is None or batcher is None:
            return
        while batch := batcher.take(now_us):
            self._sink.write(batch, ctx.wall_us())
        due_us = batcher.due_us(now_us)
        if due_us is not None and not now_us <= self._flush_at_us <= due_us:
            self._flush_at_us = due_us
            ctx.call_later_us(due_us - now_us, self._due)

    def _due(self, _: Any) -> None:
        if self._ctx is not None:
            self._flush_at_us = -1
            self._flush(self._ctx.kernel.now_us)

    def flush(self) -> None:
        """Write the events that wait."""
        if self._ctx is not None and self._batcher is not None:
            for batch in self._batcher.take_rest():
                self._sink.write(batch, self._ctx.wall_us())

    def end(self, cut: Callable[[], None]) -> None:
        """End with the process.

        cut: ends the open requests and watches; the events of that, and those that wait, are
            written if the process ends in order
        """
        if not self.ends_in_order:
            self._ctx = None
        cut()
        self.flush()
        self._ctx = None
