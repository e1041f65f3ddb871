"""The event that a change of the store is for a watch of all objects or of a selection.

Holds: an object that enters a selection is ADDED; one that leaves it is DELETED, with its last
selected state and the revision of the change.

Mirrors  kubernetes v1.25 apiserver pkg/storage/cacher/cache_watcher.go (convertToWatchEvent).
"""

from __future__ import annotations

from collections.abc import Callable

from sim.api.store import Change, Item
from sim.api.types import EventType, Obj, WatchEvent


def event_of(change: Change, matches: Callable[[Obj], bool] | None) -> WatchEvent | None:
    """The event of a change, None if it concerns no selected object.

    matches: the selection, None for all objects
    """
    item = change.item
    if matches is None:
        kind: EventType = "DELETED" if change.deleted else "MODIFIED" if item.created != item.rev else "ADDED"
        return WatchEvent(kind, item, change.rev, None, change.cause)
    prev = change.prev
    inside = not change.deleted and matches(item.obj)
    before = prev is not None and matches(prev.obj)
    if inside:
        return WatchEvent("MODIFIED" if before else "ADDED", item, change.rev, None, change.cause)
    if not before:
        return None
    if not change.deleted:
        assert prev is not None
        metadata = {**prev.obj["metadata"], "resourceVersion": str(change.rev)}
        item = Item(item.key, {**prev.obj, "metadata": metadata}, change.rev, prev.created, prev.managed)
    return WatchEvent("DELETED", item, change.rev, None, change.cause)
