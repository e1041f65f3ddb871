"""Event correlation: similar events are combined, equal ones are counted, floods are cut off.

Turns an event into (event, None) to create it, (event, patch) to count it, or None to drop it.
Pure: times are arguments.

Holds: each table keeps CACHE_MAX keys and drops the least recently used one. An entry that by time
alone has become equal to a missing one (an expired group of similar events, a full bucket) is
dropped at once, and an event that happened once, a while ago, is kept in a compact form: a cluster
of many nodes remembers many events, most of which happened once.

Mirrors  client-go v1.25 tools/record/events_cache.go (aggregator, logger, spam filter).
Differs  with ten similar messages upstream drops an arbitrary one from its memory, here the oldest;
         the events of one correlator have one source, which is therefore no part of its keys.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from sys import intern
from typing import Any

from sim.api.types import Obj
from sim.units import format_time

CACHE_MAX = 4096  # maxLruCacheEntries
SIMILAR_MAX = 10  # defaultAggregateMaxEvents, within
SIMILAR_US = 600_000_000  # defaultAggregateIntervalInSeconds
# Time between two sweeps for expired entries, and so the longest time for which one is kept.
SWEEP_US = SIMILAR_US // 2
SPAM_BURST = 25  # defaultSpamBurst; after these, one event for each SPAM_TOKEN_US
SPAM_TOKEN_US = 300_000_000  # 1 / defaultSpamQPS
SPAM_BURST_US = SPAM_BURST * SPAM_TOKEN_US
NUMBER_BYTES = 8  # bytes of a timestamp in nanoseconds since 1970

REFERENCE = ("name", "uid", "kind", "namespace", "apiVersion", "fieldPath")
Key = tuple[Any, ...]
ROW = 3  # row of an object: uid, remaining key parts, and numbers
State = tuple[
    int, str, str, int
]  # count, name, first timestamp of an event in the API; number of the event used last


@lru_cache(maxsize=4096)
def _shape(*parts: str | None) -> Key:
    """Interned key parts that events of many objects share, as one tuple for all their keys."""
    return parts


def _path(key: Key) -> str:
    """The object of an event as "namespace/name", in the form in which informers know it."""
    namespace = key[2][1] if len(key) == 3 else key[3]
    return f"{namespace}/{key[0]}"


class Correlator:
    """The memory of one recorder. In each table the most recently used key comes last."""

    __slots__ = (
        "_counted",
        "_key",
        "_last",
        "_past",
        "_past_count",
        "_rows",
        "_similar",
        "_spam",
        "_sweep_us",
    )

    def __init__(self) -> None:
        self._similar: dict[Key, tuple[Any, ...]] = {}  # time of the last use, then messages
        # The state of counted events in the API. For most it is a number, the nanosecond of their
        # only occurrence, from which name and first timestamp follow.
        self._counted: dict[Key, State | int] = {}
        # Events that were counted once, long ago: `_past` maps an object (`_path`) to the start of
        # its row, and the rows follow one another.
        self._past: dict[str, int] = {}
        self._rows: list[Any] = []
        self._past_count = 0
        self._last = 0  # number of the newest event
        self._spam: dict[Key, int] = {}  # when the object's bucket would be full again
        self._sweep_us = 0
        self._key: Key = ()  # key of the event correlated last

    def correlate(
        self, event: Obj, number: int, now_us: int, ahead_us: int = 0
    ) -> tuple[Obj, Obj | None] | None:
        """Decide whether an event is created, counted or dropped.

        number: the nanosecond in the event's name, if it lies in the second of its first timestamp;
            otherwise 0
        now_us: time of a clock that is never set
        ahead_us: wall clock minus that clock
        """
        if now_us >= self._sweep_us:
            self._sweep(now_us)
        self._last = number or self._last
        ref, message, reason, type_ = (
            event["involvedObject"],
            event["message"],
            event["reason"],
            event["type"],
        )
        name, uid, kind, namespace, version, path = map(ref.get, REFERENCE)
        about = (name, uid, kind, namespace, version)
        shape = _shape(kind, namespace, version, path, type_, reason, message)
        message = shape[-1]  # equal texts are interned
        # aggregate
        key: Key = (name, uid, kind, namespace, version, type_, reason)
        alike = self._similar
        similar, combined = alike.pop(key, None), False
        if similar is None or now_us - similar[0] > SIMILAR_US:
            similar = now_us, message
        else:
            similar = now_us, *similar[1:], *(() if message in similar else (message,))
            combined = len(similar) > SIMILAR_MAX
        alike[key] = similar if not combined else (now_us, *similar[2:])
        if len(alike) > CACHE_MAX:
            del alike[next(iter(alike))]
        state: State | int = number or (1, event["metadata"]["name"], event["firstTimestamp"], self._last)
        if combined:
            state = 1, event["metadata"]["name"], format_time(now_us + ahead_us), self._last
        else:
            key = (name, uid, shape)
        # observe
        known = self._recall(key) if self._past else self._counted.pop(key, None)
        counted_on: State | None = None
        if known is not None:
            state = counted_on = _counted_on(known, name, self._last)
        if self._past and len(self._counted) + self._past_count >= CACHE_MAX:
            self._unpack()
        counted = self._counted
        counted[key] = state
        if len(counted) > CACHE_MAX:
            del counted[next(iter(counted))]
        self._key = key
        # filter
        spam = self._spam
        held_us = spam.pop(about, 0)
        full_us = (held_us if held_us > now_us else now_us) + SPAM_TOKEN_US
        passes = full_us - SPAM_BURST_US <= now_us
        spam[about] = full_us if passes else held_us
        if len(spam) > CACHE_MAX:
            del spam[next(iter(spam))]
        if not passes:
            return None
        if combined:
            event = _combined(event, now_us + ahead_us)
        return (event, None) if counted_on is None else _recounted(event, counted_on)

    def tidy(self, now_us: int) -> None:
        """Free the memory of expired entries, to be called from time to time; no other effect."""
        if now_us >= self._sweep_us and (self._similar or self._spam):
            self._sweep(now_us)

    def _sweep(self, now_us: int) -> None:
        """Drop entries that have expired, from the least recently used on."""
        self._sweep_us = now_us + SWEEP_US
        self._pack((now_us - SIMILAR_US) * 1000)
        lapsed_us = now_us - SIMILAR_US
        # A dictionary keeps its capacity and is slow to empty from the front, so the remaining
        # entries go into a new one.
        stale = 0
        for similar in self._similar.values():
            if similar[0] >= lapsed_us:
                break
            stale += 1
        self._similar = dict(islice(self._similar.items(), stale, None))
        full = 0
        for full_us in self._spam.values():
            if full_us > now_us:
                break
            full += 1  # equal to a new one
        self._spam = dict(islice(self._spam.items(), full, None))

    def _pack(self, until: int) -> None:
        """Move events that were counted once, before that nanosecond, to the compact form."""
        past, rows = self._past, self._rows
        if len(rows) > 2 * ROW * len(past):  # most rows belong to objects that have been forgotten
            self._rows = rows = [value for at in past.values() for value in rows[at : at + ROW]]
            self._past = past = dict(zip(past, range(0, len(rows), ROW), strict=True))
        stays: dict[Key, State | int] = {}
        entries = iter(self._counted.items())
        group: list[tuple[Key, int]] = []  # consecutive events of one object
        for key, state in entries:
            if isinstance(state, int) and state < until:
                if group and (key[1] != group[0][0][1] or key[0] != group[0][0][0]):
                    self._put_away(group, stays)
                    group = []
                group.append((key, state))
                continue
            if group:
                self._put_away(group, stays)
                group = []
            stays[key] = state
            if isinstance(state, int):
                break
        if group:
            self._put_away(group, stays)
        stays.update(entries)
        self._counted = stays

    def _put_away(self, group: list[tuple[Key, int]], stays: dict[Key, State | int]) -> None:
        """Compact the events of one object, unless a row of another object of that name exists."""
        key, past, rows = group[0][0], self._past, self._rows
        path = _path(key)
        at = past.get(path)
        if at is None:
            past[intern(path)] = at = len(rows)
            rows += key[1], (), b""
        elif rows[at] != key[1]:
            stays.update(group)
            return
        rows[at + 1] = _shape(*rows[at + 1], *[key[2] for key, _ in group])
        rows[at + 2] += b"".join([number.to_bytes(NUMBER_BYTES) for _, number in group])
        self._past_count += len(group)

    def _recall(self, key: Key) -> State | int | None:
        """Remove and return the state of an event, from either form."""
        path, rows = _path(key), self._rows
        row = self._past.get(path)
        if row is None or key[1] != rows[row] or key[2] not in rows[row + 1]:
            return self._counted.pop(key, None)
        _, shapes, numbers = rows[row : row + ROW]
        at = shapes.index(key[2])
        start, end = at * NUMBER_BYTES, (at + 1) * NUMBER_BYTES
        self._past_count -= 1
        if len(shapes) == 1:
            del self._past[path]
            rows[row : row + ROW] = [None] * ROW
        else:
            rows[row + 1 : row + ROW] = (
                _shape(*shapes[:at], *shapes[at + 1 :]),
                numbers[:start] + numbers[end:],
            )
        return int.from_bytes(numbers[start:end])

    def _unpack(self) -> None:
        """Restore all entries in the order of use, which their numbers give: the table is full."""
        entries: list[tuple[Key, State | int]] = []
        for path, row in self._past.items():
            uid, shapes, numbers = self._rows[row : row + ROW]
            name = path.partition("/")[2]
            for at, shape in enumerate(shapes):
                number = int.from_bytes(numbers[at * NUMBER_BYTES : (at + 1) * NUMBER_BYTES])
                entries.append(((name, uid, shape), number))
        self._past, self._rows, self._past_count = {}, [], 0
        entries += self._counted.items()
        entries.sort(key=lambda entry: entry[1] if isinstance(entry[1], int) else entry[1][3])
        self._counted = dict(entries)

    def update(self, event: Obj, stored: Obj) -> None:
        """The API accepted the event that `correlate` returned last: names and counts continue from
        the stored event.
        """
        count, first, name = stored.get("count"), stored.get("firstTimestamp"), stored["metadata"]["name"]
        if count == event["count"] and first == event["firstTimestamp"] and name == event["metadata"]["name"]:
            return  # already counted when it was sent
        if self._past:
            self._recall(self._key)
        self._counted[self._key] = (
            int(count or event["count"]),
            str(name),
            str(first or event["firstTimestamp"]),
            self._last,
        )


def _combined(event: Obj, wall_us: int) -> Obj:
    now = format_time(wall_us)
    return {
        **event,
        "message": "(combined from similar events): " + event["message"],
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


def _recounted(event: Obj, state: State) -> tuple[Obj, Obj]:
    """The event under its name in the API, and the patch that updates its count there."""
    count, name, first, _ = state
    metadata = {**event["metadata"], "name": name}
    patch = {"count": count, "lastTimestamp": event["lastTimestamp"], "message": event["message"]}
    return {**event, "metadata": metadata, "count": count, "firstTimestamp": first}, patch


def _counted_on(known: State | int, name: str, number: int) -> State:
    """The state of an event after one more occurrence.  name: name of its object."""
    if isinstance(known, int):
        return 2, event_name(name, known), format_time(known // 1000), number
    return known[0] + 1, known[1], known[2], number


def event_name(name: str, number: int) -> str:
    """event.go: makeEvent; events are named after the object and the nanosecond."""
    return f"{name}.{number:x}"
