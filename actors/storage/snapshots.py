"""Snapshots of a storage: the state of one instant, to which it may be set back later.

Mirrors  etcd 3.5 etcdutl/snapshot/v3_snapshot.go (a restored server has the revision of the
         snapshot; revisions that clients saw after it are given out again).
Differs  the history before the snapshot is not kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sim.api.store import Item
from sim.dataclass import dataclass
from sim.units import Revision


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All objects by their keys as of a revision."""

    rev: Revision
    items: Mapping[str, Item]


def snapshot_of(rev: Revision, items: Iterable[Item]) -> Snapshot:
    """A snapshot with items of its own, since a superseded item may keep a part of itself only."""
    stored = [Item(item.key, item.obj, item.rev, Revision(item.created), item.managed) for item in items]
    return Snapshot(rev, {item.key: item for item in stored})
