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
from typing import Any, Protocol

from actors.storage.memory import MemoryStore
from sim.api.store import Change, Item
from sim.kernel import Kernel
from sim.units import SECOND, Virtual

# lease_manager.go: defaultLeaseReuseDurationSeconds, and the 0.05 of newDefaultLeaseManager; the
# smaller value applies.
SWEEP_MAX_US = 60 * SECOND
SWEEPS = 20  # number of sweeps within an object's time to live


def sweep_us(ttl_us: int) -> int:
    """Time between sweeps, in whole seconds, because etcd's leases have whole seconds."""
    return max(SECOND, min(SWEEP_MAX_US, ttl_us // SWEEPS // SECOND * SECOND))


class ExpiringStorage(Protocol):
    """The storage process as `Expiry` uses it.

    writer: the user and verb that trace records of the next write name
    prompt: True while the storage applies operations without delay
    """

    kernel: Kernel
    name: str
    writer: tuple[str, str]

    @property
    def store(self) -> MemoryStore:
        """The store with the objects that expire."""
        ...

    @property
    def prompt(self) -> bool:
        """True while the storage applies operations without delay."""
        ...


class Expiry:
    """Deletes objects below `prefix`, `ttl_us` after their last write."""

    def __init__(self, storage: ExpiringStorage, prefix: str, ttl_us: int) -> None:
        self._storage = storage
        self._prefix = prefix
        self._ttl_us = ttl_us
        self._sweep_us = sweep_us(ttl_us)
        # Written items in order, by the instant of the first sweep at or after the end of their
        # time to live.
        self._written: deque[tuple[int, deque[Item]]] = deque()
        self._last: deque[Item] = deque()  # of them, those written until `_until_us`
        self._until_us = -1
        self._pending = False
        storage.store.subscribe(prefix, self._on_change)

    def _on_change(self, change: Change) -> None:
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
        self._last, self._until_us = written[-1][1], due_us - self._ttl_us
        if not self._pending:
            self._plan()

    def _plan(self) -> None:
        self._pending = True
        due_us = self._written[0][0]
        kernel = self._storage.kernel
        at_us = max(due_us, kernel.now_us + 1)
        kernel.call_at(Virtual(-(-at_us // self._sweep_us) * self._sweep_us), self._sweep)

    def _sweep(self, _: Any) -> None:
        self._pending, self._until_us = False, -1
        storage, written = self._storage, self._written
        store, now_us = storage.store, storage.kernel.now_us
        while written and written[0][0] <= now_us and storage.prompt:
            _, due = written.popleft()
            storage.writer = (storage.name, "expire")
            store.expire(self._prefix, due)
        if written:
            self._plan()
