"""How audit events reach a backend: in batches, cut to a size, as lines of a log.

Turns events with the instants of their arrival into batches with the instants at which they may
leave, an event that is too large into one without its objects, and an event into a line.

Holds: events leave in the order of their arrival; a batch has at most the configured number of
events; what waits is bounded, and an event that finds no room is dropped.

Mirrors  kubernetes v1.25 apiserver plugin/pkg/audit/{buffered,truncate,log}, pkg/audit/format.go,
         client-go util/flowcontrol/throttle.go.
Differs  The batch that is being collected counts as waiting in the buffer; upstream's may exceed
         the buffer by that batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice

import msgspec

from sim.api.schema.json_text import go_quote
from sim.api.types import Obj
from sim.ident import Names
from sim.options.apiserver.audit import BLOCKING, JSON
from sim.units import SECOND


class Batching(msgspec.Struct, frozen=True):
    """How events are collected before they are sent.

    mode: batch sends later, in batches; blocking sends before the request continues;
        blocking-strict refuses a request if its first event cannot be sent
    interval_us, burst: of the batches that are sent; an interval of 0 is no bound
    """

    mode: str = BLOCKING
    buffer_max: int = 10_000
    batch_max: int = 1
    wait_us: int = 0
    interval_us: int = 0
    burst: int = 1


class Batcher:
    """The events that wait to be sent."""

    def __init__(self, batching: Batching) -> None:
        self._batching = batching
        self._waiting: deque[tuple[int, Obj]] = deque()
        self._free_us = 0  # when the rate would allow a batch if none before it had used the burst

    def add(self, event: Obj, now_us: int) -> bool:
        """Keep an event; False if it is dropped."""
        if len(self._waiting) >= self._batching.buffer_max:
            return False
        self._waiting.append((now_us, event))
        return True

    def due_us(self, now_us: int) -> int | None:
        """The instant at which the next batch may leave; None if nothing waits."""
        if not self._waiting:
            return None
        own = self._batching
        full = len(self._waiting) >= own.batch_max
        collected_us = now_us if full else self._waiting[0][0] + own.wait_us
        return max(collected_us, self._free_us - (own.burst - 1) * own.interval_us)

    def take(self, now_us: int) -> list[Obj]:
        """The batch that leaves now; empty if none is due."""
        due_us = self.due_us(now_us)
        return [] if due_us is None or due_us > now_us else self._remove(now_us)

    def take_rest(self) -> list[list[Obj]]:
        """Everything that waits, in batches, at the end of the process."""
        found = []
        while self._waiting:
            found.append(self._remove(self._waiting[0][0]))
        return found

    def _remove(self, now_us: int) -> list[Obj]:
        own, waiting = self._batching, self._waiting
        batch = [event for _, event in islice(waiting, own.batch_max)]
        for _ in batch:
            waiting.popleft()
        self._free_us = max(self._free_us, now_us) + own.interval_us
        return batch


def interval_us(qps: float) -> int:
    """The time between two batches at a rate."""
    return round(SECOND / qps)


# --- size -----------------------------------------------------------------------------------------


def cut_to(event: Obj, bytes_max: int, names: Names) -> Obj | None:
    """The event, without its objects if it is too large, or None if it is too large without them.

    bytes_max: of its line; 0 is no bound
    """
    if not bytes_max or _size(event) <= bytes_max:
        return event
    cut = {key: value for key, value in event.items() if key not in ("requestObject", "responseObject")}
    if event["level"] == "Metadata":
        return None
    annotations = {**event.get("annotations", {}), f"{names.group('audit')}/truncated": "true"}
    cut["annotations"] = dict(sorted(annotations.items()))
    return cut if _size(cut) <= bytes_max else None


def _size(event: Obj) -> int:
    return len(json_line(event))


# --- lines ----------------------------------------------------------------------------------------

_encode = msgspec.json.Encoder().encode


def json_line(event: Obj) -> bytes:
    """The event as a line of JSON."""
    return _encode(event) + b"\n"


def line(event: Obj, form: str) -> bytes:
    """The event as a line of a log of this format."""
    return json_line(event) if form == JSON else f"{legacy_text(event)}\n".encode()


def legacy_text(event: Obj) -> str:
    """The event as one line of text, with some of its fields."""
    user = event["user"]
    name = user.get("username") or "<none>"
    groups = _quoted(user.get("groups", ())) if user.get("username") and user.get("groups") else "<none>"
    other = event.get("impersonatedUser")
    acting = "<self>" if other is None else other.get("username", "")
    acting_groups = "<lookup>" if other is None or "groups" not in other else _quoted(other["groups"])
    namespace = event.get("objectRef", {}).get("namespace") or "<none>"
    status = event.get("responseStatus")
    ips = event.get("sourceIPs") or ["<unknown>"]
    fields = {
        "id": event["auditID"],
        "stage": event["stage"],
        "ip": ips[0],
        "method": event["verb"],
        "user": name,
        "groups": groups,
        "as": acting,
        "asgroups": acting_groups,
        "user-agent": event.get("userAgent", ""),
        "namespace": namespace,
        "uri": event["requestURI"],
        "response": "<deferred>" if status is None else str(status["code"]),
    }
    # Quirk: Go's RFC3339Nano leaves out zeros at the end of a fraction.
    stamp, _, fraction = event["requestReceivedTimestamp"].rstrip("Z").partition(".")
    fraction = fraction.rstrip("0")
    time = f"{stamp}.{fraction}Z" if fraction else f"{stamp}Z"
    return f"{time} AUDIT: " + " ".join(f"{key}={go_quote(value)}" for key, value in fields.items())


def _quoted(values: Sequence[str]) -> str:
    return ",".join(map(go_quote, values))
