"""Which events are worth a request: similar ones are combined, equal ones counted, floods cut off.

Turns an event into (event, None) to create, (event, patch) to count on, or None to drop.  Pure: time comes in.

Holds: each memory keeps CACHE_MAX keys and forgets the one not used for longest.  Of those, what time alone has
made equal to forgotten (a group of similar events that has lapsed, a full bucket) is dropped at once: a cluster of
many nodes remembers many events, and of most of them once.

Mirrors  client-go v1.25 tools/record/events_cache.go (aggregator, logger, spam filter).
Differs  with ten similar messages upstream drops an arbitrary one from its memory, here the oldest; the events of
         one correlator have one source, which is therefore no part of its keys.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from sim.machinery.api import Obj
from sim.units import format_time

CACHE_MAX = 4096  # maxLruCacheEntries
SIMILAR_MAX = 10  # defaultAggregateMaxEvents, within
SIMILAR_US = 600_000_000  # defaultAggregateIntervalInSeconds
SPAM_BURST = 25  # defaultSpamBurst, then one each
SPAM_TOKEN_US = 300_000_000  # 1 / defaultSpamQPS
SPAM_BURST_US = SPAM_BURST * SPAM_TOKEN_US

NUMBER_DIGITS_MAX = 16  # nanoseconds since 1970 in hexadecimal, for five hundred years
COMBINED = "(combined from similar events): "

Key = tuple[Any, ...]
State = tuple[int, str, str]  # count, name, first timestamp of an event in the API


@lru_cache(maxsize=4096)
def _shape(*parts: str | None) -> Key:
    """What the events of many objects have in common, as one object for all their keys."""
    return parts


def _about(ref: Obj) -> Key:
    """The object: the key of the spam filter."""
    return (ref["name"], ref.get("uid"), ref["kind"], ref.get("namespace"), ref.get("apiVersion"))


def _equal(event: Obj) -> Key:
    """The key of equal events."""
    ref = event["involvedObject"]
    shape = _shape(
        ref["kind"],
        ref.get("namespace"),
        ref.get("apiVersion"),
        ref.get("fieldPath"),
        event["type"],
        event["reason"],
        event["message"],
    )
    return (ref["name"], ref.get("uid"), shape)


def _packed(name: str, state: State) -> State | int:
    """The state of an event, as the number in its name where that tells all of it.

    An event that happened once is named after its object and the nanosecond of its first timestamp.
    """
    number = state[1].rpartition(".")[2]
    if state[0] == 1 and len(number) <= NUMBER_DIGITS_MAX:
        try:
            first_ns = int(number, 16)
        except ValueError:
            return state
        if _unpacked(name, first_ns) == state:
            return first_ns
    return state


def _unpacked(name: str, state: State | int) -> State:
    if isinstance(state, int):
        return 1, f"{name}.{state:x}", format_time(state // 1000)
    return state


class Correlator:
    """The memory of one recorder.  In each table the key used last stands last."""

    __slots__ = ("_counted", "_similar", "_spam")

    def __init__(self) -> None:
        self._similar: dict[Key, list[Any]] = {}  # when last used, then messages
        self._counted: dict[Key, State | int] = {}
        self._spam: dict[Key, int] = {}  # when the object's bucket would be full again

    def correlate(self, event: Obj, now_us: int) -> tuple[Obj, Obj | None] | None:
        about = _about(event["involvedObject"])
        event, key = self._aggregate(event, about, now_us)
        event, patch = self._observe(event, key)
        return (event, patch) if self._may_pass(about, now_us) else None

    def _may_pass(self, about: Key, now_us: int) -> bool:
        """Take a token of the object's bucket."""
        spam = self._spam
        while spam and spam[oldest := next(iter(spam))] <= now_us:
            del spam[oldest]  # full: as good as new
        held_us = spam.pop(about, 0)
        full_us = (held_us if held_us > now_us else now_us) + SPAM_TOKEN_US
        passes = full_us - SPAM_BURST_US <= now_us
        spam[about] = full_us if passes else held_us
        if len(spam) > CACHE_MAX:
            del spam[next(iter(spam))]
        return passes

    def _aggregate(self, event: Obj, about: Key, now_us: int) -> tuple[Obj, Key]:
        similar, message = self._similar, event["message"]
        while similar and now_us - similar[oldest := next(iter(similar))][0] > SIMILAR_US:
            del similar[oldest]
        group = (*about, event["type"], event["reason"])
        known = similar.pop(group, None)
        if known is None or now_us - known[0] > SIMILAR_US:
            known = [now_us, message]
        else:
            known[0] = now_us
            if message not in known:
                known.append(message)
        similar[group] = known
        if len(similar) > CACHE_MAX:
            del similar[next(iter(similar))]
        if len(known) <= SIMILAR_MAX:
            return event, _equal(event)
        del known[1]
        now = format_time(now_us)
        combined = {
            **event,
            "message": COMBINED + message,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        return combined, group

    def _observe(self, event: Obj, key: Key) -> tuple[Obj, Obj | None]:
        packed = self._counted.pop(key, None)
        patch: Obj | None = None
        if packed is not None:
            count, name, first = _unpacked(key[0], packed)
            event = {
                **event,
                "metadata": {**event["metadata"], "name": name},
                "count": count + 1,
                "firstTimestamp": first,
            }
            patch = {
                "count": count + 1,
                "lastTimestamp": event["lastTimestamp"],
                "message": event["message"],
            }
        self._count(key, (event["count"], event["metadata"]["name"], event["firstTimestamp"]))
        return event, patch

    def _count(self, key: Key, state: State) -> None:
        counted = self._counted
        counted.pop(key, None)
        counted[key] = _packed(key[0], state)
        if len(counted) > CACHE_MAX:
            del counted[next(iter(counted))]

    def update(self, event: Obj, stored: Obj) -> None:
        """The API took the event that `correlate` gave last: names and counts go on from what is stored."""
        count = int(stored.get("count") or event["count"])
        first = str(stored.get("firstTimestamp") or event["firstTimestamp"])
        name = str(stored["metadata"]["name"])
        if count == event["count"] and first == event["firstTimestamp"] and name == event["metadata"]["name"]:
            return  # as it was counted when it was sent
        ref = event["involvedObject"]
        combined = event["message"].startswith(COMBINED)
        key = (*_about(ref), event["type"], event["reason"]) if combined else _equal(event)
        self._count(key, (count, name, first))
