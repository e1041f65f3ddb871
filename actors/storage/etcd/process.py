"""The storage process of an API server over a real etcd.

Turns operations into requests of etcd, and what arrives from it, through the gate, into answers and
changes of the mirror.  Writes are compared and committed by etcd; a read of one key asks etcd; a
list asks etcd for its revision, and is answered by the mirror once that has reached it, so it is as
new as one by etcd.  A write is answered once the mirror has it, so that what follows in this server
sees it.

Holds: an operation is answered once; what etcd has not acknowledged is not answered as done; the
direct writes of an API server's start are sent first, and all others wait for them.

Mirrors  kubernetes v1.25 apiserver pkg/storage/etcd3/{store,compact,lease_manager}.go.
Differs  the mirror follows all keys of the etcd with one watch, where upstream has one for each
         resource; a list is not read from etcd.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from typing import Any

import msgspec

from actors.storage.actor import Storage
from actors.storage.etcd import requests
from actors.storage.etcd.keys import Keys
from actors.storage.etcd.masters import EtcdMasters
from actors.storage.etcd.mirror import Mirror, Row
from actors.storage.etcd.upkeep import Compactor, Leases, Then, failure
from actors.storage.etcd.values import BadValueError, Values
from sim.api.store import (
    Answer,
    Compacted,
    Consult,
    Delete,
    Get,
    Item,
    Mismatch,
    Op,
    Page,
    Pause,
    Put,
    Range,
    Unavailable,
)
from sim.kernel import Context, Kernel
from sim.kernel.gate import unheard
from sim.units import SECOND, Revision
from sim.wire.etcd.link import ANSWER, NEWS, OK, OPERATION, PROGRESS, STATE, EtcdLink
from sim.wire.etcd.messages import (
    Done,
    Event,
    Found,
    after_prefix,
    decode,
    encode,
    problem_of,
    range_of,
)

MIRRORED_US = SECOND  # for which the answer to a write waits for the mirror
AGAIN_US = SECOND  # between two tries of a write of the start
OUT_OF_RANGE = 11  # gRPC: the revision is compacted
WAIT_US = 7 * SECOND  # etcd's time-out of a request
_Held = tuple[Op, Callable[[], bool], Callable[[Answer], None]]  # as `submit` gets it


class EtcdStorage(Storage):
    """The storage process.  linked: True while the watch is open

    link: None in a replay
    """

    store: Mirror
    masters: EtcdMasters

    def __init__(
        self,
        kernel: Kernel,
        keys: Keys,
        values: Values,
        compaction_interval_us: int = 0,
    ) -> None:
        super().__init__(kernel, Mirror(partial(attrgetter("now_us"), kernel)))
        self.linked = True
        self.link: EtcdLink | None = None
        self.begun: Callable[[], None] = lambda: None  # called after the start
        self.unreadable: Callable[[str], None] = lambda text: None  # called for broken values
        self._keys, self._values = keys, values
        self._newest = 0
        self._calls: dict[int, Then] = {}
        self._flying: dict[str, tuple[bytes, Put]] = {}  # by key, what is being written
        self._held: list[_Held] | None = []  # until the writes of the start are done
        self._behind: deque[tuple[Revision, Callable[[], None]]] = deque()  # wait for the mirror
        self.leases = Leases(kernel, self.ask)
        self._compactor = Compactor(self.store, self.ask, compaction_interval_us)
        self.masters = EtcdMasters(kernel, keys.masters, values, self.ask)
        kernel.gate.handle(OPERATION, self.enter)

    # --- the process as API servers use it --------------------------------------------------------

    def main(self, ctx: Context) -> None:
        """Begin: the direct writes of this instant are sent at its end."""
        super().main(ctx)
        ctx.call_later_us(0, self._begin)
        self._compactor.begin(ctx)

    @property
    def prompt(self) -> bool:
        """False: each operation is a request."""
        return False

    @property
    def healthy(self) -> bool:
        """True while etcd is reached."""
        return self.linked

    def latency_us(self, writes: int, draw: int = 0) -> int:
        """0: etcd takes its own time."""
        return 0

    def expire(self, prefix: str, ttl_us: int) -> None:
        """Give the objects of a resource a lease when they are written."""
        self.leases.ttl_us[prefix] = ttl_us

    def compact(self, rev: Revision) -> None:
        """Nothing: etcd is compacted by one API server of all, and the mirror follows."""

    def submit(
        self,
        op: Op,
        writer: tuple[str, str],
        wanted: Callable[[], bool],
        on_answer: Callable[[Answer], None],
    ) -> None:
        """Carry out one operation, once the writes of the start are done."""

        if self._held is not None:
            self._held.append((op, wanted, on_answer))
        elif wanted():
            self._carry(op, on_answer)

    def _carry(self, op: Op, on_answer: Callable[[Answer], None]) -> None:
        match op:
            case Get(key=key):
                self.ask(requests.RANGE, range_of(self._name(key)), partial(self._got, key, on_answer))
            case Range():
                self._list(op, on_answer)
            case Put():
                self._send_put(op, on_answer)
            case Delete(key=key, expect=expect):
                body = requests.delete(self._name(key), expect)
                self.ask(requests.TXN, body, partial(self._deleted, key, self.store.get(key), on_answer))
            case Pause(us=us):
                self.kernel.call_later(us, lambda _: on_answer(None))
            case Consult():
                raise AssertionError("the server answers it")

    def _name(self, key: str) -> bytes:
        return self._keys.of_etcd(key).encode()

    def ask(self, path: str, body: Mapping[str, Any], then: Then) -> None:
        """Send a request; `then` gets the code of its answer (0: there is none) and the body."""
        self._newest = number = self._newest + 1
        self._calls[number] = partial(_caused, self.kernel, self.kernel.cause, then)
        if self.link is not None:
            self.link.send(number, path, encode(body))

    # --- reads ------------------------------------------------------------------------------------

    def _got(self, key: str, on_answer: Callable[[Answer], None], code: int, body: bytes) -> None:
        if code != OK:
            on_answer(failure(code, body))
            return
        result = decode(Found, body).kvs
        on_answer(self._item(key, result[0]) if result else None)

    def _item(self, key: str, found: Any) -> Item | None:
        """The object of a key in etcd, which is that of the mirror if that has its revision."""
        entry = self.store.get(key)
        if entry is not None and entry.rev == found.mod_revision:
            return entry
        try:
            return self._values.decode(key, found.value, found.mod_revision, found.create_revision)
        except BadValueError as error:
            self.unreadable(str(error))
            return None

    def _list(self, op: Range, on_answer: Callable[[Answer], None]) -> None:
        store = self.store
        if op.rev and op.rev < store.floor:
            self._list_past(op, on_answer)
            return
        if op.rev and op.rev <= store.revision:
            self.kernel.call_later(0, lambda _: on_answer(store.range(op)))
            return

        def read(code: int, body: bytes) -> None:
            if code != OK:
                on_answer(failure(code, body))
                return
            rev = Revision(decode(Found, body).header.revision)
            self._when(rev, lambda: on_answer(store.range(op)), lambda: on_answer(Unavailable(_LATE)))

        self.ask(requests.RANGE, requests.now(), read)

    def _list_past(self, op: Range, on_answer: Callable[[Answer], None]) -> None:
        """Read a revision before those of the mirror: the next page of a list that another process
        began.
        """
        prefix = self._name(op.prefix)
        start = max(prefix, self._name(op.start)) if op.start else prefix

        def read(code: int, body: bytes) -> None:
            if code != OK:
                compacted = problem_of(body).code == OUT_OF_RANGE
                on_answer(Compacted(self.store.floor) if compacted else failure(code, body))
                return
            result = decode(Found, body)
            named = [(self._keys.of_store(each.key.decode()), each) for each in result.kvs]
            items = [self._item(key, each) for key, each in named if key is not None]
            left = result.count - len(result.kvs)
            on_answer(Page([item for item in items if item is not None], op.rev, result.more, left))

        body = range_of(start, after_prefix(prefix), revision=op.rev, limit=op.limit)
        self.ask(requests.RANGE, body, read)

    def _when(self, rev: Revision, then: Callable[[], None], late: Callable[[], None]) -> None:
        """Call `then` when the mirror has reached a revision, or `late` if it does not in time."""
        if self.store.revision >= rev:
            then()
            return
        waiting = _Once(then)
        self._behind.append((rev, waiting))
        self.kernel.call_later(WAIT_US, lambda _: waiting.instead(late))

    # --- writes -----------------------------------------------------------------------------------

    def _send_put(self, op: Put, on_answer: Callable[[Answer], None]) -> None:
        value = self._values.encode(op.key, op.obj, op.managed)
        self._flying[op.key] = value, op

        def send(lease: int) -> None:
            body = requests.put(self._name(op.key), value, op.expect, lease)
            self.ask(requests.TXN, body, partial(self._written, op, on_answer))

        self.leases.lease_for(op.key, send, on_answer)

    def _written(self, op: Put, on_answer: Callable[[Answer], None], code: int, body: bytes) -> None:
        entry = self._flying.get(op.key)
        mine = entry is not None and entry[1] is op
        if code != OK:
            if mine:
                del self._flying[op.key]
            on_answer(failure(code, body))
            return
        done = decode(Done, body)
        if not done.succeeded:
            if mine:
                del self._flying[op.key]
            on_answer(self._mismatch(op.key, done))
            return
        rev = Revision(done.header.revision)

        def answer() -> None:
            item = self.store.get(op.key)
            if item is None or item.rev != rev:
                item = stamped(op, rev, rev if not op.expect or item is None else item.created)
            on_answer(item)

        self._when_mirrored(rev, answer)

    def _mismatch(self, key: str, done: Done) -> Mismatch:
        result = done.responses[0].response_range if done.responses else None
        return Mismatch(key, self._item(key, result.kvs[0]) if result is not None and result.kvs else None)

    def _deleted(
        self, key: str, last: Item | None, on_answer: Callable[[Answer], None], code: int, body: bytes
    ) -> None:
        """Take the answer to a deletion.  last: the object as the mirror had it before"""
        if code != OK:
            on_answer(failure(code, body))
            return
        done = decode(Done, body)
        if not done.succeeded:
            on_answer(self._mismatch(key, done))
            return
        gone = done.responses[0].response_delete_range
        was = gone.prev_kvs[0] if gone is not None and gone.prev_kvs else None
        if was is not None and (last is None or last.rev != was.mod_revision):
            last = self._item(key, was)
        rev = Revision(done.header.revision)
        self._when_mirrored(
            rev, lambda: on_answer(Mismatch(key, None) if last is None else last.restamped(rev))
        )

    def _when_mirrored(self, rev: Revision, then: Callable[[], None]) -> None:
        """Call when the mirror has a revision, or after a second: the write is done."""
        if self.store.revision >= rev:
            then()
            return
        waiting = _Once(then)
        self._behind.append((rev, waiting))
        self.kernel.call_later(MIRRORED_US, lambda _: waiting())

    # --- the start --------------------------------------------------------------------------------

    def _begin(self, _: object) -> None:
        """Send the direct writes of an API server's start, those of one key in their order."""
        chains: dict[str, deque[Put | Delete]] = {}
        for wish in self.store.wishes:
            chains.setdefault(wish.key, deque()).append(wish)
        self.store.wishes.clear()
        left = len(chains)

        def send(chain: deque[Put | Delete]) -> None:
            self._carry(chain[0], partial(answered, chain))

        def answered(chain: deque[Put | Delete], answer: Answer) -> None:
            nonlocal left
            if isinstance(answer, Unavailable):
                self.kernel.call_later(AGAIN_US, lambda _: send(chain))
                return
            chain.popleft()
            if chain:
                send(chain)
                return
            left -= 1
            if not left:
                self._release()

        for chain in [*chains.values()]:
            send(chain)
        if not chains:
            self._release()

    def _release(self) -> None:
        """Carry out what has waited, and report the end of the start once that is answered."""
        current, self._held = self._held or [], None
        left = [op for op, target, _ in current if target()]

        def answered(op: Op, on_answer: Callable[[Answer], None], answer: Answer) -> None:
            on_answer(answer)
            left.remove(op)
            if not left:
                self.begun()

        for op, target, on_answer in current:
            if target():
                self._carry(op, partial(answered, op, on_answer))
        if not left:
            self.begun()

    # --- what arrives -----------------------------------------------------------------------------

    def enter(self, payload: Any, done: Callable[[Any], None] = unheard) -> None:
        """Take what has arrived from etcd: one operation of the gate."""
        what, *data = payload
        done(None)
        if what == ANSWER:
            number, code, body = data
            then = self._calls.pop(number, None)
            if then is not None:
                then(code, body)
        elif what == NEWS:
            self._take(msgspec.convert(data[0], type=tuple[Event, ...], strict=False))
        elif what == PROGRESS:
            self.store.advance(Revision(data[0]))
        elif what == STATE:
            self._load(*data)
        else:
            self.linked = data[0]
        self._catch_up()

    def _take(self, events: tuple[Event, ...]) -> None:
        rows: list[Row] = []
        for index, event in enumerate(events):
            rev = event.kv.mod_revision
            row = self._row(event)
            if row is not None:
                rows.append(row)
            if index + 1 == len(events) or events[index + 1].kv.mod_revision != rev:
                if rev > self.store.revision:
                    self.store.feed(Revision(rev), rows)
                rows = []

    def _row(self, event: Event) -> Row | None:
        """A change of an object; None for another key."""
        result = event.kv
        self.masters.see(result.key, is_there=event.type != "DELETE")
        key = self._keys.of_store(result.key.decode("utf-8", "replace"))
        if key is None:
            return None
        if event.type == "DELETE":
            return key, None
        flying = self._flying.get(key)
        if flying is not None and flying[0] == result.value:
            del self._flying[key]
            created = Revision(result.create_revision)
            return key, stamped(flying[1], Revision(result.mod_revision), created)
        try:
            return key, self._values.decode(
                key, result.value, Revision(result.mod_revision), Revision(result.create_revision)
            )
        except BadValueError as error:
            self.unreadable(str(error))
            return None

    def _load(self, rows: list[tuple[bytes, bytes, int, int]], rev: int) -> None:
        """Take the state of all keys at a revision: (key, value, revision, that of its creation).

        Raises BadValueError at the start.
        """
        items: list[Item] = []
        for name, value, changed, created in rows:
            self.masters.see(name, is_there=True)
            key = self._keys.of_store(name.decode("utf-8", "replace"))
            if key is None:
                continue
            try:
                items.append(self._values.decode(key, value, Revision(changed), Revision(created)))
            except BadValueError as error:
                if not self.store.floor:
                    raise
                self.unreadable(str(error))
        self.store.replace(items, Revision(rev))

    def _catch_up(self) -> None:
        """Call what waited for the mirror."""
        behind, rev = self._behind, self.store.revision
        for _ in range(len(behind)):
            target, then = behind.popleft()
            if target <= rev:
                then()
            else:
                behind.append((target, then))


_LATE = "the watch of etcd is behind"


def _caused(kernel: Kernel, cause: int, then: Then, code: int, body: bytes) -> None:
    kernel.follow(cause)
    then(code, body)


def stamped(op: Put, rev: Revision, created: Revision) -> Item:
    """The object of a write with its revision."""
    obj = {**op.obj, "metadata": {**op.obj["metadata"], "resourceVersion": str(rev)}}
    return Item(op.key, obj, rev, created, op.managed)


class _Once:
    """A function that is called once, or another in its place."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then: Callable[[], None] | None = then

    def __call__(self) -> None:
        self.instead(self._then)

    def instead(self, other: Callable[[], None] | None) -> None:
        """Call another function, if none has been called."""
        if self._then is not None and other is not None:
            self._then = None
            other()
