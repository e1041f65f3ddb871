"""Machines come up within the plan's time, each at an instant of its own."""

from __future__ import annotations

from sim.api.store import Change
from sim.app.cluster import Cluster
from sim.app.plain_plan import plain_nodes
from sim.scenario.plan.plan import ClusterPlan
from sim.units import SECOND


async def started(seed: int) -> list[int]:
    """When each of twenty nodes came to be known, by number."""
    plan = ClusterPlan(nodes=plain_nodes(20), boot_us=10 * SECOND)
    known: dict[str, int] = {}

    def see(change: Change) -> None:
        known.setdefault(change.item.obj["metadata"]["name"], change.at_us)

    async with Cluster(plan, seed=seed) as cluster:
        cluster.observe(see, ["nodes"])
        await cluster.run_for("15s")
    return [known[node.name] for node in plan.nodes]


async def test_machines_come_up_at_instants_spread_over_the_boot_time() -> None:
    times = await started(1)
    assert max(times) < 11 * SECOND
    thirds = [sum(third * 10 / 3 <= at / SECOND < (third + 1) * 10 / 3 for at in times) for third in range(3)]
    assert min(thirds) >= 2


async def test_another_seed_gives_other_instants() -> None:
    assert await started(1) == await started(1)
    assert await started(1) != await started(2)


async def test_without_a_boot_time_all_start_at_once() -> None:
    async with Cluster(nodes=20) as cluster:
        await cluster.run_for("1s")
        assert len(cluster.list("nodes")) == 20


async def test_observer_of_some_resources_gets_no_others() -> None:
    seen: dict[str, None] = {}

    def see(change: Change) -> None:
        seen[change.item.key.rpartition("/")[0]] = None

    async with Cluster(nodes=2) as cluster:
        names = cluster.names
        cancel = cluster.observe(see, ["nodes", f"leases/{names.system_namespace}"])
        await cluster.run_for("30s")
        leaders = cluster.scheme.prefix("leases", names.system_namespace).removesuffix("/")
        assert sorted(seen) == sorted(["//nodes/", leaders])
        cancel()
        seen.clear()
        await cluster.run_for("30s")
        assert not seen
