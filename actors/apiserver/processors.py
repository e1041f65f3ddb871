"""The processors of one API server: what its requests cost, and how they wait for one another.

Turns requests and their replies into processor time, and arrivals of work into the instants at
which it is done.

A server of Go has one queue of goroutines that can run.  A goroutine runs until it waits for
something, or for 10 ms, and then goes to the end of the queue.  A small request, which waits for
its client, for the storage and for the network, thus goes through the whole queue some times: while
five large lists are computed on one processor, a read of one object that costs 0.7 ms takes 0.2 s.
That, and not its own work, is what makes a flooded server lose leases and nodes.

Holds: work that has begun is done, also if no client waits for its result any more; a server
       without a capacity has no such queue, and its requests cost nothing.

Mirrors  Go's runtime/proc.go: forcePreemptNS, schedule (1.19).
Differs  - The memory that requests take, and the work of the storage, have no bound.
         - A watch event costs its time, and is not late because of it.

Measured on 2026-11-28 with kube-apiserver v1.25.10 under GOMAXPROCS=1, with etcd 3.4.23 and other
programs on the same two cores: processor time of the server's process over 1,000 requests (lists:
6,000 objects) of one client over TLS. Pods of 3 kB in JSON and 1.9 kB in the binary form cost the
same within the error.

    get of a pod 0.7 to 0.85 ms, of a cached pod 0.5, of a lease 0.6; update of a lease 1.7;
    patch of a node's status 1.3, of a pod's status 3.5; create of an event or a ConfigMap 1.3,
    of a pod 2.7; delete of a ConfigMap 1.1
    list of 500 pods 65 us an object, of 2,500 pods 85 to 121 us, from the watch cache 31 to 47 us;
    with a selector that matches none of 500: 44 us an object, from the watch cache 2 us
    one event for one watch 37 us in the binary form, 47 us in JSON (150 watches, objects of 2 kB)
    beside 5, 20, 60, 120 lists of 2,500 pods, times the share of a processor that the server had:
    get 0.13, 0.55, 1.9, 3.8 s; update of a lease 0.20, 0.61, 2.3, 4.5 s
    (here, 3 and 4 turns of 10 ms: 0.15, 0.6, 1.8, 3.6 s; 0.2, 0.8, 2.4, 4.8 s)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from actors.apiserver.caches.watch_caches import Caches
from actors.apiserver.fairness import is_cached
from actors.apiserver.options import ApiServerOptions
from actors.apiserver.ports import LocalStore
from sim.api.scheme.scheme import Scheme
from sim.api.store import Change, Page, Range
from sim.api.types import TOO_MANY_REQUESTS, Reply, Request
from sim.kernel import Context
from sim.units import NANO, parse_whole

SLICE_US = 10_000  # runtime/proc.go: forcePreemptNS
# How often a request of so little work goes to the end of the queue.
READ_TURNS, WRITE_TURNS = 3, 4
READ_US, REFUSAL_US = 700, 200
WRITE_US = {"create": 1_300, "update": 1_700, "patch": 2_500, "delete": 1_100, "deletecollection": 1_100}
STORED_NS, DECODED_NS = 80_000, 44_000  # per object of a list: read and returned, or only read
CACHED_NS, COMPARED_NS = 40_000, 2_000  # the same from a watch cache
EVENT_US = 40  # per event and watch
INDEXED = ("metadata.name=", "spec.nodeName=")  # selectors for which a cache has an index


class _Work:
    """Work in the queue.

    turns_us: the processor time of its next turns, the last first
    then: called with the argument when it is done
    """

    __slots__ = ("argument", "then", "turns_us")

    def __init__(self, turns_us: list[int], then: Callable[[Any], None] | None, argument: Any) -> None:
        self.turns_us, self.then, self.argument = turns_us, then, argument


class Processors:
    """The processors of one incarnation.

    waiting: work that is not on a processor
    """

    def __init__(self, ctx: Context, capacity_nano: int, store: LocalStore, scheme: Scheme) -> None:
        """capacity_nano: their number in thousand millionths; a part of one is a slower one"""
        self.waiting: deque[_Work] = deque()
        self._ctx, self._store, self._scheme = ctx, store, scheme
        self._free = -(-capacity_nano // NANO)
        self._capacity_nano, self._count = capacity_nano, self._free

    def follow(self, prefix: str, interested: Callable[[str], int]) -> None:
        """Let events of a resource cost time.  interested: the number of watches of a key"""

        def see(change: Change) -> None:
            watches = interested(change.item.key)
            if watches:
                self.do(EVENT_US * watches, 1, None, None)

        self._ctx.on_stop(self._store.subscribe(prefix, see))

    def do(self, cost_us: int, turns: int, then: Callable[[Any], None] | None, argument: Any) -> None:
        """Do work, and then call a function; in so many turns, or more if they become too long."""
        turns = max(turns, -(-cost_us // SLICE_US))
        part_us, rest_us = divmod(cost_us, turns)
        work = _Work([part_us + rest_us, *[part_us] * (turns - 1)], then, argument)
        if self._free:
            self._free -= 1
            self._run(work)
        else:
            self.waiting.append(work)

    def _run(self, work: _Work) -> None:
        took_us = work.turns_us.pop() * self._count * NANO // self._capacity_nano
        self._ctx.call_later_us(took_us, self._turn_ended, work)

    def _turn_ended(self, work: _Work) -> None:
        is_done = not work.turns_us
        if not is_done:
            self.waiting.append(work)
        if self.waiting:
            self._run(self.waiting.popleft())
        else:
            self._free += 1
        if is_done and work.then is not None:
            work.then(work.argument)

    # --- costs ------------------------------------------------------------------------------------

    def cost_us(self, request: Request) -> tuple[int, int]:
        """What a request costs in any case, and in how many turns."""
        write_us = WRITE_US.get(request.verb)
        return (READ_US, READ_TURNS) if write_us is None else (write_us, WRITE_TURNS)

    def found_us(self, request: Request, reply: Reply) -> int:
        """What a request costs because of the objects that it has found."""
        count = len(reply.items or ())
        if reply.code == TOO_MANY_REQUESTS:
            return REFUSAL_US
        if request.verb == "deletecollection":
            return count * WRITE_US["delete"]
        if request.verb != "list" or reply.items is None:
            return 0
        limit = parse_whole(request.options.get("limit", "")) or 0
        cached, selector = is_cached(request, limit), request.options.get("fieldSelector", "")
        looked_at = 0
        if not (cached and selector.startswith(INDEXED)):
            looked_at = max(0, self._stored(request) - count)
        if limit:
            looked_at = min(looked_at, max(0, limit - count)) if not selector else looked_at
        each_ns, other_ns = (CACHED_NS, COMPARED_NS) if cached else (STORED_NS, DECODED_NS)
        return (count * each_ns + looked_at * other_ns) // 1_000

    def _stored(self, request: Request) -> int:
        """The number of objects from which a list selects."""
        resource = self._scheme.find(request.group, request.version, request.resource)
        if resource is None:
            return 0
        page = self._store.range(Range(self._scheme.prefix(resource, request.namespace), limit=1))
        return len(page.items) + page.remaining if isinstance(page, Page) else 0


def processors_of(
    ctx: Context, options: ApiServerOptions, store: LocalStore, scheme: Scheme, caches: Caches
) -> Processors:
    """The processors of an incarnation."""
    new = Processors(ctx, options.capacity_nano, store, scheme)
    for resource in scheme.resources:
        if "watch" in resource.verbs:
            new.follow(resource.prefix, caches.of(resource).interested)
    return new
