"""Which events are worth a request: similar ones are combined, equal ones counted, floods cut off.

Turns an event into (event, None) to create, (event, patch) to count on, or None to drop.  Pure: time comes in.

Holds: each memory keeps CACHE_MAX keys and forgets the one not used for longest.

Mirrors  client-go v1.25 tools/record/events_cache.go (aggregator, logger, spam filter).
Differs  with ten similar messages upstream drops an arbitrary one from its memory, here the oldest.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Generic, TypeVar

from sim.client.limiter import TokenBucket
from sim.machinery.api import Obj
from sim.units import format_time

CACHE_MAX = 4096  # maxLruCacheEntries
SIMILAR_MAX = 10  # defaultAggregateMaxEvents, within
SIMILAR_US = 600_000_000  # defaultAggregateIntervalInSeconds
SPAM_BURST = 25  # defaultSpamBurst, then one each
SPAM_QPS = 1 / 300  # defaultSpamQPS

Value = TypeVar("Value")


class Memory(Generic[Value]):
    """A bounded map that forgets what was not used for longest."""

    def __init__(self) -> None:
        self._entries: dict[Hashable, Value] = {}

    def get(self, key: Hashable) -> Value | None:
        value = self._entries.pop(key, None)
        if value is not None:
            self._entries[key] = value
        return value

    def put(self, key: Hashable, value: Value) -> None:
        self._entries.pop(key, None)
        self._entries[key] = value
        if len(self._entries) > CACHE_MAX:
            del self._entries[next(iter(self._entries))]


def _about(event: Obj) -> tuple[Any, ...]:
    """Source and object: the key of the spam filter."""
    source, ref = event["source"], event["involvedObject"]
    return (
        source["component"],
        source.get("host"),
        ref["kind"],
        ref.get("namespace"),
        ref["name"],
        ref.get("uid"),
        ref.get("apiVersion"),
    )


class Correlator:
    """The memory of one recorder."""

    def __init__(self) -> None:
        self._similar: Memory[tuple[dict[str, None], list[int]]] = Memory()
        self._counted: Memory[tuple[int, str, str]] = Memory()  # count, name, first timestamp
        self._spam: Memory[TokenBucket] = Memory()

    def correlate(self, event: Obj, now_us: int) -> tuple[Obj, Obj | None] | None:
        about = _about(event)
        event, key = self._aggregate(event, about, now_us)
        event, patch = self._observe(event, key)
        bucket = self._spam.get(about)
        if bucket is None:
            bucket = TokenBucket(SPAM_QPS, SPAM_BURST)
            self._spam.put(about, bucket)
        return (event, patch) if bucket.try_take(now_us) else None

    def _aggregate(self, event: Obj, about: tuple[Any, ...], now_us: int) -> tuple[Obj, Hashable]:
        group = (*about, event["type"], event["reason"])
        message = event["message"]
        known = self._similar.get(group)
        if known is None or now_us - known[1][0] > SIMILAR_US:
            known = ({}, [now_us])
            self._similar.put(group, known)
        messages, last = known
        messages[message] = None
        last[0] = now_us
        if len(messages) < SIMILAR_MAX:
            return event, (*group, event["involvedObject"].get("fieldPath"), message)
        del messages[next(iter(messages))]
        now = format_time(now_us)
        combined = {
            **event,
            "message": "(combined from similar events): " + message,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        return combined, group

    def _observe(self, event: Obj, key: Hashable) -> tuple[Obj, Obj | None]:
        known = self._counted.get(key)
        patch: Obj | None = None
        if known is not None:
            event = {
                **event,
                "metadata": {**event["metadata"], "name": known[1]},
                "count": known[0] + 1,
                "firstTimestamp": known[2],
            }
            patch = {
                "count": known[0] + 1,
                "lastTimestamp": event["lastTimestamp"],
                "message": event["message"],
            }
        state: tuple[int, str, str] = (event["count"], event["metadata"]["name"], event["firstTimestamp"])
        self._counted.put(key, state)
        return event, patch

    def update(self, event: Obj, stored: Obj) -> None:
        """The API took the event: names and counts go on from what is stored."""
        combined = event["message"].startswith("(combined from similar events): ")
        group = (*_about(event), event["type"], event["reason"])
        key = group if combined else (*group, event["involvedObject"].get("fieldPath"), event["message"])
        count = int(stored.get("count") or event["count"])
        first = str(stored.get("firstTimestamp") or event["firstTimestamp"])
        self._counted.put(key, (count, str(stored["metadata"]["name"]), first))
