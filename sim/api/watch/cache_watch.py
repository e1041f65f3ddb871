"""One watch on a watch cache: its pending events, their delivery, and its end.

The changes that the cache passes in, or that the watch reads from the store's log, become the
events of one selection.

Holds: events come in revision order, each once, and none is missing between start and end; a watch
ends at its deadline, by `stop`, with its server, or because it was too slow; pending changes that
are all lease renewals stay in `Runs` until they are read one by one.

Mirrors  kubernetes v1.25 apiserver pkg/storage/cacher/cache_watcher.go, and the bookmarks of
         cacher.go.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Protocol, cast

from sim.api.store import Change, Compacted, HeartbeatItem, Page
from sim.api.types import Obj, WatchEvent
from sim.api.watch.columnar_renewals import Runs, runs_of
from sim.api.watch.delivery import WAITING, Delivery
from sim.api.watch.events import event_of
from sim.api.watch.feed import Feed
from sim.api.watch.horizon import NEVER_US, Horizon
from sim.api.watch.lease_renewals import all_renewals
from sim.transitions import Transitions
from sim.units import MS, NO_REVISION, SECOND, Revision, Virtual


class WatchSource(Protocol):
    """What a watch uses of the cache that it belongs to (see `sim.api.watch.cache.WatchCache`)."""

    feed: Feed
    log: Sequence[Any]
    prefix: str
    horizon: Horizon
    direct: bool

    @property
    def saw_events(self) -> bool:
        """True once the cache has processed an event or a progress notification."""
        ...

    def revision(self, before_us: int = 0) -> Revision:
        """The revision of the newest event that is visible now, or was `before_us` ago."""
        ...

    def attached(self, watch: CacheWatch) -> None:
        """Schedules the delivery of the watch's events."""
        ...

    def relax(self, watch: CacheWatch) -> None:
        """Stops scheduling the watch's events."""
        ...

    def close(self, watch: CacheWatch) -> None:
        """Removes the watch from the cache."""
        ...


# cacher.go: a watch that has this many events unread when its 0.1 s budget ends is closed.
UNREAD_MAX = 1_000
UNREAD_BUDGET_US = 100 * MS
GIVEN_MAX = 1_000  # events in one delivery
# cacher.go, bookmarkFrequency and its jitter: bookmarks 59 to 62.3 s apart, one 2 s before the
# deadline.
BOOKMARK_LOW_US, BOOKMARK_HIGH_US = 59 * SECOND, 62_300 * MS
LAST_BOOKMARK_US = 2 * SECOND
LAST_BOOKMARK_LOW_US, LAST_BOOKMARK_HIGH_US = 800 * MS, 2_800 * MS


# The modes in which a bookmark alone waits although events are delivered.
HUSHED = (Delivery.EVENTS, Delivery.CHANGES)


def _time_of(change: Change) -> Virtual:
    return change.at_us


class WatchState(Enum):
    """How a watch receives its changes.

    NEW: it is not opened
    READING: it reads the store's log when its owner reads
    FED: the cache passes each commit in
    """

    NEW = "new"
    READING = "reading"
    FED = "fed"
    ENDED = "ended"


NEW, READING, FED, ENDED = WatchState
TRANSITIONS = Transitions(
    NEW,
    {
        NEW: {READING: "it selects no single object or node", FED: "the cache can find it by an index"},
        READING: {
            FED: "its owner is to be notified",
            ENDED: "its deadline, its client or its server; or a change was compacted before it was read",
        },
        FED: {
            READING: "its owner wants to receive events only when it reads",
            ENDED: "its deadline, its client or its server; or its client is too slow",
        },
        ENDED: {},
    },
)


