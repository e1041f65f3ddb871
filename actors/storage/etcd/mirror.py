"""The store in memory that follows a real etcd.

Turns events of etcd's watch, and lists of all its keys, into changes of a store with etcd's
revisions; direct writes, which an API server makes at its start, into wishes for etcd.

Holds: the state is that of one revision of etcd, all keys together; a revision never goes back;
after a gap in the watch the history before it cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from actors.storage.memory import MemoryStore
from sim.api.store import Delete, Item, Managed, Mismatch, Put
from sim.units import Revision, Virtual

Row = tuple[str, Item | None]  # a key, and its object, or None if it has been deleted


class Mirror(MemoryStore):
    """A store that etcd's watch feeds.

    wishes: direct writes that have not been sent to etcd
    """

    def __init__(self, now_us: Callable[[], Virtual]) -> None:
        super().__init__(now_us)
        self.wishes: list[Put | Delete] = []

    def put(
        self,
        key: str,
        obj: dict[str, Any],
        expect: int | None,
        managed: tuple[Managed, ...] = (),
        cause: int = 0,
    ) -> Item | Mismatch:
        """Wish for a write."""
        self.wishes.append(Put(key, obj, expect, managed, cause))
        return Item(key, obj, self.revision, self.revision, managed)

    def delete(self, key: str, expect: int | None, cause: int = 0) -> Item | Mismatch:
        """Wish for a deletion."""
        result = self.get(key)
        if result is None:
            return Mismatch(key, None)
        self.wishes.append(Delete(key, expect, cause))
        return result

    def feed(self, rev: Revision, rows: Iterable[Row]) -> None:
        """Take the changes of one revision."""
        now_us = self._now_us()
        for key, item in rows:
            note = 0 if self.note is None else self.note(key, rev, 0)
            if item is not None:
                item.cause = note
                self.take(item, now_us, cause=note)
            elif (last := self.get(key)) is not None:
                self.take(last.restamped(rev), now_us, deleted=True, cause=note)
        self.advance(rev)

    def advance(self, rev: Revision) -> None:
        """Follow etcd to a revision without changes of objects."""
        self._rev = max(self._rev, rev)

    def replace(self, items: Sequence[Item], rev: Revision) -> None:
        """Take the state of etcd at a revision, after a gap or at the start."""
        present = {item.key for item in items}
        entry = {item.key: item for item in self.state_at(self.revision)}
        changed = [item for item in items if item.key not in entry or entry[item.key].rev != item.rev]
        for item in sorted(changed, key=lambda item: item.rev):
            was = entry.get(item.key)
            if was is not None and was.created != item.created:  # another object with its name
                self.feed(max(self.revision, item.created), [(item.key, None)])
            self.feed(item.rev, [(item.key, item)])
        self.feed(rev, [(key, None) for key in entry if key not in present])
        self.compact(rev)
