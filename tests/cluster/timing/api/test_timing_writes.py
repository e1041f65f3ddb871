"""Replies to writes and the events that watches then show, on whole clusters: known cases, numbered
in the names of the tests.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from sim.api.store import Change
from sim.api.types import Obj, Reply, Watch
from sim.app.cluster import Cluster
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from sim.units import MS, SECOND, parse_time
from tests.cluster.fixed import workload
from tests.cluster.timing.api.test_timing_api import BIG, PATCH, ask, pod

FINALIZERS = ["example.com/f"]
APPLY = "application/apply-patch+yaml"


def config_map(name: str, **meta: Any) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", **meta},
        "data": {"a": "1"},
    }


async def watching(cluster: Cluster, resource: str) -> Watch:
    """A watch that has shown what there is already."""
    reply = await ask(cluster, "watch", resource)
    assert reply.watch is not None
    await cluster.run_for("100ms")
    reply.watch.take()
    return reply.watch


def causes(reply: Reply) -> list[str]:
    return [cause["reason"] for cause in reply.body["details"].get("causes") or ()]


# --- 49 to 52: revisions and deletion -------------------------------------------------------------


@pytest.mark.parametrize("resource", ["pods", "nodes", "leases"])
async def test_49_a_list_of_the_future_is_refused_after_three_seconds_and_a_watch_waits(
    resource: str,
) -> None:
    async with Cluster(nodes=1, seed=1) as cluster:
        await cluster.run_for("30s")
        future = str((await ask(cluster, "list", resource)).revision + 1000)
        began_us = cluster.kernel.now_us
        reply = await ask(cluster, "list", resource, resourceVersion=future)
        assert 3 <= (cluster.kernel.now_us - began_us) / SECOND <= 3.2
        assert (reply.code, reply.reason) == (504, "Timeout")
        assert causes(reply) == ["ResourceVersionTooLarge"]
        assert reply.body["details"]["retryAfterSeconds"] == 1
        answer = await ask(cluster, "watch", resource, resourceVersion=future)
        assert answer.code == 200 and answer.watch is not None
        await cluster.run_for("20s")  # leases are renewed in this time
        assert not answer.watch.ended
        assert answer.watch.take() == []


async def test_50_second_put_at_one_revision_conflicts_and_an_equal_one_changes_nothing() -> None:
    async with Cluster(nodes=1, seed=1) as cluster:
        await cluster.run_for("10s")
        made = cluster.request("create", "configmaps", "default", body=config_map("a")).obj
        watch = await watching(cluster, "configmaps")
        first = cluster.request("update", "configmaps", "default", "a", body={**made, "data": {"a": "2"}})
        second = cluster.request("update", "configmaps", "default", "a", body={**made, "data": {"a": "3"}})
        assert (first.code, second.code, second.reason) == (200, 409, "Conflict")
        again = cluster.request("update", "configmaps", "default", "a", body=first.obj)
        assert again.code == 200
        assert again.obj["metadata"]["resourceVersion"] == first.obj["metadata"]["resourceVersion"]
        await cluster.run_for("1s")
        assert [event.type for event in watch.take()] == ["MODIFIED"]


async def test_51_an_object_with_a_finalizer_is_marked_and_goes_when_the_last_is_removed() -> None:
    async with Cluster(nodes=1, seed=1) as cluster:
        await cluster.run_for("10s")
        deployment = workload("Deployment", "web", 0)
        body = {**deployment, "metadata": {**deployment["metadata"], "finalizers": FINALIZERS}}
        made = cluster.request("create", "deployments", "default", body=body).obj
        await cluster.run_for("2s")
        watch = await watching(cluster, "deployments")
        deleted_us = cluster.kernel.epoch_us + cluster.kernel.now_us
        answer = cluster.request("delete", "deployments", "default", "web").body or {}
        marked = cluster.get("deployments", "web")
        assert marked is not None
        assert parse_time(marked["metadata"]["deletionTimestamp"]) == deleted_us // SECOND * SECOND
        assert marked["metadata"]["generation"] == made["metadata"]["generation"] + 1
        if answer:
            assert answer.get("status") != "Failure"

        more = {"metadata": {"finalizers": [*FINALIZERS, "example.com/g"]}}
        refused = cluster.request("patch", "deployments", "default", "web", body=more, content_type=PATCH)
        assert (refused.code, refused.reason) == (422, "Invalid")
        none = {"metadata": {"finalizers": None}}
        assert cluster.request("patch", "deployments", "default", "web", body=none, content_type=PATCH).ok
        assert cluster.get("deployments", "web") is None
        await cluster.run_for("1s")
        told = watch.take()
        assert Counter(event.type for event in told)["DELETED"] == 1
        assert told[-1].type == "DELETED"
        gone = told[-1].item
        assert gone is not None
        assert int(gone.obj["metadata"]["resourceVersion"]) > int(marked["metadata"]["resourceVersion"])


async def test_52_a_pod_without_a_node_goes_at_once_and_one_with_a_node_after_its_grace() -> None:
    async with Cluster(nodes=1, seed=1) as cluster:
        cluster.apply(BIG, pod("placed", nodeName="node-0"))
        await cluster.run_for("20s")
        waiting = cluster.get("pods", "big")
        assert waiting is not None
        assert waiting["spec"]["terminationGracePeriodSeconds"] == 30
        assert "nodeName" not in waiting["spec"]
        assert cluster.request("delete", "pods", "default", "big").ok
        assert cluster.get("pods", "big") is None
        assert cluster.request("delete", "pods", "default", "placed").ok
        placed = cluster.get("pods", "placed")
        assert placed is not None and placed["metadata"]["deletionGracePeriodSeconds"] == 30


# --- 54: evictions --------------------------------------------------------------------------------


def budget(name: str, **spec: Any) -> Obj:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
    }


def evict(cluster: Cluster, name: str) -> Reply:
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": "default"},
    }
    return cluster.request("create", "pods", "default", name, subresource="eviction", body=body)


async def three_pods(cluster: Cluster, *budgets: Obj) -> list[str]:
    """Three ready pods of one set, by name."""
    cluster.apply(workload("ReplicaSet", "web", 3), *budgets)
    await cluster.run_for("40s")
    return [item["metadata"]["name"] for item in cluster.list("pods")]


def allowed(cluster: Cluster) -> int:
    found = cluster.get("poddisruptionbudgets", "web")
    assert found is not None
    return int(found["status"]["disruptionsAllowed"])


@pytest.mark.parametrize("wanted", [{"minAvailable": 2}, {"maxUnavailable": 1}, {"minAvailable": "50%"}])
async def test_54_a_second_eviction_is_refused_until_the_first_pod_is_replaced(wanted: Obj) -> None:
    async with Cluster(nodes=3, seed=1) as cluster:
        one, two, _ = await three_pods(cluster, budget("web", **wanted))
        assert allowed(cluster) == 1
        first = evict(cluster, one)
        assert first.code == 201
        assert allowed(cluster) == 0
        second = evict(cluster, two)
        assert (second.code, second.reason) == (429, "TooManyRequests")
        assert causes(second) == ["DisruptionBudget"]
        assert "Retry-After" not in second.headers
        assert "retryAfterSeconds" not in second.body["details"]
        assert await cluster.run_while(lambda: not allowed(cluster), "60s")
        assert evict(cluster, two).code == 201


async def test_54_a_pod_that_does_not_count_is_evicted_without_spending_the_budget() -> None:
    """A pending one always, one that is not ready while the others suffice."""
    async with Cluster(nodes=3, seed=1) as cluster:
        both = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "big"]}]}
        await three_pods(cluster, budget("web", minAvailable=2, selector=both))
        labels = {"app": "big"}  # the set would take in and delete a fourth of its own
        spare = {**BIG, "metadata": {"name": "big", "namespace": "default", "labels": labels}}
        assert cluster.request("create", "pods", "default", body=spare).ok
        await cluster.run_for("5s")
        before = allowed(cluster)
        assert evict(cluster, "big").code == 201
        assert allowed(cluster) == before

    async with Cluster(nodes=3, seed=1) as cluster:
        names = await three_pods(cluster, budget("web", minAvailable=2))
        node = next(p for p in cluster.list("pods") if p["metadata"]["name"] == names[0])["spec"]["nodeName"]
        cluster.fail_node(node, "power-loss")
        await cluster.run_for("60s")
        unready = [
            item["metadata"]["name"] for item in cluster.list("pods") if item["spec"]["nodeName"] == node
        ]
        assert unready == [names[0]] and allowed(cluster) == 0
        assert evict(cluster, names[0]).code == 201
        assert allowed(cluster) == 0
        assert evict(cluster, names[1]).code == 429


async def test_54_a_pod_of_two_budgets_is_not_evicted_at_all() -> None:
    async with Cluster(nodes=3, seed=1) as cluster:
        names = await three_pods(cluster, budget("web", minAvailable=1), budget("more", minAvailable=1))
        assert evict(cluster, names[0]).code == 500


# --- 57: slow start -------------------------------------------------------------------------------


async def rounds(replicas: int, **flags: str) -> list[int]:
    """How many pods a new set creates in each round: requests that are under way together.

    Answers take 100 ms to come, so that what is committed within 60 ms was sent together; the
    client's rate is no limit.
    """
    control = ComponentPlan(flags={"orch-api-qps": "100000", "orch-api-burst": "100000", **flags})
    plan = ClusterPlan(controller_manager=control, scheduler=ComponentPlan(0), latency_us=(50 * MS, 50 * MS))
    made: list[int] = []

    def see(change: Change) -> None:
        if change.item.key.startswith("//pods/") and change.prev is None:
            made.append(change.at_us)

    async with Cluster(plan, seed=1) as cluster:
        await cluster.run_for("10s")
        cluster.observe(see)
        cluster.apply(workload("ReplicaSet", "web", replicas))
        await cluster.run_for("30s")
    cuts = [number for number, (a, b) in enumerate(pairwise(made), 1) if b - a > 60 * MS]
    return [high - low for low, high in pairwise([0, *cuts, len(made)])]


@pytest.mark.parametrize(
    ("replicas", "wanted"),
    [
        (1, [1]),
        (3, [1, 2]),
        (8, [1, 2, 4, 1]),
        (100, [1, 2, 4, 8, 16, 32, 37]),
        (500, [1, 2, 4, 8, 16, 32, 64, 128, 245]),
        (1000, [1, 2, 4, 8, 16, 32, 64, 128, 245] * 2),
    ],
)
async def test_57_a_set_creates_pods_in_doubling_rounds_and_500_in_one_go_at_most(
    replicas: int, wanted: list[int]
) -> None:
    assert await rounds(replicas) == wanted


# --- 55: conflicts of appliers --------------------------------------------------------------------


def applied(cluster: Cluster, manager: str, replicas: int | None, **options: str) -> Reply:
    body = workload("Deployment", "web")
    if replicas is not None:
        body = {**body, "spec": {**body["spec"], "replicas": replicas}}
    options = {"fieldManager": manager, **options}
    return cluster.request(
        "patch", "deployments", "default", "web", body=body, content_type=APPLY, options=options
    )


async def test_55_an_applied_value_conflicts_until_it_is_forced_and_stays_when_given_up() -> None:
    async with Cluster(nodes=1, seed=1) as cluster:
        await cluster.run_for("20s")
        assert applied(cluster, "a", 3).code == 201
        refused = applied(cluster, "b", 5)
        assert (refused.code, refused.reason) == (409, "Conflict")
        (cause,) = [each for each in refused.body["details"]["causes"] if each["field"] == ".spec.replicas"]
        assert cause["reason"] == "FieldManagerConflict"
        assert '"a"' in cause["message"]
        forced = applied(cluster, "b", 5, force="true")
        assert forced.code == 200 and forced.obj["spec"]["replicas"] == 5
        given_up = applied(cluster, "a", None)
        assert given_up.code == 200 and given_up.obj["spec"]["replicas"] == 5
        refused = applied(cluster, "a", 3)
        assert refused.code == 409 and '"b"' in refused.body["message"]
        await cluster.run_for("20s")
        live = cluster.get("deployments", "web")
        assert live is not None and live["status"]["readyReplicas"] == 5
