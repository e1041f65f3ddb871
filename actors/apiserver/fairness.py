"""Priority and fairness of one API server replica: requests that take time occupy or await seats.

Turns arrivals and ends of requests into starts and refusals, for each priority level
(`sim.api.fairness.queues`), by the FlowSchemas and PriorityLevelConfigurations that the replica's
watch caches show.

Holds: each request is started or refused exactly once; a request that waits for 15 s is refused.
While no request takes time, this module only classifies requests from outside.

Mirrors  kubernetes v1.25 apiserver pkg/server/filters/priority-and-fairness.go,
         pkg/util/flowcontrol/apf_controller.go.
Differs  - The seats of a deleted level are removed at once, but a request keeps its seat or its
           place in the queue.
         - Requests that take no time are counted only while there is a reader of metrics.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import partial

from actors.apiserver.caches.watch_caches import Caches
from actors.apiserver.metrics.flows import EXECUTING, READS, WAITING, FlowMetering
from actors.apiserver.ports import LocalStore, Server
from sim.api.auth.attributes import AccessAttributes
from sim.api.fairness.classification import Asked, Flow, Level, Plan, Work, list_work, write_work
from sim.api.fairness.queues import QueueSet, Verdict
from sim.api.fairness.state import WAIT_BUCKETS_US, FairnessState, Held, LevelState
from sim.api.store import Change, Page, Range
from sim.api.types import Request, UserInfo
from sim.units import NO_REVISION, parse_whole

WAIT_PART = 4  # server/config.go: a request waits for at most a quarter of its timeout, 15 s
# Reasons of a refusal (queueset.go, StartRequest and wait).
FULL, LIMIT, TIMED_OUT = "queue-full", "concurrency-limit", "time-out"
# Kinds of the configuration, by plural.
SCHEMAS, LEVELS = "flowschemas", "prioritylevelconfigurations"


class Seats:
    """The seats of one incarnation, `server.options.seats` in all.

    A request is identified by its number in flight.
    """

    def __init__(self, server: Server, caches: Caches, store: LocalStore) -> None:
        self._server = server
        self._caches = caches
        self._store = store
        self._wait_us = server.options.request_timeout_us // WAIT_PART
        self._sets: dict[str, QueueSet] = {}  # by level
        self._held: dict[int, QueueSet] = {}  # by request that has a seat or waits for one
        self._known: dict[int, Held] = {}  # the same requests
        self._dispatched: dict[tuple[str, str], int] = {}
        self._rejected: dict[tuple[str, str, str], int] = {}
        self._waits_us: dict[tuple[str, str, bool], list[int]] = {}
        self._plan: Plan | None = None  # the configuration that the levels have
        self._shown: Plan | None = None  # the newest configuration
        self._changed_revs = [NO_REVISION, NO_REVISION]  # of the newest changes
        for place, plural in enumerate((SCHEMAS, LEVELS)):
            cancel = store.subscribe(server.scheme.prefix(plural), partial(self._note_change, place))
            if server.ctx is not None:
                server.ctx.on_stop(cancel)
        self._plan_revs = (NO_REVISION, NO_REVISION)  # of both caches, for the newest plan
        self._pumping = False
        self._begun_us: dict[int, int] = {}  # by request that has seats
        self._metering = FlowMetering(server.kernel)

    @property
    def waiting(self) -> bool:
        """True if a request waits for a seat."""
        return any(found.waiting for found in self._sets.values())

    def arrive(self, number: int, request: Request) -> None:
        """Start a request, queue it or refuse it."""
        server = self._server
        flow = self._current_plan().flow(asked(request))
        level = flow.level
        if level.exempt:
            self._count_dispatch(flow)
            self._metering.executed(flow, request, 0)
            server.start(number)
            return
        found, now_us = self._sets[level.name], server.kernel.now_us
        work = self._work(request, level)
        verdict = found.arrive(number, flow.hash, work, now_us)
        if verdict is Verdict.REFUSE:
            self._count_rejection(flow, FULL if found.queuing is not None else LIMIT)
            server.refuse(number)
            return
        self._held[number] = found
        held = self._known[number] = Held(request, flow, work, now_us)
        if server.kernel.meters is not None:
            self._metering.arrived(flow, work, found.queued(number), self._watches(request))
        if verdict is Verdict.START:
            self._run(number, held)
            server.start(number)
            return
        self._metering.moved(held, WAITING, 1)
        server.kernel.call_later(self._wait_us, self._expire, number)
        self._pump(found)

    def count_prompt(self, request: Request) -> None:
        """Count a request that took no time, and so needed no seat."""
        flow = self._shown_plan().flow(asked(request))
        self._count_dispatch(flow)
        self._metering.executed(flow, request, 0)
        if not flow.level.exempt:
            self._metering.arrived(flow, self._work(request, flow.level), 1, self._watches(request))
            self._count_wait(flow, 0, True)

    def _run(self, number: int, held: Held) -> None:
        """Count a request that gets its seats."""
        self._begun_us[number] = self._server.kernel.now_us
        self._count_dispatch(held.flow)
        self._metering.moved(held, EXECUTING, 1)

    def _watches(self, request: Request) -> int | None:
        """The number of watches that a write concerns; None for other requests."""
        scheme = self._server.scheme
        resource = scheme.find(request.group, request.version, request.resource)
        if resource is None or request.verb in (*READS, "deletecollection"):
            return None
        return self._caches.of(resource).interested(scheme.key(resource, request.namespace, request.name))

    def leave(self, number: int) -> None:
        """Release the seat or the queue place of a request that has been answered."""
        found = self._held.pop(number, None)
        if found is None:
            return
        held = self._known.pop(number)
        now_us = self._server.kernel.now_us
        if found.give_up(number, now_us):
            self._metering.moved(held, WAITING, -1)
            return
        self._metering.executed(held.flow, held.request, now_us - self._begun_us.pop(number))
        self._metering.moved(held, EXECUTING, -1)
        after_us = found.finish(number, now_us)
        if after_us:
            self._server.kernel.call_later(after_us, self._release, (found, number))
        else:
            self._pump(found)

    def _release(self, done: tuple[QueueSet, int]) -> None:
        found, number = done
        found.release(number, self._server.kernel.now_us)
        self._pump(found)

    def _expire(self, number: int) -> None:
        found = self._held.get(number)
        if found is not None and found.give_up(number, self._server.kernel.now_us):
            del self._held[number]
            held = self._known.pop(number)
            self._metering.moved(held, WAITING, -1)
            self._count_rejection(held.flow, TIMED_OUT)
            self._count_wait(held.flow, self._server.kernel.now_us - held.arrived_us, False)
            self._server.refuse(number)

    def _pump(self, found: QueueSet) -> None:
        """Start queued requests while seats are free.

        A request that is answered at once calls this method again through `leave`; the outer call
        then continues its loop.
        """
        if self._pumping:
            return
        kernel = self._server.kernel
        cause, self._pumping = kernel.cause, True
        while (number := found.start_next(kernel.now_us)) is not None:
            held = self._known[number]
            self._metering.moved(held, WAITING, -1)
            self._run(number, held)
            self._count_wait(held.flow, kernel.now_us - held.arrived_us, True)
            self._server.start(number)
        kernel.follow(cause)
        self._pumping = False

    # --- what clients see -------------------------------------------------------------------------

    def uids(self, user: UserInfo, attributes: AccessAttributes) -> tuple[str, str]:
        """The uids of the FlowSchema and of the level of a request from outside."""
        flow = self._shown_plan().flow(asked_of(user, attributes))
        return flow.schema_uid, flow.level.uid

    def state(self) -> FairnessState:
        """The present state."""
        levels = []
        self._metering.settle(list(self._shown_plan().levels.values()))
        for name, level in sorted(self._shown_plan().levels.items()):
            found = self._sets.get(name)
            if level.exempt or found is None:
                found = QueueSet(level.limit, level.queuing)
                levels.append(LevelState(level, tuple(found.states())))
            else:
                levels.append(
                    LevelState(level, tuple(found.states()), found.executing, found.in_use, found.progress)
                )
        return FairnessState(
            tuple(levels), dict(self._known), self._dispatched, self._rejected, self._waits_us
        )

    def _count_dispatch(self, flow: Flow) -> None:
        key = (flow.level.name, flow.schema)
        self._dispatched[key] = self._dispatched.get(key, 0) + 1

    def _count_rejection(self, flow: Flow, reason: str) -> None:
        key = (flow.level.name, flow.schema, reason)
        self._rejected[key] = self._rejected.get(key, 0) + 1

    def _count_wait(self, flow: Flow, waited_us: int, executed: bool) -> None:
        key = (flow.level.name, flow.schema, executed)
        counts = self._waits_us.setdefault(key, [0] * (len(WAIT_BUCKETS_US) + 1) + [0])
        counts[bisect_left(WAIT_BUCKETS_US, waited_us)] += 1
        counts[-1] += waited_us

    # --- configuration ----------------------------------------------------------------------------

    def _note_change(self, place: int, change: Change) -> None:
        self._changed_revs[place] = change.rev

    def _shown_plan(self) -> Plan:
        """Return the present configuration; the levels keep theirs until a request needs a seat."""
        shown, revs, changed = self._shown, self._plan_revs, self._changed_revs
        if shown is not None and revs[0] >= changed[0] and revs[1] >= changed[1]:
            return shown  # the usual case, without a look at the caches
        scheme = self._server.scheme
        caches = [self._caches.of(scheme.resource(plural)) for plural in (SCHEMAS, LEVELS)]
        if shown is not None and revs == tuple([cache.revision() for cache in caches]):
            return shown
        pages = [cache.page(cache.prefix) for cache in caches]
        schemas, levels = ([item.obj for item in page.items] for page in pages)
        self._shown = Plan(scheme.names, schemas, levels, self._server.options.seats)
        self._plan_revs = (pages[0].rev, pages[1].rev)
        return self._shown

    def _current_plan(self) -> Plan:
        """Return the present configuration, and apply it to the levels."""
        plan = self._shown_plan()
        if plan is self._plan:
            return plan
        self._plan = plan
        for level in plan.levels.values():
            if level.name in self._sets:
                self._sets[level.name].configure(level.limit, level.queuing)
            elif not level.exempt:
                self._sets[level.name] = QueueSet(level.limit, level.queuing)
        return plan

    # --- work -------------------------------------------------------------------------------------

    def _work(self, request: Request, level: Level) -> Work:
        """Return the seats and the time that a request is expected to take."""
        scheme, verb = self._server.scheme, request.verb
        resource = scheme.find(request.group, request.version, request.resource)
        if resource is None or verb in ("get", "watch", "deletecollection"):
            return Work()
        if verb != "list":
            key = scheme.key(resource, request.namespace, request.name)
            return write_work(self._caches.of(resource).interested(key), level.seats_max)
        options = request.options
        if options.get("fieldSelector", "").startswith("metadata.name="):
            return Work()
        page = self._store.range(Range(resource.prefix, limit=1))
        stored = len(page.items) + page.remaining if isinstance(page, Page) else 0
        text = options.get("limit", "")
        limit = parse_whole(text) or 0
        selects = bool(options.get("fieldSelector") or options.get("labelSelector"))
        return list_work(stored, limit, is_cached(request, limit), selects, level.seats_max)


def is_cached(request: Request, limit: int) -> bool:
    """Return True if the watch cache answers a list (cacher.go, shouldDelegateList)."""
    options = request.options
    rev, match = options.get("resourceVersion", ""), options.get("resourceVersionMatch", "")
    if not rev or options.get("continue") or match not in ("", "NotOlderThan"):
        return False
    return not limit or rev == "0"


def asked_of(user: UserInfo, attributes: AccessAttributes) -> Asked:
    """Return the attributes by which a request from outside is classified."""
    sub = attributes.subresource
    resource = f"{attributes.resource}/{sub}" if sub else attributes.resource
    return Asked(user, attributes.verb, attributes.group, resource, attributes.namespace, attributes.path)


def asked(request: Request) -> Asked:
    """Return the attributes by which a request is classified."""
    sub = request.subresource
    resource = f"{request.resource}/{sub}" if sub else request.resource
    return Asked(request.user, request.verb, request.group, resource, request.namespace)
