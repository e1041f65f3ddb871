"""One API server replica: a request comes in, a reply or a watch goes out.

Turns a `Request` into a run of its verb on the storage and its `Reply` into a callback after the storage's
latency.  While the storage is healthy a request runs straight through at the instant it arrives, and a transport
in this process may put the storage's latency on its own (`serve`: no event of the server's in between); otherwise it
goes on operation by operation, as answers come.

Order of refusals: too many requests, unknown resource, authorization, then the verb's own (admission, validation,
store).

Holds: `respond` is called exactly once per request; a crash answers every request in flight with ConnectionReset and
ends every watch; what was committed stays committed.

Mirrors  kubernetes v1.25 apiserver pkg/server/config.go (DefaultBuildHandlerChain), pkg/endpoints/handlers.
Differs  authentication is the transport's business; requests queue for seats (`fairness`) only while requests take
         time (a storage that is not prompt, an overload): the others are over at the instant they arrive; a server
         that is paused while the storage commits (2 ms at most) still sends that reply.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from msgspec.structs import replace

from actors.apiserver.bootstrap import bootstrap
from actors.apiserver.caches import CachedRead, Caches
from actors.apiserver.compactor import Compactor
from actors.apiserver.dangling import Dangling
from actors.apiserver.fairness import Seats
from actors.apiserver.lane import RENEWAL, Lane, offer_lane
from actors.apiserver.options import ApiServerOptions
from actors.apiserver.plans import Plans
from actors.apiserver.ports import StorageProcess, writer_of
from actors.apiserver.rules import Machinery
from actors.apiserver.selection import select
from sim.kernel import Context, Kernel, State
from sim.machinery import forms, status, verbs, verbs_apply, verbs_delete, verbs_list, verbs_sub
from sim.machinery.api import Reply, Request, UserInfo
from sim.machinery.scheme import Scheme
from sim.machinery.store import Answer, Page
from sim.machinery.verbs_call import (
    Call,
    Refusal,
    Registry,
    Steps,
    bad_dry_run,
    bad_request,
    is_true,
    method_not_allowed,
    no_such_resource,
)
from sim.machinery.watchcache import CacheWatch, WatchCache
from sim.units import SECOND

PROGRESS_US = 600 * SECOND  # etcd's watch progress notification
READS = ("get", "list", "watch")
PLAIN: dict[str, Callable[[Call], Steps]] = {
    "get": verbs.get,
    "create": verbs.create,
    "update": verbs.update,
    "patch": verbs_apply.patch,
    "delete": verbs_delete.delete,
}
LOST_REFUSED, LOST_RESET = "ConnectionRefused", "ConnectionReset"


class Authorizer(Protocol):
    """Says why a request is not allowed; "" if it is."""

    def refuse(self, user: UserInfo, request: Request) -> str | None: ...


class AllowAll:
    """No authorization: --authorization-mode=AlwaysAllow."""

    def refuse(self, user: UserInfo, request: Request) -> str | None:
        return None


class _Flight:
    """One request being served."""

    __slots__ = ("at_once", "mutating", "request", "respond", "seated", "server", "steps")

    def __init__(
        self, server: ApiServer, request: Request, respond: Callable[[Reply], None], at_once: bool
    ) -> None:
        self.server = server
        self.request = request
        self.respond: Callable[[Reply], None] | None = respond
        self.at_once = at_once
        self.mutating = request.verb not in READS
        self.seated = False  # it has a seat or waits for one
        self.steps: Steps | None = None


class ApiServer:
    """An `Endpoint`.  `main` is its actor; the object outlives its incarnations."""

    def __init__(
        self,
        name: str,
        kernel: Kernel,
        storage: StorageProcess,
        scheme: Scheme,
        options: ApiServerOptions | None = None,
        authorizer: Authorizer | None = None,
    ) -> None:
        self.name = name
        self.kernel = kernel
        self.storage = storage
        self.scheme = scheme
        self.options = options or ApiServerOptions()
        self.authorizer: Authorizer = authorizer or AllowAll()
        self.log: Callable[[Call, Any], Reply] | None = None  # pods/log, given by who knows the nodes
        self.ctx: Context | None = None
        self.caches: Caches | None = None
        self.registry: Registry | None = None
        self.plans: Plans | None = None
        self.seats: Seats | None = None  # None: priority and fairness is off, or no incarnation runs
        self.lanes: dict[str, Lane] = {}  # by key of the object
        self._flights: dict[int, _Flight] = {}
        self.flown = 0  # requests taken so far, by lanes too
        self._reading = self._writing = 0
        self.stopped_us = -1  # when it last died
        self._extra_us = self._lag_us = 0  # faults: each request takes longer, caches trail
        self._inflight: int | None = None  # fault: so few requests at once
        self._frozen = False  # fault: caches see nothing new
        self.bounded = self._is_bounded()

    # --- life ---------------------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        return self.ctx is not None

    @property
    def busy(self) -> bool:
        """True when one more write would be refused, wait or take its time."""
        if not self.bounded:
            return False
        return self._extra_us > 0 or self._queuing or self._overloaded(True, self._writing + 1)

    @property
    def _queuing(self) -> bool:
        return self.seats is not None and self.seats.waiting

    def _overloaded(self, mutating: bool, count: int) -> bool:
        options = self.options
        bound = options.max_mutating_requests_inflight if mutating else options.max_requests_inflight
        if self._inflight is not None and (bound is None or self._inflight < bound):
            bound = self._inflight
        return bound is not None and count > bound

    def main(self, ctx: Context) -> None:
        """Start an incarnation: empty caches from the store's present revision on."""
        store = self.storage.store
        self.ctx = ctx
        bits = ctx.stream("objects").getrandbits
        machinery = Machinery(self.scheme, store, self.options.disabled_admission, self.options.tolerations)
        self.registry = registry = Registry(
            self.scheme, machinery.rules(), bits, ctx.wall_us, self.options.service_cidr, self.log
        )
        self.plans = Plans(self, registry, machinery.view)
        self.storage.writer = (self.scheme.names.user_apiserver, "create")
        bootstrap(registry, store)
        self.storage.expire(self.scheme.prefix("events"), self.options.event_ttl_us)
        self.caches = caches = Caches(
            ctx, store, self.options.cache_lag_us + self._lag_us, self.options.min_watch_us
        )
        caches.horizon.freeze(self._frozen)
        if self.options.seats:
            self.seats = Seats(self, caches, store)
            Dangling(self, store, ctx)
        self._on_leader(self.storage.led)
        ctx.on_stop(self.storage.on_leader(self._on_leader))
        unhook = store.before_compact(caches.before_compact)
        ctx.on_stop(lambda: self._stop(unhook))
        Compactor(self.storage, ctx, self.options.compaction_interval_us)
        ctx.call_later_us(PROGRESS_US, self._progress, ctx)

    def _stop(self, unhook: Callable[[], None]) -> None:
        unhook()
        self.stopped_us = self.kernel.now_us
        caches, self.caches = self.caches, None
        self.ctx = self.registry = self.plans = self.seats = None
        self.lanes = {}
        flights, self._flights = self._flights, {}
        self._reading = self._writing = 0
        self.bounded = self._is_bounded()
        if caches is not None:
            caches.cut()
        for flight in flights.values():
            respond, flight.respond = flight.respond, None
            if respond is not None:
                respond(Reply(0, lost=LOST_RESET))

    # --- faults -------------------------------------------------------------------------------------------

    def lag(self, by_us: int) -> None:
        """Let the watch caches trail the storage by so much more than they do."""
        self._lag_us = by_us
        if self.caches is not None:
            self.caches.horizon.set_lag(self.options.cache_lag_us + by_us)

    def freeze(self, frozen: bool) -> None:
        """Cut the watch caches off from the storage: they stay as they are while other replicas go on."""
        self._frozen = frozen
        if self.caches is not None:
            self.caches.horizon.freeze(frozen)

    def overload(self, by_us: int, inflight: int | None) -> None:
        """Let each request take so much longer; of reads and of writes no more than `inflight` at once."""
        self._extra_us, self._inflight = by_us, inflight
        self.bounded = self._is_bounded()

    def _is_bounded(self) -> bool:
        """Whether a request may have to wait or be refused."""
        limits = (
            self._inflight, self.options.max_requests_inflight, self.options.max_mutating_requests_inflight
        )  # fmt: skip
        return self._extra_us > 0 or self._queuing or limits != (None, None, None)

    def _on_leader(self, led: bool) -> None:
        """The storage has lost its leader for good, or has one again."""
        if self.caches is not None:
            for number in self.caches.set_ready(led):
                self._begin(number)

    def drop_watches(self, resource: str, client: str) -> None:
        """Break off watches: of a resource ("": every), held by users who match a glob ("": any)."""
        if self.caches is not None:
            self.caches.drop(resource, client)

    def _progress(self, ctx: Context) -> None:
        if self.caches is not None:
            self.caches.horizon.progress_rev = self.storage.store.revision
            ctx.call_later_us(PROGRESS_US, self._progress, ctx)

    # --- requests -----------------------------------------------------------------------------------------

    def handle(self, request: Request, respond: Callable[[Reply], None], at_once: bool = False) -> None:
        """at_once: put the reply off by no latency, for those outside virtual time, which may stand still."""
        ctx = self.ctx
        if ctx is None:
            respond(Reply(0, lost=LOST_REFUSED))
            return
        flight = _Flight(self, request, respond, at_once)
        self.flown = number = self.flown + 1
        self._flights[number] = flight
        if ctx.state is State.RUNNING:
            self._serve(number)
        else:
            ctx.run(self._serve, number)

    def lane(self, request: Request, path: tuple[str, ...]) -> Lane | None:
        """A hot lane for one field of one object; None if this request cannot have one."""
        return offer_lane(self, request, path)

    def _serve(self, number: int) -> None:
        flight = self._flights[number]
        if flight.mutating:
            self._writing += 1
        else:
            self._reading += 1
        if self._overloaded(flight.mutating, self._writing if flight.mutating else self._reading):
            self.refuse(number)
        elif self.seats is not None and (self._extra_us or not self.storage.prompt or self.seats.waiting):
            flight.seated = True
            self._take_cause(flight.request)
            self.seats.arrive(number, flight.request)
            self.bounded = self._is_bounded()
        else:
            self.start(number)

    def refuse(self, number: int) -> None:
        text = "Too many requests, please try again later."
        self._answer(number, Reply(429, body=text, headers={"Retry-After": "1"}), 0)

    def start(self, number: int) -> None:
        if self._extra_us and self.ctx is not None:
            self.ctx.call_later_us(self._extra_us, self._begin, number)
        else:
            self._begin(number)

    def _begin(self, number: int) -> None:
        flight = self._flights.get(number)
        if flight is None or self.caches is None:
            return
        request = flight.request
        self._take_cause(request)
        try:
            call = self._call(request)
            if request.verb == "watch" and not self.caches.ready:
                self.caches.waiting.append(number)
                self.kernel.call_later(self.options.request_timeout_us, self._time_out, number)
                return
            if request.verb == "watch":
                self._answer(number, self._watch(call), self.storage.latency_us(0))
                return
            read = self._cached(call)
            if read is not None:
                self._answer_from_cache(number, read)
                return
            steps = flight.steps = self._steps(call)
        except Refusal as refusal:
            self._answer(number, refusal.reply(), 0)
            return
        if self.storage.prompt:
            self._answer(number, *self._run(call, steps))
        else:
            self.kernel.call_later(self.options.request_timeout_us, self._time_out, number)
            self._advance(number, None)

    def serve(self, request: Request) -> tuple[Reply, int] | None:
        """Serve a request at this instant: its reply, and how long until that is sent; None: it has to be handled.

        Whoever asks looks at `stopped_us` when the reply has come.
        """
        ctx, storage = self.ctx, self.storage
        if ctx is None or ctx.state is not State.RUNNING or not storage.prompt or self.bounded:
            return None
        if request.verb == "watch":
            return None
        kernel, plans = self.kernel, self.plans
        if request.cause:
            kernel.cause = request.cause
        elif kernel.cause:
            request.cause = kernel.cause
        if plans is not None:
            reply = plans.follow(request)
            if reply is not None:
                self.flown += 1
                return reply, storage.latency_us(request.verb not in READS)
        try:
            call = self._call(request)
            cached = self._cached(call)
            if cached is not None:
                if cached.cache.revision() < cached.rev:
                    return None
                self.flown += 1
                return cached.read(), storage.latency_us(0)
            steps = self._steps(call)
        except Refusal as refusal:
            self.flown += 1
            return refusal.reply(), 0
        self.flown += 1
        served = self._run(call, steps)
        if plans is not None and plans.lesson is not None:
            plans.learn(request, served[0])
        return served

    def _take_cause(self, request: Request) -> None:
        kernel = self.kernel
        if request.cause:
            kernel.cause = request.cause
        elif kernel.cause:
            request.cause = kernel.cause

    def _run(self, call: Call, steps: Steps) -> tuple[Reply, int]:
        """Carry out a request on a prompt storage: the reply and the storage's latency."""
        storage, request = self.storage, call.request
        mutating = request.verb not in READS
        storage.writer = writer_of(request)
        apply = storage.store.apply
        try:
            op = next(steps)
            while True:
                op = steps.send(apply(op))
        except StopIteration as stop:
            reply: Reply = stop.value
        except Refusal as refusal:
            reply = refusal.reply(tuple(call.warnings))
        if mutating:
            self._tell_lane(request, reply)
        return reply, storage.latency_us(mutating)

    def _tell_lane(self, request: Request, reply: Reply) -> None:
        item = reply.item
        if item is None:
            return
        if request.verb == "update" and request.resource == "leases" and item.key not in self.lanes:
            self.lane(replace(request, body=None), RENEWAL)  # an election's, from now on
        if item.key in self.lanes and self.storage.store.get(item.key) is item:
            self.lanes[item.key].wrote(request, item)

    def _advance(self, number: int, answer: Answer) -> None:
        """One operation further, on a storage that takes its time."""
        flight = self._flights.get(number)
        if flight is None or flight.steps is None:
            return
        try:
            op = flight.steps.send(answer)
        except StopIteration as stop:
            self._answer(number, stop.value, 0)
            return
        except Refusal as refusal:
            self._answer(number, refusal.reply(), 0)
            return
        writer = writer_of(flight.request)
        self.storage.submit(op, writer, lambda result: self._resume(number, result))

    def _resume(self, number: int, answer: Answer) -> None:
        ctx = self.ctx
        if ctx is not None and number in self._flights:
            ctx.run(lambda result: self._advance(number, result), answer)

    def _time_out(self, number: int) -> None:
        if number in self._flights:
            text = "request did not complete within requested timeout - context deadline exceeded"
            self._answer(number, Refusal.of(status.timeout(text)).reply(), 0)

    def _answer(self, number: int, reply: Reply, delay_us: int) -> None:
        flight = self._flights.get(number)
        if flight is None:
            return
        if delay_us and not flight.at_once:
            self.kernel.call_later(delay_us, self._deliver, (number, reply))
        else:
            self._deliver((number, reply))

    def _deliver(self, answered: tuple[int, Reply]) -> None:
        if answered[0] not in self._flights:
            return
        ctx = self.ctx
        if ctx is not None and ctx.state is not State.RUNNING:
            ctx.run(self._send, answered)
        else:
            self._send(answered)

    def _send(self, answered: tuple[int, Reply]) -> None:
        number, reply = answered
        flight = self._flights.pop(number, None)
        if flight is None or flight.respond is None:
            return
        if flight.mutating:
            self._writing -= 1
        else:
            self._reading -= 1
        flight.respond(reply)
        if flight.seated and self.seats is not None:
            self.seats.leave(number)
            self.bounded = self._is_bounded()

    # --- verbs --------------------------------------------------------------------------------------------

    def _call(self, request: Request) -> Call:
        """Resource, rights and options of a request."""
        registry = self.registry
        assert registry is not None
        resource = self.scheme.find(request.group, request.version, request.resource)
        if resource is None:
            raise no_such_resource()
        if request.subresource:
            sub = resource.subresource(request.subresource)
            if sub is None:
                raise no_such_resource()
        why = self.authorizer.refuse(request.user, request)
        if why is not None:
            raise Refusal.of(status.forbidden(resource, request.name, why, subresource=request.subresource))
        options = request.options
        if resource.plural == "bindings":
            resource = self.scheme.resource("pods")
        call = Call(request, resource, registry, options=options, subresource=request.subresource)
        if options and "dryRun" in options and request.verb not in READS:
            if options["dryRun"] != "All":
                raise bad_dry_run(self.scheme.names, request)
            call.dry_run = True
        return call

    def steps_of(self, request: Request) -> Steps:
        """The run of a request that does not watch, answered by the store (never by a cache)."""
        return self._steps(self._call(request))

    def _steps(self, call: Call) -> Steps:
        steps = self._plain_steps(call)
        form = forms.form_of(call.resource, self.scheme.names)
        return steps if form is None else forms.converted(steps, form)

    def _plain_steps(self, call: Call) -> Steps:
        request, options = call.request, call.options
        verb = request.verb
        if request.subresource or request.resource == "bindings":
            special = verbs_sub.verb_of(call)
            if special is None:
                raise method_not_allowed()
            return special(call)
        if verb == "list":
            matches = select(self.scheme, call).matches
            if not options:
                return verbs_list.list_stored(call, verbs_list.ListPlan(False), matches)
            return verbs_list.list_stored(call, verbs_list.plan_list(options, True), matches)
        if verb == "deletecollection":
            if call.resource.namespaced and not request.namespace:
                raise method_not_allowed()
            return self._delete_collection(call)
        if verb not in PLAIN or verb not in call.resource.verbs:
            raise method_not_allowed()
        return PLAIN[verb](call)

    def _cached(self, call: Call) -> CachedRead | None:
        """How the watch cache answers a read; None where the store must."""
        request = call.request
        if not call.options or request.subresource:
            return None
        assert self.caches is not None
        if not self.caches.ready:
            return None
        cache = self.caches.of(call.resource)
        if not cache.direct and forms.form_of(call.resource, self.scheme.names) is not None:
            return None  # the store's answer is converted, and as new as any
        if request.verb == "list":
            return self._list(call, cache)
        return self._get(call, cache) if request.verb == "get" else None

    def _answer_from_cache(self, number: int, cached: CachedRead) -> None:
        """Answer when the cache is new enough, or say that it is not."""
        assert self.caches is not None

        def when(fresh: bool) -> None:
            if fresh:
                self._answer(number, cached.read(), self.storage.latency_us(0))
            else:
                refusal = Refusal.of(status.revision_too_large(cached.rev, cached.cache.revision()))
                self._answer(number, refusal.reply(), 0)

        self.caches.when_fresh(cached.cache, cached.rev, when)

    def _get(self, call: Call, cache: WatchCache) -> CachedRead | None:
        text = call.options.get("resourceVersion", "")
        if not text:
            return None
        rev = verbs_list.parse_list_revision(text, cache.direct)
        if cache.direct:
            if rev > self.storage.store.revision:
                raise Refusal.of(status.revision_too_large(rev, self.storage.store.revision, 0))
            return None

        def read() -> Reply:
            item = cache.get(call.key)
            return call.not_found().reply() if item is None else Reply(200, item=item)

        return CachedRead(cache, rev, read)

    def _list(self, call: Call, cache: WatchCache) -> CachedRead | None:
        selection = select(self.scheme, call)
        plan = verbs_list.plan_list(call.options, cache.direct)
        if not plan.cached:
            return None
        prefix = self.scheme.prefix(call.resource, call.request.namespace)

        def read() -> Reply:
            if selection.key and not plan.limit:  # thousands of node agents list one node each
                item = cache.get(selection.key)
                page = Page([] if item is None else [item], cache.revision())
            else:
                page = cache.page(prefix)
            return verbs_list.page_reply(page, plan, selection.matches, prefix)

        return CachedRead(cache, plan.rev, read)

    def _delete_collection(self, call: Call) -> Steps:
        matches = select(self.scheme, call).matches
        options = call.options
        verbs_list.parse_list_revision(options.get("resourceVersion", ""), False)
        plan = verbs_list.plan_list({k: v for k, v in options.items() if k != "resourceVersion"}, True)
        how = verbs_delete.checked_options(call)
        listed = yield from verbs_list.list_stored(call, plan, matches)
        return (yield from verbs_delete.delete_collection(call, listed, how))

    def _watch(self, call: Call) -> Reply:
        caches = self.caches
        assert caches is not None
        request, options = call.request, call.options
        selection = select(self.scheme, call)
        rev = verbs_list.parse_list_revision(options.get("resourceVersion", ""), False)
        timeout = options.get("timeoutSeconds", "")
        if timeout and not timeout.isdecimal():
            raise bad_request(f'strconv.ParseInt: parsing "{timeout}": invalid syntax')
        cache = caches.of(call.resource)
        form, matches = forms.form_of(call.resource, self.scheme.names), selection.matches
        if form is not None and matches is not None:
            matches = forms.converted_first(matches, form)
        watch = CacheWatch(
            cache,
            self.scheme.prefix(call.resource, request.namespace),
            matches,
            key=selection.key,
            value=selection.node,
            deadline_us=caches.deadline_us(int(timeout or 0)),
            bookmarks=is_true(options, "allowWatchBookmarks"),
        )
        watch.client = request.user.name
        opened = caches.open(cache, watch, rev)
        return Reply(200, watch=opened if form is None else forms.FormWatch(opened, form))
