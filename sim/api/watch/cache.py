"""Watch caches: the view that one API server has of one resource, a short time behind the store.

A cache turns the store's log into watches: it knows which start revisions it can serve, which
events a watch receives and when. It copies no state: it is a horizon on the store's log. Only when
the store is about to compact a revision that a delayed server still shows does the cache keep its
content. An event becomes visible when the horizon has passed the time of its commit. Nothing is
scheduled per event: one pending pump per cache notifies the attached watches; a watch without an
owner is brought up to date when it is read.

An index finds the watches of one object or (for pods) of one node, so that an event reaches only
the watches that it concerns, however many thousands there are.

Holds: a watch receives its events in revision order, each once, and none is missing between its
start and its end; visibility never goes back; a watch ends at its deadline, by `stop`, with its
server, or because it was too slow, and always with a notification.

Mirrors  kubernetes v1.25 apiserver pkg/storage/cacher/{cacher,watch_cache,cache_watcher,util}.go.
Differs  the delay behind the store is one value per server, not drawn per event (below 1 ms it
         changes nothing).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain

from sim.api.store import Change, Compacted, HeartbeatItem, Item, Only, Page, Range
from sim.api.types import Obj, WatchEvent
from sim.api.watch.cache_watch import ENDED, UNREAD_MAX, CacheWatch
from sim.api.watch.delivery import WAITING, Delivery
from sim.api.watch.events import event_of
from sim.api.watch.feed import Feed
from sim.api.watch.horizon import NEVER_US, Horizon
from sim.api.watch.window import Window
from sim.units import NO_REVISION, Revision, Virtual


def _time_of(change: Change) -> Virtual:
    return change.at_us


class TooOld:
    """The refusal of a watch: its start revision is no longer in the window.

    requested: the start revision of the watch
    oldest: the oldest revision that a watch can start after
    """

    __slots__ = ("oldest", "requested")

    def __init__(self, requested: Revision, oldest: Revision) -> None:
        self.requested = requested
        self.oldest = oldest


class WatchCache:
    """The watches on one resource of one API server.

    direct: True if upstream has no cache for the resource (events): its window is the whole history
    index_value: the value in an object's spec by which watches can be indexed
    """

    def __init__(
        self,
        feed: Feed,
        prefix: str,
        horizon: Horizon,
        index_value: Callable[[Obj | None], str] | None = None,
        direct: bool = False,
    ) -> None:
        self.feed = feed
        self.log = feed.log_of(prefix)
        self.prefix = prefix
        self.horizon = horizon
        self.direct = direct
        self._index_value = index_value
        self._window = Window(horizon.start_rev, horizon.reached_us)
        self._cursor = horizon.start_rev
        self.restarts = 0  # since the server started
        self._shown = NO_REVISION  # the newest revision that has been visible
        # The content at the revision shown, once the store has compacted that revision.
        self._copy: tuple[Revision, dict[str, Item]] | None = None
        self._open: dict[CacheWatch, None] = {}  # in order of opening
        self._unindexed: dict[str, int] = {}  # number of open watches of all keys below a prefix
        self._scanning: dict[CacheWatch, None] = {}  # attached, not indexed
        self._by_key: dict[str, tuple[CacheWatch, ...]] = {}  # mostly one: a node agent's own node
        self._by_value: dict[str, tuple[CacheWatch, ...]] = {}
        # Watches to notify; the commit times of the first and the last event that they wait for.
        self._dirty: dict[CacheWatch, tuple[Virtual, Virtual]] = {}
        self._times: deque[Virtual] = deque()  # commit times of events to deliver, not yet visible
        self._pump_at_us = NEVER_US
        self._unsubscribe: Callable[[], None] | None = None
        horizon.moved.append(self._replan)
        horizon.before_moved.append(self._before_replan)

    # --- reading ----------------------------------------------------------------------------------

    @property
    def whole(self) -> bool:
        """True if the window holds every event since the server started."""
        return self._window.dropped_rev == self.horizon.start_rev

    def drain(self) -> None:
        """Takes new commits from the store's log into the window."""
        log, before = self.log, self._cursor
        if (log and log[-1].rev > before) or before < self.feed.floor:
            self._take_in(before)
        self._cursor = self.feed.revision
        assert self._cursor >= before, "the revision of the store goes back"

    def _take_in(self, before: Revision) -> None:
        found = self.feed.stretches(before, self.prefix)
        if isinstance(found, Compacted):
            self._window.dropped_rev = self.feed.floor  # the cache was made after a compaction
            found = self.feed.stretches(self.feed.floor, self.prefix)
        if not isinstance(found, Compacted):
            for part in found:
                if self._copy is not None:
                    self._advance_copy(part)
                self._window.add(part)

    @property
    def capacity(self) -> int:
        """The number of events that the window may hold now."""
        return self._window.capacity

    @property
    def seen(self) -> int:
        """The number of events in the log since the start, taken into the window or not yet."""
        found = self.feed.stretches(self._cursor, self.prefix)
        later = 0 if isinstance(found, Compacted) else sum(len(part) for part in found)
        return self._window.changes.total + later

    def restart(self) -> None:
        """Restarts with the present content; earlier events leave the window."""
        self.restarts += 1
        self.drain()
        self._window.restart(self.feed.revision)
        self._copy = None

    def before_compact(self, rev: Revision) -> None:
        """Keeps what the store's history up to `rev` is about to lose."""
        shown = self.revision()  # this also drains the log
        log = self.log
        if shown < rev and log and log[-1].rev > shown and self._copied(shown) is None:
            page: Page = self.feed.range(Range(self.prefix, rev=self._readable(shown)))
            self._copy = shown, {item.key: item for item in page.items}
        for watch in list(self._open):
            watch.pull()
            if watch.delivery is Delivery.ON_READ and len(watch.queue) > UNREAD_MAX:
                watch.unread = len(watch.queue)
                watch.deliver(self.horizon.timers.now_us())

    def revision(self, before_us: int = 0) -> Revision:
        """The revision of the newest event of this resource that is visible now.

        before_us: how long ago to look instead
        """
        self.drain()
        newest = max(self._window.dropped_rev, self.horizon.progress_rev)
        reached_us = self.horizon.reached_us(before_us)
        changes = self._window.changes
        count = len(changes)
        if count and changes[-1].at_us > reached_us:  # the newest is not visible
            count = bisect_right(changes, reached_us, key=_time_of)
        if count and changes[count - 1].rev > newest:
            newest = changes[count - 1].rev
        if newest > self._shown:
            self._shown = newest
        else:
            assert before_us or newest == self._shown, "an event that was visible is hidden again"
        return newest

    @property
    def saw_events(self) -> bool:
        """True once the cache has processed an event or a progress notification since the server
        started (cacher.go, dispatchEvents).
        """
        horizon = self.horizon
        return (
            bool(self._window.changes) or self._window.dropped_rev > horizon.start_rev or horizon.progressed
        )

    def page(self, prefix: str, only: Only | None = None) -> Page:
        """All objects below a prefix that are visible now, with the cache's revision as `rev`.

        only: a hint about what is selected of them
        """
        rev = self.revision()
        copied = self._copied(rev)
        if copied is not None:
            return Page([item for key, item in copied.items() if key.startswith(prefix)], rev)
        page: Page = self.feed.range(Range(prefix, rev=self._readable(rev), only=only))
        return Page(page.items, rev, whole=page.whole)

    def _copied(self, rev: Revision, incoming: Sequence[Change] = ()) -> dict[str, Item] | None:
        """All objects at a revision that the store has compacted, otherwise None; advances the
        copy.

        incoming: changes that the window is about to take in
        """
        if self._copy is not None and self._copy[0] != rev:
            self._copy = (
                (rev, self._with_changes(*self._copy, rev, incoming)) if rev < self.feed.floor else None
            )
        return None if self._copy is None else self._copy[1]

    def _advance_copy(self, incoming: Sequence[Change]) -> None:
        """Advances the copy before `incoming` changes push visible ones out of the window."""
        if len(self._window.changes) + len(incoming) <= self._window.capacity:
            return
        reached_us = self.horizon.reached_us()
        for changes in (incoming, self._window.changes):
            count = bisect_right(changes, reached_us, key=_time_of)
            if count:
                self._copied(changes[count - 1].rev, incoming)
                return

    def _with_changes(
        self, since: Revision, copied: dict[str, Item], rev: Revision, incoming: Sequence[Change]
    ) -> dict[str, Item]:
        """The copy at revision `since` with the changes up to `rev` applied, in key order."""
        found = dict(copied)
        for change in chain(self._window.changes, incoming):
            if since < change.rev <= rev:
                found.pop(change.item.key, None)
                if not change.deleted:
                    found[change.item.key] = change.item
        return {key: found[key] for key in sorted(found)}

    def get(self, key: str) -> Item | None:
        """The object of a key that is visible now; None if there is none."""
        item = self.feed.get(key)
        if item is not None and item.rev <= self._shown:
            return item
        rev = self.revision()
        copied = self._copied(rev)
        return copied.get(key) if copied is not None else self.feed.get_at(key, self._readable(rev))

    def _readable(self, rev: Revision) -> Revision:
        """A revision at which the store shows the same content.

        This resource has no change between `rev` and the floor at which the log begins.
        """
        return max(rev, self.feed.floor)

    # --- watches ----------------------------------------------------------------------------------

    def oldest(self) -> Revision:
        """The oldest revision that a watch can start after."""
        if self.direct:
            return self.feed.floor
        self.drain()
        return self._window.oldest

    def open(self, watch: CacheWatch, rev: Revision) -> TooOld | None:
        """Starts a watch after revision `rev`; for 0, with the present content as ADDED events."""
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

    def _wanted_after(self, rev: Revision, watch: CacheWatch) -> Sequence[Change]:
        """The changes after a revision that can concern a watch."""
        if watch.key:
            item = self.feed.get(watch.key)
            if item is not None and item.rev <= rev:
                return []  # a short cut: thousands of node agents watch one node each
        if watch.prefix == self.prefix:
            return self._after(rev)
        return [change for change in self._after(rev) if change.item.key.startswith(watch.prefix)]

    def _after(self, rev: Revision) -> Sequence[Change]:
        """Changes after a revision, from the store or, if the store has compacted them, from the
        window.
        """
        self.drain()
        found = self.feed.events(rev, self.prefix)
        if not isinstance(found, Compacted):
            return found
        return self._window.changes.after(rev)

    def attached(self, watch: CacheWatch) -> None:
        """Schedules the delivery of a watch's events from now on."""
        if not watch.indexed and watch.delivery is not Delivery.ON_READ and watch.state is not ENDED:
            self._scanning[watch] = None
            watch.feed_in()
            self._follow()
        first_us = last_us = watch.waiting_us
        if first_us is not None and last_us is not None:
            watch.unread += 1
            self._plan(first_us)
            if watch.queue and watch.queue[-1].at_us > last_us:  # which becomes visible later
                last_us = watch.queue[-1].at_us
                self._plan(last_us)
            self._dirty[watch] = first_us, last_us

    def relax(self, watch: CacheWatch) -> None:
        """Stops scheduling a watch's events; its owner reads when it needs them."""
        self._scanning.pop(watch, None)
        self._dirty.pop(watch, None)
        self._unfollow()

    def close(self, watch: CacheWatch) -> None:
        """Removes a watch from the cache."""
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
        """The number of open watches."""
        return len(self._open)

    def watches(self) -> list[CacheWatch]:
        """The open watches, in order of opening."""
        return list(self._open)

    def end_watches(self) -> None:
        """Ends each open watch."""
        for watch in self.watches():
            watch.end()

    def fail_watches(self, error: Obj) -> None:
        """Ends each open watch with an error as its last event."""
        for watch in self.watches():
            watch.fail(error)

    def interested(self, key: str) -> int:
        """The number of watches that a change of this object concerns, by upstream's estimate.

        The estimate counts watches of all namespaces and of the object's own, but none by an index
        value.
        """
        prefixes = {self.prefix: None, key[: key.rfind("/") + 1]: None}
        return sum([self._unindexed.get(prefix, 0) for prefix in prefixes]) + len(self._by_key.get(key, ()))

    def _count(self, watch: CacheWatch, more: int) -> None:
        if not watch.indexed:
            count = self._unindexed[watch.prefix] = self._unindexed.get(watch.prefix, 0) + more
            if not count:
                del self._unindexed[watch.prefix]

    def cut(self) -> None:
        """Ends each open watch, because the server crashes."""
        self.end_watches()
        self.horizon.moved.remove(self._replan)
        self.horizon.before_moved.remove(self._before_replan)

    def _follow(self) -> None:
        if self._unsubscribe is None:
            self._unsubscribe = self.feed.subscribe(self.prefix, self._on_change)

    def _on_change(self, change: Change) -> None:
        """Marks the watches that a commit concerns. Runs within the write, so it delivers nothing."""
        wanted, prefix = False, self.prefix
        for watch in self._scanning:
            if watch.prefix is prefix or change.item.key.startswith(watch.prefix):
                wanted = self._push(watch, change) or wanted
        if self._by_key:
            for watch in self._by_key.get(change.item.key, ()):
                wanted = self._push(watch, change) or wanted
        if self._by_value:
            assert self._index_value is not None  # only a cache with an index has watches by value
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
        if change.rev <= watch.since:  # the store was set back (cache_watcher.go: process)
            return False
        span = self._dirty.get(watch)
        is_heartbeat = type(change.item) is HeartbeatItem and not change.deleted
        if is_heartbeat and span is None and watch.delivery is Delivery.CHANGES:
            if watch.keep(change):
                return False
        else:
            watch.queue.append(change)  # type: ignore[attr-defined]
        if watch.notify is None:
            return False
        watch.unread += 1
        at_us = change.at_us
        self._dirty[watch] = at_us if span is None else span[0], at_us
        return True

    # --- delivery ---------------------------------------------------------------------------------

    def _plan(self, at_us: Virtual) -> None:
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
            if watch.look is not None and watch.delivery in WAITING:
                watch.look()

    def _replan(self) -> None:
        self._pump_at_us = NEVER_US
        self._schedule()

    def _pump(self, planned_us: Virtual) -> None:
        if planned_us != self._pump_at_us:
            return  # it was scheduled before the lag changed
        self._pump_at_us = NEVER_US
        now_us, reached_us = self.horizon.timers.now_us(), self.horizon.reached_us()
        times = self._times
        while times and times[0] <= reached_us:
            times.popleft()
        changes = Delivery.CHANGES
        for watch in [each for each in self._dirty if each.delivery is changes and len(each.queue) > 1]:
            if watch.look is not None:
                watch.look()
        dirty, self._dirty = self._dirty, {}
        last: Change | None = None  # with its event for watches without a selection
        event: WatchEvent | None = None
        for watch, span in dirty.items():
            change = watch.pop(now_us, reached_us)
            if change is not None:  # nearly always
                watch.unread = watch.unread_since_us = 0
                if watch.matches is not None:
                    event, last = event_of(change, watch.matches), None
                elif change is not last:
                    last, event = change, event_of(change, None)
                if event is not None and not watch.receive([event]):  # type: ignore[misc]
                    watch.receive = None
                continue
            span = self._dirty.get(watch, span)
            if span[0] > reached_us:
                self._dirty[watch] = span
            elif watch.notify is not None and not watch.ended:
                if span[1] > reached_us:
                    self._dirty[watch] = reached_us + 1, span[1]
                watch.deliver(now_us)
        if times:
            self._schedule()
