"""The storage process: a store with latency and faults, and the keys that API servers share.

Turns a store that answers at once into a process that API servers reach with a delay, and that can
be paused, slow, full, set back, without a quorum, or crashed. While it is healthy (`prompt`), an
API server runs a whole request on `store` and defers the reply by `latency_us`; otherwise it passes
each operation to `submit`, one after the other, and each takes as long as the fault makes it take.

Holds: an operation that is passed to `submit` is answered at most once, by its result or by
`Unavailable` after `REQUEST_TIMEOUT_US`; one that timed out may still be applied later (the caller
does not know whether a write took effect); a paused or missing process answers nothing, and carries
out what has arrived when it resumes or starts; without a quorum operations wait, and are carried
out if a quorum returns before their timeout; committed writes survive every crash.

Mirrors  etcd 3.5 (request time-out, fsync before acknowledgement; its client waits for a missing
         server; raft/node.go, run: without a leader nothing is proposed; v3_server.go,
         linearizableReadLoop: a read retries); kubernetes v1.25 apiserver
         pkg/storage/etcd3/compact.go (a round every 300 s, one winner by compare-and-swap).
Differs  latency is drawn for a whole request, not per operation, while healthy; the compaction key
         takes no revision of its own; members and elections are one process here, and a lost quorum
         is a fault that ends with a leader; a caller waits for a paused process without limit
         (upstream's connection is found dead after 40 s, and fails the writes).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

from actors.storage.expiry import Expiry
from actors.storage.memory import MemoryStore
from actors.storage.snapshots import Snapshot
from sim.api.replica_records import CompactionRecord, MasterLeases
from sim.api.store import Answer, Change, Compacted, Item, Op, Page, Put, Range, Unavailable
from sim.api.watch.lease_renewals import Line
from sim.kernel.actor import Context, State
from sim.kernel.causes import caused_by
from sim.kernel.draws.dice import keyed
from sim.kernel.draws.streams import key_of
from sim.kernel.kernel import Kernel
from sim.kernel.trace.records import IN_SERIES
from sim.units import MS, SECOND, Revision, Virtual

if TYPE_CHECKING:
    from actors.storage.columns.renewals import Beats

# Commit latency of etcd on SSDs: published medians 1 to 2 ms for writes (fsync) and below 1 ms for
# reads.
WRITE_LOW_US, WRITE_HIGH_US = 1 * MS, 2 * MS
READ_LOW_US, READ_HIGH_US = 200, 600
# etcd answers "request timed out" after 5 s plus two election time-outs of 1 s (etcd v3 server,
# ReqTimeout).
REQUEST_TIMEOUT_US = 7 * SECOND
# Streams that require a leader end after three election time-outs of 1 s without one (etcd
# v3rpc/interceptor.go, monitorLeader), and may begin again after an election, which takes one to
# two time-outs.
NO_LEADER_US = 3 * SECOND
LEADER_FOUND_US = 2 * SECOND
TIMED_OUT = Unavailable("etcdserver: request timed out")
NO_SPACE = Unavailable("etcdserver: mvcc: database space exceeded")


LEASES = "/leases/"  # part of the keys of leases
PODS = "//pods/"  # key prefix of the most numerous objects


class Leadership:
    """Whether the storage has a quorum, and whether watches have noticed.

    led: True if watches have a leader
    turns: the number of times that the quorum was lost or returned
    listeners: called with `led` when it changes
    """

    __slots__ = ("led", "listeners", "quorum", "turns")

    def __init__(self) -> None:
        self.quorum = True
        self.led = True
        self.turns = 0
        self.listeners: list[Callable[[bool], None]] = []


class Hindrance:
    """What a fault makes of the storage.  extra_us: how much longer an operation takes; full: True
    if there is no space
    """

    __slots__ = ("extra_us", "full")

    def __init__(self) -> None:
        self.extra_us, self.full = 0, False


class Storage:
    """The storage of one cluster.  `main` is its actor; the object outlives every incarnation."""

    def __init__(self, kernel: Kernel, store: MemoryStore | None = None, name: str = "storage") -> None:
        self.name = name
        self.kernel = kernel
        self.store = store if store is not None else MemoryStore(partial(attrgetter("now_us"), kernel))
        self.compaction = CompactionRecord()
        self.masters = MasterLeases()
        self._hindrance = Hindrance()
        self._leadership = Leadership()
        self._ctx: Context | None = None
        self.writer = ("", "")  # user and verb of the request that is being applied
        self._key = key_of(kernel.seed, f"{name}/latency")
        self._kind = kernel.kind("write", "user", "verb", "key", "rev")
        self._put = kernel.trace.put
        self._trace = kernel.trace
        self.store.note = self._note
        self.store.note_renewal = self._note_renewal
        # By key of the lease: cause and writer of its updates, and their series in the trace.
        self._series: dict[str, tuple[int, tuple[str, str], int]] = {}
        self._expiries: dict[str, Expiry] = {}
        self.beats: Beats | None = None
        self._early: list[_Pending] = []  # arrived while no process ran
        self.inside: dict[_Pending, None] = {}  # arrived at a process, and not answered yet
        # Of those, the ones that wait for a quorum, with their causes.
        self.held: dict[_Pending, int] = {}
        self.store.selects = kernel.fast.postings
        if kernel.fast.compact:
            self.store.pack(PODS)

    def main(self, ctx: Context) -> None:
        """Begin an incarnation: carry out what has arrived while no process ran."""
        self._ctx = ctx
        ctx.on_stop(self._lose)
        early, self._early = self._early, []
        for pending in early:
            pending.arrive(None)

    def _lose(self) -> None:
        """The process crashes and loses the operations that it has not carried out."""
        for pending in self.inside:
            self.kernel.call_later(0, pending.fail)

    def _note(self, key: str, rev: Revision, cause: int) -> int:
        """Record a write, which becomes the cause of what follows; returns the record."""
        kernel = self.kernel
        kind, writer = self._kind, self.writer
        if LEASES in key and writer[1] == "update" and not kind.listeners:
            ident = self._trace.run(rev, IN_SERIES.pack(self._series_of(key, cause), kernel.now_us))
        else:
            ident = self._put(kind, (kind.ident, kernel.now_us, cause, writer[0], writer[1], key, rev))
        kernel.cause = ident
        return ident

    def _series_of(self, key: str, cause: int) -> int:
        """The series of trace records of one lease's updates by one writer for one cause."""
        entry = self._series.get(key)
        if entry is None or entry[0] != cause or entry[1] != self.writer:
            number = self._trace.series(self._kind, cause, (*self.writer, key))
            entry = self._series[key] = cause, self.writer, number
        return entry[2]

    def _note_renewal(self, line: Line, rev: Revision, at_us: Virtual, cause: int) -> int:
        """Like `_note`, for an update of a lease by the fast path."""
        if self._kind.listeners:
            return self._note(line.key, rev, cause)
        if not line.series or line.cause != cause:
            line.series, line.cause = self._series_of(line.key, cause), cause
        self.kernel.cause = ident = self._trace.run(rev, IN_SERIES.pack(line.series, at_us))
        return ident

    def crowd(self, prefix: str) -> None:
        """Allow columnar renewals for the objects of a resource with very many renewals."""
        if self.beats is None and self.kernel.fast.columns:
            # numpy takes long to load, and few runs need it
            from actors.storage.columns.renewals import Beats

            self.beats = Beats(self.kernel, self.store, prefix, lambda: bool(self._kind.listeners))

    def expire(self, prefix: str, ttl_us: int) -> None:
        """Delete objects of a resource `ttl_us` after their last write; the first call for a prefix
        decides.
        """
        if prefix not in self._expiries:
            if self.kernel.fast.compact:
                self.store.pack(prefix)
            self._expiries[prefix] = expiry = Expiry(
                self.kernel, lambda: self.prompt, partial(self._delete_expired, prefix), ttl_us
            )
            for change in self._earlier(prefix):
                expiry.on_change(change)
            self.store.subscribe(prefix, expiry.on_change)

    def _earlier(self, prefix: str) -> Iterator[Change]:
        """The writes of a resource by an earlier process; those before the history have the time of
        the first change in it.
        """
        store = self.store
        later = store.events(store.floor, prefix)
        assert not isinstance(later, Compacted)
        if store.floor:
            at_us = later[0].at_us if later else self.kernel.now_us
            page = store.range(Range(prefix, rev=store.floor))
            assert isinstance(page, Page)
            for item in page.items:
                yield Change(item.rev, item, None, False, at_us)
        yield from later

    def _delete_expired(self, prefix: str, due: Iterable[Item]) -> None:
        self.writer = (self.name, "expire")
        self.store.expire(prefix, due)

    @property
    def extra_us(self) -> int:
        """Fault: a slow disk."""
        return self._hindrance.extra_us

    @extra_us.setter
    def extra_us(self, extra_us: int) -> None:
        self._hindrance.extra_us = extra_us
        self.kernel.standing.moved()

    @property
    def full(self) -> bool:
        """Fault: the quota of space is used up, so that nothing is written but deletions."""
        return self._hindrance.full

    @full.setter
    def full(self, full: bool) -> None:
        self._hindrance.full = full
        self.kernel.standing.moved()

    @property
    def quorum(self) -> bool:
        """Fault: False loses it."""
        return self._leadership.quorum

    @quorum.setter
    def quorum(self, quorum: bool) -> None:
        self._leadership.quorum = quorum
        self.kernel.standing.moved()
        if quorum:
            self._go_on()

    @property
    def led(self) -> bool:
        """True if watches have a leader."""
        return self._leadership.led

    def _go_on(self) -> None:
        """Carry out what waited for a quorum, in order of arrival."""
        if not self.held:
            return
        kernel, (current, self.held) = self.kernel, (self.held, {})
        took_us = self.latency_us(1)
        for pending, cause in current.items():
            with caused_by(kernel, cause):
                kernel.call_later(took_us, pending.arrive)

    @property
    def prompt(self) -> bool:
        """True while operations may be applied to `store` at once, with `latency_us` added to the
        reply.
        """
        ctx, hindrance = self._ctx, self._hindrance
        healthy = ctx is not None and ctx.state is State.RUNNING and self._leadership.quorum
        return healthy and not (hindrance.extra_us or hindrance.full)

    @property
    def healthy(self) -> bool:
        """True while the storage answers."""
        return self.prompt

    def set_quorum(self, quorum: bool) -> None:
        """Lose the quorum or get it back. Watches notice later, if the state lasts: each change
        starts a new waiting time.
        """
        if quorum != self.quorum:
            self.quorum = quorum
            self._leadership.turns += 1
            wait_us = LEADER_FOUND_US if quorum else NO_LEADER_US
            self.kernel.call_later(wait_us, self._lead, self._leadership.turns)

    def _lead(self, turn: int) -> None:
        leadership = self._leadership
        led = leadership.quorum
        if turn == leadership.turns and led != leadership.led:
            leadership.led = led
            for listener in list(leadership.listeners):
                listener(led)

    def on_leader(self, listener: Callable[[bool], None]) -> Callable[[], None]:
        """Call `listener` when watches end for lack of a leader, and when they may begin again."""
        listeners = self._leadership.listeners
        listeners.append(listener)
        return lambda: listeners.remove(listener)

    @property
    def write_us(self) -> tuple[int, int]:
        """Lower and upper bound of a write's latency while healthy."""
        return WRITE_LOW_US, WRITE_HIGH_US

    def latency_us(self, writes: int, draw: int = 0) -> int:
        """The latency of one request's operations while healthy.  draw: the request's draw
        (`Link.draw`), if it has one.
        """
        part = (draw or keyed(self._key, self.kernel.now_us)) >> 32 & 0xFFFF
        if writes:
            return WRITE_LOW_US + (part * (WRITE_HIGH_US - WRITE_LOW_US) >> 16)
        return READ_LOW_US + (part * (READ_HIGH_US - READ_LOW_US) >> 16)

    def submit(
        self,
        op: Op,
        writer: tuple[str, str],
        wanted: Callable[[], bool],
        on_answer: Callable[[Answer], None],
    ) -> None:
        """Apply one operation of `writer`'s request in any state of this process.

        wanted: returns True while the caller waits for the answer; an operation without a waiting
            caller is dropped when a process starts
        """
        pending = _Pending(self, op, writer, wanted, on_answer)
        pending.expect()
        self.kernel.call_later(self.latency_us(1) + self.extra_us, pending.arrive)

    def deferred(self, pending: _Pending) -> None:
        """Keep an operation until a process starts."""
        self._early = [*filter(_Pending.wanted, self._early), pending]

    def restore(self, snapshot: Snapshot) -> None:
        """Return to the state of a snapshot, while no process of the storage or of an API server
        runs.
        """
        self.writer, cause = (self.name, "restore"), self.kernel.cause
        with caused_by(self.kernel, cause):
            self.store.restore(snapshot, cause)

    def compact(self, rev: Revision) -> None:
        """Compact the store up to a revision, if the storage is healthy."""
        if self.prompt:
            self.store.compact(rev)


