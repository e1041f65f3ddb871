"""Which events are worth a request: similar ones are combined, equal ones counted, floods cut off.

Turns an event into (event, None) to create, (event, patch) to count on, or None to drop.  Pure:
time comes in.

Holds: each memory keeps CACHE_MAX keys and forgets the one not used for longest.  Of those, what
time alone has made equal to forgotten (a group of similar events that has lapsed, a full bucket) is
dropped at once, and what happened once, a while ago, is kept in a compact form: a cluster of many
nodes remembers many events, and of most of them once.

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
# Between two looks for what has lapsed: so long at most is it kept for nothing.
SWEEP_US = SIMILAR_US // 2
SPAM_BURST = 25  # defaultSpamBurst, then one each
SPAM_TOKEN_US = 300_000_000  # 1 / defaultSpamQPS
SPAM_BURST_US = SPAM_BURST * SPAM_TOKEN_US
NUMBER_BYTES = 8  # of a nanosecond since 1970

Key = tuple[Any, ...]
ROW = 3  # what is told of an object: uid, the rest of the keys, and the numbers
State = tuple[
    int, str, str, int
]  # count, name, first timestamp of an event in the API; number of the event used last


@lru_cache(maxsize=4096)
def _shape(*parts: str | None) -> Key:
    """What the events of many objects have in common, as one object for all their keys."""
    return parts


def _path(key: Key) -> str:
    """Of whom an event tells: "namespace/name", as informers know the object."""
    namespace = key[2][1] if len(key) == 3 else key[3]
    return f"{namespace}/{key[0]}"


class Correlator:
    """The memory of one recorder.  In each table the key used last stands last."""

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
        self._similar: dict[Key, tuple[Any, ...]] = {}  # when last used, then messages
        # The state in the API of what was counted.  Of most events it is a number, the nanosecond
        # of the only time that it happened: name and first timestamp follow from it.
        self._counted: dict[Key, State | int] = {}
        # What was counted once, long ago: by the object (`_path`) where its row begins, and the
        # rows one after the other.
        self._past: dict[str, int] = {}
        self._rows: list[Any] = []
        self._past_count = 0
        self._last = 0  # number of the newest event
        self._spam: dict[Key, int] = {}  # when the object's bucket would be full again
        self._sweep_us = 0
        self._key: Key = ()  # of the event that was correlated last

    def correlate(
        self, event: Obj, number: int, now_us: int, ahead_us: int = 0
    ) -> tuple[Obj, Obj | None] | None:
        """`number`: the nanosecond that the event is named after, in the second of its first
            timestamp; 0: in another.

        `now_us` is of a clock that nobody sets, `ahead_us` how much further the wall clock is.
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
        name, uid, kind = ref["name"], ref.get("uid"), ref["kind"]
        namespace, version = ref.get("namespace"), ref.get("apiVersion")
        about = (name, uid, kind, namespace, version)
        shape = _shape(kind, namespace, version, ref.get("fieldPath"), type_, reason, message)
        message = shape[-1]  # of equal texts one is kept
        # aggregate
        key: Key = (name, uid, kind, namespace, version, type_, reason)
        alike = self._similar
        similar = alike.pop(key, None)
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
        """To be called now and then, for the sake of memory: it changes nothing else."""
        if now_us >= self._sweep_us and (self._similar or self._spam):
            self._sweep(now_us)

    def _sweep(self, now_us: int) -> None:
        """Drop what time has made equal to forgotten, from the least recently used on."""
        self._sweep_us = now_us + SWEEP_US
        self._pack((now_us - SIMILAR_US) * 1000)
        lapsed_us = now_us - SIMILAR_US
        # A table keeps the room that it had, and is slow to empty from its begin: what stays goes
        # into another.
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
            full += 1  # as good as new
        self._spam = dict(islice(self._spam.items(), full, None))

    def _pack(self, until: int) -> None:
        """Keep what was counted once, before that nanosecond, in the compact form."""
        past, rows = self._past, self._rows
        if len(rows) > 2 * ROW * len(past):  # most of them are of objects forgotten since
            self._rows = rows = [value for at in past.values() for value in rows[at : at + ROW]]
            self._past = past = dict(zip(past, range(0, len(rows), ROW), strict=True))
        stays: dict[Key, State | int] = {}
        entries = iter(self._counted.items())
        group: list[tuple[Key, int]] = []  # of one object, one after the other
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
        """Into the compact form, if that holds nothing of another object of the same name."""
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
        """Take out what is known of an event, in either form."""
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
        """The table is full: keep all in the order of use again, which numbers tell."""
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
        """The API took the event that `correlate` gave last: names and counts go on from what is
        stored.
        """
        count, first, name = stored.get("count"), stored.get("firstTimestamp"), stored["metadata"]["name"]
        if count == event["count"] and first == event["firstTimestamp"] and name == event["metadata"]["name"]:
            return  # as it was counted when it was sent
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
    """The event under the name that it has in the API, and the patch that counts it there."""
    count, name, first, _ = state
    metadata = {**event["metadata"], "name": name}
    patch = {"count": count, "lastTimestamp": event["lastTimestamp"], "message": event["message"]}
    return {**event, "metadata": metadata, "count": count, "firstTimestamp": first}, patch


def _counted_on(known: State | int, name: str, number: int) -> State:
    """The state of an event that has happened once more.  `name`: of its object."""
    if isinstance(known, int):
        return 2, event_name(name, known), format_time(known // 1000), number
    return known[0] + 1, known[1], known[2], number


def event_name(name: str, number: int) -> str:
    """event.go: makeEvent; events are named after the object and the nanosecond."""
    return f"{name}.{number:x}"
