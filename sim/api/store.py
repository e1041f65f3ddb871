"""The store contract: one cluster-wide revision, compare-and-swap, history, compaction, watch.

What every store promises (`tests/contract` checks it):
- A successful write raises the cluster-wide revision by exactly one and stamps it into the object
  as `metadata.resourceVersion` (decimal text). An object passed to `put` belongs to the store: the
  caller must not change it later.
- `expect`: 0 means "must not exist"; n > 0 means "its last write has revision n"; None means
  unconditional.
- Reads at a revision answer exactly that revision's state, `Compacted` below the compaction floor,
  `FutureRevision` above the current one.
- `events(after, prefix)` yields every change after a revision in revision order; `Compacted` if
  some are gone.
- A failed operation changes nothing.

Operations are values (`Op`), so that a verb, written as a generator, runs straight through on a
store in memory and step by step over one that is slow, failing or remote.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import msgspec

from sim.units import NO_REVISION, Revision, Virtual, parse_time

NO_TIME = -1


ManagedBy = Literal["Apply", "Update"]


class Managed(msgspec.Struct, frozen=True, gc=False):
    """One managedFields entry. `fields` is an interned FieldsV1 tree; `time_s` is Unix time in
    seconds.
    """

    manager: str
    operation: ManagedBy
    api_version: str
    time_s: int
    fields: Any
    subresource: str = ""


def path_of(key: str) -> str:
    """A key in the form that people use: "//pods/default/web-1" is "pods/default/web-1"."""
    return "/".join(filter(None, key.split("/", 4)[2:]))


class Item:
    """One revision of one stored object; immutable, except for `raw`, its encodings by media type.

    key: "/<group>/<resource>/<namespace>/<name>", namespace empty for cluster-scoped kinds
         (e.g. "//pods/default/web-1", "//nodes//node-1", "/apps/replicasets/default/web")
    obj: the object in its storage version, without managedFields
    rev: revision of the write that made it; created: revision of the object's creation
    managed: field ownership, kept beside the object
    cause: trace record of the write that made it (0: not known), set as it commits
    """

    __slots__ = ("cause", "created", "key", "managed", "obj", "raw", "rev")

    def __init__(
        self,
        key: str,
        obj: dict[str, Any],
        rev: Revision,
        created: Revision,
        managed: tuple[Managed, ...] = (),
    ) -> None:
        self.key = key
        self.obj = obj
        self.rev = rev
        self.created = created
        self.managed = managed
        self.cause = 0
        self.raw: dict[str, bytes] | None = None

    def peek(self, section: str, field: str) -> Any:
        """One field of a section of the object (None if absent), read without building a lazy
        object.
        """
        return (self.obj.get(section) or {}).get(field)

    def peek_us(self, section: str, field: str) -> int:
        """As `peek`, for a time: microseconds since 1970, NO_TIME if absent."""
        text = self.peek(section, field)
        return parse_time(text) if text else NO_TIME

    def restamped(self, rev: Revision) -> Item:
        """The same state with another revision: the last state, as of its deletion."""
        metadata = {**self.obj["metadata"], "resourceVersion": str(rev)}
        return Item(self.key, {**self.obj, "metadata": metadata}, rev, self.created, self.managed)

    def __repr__(self) -> str:
        return f"Item({self.key!r}, rev={self.rev})"


HEARTBEAT = "lastHeartbeatTime"


class HeartbeatItem(Item):
    """A revision that changed nothing but heartbeat timestamps.

    base: the last revision that changed more
    like: the object of that revision; the cause too is that revision's

    Once superseded, it keeps the timestamps alone.
    """

    __slots__ = ("base", "like")

    base: int
    like: dict[str, Any]
    _kept: Any = vars(Item)["obj"]

    def pass_on(self) -> None:
        """Called when another revision supersedes this one."""
        conditions = (self.obj.get("status") or {}).get("conditions") or ()
        self.obj = tuple([condition.get(HEARTBEAT) for condition in conditions])

    @property
    def obj(self) -> Any:
        """The object as of this revision."""
        kept, like = self._kept, self.like
        if isinstance(kept, dict):
            return kept
        obj = {**like, "metadata": {**like["metadata"], "resourceVersion": str(self.rev)}}
        if kept:
            held = like["status"]["conditions"]
            conditions = [
                condition if time is None else {**condition, HEARTBEAT: time}
                for condition, time in zip(held, kept, strict=True)
            ]
            obj["status"] = {**like["status"], "conditions": conditions}
        return obj

    @obj.setter
    def obj(self, kept: Any) -> None:
        vars(Item)["obj"].__set__(self, kept)


class Change(msgspec.Struct, frozen=True, gc=False):
    """One committed write, as the history keeps it (a `Renewal` is its own change).

    item: the new state, or for a deletion the last state restamped with the deletion's revision
    prev: the state before (None: created)
    at_us: virtual time of the commit
    cause: trace record of the write
    """

    rev: Revision
    item: Item
    prev: Item | None
    deleted: bool
    at_us: Virtual
    cause: int = 0


class Gone(msgspec.Struct, gc=False):
    """The deletion of an expired object, as a `Change`; makes the last state when it is read."""

    rev: Revision
    prev: Item
    at_us: Virtual
    cause: int = 0
    made: Item | None = None

    @property
    def deleted(self) -> bool:
        """True: the change is a deletion."""
        return True

    @property
    def item(self) -> Item:
        """The last state, restamped with the deletion's revision."""
        if self.made is None:
            self.made = self.prev.restamped(self.rev)
            self.made.cause = self.cause
        return self.made


