"""Leases of objects that expire, and the compaction of etcd.

Turns the time that objects of a resource live into leases, each for the writes of a period, and an
interval into compactions, which the API servers of one etcd do by turns.

Mirrors  kubernetes v1.25 apiserver pkg/storage/etcd3/lease_manager.go (one lease serves the keys of
         a period of at most 60 s, and 1,000), compact.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from actors.storage.etcd import requests
from actors.storage.expiry import sweep_us
from actors.storage.memory import MemoryStore
from sim.api.store import Answer, Unavailable
from sim.kernel import Context, Kernel
from sim.units import SECOND, Revision
from sim.wire.etcd.link import OK
from sim.wire.etcd.messages import Done, Granted, decode, problem_of

KEYS_MAX = 1000
Then = Callable[[int, bytes], None]  # gets the code of an answer (0: there is none) and the body
Ask = Callable[[str, Mapping[str, Any], Then], None]


def failure(code: int, body: bytes) -> Unavailable:
    """What a request that failed is answered with."""
    if not code:
        return Unavailable(body.decode("utf-8", "replace"))
    problem = problem_of(body)
    return Unavailable(problem.error or problem.message or f"etcd answered with code {code}")


class Leases:
    """The leases of objects that end a fixed time after their last write.

    ttl_us: their time by prefix
    reuse_s: the longest period of one lease
    """

    def __init__(self, kernel: Kernel, ask: Ask) -> None:
        self.ttl_us: dict[str, int] = {}
        self.reuse_s = 60
        self._kernel, self._ask = kernel, ask
        self._lease, self._until_us, self._keys = 0, -1, 0
        self._waiting: list[tuple[Callable[[int], None], Callable[[Answer], None]]] = []

    def lease_for(self, key: str, then: Callable[[int], None], on_failure: Callable[[Answer], None]) -> None:
        """Call `then` with the lease of a key that is written now; 0 if it lives for ever."""
        ttl_us = self.ttl_us.get(key[: key.index("/", key.index("/", 1) + 1) + 1])
        if ttl_us is None:
            then(0)
            return
        if self._kernel.now_us < self._until_us and self._keys < KEYS_MAX:
            self._keys += 1
            then(self._lease)
            return
        self._waiting.append((then, on_failure))
        if len(self._waiting) == 1:
            reuse_us = min(self.reuse_s * SECOND, sweep_us(ttl_us))
            self._ask(
                requests.GRANT, {"TTL": (ttl_us + reuse_us) // SECOND}, partial(self._granted, reuse_us)
            )

    def _granted(self, reuse_us: int, code: int, body: bytes) -> None:
        waiting, self._waiting = self._waiting, []
        if code != OK:
            for _, on_failure in waiting:
                on_failure(failure(code, body))
            return
        self._lease = decode(Granted, body).ID
        self._until_us, self._keys = self._kernel.now_us + reuse_us, len(waiting)
        for then, _ in waiting:
            then(self._lease)


class Compactor:
    """Compacts etcd to the revision of one interval before, if no other API server did."""

    def __init__(self, store: MemoryStore, ask: Ask, interval_us: int) -> None:
        self._store, self._ask, self._interval_us = store, ask, interval_us
        self._version, self._rev = 0, 0

    def begin(self, ctx: Context) -> None:
        """Begin the rounds of an incarnation; none with an interval of 0."""
        self._ctx = ctx
        if self._interval_us:
            ctx.call_later_us(self._interval_us, self._round)

    def _round(self, _: object) -> None:
        self._ctx.call_later_us(self._interval_us, self._round)
        self._ask(requests.TXN, requests.settle(self._version, self._rev), self._settled)

    def _settled(self, code: int, body: bytes) -> None:
        if code != OK:
            return
        done, compacted = decode(Done, body), self._rev
        if done.succeeded:
            self._version += 1
        else:  # another server has taken the round
            result = done.responses[0].response_range if done.responses else None
            if result is None or not result.kvs:
                self._version = 0
                return
            self._version, compacted = result.kvs[0].version, int(result.kvs[0].value or 0)
        self._rev = done.header.revision
        if compacted:
            self._store.compact(Revision(compacted))
            if done.succeeded:
                self._ask(requests.COMPACT, {"revision": compacted}, lambda *_: None)
