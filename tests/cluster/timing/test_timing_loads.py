"""Workloads of all kinds while their controller manager, its clock or its API server fails: what is
made, once, and when.
"""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.store import Change
from sim.api.types import Obj
from sim.app.cluster import Cluster
from sim.app.plain_plan import plain_nodes
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from sim.units import MS, SECOND, parse_time
from tests.cluster.fixed import container, workload
from tests.cluster.timing.test_timing_workloads import Counts, patched, template

MANAGER, SERVER = "controller-manager-0", "apiserver-0"
WANTED = {"ReplicaSet": 8, "StatefulSet": 3, "DaemonSet": 4, "Job": 3}


def plan(managers: int = 1) -> ClusterPlan:
    control = ComponentPlan(managers)
    return ClusterPlan(nodes=plain_nodes(4), controller_manager=control, latency_us=(1 * MS, 5 * MS))


def job(**spec: Any) -> Obj:
    runs = {**container(), "command": ["sleep", "infinity"]}
    pods = {"spec": {"restartPolicy": "Never", "containers": [runs]}}
    meta = {"name": "j", "namespace": "default"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": pods, **spec}}


def one_of_each() -> list[Obj]:
    return [
        workload("Deployment", "web", 4),
        workload("StatefulSet", "db", 3),
        workload("DaemonSet", "agent"),
        job(parallelism=3, completions=3),
        workload("ReplicaSet", "rs", 4),
    ]


class Fates:
    """Objects of a kind in the default namespace: when each was made, and went; and those that were
    asked to go.
    """

    def __init__(self, cluster: Cluster, resource: str = "pods") -> None:
        self.made: list[tuple[float, str]] = []
        self.gone: list[tuple[float, str]] = []
        self.asked: list[str] = []
        cluster.observe(self._see, [resource])

    def _see(self, change: Change) -> None:
        meta = change.item.obj["metadata"]
        at = change.at_us / SECOND, meta["name"]
        if meta["namespace"] != "default":
            return
        if change.prev is None:
            self.made.append(at)
        elif change.deleted:
            self.gone.append(at)
        elif "deletionTimestamp" in meta:
            self.asked.append(meta["name"])


def alive(cluster: Cluster) -> dict[str, int]:
    counts: dict[str, int] = {}
    for pod in cluster.list("pods"):
        if "deletionTimestamp" not in pod["metadata"]:
            kind = pod["metadata"]["ownerReferences"][0]["kind"]
            counts[kind] = counts.get(kind, 0) + 1
    return counts


async def die_for_a_second(cluster: Cluster) -> None:
    """The manager is killed, and started again."""
    cluster.faults.impose("dies", MANAGER, "down", "killed")
    await cluster.run_for("1s")
    cluster.faults.lift("dies")


@pytest.mark.parametrize("after_ms", [9, 21, 70])
async def test_manager_that_crashes_while_it_creates_pods_creates_none_twice(after_ms: int) -> None:
    """Its caches are current before the next one acts, so that it sees all that the first has made."""
    async with Cluster(plan()) as cluster:
        await cluster.run_until("30s")
        fates = Fates(cluster)
        cluster.apply(*one_of_each())
        await cluster.run_for(after_ms * MS)
        await die_for_a_second(cluster)
        await cluster.run_for("60s")
        assert alive(cluster) == WANTED
        assert len(fates.made) == sum(WANTED.values()) and not fates.asked and not fates.gone


async def test_what_was_made_and_is_not_seen_is_awaited() -> None:
    async with Cluster(plan()) as cluster:
        await cluster.run_until("30s")
        fates = Fates(cluster)
        cluster.faults.impose("trails", SERVER, "lag", 10 * SECOND)
        cluster.apply(*one_of_each())
        await cluster.run_for("120s")
        assert alive(cluster) == WANTED
        assert len(fates.made) == sum(WANTED.values()) and not fates.asked


async def test_a_manager_that_begins_with_a_past_takes_back_what_it_made_twice() -> None:
    """Its first lists are those of the cache, which trails: names keep a StatefulSet and a
    Deployment's sets from doubling.
    """
    async with Cluster(plan()) as cluster:
        await cluster.run_until("30s")
        fates = Fates(cluster)
        cluster.faults.impose("trails", SERVER, "lag", 40 * SECOND)
        cluster.apply(*one_of_each())
        await cluster.run_for("42s")
        await die_for_a_second(cluster)
        await cluster.run_for("60s")
        cluster.faults.lift("trails")
        await cluster.run_for("120s")
        assert alive(cluster) == WANTED
        assert sorted(name for _, name in fates.made if name.startswith("db-")) == ["db-0", "db-1", "db-2"]
        web = cluster.get("deployments", "web")
        assert web is not None and "collisionCount" not in web["status"]


async def test_rollout_stays_within_its_limits_under_any_leader() -> None:
    async with Cluster(plan(3)) as cluster:
        made = workload("Deployment", "web", 10)
        cluster.apply(made)
        await cluster.run_until("60s")
        counts = Counts(cluster)  # type: ignore[arg-type]
        counts._live = {pod["metadata"]["name"]: True for pod in cluster.list("pods")}
        patched(cluster, "deployments", "web", template(made, "r/c:2"))  # type: ignore[arg-type]
        for turn in range(3):
            await cluster.run_for("1300ms")
            leader = cluster.actor_named("controller-manager-leader")
            cluster.faults.impose(f"dies {turn}", leader, "down", "killed")
            await cluster.run_for("22s")
            cluster.faults.lift(f"dies {turn}")
            cluster.drop_watches("", "")
            cluster.compact()
        await cluster.run_for("60s")
        assert min(ready for _, _, ready in counts.seen) >= 8
        assert max(there for _, there, _ in counts.seen) <= 13
        images = [pod["spec"]["containers"][0]["image"] for pod in cluster.list("pods")]
        assert images == ["r/c:2"] * 10 and len(cluster.list("replicasets")) == 2


@pytest.mark.parametrize(("offset_s", "least", "most"), [(-35, 44, 56), (60, 0, 1)])
async def test_minimum_ready_times_are_those_of_the_managers_clock(
    offset_s: int, least: float, most: float
) -> None:
    """Nodes say since when a pod is ready: 35 s behind them it is available 45 s later, at a look
    each 10 s.
    """
    async with Cluster(plan()) as cluster:
        await cluster.run_until("30s")
        cluster.faults.impose("set", MANAGER, "clock", (offset_s * SECOND, 0))
        ready: list[float] = []
        available: list[float] = []

        def see(change: Change) -> None:
            status = change.item.obj.get("status", {})
            if any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or ()):
                ready.append(change.at_us / SECOND)
            if status.get("availableReplicas"):
                available.append(change.at_us / SECOND)

        cluster.observe(see, ["pods", "replicasets"])
        cluster.apply(workload("ReplicaSet", "rs", 1, minReadySeconds=10))
        await cluster.run_for("80s")
        assert least <= available[0] - ready[0] <= most