class CacheWatch:
    """A watch on a cache (`sim.api.types.Watch`).

    prefix: the prefix of the keys that it selects
    matches: label and field selector as one predicate, None for all objects
    key, value: the one object or index value that it selects, if the cache can index it (a value
        only for all namespaces)
    deadline_us: when it ends
    bookmarks: True if it sends bookmarks
    """

    _on_end: Callable[[], object] | None = None

    def __init__(
        self,
        cache: WatchSource,
        prefix: str,
        matches: Callable[[Obj], bool] | None = None,
        *,
        key: str = "",
        value: str = "",
        deadline_us: Virtual = NEVER_US,
        bookmarks: bool = False,
    ) -> None:
        self.cache = cache
        # The cache recognizes its own prefix by identity.
        self.prefix = cache.prefix if prefix == cache.prefix else prefix
        self.matches = matches
        self.key = key
        self.value = value if self.prefix is cache.prefix else ""
        self.state: WatchState = TRANSITIONS.start
        self.client = ""  # the name of the user that opened it, set by the server
        self.queue: Sequence[Change] = []  # mostly empty; a deque takes 600 bytes even then
        self.notify: Callable[[], None] | None = None
        self.receive: Callable[[Sequence[WatchEvent]], bool] | None = None
        self.delivery = Delivery.EVERYTHING
        # Has the owner read, before what it has not read is mixed up with more.
        self.look: Callable[[], None] | None = None
        self.unread = 0
        self._cursor = NO_REVISION
        self.since = NO_REVISION  # where it started; the cache may show that revision later
        self._started: Sequence[WatchEvent] = ()
        self.unread_since_us = 0
        self._deadline_us = deadline_us
        self._bookmark_us = NEVER_US
        if bookmarks:
            self._plan_bookmark(cache.horizon.timers.now_us(), first=True)

    # --- for the cache ----------------------------------------------------------------------------

    @property
    def indexed(self) -> bool:
        """True if the cache finds it by the object or the value that it selects."""
        return bool(self.key or self.value)

    def move(self, state: WatchState) -> None:
        """Pass to a state that may follow the present one."""
        self.state = TRANSITIONS.move(self.state, state)

    def start(self, rev: Revision, changes: Sequence[Change]) -> None:
        """Starts after revision `rev` with the given later changes."""
        self.move(FED if self.indexed else READING)
        assert not changes or changes[0].rev > rev, "a watch gets an event from before its start"
        self._queue(changes)
        self.since = rev
        self._cursor = max(rev, self.cache.feed.revision)

    def feed_in(self) -> None:
        """From now on the cache passes each commit in."""
        self._listed()
        if self.state is READING:
            self.move(FED)

    @property
    def initial(self) -> int:
        """The number of events that wait at its begin."""
        return len(self._started) + len(self.queue)

    def start_with(self, page: Page, later: Sequence[Change]) -> None:
        """Starts with the objects of a page as ADDED events."""
        matches = self.matches
        self._started = [
            WatchEvent("ADDED", item, item.rev) for item in page.items if matches is None or matches(item.obj)
        ]
        self.start(page.rev, [change for change in later if change.item.key.startswith(self.prefix)])

    def pull(self) -> None:
        """Takes new changes from the store's log, unless the cache passes them in."""
        if self.state is READING:
            feed = self.cache.feed
            if feed.revision > self._cursor:
                found = feed.events(self._cursor, self.prefix)
                if isinstance(found, Compacted):
                    self.end()
                    return
                self._queue(found)
                self._cursor = feed.revision

    def _queue(self, found: Sequence[Change]) -> None:
        """Appends to the pending changes, which stay `Runs` while they are all renewals."""
        queue = self.queue
        if self.matches is None and Runs in (type(queue), type(found)):
            before, after = runs_of(queue), runs_of(found)
            if before is not None and after is not None:
                self.queue = before.plus(after) if queue else after
                return
        if found:
            self._listed().extend(found)

    def _listed(self) -> list[Change]:
        """The pending changes as a list."""
        queue = self.queue
        if type(queue) is not list:
            queue = self.queue = list(queue)
        return queue

    def pop(self, now_us: Virtual, reached_us: Virtual) -> Change | None:
        """Removes and returns the only pending change, if a single delivery of it is all that is
        due.

        Returns None if it is not visible yet, if a bookmark or the deadline is due, or without a
        receiver.
        """
        queue = self.queue
        if len(queue) != 1 or self.receive is None or self._started or self.state is not FED:
            return None
        if now_us >= self._bookmark_us or now_us >= self._deadline_us or queue[0].at_us > reached_us:
            return None
        return queue.pop() if type(queue) is list else self._listed().pop()

    def deliver(self, now_us: Virtual) -> None:
        """Delivers or notifies; ends a watch that has had too many unread events for too long."""
        give = self.receive
        if give is not None:
            batch = self.take(GIVEN_MAX)
            if batch and not give(batch):
                self.receive = None
            if len(batch) < GIVEN_MAX and self.state is not ENDED:
                return
        late = (
            self.unread > UNREAD_MAX
            and self.unread_since_us
            and now_us - self.unread_since_us > UNREAD_BUDGET_US
        )
        if late and not self.cache.direct:  # watches of the storage wait (etcd3/watcher.go)
            self.end()
            return
        self.unread_since_us = self.unread_since_us or now_us
        if self.notify is not None:
            self.notify()

    @property
    def waiting_us(self) -> Virtual | None:
        """Commit time of the first pending event; None if there is none."""
        if self._started:
            return Virtual(0)
        return self.queue[0].at_us if self.queue else None

    # --- for the owner ----------------------------------------------------------------------------

    def attach(self, notify: Callable[[], None]) -> None:
        """Starts notifications: `notify` is called when events are visible and at the end."""
        self.pull()
        timers = self.cache.horizon.timers
        if self._deadline_us < NEVER_US and self.notify is None:
            timers.call_at(self._deadline_us, self._timeout)
        self.notify = notify
        if self.delivery is Delivery.ON_READ:
            self.delivery = Delivery.EVERYTHING
        self._expect_bookmark()
        self.cache.attached(self)

    def give_to(self, give: Callable[[Sequence[WatchEvent]], bool]) -> None:
        """Delivers events to `give` until it returns False, for lack of room; then notifies
        instead.
        """
        self.receive = give

    def choose(self, delivery: Delivery) -> bool:
        """Choose what the owner is notified of.

        After ON_READ another mode begins with `attach`.  Returns False, and changes nothing, if an
        indexed watch or one that has ended is to wait for reads.
        """
        before = self.delivery
        if delivery is Delivery.ON_READ:
            if self.indexed or self.state is ENDED:
                return False
            self.pull()
            self._read_log()
            self.delivery = delivery
            self.cache.relax(self)
            return True
        self.delivery = delivery
        if before is not Delivery.ON_READ:
            self._expect_bookmark()
            if before is Delivery.CHANGES and self.queue and self.state is not ENDED:
                self.cache.attached(self)
        return True

    def _read_log(self) -> None:
        """From now on read changes from the store's log."""
        if self.state is FED:
            self.move(READING)
        self._cursor = max(self.since, self.cache.feed.revision)

    def keep(self, heartbeat: Change) -> bool:
        """Keeps a heartbeat until the next delivery, in place of an earlier one of the same object.

        Returns False if too many are pending to wait longer.
        """
        queue = self._listed()
        if queue and type(queue[-1].item) is HeartbeatItem and queue[-1].item.key == heartbeat.item.key:
            queue[-1] = heartbeat
        else:
            queue.append(heartbeat)
        return len(queue) < UNREAD_MAX

    def next_us(self) -> Virtual:
        """When the next event was or will be shown; NEVER_US: none is known."""
        self.pull()
        if self.state is ENDED or not self.queue:
            return NEVER_US
        queue = self.queue
        return self.cache.horizon.shown_us(queue.at_us(0) if type(queue) is Runs else queue[0].at_us)

    @property
    def quiet(self) -> bool:
        """True if `take` would return nothing."""
        if self.queue or self._started or self.cache.horizon.timers.now_us() >= self._bookmark_us:
            return False
        log = self.cache.log
        return self.state is not READING or not (log and log[-1].rev > self._cursor)

    def take(self, limit: int = 1000, before_us: int = 0) -> Sequence[WatchEvent]:
        """The events that are visible now, at most `limit`; fewer mean that no more are visible.

        before_us: how long ago they must have been visible
        """
        horizon = self.cache.horizon
        now_us = horizon.timers.now_us()
        if self.state is ENDED or now_us >= self._deadline_us:
            self._close()
            left, self._started = self._started, ()
            return left
        self.unread = self.unread_since_us = 0
        if self.state is READING:
            self.pull()
            if self.ended:  # an unread change was compacted, and no bookmark may pass it
                return []
            queue = self.queue
            if type(queue) is Runs and not self._started:
                seen = queue.until(horizon.reached_us(before_us))[:limit]
                self.queue = queue[len(seen) :]
                newest_us = seen.at_us(-1) if seen else 0
                bookmark = self._bookmark(seen, before_us, newest_us) if len(seen) < limit else None
                return seen if bookmark is None else [*cast(Sequence[WatchEvent], seen), bookmark]
        events: list[WatchEvent] = []
        if self._started:
            events, self._started = [*self._started[:limit]], self._started[limit:]
        newest_us = 0
        if self.queue:
            newest_us = self._take_queued(events, limit, horizon.reached_us(before_us))
        bookmark = self._bookmark(events, before_us, newest_us) if len(events) < limit else None
        if bookmark is not None:
            events.append(bookmark)
        return events

    def _take_queued(self, events: list[WatchEvent], limit: int, reached_us: Virtual) -> int:
        """Appends visible events; returns the commit time of the last, 0 for none."""
        queue, taken, matches, newest_us = self._listed(), 0, self.matches, 0
        # Hundreds of renewals that nothing has read until now.
        if matches is None and len(queue) > 1 and all_renewals(queue):
            taken = bisect_right(queue, reached_us, 0, min(len(queue), limit - len(events)), key=_time_of)
            events += cast(list[WatchEvent], queue[:taken])
            newest_us = queue[taken - 1].at_us if taken else 0
            del queue[:taken]
            return newest_us
        for change in queue:
            if change.at_us > reached_us or len(events) >= limit:
                break
            taken += 1
            event = event_of(change, matches)
            if event is not None:
                events.append(event)
                newest_us = change.at_us
        if taken == len(queue):
            queue.clear()
        else:
            del queue[:taken]
        return newest_us

    @property
    def ended(self) -> bool:
        """True once the watch has ended, by now at its deadline at the latest."""
        if self.state is not ENDED and self.cache.horizon.timers.now_us() >= self._deadline_us:
            self._close()
        return self.state is ENDED

    def observe_end(self, on_end: Callable[[], object]) -> None:
        """Calls `on_end` once when the watch ends."""
        self._on_end = on_end

    def stop(self) -> None:
        """Ends the watch because the client has closed it."""
        self.notify = self.receive = self.look = None
        self._close()

    def end(self) -> None:
        """Ends the watch from the server's side: the stream closes without an error event."""
        if self.state is not ENDED:
            self._send_left()
            self._close()
            notify = self.notify
            # The owner refers to the watch: no reference cycle stays.
            self.notify = self.receive = self.look = None
            if notify is not None:
                notify()

    def _send_left(self) -> None:
        """Deliver unnotified events to the owner, as of the times they were shown; then end the
        stream.
        """
        if self.delivery in WAITING:
            self._deadline_us = NEVER_US
            if self.look is not None:
                self.look()
            elif self.queue and self.notify is not None:
                self.notify()

    def fail(self, error: Obj) -> None:
        """Ends the watch from the server's side, with an ERROR event."""
        if self.state is not ENDED:
            notify = self.notify
            self.notify = None  # restored below, after the error is pending
            self.end()
            self._started = [WatchEvent("ERROR", None, NO_REVISION, error)]
            if notify is not None:
                notify()

    def _close(self) -> None:
        if self.state is not ENDED:
            self._started = ()
            if self.delivery in HUSHED and not self.queue and self.notify is not None:
                bookmark = self._bookmark([], 0, 0)
                self._started = () if bookmark is None else (bookmark,)  # all else is taken
            self.queue = []
            self.move(ENDED)
            self.cache.close(self)
            on_end, self._on_end = self._on_end, None
            if on_end is not None:
                on_end()

    def _timeout(self, _: Any) -> None:
        self.end()

    # --- bookmarks --------------------------------------------------------------------------------

    def _plan_bookmark(self, now_us: Virtual, first: bool = False) -> None:
        """Plan the next bookmark.

        first: True for that of a new watch, which comes if the watch lasts for more than 2 s; after
            another there is none shortly before the end (upstream: sometimes)
        """
        uniform_us = self.cache.horizon.timers.uniform_us
        next_us = now_us + uniform_us(BOOKMARK_LOW_US, BOOKMARK_HIGH_US)
        if next_us > self._deadline_us - LAST_BOOKMARK_HIGH_US:
            last_us = self._deadline_us - uniform_us(LAST_BOOKMARK_LOW_US, LAST_BOOKMARK_HIGH_US)
            latest_us = self._deadline_us - LAST_BOOKMARK_US if first else last_us - LAST_BOOKMARK_HIGH_US
            next_us = last_us if now_us < latest_us else NEVER_US
        self._bookmark_us = next_us

    def _expect_bookmark(self) -> None:
        notifies = self.delivery is Delivery.EVERYTHING and self.notify is not None
        if notifies and self._bookmark_us < NEVER_US:
            self.cache.horizon.timers.call_at(self._bookmark_us, self._bookmark_due)

    def _bookmark_due(self, _: Any) -> None:
        if self.state is not ENDED and self.delivery is Delivery.EVERYTHING and self.notify is not None:
            self.deliver(self.cache.horizon.timers.now_us())

    def _bookmark(
        self, events: Sequence[WatchEvent] | Runs, before_us: int, newest_us: int
    ) -> WatchEvent | None:
        """The newest bookmark that is due, None if `events`, which precede it, reach at least as
        far.

        newest_us: the commit time of the last of these events, 0 if unknown
        """
        horizon = self.cache.horizon
        now_us, due_us = horizon.timers.now_us(), Virtual(-1)
        if self._bookmark_us < self._deadline_us <= now_us - before_us:  # only the last is of use
            last_us = self._deadline_us - horizon.timers.uniform_us(
                LAST_BOOKMARK_LOW_US, LAST_BOOKMARK_HIGH_US
            )
            due_us, self._bookmark_us = max(self._bookmark_us, last_us), NEVER_US
        while self._bookmark_us <= now_us - before_us:
            due_us = self._bookmark_us
            self._plan_bookmark(due_us)
        if due_us < 0:
            return None
        self._expect_bookmark()
        given_us = horizon.reached_us(now_us - due_us)  # negative if the lag is longer
        if newest_us and newest_us > given_us and events[-1].revision > horizon.progress_rev:
            return None  # the usual case of a watch with deliveries: they are newer
        rev = self.cache.revision(now_us - due_us)
        if rev < self.since or (self.queue and self.queue[0].rev <= rev):
            return None  # the cache has restarted since, and has not shown it
        if self.cache.saw_events and (not events or events[-1].revision <= rev):
            return WatchEvent("BOOKMARK", None, rev)
        return None
