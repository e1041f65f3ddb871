"""Feature gates: what each changes, seen in a cluster."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sim.app.cluster import Cluster
from tests.cluster.fixed import workload
from tests.cluster.test_options import Commits, deployment, manager, plan, pod


@pytest.mark.parametrize("gate", [True, False])
async def test_what_a_pod_costs_to_delete_counts_while_its_gate_is_on(gate: bool) -> None:
    """Of two pods of one age the smaller uid goes, but for what the other's deletion is said to cost less."""
    async with Cluster(manager(1, feature_gates=f"PodDeletionCost={gate}")) as cluster:
        cluster.apply(deployment("a", 2))
        await cluster.run_for("60s")
        by_uid = sorted(cluster.list("pods", "default"), key=lambda p: p["metadata"]["uid"])
        cheap = by_uid[1]["metadata"]["name"]
        body = {"metadata": {"annotations": {cluster.names.annotation_pod_deletion_cost: "-1"}}}
        merge = "application/merge-patch+json"
        assert cluster.request("patch", "pods", "default", cheap, body=body, content_type=merge).ok
        body = {"spec": {"replicas": 1}}
        assert cluster.request("patch", "deployments", "default", "a", body=body, content_type=merge).ok
        await cluster.run_for("5s")
        gone = [
            p["metadata"]["name"]
            for p in cluster.list("pods", "default")
            if "deletionTimestamp" in p["metadata"]
        ]
        left = [p["metadata"]["name"] for p in cluster.list("pods", "default")]
        lost = gone or [p["metadata"]["name"] for p in by_uid if p["metadata"]["name"] not in left]
        assert lost == [by_uid[1 if gate else 0]["metadata"]["name"]]


@pytest.mark.parametrize("gate", [True, False])
async def test_a_jobs_status_tells_ready_pods_while_their_gate_is_on(gate: bool) -> None:
    async with Cluster(manager(1, feature_gates={"JobReadyPods": gate})) as cluster:
        spec = {"template": {"spec": pod("", restartPolicy="Never")["spec"]}}
        cluster.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec})
        await cluster.run_for("20s")
        status = (cluster.get("jobs", "j") or {})["status"]
        assert (status["active"], status.get("ready")) == (1, 1 if gate else None)


@pytest.mark.parametrize(
    ("server", "loop", "replaced"), [(True, True, 3), (True, False, 1), (False, True, 1)]
)
async def test_several_pods_of_a_set_are_replaced_at_once_if_the_gate_is_on_on_both_sides(
    server: bool, loop: bool, replaced: int
) -> None:
    """The API server keeps the field by its gate, the loop heeds it by its own."""
    gates = [{"feature-gates": {"MaxUnavailableStatefulSet": gate}} for gate in (server, loop)]
    async with Cluster(plan(1, api_server=gates[0], controller_manager=gates[1])) as cluster:
        strategy = {"rollingUpdate": {"maxUnavailable": 3}}
        made = workload("StatefulSet", "db", replicas=4, updateStrategy=strategy)
        cluster.apply(made)
        await cluster.run_for("60s")
        image = {
            "spec": {"containers": [{**made["spec"]["template"]["spec"]["containers"][0], "image": "new"}]}
        }
        merge = "application/merge-patch+json"
        body = {"spec": {"template": image}}
        assert cluster.request("patch", "statefulsets", "default", "db", body=body, content_type=merge).ok
        await cluster.run_for("1s")
        going = ["deletionTimestamp" in each["metadata"] for each in cluster.list("pods", "default")]
        assert sum(going) == replaced


def evicted(cluster: Cluster) -> None:
    body = {"metadata": {"name": "p"}}
    assert cluster.request("create", "pods", "default", "p", body=body, subresource="eviction").ok


def tainted(cluster: Cluster) -> None:
    taint = {"key": "k", "effect": "NoExecute"}
    node = cluster.get("nodes", "node-0") or {}
    taints = [*(node["spec"].get("taints") or ()), taint]
    merge = "application/merge-patch+json"
    body = {"spec": {"taints": taints}}
    assert cluster.request("patch", "nodes", "", "node-0", body=body, content_type=merge).ok


def orphaned(cluster: Cluster) -> None:
    cluster.fail_node("node-0", "power-loss")
    assert cluster.request("delete", "nodes", "", "node-0").ok


def preempted(cluster: Cluster) -> None:
    group = cluster.names.api_version("scheduling", "v1")
    cluster.apply({"apiVersion": group, "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9})
    made = pod("q", priorityClassName="high")
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "5"}}
    cluster.apply(made)


@pytest.mark.parametrize("gate", [True, False])
@pytest.mark.parametrize(
    ("happens", "why", "phase"),
    [
        (evicted, "EvictionByEvictionAPI", "Running"),
        (tainted, "DeletionByTaintManager", "Running"),
        (orphaned, "DeletionByPodGC", "Failed"),
        (preempted, "PreemptionByKubeScheduler", "Running"),
    ],
)
async def test_a_pod_that_is_disrupted_says_why_while_the_gate_is_on(
    happens: Callable[[Cluster], None], why: str, phase: str, gate: bool
) -> None:
    flags = {"feature-gates": {"PodDisruptionConditions": gate}}
    async with Cluster(plan(1, api_server=flags, controller_manager=flags, scheduler=flags)) as cluster:
        made = pod("p", terminationGracePeriodSeconds=30)
        made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "5"}}
        cluster.apply(made)
        await cluster.run_for("30s")
        pods = Commits(cluster, "pods")
        happens(cluster)
        await cluster.run_for("90s")
        seen = [obj for _, obj in pods.seen if obj["metadata"]["name"] == "p"]
        told = [
            (obj["status"]["phase"], each["reason"])
            for obj in seen
            for each in obj["status"]["conditions"]
            if each["type"] == "DisruptionTarget"
        ]
        assert seen and set(told) == ({(phase, why)} if gate else set())
        if gate:  # before it is deleted
            assert "deletionTimestamp" not in seen[0]["metadata"] and len(told) == len(seen)


@pytest.mark.parametrize(("ignores", "over"), [(True, []), (False, ["Failed"])])
async def test_a_job_may_ignore_that_its_pods_are_disrupted(ignores: bool, over: list[str]) -> None:
    flags = {"feature-gates": {"PodDisruptionConditions": True, "JobPodFailurePolicy": True}}
    async with Cluster(plan(2, api_server=flags, controller_manager=flags)) as cluster:
        rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
        spec = {"backoffLimit": 0, "template": {"spec": pod("", restartPolicy="Never")["spec"]}}
        policy = {"podFailurePolicy": {"rules": [rule]}} if ignores else {}
        made = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "j"},
            "spec": {**spec, **policy},
        }
        cluster.apply(made)
        await cluster.run_for("30s")
        (first,) = cluster.list("pods", "default")
        name = first["metadata"]["name"]
        body = {"metadata": {"name": name}}
        assert cluster.request("create", "pods", "default", name, body=body, subresource="eviction").ok
        await cluster.run_for("2m")
        status = (cluster.get("jobs", "j") or {})["status"]
        assert [each["type"] for each in status.get("conditions") or ()][-1:] == over
        assert (status.get("failed", 0), status.get("active", 0)) == ((0, 1) if ignores else (1, 0))
