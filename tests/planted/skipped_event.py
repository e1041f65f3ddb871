"""A watch that misses an event at compaction.

A watch that had fallen behind the revision of a compaction continued after it, without the events
in between, where it has to end so that its client lists again.

Thread   https://github.com/etcd-io/etcd/issues/18089
Mended   etcd v3.5.15 and v3.4.34
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from actors.apiserver.caches.watch_caches import Caches
from sim.api.watch.cache import WatchCache
from sim.units import Revision
from tests.planted.planting import Planted, replaced, together

_before_compact = WatchCache.before_compact


def _lose(cache: WatchCache, rev: Revision) -> None:
    """A cache that is cut off from the storage does not get what is compacted now."""
    _before_compact(cache, rev)
    if cache.horizon.frozen:
        for watch in cache.watches():
            watch.queue = []


def _go_on(caches: Caches) -> None:
    """Continue with what the storage still has, without a new list."""


def _plant() -> AbstractContextManager[None]:
    return together(
        replaced(WatchCache, "before_compact", _lose),
        replaced(Caches, "go_on", _go_on),
    )


BUG = Planted(
    name="skipped_event",
    thread="https://github.com/etcd-io/etcd/issues/18089",
    mended="etcd v3.5.15",
    plant=_plant,
    story="""
- {at: 55s, name: behind, diverge: {apiServer: apiserver-0}, for: 20s}
- {at: 70s, name: compaction, compact: {keep: 0s}}
""",
)
