"""Python's cyclic collector has nothing to do while a cluster runs (see `sim.app.cluster.no_collection`)."""

from __future__ import annotations

import gc
from collections import Counter
from pathlib import Path
from weakref import ref

from actors.node.status_manager import Entry
from sim.app.cluster import Cluster
from sim.app.run import run_plan
from sim.kernel import Kernel
from sim.scenario.plan import ClusterPlan, Plan
from sim.units import SECOND
from tests.bench.big import deployment
from tests.cluster.scenario import run, step


async def test_a_running_cluster_leaves_no_cycles_behind() -> None:
    async with Cluster(nodes=10, seed=1) as cluster:
        await cluster.run_for("30s")
        cluster.apply(deployment("web", 30))
        await cluster.run_for("1m")
        gc.collect()
        gc.disable()
        try:
            steps = cluster.kernel.steps
            await cluster.run_for("20m")
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            left = Counter(type(found).__qualname__ for found in gc.garbage)
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
        assert cluster.kernel.steps - steps > 1000
        assert left == {}


async def test_of_the_status_of_a_pod_at_rest_a_node_keeps_what_the_api_holds_and_no_more() -> None:
    async with Cluster(nodes=3, seed=1) as cluster:
        await cluster.run_for("30s")
        cluster.apply(deployment("web", 30))
        await cluster.run_for("12m")
        gc.collect()
        pods = cluster.list("pods")
        assert sum(pod["status"]["phase"] == "Running" for pod in pods) == 30
        # of these pods: what an earlier test left alive may hold others'
        uids = [pod["metadata"]["uid"] for pod in pods]
        assert not [found for found in gc.get_objects() if type(found) is Entry and found.uid in uids]


async def test_a_collection_after_a_run_frees_its_cluster() -> None:
    kernels: list[ref[Kernel]] = []

    async def watch(cluster: Cluster) -> None:
        kernels.append(ref(cluster.kernel))

    plan = Plan("short", "", 1, 60 * SECOND, ClusterPlan(), (), (), ())
    result = await run_plan(plan, watch=watch)
    assert result.steps > 100
    gc.collect()
    assert [kernel() for kernel in kernels] == [None]


async def test_so_does_one_after_a_run_in_which_a_lease_was_written_by_another_way(tmp_path: Path) -> None:
    def kernels() -> int:
        gc.collect()
        return sum(type(found) is Kernel for found in gc.get_objects())

    timeline = [
        step("fail", {"nodes": {"zone": "a"}, "how": "power-loss"}),
        {"when": "any nodes have Ready=Unknown", "delay": "5s", "name": "back", "heal": {"step": "it"}},
    ]
    before = kernels()
    await run(tmp_path, timeline, [])
    assert kernels() == before
