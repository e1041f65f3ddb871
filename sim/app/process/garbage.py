"""Python's cyclic garbage collector during a run: switched off, limited to young objects, or full
while no client is served.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

NEVER_FULL = 1 << 30  # collections of young objects before a full one
IDLE_S = 2.0  # without work for clients, before a full collection
OLD_MAX = 3  # middle collections since the last full one, after which that would take over 60 ms
MIDDLE = 2  # young collections before a middle one, which visits 30,000 objects; Python takes 10
YOUNG = 10_000  # new objects before a collection of young ones; Python begins with 700


@contextmanager
def rare_collections() -> Iterator[None]:
    """Let the cyclic garbage collector run rarely while a command is carried out.

    The import of 1,000 modules makes some 200,000 objects that stay; to look at them again and
    again took a tenth of its time.
    """
    before = gc.get_threshold()
    gc.set_threshold(YOUNG, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextmanager
def no_collection() -> Iterator[None]:
    """Switch the cyclic garbage collector off while a simulation runs.

    The objects and the history of a cluster are acyclic, and a running cluster leaves no cycles
    (`tests/cluster/faults/test_garbage.py`); only a crash of a process does, and its memory stays
    until the end. One full collection took 4 % of the time of a run, repeated ones a fifth.
    """
    before = gc.isenabled()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if before:
            gc.enable()


@contextmanager
def young_collections() -> Iterator[None]:
    """Limit the cyclic garbage collector to young objects while a cluster is served.

    A full collection visits each object of the cluster: 280 to 480 ms every few seconds with 4,000
    pods. Neither a cluster nor a request leaves cycles (`tests/cluster/faults/test_garbage.py`);
    most cycles of libraries are found young.  A middle collection of 100,000 objects takes 15 to 30
    ms, so that it comes more often and visits fewer.
    """
    before = gc.get_threshold()
    gc.set_threshold(before[0], MIDDLE, NEVER_FULL)
    try:
        yield
    finally:
        gc.set_threshold(*before)


async def collect_when_idle(work: Callable[[], int]) -> None:
    """Free cycles that are no longer young while no client waits; runs until it is cancelled.

    What is found alive is not looked at again, so that each collection visits only what was made
    since the one before: some 10 ms for 100,000 objects, and none of what a cluster began with.
    What is more than that, after a long time without a rest, is kept without a look: requests leave
    no cycles.

    work: counts what clients do
    """
    import trio

    gc.freeze()
    done = work()
    try:
        while True:
            await trio.sleep(IDLE_S)
            before, done = done, work()
            old = gc.get_count()[2]  # middle collections since the last full one
            if before == done and old:
                if old <= OLD_MAX:
                    gc.collect()
                gc.freeze()
    finally:
        gc.unfreeze()
