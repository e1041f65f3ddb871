"""A replica's watch caches, and how requests are answered from them.

Turns list and watch options into a page, a watch, or a wait for a revision that has not arrived
yet.

Holds: a wait ends once, by the revision's arrival or after `FRESH_WAIT_US`; one cache per stored
resource; a cache made when its resource is first read answers as one that was there from the
replica's start.

Mirrors  kubernetes v1.25 apiserver pkg/storage/cacher (waitUntilFreshAndBlock),
         pkg/endpoints/handlers/{get,watch}.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from functools import partial
from operator import attrgetter
from random import Random
from typing import Any, NamedTuple

from actors.apiserver.caches.pods_by_node import ByNode
from actors.apiserver.options import ApiServerOptions
from actors.apiserver.ports import LocalStore
from sim.api import status
from sim.api.schema.resource import Resource
from sim.api.store import Change, Compacted
from sim.api.types import Obj, Reply, WatchEvent
from sim.api.watch.cache import TooOld, WatchCache
from sim.api.watch.cache_watch import CacheWatch
from sim.api.watch.horizon import NEVER_US, Horizon, Timers
from sim.api.watch.window import WINDOW_MIN
from sim.kernel import Context
from sim.units import NO_REVISION, SECOND, Revision, Virtual

FRESH_WAIT_US = 3 * SECOND  # watch_cache.go: blockTimeout


class CachedRead(NamedTuple):
    """A read that a watch cache answers once it shows `rev`."""

    cache: WatchCache
    rev: Revision
    read: Callable[[], Reply]


def timers_of(ctx: Context) -> Timers:
    """The time and the random draws that the caches use."""
    draw: Random = ctx.stream("watch")
    # The time is read very often.
    return Timers(
        partial(attrgetter("now_us"), ctx.kernel),
        ctx.kernel.call_at,
        lambda low_us, high_us: low_us + int((high_us - low_us) * draw.random()),
    )


def node_of(spec: Obj | None) -> str:
    """Return the value by which watches of pods are indexed."""
    return spec.get("nodeName", "") if spec else ""


class Caches:
    """All watch caches of one incarnation of one replica.

    watched: the resources for which upstream creates a cache at the start, unless the options
        switch them off; the cache of a custom resource is created on first use
    """

    def __init__(
        self, ctx: Context, store: LocalStore, options: ApiServerOptions, watched: Iterable[Resource] = ()
    ) -> None:
        self.timers, self.kernel = timers_of(ctx), ctx.kernel
        # The first start belongs to the beginning of the run and explains nothing later.
        self._started = ctx.kernel.cause if ctx.incarnation > 1 else 0
        self.horizon = Horizon(self.timers, options.cache_lag_us, store.revision)
        self._store = store
        self._min_watch_us = options.min_request_timeout_s * SECOND
        self._has_cache = options.has_cache
        self._cached = [resource for resource in watched if self._has_cache(resource)]
        self._caches: dict[str, WatchCache] = {}
        self.by_node = ByNode()
        self.ready = True
        # Requests that need the caches and arrived while these were closed.
        self.waiting: list[int] = []
        # The error for watches of a resource without a cache while the storage has no leader.
        self._unled: Obj | None = None

    def of(self, resource: Resource) -> WatchCache:
        """Return the cache of a resource, and create it on first use."""
        cache = self._caches.get(resource.prefix)
        if cache is None:
            index = node_of if resource.rule == "pods" else None
            direct = not self._has_cache(resource)
            cache = self._caches[resource.prefix] = WatchCache(
                self._store, resource.prefix, self.horizon, index, direct
            )
        return cache

    def before_compact(self, rev: Revision) -> None:
        """Read the history that compaction discards, also for resources without a cache so far."""
        self.by_node.forget()
        for resource in self._cached:
            self.of(resource)
        self._cached = []
        for cache in self._caches.values():
            cache.before_compact(rev)

    def cut(self) -> None:
        """End every watch: the replica has stopped."""
        self.by_node.forget()
        for cache in self._caches.values():
            cache.cut()

    def close(self) -> None:
        """Stop following the storage.

        cacher.go, startCaching: a cache without its own watch answers no reads.  Reads of any age
        go to the
        storage; watches and reads of a minimal revision wait.
        """
        self.ready = False

    def end_watches(self) -> None:
        """End the watches of all caches."""
        for cache in self._caches.values():
            if not cache.direct:
                cache.end_watches()

    def open_anew(self) -> list[int]:
        """Reopen after a list of the storage, where each window starts; return the waiting
        requests.
        """
        self.ready = True
        self.end_watches()
        for cache in self._caches.values():
            if not cache.direct:
                cache.restart()
        waiting, self.waiting = self.waiting, []
        return waiting

    def set_led(self, led: bool, error: Obj | None = None) -> None:
        """Observe that the storage has lost its leader, or has one again.

        error: ends the watches of resources without a cache
        """
        if self._unled is None and error is not None:
            for cache in self._caches.values():
                if cache.direct:
                    cache.fail_watches(error)
        self._unled = None if led else error

    def go_on(self) -> None:
        """Continue after a cut: a cache relists if its next revision was compacted (reflector.go)."""
        for cache in self._caches.values():
            if not cache.direct and cache.revision() < self._store.floor:
                cache.end_watches()
                cache.restart()

    def show_progress(self) -> None:
        """Take a progress notification of the storage, which advances also watches without events."""
        if not self.horizon.frozen:
            self.horizon.show_progress(self._store.revision_at(self.horizon.reached_us()))

    # --- watches ----------------------------------------------------------------------------------

    @property
    def watched(self) -> int:
        """The number of open watches."""
        return sum([cache.watched for cache in self._caches.values()])

    def measure(self, resource: Resource) -> tuple[int, int, int] | None:
        """The events that a resource has had since the start of the server, how often its cache was
        filled, and the capacity of its window; None without a cache.
        """
        if not self._has_cache(resource):
            return None
        cache = self._caches.get(resource.prefix)
        if cache is not None:
            return cache.seen, 1 + cache.restarts, cache.capacity
        found = self._store.stretches(self.horizon.start_rev, resource.prefix)
        count = 0 if isinstance(found, Compacted) else sum(len(part) for part in found)
        return count, 1, WINDOW_MIN

    def each(self) -> Iterator[tuple[str, WatchCache]]:
        """The caches, by the prefix of their resource."""
        yield from self._caches.items()

    def drop(self, resource: str, client: str) -> None:
        """End the watches of a resource ("": all) by users that match a glob ("": all)."""
        for prefix, cache in self._caches.items():
            if not resource or prefix.split("/")[2] == resource:
                for watch in cache.watches():
                    if not client or fnmatchcase(watch.client, client):
                        watch.end()

    def deadline_us(self, timeout_s: int) -> Virtual:
        """Return when a watch that begins now ends."""
        now_us = self.timers.now_us()
        if timeout_s:
            return now_us + max(0, timeout_s) * SECOND
        # default watch time-out: uniform between --min-request-timeout and twice that
        return now_us + self.timers.uniform_us(self._min_watch_us, 2 * self._min_watch_us)

    def open(self, cache: WatchCache, watch: CacheWatch, rev: Revision) -> CacheWatch | FailedWatch:
        """Begin a watch after a revision; return a failed one if the history does not reach back to
        it.
        """
        if cache.direct and self._unled is not None:
            return FailedWatch(self._unled)
        too_old = cache.open(watch, rev)
        if isinstance(too_old, TooOld):
            if cache.direct:
                return FailedWatch(status.compacted("watch"))
            cause = self._started if cache.whole else 0
            return FailedWatch(status.too_old(too_old.requested, too_old.oldest), cause)
        return watch

    # --- waiting ----------------------------------------------------------------------------------

    def when_fresh(self, cache: WatchCache, rev: Revision, then: Callable[[bool], None]) -> None:
        """Call `then(True)` when the cache shows `rev`, `then(False)` if it does not in time."""
        if cache.revision() >= rev:
            then(True)
        else:
            _Wait(self, cache, rev, then)


class FailedWatch:
    """A watch with a single ERROR event, such as 410 after HTTP 200.

    cause: the trace record that led to the error, 0 if unknown
    """

    def __init__(self, status: Obj, cause: int = 0) -> None:
        self._events = [WatchEvent("ERROR", None, NO_REVISION, status, cause)]
        self._on_end: Callable[[], object] | None = None

    def attach(self, notify: Callable[[], None]) -> None:
        """Notify the listener at once: the error is available."""
        notify()

    def take(self, limit: int = 1000) -> list[WatchEvent]:
        """Return the error event, if it has not been taken."""
        events, self._events = self._events, []
        self._end()
        return events

    @property
    def ended(self) -> bool:
        """True once the error has been taken."""
        return not self._events

    def stop(self) -> None:
        """End the watch without its error."""
        self._events = []
        self._end()

    def observe_end(self, on_end: Callable[[], object]) -> None:
        """Call `on_end` once when the watch ends."""
        self._on_end = on_end

    def _end(self) -> None:
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end()


class _Wait:
    """One request waiting for a cache to reach a revision."""

    def __init__(
        self, caches: Caches, cache: WatchCache, rev: Revision, then: Callable[[bool], None]
    ) -> None:
        self._caches = caches
        self._cache = cache
        self._rev = rev
        self._then: Callable[[bool], None] | None = then
        self._at_us = NEVER_US  # when the revision was committed
        timers = caches.timers
        self._cancel = cache.feed.subscribe(cache.prefix, self._on_change)
        cache.horizon.moved.append(self._expect)
        timers.call_at(timers.now_us() + FRESH_WAIT_US, self._settle)
        newest = cache.feed.events(rev - 1, cache.prefix, 1) if rev <= cache.feed.revision else []
        if not isinstance(newest, Compacted):
            for change in newest:
                self._on_change(change)

    def _on_change(self, change: Change) -> None:
        if change.rev >= self._rev and self._at_us == NEVER_US:
            self._at_us = change.at_us
            self._expect()

    def _expect(self) -> None:
        """Schedule when the cache will show the revision, which depends on the cache's lag."""
        if self._at_us < NEVER_US:
            timers, due_us = self._caches.timers, self._cache.horizon.due_us(self._at_us)
            if due_us < NEVER_US:
                timers.call_at(max(due_us, timers.now_us()), self._check)

    def _check(self, _: Any) -> None:
        if self._cache.revision() >= self._rev:
            self._settle(None)

    def _settle(self, _: Any) -> None:
        then, self._then = self._then, None
        if then is not None:
            self._cancel()
            self._cache.horizon.moved.remove(self._expect)
            then(self._cache.revision() >= self._rev)
