"""The events and notifications of a watch on a cache."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

import pytest

from actors.storage import MemoryStore
from sim.api.watch.cache import WatchCache
from sim.api.watch.cache_watch import CacheWatch
from sim.api.watch.delivery import Delivery
from sim.api.watch.horizon import Horizon
from sim.units import SECOND, Revision

LAG_US = 500
PREFIX = "//pods/"


class Clock:
    def __init__(self) -> None:
        self.us = 0
        self._calls: list[tuple[int, int, Callable[[Any], None], Any]] = []
        self._count = 0

    def now_us(self) -> int:
        return self.us

    def call_at(self, at_us: int, fn: Callable[[Any], None], arg: Any = None) -> None:
        self._count += 1
        heappush(self._calls, (max(at_us, self.us), self._count, fn, arg))

    def uniform_us(self, low_us: int, high_us: int) -> int:
        return low_us

    def run_until(self, at_us: int) -> None:
        while self._calls and self._calls[0][0] <= at_us:
            self.us, _, fn, arg = heappop(self._calls)
            fn(arg)
        self.us = at_us


def test_watch_attached_late_is_notified_of_events_that_become_visible() -> None:
    clock = Clock()
    store = MemoryStore(clock.now_us)
    store.put(f"{PREFIX}a/0", {"metadata": {}}, 0)
    watch = CacheWatch(cache := WatchCache(store, PREFIX, Horizon(clock, LAG_US, 0)), PREFIX)
    assert cache.open(watch, store.revision) is None
    for number, at_us in enumerate((1_000, 1_600)):
        clock.run_until(at_us)
        store.put(f"{PREFIX}a/{number + 1}", {"metadata": {}}, 0)
    clock.run_until(1_700)
    taken: list[tuple[int, int]] = []

    def take() -> None:
        taken.extend((clock.us, event.revision) for event in watch.take())

    watch.attach(take)
    take()
    clock.run_until(10_000)
    assert taken == [(1_700, 2), (2_100, 3)]


def cache_of(store: MemoryStore, clock: Clock) -> WatchCache:
    """A cache that has shown three objects."""
    for number in range(3):
        store.put(f"{PREFIX}a/{number}", {"metadata": {}}, 0)
    cache = WatchCache(store, PREFIX, Horizon(clock, LAG_US, 0))
    clock.run_until(1_000)
    assert cache.revision() == 3
    return cache


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("key", ["", f"{PREFIX}a/0"])
def test_watch_from_a_later_revision_gets_no_event_up_to_it(key: str, lazy: bool) -> None:
    clock = Clock()
    cache = cache_of(store := MemoryStore(clock.now_us), clock)
    watch = CacheWatch(cache, PREFIX, key=key)
    assert cache.open(watch, Revision(5)) is None
    taken: list[int] = []
    if lazy and not key:
        assert watch.choose(Delivery.ON_READ)
    else:
        watch.attach(lambda: taken.extend(event.revision for event in watch.take()))
    for number in range(4):
        clock.run_until(2_000 + 1_000 * number)
        store.put(f"{PREFIX}a/0", {"metadata": {}}, None)
    clock.run_until(10_000)
    assert [*taken, *(event.revision for event in watch.take())] == [6, 7]
    watch.stop()
    assert cache.watched == 0


def test_revision_of_a_notification_stays_though_older_events_are_in_the_window() -> None:
    clock = Clock()
    cache = cache_of(store := MemoryStore(clock.now_us), clock)
    cache.horizon.show_progress(Revision(7))
    assert [cache.revision(), cache.revision()] == [7, 7]
    for number in range(5):
        store.put(f"{PREFIX}a/{number}", {"metadata": {}}, None)
    clock.run_until(2_000)
    assert cache.revision() == 8


def test_store_that_goes_back_is_an_error() -> None:
    clock = Clock()
    cache = cache_of(store := MemoryStore(clock.now_us), clock)
    store._rev -= 1
    with pytest.raises(AssertionError, match="the revision of the store goes back"):
        cache.revision()


def test_event_that_is_hidden_again_is_an_error() -> None:
    clock = Clock()
    cache = cache_of(MemoryStore(clock.now_us), clock)
    cache.horizon._reached_us = clock.us = -1
    with pytest.raises(AssertionError, match="is hidden again"):
        cache.revision()


def test_event_from_before_the_start_of_a_watch_is_an_error() -> None:
    clock = Clock()
    cache = cache_of(store := MemoryStore(clock.now_us), clock)
    with pytest.raises(AssertionError, match="from before its start"):
        CacheWatch(cache, PREFIX).start(2, store.events(1, PREFIX))


def test_watch_by_a_value_is_notified_of_objects_that_get_it_or_lose_it() -> None:
    clock = Clock()
    store = MemoryStore(clock.now_us)
    horizon = Horizon(clock, LAG_US, 0)
    cache = WatchCache(store, PREFIX, horizon, lambda spec: (spec or {}).get("on", ""))
    watch = CacheWatch(cache, PREFIX, lambda obj: obj["spec"]["on"] == "n", value="n")
    store.put(key := f"{PREFIX}a/0", {"metadata": {}, "spec": {"on": "m"}}, 0)
    clock.run_until(1_000)
    assert cache.open(watch, store.revision) is None
    told: list[tuple[int, str]] = []
    watch.attach(lambda: told.extend((clock.us, event.type) for event in watch.take()))
    for number, on in enumerate(("n", "m", "o"), 2):
        clock.run_until(1_000 * number)
        store.put(key, {"metadata": {}, "spec": {"on": on}}, None)
    clock.run_until(10_000)
    assert told == [(2_500, "ADDED"), (3_500, "DELETED")]


@pytest.mark.parametrize("on", ["n", "m"])
@pytest.mark.parametrize("chosen", [{}, {"key": f"{PREFIX}a/0"}, {"value": "n"}])
def test_watch_is_notified_beside_one_that_starts_later(chosen: dict[str, str], on: str) -> None:
    clock = Clock()
    store = MemoryStore(clock.now_us)
    store.put(key := f"{PREFIX}a/0", {"metadata": {}, "spec": {"on": "m" if on == "n" else "n"}}, 0)
    horizon = Horizon(clock, LAG_US, 0)
    cache = WatchCache(store, PREFIX, horizon, lambda spec: (spec or {}).get("on", ""))
    clock.run_until(1_000)
    told: list[int] = []
    for since in (1, 5):
        watch = CacheWatch(cache, PREFIX, **chosen)
        assert cache.open(watch, Revision(since)) is None
        watch.attach(lambda watch=watch: told.extend(event.revision for event in watch.take()))
    store.put(key, {"metadata": {}, "spec": {"on": on}}, None)
    clock.run_until(10_000)
    assert told == [2]


@pytest.mark.parametrize(
    ("put_us", "told"), [(58 * SECOND, ["MODIFIED", "BOOKMARK"]), (60 * SECOND, ["MODIFIED"])]
)
def test_a_bookmark_follows_what_was_seen_before_it_was_due_and_not_what_came_after(
    put_us: int, told: list[str]
) -> None:
    clock = Clock()
    store = MemoryStore(clock.now_us)
    store.put(key := f"{PREFIX}a/0", {"metadata": {}}, 0)
    watch = CacheWatch(
        cache := WatchCache(store, PREFIX, Horizon(clock, LAG_US, 0)), PREFIX, key=key, bookmarks=True
    )
    assert cache.open(watch, store.revision) is None
    watch.attach(lambda: None)
    watch.choose(Delivery.EVENTS)
    clock.run_until(put_us)
    store.put(key, {"metadata": {}}, 1)
    clock.run_until(61 * SECOND)
    assert [event.type for event in watch.take()] == told


def test_a_watch_on_a_cache_far_behind_ends_with_nothing_more_than_what_it_showed() -> None:
    clock = Clock()
    store = MemoryStore(clock.now_us)
    store.put(key := f"{PREFIX}a/0", {"metadata": {}}, 0)
    horizon = Horizon(clock, LAG_US, 0)
    watch = CacheWatch(cache := WatchCache(store, PREFIX, horizon), PREFIX, key=key, bookmarks=True)
    assert cache.open(watch, store.revision) is None
    watch.attach(lambda: None)
    watch.choose(Delivery.EVENTS)
    horizon.set_lag(100 * SECOND)
    clock.run_until(70 * SECOND)  # a bookmark is due for ten seconds
    watch.end()
    assert watch.ended and [event.type for event in watch.take()] in ([], ["BOOKMARK"])


@pytest.mark.parametrize("deaf", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_no_bookmark_passes_undelivered_events_when_the_cache_restarts(deaf: bool, whole: bool) -> None:
    """Its reader would go on behind an event that it has never seen."""
    clock = Clock()
    store = MemoryStore(clock.now_us)
    store.put(key := f"{PREFIX}a/0", {"metadata": {}}, 0)
    horizon = Horizon(clock, LAG_US, 0)
    cache = WatchCache(store, PREFIX, horizon)
    watch = CacheWatch(cache, PREFIX, key="" if whole else key, bookmarks=True)
    assert cache.open(watch, store.revision) is None
    told: list[tuple[str, int]] = []

    def take() -> None:
        told.extend((event.type, event.revision) for event in watch.take())

    watch.attach(take)
    watch.choose(Delivery.CHANGES if deaf else Delivery.EVENTS)
    clock.run_until(SECOND)
    horizon.freeze(True)
    store.put(key, {"metadata": {}}, 1)
    clock.run_until(70 * SECOND)  # a bookmark is due for ten seconds
    cache.restart()
    watch.end()
    take()
    assert watch.ended and all(revision < 2 for _, revision in told)
