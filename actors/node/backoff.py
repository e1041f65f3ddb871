"""Exponential back-off per key: when a container may be restarted or an image pulled again.  Pure.

Mirrors  client-go util/flowcontrol/backoff.go, as used by kuberuntime doBackOff and the image puller: the
         first restart is free and makes the entry; a container that ran longer than twice the maximum starts
         afresh (v1.25).
Differs  entries stay while their pod does: upstream's housekeeping also drops what was not raised for ten minutes, by which
         a container that ran for more than five of them waits less than its delay; known timing cases count that in full.
"""

from __future__ import annotations

from sim.units import SECOND

INITIAL_US = 10 * SECOND  # kubelet.go: backOffPeriod
MAX_US = 300 * SECOND  # kubelet.go: MaxContainerBackOff


class Backoff:
    """`delays`: key -> (delay, when it was last raised).  Pruned by `forget` when a pod goes."""

    __slots__ = ("entries", "initial_us", "max_us")

    def __init__(self, initial_us: int = INITIAL_US, max_us: int = MAX_US) -> None:
        self.initial_us = initial_us
        self.max_us = max_us
        self.entries: dict[str, tuple[int, int]] = {}

    def _expired(self, event_us: int, raised_us: int) -> bool:
        return event_us - raised_us > 2 * self.max_us

    def held_us(self, key: str, event_us: int, now_us: int) -> int:
        """The delay in force for an event (an exit, a failed pull) at that time; 0 if it is over."""
        entry = self.entries.get(key)
        if entry is None or self._expired(event_us, entry[1]):
            return 0
        return entry[0] if now_us - event_us < entry[0] else 0

    def held_since_update_us(self, key: str, now_us: int) -> int:
        """The delay in force, counted from when it was last raised; 0 if it is over."""
        entry = self.entries.get(key)
        if entry is None or self._expired(now_us, entry[1]):
            return 0
        return entry[0] if now_us - entry[1] < entry[0] else 0

    def next(self, key: str, event_us: int, now_us: int) -> None:
        """Raise the delay for what follows."""
        entry = self.entries.get(key)
        if entry is None or self._expired(event_us, entry[1]):
            self.entries[key] = (self.initial_us, now_us)
        else:
            self.entries[key] = (min(2 * entry[0], self.max_us), now_us)

    def forget(self, prefix: str) -> None:
        """Drop every key of a pod that is gone."""
        if self.entries:
            for key in [key for key in self.entries if key.startswith(prefix)]:
                del self.entries[key]
