"""Turns the scheduler's messages about pods into events of the newer kind, and repeats into a
series.

Holds: an event equal to a remembered one (same pod at the same revision, same other pod, reason and
action) makes no new object: the first repeat writes a series into it, and further ones are only
counted. Every 6 minutes the events older than that are forgotten, so each is remembered for 6 to 12
minutes. A request that reaches no server is sent again; the repeat of an event that does not exist
(it never reached a server, or was deleted) creates it with its series.

Mirrors  client-go v1.25 tools/events/{event_broadcaster,event_recorder}.go.
Differs  the events are written as core/v1, the form in which events of both groups are stored; the
         count of a series is written once, not again every 30 minutes and at its end.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from actors.scheduler.messages import note as cut
from sim.api.types import Obj, Reply, Request
from sim.client import Client, CoalescedCalls
from sim.client.client import PATCH_TYPES
from sim.client.events.recorder import RETRY_US, TRIES_MAX
from sim.client.fast.coalesced_calls import Served
from sim.kernel import Context
from sim.units import MINUTE, format_micro_time

FINISH_US = 6 * MINUTE  # finishTime
JITTER_US = RETRY_US // 4  # at most, on top of it
WAITING_MAX = 1_000  # maxQueuedEvents; further events are dropped and counted
_NO_SOURCE: Obj = {}
# Remembered events; beyond it the oldest is forgotten, and its repeat is a new object.
SERIES_MAX = 4_096


class Telling:
    """One new event that is being sent, by a server's fast path if it has one."""

    __slots__ = ("_body", "_client", "_on_reply", "_shape", "calls", "tries")

    def __init__(self, client: Client) -> None:
        self._client = client
        self.tries = 0
        self.calls: CoalescedCalls = client.coalesced_calls("events", verb="create")
        self._body: Obj = {}
        self._on_reply: Callable[[Telling, Reply], None]
        self._shape: tuple[str | int, ...] = ()

    def send(self, body: Obj, on_reply: Callable[[Telling, Reply], None]) -> None:
        """Send an event; `on_reply` is not called for a plain success (see `CoalescedCalls.over`)."""
        self._body, self._on_reply, self.tries = body, on_reply, 0
        # The request shape: these words, and the length of the message.
        self._shape = (
            body["type"], body["reason"], body["action"], body["reportingComponent"], body["reportingInstance"],
            len(body["message"]),
        )  # fmt: skip
        self.send_again(None)

    def send_again(self, _: Any) -> None:
        """Send the event, for the first time or again."""
        self.tries += 1
        body, answered = self._body, partial(self._on_reply, self)
        short = body["message"] and "related" not in body and all(body["involvedObject"].values())
        self.calls.call(self._tell if short else None, self._creation, answered, quiet=True)

    def _tell(self, way: Any) -> Served | None:
        served: Served | None = way.tell(self._body, self._shape)
        return served

    def _creation(self) -> Request:
        return self._client.request("create", "events", self._body["metadata"]["namespace"], body=self._body)


