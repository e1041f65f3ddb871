"""One watch on a watch cache: what it has not told yet, and when it ends.

Turns changes that a cache gives it, or that it reads from the store's log, into the events of one selection.

Holds: events come in revision order, none twice, none missing between its start and its end; it ends by its deadline, by
`stop`, by the replica's end, or because it was too slow; what is nothing but renewals stays in `Runs` until somebody
wants them one by one.

Mirrors  kubernetes v1.25 apiserver pkg/storage/cacher/cache_watcher.go, and the bookmarks of cacher.go.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from sim.api.store import Beaten, Change, Compacted, Page
from sim.api.types import Obj, WatchEvent
from sim.api.watch.columnar_renewals import Runs, runs_of
from sim.api.watch.events import event_of
from sim.api.watch.horizon import NEVER_US
from sim.api.watch.lease_renewals import all_renewals
from sim.units import MS, SECOND

if TYPE_CHECKING:
    from sim.api.watch.cache import WatchCache

# cacher.go: a watch that has this many events unread when its 0.1 s budget ends is closed.
UNREAD_MAX = 1_000
UNREAD_BUDGET_US = 100 * MS
GIVEN_MAX = 1_000  # events given at once
# Bookmarks come 59 to 62.3 s apart, and about 2 s before the deadline (cacher.go, bookmarkFrequency and its jitter).
BOOKMARK_LOW_US, BOOKMARK_HIGH_US = 59 * SECOND, 62_300 * MS
LAST_BOOKMARK_LOW_US, LAST_BOOKMARK_HIGH_US = 800 * MS, 2_800 * MS


def _time_of(change: Change) -> int:
    return change.at_us


class CacheWatch:
    """A watch on a cache (`sim.api.types.Watch`).

    prefix: of the keys it wants; key, value: the one object or index value it wants, when it can be indexed (by a value
    only in all namespaces: an index knows none)
    matches: label and field selector in one predicate (None: everything)
    """

    def __init__(
        self,
        cache: WatchCache,
        prefix: str,
        matches: Callable[[Obj], bool] | None = None,
        *,
        key: str = "",
        value: str = "",
        deadline_us: int = NEVER_US,
        bookmarks: bool = False,
    ) -> None:
        self.cache = cache
        self.prefix = prefix
        self.whole = prefix == cache.prefix
        self.matches = matches
        self.key = key
        self.value = value if self.whole else ""
        self.indexed = bool(key or self.value)
        self.fed = self.indexed  # given each change as it is committed; else it reads the log
        self.client = ""  # the user who holds it, told by the server
        self.queue: Sequence[Change] = []  # mostly empty, by the thousand: a deque takes 600 bytes even then
        self.notify: Callable[[], None] | None = None
        self._give: Callable[[Sequence[WatchEvent]], bool] | None = None
        self.relaxed = False  # the owner is told of the end, and else asks
        self.look: Callable[[], None] | None = (
            None  # has the owner ask, before what it has not asked for is mixed up with more
        )
        self.hushed = False  # the owner is not told of bookmarks
        self.deaf = False  # nor of states in which only times of hearing are new
        self.unread = 0
        self.first_us = self.last_us = 0
        self._cursor = 0
        self._since = 0  # the revision after which it started, which the cache may not show yet
        self._started: Sequence[WatchEvent] = ()
        self._ended = False
        self._told_us = 0
        self._deadline_us = deadline_us
        self._bookmark_us = NEVER_US
        if bookmarks:
            self._plan_bookmark(cache.horizon.timers.now_us())

    # --- for the cache ------------------------------------------------------------------------------------

    def start(self, rev: int, changes: Sequence[Change]) -> None:
        self._queue(changes)
        self._since = rev
        self._cursor = max(rev, self.cache.feed.revision)

    def start_with(self, page: Page, later: Sequence[Change]) -> None:
        matches = self.matches
        self._started = [
            WatchEvent("ADDED", item, item.rev) for item in page.items if matches is None or matches(item.obj)
        ]
        self.start(page.rev, [change for change in later if change.item.key.startswith(self.prefix)])

    def pull(self) -> None:
        """Take new changes from the store's log, unless they are given to it."""
        if not self.fed and not self._ended:
            feed = self.cache.feed
            if feed.revision > self._cursor:
                found = feed.events(self._cursor, self.prefix)
                if isinstance(found, Compacted):
                    self.end()
                    return
                self._queue(found)
                self._cursor = feed.revision

    def _queue(self, found: Sequence[Change]) -> None:
        """Add to what waits, which stays as it is kept as long as it is all renewals."""
        queue = self.queue
        if self.matches is None and Runs in (type(queue), type(found)):
            before, after = runs_of(queue), runs_of(found)
            if before is not None and after is not None:
                self.queue = before.plus(after) if queue else after
                return
        if found:
            self._listed().extend(found)

    def _listed(self) -> list[Change]:
        """What waits, one by one."""
        queue = self.queue
        if type(queue) is not list:
            queue = self.queue = list(queue)
        return queue

    def pop(self, now_us: int, reached_us: int) -> Change | None:
        """The one change that waits, if it is visible and all there is to say, and there is somebody to give it to."""
        queue = self.queue
        if len(queue) != 1 or self._give is None or self._started or not self.fed:
            return None
        if now_us >= self._bookmark_us or now_us >= self._deadline_us or queue[0].at_us > reached_us:
            return None
        return queue.pop() if type(queue) is list else self._listed().pop()

    def give(self, event: WatchEvent | None) -> None:
        """What `pop` has answered, as it is seen here.  None: nothing of it is."""
        self.unread = self._told_us = 0
        if event is not None and self._give is not None and not self._give([event]):
            self._give = None

    def tell(self, now_us: int) -> None:
        """Notify the owner, or give; one that has not read for too long, with too much to read, is cut."""
        give = self._give
        if give is not None:
            batch = self.take(GIVEN_MAX)
            if batch and not give(batch):
                self._give = None
            if len(batch) < GIVEN_MAX and not self._ended:
                return
        late = self.unread > UNREAD_MAX and self._told_us and now_us - self._told_us > UNREAD_BUDGET_US
        if late and not self.cache.direct:  # the storage's own watches wait (etcd3/watcher.go, sendEvent)
            self.end()
            return
        self._told_us = self._told_us or now_us
        if self.notify is not None:
            self.notify()

    @property
    def waiting_us(self) -> int | None:
        """Commit time of the first thing to tell at the start; None if there is nothing."""
        if self._started:
            return 0
        return self.queue[0].at_us if self.queue else None

    # --- for the owner ------------------------------------------------------------------------------------

    def attach(self, notify: Callable[[], None]) -> None:
        self.pull()
        timers = self.cache.horizon.timers
        if self._deadline_us < NEVER_US and self.notify is None:
            timers.call_at(self._deadline_us, self._timeout)
        self.notify = notify
        self.relaxed = False
        self._expect_bookmark()
        self.cache.attached(self)

    def give_to(self, give: Callable[[Sequence[WatchEvent]], bool]) -> None:
        """Give what there is without being asked, until the owner answers that it has no room: then notify."""
        self._give = give

    def hush(self, hushed: bool = True) -> None:
        """Bookmarks come with what else there is to take, or at the end: nobody is told of one alone."""
        self.hushed = hushed
        self._expect_bookmark()

    def deafen(self, deaf: bool = True) -> None:
        """States in which only times of hearing are new come with what else there is, or when the owner asks, or at the end."""
        if deaf is not self.deaf:
            self.deaf = deaf
            if not deaf and self.queue and not self._ended:
                self.cache.attached(self)

    def keep(self, beat: Change) -> bool:
        """A beat that is told with what else there is, the last of an object in a row; whether that much may wait."""
        queue = self._listed()
        if queue and type(queue[-1].item) is Beaten and queue[-1].item.key == beat.item.key:
            queue[-1] = beat
        else:
            queue.append(beat)
        return len(queue) < UNREAD_MAX

    def relax(self) -> bool:
        """The owner will ask for events (`attach` takes that back); False for an indexed watch, which stays as it is."""
        if self.indexed or self._ended:
            return False
        self.pull()
        self.relaxed, self.fed, self._cursor = True, False, self.cache.feed.revision
        self.cache.relax(self)
        return True

    def next_us(self) -> int:
        """When the next event was or will be shown; NEVER_US: none is known."""
        self.pull()
        if self._ended or not self.queue:
            return NEVER_US
        queue = self.queue
        return self.cache.horizon.shown_us(queue.at_us(0) if type(queue) is Runs else queue[0].at_us)

    @property
    def quiet(self) -> bool:
        """True if `take` has surely nothing to give."""
        if self.queue or self._started or self.cache.horizon.timers.now_us() >= self._bookmark_us:
            return False
        return self.fed or not self.cache.feed.changed_since(self._cursor, self.cache.prefix)

    def take(self, limit: int = 1000, before_us: int = 0) -> Sequence[WatchEvent]:
        """Events visible by now (or so long before), at most `limit`; fewer means that there are no more for now."""
        horizon = self.cache.horizon
        now_us = horizon.timers.now_us()
        if self._ended or now_us >= self._deadline_us:
            self._close()
            left, self._started = self._started, ()
            return left
        self.unread = self._told_us = 0
        if not self.fed:
            self.pull()
            if self.ended:  # what it has not read is gone: no bookmark may pass it
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

    def _take_queued(self, events: list[WatchEvent], limit: int, reached_us: int) -> int:
        """Answers when the last of these events was committed; 0: there is none."""
        queue, taken, matches, newest_us = self._listed(), 0, self.matches, 0
        # Hundreds that nobody has asked for until now.
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
        if not self._ended and self.cache.horizon.timers.now_us() >= self._deadline_us:
            self._close()
        return self._ended

    def stop(self) -> None:
        """The client has gone."""
        self.notify = self._give = None
        self._close()

    def end(self) -> None:
        """The server ends it: the stream closes without an error event."""
        if not self._ended:
            self._send_left()
            self._close()
            notify = self.notify
            self.notify = self._give = None  # its owner holds it: no cycle is left behind
            if notify is not None:
                notify()

    def _send_left(self) -> None:
        """The owner takes what was shown and it was not told of, as of when it was shown; then the stream ends."""
        if self.relaxed or self.deaf:
            self._deadline_us = NEVER_US
            if self.look is not None:
                self.look()
            elif self.queue and self.notify is not None:
                self.notify()

    def fail(self, error: Obj) -> None:
        """The server ends it because of an error, which it tells."""
        if not self._ended:
            notify = self.notify
            self.notify = None  # it takes what is left when all is said
            self.end()
            self._started = [WatchEvent("ERROR", None, 0, error)]
            if notify is not None:
                notify()

    def _close(self) -> None:
        if not self._ended:
            self._started = ()
            if self.hushed and not self.relaxed and not self.queue and self.notify is not None:
                bookmark = self._bookmark([], 0, 0)
                self._started = () if bookmark is None else (bookmark,)  # its owner has everything else
            self.queue = []
            self._ended = True
            self.cache.close(self)

    def _timeout(self, _: Any) -> None:
        self.end()

    # --- bookmarks ----------------------------------------------------------------------------------------

    def _plan_bookmark(self, now_us: int) -> None:
        uniform_us = self.cache.horizon.timers.uniform_us
        next_us = now_us + uniform_us(BOOKMARK_LOW_US, BOOKMARK_HIGH_US)
        if next_us > self._deadline_us - LAST_BOOKMARK_HIGH_US:
            last_us = self._deadline_us - uniform_us(LAST_BOOKMARK_LOW_US, LAST_BOOKMARK_HIGH_US)
            next_us = last_us if last_us > now_us + LAST_BOOKMARK_HIGH_US else NEVER_US
        self._bookmark_us = next_us

    def _expect_bookmark(self) -> None:
        if self._bookmark_us < NEVER_US and self.notify is not None and not self.relaxed and not self.hushed:
            self.cache.horizon.timers.call_at(self._bookmark_us, self._bookmark_due)

    def _bookmark_due(self, _: Any) -> None:
        if not self._ended and not self.relaxed and not self.hushed and self.notify is not None:
            self.tell(self.cache.horizon.timers.now_us())

    def _bookmark(
        self, events: Sequence[WatchEvent] | Runs, before_us: int, newest_us: int
    ) -> WatchEvent | None:
        """The newest bookmark that is due, unless these events, which come before it, say more.

        newest_us: when the last of them was committed; 0: not known
        """
        horizon = self.cache.horizon
        now_us, due_us = horizon.timers.now_us(), -1
        if self._bookmark_us < self._deadline_us <= now_us - before_us:  # the last says more than all before
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
        given_us = horizon.reached_us(now_us - due_us)  # below 0 where the lag is longer
        if newest_us and newest_us > given_us and events[-1].revision > horizon.progress_rev:
            return None  # nearly always, where somebody is given events as they come: they are newer
        rev = self.cache.revision(now_us - due_us)
        if rev < self._since or (self.queue and self.queue[0].rev <= rev):
            return None  # not told yet: the cache has begun anew since
        if self.cache.saw_events and (not events or events[-1].revision <= rev):
            return WatchEvent("BOOKMARK", None, rev)
        return None
