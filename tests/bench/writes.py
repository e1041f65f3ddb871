"""Measure the writes of starting pods by themselves: a lower bound of the time to fill a cluster.

python -m tests.bench.writes [NODES [PODS]]

A cluster is filled, and the writes of pods and events are recorded. Then the same is written
again, at the same instants, into the storage of a cluster that has only the readers of these
writes: one reader of all pods for the controllers, one for the scheduler, one of its own pods for
each node. No request is sent, admitted, validated or owned, no reader does anything, no node
renews a lease: what is left is revisions, history, trace, watch caches and delivery to the readers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import trio

from actors.storage.compact.shapes import SPLIT, split
from sim.api.store import Change, Item, Managed
from sim.api.types import Obj
from sim.app.cluster import Cluster
from sim.app.process.garbage import no_collection
from sim.client import Client
from sim.client.cache.informer import Informers, Objects
from sim.kernel.tasks import ALONE_S
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from tests.bench.big import Clock, fill, planned, sizes
from tests.bench.timing import machine

READERS = ("controllers", "scheduler")
NOBODY = ComponentPlan(replicas=0)
# Time, key, object, owner; for an event its shape and its values, as its write template has them.
Write = tuple[int, str, Obj, tuple[Managed, ...], tuple[Any, ...], list[Any]]


class Kept:
    """The writes of one filling."""

    def __init__(self) -> None:
        self.writes: list[Write] = []

    def see(self, change: Change) -> None:
        item = change.item
        if change.deleted:
            return
        obj, flat = {**item.obj, "metadata": {**item.obj["metadata"]}}, list[Any]()
        form = [*obj]
        if item.key.startswith("//events/"):
            assert split(obj, SPLIT, form, flat)
        self.writes.append((change.at_us, item.key, obj, item.managed, tuple(form), flat))


class Writer:
    """Writes them again."""

    def __init__(self, cluster: Cluster, writes: list[Write]) -> None:
        self._storage, self._store = cluster.storage, cluster.storage.store
        self._patterns: dict[tuple[Any, ...], Any] = {}  # of events, by their form
        for at_us, *write in writes:
            cluster.kernel.call_at(at_us, self._write, write)

    def _write(self, write: Any) -> None:
        key, obj, managed, form, flat = write
        self._storage.writer = "somebody", "write"
        if flat and (pattern := self._patterns.get(form)) is not None:
            if self._store.cast(key, pattern, flat, managed) is not None:
                return
        held = self._store.get(key)
        done = self._store.put(key, obj, 0 if held is None else held.rev, managed)
        assert isinstance(done, Item)
        if flat:
            self._patterns[form] = self._store.pattern(done)


def reader(fields: list[str], told: list[int]) -> Callable[[Client], Any]:
    """A program that receives pods, in one view for each selection, and counts them."""

    def see(*_: Objects) -> None:
        told[0] += 1

    async def main(client: Client) -> None:
        informers = Informers(client.ctx, client)
        for selection in fields:
            informers.selected("pods", fields=selection).on(add=see, update=see)
        await informers.start_and_sync()
        await client.ctx.sleep_us(1 << 50)

    return main


async def measure(nodes: int, pods: int) -> None:
    kept, told = Kept(), [0]
    async with Cluster(planned(nodes, ()), seed=1) as cluster:
        cluster.kernel.slice_s = ALONE_S
        unobserve = cluster.observe(kept.see, ["pods", "events"])
        await fill(cluster, Clock(cluster), pods)
        unobserve()
        names = list(cluster.nodes)
    with no_collection():
        plan = ClusterPlan(nodes=(), controller_manager=NOBODY, scheduler=NOBODY)
        async with Cluster(plan, seed=1) as cluster:
            cluster.kernel.slice_s = ALONE_S
            for name in READERS:
                cluster.add_program(name, reader([""], told), qps=0)
            for name in names:
                cluster.add_program(name, reader([f"spec.nodeName={name}"], told), qps=0)
            await cluster.run_for("10s")
            Writer(cluster, kept.writes)
            clock = Clock(cluster)
            await cluster.run_until(kept.writes[-1][0] + 1_000_000)
            clock.tell(f"{len(kept.writes):,} writes again, told of {told[0]:,} times", pods)


def main() -> None:
    nodes, pods = sizes(sys.argv[1:])
    print(machine())
    trio.run(measure, nodes, pods)


if __name__ == "__main__":
    main()