# --- operations -----------------------------------------------------------------------------------


class Get(msgspec.Struct, frozen=True):
    """Reads one key. Answers Item | None."""

    key: str


class Only(NamedTuple):
    """What a list selects by one label or field, as a hint.

    name: differs between labels and fields of one resource; read: reads the value of an object
    values: those that are selected
    """

    name: str
    read: Callable[[Item], str | None]
    values: tuple[str, ...]


class Range(msgspec.Struct, frozen=True):
    """Reads the keys in [start, prefix end) in key order, at `rev` (0: now). Answers Page |
    Compacted | FutureRevision.

    only: the store may leave out objects with other values; it is not used with a limit
    """

    prefix: str
    start: str = ""
    limit: int = 0
    rev: Revision = NO_REVISION
    only: Only | None = None


class Put(msgspec.Struct, frozen=True):
    """Writes one key. Answers Item (the one written) | Mismatch | Unavailable. `cause`: the trace
    record that led to it.
    """

    key: str
    obj: dict[str, Any]
    expect: int | None
    managed: tuple[Managed, ...] = ()
    cause: int = 0


class Delete(msgspec.Struct, frozen=True):
    """Deletes one key. Answers Item (last state, restamped with the deletion's revision) | Mismatch
    | Unavailable.
    """

    key: str
    expect: int | None
    cause: int = 0


class Pause(msgspec.Struct, frozen=True):
    """A pause in a verb, without an operation of the store. Answers None."""

    us: int


class Question(msgspec.Struct, frozen=True):
    """A call of a program outside of the server, such as an admission webhook.

    name: of the webhook
    authorities: PEM certificates in base64, as `caBundle` holds them; "" for those of the machine
    url, service: the address, one of both: a URL, or (namespace, name, path, port) of a Service
    body: what is sent, a JSON object
    timeout_us: how long an answer is waited for
    receiver: of a service that an option names, the option; then there is no address here
    kind: of an admission webhook, "admit" or "validating"
    fails_open: True if failures of an admission webhook are ignored
    """

    name: str
    url: str
    service: tuple[str, str, str, int] | None
    body: dict[str, Any]
    timeout_us: int
    authorities: str = ""
    receiver: str = ""
    kind: str = ""
    fails_open: bool = False


class Consult(msgspec.Struct, frozen=True):
    """Questions to programs outside, all at once. Answers `Consulted`; no store carries it out."""

    questions: tuple[Question, ...]


class Consulted(msgspec.Struct, frozen=True):
    """The answers to questions in the order in which they came: the index of the question, and the
    answer, a JSON value, or the text of the failure.
    """

    answers: tuple[tuple[int, Any, str], ...]


Op = Get | Range | Put | Delete | Pause | Consult


class Page(msgspec.Struct, frozen=True):
    """A range of items in key order. rev: revision of the read; more: True if further keys exist;
    remaining: their number.

    whole: of a range of which items were left out (`Range.only`): the number and the last of its
        keys
    """

    items: list[Item]
    rev: Revision
    more: bool = False
    remaining: int = 0
    whole: tuple[int, str] | None = None

    @property
    def count(self) -> int:
        """The number of items in the range, with those that were left out."""
        return len(self.items) if self.whole is None else self.whole[0]


class Mismatch(msgspec.Struct, frozen=True):
    """The expectation failed; `current` is what is stored (None: nothing)."""

    key: str
    current: Item | None


class Compacted(msgspec.Struct, frozen=True):
    """The revision is compacted; `floor` is the oldest one that can be read."""

    floor: int


class FutureRevision(msgspec.Struct, frozen=True):
    """The revision is above the current one."""

    current: int


class Unavailable(msgspec.Struct, frozen=True):
    """The store did not answer in time, or refused; whether a write was committed is unknown."""

    message: str


Answer = Item | None | Page | Mismatch | Compacted | FutureRevision | Unavailable | Consulted
