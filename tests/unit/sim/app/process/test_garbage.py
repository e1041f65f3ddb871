"""Full collections while no client is served."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from functools import partial
from itertools import count, repeat
from weakref import ref

import pytest
import trio
from trio.testing import MockClock

from sim.app.process.garbage import IDLE_S, OLD_MAX, collect_when_idle, rare_collections, young_collections


@pytest.fixture
def clock() -> MockClock:
    return MockClock(autojump_threshold=0)


class Circle:
    """Refers to itself."""

    def __init__(self) -> None:
        self.itself = self


@pytest.mark.parametrize(
    ("works", "turns", "freed"), [(repeat(1), 1, True), (repeat(1), OLD_MAX + 1, False), (count(), 1, False)]
)
async def test_old_cycles_are_freed_while_no_client_is_served(
    works: Iterator[int], turns: int, freed: bool, clock: MockClock
) -> None:
    with young_collections():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(collect_when_idle, partial(next, works))
            await trio.sleep(IDLE_S / 2)
            kept = Circle()
            old = ref(kept)
            for _ in range(turns):
                gc.collect(1)  # makes it old
            del kept
            await trio.sleep(2 * IDLE_S)
            assert (old() is None) is freed
            nursery.cancel_scope.cancel()
    gc.collect()
    assert old() is None
    assert gc.get_freeze_count() == 0


def test_collections_while_a_cluster_is_served_visit_few_objects() -> None:
    with rare_collections(), young_collections():
        young, middle, _ = gc.get_threshold()
        assert young * (middle + 1) <= 30_000


async def test_collection_does_not_look_at_what_was_there_before(clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(collect_when_idle, lambda: 0)
        await trio.sleep(IDLE_S / 2)
        assert gc.get_freeze_count() > 10_000
        nursery.cancel_scope.cancel()
