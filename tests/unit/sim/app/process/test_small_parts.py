"""What a process does for itself takes small parts of its time while clients are served."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from weakref import ref

import pytest

from actors.storage.memory import MemoryStore
from sim.app.cluster import Cluster
from sim.app.process.large_pages import OF_THIS_PROCESS
from sim.app.process.small_parts import PART, in_small_parts
from sim.app.serving.serve import served


class Change:
    """Stands for a change."""


def test_what_is_dropped_is_freed_in_parts_between_slices() -> None:
    kernel: Any = SimpleNamespace(after_slice=None)
    store: Any = SimpleNamespace(on_forget=None)
    with in_small_parts(kernel, store):
        changes = [Change() for _ in range(PART + 2)]
        known = [ref(each) for each in changes]
        for part in (changes[:2], changes[2:]):
            store.on_forget(part)
        del changes, part
        left = []
        for _ in range(3):
            left.append(sum(each() is not None for each in known))
            kernel.after_slice()
    assert left == [PART + 2, 2, 0]
    assert (kernel.after_slice, store.on_forget) == (None, None)


def test_compaction_hands_over_what_it_drops() -> None:
    store, dropped = MemoryStore(lambda: 7), list[Any]()
    store.on_forget = dropped.extend
    for name in "ab":
        store.put(f"//configmaps/default/{name}", {"metadata": {"name": name}}, 0)
    store.compact(1)
    assert [change.item.key for change in dropped] == ["//configmaps/default/a"]


@pytest.mark.slow
async def test_served_cluster_requests_no_large_pages_and_frees_in_parts() -> None:
    async with Cluster() as cluster:
        kernel, store = cluster.kernel, cluster.storage.store
        before = store.on_forget
        assert kernel.after_slice == OF_THIS_PROCESS.look
        async with served(cluster, pace=0.001):
            assert kernel.after_slice != OF_THIS_PROCESS.look
            assert store.on_forget != before
        assert (kernel.after_slice, store.on_forget) == (OF_THIS_PROCESS.look, before)
