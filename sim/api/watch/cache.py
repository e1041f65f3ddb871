"""Watch caches: what one API server replica knows of one resource, some microseconds after the store.

Turns the store's log into watches: which start revisions can be served, which events a watch sees and when it
is told of them.  A cache copies no state: it is a horizon on the store's log, until that is about to lose what a replica
that is far behind still shows.  An event becomes visible when
the horizon has passed the time of its commit.  Nothing is scheduled per event: an attached watch is notified
through one pending pump per cache; a watch that nobody attached to is brought up to date when it is read.

Watches that ask for one object or (pods) for one node are found by an index, so that an event reaches the
concerned ones only, however many thousands there are.

Holds: events of a watch come in revision order, none twice, none missing between its start and its end;
visibility never goes back; a watch ends by its deadline, by `stop`, by the replica's end, or because it was
too slow, never silently in between.

Mirrors  kubernetes v1.25 apiserver pkg/storage/cacher/{cacher,watch_cache,cache_watcher,util}.go.
Differs  the delay behind the store is one value per replica, not drawn per event (below 1 ms it moves nothing).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, Protocol

from sim.api.store import Beaten, Change, Compacted, Item, Page, Range
from sim.api.types import Obj, WatchEvent
from sim.api.watch.cache_watch import UNREAD_MAX, CacheWatch
from sim.api.watch.events import event_of
from sim.api.watch.horizon import NEVER_US, Horizon
from sim.api.watch.window import Window


class Feed(Protocol):
    """What a cache reads of a store."""

    @property
    def revision(self) -> int: ...
    @property
    def floor(self) -> int: ...
    def events(self, after: int, prefix: str, limit: int = 0) -> Sequence[Change] | Compacted: ...
    def stretches(self, after: int, prefix: str) -> Iterable[Sequence[Change]] | Compacted: ...
    def changed_since(self, after: int, prefix: str) -> bool: ...
    def range(self, op: Range) -> Any: ...
    def get(self, key: str) -> Item | None: ...
    def get_at(self, key: str, rev: int) -> Item | None: ...
    def subscribe(self, prefix: str, on_change: Callable[[Change], None]) -> Callable[[], None]: ...


def _time_of(change: Change) -> int:
    return change.at_us


class TooOld:
    """The start revision of a watch is not in the window any more."""

    __slots__ = ("asked", "oldest")

    def __init__(self, asked: int, oldest: int) -> None:
        self.asked = asked
        self.oldest = oldest


class WatchCache:
    """One resource on one replica.  `index_value(obj["spec"])`: the value by which its watches can be indexed."""

    def __init__(
        self,
        feed: Feed,
        prefix: str,
        horizon: Horizon,
        index_value: Callable[[Obj | None], str] | None = None,
        direct: bool = False,
    ) -> None:
        self.feed = feed
        self.prefix = prefix
        self.horizon = horizon
        self.direct = direct  # no cache upstream (events): the window is the store's whole history
        self._index_value = index_value
        self._window = Window(horizon.start_rev, horizon.reached_us)
        self._cursor = horizon.start_rev
        self._shown = 0  # a revision that has been visible here
        self._copy: tuple[int, dict[str, Item]] | None = (
            None  # what is shown at that revision, if history has lost it
        )
        self._open: dict[CacheWatch, None] = {}  # in order of opening
        self._unindexed: dict[str, int] = {}  # how many of them want all below a prefix
        self._scanning: dict[CacheWatch, None] = {}  # attached, not indexed
        self._by_key: dict[str, tuple[CacheWatch, ...]] = {}  # mostly one: each node's of itself
        self._by_value: dict[str, tuple[CacheWatch, ...]] = {}
        self._dirty: dict[CacheWatch, None] = {}
        self._times: deque[int] = deque()  # commit times not yet visible that somebody must hear of
        self._pump_at_us = NEVER_US
        self._unsubscribe: Callable[[], None] | None = None
        horizon.moved.append(self._replan)
        horizon.before_moved.append(self._before_replan)

    # --- reading ------------------------------------------------------------------------------------------

    @property
    def whole(self) -> bool:
        """Whether it has all since its replica started: what it does not have was before."""
        return self._window.dropped_rev == self.horizon.start_rev

    def drain(self) -> None:
        """Take what the store has committed into the window, and into watches that nobody has read."""
        found = self.feed.stretches(self._cursor, self.prefix)
        if isinstance(found, Compacted):
            self._window.dropped_rev = self.feed.floor  # made after history had begun to be forgotten
            found = self.feed.stretches(self.feed.floor, self.prefix)
        if not isinstance(found, Compacted):
            for part in found:
                if self._copy is not None:
                    self._keep_up(part)
                self._window.add(part)
        self._cursor = self.feed.revision

    def restart(self) -> None:
        """Begin anew with the present content: what was before is not in the window any more."""
        self.drain()
        self._window.restart(self.feed.revision)
        self._copy = None

    def before_compact(self, rev: int) -> None:
        """Take in what history up to `rev` is about to lose."""
        shown = self.revision()  # and nothing is left to drain
        if shown < rev and self.feed.changed_since(shown, self.prefix) and self._copied(shown) is None:
            page: Page = self.feed.range(Range(self.prefix, rev=self._readable(shown)))
            self._copy = shown, {item.key: item for item in page.items}
        for watch in list(self._open):
            watch.pull()
            if watch.relaxed and len(watch.queue) > UNREAD_MAX:
                watch.unread = len(watch.queue)
                watch.tell(self.horizon.timers.now_us())

    def revision(self, before_us: int = 0) -> int:
        """The revision of the newest event of this resource that is visible here (or was, so long ago)."""
        self.drain()
        newest = max(self._window.dropped_rev, self.horizon.progress_rev)
        reached_us = self.horizon.reached_us(before_us)
        changes = self._window.changes
        count = len(changes)
        if count and changes[-1].at_us > reached_us:  # behind, or asked for the past
            count = bisect_right(changes, reached_us, key=_time_of)
        if count and changes[count - 1].rev > newest:
            newest = changes[count - 1].rev
        if newest > self._shown:
            self._shown = newest
        return newest

    @property
    def saw_events(self) -> bool:
        """False until the first event of this resource since the replica started, or the store's first word that there is none
        (cacher.go, dispatchEvents: before that it has processed nothing)."""
        horizon = self.horizon
        return (
            bool(self._window.changes) or self._window.dropped_rev > horizon.start_rev or horizon.progressed
        )

    def page(self, prefix: str) -> Page:
        """All objects below a prefix as this cache shows them now; `rev` is the cache's revision."""
        rev = self.revision()
        copied = self._copied(rev)
        if copied is not None:
            return Page([item for key, item in copied.items() if key.startswith(prefix)], rev)
        page: Page = self.feed.range(Range(prefix, rev=self._readable(rev)))
        return Page(page.items, rev)

    def _copied(self, rev: int, coming: Sequence[Change] = ()) -> dict[str, Item] | None:
        """All objects at a revision, where history has lost it; the copy moves on with what is shown.

        coming: what the window is about to take in
        """
        if self._copy is not None and self._copy[0] != rev:
            self._copy = (rev, self._moved_on(*self._copy, rev, coming)) if rev < self.feed.floor else None
        return None if self._copy is None else self._copy[1]

    def _keep_up(self, coming: Sequence[Change]) -> None:
        """Move the copy on by what the window may let go for what is coming: it holds what is shown no longer than it must."""
        if len(self._window.changes) + len(coming) <= self._window.capacity:
            return
        reached_us = self.horizon.reached_us()
        for changes in (coming, self._window.changes):
            count = bisect_right(changes, reached_us, key=_time_of)
            if count:
                self._copied(changes[count - 1].rev, coming)
                return

    def _moved_on(
        self, since: int, copied: dict[str, Item], rev: int, coming: Sequence[Change]
    ) -> dict[str, Item]:
        found = dict(copied)
        for change in chain(self._window.changes, coming):
            if since < change.rev <= rev:
                found.pop(change.item.key, None)
                if not change.deleted:
                    found[change.item.key] = change.item
        return {key: found[key] for key in sorted(found)}

    def get(self, key: str) -> Item | None:
        item = self.feed.get(key)
        if item is not None and item.rev <= self._shown:
            return item
        rev = self.revision()
        copied = self._copied(rev)
        return copied.get(key) if copied is not None else self.feed.get_at(key, self._readable(rev))

    def _readable(self, rev: int) -> int:
        """Nothing of this resource changed between its revision and the floor, where the log begins."""
        return max(rev, self.feed.floor)

    # --- watches ------------------------------------------------------------------------------------------

    def oldest(self) -> int:
        """The oldest revision a watch can start after."""
        if self.direct:
            return self.feed.floor
        self.drain()
        return self._window.oldest

    def open(self, watch: CacheWatch, rev: int) -> TooOld | None:
        """Start a watch after revision `rev` (0: with the present content as ADDED events)."""
        if rev:
            oldest = self.oldest()
            if rev < oldest:
                return TooOld(rev, oldest)
            watch.start(rev, self._wanted_after(rev, watch))
        else:
            page = self.page(watch.prefix)
            watch.start_with(page, self._after(page.rev))
        self._open[watch] = None
        self._count(watch, 1)
        if watch.key:
            self._by_key[watch.key] = (*self._by_key.get(watch.key, ()), watch)
        elif watch.value:
            self._by_value[watch.value] = (*self._by_value.get(watch.value, ()), watch)
        if watch.indexed:
            self._follow()
        return None

    def _wanted_after(self, rev: int, watch: CacheWatch) -> Sequence[Change]:
        if watch.key:
            item = self.feed.get(watch.key)
            if item is not None and item.rev <= rev:
                return []  # thousands of node agents watch one node each
        if watch.prefix == self.prefix:
            return self._after(rev)
        return [change for change in self._after(rev) if change.item.key.startswith(watch.prefix)]

    def _after(self, rev: int) -> Sequence[Change]:
        """Events after a revision: from the store, or from the window where the store has forgotten them."""
        self.drain()
        found = self.feed.events(rev, self.prefix)
        if not isinstance(found, Compacted):
            return found
        return self._window.changes.after(rev)

    def attached(self, watch: CacheWatch) -> None:
        """Somebody wants to be told: from now on its events are scheduled for."""
        if not watch.indexed and not watch.relaxed:
            self._scanning[watch] = None
            watch._listed()
            watch.fed = True
            self._follow()
        if watch.waiting_us is not None:
            watch.unread += 1
            watch.first_us = watch.last_us = watch.waiting_us
            self._dirty[watch] = None
            self._plan(watch.waiting_us)
            if watch.queue and watch.queue[-1].at_us > watch.last_us:  # visible later, perhaps
                watch.last_us = watch.queue[-1].at_us
                self._plan(watch.last_us)

    def relax(self, watch: CacheWatch) -> None:
        """Its events are not scheduled for any more: its owner asks when it wants to know."""
        self._scanning.pop(watch, None)
        self._dirty.pop(watch, None)
        self._unfollow()

    def close(self, watch: CacheWatch) -> None:
        if watch in self._open:
            self._count(watch, -1)
        for group in (self._open, self._scanning, self._dirty):
            group.pop(watch, None)
        for index, value in ((self._by_key, watch.key), (self._by_value, watch.value)):
            others = tuple([other for other in index.get(value, ()) if other is not watch])
            if others:
                index[value] = others
            else:
                index.pop(value, None)
        self._unfollow()

    def _unfollow(self) -> None:
        if self._unsubscribe is not None and not (self._scanning or self._by_key or self._by_value):
            self._unsubscribe()
            self._unsubscribe = None

    @property
    def watched(self) -> int:
        """How many watches are open now."""
        return len(self._open)

    def watches(self) -> list[CacheWatch]:
        """Those that are open now."""
        return list(self._open)

    def end_watches(self) -> None:
        for watch in self.watches():
            watch.end()

    def fail_watches(self, error: Obj) -> None:
        """As `end_watches`, with an error as their last word."""
        for watch in self.watches():
            watch.fail(error)

    def interested(self, key: str) -> int:
        """How many watches a change of this object concerns, by upstream's guess: of all namespaces or its own, not by a value."""
        prefixes = {self.prefix: None, key[: key.rfind("/") + 1]: None}
        return sum([self._unindexed.get(prefix, 0) for prefix in prefixes]) + len(self._by_key.get(key, ()))

    def _count(self, watch: CacheWatch, more: int) -> None:
        if not watch.indexed:
            count = self._unindexed[watch.prefix] = self._unindexed.get(watch.prefix, 0) + more
            if not count:
                del self._unindexed[watch.prefix]

    def cut(self) -> None:
        """End every watch: the replica dies."""
        self.end_watches()
        self.horizon.moved.remove(self._replan)
        self.horizon.before_moved.remove(self._before_replan)

    def _follow(self) -> None:
        if self._unsubscribe is None:
            self._unsubscribe = self.feed.subscribe(self.prefix, self._on_change)

    def _on_change(self, change: Change) -> None:
        """A commit: find whom it concerns.  Runs within the write, so it only marks."""
        wanted = False
        for watch in self._scanning:
            if watch.whole or change.item.key.startswith(watch.prefix):
                wanted = self._push(watch, change) or wanted
        if self._by_key:
            for watch in self._by_key.get(change.item.key, ()):
                wanted = self._push(watch, change) or wanted
        if self._by_value and self._index_value is not None:
            prev, spec = change.prev, change.item.obj.get("spec")
            value = self._index_value(spec)
            if value:
                for watch in self._by_value.get(value, ()):
                    wanted = self._push(watch, change) or wanted
            was = spec if prev is None else prev.obj.get("spec")
            if was is not spec and (before := self._index_value(was)) != value:
                for watch in self._by_value.get(before, ()):
                    wanted = self._push(watch, change) or wanted
        if wanted:
            self._plan(change.at_us)

    def _push(self, watch: CacheWatch, change: Change) -> bool:
        if watch.deaf and type(change.item) is Beaten and not change.deleted and watch not in self._dirty:
            if watch.keep(change):
                return False
        else:
            watch.queue.append(change)  # type: ignore[attr-defined]
        if watch.notify is None:
            return False
        watch.unread += 1
        watch.last_us = at_us = change.at_us
        if watch not in self._dirty:
            self._dirty[watch] = None
            watch.first_us = at_us
        return True

    # --- telling ------------------------------------------------------------------------------------------

    def _plan(self, at_us: int) -> None:
        times = self._times
        if not times:
            times.append(at_us)
            self._schedule()
        elif times[-1] != at_us:
            times.append(at_us)

    def _schedule(self) -> None:
        if self._times:
            due_us = self.horizon.due_us(self._times[0])
            if due_us < self._pump_at_us:
                self._pump_at_us = due_us
                self.horizon.timers.call_at(due_us, self._pump, due_us)

    def _before_replan(self) -> None:
        """What is shown by now was shown on the old course."""
        for watch in list(self._open):
            if watch.look is not None and (watch.relaxed or watch.deaf):
                watch.look()

    def _replan(self) -> None:
        self._pump_at_us = NEVER_US
        self._schedule()

    def _pump(self, planned_us: int) -> None:
        if planned_us != self._pump_at_us:
            return  # planned before the lag changed
        self._pump_at_us = NEVER_US
        now_us, reached_us = self.horizon.timers.now_us(), self.horizon.reached_us()
        times = self._times
        while times and times[0] <= reached_us:
            times.popleft()
        for watch in [watch for watch in self._dirty if watch.deaf and len(watch.queue) > 1]:
            if watch.look is not None:
                watch.look()
        dirty, self._dirty = self._dirty, {}
        last: Change | None = None  # and the event that it is for those who want everything
        event: WatchEvent | None = None
        for watch in dirty:
            change = watch.pop(now_us, reached_us)
            if change is not None:  # nearly always
                if watch.matches is not None:
                    watch.give(event_of(change, watch.matches))
                    continue
                if change is not last:
                    last, event = change, event_of(change, None)
                watch.give(event)
            elif watch.first_us > reached_us:
                self._dirty[watch] = None
            elif watch.notify is not None and not watch.ended:
                if watch.last_us > reached_us:
                    self._dirty[watch] = None
                    watch.first_us = reached_us + 1
                watch.tell(now_us)
        if times:
            self._schedule()
