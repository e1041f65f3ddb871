"""The objects of one resource, and their history.

Turns keys and changes into what reads need: keys in order, changes after a revision.

Holds: a log is sorted by revision; a `Run` of renewals in it is expanded change by change for
readers that do not support runs; in a bucket with a `course`, the items are up to date for the keys
that were brought up to date since.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from actors.storage.compact.items import Packer
from actors.storage.postings import KEPT_MAX, Postings
from sim.api.store import Change, Item, Only
from sim.api.watch.columnar_renewals import Course, Run, spread
from sim.units import NO_REVISION, Revision, Virtual

Subscriber = Callable[[Change], None]
DEAD_MAX = 1_000  # deleted keys that may wait in the key list, beyond a quarter of the live ones
EVER = Revision(1 << 62)  # as a revision: the present
_REV, _TIME = attrgetter("rev"), attrgetter("at_us")


class Log(list[Any]):
    """Changes, renewals and runs of renewals, in the order of revisions."""

    __slots__ = ()

    def since(self, rev: Revision) -> list[Any]:
        """The entries after a revision, as runs where they are stored as runs."""
        if not self or self[-1].rev <= rev:
            return []
        result = self[bisect_right(self, rev, key=_REV) :]
        if type(result[0]) is Run and result[0].first <= rev:
            result[0] = result[0].after(rev)
        return result

    def forget(self, rev: Revision) -> list[Any]:
        """Remove the entries up to a revision, and return them."""
        count = bisect_right(self, rev, key=_REV)
        gone = self[:count]
        del self[:count]
        if self and type(self[0]) is Run and self[0].first <= rev:
            self[0] = self[0].after(rev)
        return gone

    def reached(self, at_us: Virtual) -> Revision:
        """The newest revision in the log that was committed by then; 0 if there is none."""
        count = bisect_right(self, at_us, key=_TIME)
        if not count:
            return NO_REVISION
        last = self[count - 1]
        if type(last) is Run:
            return last.first + last.visible(at_us) - last.lo - 1
        rev: Revision = last.rev
        return rev


class Bucket:
    """The objects of one resource, their keys in order, and their part of the log.

    packer: creates the items, if they are kept in a compact form
    course: state of columnar renewals, if the resource has them
    leave: called with a key that is written or deleted outside of columnar renewals
    subscription: replaced by a new object when subscribers are added or removed
    """

    __slots__ = (
        "_appended", "_dead", "_keys", "_postings", "course", "items", "leave", "log", "packer", "prefix", "subscribers", "subscription",
        "uninterested",
    )  # fmt: skip

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.items: dict[str, Item] = {}
        self.log = Log()
        self.packer: Packer | None = None
        self.course: Course | None = None
        self.leave: Callable[[str], None] | None = None
        self.subscribers: list[tuple[str, Subscriber]] = []
        # Subscribers that need no notification of renewals.
        self.uninterested: list[Subscriber] = []
        self.subscription = object()
        self._keys: list[str] | None = None  # None: the next reader sorts them
        self._appended = False
        self._postings: dict[str, Postings] = {}  # by what they show, the last used last
        self._dead: dict[str, None] = {}  # keys in `_keys` with a deleted object

    def add_key(self, key: str) -> None:
        """Add the key of a new object."""
        if key in self._dead:
            del self._dead[key]
        elif (keys := self._keys) is not None:
            self._appended = self._appended or bool(keys and keys[-1] > key)
            keys.append(key)

    def drop_key(self, key: str) -> None:
        """Remove the key of a deleted object, in bulk if there are many."""
        if self._keys is None:
            return
        self._dead[key] = None
        if len(self._dead) > DEAD_MAX + len(self.items) // 4:
            self._keys, self._dead = None, {}

    def keys(self) -> list[str]:
        """All keys in order; the caller must not change the list."""
        keys = self._keys
        if keys is None:
            keys, self._appended = sorted(self.items), False
        elif self._dead:
            dead, self._dead = self._dead, {}
            keys = [key for key in keys if key not in dead]
        if self._appended:
            keys.sort()  # nearly sorted: takes linear time
            self._appended = False
        self._keys = keys
        return keys

    def bring(self, key: str) -> None:
        """Bring one object up to date with columnar renewals."""
        entry = self.items.get(key)
        if self.course is not None and entry is not None:
            newest = self.course.newest(key, EVER)
            if newest is not None and newest.rev > entry.rev:
                self.items[key] = newest

    def bring_all(self) -> None:
        """Bring all objects up to date with columnar renewals."""
        for key in () if self.course is None else self.course.rows:
            self.bring(key)

    def selected(self, only: Only, floor: Revision, now: Revision) -> list[str]:
        """The keys of the present objects with a value, in order.

        floor: the oldest revision after which the log is whole; now: the present one
        """
        result = self._postings.pop(only.name, None)
        if result is None or result.rev < floor:
            result = Postings(only.read, self.items, now)
        elif later := self.log.since(result.rev):
            result.follow({change.item.key for change in spread(later)}, self.items, now)
        if len(self._postings) >= KEPT_MAX:
            del self._postings[next(iter(self._postings))]
        self._postings[only.name] = result
        return result.keys(only)

    def restore(self, wanted: dict[str, Item]) -> list[tuple[Item | None, Item | None]]:
        """Hold these items instead, without history; returns each new item (None: deleted) with the
        one before it (None: created), by key.

        No columnar renewals are under way.
        """
        differences: list[tuple[Item | None, Item | None]] = []
        for key in sorted({**self.items, **wanted}):
            prev, item = self.items.get(key), wanted.get(key)
            if item is None:
                del self.items[key]
            elif prev is None or prev.rev != item.rev:
                if self.packer is not None:
                    item = self.packer.item(key, item.obj, item.rev, Revision(item.created), item.managed)
                self.items[key] = item
            else:
                continue
            differences.append((item, prev))
        self.log.clear()
        self._keys, self._appended, self._dead = None, False, {}
        self._postings.clear()
        self.subscription = object()
        if self.course is not None:
            self.course.clear()
        return differences

    def before(self, rev: Revision) -> dict[str, Item] | None:
        """The items as of a revision; None if they are the present ones."""
        later = self.log.since(rev)
        if not later:
            return None
        past = dict(self.items)
        for change in reversed(spread(later)):
            if change.prev is None:
                past.pop(change.item.key, None)
            else:
                past[change.item.key] = change.prev
        return past


def bucket_of(key: str) -> str:
    """The resource part of a key or prefix: "/apps/replicasets/default/web" ->
    "/apps/replicasets/".
    """
    return key[: key.index("/", key.index("/", 1) + 1) + 1]
