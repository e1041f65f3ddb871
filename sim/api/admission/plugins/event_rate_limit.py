"""EventRateLimit: refuses Events of a server, namespace, user or source that come too fast.

Each limit has token buckets that refill with time, one per key; the least recently used buckets
are forgotten.

Holds: the buckets are the only state of admission; they belong to one run of one server.

Mirrors  kubernetes v1.25 plugin/pkg/admission/eventratelimit/{admission,limitenforcer,cache}.go.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Literal

import msgspec

from sim.api.admission.base import Attributes, Denial, Operation, View
from sim.api.types import Obj
from sim.units import SECOND

CACHE_SIZE = 4096  # limitenforcer.go: defaultCacheSize


class EventLimit(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One limit of the plugin's configuration.

    type: what each bucket is for
    qps: Events per second in the long run
    burst: Events at once
    cache_size: buckets that are remembered; 0: the default
    """

    type: Literal["Server", "Namespace", "User", "SourceAndObject"]
    qps: int
    burst: int
    cache_size: int = 0


class EventRateLimit:
    """Counts writes of Events."""

    def __init__(self, limits: Sequence[EventLimit]) -> None:
        self._buckets = [_Buckets(limit) for limit in limits]

    def judges(self, operation: Operation, plural: str, subresource: str) -> bool:
        """True for requests with objects that the plugin validates."""
        return operation != "delete" and plural == "events"

    def validate(self, attributes: Attributes, obj: Obj, view: View) -> Denial | None:
        """The refusal of an Event; None if it is allowed."""
        # Quirk: Events of the group events are not counted.  A dry run stores nothing.
        if attributes.resource.group or attributes.dry_run:
            return None
        view.mark_volatile()
        denial = None
        for buckets in self._buckets:
            key = _key(buckets.limit, attributes, obj)
            if not buckets.take(key, attributes.now_us):
                text = f"limit reached on type {buckets.limit.type} for key {key}"
                denial = Denial(429, "TooManyRequests", f"Too many requests: {text}", None)
        return denial


def _key(limit: EventLimit, attributes: Attributes, event: Obj) -> str:
    """The key of the bucket that an Event takes from."""
    match limit.type:
        case "Namespace":
            return attributes.namespace
        case "User":
            return attributes.user.name
        case "SourceAndObject":
            source, about = event.get("source") or {}, event.get("involvedObject") or {}
            parts = [source.get(name, "") for name in ("component", "host")]
            parts += [about.get(n, "") for n in ("kind", "namespace", "name", "uid", "apiVersion")]
            return "".join(parts)
        case _:
            return ""


class _Buckets:
    """The buckets of one limit: by key, the microtokens that are left and the time of that."""

    def __init__(self, limit: EventLimit) -> None:
        self.limit = limit
        self._size = limit.cache_size or CACHE_SIZE
        self._left: OrderedDict[str, tuple[int, int]] = OrderedDict()

    def take(self, key: str, now_us: int) -> bool:
        """Take one token; False if there is none."""
        full = self.limit.burst * SECOND
        left, then_us = self._left.pop(key, (full, now_us))
        left = min(full, left + max(0, now_us - then_us) * self.limit.qps)
        enough = left >= SECOND
        self._left[key] = (left - SECOND if enough else left, now_us)
        if len(self._left) > self._size:
            self._left.popitem(last=False)
        return enough
