"""Leases and compactions of a real etcd, by the requests that are sent."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from actors.storage.etcd.mirror import Mirror
from actors.storage.etcd.upkeep import Compactor, Leases, Then
from sim.api.store import Answer, Unavailable
from sim.units import SECOND, Revision, Virtual

EVENT = "//events/a/b"


class Etcd:
    """Takes requests, and answers each with the next answer."""

    def __init__(self, *answers: Any) -> None:
        self.sent: list[tuple[str, Mapping[str, Any]]] = []
        self.answers = [*answers]

    def ask(self, path: str, body: Mapping[str, Any], then: Then) -> None:
        self.sent.append((path, body))
        code, answer = self.answers.pop(0)
        then(code, msgspec.json.encode(answer))


def leases(etcd: Etcd) -> tuple[Leases, Any]:
    kernel: Any = SimpleNamespace(now_us=0)
    made = Leases(kernel, etcd.ask)
    made.ttl_us["//events/"] = 3600 * SECOND
    return made, kernel


def test_writes_of_a_period_share_a_lease_and_other_kinds_have_none() -> None:
    etcd = Etcd((200, {"ID": "7"}), (200, {"ID": "8"}))
    made, kernel = leases(etcd)
    given: list[int] = []
    for now_us, key in ((0, EVENT), (59 * SECOND, EVENT), (59 * SECOND, "//pods/a/b"), (60 * SECOND, EVENT)):
        kernel.now_us = now_us
        made.lease_for(key, given.append, lambda _: None)
    assert given == [7, 7, 0, 8]
    assert etcd.sent == [("lease/grant", {"TTL": 3660})] * 2


def test_a_shorter_reuse_makes_shorter_periods() -> None:
    etcd = Etcd((200, {"ID": "7"}), (200, {"ID": "8"}))
    made, kernel = leases(etcd)
    made.reuse_s = 10
    given: list[int] = []
    for kernel.now_us in (0, 10 * SECOND):
        made.lease_for(EVENT, given.append, lambda _: None)
    assert given == [7, 8]
    assert etcd.sent[0][1] == {"TTL": 3610}


def test_a_write_without_a_lease_fails_with_the_reason_of_etcd() -> None:
    made, _ = leases(Etcd((503, {"error": "etcdserver: no leader", "code": 14})))
    failed: list[Answer] = []
    made.lease_for(EVENT, lambda _: None, failed.append)
    assert failed == [Unavailable("etcdserver: no leader")]


@pytest.mark.parametrize("won", [True, False])
def test_a_round_of_compaction_has_one_winner_and_both_mirrors_follow(won: bool) -> None:
    """The first round notes a revision, the second one compacts to it, or follows the other server."""
    taken = {"responses": [{"response_range": {"kvs": [{"key": "", "version": "2", "value": "NQ=="}]}}]}
    second = {"header": {"revision": "9"}, "succeeded": won} | ({} if won else taken)
    first = {"header": {"revision": "5"}, "succeeded": True}
    etcd = Etcd((200, first), (200, second), (200, {}))
    mirror = Mirror(lambda: Virtual(0))
    mirror.replace([], Revision(2))
    mirror.advance(Revision(9))
    planned: list[Any] = []
    ctx: Any = SimpleNamespace(call_later_us=lambda _, call: planned.append(call))
    Compactor(mirror, etcd.ask, SECOND).begin(ctx)
    for _ in range(2):
        planned.pop()(None)
    assert mirror.floor == 5
    compactions = [body for path, body in etcd.sent if path == "kv/compaction"]
    assert compactions == ([{"revision": 5}] if won else [])
