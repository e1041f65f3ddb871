"""The predicate `led`: a lease has a holder that renewed it within its duration.

Turns the commits of leases into the same objects with a mark, `led`, which goes when the duration
has passed since the last renewal. `held` remains true after the death of all candidates; `led` does
not.

Holds: a lease that is renewed in time has no change.
"""

from __future__ import annotations

from typing import Any

from sim.api.store import Change
from sim.api.types import Obj
from sim.check.monitors.base import Emit, Monitor
from sim.units import SECOND

RESOURCE = "leases@led"
_DURATION_S = 15  # of a lease that does not say it


def led_resource(namespaces: str) -> str:
    """The resource of leases with the mark; namespaces: names with commas, "" for all"""
    plain = namespaces and not any(mark in namespaces for mark in "*?[")
    return f"{RESOURCE}@{namespaces}" if plain else RESOURCE


class Led(Monitor):
    """Reports whether leases are led."""

    wait_us = SECOND

    def __init__(self, resource: str, emit: Emit) -> None:
        super().__init__(resource, emit)
        self._namespaces = [one.strip() for one in resource.removeprefix(RESOURCE).strip("@").split(",")]
        self._over_us: dict[str, int] = {}  # when a led lease runs out, by its key
        self._last: dict[str, Obj] = {}

    def sources(self) -> frozenset[str]:
        """The leases, of some namespaces only where the condition names them."""
        return frozenset(f"leases/{name}" if name else "leases" for name in self._namespaces)

    def see(self, resource: str, change: Change) -> None:
        """Take a commit of a lease."""
        key, obj = change.item.key, change.item.obj
        if change.deleted:
            self._over_us.pop(key, None)
            self._last.pop(key, None)
            self._put(key, None, change.at_us)
        else:
            spec: Any = obj.get("spec") or {}
            before: Any = {} if change.prev is None else change.prev.obj.get("spec") or {}
            holder = spec.get("holderIdentity")
            renewed = holder != before.get("holderIdentity") or spec.get("renewTime") != before.get(
                "renewTime"
            )
            was = key in self._over_us
            if not holder:
                self._over_us.pop(key, None)
            elif renewed:
                duration_us = int(spec.get("leaseDurationSeconds") or _DURATION_S) * SECOND
                self._over_us[key] = change.at_us + duration_us
            now = key in self._over_us
            if change.prev is None or now is not was or holder != before.get("holderIdentity"):
                self._mark(key, obj, now, change.at_us)
            self._last[key] = obj
        self._next()

    def _mark(self, key: str, obj: Obj, led: bool, at_us: int) -> None:
        self._put(key, {**obj, "led": led}, at_us)

    def _next(self) -> None:
        self.due_us = min(self._over_us.values(), default=None)

    def advance(self, at_us: int) -> None:
        """Take the mark from leases that ran out."""
        while self.due_us is not None and self.due_us <= at_us:
            for key, over_us in list(self._over_us.items()):
                if over_us == self.due_us:
                    del self._over_us[key]
                    self._mark(key, self._last[key], False, over_us)
            self._next()
