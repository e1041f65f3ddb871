"""One API server replica: it turns a `Request` into a `Reply` or into a watch.

A request runs as the generator of its verb, which yields storage operations.  While the storage is
healthy all operations are applied at the instant at which the request arrives, and the reply is
sent after the storage's latency.  A transport in this process may add that latency to its own
(`serve`), so that the server needs no kernel event.  Otherwise each operation is sent to the
storage, and the request continues with the answer.

Refusals are checked in this order: too many requests in flight, then the checks of `handlers`.

Holds: `respond` is called exactly once for each request.  A crash answers every request in flight
with ConnectionReset and ends every watch, and commits persist.  A request from outside the
simulation cannot end the run.

Mirrors  kubernetes v1.25 apiserver pkg/server/config.go (DefaultBuildHandlerChain),
         pkg/endpoints/handlers.
Differs  - The transport authenticates clients.
         - Requests queue for seats (`fairness`) only while requests take time (`processors`, an
           overload, a storage that is not prompt); all other requests finish when they arrive.
         - A server that is paused while the storage commits (2 ms at most) still sends that reply.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import outcome

from actors.apiserver.aggregation.aggregator import Aggregator
from actors.apiserver.answers import Answers
from actors.apiserver.authorization import allow_all, judge
from actors.apiserver.builtin.bootstrap import bootstrap
from actors.apiserver.builtin.bootstrap_roles import bootstrap_roles
from actors.apiserver.builtin.client_authorities import Trust
from actors.apiserver.builtin.controllers import begin_controllers
from actors.apiserver.builtin.definitions import Definitions
from actors.apiserver.builtin.endpoint_keeper import API_PORT, EndpointKeeper
from actors.apiserver.builtin.identity import begin_identity
from actors.apiserver.caches.trail import CacheTrail
from actors.apiserver.caches.watch_caches import CachedRead, Caches
from actors.apiserver.fairness import Seats
from actors.apiserver.fast.base import CallPath, FastState
from actors.apiserver.fast.coalesced_calls import offer_coalesced_path
from actors.apiserver.fast.lease_updates import LeasePath, LeasePaths, find_lease_path, follow_write
from actors.apiserver.fast.write_templates import WriteTemplates
from actors.apiserver.flights import Flight, OnError, Traffic, allowed_us
from actors.apiserver.handlers import READS, Handlers
from actors.apiserver.incarnation import Incarnation, auditor_of
from actors.apiserver.lifecycle.compactor import Compactor
from actors.apiserver.lifecycle.goaway import Goaway
from actors.apiserver.lifecycle.graceful_termination import Ending
from actors.apiserver.lifecycle.sizes import Sizes
from actors.apiserver.lifecycle.stepwise import Stepwise, Straight, run_through
from actors.apiserver.lifecycle.storage_connection import Reach
from actors.apiserver.lifecycle.storage_without_leader import CacheLife
from actors.apiserver.metering import Tally
from actors.apiserver.metrics.storage import metered
from actors.apiserver.options import ApiServerOptions
from actors.apiserver.ports import Authorizer, StorageProcess, writer_of
from actors.apiserver.refusals import Refusals
from actors.apiserver.registry import make_registry
from actors.apiserver.rules import Machinery
from actors.apiserver.surroundings import ALONE, Surroundings
from actors.apiserver.webhooks import Webhooks
from sim.api import status
from sim.api.audit.events import unstored
from sim.api.auth.attributes import AccessAttributes, Opinion
from sim.api.refusals import Refusal, Steps
from sim.api.scheme.scheme import Scheme
from sim.api.store import Answer, Consult, Consulted, Get, Op, Pause, Range, Unavailable
from sim.api.types import Reply, Request, UserInfo
from sim.api.verbs.call import REST, Call
from sim.api.webhooks.unanswered import Unanswered
from sim.kernel import Context, Kernel, State
from sim.units import MS, SECOND, Virtual

if TYPE_CHECKING:
    from actors.apiserver.processors import Processors

WRITE_US = 34 * SECOND  # handlers: requestTimeoutUpperBound, for writes
PROGRESS_US = 600 * SECOND  # etcd's watch progress notification
AGAIN_US = 25 * MS  # between failed reads (clientv3/retry.go: defaultBackoffWaitBetween)
TOO_MANY = Reply(429, body="Too many requests, please try again later.", headers={"Retry-After": "1"})
EXCEEDED = "context deadline exceeded"
LOST_REFUSED, LOST_RESET = "ConnectionRefused", "ConnectionReset"


class ApiServer:
    """An `Endpoint`.  `main` is its actor; the object survives the crashes of its incarnations.

    version: that it reports, "" for the release that is simulated
    reached_at: address and port for clients, in the endpoints of its Service, unless it is 0
    around: what it is connected to besides its storage
    trust: how the transports authenticate clients
    life: None while no incarnation runs
    trail: how far the caches are behind the storage
    answers: how replies leave it, with the requests in flight and the numbers of answers
    flown: number of requests served so far, with those of fast paths
    stopped_us: when the last incarnation stopped, -1 if none has
    bounded: True if a request may have to wait or be refused, or is audited
    """

    def __init__(
        self,
        name: str,
        kernel: Kernel,
        storage: StorageProcess,
        scheme: Scheme,
        options: ApiServerOptions | None = None,
        authorizer: Authorizer | None = None,
        address: str = "172.16.250.1",
        around: Surroundings = ALONE,
    ) -> None:
        self.name, self.version = name, ""
        self.reached_at = address, API_PORT
        self.kernel = kernel
        self.storage = storage
        self.scheme = scheme
        self.options = options or ApiServerOptions()
        self.authorizer: Authorizer = authorizer or allow_all(scheme.names)
        self.around = around
        self.trust = Trust()
        self.refusals = Refusals(kernel)
        self.life: Incarnation | None = None
        self.sizes = Sizes()
        self.flown, self.stopped_us = 0, -1
        self.trail = CacheTrail(self.options.cache_lag_us)
        self.webhooks = Webhooks(self, around.ask)
        self.aggregator = Aggregator(self, around.backends)
        traffic = Traffic(self.options, scheme.names.group_masters)
        self.answers = Answers(self, traffic, Tally(), lambda: self.life)
        self.bounded = self._is_bounded()

    # --- start and end -----------------------------------------------------------------------------

    @property
    def traffic(self) -> Traffic:
        """The requests in flight, and how many there may be."""
        return self.answers.traffic

    @property
    def tally(self) -> Tally:
        """Numbers of answers by client and code."""
        return self.answers.tally

    @property
    def running(self) -> bool:
        """True while an incarnation runs."""
        return self.life is not None

    @property
    def ready(self) -> bool:
        """True while an incarnation runs and is not terminating."""
        return self.life is not None and not self.life.ending.begun

    @property
    def synced(self) -> bool:
        """True if this incarnation has read from the storage."""
        return self.life is not None and self.life.cache_life.synced

    @property
    def ctx(self) -> Context | None:
        """The process of the running incarnation."""
        return None if self.life is None else self.life.ctx

    @property
    def reach(self) -> Reach | None:
        """The connection of the running incarnation to the storage."""
        return None if self.life is None else self.life.reach

    @property
    def started_us(self) -> Virtual:
        """When the running incarnation started."""
        return Virtual(0) if self.life is None else self.life.started_us

    @property
    def sees(self) -> Scheme:
        """The resources with the definitions that the running incarnation has observed."""
        return self.scheme if self.life is None else self.life.sees

    @property
    def seats(self) -> Seats | None:
        """The seats of the running incarnation; None if priority and fairness is off."""
        return None if self.life is None else self.life.seats

    @property
    def prompt(self) -> bool:
        """True while operations may be applied to the store at once and only the reply is delayed."""
        life = self.life
        return life is not None and life.reach.clear and self.storage.prompt

    @property
    def busy(self) -> bool:
        """True when one more write would be refused, wait or take time."""
        if not self.bounded:
            return False
        return self._slow or self.traffic.full_of_writes

    @property
    def _slow(self) -> bool:
        """True if each request takes time, or if its reply is not the reply of its verb alone."""
        if self.traffic.timed or self.webhooks.present or self.options.asks:
            return True
        return self.life is not None and self.life.may_hinder

    def rebound(self) -> None:
        """Follow a change of what a request may have to wait for."""
        self.bounded = self._is_bounded()
        self.kernel.standing.moved()

    @property
    def in_flight(self) -> int:
        """The number of requests in flight, without watches."""
        return self.traffic.in_flight

    @property
    def watched(self) -> int:
        """The number of open watches."""
        return self.traffic.watching + (0 if self.life is None else self.life.caches.watched)

    def main(self, ctx: Context) -> None:
        """Start an incarnation, with empty caches that begin at the store's current revision."""
        store, options = self.storage.store, self.options
        machinery = Machinery(self.scheme, store, options, self.kernel)
        sees = self.scheme.beside(self.scheme.more)
        registry = make_registry(ctx, machinery.rules(), sees, options, self.authorizer, self.around)
        self.storage.writer = (self.scheme.names.user_apiserver, "create")
        bootstrap(registry, store, self.reached_at, self.trust.data, self.around.addons)
        bootstrap_roles(registry, store)
        if event_ttl_us := options.event_ttl_us // SECOND * SECOND:
            self.storage.expire(self.scheme.prefix("events"), event_ttl_us)
        watched = [each for each in self.scheme.resources if "watch" in each.verbs]
        caches = Caches(ctx, store, options, watched)
        paths: LeasePaths = {}
        templates = None
        if self.kernel.fast.templates:
            templates = WriteTemplates(self, registry, machinery.view, caches, paths)
        self.life = life = Incarnation(
            ctx=ctx,
            started_us=self.kernel.now_us,
            sees=sees,
            reach=Reach(ctx, self.name, self.storage, self.trail.follow),
            caches=caches,
            cache_life=CacheLife(ctx, caches, self._begin),
            handlers=Handlers(self.authorizer, registry, store, caches, self.webhooks.consult),
            fast=FastState(ctx, caches, paths, templates),
            seats=Seats(self, caches, store) if options.seats else None,
            audit=auditor_of(ctx, sees, options, self.around, self.reached_at[0]),
            goaway=Goaway(ctx, options.goaway_chance) if options.goaway_chance else None,
            ending=Ending(self, ctx),
            processors=self._processors(ctx, sees, caches),
        )
        self.trail.begin(caches, life.reach)
        sees.more = Definitions(ctx, store, caches, self.scheme)
        begin_controllers(self, store, registry, ctx, self.trust)
        self.webhooks.begin(ctx, store)
        self.aggregator.begin(ctx, store)
        if not self.prompt:
            life.cache_life.wait_for_list()
            life.cache_life.list_first(life.reach, Get(self.scheme.prefix("namespaces")))
        life.cache_life.set_led(self.storage.led)
        ctx.on_stop(self.storage.on_leader(life.cache_life.set_led))
        unhook = store.before_compact(caches.before_compact)
        ctx.on_stop(lambda: self._stop(life, unhook))
        ctx.on_stop(machinery.view.close)
        Compactor(self.storage, lambda: self.prompt, ctx, options.compaction_interval_us)
        ctx.call_later_us(PROGRESS_US, self._progress, ctx)
        registered = partial(life.handlers.let_writes_pass, self.rebound)
        life.handlers.hold_back = begin_identity(self, store, ctx, registered)
        self.rebound()
        ctx.on_terminate(partial(life.ending.begin, EndpointKeeper(self, store, ctx).leave))

    def _processors(self, ctx: Context, sees: Scheme, caches: Caches) -> Processors | None:
        if not self.options.capacity_nano:
            return None
        from actors.apiserver.processors import processors_of  # few servers have a capacity

        return processors_of(ctx, self.options, self.storage.store, sees, caches)

    def _stop(self, life: Incarnation, unhook: Callable[[], None]) -> None:
        unhook()
        self.stopped_us = self.kernel.now_us
        self.life = None
        flights = self.traffic.clear()
        self.trail.end()
        self.bounded = self._is_bounded()
        cut = life.caches.cut
        cut() if life.audit is None else life.audit.end(cut)
        for flight in flights:
            respond, flight.respond = flight.respond, None
            if respond is not None:
                respond(Reply(0, lost=LOST_RESET))
        self.kernel.network.stir(self.name)

    # --- faults -----------------------------------------------------------------------------------

    def overload(self, by_us: int, inflight: int | None) -> None:
        """Fault: delay each request by `by_us` and allow `inflight` reads and `inflight` writes at
        once.
        """
        self.traffic.extra_us, self.traffic.limit = by_us, inflight
        self.bounded = self._is_bounded()

    def _is_bounded(self) -> bool:
        """Return True if a request may have to wait or be refused."""
        if self._slow or self.traffic.limited or self.kernel.meters is not None:
            return True
        life = self.life
        return life is not None and (life.audit is not None or life.handlers.hold_back is not None)

    def drop_watches(self, resource: str, client: str) -> None:
        """Fault: end watches of a resource ("": all) by users that match a glob ("": all)."""
        if self.life is not None:
            self.life.caches.drop(resource, client)

    def _progress(self, ctx: Context) -> None:
        if self.life is not None:
            self.life.caches.show_progress()
            ctx.call_later_us(PROGRESS_US, self._progress, ctx)

    # --- requests ---------------------------------------------------------------------------------

    def handle(
        self, request: Request, respond: Callable[[Reply], None], outside: OnError | None = None
    ) -> None:
        """Serve a request and call `respond` once with the reply.

        outside: given for a client outside of virtual time.  Its reply is sent without latency,
        and an internal error of the server is passed to `outside` and does not end the run.
        """
        life = self.life
        if life is None or (life.ending.away is not None and life.ending.away.lost):
            respond(Reply(0, lost=LOST_REFUSED))
            return
        flight = Flight(request, respond, outside, self.kernel.now_us)
        self.flown = number = self.flown + 1
        self.traffic.flights[number] = flight
        if life.ctx.state is State.RUNNING:
            self._serve(number)
        else:
            life.ctx.run(self._serve, number)

    def forget(self, respond: Callable[[Reply], None]) -> None:
        """Drop the request of a client that no longer waits; operations not yet sent are not sent."""
        for number, flight in self.traffic.flights.items():
            if flight.respond == respond:
                del self.traffic.flights[number]
                if self.life is not None and self.life.audit is not None:
                    self.life.audit.leave_flight(flight)
                if flight.until_us:  # its service has begun
                    self.answers.release(number, flight)
                return

    def open_lease_path(self, request: Request, path: tuple[str, ...]) -> LeasePath | None:
        """Return the lease fast path by which this client can renew an object now, or None."""
        return None if self.life is None else find_lease_path(self, self.life.fast.lease_paths, request, path)

    def coalesced_path(self, request: Request) -> CallPath | None:
        """Return a fast path for calls like `request` and later ones, or None if none applies now."""
        life = self.life if self.kernel.fast.calls else None
        return None if life is None else offer_coalesced_path(self, life.fast, request)

    def _serve(self, number: int) -> None:
        flight, life = self.traffic.flights.get(number), self.life
        if flight is None or life is None:
            return  # its client no longer waits
        flight.until_us = self.kernel.now_us + allowed_us(flight.request, self.options.request_timeout_us)
        self.traffic.count(flight, 1)
        audit = life.audit
        if audit is None:
            self._admit(number)
            return
        stored, first = audit.begin_flight(flight), audit.take_first()
        if stored and first is not None:
            audit.post(first, lambda stored: self._recorded(number, stored))
        else:
            self._recorded(number, stored)

    def _recorded(self, number: int, stored: bool) -> None:
        """Continue with a request if its first audit event is stored."""
        flight = self.traffic.flights.get(number)
        if flight is None:
            return
        if stored:
            self._admit(number)
        else:
            uri = "" if flight.record is None else flight.record.uri
            self._answer(number, Reply(500, body=unstored(uri)), 0)

    def _admit(self, number: int) -> None:
        flight, life = self.traffic.flights[number], self.life
        if life is None:
            return
        seats = life.seats
        if life.ending.away is not None:
            self._answer(number, life.ending.away, 0)
        elif self.traffic.has_no_room(flight):
            self.refuse(number)
        elif seats is not None and (self.traffic.timed or not self.prompt or seats.waiting):
            flight.seated = True
            self._take_cause(flight.request)
            seats.arrive(number, flight.request)
            self.bounded = self._is_bounded()
        else:
            self.start(number)

    def end_audit(self) -> None:
        """Let the audit record the end of open requests, since the process ends in order."""
        if self.life is not None and self.life.audit is not None:
            self.life.audit.ends_in_order = True

    def refuse(self, number: int) -> None:
        """Answer a request with 429; it holds no place while that costs time."""
        flight = self.traffic.flights.get(number)
        if flight is not None:
            self.traffic.count(flight, -1)
        self._answer(number, TOO_MANY, 0)

    def start(self, number: int) -> None:
        """Begin to serve a request that has been admitted, after the delay of an overload."""
        flight, life, extra_us = self.traffic.flights[number], self.life, self.traffic.extra_us
        if flight.mutating:
            flight.until_us = min(flight.until_us, self.kernel.now_us + WRITE_US)
        if life is None or not self.traffic.timed:
            self._begin(number)
            return
        if flight.request.verb != "watch":
            self.kernel.call_at(flight.until_us, self._time_out, number)
        begin = partial(self.answers.take_up, flight, self._begin) if life.processors else self._begin
        life.ctx.call_later_us(extra_us, begin, number)

    def _begin(self, number: int) -> None:
        try:
            self._take_up(number)
        except Exception as error:
            self._recover(number, error)

    def _recover(self, number: int, error: BaseException) -> None:
        """Get a missing answer, or answer as upstream does after a panic (500), if the client is
        outside the simulation.

        An error that a request of the simulation causes ends the run.
        """
        flight = self.traffic.flights.get(number)
        if isinstance(error, Unanswered):
            if flight is not None:
                flight.steps = None
                if not flight.asked:
                    flight.asked = True
                    self.kernel.call_at(flight.until_us, self._time_out, number)
                self.webhooks.ask_first(error, lambda: self._begin(number))
            return
        if flight is None or flight.outside is None or not isinstance(error, Exception):
            raise error
        flight.outside(flight.request, error)
        self._answer(number, Reply(500, body=status.PANIC), 0)

    def _take_up(self, number: int) -> None:
        flight, life = self.traffic.flights.get(number), self.life
        if flight is None or life is None:
            return
        request, handlers, caches = flight.request, life.handlers, life.caches
        self._take_cause(request)
        flight.began_us = self.kernel.now_us
        try:
            call = handlers.call(request)
            if not caches.ready and handlers.needs_cache(call):
                caches.waiting.append(number)
                watch = request.verb == "watch"
                until_us = handlers.deadline_us(call) if watch else max(flight.until_us, self.kernel.now_us)
                self.kernel.call_at(until_us, self._give_up_waiting if watch else self._time_out, number)
                return
            if request.verb == "watch":
                self._answer(number, handlers.watch(call), self.storage.latency_us(0, request.draw))
                return
            read = handlers.cached(call)
            if read is not None:
                self._answer_from_cache(number, read)
                return
            steps = metered(self.kernel, handlers.steps(call), call.resource)
        except Refusal as refusal:
            reply = self.refusals.noted(request, refusal.reply())
            self.aggregator.answer(request, reply, lambda found: self._answer(number, found, 0))
            return
        waits = handlers.converts(call) or (self.webhooks.present and handlers.is_admitted(request))
        flight.large = call.large = flight.outside is not None and self.sizes.is_large(call)
        if self.prompt and not (waits or flight.large):
            self._answer(number, *self._run(life, call, steps))
            return
        straight = self.prompt and flight.outside is not None  # it is answered at any pace
        flight.steps = Straight(call, steps) if straight else Stepwise(handlers, caches, request, call, steps)
        self.kernel.call_at(flight.until_us, self._time_out, number)
        self._advance(number, None)

    def serve(self, request: Request) -> tuple[Reply, int] | None:
        """Serve a request now and return its reply and the delay before it is sent.

        Returns None if the request needs `handle`.  The caller must compare `stopped_us` when the
        reply arrives, since the server may have crashed during the delay.
        """
        life, storage = self.life, self.storage
        if life is None or life.ctx.state is not State.RUNNING or not self.prompt or self.bounded:
            return None
        if request.verb == "watch":
            return None
        handlers, templates = life.handlers, life.fast.templates
        self.kernel.cause = request.cause = request.cause or self.kernel.cause
        if templates is not None and (reply := templates.follow(request)) is not None:
            self.flown += 1
            took_us = storage.latency_us(request.verb not in READS, request.draw)
            return self.tally.counted(request, reply), took_us
        try:
            call = handlers.call(request)
            if not life.caches.ready and handlers.needs_cache(call):
                return None
            cached = handlers.cached(call)
            if cached is not None:
                if cached.cache.revision() < cached.rev:
                    return None
                self.flown += 1
                return self.tally.counted(request, cached.read()), storage.latency_us(0, request.draw)
            if handlers.converts(call):
                return None
            steps = metered(self.kernel, handlers.steps(call), call.resource)
        except Refusal as refusal:
            if self.aggregator.answers(request):
                return None
            self.flown += 1
            return self.tally.counted(request, self.refusals.noted(request, refusal.reply())), 0
        self.flown += 1
        reply, took_us = self._run(life, call, steps)
        if templates is not None and templates.origin is not None:
            templates.learn(request, reply)
        return self.tally.counted(request, reply), took_us

    def _take_cause(self, request: Request) -> None:
        self.kernel.follow(request.cause or self.kernel.cause)
        request.cause = self.kernel.cause

    def _run(self, life: Incarnation, call: Call, steps: Steps) -> tuple[Reply, int]:
        """Carry out a request on a prompt storage; return the reply and the storage's latency."""
        storage, request = self.storage, call.request
        mutating = request.verb not in READS
        storage.writer = writer_of(request)
        reply = run_through(call, steps, storage.store.apply)
        if mutating:
            follow_write(self, life.fast.lease_paths, request, reply)
            if call.size:
                self.sizes.note(call, reply)
            self.refusals.note(request, reply)
        return reply, storage.latency_us(mutating, request.draw)

    def _answer_from_cache(self, number: int, cached: CachedRead) -> None:
        """Answer once the cache has reached the revision, or refuse if it does not in time."""

        def when(fresh: bool) -> None:
            if fresh and number in self.traffic.flights:
                draw = self.traffic.flights[number].request.draw
                self._answer(number, cached.read(), self.storage.latency_us(0, draw))
            else:
                refusal = Refusal.of(status.revision_too_large(cached.rev, cached.cache.revision()))
                self._answer(number, refusal.reply(), 0)

        if self.life is not None:
            self.life.caches.when_fresh(cached.cache, cached.rev, when)

    def _advance(self, number: int, answer: Answer) -> None:
        """Continue a request with an answer of the storage, or of webhooks, which may be large."""
        flight, life = self.traffic.flights.get(number), self.life
        if flight is None or flight.steps is None or life is None:
            return
        work = partial(flight.steps.advance, answer)
        if flight.large or (isinstance(answer, Consulted) and flight.outside is not None):
            self.kernel.aside.plan(work, lambda found: life.ctx.run(self._advanced, (number, found)))
        else:
            self._advanced((number, outcome.capture(work)))

    def _advanced(self, step: tuple[int, outcome.Maybe[Op | Reply]]) -> None:
        """Carry out what the next step of a request has asked for."""
        number, found = step
        flight, life = self.traffic.flights.get(number), self.life
        if isinstance(found, outcome.Error):
            self._recover(number, found.error)
            return
        op = found.value
        if flight is None or life is None or flight.steps is None:
            return
        if isinstance(op, Reply):
            if isinstance(flight.steps, Straight):
                follow_write(self, life.fast.lease_paths, flight.request, op)
            self.sizes.note(flight.steps.call, op)
            self.refusals.note(flight.request, op)
            self._answer(number, op, 0)
        elif op == REST:
            self._advance(number, None)
        elif isinstance(op, Pause):
            life.ctx.call_later_us(op.us, lambda _: self._advance(number, None))
        elif isinstance(op, Consult):
            self.webhooks.consult(op, partial(life.ctx.run, partial(self._advance, number)))
        elif isinstance(flight.steps, Straight) and self.prompt:
            self.storage.writer = writer_of(flight.request)
            self._advance(number, self.storage.store.apply(op))
        else:
            self._submit(number, op)

    def judge(self, user: UserInfo, attributes: AccessAttributes, done: Callable[[Opinion], None]) -> None:
        """Judge a request of a client outside, with an answer of a service if that is needed."""
        judge(self.ctx, self.authorizer, self.webhooks.ask, (user, attributes), done)

    def _submit(self, number: int, op: Op) -> None:
        flight = self.traffic.flights.get(number)
        if flight is not None and self.life is not None:
            writer, waits = writer_of(flight.request), lambda: number in self.traffic.flights
            self.life.reach.submit(op, writer, waits, lambda answer: self._resume(number, op, answer))

    def _resume(self, number: int, op: Op, answer: Answer) -> None:
        life, flight = self.life, self.traffic.flights.get(number)
        if life is None or flight is None:
            return
        if isinstance(answer, Unavailable) and (flight.request.verb == "get" or isinstance(op, Range)):
            life.ctx.call_later_us(AGAIN_US, lambda _: self._submit(number, op))
        else:
            life.ctx.run(lambda result: self._advance(number, result), answer)

    def _time_out(self, number: int) -> None:
        if number in self.traffic.flights:
            text = f"request did not complete within requested timeout - {EXCEEDED}"
            self._answer(number, Refusal.of(status.timeout(text)).reply(), 0)

    def _give_up_waiting(self, number: int) -> None:
        """Refuse a watch that did not begin within its own duration."""
        if self.life is not None and number in self.life.caches.waiting:
            self.life.caches.waiting.remove(number)
            self._answer(number, Refusal.of(status.service_unavailable(EXCEEDED)).reply(), 0)

    def _answer(self, number: int, reply: Reply, delay_us: int) -> None:
        self.answers.give(number, reply, delay_us)