class _Pending:
    """One submitted operation until its answer."""

    __slots__ = ("_on_answer", "_op", "_storage", "_wanted", "_writer")

    def __init__(
        self,
        storage: Storage,
        op: Op,
        writer: tuple[str, str],
        wanted: Callable[[], bool],
        on_answer: Callable[[Answer], None],
    ) -> None:
        self._storage = storage
        self._op = op
        self._writer = writer
        self._wanted = wanted
        self._on_answer: Callable[[Answer], None] | None = on_answer

    def wanted(self) -> bool:
        return self._wanted()

    def expect(self) -> None:
        self._storage.kernel.call_later(REQUEST_TIMEOUT_US, self._give_up)

    def arrive(self, _: object) -> None:
        ctx = self._storage._ctx
        if ctx is not None and ctx.alive:
            self._storage.inside[self] = None
            ctx.run(self._apply)
        elif self._wanted():
            self._storage.deferred(self)

    def _apply(self, _: object) -> None:
        storage = self._storage
        if not storage.quorum:
            self.expect()
            storage.held[self] = storage.kernel.cause
            return
        storage.writer = self._writer
        refused = storage.full and isinstance(self._op, Put)
        self._answer(NO_SPACE if refused else storage.store.apply(self._op))

    def _give_up(self, _: object) -> None:
        ctx = self._storage._ctx
        if ctx is not None and ctx.alive:
            # A paused process times out the operation when it resumes, unless it carries it out
            # before.
            ctx.run(self.fail)

    def fail(self, _: object) -> None:
        self._answer(TIMED_OUT)

    def _answer(self, answer: Answer) -> None:
        self._storage.inside.pop(self, None)
        self._storage.held.pop(self, None)
        on_answer, self._on_answer = self._on_answer, None
        if on_answer is not None:
            on_answer(answer)