async def test_a_time_to_live_is_looked_at_again_by_a_clock_that_was_set_back() -> None:
    async with Cluster(plan()) as cluster:
        await cluster.run_until("30s")
        fates = Fates(cluster, "jobs")
        cluster.apply(job(ttlSecondsAfterFinished=60, activeDeadlineSeconds=5))
        await cluster.run_for("20s")
        stored = cluster.get("jobs", "j")
        assert stored is not None
        (ended,) = (c for c in stored["status"]["conditions"] if c["type"] == "Failed")
        ended_s = (parse_time(ended["lastTransitionTime"]) - cluster.kernel.epoch_us) / SECOND
        cluster.faults.impose("set", MANAGER, "clock", (-30 * SECOND, 0))
        await cluster.run_until("150s")
        assert 90 <= fates.gone[0][0] - ended_s <= 92


async def test_forbidden_run_starts_once_after_the_other_under_any_leader() -> None:
    """Made at 60 s for 100 s: the next at 160 s for what was due at 120, and at 260 s for 240."""
    async with Cluster(plan(2)) as cluster:
        await cluster.run_until("30s")
        fates = Fates(cluster, "jobs")
        runs = {"spec": {**job()["spec"], "activeDeadlineSeconds": 100, "backoffLimit": 0}}
        spec = {"schedule": "* * * * *", "concurrencyPolicy": "Forbid", "jobTemplate": runs}
        meta = {"name": "cron", "namespace": "default"}
        cluster.apply({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": meta, "spec": spec})
        await cluster.run_until("130s")
        leader = cluster.actor_named("controller-manager-leader")
        cluster.faults.impose("dies", leader, "down", "killed")
        await cluster.run_until("300s")
        first, second, third = (at for at, _ in fates.made)
        assert 60 <= first < 60.5 and 160 <= second <= 163 and 260 <= third <= 266
