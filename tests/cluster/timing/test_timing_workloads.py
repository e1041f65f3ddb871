"""What controllers make of workloads, and when, on whole clusters: what the facts say beside the
known cases.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest

from actors.node.runtime.profile import ContainerBehaviour, Override, Rule, RuntimeProfile
from sim.api.store import Change
from sim.api.types import Obj
from sim.app.plain_plan import plain_nodes
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from sim.units import MS, SECOND
from tests.cluster.fixed import FixedPhases, container, workload
from tests.cluster.timing.api.test_timing_api import PATCH
from tests.cluster.timing.node.test_node_timing_agent import PodTimes

THREE = {"": 3}


class Counts:
    """After each change of a pod: how many pods there are that are not on their way out, and how
    many are ready.
    """

    def __init__(self, cluster: FixedPhases) -> None:
        self.seen: list[tuple[float, int, int]] = []
        self._live: dict[str, bool] = {}
        cluster.observe(self._see)

    def _see(self, change: Change) -> None:
        if not change.item.key.startswith("//pods/"):
            return
        obj = change.item.obj
        name = obj["metadata"]["name"]
        if change.deleted or "deletionTimestamp" in obj["metadata"]:
            self._live.pop(name, None)
        else:
            conditions = (obj.get("status") or {}).get("conditions") or ()
            self._live[name] = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
        self.seen.append((change.at_us / SECOND, len(self._live), sum(self._live.values())))


def template(obj: Obj, image: str, **spec: Any) -> Obj:
    """The workload with another image."""
    pods = obj["spec"]["template"]
    changed = {**pods, "spec": {"containers": [{**container(), "image": image}]}}
    return {**obj, "spec": {**obj["spec"], **spec, "template": changed}}


def patched(cluster: FixedPhases, resource: str, name: str, body: Mapping[str, Any]) -> None:
    reply = cluster.request("patch", resource, "default", name, body=dict(body), content_type=PATCH)
    assert reply.ok, reply.message


# --- deployments ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replicas", "strategy", "least", "most"),
    [
        (10, {}, 8, 13),  # 25 %: unavailable rounded down, surge up
        (4, {}, 3, 5),
        (1, {}, 1, 2),
        (10, {"maxSurge": 0, "maxUnavailable": 1}, 9, 10),
        (10, {"maxSurge": 1, "maxUnavailable": 0}, 10, 11),
        # both come to none: one may be unavailable
        (3, {"maxSurge": 0, "maxUnavailable": "10%"}, 2, 3),
        (10, {"maxSurge": "100%", "maxUnavailable": "50%"}, 5, 20),
    ],
)
async def test_a_rolling_update_keeps_within_its_surge_and_its_unavailability(
    replicas: int, strategy: Mapping[str, Any], least: int, most: int
) -> None:
    async with FixedPhases(THREE) as cluster:
        rolling = {"type": "RollingUpdate", "rollingUpdate": dict(strategy)} if strategy else {}
        made = workload("Deployment", "web", replicas, **({"strategy": rolling} if rolling else {}))
        cluster.apply(made)
        await cluster.run_until("60s")
        counts = Counts(cluster)
        counts._live = {pod["metadata"]["name"]: True for pod in cluster.list("pods")}
        assert len(counts._live) == replicas
        patched(cluster, "deployments", "web", template(made, "registry.example/c:2"))
        await cluster.run_until("180s")
        assert min(ready for _, _, ready in counts.seen) >= least
        assert max(there for _, there, _ in counts.seen) <= most
        pods = cluster.list("pods")
        assert len(pods) == replicas
        assert {pod["spec"]["containers"][0]["image"] for pod in pods} == {"registry.example/c:2"}


@pytest.mark.parametrize("deadline", [600, 60])
async def test_a_rollout_without_progress_is_given_up_at_its_deadline(deadline: int) -> None:
    async with FixedPhases(THREE) as cluster:
        made = workload("Deployment", "web", 3)
        if deadline != 600:
            made = {**made, "spec": {**made["spec"], "progressDeadlineSeconds": deadline}}
        cluster.apply(made)
        await cluster.run_until("60s")
        for node in cluster.nodes.values():
            node.behave([Override({}, image="gone:1", pull_error="no such image")])
        given_up: list[float] = []

        def see(change: Change) -> None:
            if change.item.key.startswith("//deployments/") or "/deployments/" in change.item.key:
                for each in (change.item.obj.get("status") or {}).get("conditions") or ():
                    if each["type"] == "Progressing" and each["reason"] == "ProgressDeadlineExceeded":
                        given_up.append(change.at_us / SECOND)

        cluster.observe(see)
        patched(cluster, "deployments", "web", template(made, "gone:1"))
        await cluster.run_until((60 + deadline + 60) * SECOND)
        assert deadline <= given_up[0] - 60 <= deadline + 5


@pytest.mark.parametrize("seconds", [5, 30])
async def test_a_new_pod_counts_only_after_its_minimum_of_ready_seconds(seconds: int) -> None:
    """Strictly more than them, and times of the API have whole seconds."""
    async with FixedPhases(THREE) as cluster:
        times = PodTimes(cluster)
        cluster.apply(workload("Deployment", "web", 3, minReadySeconds=seconds))
        available: list[float] = []

        def see(change: Change) -> None:
            if "/deployments/" in change.item.key:
                if (change.item.obj.get("status") or {}).get("availableReplicas") == 3:
                    available.append(change.at_us / SECOND)

        cluster.observe(see)
        await cluster.run_until((60 + seconds) * SECOND)
        ready = max(times.ready.values())
        assert seconds - 1 <= available[0] - ready <= seconds + 2


# --- replica sets ---------------------------------------------------------------------------------


async def test_57_a_set_deletes_all_it_has_too_many_of_at_once() -> None:
    control = ComponentPlan(flags={"orch-api-qps": "100000", "orch-api-burst": "100000"})
    plan = ClusterPlan(controller_manager=control, latency_us=(10 * MS, 10 * MS))
    async with FixedPhases({"": 2}, plan) as cluster:
        cluster.apply(workload("ReplicaSet", "web", 60))
        await cluster.run_until("60s")
        patched(cluster, "replicasets", "web", {"spec": {"replicas": 10}})
        await cluster.run_until("61s")
        times = [at_us for times in cluster.seen.deleted.values() for at_us in times]
        assert len(times) == 50
        assert max(times) == min(times)


async def test_a_replica_set_prefers_to_delete_pods_that_are_not_ready() -> None:
    rules = (Rule(ContainerBehaviour(healthy_after_us=0)),)
    async with FixedPhases(THREE, profile=RuntimeProfile(rules=rules)) as cluster:
        probe = {"httpGet": {"port": 80}, "periodSeconds": 1, "failureThreshold": 1}
        made = workload("ReplicaSet", "web", 6)
        made["spec"]["template"]["spec"]["containers"][0]["readinessProbe"] = probe
        cluster.apply(made)
        await cluster.run_until("60s")
        sick = cluster.list("pods")[:2]
        for pod in sick:
            node = cluster.nodes[pod["spec"]["nodeName"]]
            assert node.set_health("default", pod["metadata"]["name"], "c", False)
        await cluster.run_until("70s")
        patched(cluster, "replicasets", "web", {"spec": {"replicas": 4}})
        await cluster.run_until("110s")
        left = {pod["metadata"]["name"] for pod in cluster.list("pods")}
        assert len(left) == 4
        assert not left & {pod["metadata"]["name"] for pod in sick}


# --- stateful and daemon sets ---------------------------------------------------------------------


async def test_a_stateful_set_starts_its_pods_in_order_and_stops_them_from_the_last() -> None:
    async with FixedPhases(THREE) as cluster:
        times = PodTimes(cluster)
        made: dict[str, float] = {}

        def see(change: Change) -> None:
            if change.item.key.startswith("//pods/") and change.prev is None:
                made[change.item.obj["metadata"]["name"]] = change.at_us / SECOND

        cluster.observe(see)
        cluster.apply(workload("StatefulSet", "web", 4, podManagementPolicy="OrderedReady"))
        await cluster.run_until("60s")
        names = [f"web-{number}" for number in range(4)]
        assert list(made) == names
        for before, after in pairwise(names):
            assert 0 <= made[after] - times.ready[before] <= 0.5
        patched(cluster, "statefulsets", "web", {"spec": {"replicas": 1}})
        await cluster.run_until("120s")
        assert list(times.gone) == ["web-3", "web-2", "web-1"]
        assert [pod["metadata"]["name"] for pod in cluster.list("pods")] == ["web-0"]


async def test_a_new_node_gets_its_daemon_pod_within_seconds() -> None:
    async with FixedPhases(THREE) as cluster:
        times = PodTimes(cluster)
        cluster.apply(workload("DaemonSet", "agent"))
        await cluster.run_until("100s")
        assert len(times.ready) == 3
        cluster.add_node(plain_nodes(5)[4])
        await cluster.run_until("115s")
        (pod,) = [pod for pod in cluster.list("pods") if pod["spec"]["nodeName"] not in cluster.nodes_of()]
        assert 100 < times.ready[pod["metadata"]["name"]] <= 110


# --- endpoints ------------------------------------------------------------------------------------


async def test_4_a_silent_nodes_pods_leave_the_endpoints_with_the_pass_that_finds_it() -> None:
    service: Obj = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    }
    async with FixedPhases({"": 4}) as cluster:
        cluster.apply(service, workload("ReplicaSet", "web", 8))
        ready: list[tuple[float, int]] = []

        def see(change: Change) -> None:
            if change.item.key.startswith("//endpoints/") and not change.deleted:
                subsets = change.item.obj.get("subsets") or ()
                ready.append((change.at_us / SECOND, sum(len(s.get("addresses") or ()) for s in subsets)))

        cluster.observe(see)
        await cluster.run_until("90s")
        there = sum(pod["spec"]["nodeName"] == "node-3" for pod in cluster.list("pods"))
        assert there and ready[-1][1] == 8
        await cluster.kill("node-3")
        await cluster.run_until("140s")
        at, left = ready[-1]
        assert left == 8 - there
        assert 132.2 <= at <= 133.3
        await cluster.run_until("450s")
        at, left = ready[-1]
        assert left == 8  # replaced
        assert 437 <= at <= 443


# --- namespaces -----------------------------------------------------------------------------------


async def test_a_deleted_namespace_is_emptied_after_five_seconds_and_then_goes() -> None:
    async with FixedPhases(THREE) as cluster:
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
        await cluster.run_until("10s")
        made = workload("ReplicaSet", "web", 6)
        cluster.apply({**made, "metadata": {**made["metadata"], "namespace": "team"}})
        await cluster.run_until("40s")
        gone: list[float] = []
        deleted: list[float] = []

        def see(change: Change) -> None:
            if change.item.key.startswith("//namespaces/") and change.deleted:
                gone.append(change.at_us / SECOND)
            if change.item.key.startswith("//pods/team/") and change.prev is not None:
                if "deletionTimestamp" in change.item.obj["metadata"]:
                    deleted.append(change.at_us / SECOND)

        cluster.observe(see)
        assert cluster.request("delete", "namespaces", "", "team").ok
        late = workload("ReplicaSet", "late", 1)
        body = {**late, "metadata": {**late["metadata"], "namespace": "team"}}
        refused = cluster.request("create", "replicasets", "team", body=body)
        assert (refused.code, refused.reason) == (403, "Forbidden")
        await cluster.run_until("100s")
        assert 45 <= deleted[0] <= 45.2
        assert 50 <= gone[0] <= 56
