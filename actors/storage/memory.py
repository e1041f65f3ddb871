"""The default store: everything in this process's memory, with immediate answers.

Turns operations (`sim.api.store.Op`) into answers, and commits into one log. Objects are in
buckets, one per resource. A bucket sorts its keys lazily (a create appends, a range sorts what was
appended; after many deletes the next range sorts all keys) and has its own part of the log, so that
a write costs the same in a cluster of any size, and a read of one resource never scans another's
history.

Holds: what `sim.api.store` promises (tests/contract holds every store to it); the log is contiguous
from `floor + 1` to `revision`, unless changes of another store were taken; a bucket's log is sorted
by revision; subscribers of a resource are called in revision order, after the write is visible.

Mirrors  etcd mvcc semantics as kubernetes v1.25 apiserver pkg/storage/etcd3 relies on them.
Differs  a deleted key is removed at once (its last state is in the log); no leases: the API server
         is responsible for the event TTL here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import groupby
from typing import Any

from actors.storage.bucket import Bucket, Log, Subscriber, bucket_of
from actors.storage.compact.items import YOUNG_MAX, Packer
from actors.storage.postings import ITEMS_MIN
from actors.storage.snapshots import Snapshot
from sim.api.store import (
    Answer,
    Change,
    Compacted,
    Consult,
    FutureRevision,
    Get,
    Gone,
    HeartbeatItem,
    Item,
    Managed,
    Mismatch,
    Op,
    Page,
    Pause,
    Put,
    Range,
)
from sim.api.watch.columnar_renewals import Course, Run, Runs, in_runs, is_renewed, spread
from sim.api.watch.lease_renewals import Line, Renewal
from sim.units import NO_REVISION, Revision, Virtual

HEARTBEAT_ITEMS_MAX = 512  # superseded heartbeat revisions that are kept complete for late readers


class MemoryStore:
    """A store in memory.  `now_us` reads virtual time for the log."""

    def __init__(self, now_us: Callable[[], Virtual]) -> None:
        self._now_us = now_us
        self._buckets: dict[str, Bucket] = {}
        self._heads: dict[str, Bucket] = {}  # by key up to the name
        self._renewed = Bucket("")  # bucket of the last renewal: nearly all are of leases
        self._log = Log()
        self._rev = self._floor = NO_REVISION
        self._subscribers: list[tuple[str, Subscriber]] = []
        # Deferred work that is notified before the next write of an object commits, by key.
        self.guards: dict[str, Callable[[], None]] = {}
        # The latest superseded heartbeat revisions.
        self._heartbeat_items: deque[HeartbeatItem] = deque()
        self.selects = False  # True if lists with a selector read postings
        # Is given the changes that compaction has dropped, and may free their memory later.
        self.on_forget: Callable[[list[Any]], None] = lambda gone: None
        self._before_compact: list[Callable[[Revision], None]] = []
        # Called at each commit with (key, revision, cause); returns the trace record of the write.
        self.note: Callable[[str, Revision, int], int] | None = None
        self.note_renewal: Callable[[Line, Revision, Virtual, int], int] | None = (
            None  # the same for renewals, with (line, revision, time, cause)
        )

    @property
    def revision(self) -> Revision:
        """The revision of the last write."""
        return self._rev

    @property
    def floor(self) -> Revision:
        """The oldest revision that can be read."""
        return self._floor

    # --- writes -----------------------------------------------------------------------------------

    def put(
        self,
        key: str,
        obj: dict[str, Any],
        expect: int | None,
        managed: tuple[Managed, ...] = (),
        cause: int = 0,
    ) -> Item | Mismatch:
        """Write `obj` under `key` if its last revision is as expected."""
        if self.guards:
            self._announce(key)
        bucket = self._heads.get(key[: key.rfind("/")]) or self._of(key)
        items = bucket.items
        prev = items.get(key)
        if expect is not None and expect != (0 if prev is None else prev.rev):
            return Mismatch(key, prev)
        self._rev = rev = self._rev + 1
        # The caller gave the object away: stamping it in place saves copies of it and its metadata.
        obj["metadata"]["resourceVersion"] = str(rev)
        make = Item if bucket.packer is None else bucket.packer.item
        if bucket.leave is not None:
            bucket.leave(key)
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

    def _announce(self, key: str) -> None:
        """Notify the deferred work that relies on an object that it is about to change."""
        plan = self.guards.pop(key, None)
        if plan is not None:
            plan()

    def take(self, item: Item, at_us: Virtual, *, deleted: bool = False, cause: int = 0) -> None:
        """Commit a change that another store has made, with its revision, which no revision here
        exceeds.

        item: the new state; of a deletion, the last state with the deletion's revision
        """
        assert item.rev >= self._rev, "a change is older than the store"
        self._rev = item.rev
        bucket = self._of(item.key)
        prev = bucket.items.get(item.key)
        if not deleted:
            if prev is None:
                bucket.add_key(item.key)
            bucket.items[item.key] = item
        elif prev is None:
            return
        else:
            self._take_out(bucket, item.key)
        self._commit(bucket, Change(item.rev, item, prev, deleted, at_us, cause))

    def skip_to(self, rev: Revision) -> None:
        """Continue from a revision of another store, which is the oldest that can be read here."""
        if rev > self._floor:
            self._rev = max(self._rev, rev)
            self.compact(rev)

    def pattern(self, item: Item) -> Any:
        """The pattern by which `cast` writes objects with the names and structure of this one; None
        if those are not kept in a compact form.
        """
        packer = self._of(item.key).packer
        return None if packer is None else packer.pattern(item.obj)

    def cast(
        self, key: str, pattern: Any, flat: list[Any], managed: tuple[Managed, ...] = (), cause: int = 0
    ) -> Item | None:
        """Like `put` under an unused key, for an object that is never built; None if it has to be
        put.

        flat: its values in the order of `Packer.shape`
        """
        bucket = self._heads.get(key[: key.rfind("/")]) or self._of(key)
        packer = bucket.packer
        assert packer is not None
        shape = packer.shape(pattern, flat)
        if shape is None:
            return None
        self._rev = rev = self._rev + 1
        item = bucket.items[key] = packer.cast(key, (shape, pattern, flat), rev, managed)
        bucket.add_key(key)
        if self.note is not None:
            cause = item.cause = self.note(key, rev, cause)
        self._commit(bucket, Change(rev, item, None, False, self._now_us(), cause))
        return item

    def renew(
        self,
        line: Line,
        prev: Item,
        value: int,
        time_s: int,
        at_us: Virtual,
        cause: int = 0,
        *,
        serial: bool = False,
    ) -> Renewal | None:
        """Replace `prev` by its next renewal now; None if `prev` is not current.

        serial: True records the renewal in a series of the trace, because there are very many
        """
        key = line.key
        if self.guards:
            self._announce(key)
        bucket = self._renewed
        if bucket.items.get(key) is not prev:
            bucket = self._renewed = self._of(key)
            if bucket.items.get(key) is not prev:
                return None
        self._rev = rev = self._rev + 1
        if serial and self.note_renewal is not None:
            cause = self.note_renewal(line, rev, at_us, cause)
        elif self.note is not None:
            cause = self.note(key, rev, cause)
        item: Any = Renewal(line, prev, rev, value, time_s, cause, at_us)
        bucket.items[key] = item
        self._log.append(item)
        bucket.log.append(item)
        if line.subscription is not bucket.subscription:
            line.subscription, line.listeners = bucket.subscription, self._listeners(bucket, key)
        for listener in line.listeners:
            listener(item)
        return item  # type: ignore[no-any-return]

    def _listeners(self, bucket: Bucket, key: str) -> list[Subscriber]:
        return [
            on_change
            for prefix, on_change in [*bucket.subscribers, *self._subscribers]
            if on_change not in bucket.uninterested and (not prefix or key.startswith(prefix))
        ]

    def run(self, bucket: Bucket, run: Run) -> None:
        """Add a run of renewals of a bucket's course, which have happened one after the other."""
        self._rev = run.rev
        self._log.append(run)
        bucket.log.append(run)

    def reach(self, bucket: Bucket, run: Run, hi: int) -> bool:
        """Like `run`, extending `run` up to `hi` if nothing has been written after it; otherwise
        returns False.
        """
        log = bucket.log
        if self._rev != run.rev or not log or log[-1] is not run or self._log[-1] is not run:
            return False
        run.reach(hi)
        self._rev = run.rev
        return True

    def follow(self, prefix: str, course: Course, leave: Callable[[str], None]) -> Bucket:
        """Accept runs of renewals for a resource from now on; `leave` is called with keys that are
        written otherwise.
        """
        bucket = self._bucket(prefix)
        bucket.course, bucket.leave = course, leave
        for head in [head for head, entry in self._heads.items() if entry is bucket]:
            del self._heads[head]  # so that each access to a key goes through `_of`
        return bucket

    def unheard(self, prefix: str, heads: Collection[str]) -> bool:
        """True if no subscriber needs a notification of each renewal of some objects of a resource.

        heads: of the keys of these objects, up to their names
        """
        bucket = self._bucket(prefix)
        return not self._subscribers and all(
            on_change in bucket.uninterested or not any(head.startswith(below) for head in heads)
            for below, on_change in bucket.subscribers
        )

    def beat(
        self, prev: Item, obj: dict[str, Any], managed: tuple[Managed, ...], cause: int = 0
    ) -> HeartbeatItem | None:
        """Replace `prev` by `obj`, which differs in heartbeat timestamps only; None if `prev` is
        not current.
        """
        key = prev.key
        if self.guards:
            self._announce(key)
        bucket = self._of(key)
        if bucket.items.get(key) is not prev:
            return None
        self._rev = rev = self._rev + 1
        obj["metadata"]["resourceVersion"] = str(rev)
        item = bucket.items[key] = HeartbeatItem(key, obj, rev, prev.created, managed)
        if isinstance(prev, HeartbeatItem):
            item.base, item.like = prev.base, prev.like
            self._heartbeat_items.append(prev)
            if len(self._heartbeat_items) > HEARTBEAT_ITEMS_MAX:
                self._heartbeat_items.popleft().pass_on()
        else:
            item.base, item.like = prev.rev, prev.obj
        item.cause = prev.cause
        if self.note is not None:
            cause = self.note(key, rev, cause)
        self._commit(bucket, Change(rev, item, prev, False, self._now_us(), cause))
        return item

    def delete(self, key: str, expect: int | None, cause: int = 0) -> Item | Mismatch:
        """Delete the object; returns its last state with the revision of the deletion."""
        if self.guards:
            self._announce(key)
        bucket = self._of(key)
        prev = bucket.items.get(key)
        if prev is None or (expect is not None and expect != prev.rev):
            return Mismatch(key, prev)
        return self._drop(bucket, prev, cause)

    def expire(self, prefix: str, due: Iterable[Item]) -> None:
        """Delete those items of a resource that are still current, one after the other."""
        bucket, now_us, note = self._bucket(prefix), self._now_us(), self.note
        items = bucket.items
        for prev in due:
            key = prev.key
            if items.get(key) is prev:
                self._rev = rev = self._rev + 1
                self._take_out(bucket, key)
                gone: Any = Gone(rev, prev, now_us, 0 if note is None else note(key, rev, 0))
                self._commit(bucket, gone)

    @staticmethod
    def _take_out(bucket: Bucket, key: str) -> None:
        if bucket.leave is not None:
            bucket.leave(key)
        del bucket.items[key]
        bucket.drop_key(key)

    def _drop(self, bucket: Bucket, prev: Item, cause: int) -> Item:
        self._rev = rev = self._rev + 1
        key = prev.key
        self._take_out(bucket, key)
        item = prev.restamped(rev)
        if self.note is not None:
            cause = item.cause = self.note(key, rev, cause)
        self._commit(bucket, Change(rev, item, prev, True, self._now_us(), cause))
        return item

    def _commit(self, bucket: Bucket, change: Change) -> None:
        prev = change.prev
        if prev is not None and type(prev) is not Item and isinstance(prev, Renewal):
            prev.end()
        assert change.rev == self._rev, "a commit is not of the newest revision"
        assert not self._log or self._log[-1].rev <= change.rev, "the log is not in order"
        self._log.append(change)
        bucket.log.append(change)
        for prefix, on_change in bucket.subscribers:
            if not prefix or change.item.key.startswith(prefix):
                on_change(change)
        for prefix, on_change in self._subscribers:
            if not prefix or change.item.key.startswith(prefix):
                on_change(change)

    def restore(self, snapshot: Snapshot, cause: int = 0) -> None:
        """Return to an earlier state and its revision, without any history.

        Subscribers are called with each difference as a change of that revision.
        """
        rev, now_us = snapshot.rev, self._now_us()
        for key in list(self.guards):
            self._announce(key)
        differences: list[tuple[Bucket, Item | None, Item | None]] = []
        for prefix in dict.fromkeys([*self._buckets, *map(bucket_of, snapshot.items)]):
            bucket = self.bucket(prefix)
            own = {key: item for key, item in snapshot.items.items() if bucket_of(key) == prefix}
            differences += [(bucket, *difference) for difference in bucket.restore(own)]
        self._log.clear()
        self._heartbeat_items.clear()
        self._rev = self._floor = rev
        for bucket, item, prev in differences:
            new = prev.restamped(rev) if item is None and prev is not None else item
            assert new is not None
            record = cause
            if self.note is not None:
                record = new.cause = self.note(new.key, rev, cause)
            change = Change(rev, new, prev, item is None, now_us, record)
            for below, on_change in (*bucket.subscribers, *self._subscribers):
                if not below or new.key.startswith(below):
                    on_change(change)

    # --- reads ------------------------------------------------------------------------------------

    def get(self, key: str) -> Item | None:
        """The current item of a key; None if there is none."""
        bucket = self._heads.get(key[: key.rfind("/")]) or self._of(key)
        return bucket.items.get(key)

    def _of(self, key: str) -> Bucket:
        """The bucket of a key, found by resource and namespace: a table of all keys would grow with
        the store.
        """
        head = key[: key.rfind("/")]
        bucket = self._heads.get(head)
        if bucket is None:
            bucket = self._bucket(bucket_of(key))
            if bucket.course is None:
                self._heads[head] = bucket
            else:
                bucket.bring(key)
        return bucket

    def bucket(self, prefix: str) -> Bucket:
        """The up-to-date bucket of a resource ("/apps/replicasets/"), created on first use."""
        bucket = self._bucket(prefix)
        bucket.bring_all()
        return bucket

    def _bucket(self, prefix: str) -> Bucket:
        """Like `bucket`, for callers that do not read its objects."""
        entry = self._buckets.get(prefix)
        if entry is None:
            entry = self._buckets[prefix] = Bucket(prefix)
        return entry

    def pack(self, prefix: str, young_max: int = YOUNG_MAX) -> None:
        """Keep all but the youngest objects of a resource in a compact form from now on: they are
        numerous and rarely read.
        """
        bucket = self._bucket(prefix)
        bucket.packer = bucket.packer or Packer(bucket.items, young_max)

    def range(self, op: Range) -> Page | Compacted | FutureRevision:
        """One page of the objects below a prefix, as of a revision."""
        rev = op.rev or self._rev
        if rev > self._rev:
            return FutureRevision(self._rev)
        if rev < self._floor:
            return Compacted(self._floor)
        bucket = self.bucket(bucket_of(op.prefix))
        keys, items = bucket.keys(), bucket.items
        past = bucket.before(rev)
        if past is not None:
            items = past
            keys = sorted(past)
        low = max(op.prefix, op.start)
        first = bisect_left(keys, low)
        last = len(keys) if op.prefix == bucket.prefix else bisect_left(keys, _end(op.prefix), first)
        if op.only is not None and self.selects and past is None and last - first >= ITEMS_MIN:
            if bucket.course is None and not op.limit:
                end = keys[last - 1]
                chosen = bucket.selected(op.only, self._floor, self._rev)
                return Page(
                    [items[key] for key in chosen if low <= key <= end], rev, whole=(last - first, end)
                )
        if op.limit and last - first > op.limit:
            stop = first + op.limit
            return Page([items[key] for key in keys[first:stop]], rev, True, last - stop)
        if first == 0 and last == len(items) and past is None:
            return Page([items[key] for key in keys], rev)
        return Page([items[key] for key in keys[first:last]], rev)

    def get_at(self, key: str, rev: Revision) -> Item | None:
        """The object as of a revision not below the floor, as a lagging watch cache reads it."""
        bucket = self._of(key)
        item = bucket.items.get(key)
        if item is not None and item.rev <= rev:
            return item
        for change in spread(bucket.log.since(rev)):
            if change.item.key == key:
                return change.prev  # type: ignore[no-any-return]
        return item

    def state_at(self, rev: Revision) -> Iterable[Item]:
        """All objects as of a revision not below the floor."""
        for prefix in list(self._buckets):
            bucket = self.bucket(prefix)
            past = bucket.before(rev)
            yield from (bucket.items if past is None else past).values()

    def apply(self, op: Op) -> Answer:
        """Carry out an operation."""
        if isinstance(op, Get):
            return self.get(op.key)
        if isinstance(op, Put):
            return self.put(op.key, op.obj, op.expect, op.managed, op.cause)
        if isinstance(op, Range):
            return self.range(op)
        if isinstance(op, Pause):
            return None  # this store answers at once, so there is nothing to wait for
        assert not isinstance(op, Consult)  # the server answers it
        return self.delete(op.key, op.expect, op.cause)

    # --- history ----------------------------------------------------------------------------------

    def events(self, after: Revision, prefix: str, limit: int = 0) -> Sequence[Change] | Compacted:
        """Changes of a resource after a revision; `Runs` if there are only runs of renewals and no
        limit.
        """
        if after < self._floor:
            return Compacted(self._floor)
        if prefix.count("/") < 3:
            result = spread(self._log.since(after))
            if len(prefix) > 1:
                result = [change for change in result if change.item.key.startswith(prefix)]
        else:
            bucket = self._bucket(bucket_of(prefix))
            result = bucket.log.since(after)
            if bucket.course is not None and result:
                if prefix == bucket.prefix and not limit and in_runs(result):
                    return Runs(result)
                result = spread(result)
            if prefix != bucket.prefix:
                result = [change for change in result if change.item.key.startswith(prefix)]
        return result[:limit] if limit else result

    def stretches(self, after: Revision, prefix: str) -> Iterable[Sequence[Change]] | Compacted:
        """All changes of a resource after a revision, in parts; those of columnar renewals are not
        expanded.
        """
        if after < self._floor:
            return Compacted(self._floor)
        bucket = self._bucket(bucket_of(prefix))
        result = bucket.log.since(after)
        if bucket.course is None or not result:
            return (result,) if result else ()
        parts = [[*part] for _, part in groupby(result, key=is_renewed)]
        return (Runs(part) if in_runs(part) else part for part in parts)

    def log_of(self, prefix: str) -> Log:
        """The log of the resource of a key or prefix, the same list as long as the store exists."""
        return self._bucket(bucket_of(prefix)).log

    def revision_at(self, at_us: Virtual) -> Revision:
        """The newest revision committed by then, as far back as history is kept."""
        return self._log.reached(at_us) or self._floor

    @property
    def oldest_us(self) -> Virtual | None:
        """The time of the oldest change in the history; None if there is none."""
        return self._log[0].at_us if self._log else None

    def compact(self, rev: Revision) -> None:
        """Drop the history up to `rev`, which becomes the oldest revision that can be read."""
        rev = min(rev, self._rev)
        if rev <= self._floor:
            return
        for hook in self._before_compact:
            hook(rev)
        self._log.forget(rev)
        for bucket in self._buckets.values():
            gone = bucket.log.forget(rev)
            for change in gone:
                if type(change) is Renewal:
                    change.forget()
            self.on_forget(gone)
            if bucket.course is not None:
                bucket.course.trim(rev)
        self._floor = rev

    def detach(self) -> None:
        """Let each reader take what it needs of the whole history, which is about to go."""
        for hook in self._before_compact:
            hook(self._rev)

    def before_compact(self, hook: Callable[[Revision], None]) -> Callable[[], None]:
        """Call `hook(rev)` before history up to `rev` is dropped; returns a function that cancels."""
        self._before_compact.append(hook)
        return lambda: self._before_compact.remove(hook)

    def subscribe(self, prefix: str, on_change: Subscriber, renewals: bool = True) -> Callable[[], None]:
        """Call `on_change` as a change commits.  renewals: False omits renewals of the resource."""
        entry, bucket = (prefix, on_change), None
        subscribers = self._subscribers
        if prefix.count("/") >= 3:
            bucket = self._bucket(bucket_of(prefix))
            subscribers = bucket.subscribers
            if prefix == bucket.prefix:
                entry = ("", on_change)  # every key of it
            if not renewals:
                bucket.uninterested.append(on_change)
        subscribers.append(entry)
        self._notify_others(bucket)

        def cancel() -> None:
            subscribers.remove(entry)
            if bucket is not None and on_change in bucket.uninterested:
                bucket.uninterested.remove(on_change)
            self._notify_others(bucket)

        return cancel

    def _notify_others(self, changed: Bucket | None) -> None:
        """Forget the remembered subscribers of a resource (None: of all resources)."""
        for bucket in self._buckets.values() if changed is None else (changed,):
            bucket.subscription = object()


def _end(prefix: str) -> str:
    """The first string after all strings that start with `prefix`."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)
