"""Turns what the scheduler tells about pods into events of the newer kind, repeats into a series.

Holds: an event like one of the last 6 minutes (same pod at the same revision, reason and action) makes no new
object: its first repeat writes a series into it, further ones are only counted.

Mirrors  client-go v1.25 tools/events/{event_broadcaster,event_recorder}.go.
Differs  they are written as core/v1, the form in which both groups' events are stored; a series' count is written once, not again every 30 minutes and at its end.
"""

from __future__ import annotations

from typing import Any

from actors.scheduler.messages import note as cut
from sim.client import Client
from sim.client.client import PATCH_TYPES
from sim.kernel import Context
from sim.machinery.api import Obj, Reply
from sim.units import MINUTE, format_micro_time

FINISH_US = 6 * MINUTE  # finishTime
WAITING_MAX = 1_000  # maxQueuedEvents; what comes beyond is dropped and counted
_NO_SOURCE: Obj = {}
SERIES_MAX = 4_096  # events remembered; the oldest is forgotten first, its repeat then makes a new object


class EventSeries:
    """The recorder of one scheduler."""

    def __init__(self, ctx: Context, client: Client, component: str) -> None:
        self._ctx = ctx
        self._client = client
        self._component = component
        self._instance = f"{component}-{ctx.name}"
        self._recent: dict[tuple[str, ...], tuple[int, str, int]] = {}  # last seen, name, count
        self._made = 0
        self._waiting = 0
        self.dropped = 0

    def event(
        self, pod: Obj, kind: str, what: tuple[str, str], text: str, related: Obj | None = None
    ) -> None:
        """kind: Normal or Warning; what: reason and action."""
        now_us = self._ctx.wall_us()
        meta = pod["metadata"]
        key = (kind, *what, meta["namespace"], meta["name"], meta.get("resourceVersion", ""))
        last_us, name, count = self._recent.pop(key, (now_us - FINISH_US, "", 0))
        if name and now_us - last_us < FINISH_US:
            self._recent[key] = (now_us, name, count + 1)
            if count == 1:
                series = {"count": 2, "lastObservedTime": format_micro_time(now_us)}
                self._send("patch", meta["namespace"], name, {"series": series})
            return
        self._made += 1
        name = f"{meta['name']}.{now_us * 1000 + self._made % 1000:x}"
        if len(self._recent) >= SERIES_MAX:
            del self._recent[next(iter(self._recent))]
        self._recent[key] = (now_us, name, 1)
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": meta["namespace"]},
            "eventTime": format_micro_time(now_us),
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
        self._send("create", meta["namespace"], "", body)

    def _send(self, verb: str, namespace: str, name: str, body: Obj) -> None:
        if self._waiting >= WAITING_MAX:
            self.dropped += 1
            return
        self._waiting += 1
        kind = PATCH_TYPES["strategic"] if verb == "patch" else "application/json"
        request = self._client.request(verb, "events", namespace, name, body=body, content_type=kind)
        self._client.call(request, self._written)

    def _written(self, _: Reply) -> None:
        """An event that could not be written is given up."""
        self._waiting -= 1


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
