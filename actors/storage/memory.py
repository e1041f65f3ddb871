"""The default store: everything in this process's memory, answers at once.

Turns operations (`sim.machinery.store.Op`) into answers, and commits into one log.  Objects live in buckets,
one per resource; a bucket keeps its keys sorted lazily (a create appends, a range sorts what was appended)
and its own part of the log, so that a write costs the same in a cluster of any size and a read of one
resource never walks another's history.

Holds: what `sim.machinery.store` promises (tests/contract holds every store to it); the log is contiguous
from `floor + 1` to `revision`; a bucket's log is sorted by revision; subscribers of a resource are called in
revision order, after the write is visible.

Mirrors  etcd mvcc semantics as kubernetes v1.25 apiserver pkg/storage/etcd3 relies on them.
Differs  a deleted key is forgotten at once (its last state lives in the log); no leases: event TTL is the
         API server's business here.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from typing import Any

from actors.storage.packed import YOUNG_MAX, Packer, packed
from sim.machinery.renewal import Line, Renewal
from sim.machinery.store import (
    Answer,
    Beaten,
    Change,
    Compacted,
    FutureRevision,
    Get,
    Item,
    Managed,
    Mismatch,
    Op,
    Page,
    Put,
    Range,
)

Subscriber = Callable[[Change], None]
DEAD_MAX = 1_000  # deleted keys that wait to be taken out, beyond as many as there are living ones


def bucket_of(key: str) -> str:
    """The resource part of a key or prefix: "/apps/replicasets/default/web" -> "/apps/replicasets/"."""
    return key[: key.index("/", key.index("/", 1) + 1) + 1]


def _time_of(change: Change) -> int:
    return change.at_us


def _rev_of(change: Change) -> int:
    return change.rev


class Bucket:
    """The objects of one resource, their keys in order, and their part of the log."""

    __slots__ = ("_appended", "_dead", "_keys", "heard", "items", "log", "packer", "prefix", "subscribers")

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.items: dict[str, Item] = {}
        self.log: list[Change] = []
        self.packer: Packer | None = None  # makes the items, if they are kept in a compact form
        self.subscribers: list[tuple[str, Subscriber]] = []
        self.heard = object()  # another one when subscribers come or go
        self._keys: list[str] = []
        self._appended = False
        self._dead: dict[str, None] = {}  # keys still in `_keys` whose objects are gone

    def add_key(self, key: str) -> None:
        if key in self._dead:
            del self._dead[key]
            return
        self._appended = self._appended or bool(self._keys and self._keys[-1] > key)
        self._keys.append(key)

    def drop_key(self, key: str) -> None:
        self._dead[key] = None
        if len(self._dead) > len(self.items) + DEAD_MAX:
            self.keys()

    def keys(self) -> list[str]:
        """All keys in order; the caller must not change the list."""
        if self._dead:
            dead = self._dead
            self._keys = [key for key in self._keys if key not in dead]
            self._dead = {}
        if self._appended:
            self._keys.sort()  # nearly sorted: linear
            self._appended = False
        return self._keys

    def since(self, rev: int) -> int:
        """Index in the log of the first change after `rev`."""
        log = self.log
        if not log or log[-1].rev <= rev:
            return len(log)
        return bisect_right(log, rev, key=_rev_of)


class MemoryStore:
    """A store in memory.  `now_us` reads virtual time for the log."""

    def __init__(self, now_us: Callable[[], int]) -> None:
        self._now_us = now_us
        self._buckets: dict[str, Bucket] = {}
        self._heads: dict[str, Bucket] = {}  # by all of a key but the name
        self._renewed = Bucket("")  # where the last renewal was: nearly all are of leases
        self._log: list[Change] = []
        self._rev = 0
        self._floor = 0
        self._subscribers: list[tuple[str, Subscriber]] = []
        self._before_compact: list[Callable[[int], None]] = []
        # Asked as a write commits, with (key, revision, cause): answers the trace record it is known by.
        self.note: Callable[[str, int, int], int] | None = None

    @property
    def revision(self) -> int:
        return self._rev

    @property
    def floor(self) -> int:
        return self._floor

    # --- writes -------------------------------------------------------------------------------------------

    def put(
        self,
        key: str,
        obj: dict[str, Any],
        expect: int | None,
        managed: tuple[Managed, ...] = (),
        cause: int = 0,
    ) -> Item | Mismatch:
        """Write `obj` under `key` if its last revision is as expected."""
        bucket = self._heads.get(key[: key.rfind("/")]) or self._of(key)
        items = bucket.items
        prev = items.get(key)
        if expect is not None and expect != (0 if prev is None else prev.rev):
            return Mismatch(key, prev)
        self._rev = rev = self._rev + 1
        # The object was given away: stamping it in place saves a copy of it and of its metadata.
        obj["metadata"]["resourceVersion"] = str(rev)
        make = Item if bucket.packer is None else bucket.packer.item
        if prev is None:
            item = make(key, obj, rev, rev, managed)
            bucket.add_key(key)
        else:
            item = make(key, obj, rev, prev.created, managed)
        items[key] = item
        if self.note is not None:
            cause = item.cause = self.note(key, rev, cause)
        self._commit(bucket, Change(rev, item, prev, False, self._now_us(), cause))
        return item

    def mould(self, item: Item) -> Any:
        """By which `cast` writes objects with the names and the shape of this one; None: those are not kept packed."""
        packer = self._of(item.key).packer
        return None if packer is None else packer.mould(item.obj)

    def cast(
        self, key: str, mould: Any, flat: list[Any], managed: tuple[Managed, ...] = (), cause: int = 0
    ) -> Item | None:
        """As `put` under a key that is free, of an object that is packed already; None: it has to be put.

        flat: its values as `Packer.cast` wants them
        """
        bucket = self._heads.get(key[: key.rfind("/")]) or self._of(key)
        assert bucket.packer is not None
        state = bucket.packer.cast(mould, flat)
        if state is None:
            return None
        self._rev = rev = self._rev + 1
        item = bucket.items[key] = packed(key, rev, rev, managed, state)
        bucket.add_key(key)
        if self.note is not None:
            cause = item.cause = self.note(key, rev, cause)
        self._commit(bucket, Change(rev, item, None, False, self._now_us(), cause))
        return item

    def renew(
        self, line: Line, prev: Item, value: int, time_s: int, at_us: int, cause: int = 0
    ) -> Renewal | None:
        """Put the next renewal in the place of `prev`, now.  None: `prev` is not current."""
        key = line.key
        bucket = self._renewed
        if bucket.items.get(key) is not prev:
            bucket = self._renewed = self._of(key)
            if bucket.items.get(key) is not prev:
                return None
        self._rev = rev = self._rev + 1
        if self.note is not None:
            cause = self.note(key, rev, cause)
        item: Any = Renewal(line, prev, rev, value, time_s, cause, at_us)
        bucket.items[key] = item
        self._log.append(item)
        bucket.log.append(item)
        if line.heard is not bucket.heard:
            line.heard, line.listeners = bucket.heard, self._listeners(bucket, key)
        for listener in line.listeners:
            listener(item)
        return item  # type: ignore[no-any-return]

    def _listeners(self, bucket: Bucket, key: str) -> list[Subscriber]:
        subscribers = [*bucket.subscribers, *self._subscribers]
        return [on_change for prefix, on_change in subscribers if not prefix or key.startswith(prefix)]

    def beat(
        self, prev: Item, obj: dict[str, Any], managed: tuple[Managed, ...], cause: int = 0
    ) -> Beaten | None:
        """Put `obj`, of which only times are new, in the place of `prev`.  None: `prev` is not current."""
        key = prev.key
        bucket = self._of(key)
        if bucket.items.get(key) is not prev:
            return None
        self._rev = rev = self._rev + 1
        obj["metadata"]["resourceVersion"] = str(rev)
        item = bucket.items[key] = Beaten(key, obj, rev, prev.created, managed)
        item.base = prev.base if isinstance(prev, Beaten) else prev.rev
        if self.note is not None:
            cause = item.cause = self.note(key, rev, cause)
        self._commit(bucket, Change(rev, item, prev, False, self._now_us(), cause))
        return item

    def delete(self, key: str, expect: int | None, cause: int = 0) -> Item | Mismatch:
        """Remove the object; answers its last state restamped with the deletion's revision."""
        bucket = self._of(key)
        prev = bucket.items.get(key)
        if prev is None or (expect is not None and expect != prev.rev):
            return Mismatch(key, prev)
        return self._drop(bucket, prev, cause)

    def expire(self, prefix: str, due: Iterable[Item]) -> None:
        """Remove those of a resource's objects whose state is still this one, one after the other."""
        bucket = self.bucket(prefix)
        current = bucket.items.get
        for item in due:
            if current(item.key) is item:
                self._drop(bucket, item, 0)

    def _drop(self, bucket: Bucket, prev: Item, cause: int) -> Item:
        self._rev = rev = self._rev + 1
        key = prev.key
        del bucket.items[key]
        bucket.drop_key(key)
        item = prev.restamped(rev)
        if self.note is not None:
            cause = item.cause = self.note(key, rev, cause)
        self._commit(bucket, Change(rev, item, prev, True, self._now_us(), cause))
        return item

    def _commit(self, bucket: Bucket, change: Change) -> None:
        self._log.append(change)
        bucket.log.append(change)
        for prefix, on_change in bucket.subscribers:
            if not prefix or change.item.key.startswith(prefix):
                on_change(change)
        for prefix, on_change in self._subscribers:
            if not prefix or change.item.key.startswith(prefix):
                on_change(change)

    # --- reads --------------------------------------------------------------------------------------------

    def get(self, key: str) -> Item | None:
        bucket = self._heads.get(key[: key.rfind("/")])
        return None if bucket is None else bucket.items.get(key)

    def _of(self, key: str) -> Bucket:
        """The bucket of a key, by its resource and namespace: a table of all keys would grow with the store."""
        head = key[: key.rfind("/")]
        bucket = self._heads.get(head)
        if bucket is None:
            bucket = self._heads[head] = self.bucket(bucket_of(key))
        return bucket

    def bucket(self, prefix: str) -> Bucket:
        """The bucket of a resource ("/apps/replicasets/"), made on first use."""
        known = self._buckets.get(prefix)
        if known is None:
            known = self._buckets[prefix] = Bucket(prefix)
        return known

    def pack(self, prefix: str, young_max: int = YOUNG_MAX) -> None:
        """Keep a resource's objects, but the youngest, in a compact form from now on: they are many and hardly read."""
        bucket = self.bucket(prefix)
        bucket.packer = bucket.packer or Packer(bucket.items, young_max)

    def range(self, op: Range) -> Page | Compacted | FutureRevision:
        rev = op.rev or self._rev
        if rev > self._rev:
            return FutureRevision(self._rev)
        if rev < self._floor:
            return Compacted(self._floor)
        bucket = self.bucket(bucket_of(op.prefix))
        keys, items = bucket.keys(), bucket.items
        past = _items_before(bucket.log, bucket.since(rev), items)
        if past is not None:
            items = past
            keys = sorted(past)
        low = max(op.prefix, op.start)
        first = bisect_left(keys, low)
        last = len(keys) if op.prefix == bucket.prefix else bisect_left(keys, _end(op.prefix), first)
        if op.limit and last - first > op.limit:
            stop = first + op.limit
            return Page([items[key] for key in keys[first:stop]], rev, True, last - stop)
        if first == 0 and last == len(items) and past is None:
            return Page([items[key] for key in keys], rev)
        return Page([items[key] for key in keys[first:last]], rev)

    def get_at(self, key: str, rev: int) -> Item | None:
        """The object as of a revision not below the floor (a watch cache that lags reads by this)."""
        bucket = self._of(key)
        item = bucket.items.get(key)
        if item is not None and item.rev <= rev:
            return item
        log = bucket.log
        for index in range(bucket.since(rev), len(log)):
            if log[index].item.key == key:
                return log[index].prev
        return item

    def apply(self, op: Op) -> Answer:
        if isinstance(op, Get):
            return self.get(op.key)
        if isinstance(op, Put):
            return self.put(op.key, op.obj, op.expect, op.managed, op.cause)
        if isinstance(op, Range):
            return self.range(op)
        return self.delete(op.key, op.expect, op.cause)

    # --- history ------------------------------------------------------------------------------------------

    def events(self, after: int, prefix: str, limit: int = 0) -> list[Change] | Compacted:
        if after < self._floor:
            return Compacted(self._floor)
        if prefix.count("/") < 3:
            start = after - self._floor
            found = [change for change in self._log[start:] if change.item.key.startswith(prefix)]
        else:
            bucket = self.bucket(bucket_of(prefix))
            found = bucket.log[bucket.since(after) :]
            if prefix != bucket.prefix:
                found = [change for change in found if change.item.key.startswith(prefix)]
        return found[:limit] if limit else found

    def changed_since(self, after: int, prefix: str) -> bool:
        """True if the resource of a key or prefix has changes after a revision."""
        log = self.bucket(bucket_of(prefix)).log
        return bool(log) and log[-1].rev > after

    def revision_at(self, at_us: int) -> int:
        """The newest revision committed by then, as far back as history is kept."""
        return self._floor + bisect_right(self._log, at_us, key=_time_of)

    def compact(self, rev: int) -> None:
        """Forget history up to `rev`, which becomes the oldest revision that can be read."""
        rev = min(rev, self._rev)
        if rev <= self._floor:
            return
        for hook in self._before_compact:
            hook(rev)
        del self._log[: rev - self._floor]
        for bucket in self._buckets.values():
            count = bucket.since(rev)
            gone: list[Any] = bucket.log[:count]
            for change in gone:
                if type(change) is Renewal:
                    change.forget()
            del bucket.log[:count]
        self._floor = rev

    def before_compact(self, hook: Callable[[int], None]) -> Callable[[], None]:
        """Call `hook(rev)` before history up to `rev` goes, for lazy readers; returns the cancel."""
        self._before_compact.append(hook)
        return lambda: self._before_compact.remove(hook)

    def subscribe(self, prefix: str, on_change: Subscriber) -> Callable[[], None]:
        entry, bucket = (prefix, on_change), None
        subscribers = self._subscribers
        if prefix.count("/") >= 3:
            bucket = self.bucket(bucket_of(prefix))
            subscribers = bucket.subscribers
            if prefix == bucket.prefix:
                entry = ("", on_change)  # every key of it
        subscribers.append(entry)
        self._heard_by_others(bucket)

        def cancel() -> None:
            subscribers.remove(entry)
            self._heard_by_others(bucket)

        return cancel

    def _heard_by_others(self, changed: Bucket | None) -> None:
        """Who is told of changes of a resource (None: of any) is to be found again."""
        for bucket in self._buckets.values() if changed is None else (changed,):
            bucket.heard = object()


def _end(prefix: str) -> str:
    """The first string after all strings that start with `prefix`."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


def _items_before(log: list[Change], start: int, items: dict[str, Item]) -> dict[str, Item] | None:
    """The items as they were before log[start:]; None if that is the present."""
    if start == len(log):
        return None
    past = dict(items)
    for change in reversed(log[start:]):
        if change.prev is None:
            past.pop(change.item.key, None)
        else:
            past[change.item.key] = change.prev
    return past
