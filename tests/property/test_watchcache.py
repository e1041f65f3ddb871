"""A watch cache against a record of all commits: its events under any lag and compaction of
history.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest

from actors.storage import MemoryStore
from sim.api.watch.cache import WatchCache
from sim.api.watch.cache_watch import CacheWatch
from sim.api.watch.horizon import Horizon
from sim.units import MS, SECOND
from tests.unit.sim.api.watch.test_cache import PREFIX, Clock

LAGS_US = (1 * MS, 1 * MS, 50 * MS, 2 * SECOND, 20 * SECOND, 200 * SECOND)
PAUSES_US = ((1, 2 * MS), (1 * MS, 200 * MS), (100 * MS, 3 * SECOND))


class Plane:
    """A storage, and one cache of it that is read now and then."""

    def __init__(self, seed: int) -> None:
        self.draw = Random(seed)
        self.clock = Clock()
        self.store = MemoryStore(self.clock.now_us)
        # no server starts before anything is stored
        self.store.put("//other/0", {"metadata": {}}, None)
        self.clock.us = 1
        self.horizon = Horizon(self.clock, LAGS_US[0], self.store.revision)
        self.cache = WatchCache(self.store, PREFIX, self.horizon)
        self.store.before_compact(self.cache.before_compact)
        self.keys = [f"{PREFIX}a/{number}" for number in range(self.draw.choice((3, 20, 300)))]
        self.commits: list[
            tuple[int, str, int, bool]
        ] = []  # when, what, its revision, whether it is there then
        self.lag_us, self.frozen, self.reached_us = LAGS_US[0], False, -1
        # For each: the number of commits shown before it, and the revisions that it has reported.
        self.watches: list[tuple[CacheWatch, int, list[int]]] = []

    def go_on(self, pause_us: int) -> None:
        self.clock.run_until(self.clock.us + pause_us)
        if not self.frozen:
            self.reached_us = max(self.reached_us, self.clock.us - self.lag_us)

    def write(self) -> None:
        key = self.draw.choice(self.keys)
        gone = self.draw.random() < 0.3 and self.store.get(key) is not None
        if gone:
            self.store.delete(key, None)
        else:
            self.store.put(key, {"metadata": {}}, None)
        self.commits.append((self.clock.us, key, self.store.revision, not gone))

    def disturb(self) -> None:
        if self.draw.random() < 0.6:
            self.lag_us = self.draw.choice(LAGS_US)
            self.horizon.set_lag(self.lag_us)
        else:
            self.frozen = not self.frozen
            self.horizon.freeze(self.frozen)

    def told(self) -> list[int]:
        """The revisions of the commits that the cache shows."""
        return [rev for at_us, _, rev, _ in self.commits if at_us <= self.reached_us]

    def shown(self) -> Mapping[str, int]:
        latest = {key: (rev, there) for at_us, key, rev, there in self.commits if at_us <= self.reached_us}
        return {key: rev for key, (rev, there) in latest.items() if there}

    def look(self) -> None:
        wanted = self.shown()
        assert {item.key: item.rev for item in self.cache.page(PREFIX).items} == wanted
        key = self.draw.choice(self.keys)
        item = self.cache.get(key)
        assert (0 if item is None else item.rev) == wanted.get(key, 0)

    def watch(self) -> None:
        watch, rev = CacheWatch(self.cache, PREFIX), self.cache.revision()
        if self.cache.open(watch, rev) is None:
            self.watches.append((watch, len(self.told()), []))


@pytest.mark.parametrize("seed", [*range(8), 95, 129, 169, 235, 249, 254, 299, 307, 481])
def test_a_cache_shows_what_was_committed_up_to_its_horizon_and_watches_miss_nothing(seed: int) -> None:
    plane = Plane(seed)
    draw = plane.draw
    pauses_us, compacts = draw.choice(PAUSES_US), draw.choice((0.003, 0.02, 0.1))
    for _ in range(1200):
        plane.go_on(draw.randint(*pauses_us))
        chance = draw.random()
        if chance < 0.5:
            plane.write()
        elif chance < 0.6:
            plane.store.put("//other/0", {"metadata": {}}, None)
        elif chance < 0.6 + compacts:
            plane.store.compact(plane.store.revision - draw.choice((0, 0, 3, 30, 200)))
        elif chance < 0.73 and draw.random() < 0.3:
            plane.disturb()
        elif chance < 0.73:
            plane.watch()
        elif chance < 0.78:
            plane.look()
        for watch, _, seen in plane.watches:
            if draw.random() < 0.05:
                seen += [event.revision for event in watch.take()]
    shown = plane.told()
    for watch, before, seen in plane.watches:
        seen += [event.revision for event in watch.take()]
        assert seen == shown[before:]
