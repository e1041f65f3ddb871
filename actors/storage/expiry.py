"""Expiry of objects that live for a fixed time: events.

Turns writes below a prefix into deletions a fixed time after the last write of each object, in
sweeps.

Holds: at most one sweep is pending, none if nothing can expire; a write of an object restarts its
time to live.

Mirrors  etcd leases as kubernetes v1.25 apiserver pkg/storage/etcd3/lease_manager.go uses them (one
         lease serves the keys of a period of at most 60 s, so an object expires up to that much
         late); --event-ttl.
Differs  a period begins at a whole multiple of its length, not with the first key after the end of
         the last period.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from sim.api.store import Change, Item
from sim.kernel import Kernel
from sim.units import SECOND, Virtual

# lease_manager.go: defaultLeaseReuseDurationSeconds, and the 0.05 of newDefaultLeaseManager; the
# smaller value applies.
SWEEP_MAX_US = 60 * SECOND
LONG_AGO_US = Virtual(-(1 << 62))  # before what earlier processes have written
SWEEPS = 20  # number of sweeps within an object's time to live


def sweep_us(ttl_us: int) -> int:
    """Time between sweeps, in whole seconds, because etcd's leases have whole seconds."""
    return max(SECOND, min(SWEEP_MAX_US, ttl_us // SWEEPS // SECOND * SECOND))


class Expiry:
    """Deletes objects of a resource `ttl_us` after their last write.

    prompt: returns True while the storage applies operations without delay
    expire: deletes those of these items that are still stored
    """

    def __init__(
        self, kernel: Kernel, prompt: Callable[[], bool], expire: Callable[[deque[Item]], None], ttl_us: int
    ) -> None:
        self._kernel, self._prompt, self._expire = kernel, prompt, expire
        self._ttl_us = ttl_us
        self._sweep_us = sweep_us(ttl_us)
        # Written items in order, by the instant of the first sweep at or after the end of their
        # time to live.
        self._written: deque[tuple[int, deque[Item]]] = deque()
        self._last: deque[Item] = deque()  # of them, those written until `_until_us`
        self._until_us = LONG_AGO_US
        self._pending = False

    def on_change(self, change: Change) -> None:
        """Take a change of an object."""
        if not change.deleted:
            if change.at_us > self._until_us:
                self._turn(change.at_us)
            self._last.append(change.item)

    def _turn(self, at_us: Virtual) -> None:
        """Begin a period: items written from now on belong to another sweep."""
        written = self._written
        due_us = -(-(at_us + self._ttl_us) // self._sweep_us) * self._sweep_us
        if not written or written[-1][0] != due_us:
            written.append((due_us, deque()))
        self._last, self._until_us = written[-1][1], Virtual(due_us - self._ttl_us)
        if not self._pending:
            self._plan()

    def _plan(self) -> None:
        self._pending = True
        due_us = self._written[0][0]
        kernel = self._kernel
        at_us = max(due_us, kernel.now_us + 1)
        kernel.call_at(Virtual(-(-at_us // self._sweep_us) * self._sweep_us), self._sweep)

    def _sweep(self, _: Any) -> None:
        self._pending, self._until_us = False, LONG_AGO_US
        written, now_us = self._written, self._kernel.now_us
        while written and written[0][0] <= now_us and self._prompt():
            self._expire(written.popleft()[1])
        if written:
            self._plan()
