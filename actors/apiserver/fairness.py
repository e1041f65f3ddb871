"""Seats of one API server replica: requests that take time run in them, wait for them, or are refused.

Turns requests that come and go into starts and refusals, level by level (`sim.api.fairness.queues`), by the FlowSchemas and
PriorityLevelConfigurations that this replica's watch caches show.

Holds: each request handed in is started or refused once; one that has waited for 15 s is refused; while no request takes
time nothing of this is asked.

Mirrors  kubernetes v1.25 apiserver pkg/server/filters/priority-and-fairness.go, pkg/util/flowcontrol/apf_controller.go.
Differs  - the seats of a level that is deleted go at once; who has one or waits for one keeps it.
         - replies do not name their FlowSchema and level in headers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.apiserver.caches.watch_caches import Caches
from actors.apiserver.ports import LocalStore
from sim.api.fairness.classification import Asked, Level, Plan, Work, list_work, write_work
from sim.api.fairness.queues import QueueSet, Verdict
from sim.api.store import Page, Range
from sim.api.types import Request
from sim.units import parse_whole

if TYPE_CHECKING:
    from actors.apiserver.server import ApiServer

WAIT_PART = 4  # server/config.go: a request waits for a quarter of the time it may take in all, 15 s
# Kinds of the configuration, by plural.
SCHEMAS, LEVELS = "flowschemas", "prioritylevelconfigurations"


class Seats:
    """The seats of one incarnation: `server.options.seats` of them; a request is told by its number in flight."""

    def __init__(self, server: ApiServer, caches: Caches, store: LocalStore) -> None:
        self._server = server
        self._caches = caches
        self._store = store
        self._wait_us = server.options.request_timeout_us // WAIT_PART
        self._sets: dict[str, QueueSet] = {}  # by level
        self._held: dict[int, QueueSet] = {}  # of each request that has a seat or waits for one
        self._plan: Plan | None = None
        self._plan_revs = (0, 0)  # up to where each cache had shown its objects then
        self._pumping = False

    @property
    def waiting(self) -> bool:
        """Whether any request waits for a seat."""
        return any(found.waiting for found in self._sets.values())

    def arrive(self, number: int, request: Request) -> None:
        """Start a request, let it wait, or refuse it."""
        server = self._server
        flow = self._current_plan().flow(asked(request))
        level = flow.level
        if level.exempt:
            server.start(number)
            return
        found = self._sets[level.name]
        verdict = found.arrive(number, flow.hash, self._work(request, level), server.kernel.now_us)
        if verdict is Verdict.REFUSE:
            server.refuse(number)
            return
        self._held[number] = found
        if verdict is Verdict.START:
            server.start(number)
            return
        server.kernel.call_later(self._wait_us, self._expire, number)
        self._pump(found)

    def leave(self, number: int) -> None:
        """A request has been answered, wherever it was."""
        found = self._held.pop(number, None)
        if found is None:
            return
        now_us = self._server.kernel.now_us
        if found.give_up(number, now_us):
            return
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
            self._server.refuse(number)

    def _pump(self, found: QueueSet) -> None:
        """Start whoever can.  One that is answered at once comes back here: then the outer loop goes on."""
        if self._pumping:
            return
        kernel = self._server.kernel
        cause, self._pumping = kernel.cause, True
        while (number := found.start_next(kernel.now_us)) is not None:
            self._server.start(number)
        self._pumping, kernel.cause = False, cause

    # --- configuration ------------------------------------------------------------------------------------

    def _current_plan(self) -> Plan:
        scheme = self._server.scheme
        caches = [self._caches.of(scheme.resource(plural)) for plural in (SCHEMAS, LEVELS)]
        if self._plan is not None and self._plan_revs == tuple([cache.revision() for cache in caches]):
            return self._plan
        pages = [cache.page(cache.prefix) for cache in caches]
        schemas, levels = ([item.obj for item in page.items] for page in pages)
        self._plan = plan = Plan(scheme.names, schemas, levels, self._server.options.seats)
        self._plan_revs = (pages[0].rev, pages[1].rev)
        for level in plan.levels.values():
            if level.name in self._sets:
                self._sets[level.name].configure(level.limit, level.queuing)
            elif not level.exempt:
                self._sets[level.name] = QueueSet(level.limit, level.queuing)
        return plan

    # --- work ---------------------------------------------------------------------------------------------

    def _work(self, request: Request, level: Level) -> Work:
        """What a request is expected to cost."""
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
        return list_work(stored, limit, _is_cached(request, limit), selects, level.seats_max)


def _is_cached(request: Request, limit: int) -> bool:
    """Whether the watch cache answers a list (cacher.go, shouldDelegateList)."""
    options = request.options
    rev, match = options.get("resourceVersion", ""), options.get("resourceVersionMatch", "")
    if not rev or options.get("continue") or match not in ("", "NotOlderThan"):
        return False
    return not limit or rev == "0"


def asked(request: Request) -> Asked:
    """What a request is classified by."""
    sub = request.subresource
    resource = f"{request.resource}/{sub}" if sub else request.resource
    return Asked(request.user, request.verb, request.group, resource, request.namespace)
