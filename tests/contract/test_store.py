"""What every store promises (sim/api/store.py), held against each implementation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any
from uuid import uuid4

import pytest

from actors.storage import MemoryStore
from sim.api.store import (
    Change,
    Compacted,
    Delete,
    FutureRevision,
    Get,
    Item,
    Mismatch,
    Page,
    Put,
    Range,
)
from tests.cluster.daemons.running import needs_etcd
from tests.contract.durable_store import durable_store
from tests.contract.etcd_store import EtcdStore, etcd_of_tests

PODS = "//pods/"


def packed() -> MemoryStore:
    store = MemoryStore(lambda: 7)
    store.pack(PODS, young_max=0)
    return store


STORES: dict[str, Callable[[], MemoryStore]] = {"memory": lambda: MemoryStore(lambda: 7), "packed": packed}


@pytest.fixture(scope="module")
def etcd_url() -> Iterator[str]:
    with etcd_of_tests() as url:
        yield url


@pytest.fixture(params=[*STORES, "durable", pytest.param("etcd", marks=[pytest.mark.slow, needs_etcd])])
def store(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A store; over a real etcd each test has a prefix of its own."""
    if request.param == "durable":
        with durable_store(request.getfixturevalue("tmp_path")) as made:
            yield made
        return
    if request.param != "etcd":
        yield STORES[request.param]()
        return
    with closing(EtcdStore(request.getfixturevalue("etcd_url"), uuid4().hex)) as made:
        yield made


def put(store: MemoryStore, key: str, expect: int | None = None, **spec: Any) -> Item:
    answer = store.apply(Put(key, {"metadata": {"name": key.rsplit("/", 1)[1]}, "spec": spec}, expect))
    assert isinstance(answer, Item)
    return answer


def delete(store: MemoryStore, key: str, expect: int | None = None) -> Item:
    answer = store.apply(Delete(key, expect))
    assert isinstance(answer, Item)
    return answer


def page(store: MemoryStore, prefix: str, **kw: Any) -> Page:
    answer = store.apply(Range(prefix, **kw))
    assert isinstance(answer, Page)
    return answer


def names(found: Page) -> list[str]:
    return [item.key.rsplit("/", 1)[1] for item in found.items]


def test_each_write_raises_the_revision_by_one_and_stamps_it(store: MemoryStore) -> None:
    first = put(store, "//pods/a/x")
    second = put(store, "/apps/replicasets/a/y")
    third = put(store, "//pods/a/x", n=2)
    assert [first.rev, second.rev, third.rev, store.revision] == [1, 2, 3, 3]
    assert third.obj["metadata"]["resourceVersion"] == "3"
    assert (third.created, third.obj["spec"]) == (1, {"n": 2})
    assert first.obj["metadata"]["resourceVersion"] == "1"


def test_a_failed_expectation_changes_nothing_and_shows_what_is_stored(store: MemoryStore) -> None:
    assert store.apply(Put("//pods/a/x", {"metadata": {}}, 4)) == Mismatch("//pods/a/x", None)
    item = put(store, "//pods/a/x", 0)
    for wrong in (Put("//pods/a/x", {"metadata": {}}, 0), Delete("//pods/a/x", 9)):
        answer = store.apply(wrong)
        assert isinstance(answer, Mismatch) and answer.current is item
    assert store.apply(Delete("//pods/a/none", None)) == Mismatch("//pods/a/none", None)
    assert store.revision == 1
    assert put(store, "//pods/a/x", item.rev).rev == 2


def test_a_deletion_answers_the_last_state_with_its_own_revision(store: MemoryStore) -> None:
    put(store, "//pods/a/x", n=1)
    gone = delete(store, "//pods/a/x", 1)
    assert (gone.rev, gone.obj["metadata"]["resourceVersion"], gone.obj["spec"]) == (2, "2", {"n": 1})
    assert store.apply(Get("//pods/a/x")) is None
    again = put(store, "//pods/a/x", 0)
    assert (again.rev, again.created) == (3, 3)


def test_a_range_is_in_key_order_and_stays_within_its_prefix(store: MemoryStore) -> None:
    for key in ("//pods/x/b", "//pods/x/a", "//pods/x-b/c", "//podsets/x/d", "//pods/w/e"):
        put(store, key)
    # "-" sorts before "/": namespace x-b comes before x, as upstream
    assert names(page(store, PODS)) == ["e", "c", "a", "b"]
    assert names(page(store, "//pods/x/")) == ["a", "b"]
    delete(store, "//pods/x/a")
    assert names(page(store, "//pods/x/")) == ["b"]
    put(store, "//pods/x/a")
    assert names(page(store, "//pods/x/")) == ["a", "b"]


def test_limited_range_counts_the_rest_and_continues_from_a_key(store: MemoryStore) -> None:
    for name in "abcde":
        put(store, f"//pods/x/{name}")
    first = page(store, PODS, limit=2)
    assert (names(first), first.more, first.remaining) == (["a", "b"], True, 3)
    rest = page(store, PODS, start="//pods/x/b\0", limit=3)
    assert (names(rest), rest.more, rest.remaining) == (["c", "d", "e"], False, 0)


