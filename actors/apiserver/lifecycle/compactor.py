"""Compaction of the storage's history, which API servers do by turns.

Mirrors  kubernetes v1.25 apiserver pkg/storage/etcd3/compact.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.apiserver.ports import StorageProcess
from sim.kernel import Context
from sim.units import NO_REVISION


class Compactor:
    """Every interval, compacts to the revision noted one interval before, if no other replica did;
    0: never.

    reached: whether the storage answers at once
    """

    def __init__(
        self, storage: StorageProcess, reached: Callable[[], bool], ctx: Context, interval_us: int
    ) -> None:
        self._storage = storage
        self._reached = reached
        self._ctx = ctx
        self._interval_us = interval_us
        self._version = storage.compaction.version
        self._rev = NO_REVISION
        if interval_us:
            self._again()

    def _again(self) -> None:
        self._ctx.call_later_us(self._interval_us, self._round)

    def _round(self, _: Any) -> None:
        storage = self._storage
        if self._reached():
            if storage.compaction.settle(self._version) and self._rev:
                storage.compact(self._rev)
            self._version = storage.compaction.version
            self._rev = storage.store.revision
        self._again()
