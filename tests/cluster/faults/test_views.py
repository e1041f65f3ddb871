"""The end of a run compares the informers of all processes with the storage."""

from __future__ import annotations

import pytest

from sim import Cluster
from sim.app.control.views import diverged
from sim.client.cache.informer import Informer

MINUTE_US = 60_000_000


def informer_of(cluster: Cluster, process: str, resource: str) -> Informer:
    context = cluster.supervisor[process].context
    assert context is not None
    found: Informer = next(one for one in context.views if one.resource == resource)
    return found


@pytest.mark.slow
async def test_informer_that_lost_an_event_has_diverged() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    pod["spec"] = {"containers": [{"name": "c", "image": "r/a:1"}]}  # type: ignore[assignment]
    async with Cluster(nodes=2) as cluster:
        await cluster.run_until("1m")
        cluster.apply(pod)
        await cluster.run_until("5m")
        assert diverged(cluster, MINUTE_US) == {}
        lost = informer_of(cluster, "scheduler-0", "pods")._items.pop("default/p")
        assert diverged(cluster, MINUTE_US) == {"//pods/default/p": "scheduler-0 does not know of it"}
        assert diverged(cluster, 5 * MINUTE_US) == {}  # that was written since
        informer_of(cluster, "scheduler-0", "pods")._items["default/p"] = lost
        cluster.request("delete", "pods", "default", "p", options={"gracePeriodSeconds": "0"})
        await cluster.run_until("8m")
        assert diverged(cluster, MINUTE_US) == {}
        informer_of(cluster, "scheduler-0", "pods")._items["default/p"] = lost
        assert diverged(cluster, MINUTE_US) == {"//pods/default/p": "scheduler-0 still has it"}
        cluster.faults.impose("slow", "apiserver-0", "lag", 1)
        assert diverged(cluster, MINUTE_US) == {}
