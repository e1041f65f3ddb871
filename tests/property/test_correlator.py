"""The correlator, which drops what time has made equal to forgotten, against upstream's three
caches that do not.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.client.events import correlator
from sim.client.events.correlator import Correlator
from sim.units import format_time

CACHE_MAX = 3
SECOND = 1_000_000


class Lru:
    """A cache of CACHE_MAX keys, the one used last at the end."""

    def __init__(self) -> None:
        self.entries: dict[Any, Any] = {}

    def get(self, key: Any) -> Any:
        if key in self.entries:
            self.entries[key] = self.entries.pop(key)
        return self.entries.get(key)

    def add(self, key: Any, value: Any) -> None:
        self.entries.pop(key, None)
        self.entries[key] = value
        if len(self.entries) > CACHE_MAX:
            del self.entries[next(iter(self.entries))]


class Bucket:
    """A token each 300 s, 25 at most; an event without a token takes none."""

    def __init__(self) -> None:
        self.full_us = 0

    def try_take(self, now_us: int) -> bool:
        full_us = max(self.full_us, now_us) + 300 * SECOND
        if full_us - 25 * 300 * SECOND > now_us:
            return False
        self.full_us = full_us
        return True


class Model:
    """events_cache.go, word by word."""

    def __init__(self) -> None:
        self.aggregates, self.logged, self.spam = Lru(), Lru(), Lru()

    def correlate(self, event: dict[str, Any], now_us: int) -> tuple[dict[str, Any], Any] | None:
        about = str(event["involvedObject"])
        group = (about, event["type"], event["reason"])
        messages, last_us = self.aggregates.get(group) or ({}, now_us)
        if now_us - last_us > 600 * SECOND:
            messages = {}
        messages = {**messages, event["message"]: True}
        key: Any = (group, event["message"])
        if len(messages) >= 10:
            del messages[next(iter(messages))]
            now = format_time(now_us)
            text = "(combined from similar events): " + event["message"]
            event = {**event, "message": text, "firstTimestamp": now, "lastTimestamp": now}
            key = group
        self.aggregates.add(group, (messages, now_us))
        patch, logged = None, self.logged.get(key)
        if logged is not None:
            count, name, first = logged
            event = {**event, "count": count + 1, "firstTimestamp": first, "metadata": {"name": name}}
            patch = {"count": count + 1, "lastTimestamp": event["lastTimestamp"], "message": event["message"]}
        self.logged.add(key, (event["count"], event["metadata"]["name"], event["firstTimestamp"]))
        bucket = self.spam.get(about)
        if bucket is None:
            bucket = Bucket()
            self.spam.add(about, bucket)
        return (event, patch) if bucket.try_take(now_us) else None

    def update(self, sent: dict[str, Any], stored: dict[str, Any]) -> None:
        about = str(sent["involvedObject"])
        group = (about, sent["type"], sent["reason"])
        combined = sent["message"].startswith("(combined")
        state = (stored["count"], stored["metadata"]["name"], stored["firstTimestamp"])
        self.logged.add(group if combined else (group, sent["message"]), state)


STEPS = st.lists(
    st.tuples(
        st.integers(0, 4),  # object
        st.integers(0, 11),  # message
        # passed since
        st.sampled_from([0, 1, 30 * SECOND, 299 * SECOND, 300 * SECOND, 601 * SECOND]),
        st.sampled_from(["kept", "other count", "failed"]),  # what the API made of it
        st.integers(1, 30),  # times in a row
    ),
    max_size=40,
)


def _event(obj: int, message: int, now_us: int, number: int) -> dict[str, Any]:
    now, name = format_time(now_us), f"p{obj}"
    return {
        "metadata": {"name": f"{name}.{now_us * 1000 + number:x}"},
        "involvedObject": {"kind": "Pod", "name": name},
        "type": "Normal",
        "reason": "R",
        "message": f"m{message}",
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_what_is_dropped_early_is_never_missed(steps: list[tuple[int, int, int, str, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(correlator, "CACHE_MAX", CACHE_MAX)
        ours, model, now_us, number = Correlator(), Model(), 0, 0
        for obj, message, passed_us, outcome, times in steps:
            now_us += passed_us
            ours.tidy(now_us)
            for _ in range(times):
                number += 1  # a recorder's only grow
                event = _event(obj, message, now_us, number)
                sent = ours.correlate(event, now_us * 1000 + number, now_us)
                assert sent == model.correlate(event, now_us)
                if sent is not None and outcome != "failed":
                    stored = {**sent[0], "count": sent[0]["count"] + (outcome == "other count")}
                    ours.update(sent[0], stored)
                    model.update(sent[0], stored)


def test_event_with_a_name_without_its_time_is_counted() -> None:
    ours, event = Correlator(), _event(1, 1, 0, 7)
    ours.correlate({**event, "firstTimestamp": "t"}, 0, 0)
    again = ours.correlate(_event(1, 1, SECOND, 8), SECOND * 1000 + 8, SECOND)
    assert again is not None
    assert (again[0]["metadata"], again[0]["firstTimestamp"], again[0]["count"]) == (
        event["metadata"],
        "t",
        2,
    )


def test_an_event_that_happened_once_is_eight_bytes_once_its_group_has_lapsed() -> None:
    ours = Correlator()
    for obj in range(3):
        now_us = obj * 1000 * SECOND
        ours.correlate(_event(obj, 0, now_us, 7), now_us * 1000 + 7, now_us)
    assert len(ours._similar) == len(ours._spam) == 1
    assert [*ours._counted.values()] == [2000 * SECOND * 1000 + 7]
    assert {name: len(ours._rows[row + 2]) for name, row in ours._past.items()} == {
        "None/p0": 8,
        "None/p1": 8,
    }


def test_repeated_events_leave_no_compact_rows() -> None:
    ours, now_us = Correlator(), 0
    for obj in range(9):
        ours.correlate(_event(obj, 0, now_us, 7), now_us * 1000 + 7, now_us)
    for again in (1, 2):
        now_us = again * 1000 * SECOND
        for obj in range(8):
            sent = ours.correlate(_event(obj, 0, now_us, 7), now_us * 1000 + 7, now_us)
            assert sent is not None and sent[0]["count"] == 1 + again
    assert [*ours._past] == ["None/p8"]
    assert len(ours._rows) == 3
