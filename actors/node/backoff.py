"""Exponential back-off per key: when a container may restart or an image may be pulled again.
Pure.

Mirrors  client-go util/flowcontrol/backoff.go, as used by kuberuntime doBackOff and the image
         puller: the first restart makes the entry and does not wait; a container that ran longer
         than twice the maximum starts with the initial delay again (v1.25).
Differs  entries stay as long as their pod.  Upstream's housekeeping also drops an entry that was
         not raised for ten minutes, so that a container that ran for more than five of them waits
         less than its delay.
"""

from __future__ import annotations

from sim.units import SECOND

INITIAL_US = 10 * SECOND  # kubelet.go: backOffPeriod
MAX_US = 300 * SECOND  # kubelet.go: MaxContainerBackOff


class Backoff:
    """Delays of one node.

    entries: key -> (delay, when it was last raised), both in microseconds; `forget` drops those of
        a pod
    """

    __slots__ = ("entries", "initial_us", "max_us")

    def __init__(self, initial_us: int = INITIAL_US, max_us: int = MAX_US) -> None:
        self.initial_us = initial_us
        self.max_us = max_us
        self.entries: dict[str, tuple[int, int]] = {}

    def _expired(self, event_us: int, raised_us: int) -> bool:
        """True if an entry no longer counts for an event."""
        return event_us - raised_us > 2 * self.max_us

    def held_us(self, key: str, event_us: int, now_us: int) -> int:
        """The delay that holds back what follows an event (an exit, a failed pull); 0 if it is
        over.
        """
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
        """Raise the delay for the next event."""
        entry = self.entries.get(key)
        if entry is None or self._expired(event_us, entry[1]):
            self.entries[key] = (self.initial_us, now_us)
        else:
            self.entries[key] = (min(2 * entry[0], self.max_us), now_us)

    def forget(self, prefix: str) -> None:
        """Drop every key that starts with the uid of a pod that no longer exists."""
        if self.entries:
            for key in [key for key in self.entries if key.startswith(prefix)]:
                del self.entries[key]