class EventSeries:
    """The event recorder of one scheduler.

    dropped: number of events that were not sent because too many were under way
    """

    def __init__(self, ctx: Context, client: Client, component: str) -> None:
        self._ctx = ctx
        self._client = client
        self._random = ctx.stream("events").random
        self._began_us = ctx.wall_us()
        self._component = component
        self._instance = f"{component}-{ctx.name}"
        # For each event: the times of its first and last occurrence, its name, its text, its count.
        self._recent: dict[tuple[str, ...], tuple[int, int, str, str, int]] = {}
        self._made = 0
        self._under_way: dict[Telling, None] = {}
        self._idle: list[Telling] = []
        self._patches = 0
        self.dropped = 0

    def event(
        self, pod: Obj, kind: str, what: tuple[str, str], text: str, related: Obj | None = None
    ) -> None:
        """Record an event.

        kind: Normal or Warning
        what: reason and action
        """
        now_us = self._ctx.wall_us()
        meta = pod["metadata"]
        key: tuple[str, ...] = (kind, *what, meta["namespace"], meta["name"], meta.get("resourceVersion", ""))
        if related is not None:
            key += tuple(_reference(related).values())
        first_us, last_us, name, said, count = self._recent.pop(key, (0, 0, "", "", 0))
        looked_us = (
            now_us - (now_us - self._began_us) % FINISH_US
        )  # the last time at which old events were forgotten
        if name and last_us >= looked_us - FINISH_US:
            self._recent[key] = (first_us, now_us, name, said, count + 1)
            if count == 1:
                series = {"count": 2, "lastObservedTime": format_micro_time(now_us)}
                self._patch(self._body(pod, kind, what, (name, first_us, said), related) | {"series": series})
            return
        self._made += 1
        name = f"{meta['name']}.{now_us * 1000 + self._made % 1000:x}"
        if len(self._recent) >= SERIES_MAX:
            del self._recent[next(iter(self._recent))]
        self._recent[key] = (now_us, now_us, name, text, 1)
        self._create(self._body(pod, kind, what, (name, now_us, text), related))

    def _body(
        self, pod: Obj, kind: str, what: tuple[str, str], said: tuple[str, int, str], related: Obj | None
    ) -> Obj:
        """Return the object of a new event; `said` holds its name, time and text."""
        name, at_us, text = said
        body: Obj = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": pod["metadata"]["namespace"]},
            "eventTime": format_micro_time(at_us),
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
            "action": what[1],
            "reason": what[0],
            "involvedObject": _reference(pod),
            "message": cut(text),
            "type": kind,
            "source": _NO_SOURCE,
            "firstTimestamp": None,
            "lastTimestamp": None,
        }
        if related is not None:
            body["related"] = _reference(related)
        return body

    def _full(self) -> bool:
        """Return True if no more events can be sent now; the caller then drops the event."""
        for telling in [telling for telling in self._under_way if telling.calls.over()]:
            self._end(telling)
        full = len(self._under_way) + self._patches >= WAITING_MAX
        self.dropped += full
        return full

    def _create(self, body: Obj) -> None:
        if not self._full():
            telling = self._idle.pop() if self._idle else Telling(self._client)
            self._under_way[telling] = None
            telling.send(body, self._written)

    def _written(self, telling: Telling, reply: Reply) -> None:
        """Send the event again if the reply was lost; do not repeat one that a server refused."""
        if reply.lost and telling.tries < TRIES_MAX:
            self._ctx.call_later_us(self._pause_us(), telling.send_again)
        else:
            self._end(telling)

    def _pause_us(self) -> int:
        return RETRY_US + int(self._random() * JITTER_US)

    def _end(self, telling: Telling) -> None:
        del self._under_way[telling]
        self._idle.append(telling)

    def _patch(self, body: Obj) -> None:
        """Write the series of an event into its object."""
        if not self._full():
            self._patches += 1
            self._send_series((body, 1))

    def _send_series(self, series: tuple[Obj, int]) -> None:
        body, tries = series
        meta, change = body["metadata"], {"series": body["series"]}
        kind = PATCH_TYPES["strategic"]
        request = self._client.request(
            "patch", "events", meta["namespace"], meta["name"], body=change, content_type=kind
        )

        def patched(reply: Reply) -> None:
            if reply.lost and tries < TRIES_MAX:
                self._ctx.call_later_us(self._pause_us(), self._send_series, (body, tries + 1))
                return
            self._patches -= 1
            if reply.reason == "NotFound":
                self._create(body)

        self._client.call(request, patched)


def _reference(pod: Obj) -> Obj:
    meta = pod["metadata"]
    return {
        "kind": "Pod",
        "namespace": meta["namespace"],
        "name": meta["name"],
        "uid": meta.get("uid", ""),
        "apiVersion": "v1",
        "resourceVersion": meta.get("resourceVersion", ""),
    }
