"""The wait for the nodes of a served cluster, after which its client configurations are written.

A script that waits for a client configuration finds the nodes of the scenario with it.

Holds: nothing of the run depends on this wait.  It ends with a signal, and after REGISTERED_S in
which nodes did not register: at a slow pace, with a long boot, or if a fault prevents them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import trio

from sim.api.store import Change
from sim.app.cluster import Cluster
from sim.wire.patience import within

REGISTERED_S = 10.0  # real seconds


async def wait_for_nodes(cluster: Cluster, signals: AsyncIterator[int]) -> bool:
    """Wait until the nodes that the cluster has now are registered; False if a signal came first.

    signals: those that end the server; the first is taken
    """
    store, key = cluster.storage.store, cluster.scheme.key  # perhaps no API server runs
    missing = [name for name in cluster.nodes if store.get(key("nodes", "", name)) is None]
    if not missing:
        return True
    registered, is_ended = trio.Event(), False

    def see(change: Change) -> None:
        name = change.item.obj["metadata"]["name"]
        if name in missing and not change.deleted:
            missing.remove(name)
        if not missing:
            registered.set()

    async def hear(scope: trio.CancelScope) -> None:
        nonlocal is_ended
        async for _ in signals:
            is_ended = True
            scope.cancel()
            return

    forget = cluster.observe(see, ["nodes"])
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hear, nursery.cancel_scope)
            with within(REGISTERED_S):
                await registered.wait()
            nursery.cancel_scope.cancel()
    finally:
        forget()
    return not is_ended