def test_range_is_complete_and_ordered_after_many_deletes_and_writes(
    store: MemoryStore,
) -> None:
    if isinstance(store, EtcdStore):
        pytest.skip("its lists are those of a store in memory, and 5,000 writes take long")
    for n in range(3000, 0, -1):
        put(store, f"//pods/a/{n:04}")
    assert len(names(page(store, PODS))) == 3000
    for n in range(1, 2501):
        delete(store, f"//pods/a/{n:04}")
    assert names(page(store, PODS)) == [f"{n:04}" for n in range(2501, 3001)]
    delete(store, "//pods/a/2600")
    for n in (2600, 7, 8, 7000):
        put(store, f"//pods/a/{n:04}")
    delete(store, "//pods/a/0008")
    expected = ["0007", *[f"{n:04}" for n in range(2501, 3001)], "7000"]
    assert names(page(store, PODS)) == expected


def test_a_range_at_a_revision_shows_exactly_that_state(store: MemoryStore) -> None:
    put(store, "//pods/x/a", n=1)
    put(store, "//pods/x/b")
    put(store, "//pods/x/a", n=2)
    delete(store, "//pods/x/b")
    put(store, "//pods/x/c")
    seen = {rev: [(i.key[-1], i.rev) for i in page(store, PODS, rev=rev).items] for rev in range(1, 6)}
    assert seen == {
        1: [("a", 1)],
        2: [("a", 1), ("b", 2)],
        3: [("a", 3), ("b", 2)],
        4: [("a", 3)],
        5: [("a", 3), ("c", 5)],
    }
    assert store.apply(Range(PODS, rev=6)) == FutureRevision(5)


def test_compaction_takes_reads_below_its_revision_and_nothing_else(store: MemoryStore) -> None:
    for n in range(5):
        put(store, "//pods/x/a", n=n)
    store.compact(3)
    assert store.floor == 3
    assert store.apply(Range(PODS, rev=2)) == Compacted(3)
    assert page(store, PODS, rev=3).items[0].obj["spec"] == {"n": 2}
    assert store.events(2, PODS) == store.stretches(2, PODS) == Compacted(3)
    assert changes(store.events(3, PODS)) == [4, 5]
    store.compact(2)
    assert store.floor == 3


def changes(found: list[Change] | Compacted) -> list[int]:
    assert isinstance(found, list)
    return [change.rev for change in found]


def test_events_come_in_revision_order_with_the_state_before(store: MemoryStore) -> None:
    put(store, "//pods/x/a", n=1)
    put(store, "//nodes//n")
    put(store, "//pods/y/a", n=2)
    delete(store, "//pods/x/a")
    assert changes(store.events(0, "")) == [1, 2, 3, 4]
    assert changes(store.events(1, PODS)) == [3, 4]
    assert changes(store.events(0, "//pods/x/")) == [1, 4]
    assert changes(store.events(0, "", 2)) == [1, 2]
    for after in (0, 1, 3, 4):
        parts = store.stretches(after, PODS)
        assert not isinstance(parts, Compacted)
        assert [change.rev for part in parts for change in part] == changes(store.events(after, PODS))
    found = store.events(0, PODS)
    assert isinstance(found, list)
    made, _, gone = found
    assert (made.prev, made.deleted, made.at_us) == (None, False, 7)
    assert gone.deleted and gone.prev is made.item and gone.item.rev == 4


def test_a_subscriber_sees_every_later_change_below_its_prefix_until_it_cancels(store: MemoryStore) -> None:
    put(store, "//pods/x/a")
    all_, some = [], []
    cancel = store.subscribe("", lambda change: all_.append(change.rev))
    store.subscribe("//pods/x/", lambda change: some.append(change.rev))
    put(store, "//pods/y/a")
    put(store, "//pods/x/a")
    cancel()
    delete(store, "//pods/x/a")
    assert (all_, some) == ([2, 3], [3, 4])


@pytest.mark.parametrize("kind", list(STORES))
def test_what_expired_is_remembered_as_what_was_deleted(kind: str) -> None:
    """Of `expire`, which only the store in memory has: the changes that `delete` of each would have
    made.
    """
    told: list[list[tuple[Any, ...]]] = []
    for expires in (True, False):
        store = STORES[kind]()
        assert isinstance(store, MemoryStore)
        store.note = lambda key, rev, cause: 100 * rev
        heard: list[Any] = []
        store.subscribe("//pods/x/", heard.append)
        items = [put(store, f"//pods/{space}/a", n=1) for space in "xyz"]
        rewritten = put(store, "//pods/y/a", n=2)
        if expires:
            store.expire(PODS, items)
        else:
            for item in items:
                if item.key != rewritten.key:
                    delete(store, item.key)
        found = store.events(4, PODS)
        assert isinstance(found, list)
        assert store.get(rewritten.key) is rewritten
        rows = []
        for change in [*found, heard[-1]]:
            item, was = change.item, change.prev.obj
            rows.append((change.rev, change.cause, change.deleted, change.at_us, was))
            rows.append((item.key, item.obj, item.rev, item.cause))
        told.append(rows)
        assert names(page(store, PODS, rev=4)) == ["a", "a", "a"]
    assert told[0] == told[1]
    assert [row[0] for row in told[0][::2]] == [5, 6, 5]
