"""Jobs, cron jobs and quotas, and when, on whole clusters: what the facts say of controllers.md 2.5
to 2.7 and 4.1.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from actors.node.runtime.profile import ContainerBehaviour, Rule, RuntimeProfile
from sim.api.store import Change
from sim.api.types import Obj
from sim.app.cluster import Cluster
from sim.units import MS, SECOND
from tests.cluster.fixed import FixedPhases, container, workload
from tests.cluster.timing.api.test_timing_api import PATCH


def job(name: str = "work", restart: str = "Never", **spec: Any) -> Obj:
    template = {"spec": {"containers": [container()], "restartPolicy": restart}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": template, **spec},
    }


def ends(after_s: float, code: int = 0) -> RuntimeProfile:
    """Every container ends by itself."""
    behaviour = ContainerBehaviour(exit_after_us=int(after_s * SECOND), exit_code=code)
    return RuntimeProfile(rules=(Rule(behaviour),))


RUN = RuntimeProfile(rules=(Rule(ContainerBehaviour()),))  # no container ends by itself


class Made:
    """When objects of a resource were created, in seconds, and with which name."""

    def __init__(self, cluster: Cluster, resource: str) -> None:
        self.at: list[float] = []
        self.names: list[str] = []
        self._prefix = cluster.scheme.prefix(resource)
        cluster.observe(self._see)

    def _see(self, change: Change) -> None:
        if change.prev is None and change.item.key.startswith(self._prefix):
            self.at.append(change.at_us / SECOND)
            self.names.append(change.item.obj["metadata"]["name"])

    @property
    def gaps(self) -> list[float]:
        return [b - a for a, b in pairwise(self.at)]


def conditions(obj: Obj) -> list[tuple[str, str]]:
    return [(c["type"], c.get("reason", "")) for c in obj["status"].get("conditions") or ()]


def status_of(cluster: Cluster, name: str, resource: str = "jobs") -> Obj:
    found = cluster.get(resource, name)
    assert found is not None, f"no {resource} {name}"
    return found


async def test_job_with_succeeding_pods_runs_its_parallelism_at_a_time() -> None:
    async with FixedPhases({"": 3}, profile=ends(5)) as cluster:
        await cluster.run_until("20s")
        made = Made(cluster, "pods")
        cluster.apply(job(completions=6, parallelism=2))
        await cluster.run_for("60s")
        found = status_of(cluster, "work")
        assert len(made.at) == 6 and found["status"]["succeeded"] == 6
        assert conditions(found) == [("Complete", "")]
        # a round: about 1 s until the containers run, 5 s of work, 1 s until it is seen and 1 s
        # gathered by the loop
        assert made.at[1] - made.at[0] < 0.1 and all(6.5 < gap < 10 for gap in made.gaps[1::2])


async def test_job_failures_are_spaced_by_a_doubling_back_off_and_end_it_at_the_limit() -> None:
    async with FixedPhases({"": 3}, profile=ends(1, 1)) as cluster:
        await cluster.run_until("20s")
        made = Made(cluster, "pods")
        cluster.apply(job(backoffLimit=5))
        await cluster.run_for("20m")
        # The first is replaced as soon as its end is seen and gathered for a second; the others
        # wait from their end on.
        assert 2.5 < made.gaps[0] < 6 and len(made.at) == 6
        lives = [gap - wait for gap, wait in zip(made.gaps, (1, 10, 20, 40, 80), strict=True)]
        assert max(lives) - min(lives) < 1.2  # what the agent's relist makes of a second's life
        found = status_of(cluster, "work")
        assert found["status"]["failed"] == 6 and conditions(found) == [("Failed", "BackoffLimitExceeded")]


async def test_a_container_restarted_in_place_is_no_new_pod() -> None:
    async with FixedPhases({"": 3}, profile=ends(1, 1)) as cluster:
        await cluster.run_until("20s")
        made = Made(cluster, "pods")
        cluster.apply(job(restart="OnFailure", backoffLimit=3))
        await cluster.run_for("10m")
        found = status_of(cluster, "work")
        assert len(made.at) == 1 and conditions(found) == [("Failed", "BackoffLimitExceeded")]


async def test_a_deadline_ends_a_job_and_its_pods_and_its_time_to_live_then_removes_it() -> None:
    async with FixedPhases({"": 3}, profile=RUN) as cluster:
        await cluster.run_until("20s")
        cluster.apply(
            job(activeDeadlineSeconds=60, ttlSecondsAfterFinished=100, parallelism=3, completions=3)
        )
        await cluster.run_until("79s")
        assert status_of(cluster, "work")["status"]["active"] == 3
        await cluster.run_until("84s")
        found = status_of(cluster, "work")
        assert conditions(found) == [("Failed", "DeadlineExceeded")] and found["status"]["failed"] == 3
        await cluster.run_until("170s")
        assert cluster.get("jobs", "work") is not None and cluster.list("pods", "default") == []
        await cluster.run_until("190s")
        assert cluster.get("jobs", "work") is None


async def test_a_pod_of_a_dead_node_counts_as_failed_and_is_replaced_when_it_is_deleted() -> None:
    async with FixedPhases({"": 2}, profile=RUN) as cluster:
        await cluster.run_until("20s")
        made = Made(cluster, "pods")
        cluster.apply(job())
        await cluster.run_until("90s")
        (pod,) = cluster.list("pods", "default")
        await cluster.kill(pod["spec"]["nodeName"])
        await cluster.run_until("450s")
        # DELETE 437.27 to 437.50, seen at once, gathered for a second
        assert len(made.at) == 2 and 438.2 < made.at[1] < 438.7
        found = status_of(cluster, "work")
        assert (found["status"]["failed"], found["status"]["active"]) == (1, 1)


async def test_cron_jobs_start_a_tenth_of_a_second_after_the_minute_and_keep_three() -> None:
    async with FixedPhases({"": 3}, profile=ends(5)) as cluster:
        await cluster.run_until("20s")
        made = Made(cluster, "jobs")
        cluster.apply(
            {
                "apiVersion": "batch/v1",
                "kind": "CronJob",
                "metadata": {"name": "tick", "namespace": "default"},
                "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job()["spec"]}},
            }
        )
        await cluster.run_until("410s")
        assert made.at == pytest.approx([60.1, 120.1, 180.1, 240.1, 300.1, 360.1], abs=0.05)
        kept = [obj["metadata"]["name"] for obj in cluster.list("jobs", "default")]
        assert kept == sorted(made.names)[-3:]
        # the collector follows: pods of Jobs that are gone go too
        assert len(cluster.list("pods", "default")) == 3


async def test_57_a_quota_of_ten_pods_lets_fifteen_creates_through_and_then_one_at_a_time() -> None:
    async with FixedPhases({"": 3}) as cluster:
        await cluster.run_until("20s")
        cluster.apply(
            {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"name": "q", "namespace": "default"},
                "spec": {"hard": {"pods": "10"}},
            }
        )
        await cluster.run_for("2s")
        made = Made(cluster, "pods")
        cluster.apply(workload("ReplicaSet", "web", 100))
        await cluster.run_for("60s")
        assert len(made.at) == 10 and status_of(cluster, "q", "resourcequotas")["status"]["used"] == {
            "pods": "10"
        }
        rounds = [made.at[0:1], made.at[1:3], made.at[3:7], made.at[7:10]]
        assert all(max(times) - min(times) < 10 * MS / SECOND for times in rounds)
        # each refusal is an event: 5 of the round of 8, then one by one; alike ones are counted in
        # one object
        events = [e for e in cluster.list("events", "default") if e["reason"] == "FailedCreate"]
        refused = sum(event.get("count", 1) for event in events)
        assert 5 < refused < 30
        pod = cluster.list("pods", "default")[0]
        cluster.request("delete", "pods", "default", pod["metadata"]["name"], body={"gracePeriodSeconds": 0})
        freed_s = cluster.kernel.now_us / SECOND
        await cluster.run_for("10m")
        # the quota is recounted at once; the set is woken by its lost pod
        assert len(made.at) == 11 and made.at[10] - freed_s < 2


async def test_later_quota_applies_to_pods_like_those_created_before() -> None:
    async with Cluster(nodes=3, seed=1) as cluster:
        await cluster.run_until("20s")
        cluster.apply(workload("ReplicaSet", "web", 20))
        await cluster.run_for("20s")
        life = cluster.api_servers["apiserver-0"].life
        plans = None if life is None else life.fast.templates
        # Pods are created by a write template by now.
        assert plans is not None and plans.followed > 20
        quota = {"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": {"pods": "25"}}}
        cluster.apply({"apiVersion": "v1", "kind": "ResourceQuota", **quota})
        await cluster.run_for("5s")
        scaled = {"spec": {"replicas": 60}}
        cluster.request("patch", "replicasets", "default", "web", body=scaled, content_type=PATCH)
        await cluster.run_for("30s")
        assert len(cluster.list("pods", "default")) == 25
        assert status_of(cluster, "q", "resourcequotas")["status"]["used"] == {"pods": "25"}
        cluster.request("delete", "resourcequotas", "default", "q")
        await cluster.run_for("5m")
        assert len(cluster.list("pods", "default")) == 60
