"""Combinations of rules of controllers and the scheduler, with times that follow from the facts
alone.

Stalled rollouts, sets with a failed node, jobs on a schedule that overlap, autoscaling at a
limited rate, preemption with more than one choice, and candidates for a lease with clocks of
different rates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from actors.node.runtime.profile import ContainerBehaviour, Override, Rule, RuntimeProfile
from sim.api.store import Change
from sim.api.types import Obj
from sim.app.cluster import Cluster
from sim.app.plain_plan import plain_nodes
from sim.units import SECOND
from tests.cluster.fixed import FixedPhases, workload
from tests.cluster.timing.node.test_node_timing_agent import PodTimes
from tests.cluster.timing.test_timing_batch import Made, conditions, ends, job, status_of
from tests.cluster.timing.test_timing_election import MANAGER, Leadership, candidates
from tests.cluster.timing.test_timing_workloads import THREE, patched, template
from tests.cluster.timing.test_timing_zones import manager

STUBBORN = RuntimeProfile(rules=(Rule(ContainerBehaviour(stop_us=None)),))  # ignores SIGTERM
# SIGTERM is its failure
FAILING = RuntimeProfile(rules=(Rule(ContainerBehaviour(stop_exit_code=143)),))


def images(cluster: Cluster) -> dict[str, str]:
    pods = cluster.list("pods", "default")
    return {pod["metadata"]["name"]: pod["spec"]["containers"][0]["image"].rpartition("/")[2] for pod in pods}


def living(cluster: Cluster) -> int:
    return sum("deletionTimestamp" not in pod["metadata"] for pod in cluster.list("pods", "default"))


async def roll_out_nothing(cluster: FixedPhases, made: Obj) -> None:
    """A workload, and at 60 s a version of it that never starts."""
    cluster.apply(made)
    await cluster.run_until("60s")
    for node in cluster.nodes.values():
        node.behave([Override({}, image="gone:1", pull_error="no such image")])
    patched(cluster, f"{made['kind'].lower()}s", made["metadata"]["name"], template(made, "gone:1"))
    await cluster.run_until("120s")


# --- deployments ----------------------------------------------------------------------------------


def sizes(cluster: Cluster) -> list[int]:
    """Of a Deployment's ReplicaSets, by revision."""

    def revision(replica_set: Obj) -> int:
        noted = replica_set["metadata"]["annotations"]
        return int(next(value for key, value in noted.items() if key.endswith("/revision")))

    found = sorted(cluster.list("replicasets", "default"), key=revision)
    return [replica_set["spec"]["replicas"] for replica_set in found]


@pytest.mark.parametrize(
    ("replicas", "rolling", "rest"),
    [
        (10, {}, [8, 5]),
        (4, {}, [3, 2]),
        (3, {}, [3, 1]),
        (1, {}, [1, 1]),
        (7, {"maxSurge": "30%", "maxUnavailable": "30%"}, [5, 5]),
        (5, {"maxSurge": 0, "maxUnavailable": 2}, [3, 2]),
        (6, {"maxSurge": "50%", "maxUnavailable": 0}, [6, 3]),
        (9, {"maxSurge": 2, "maxUnavailable": 4}, [5, 6]),
    ],
)
async def test_a_rollout_of_what_never_starts_comes_to_rest_at_its_two_limits(
    replicas: int, rolling: Mapping[str, Any], rest: list[int]
) -> None:
    """Old: all but those that may be unavailable.  New: as many as the surge leaves room for beside
    these.
    """
    strategy = {"type": "RollingUpdate", **({"rollingUpdate": dict(rolling)} if rolling else {})}
    async with FixedPhases(THREE) as cluster:
        await roll_out_nothing(cluster, workload("Deployment", "web", replicas, strategy=strategy))
        assert sizes(cluster) == rest


@pytest.mark.parametrize(("replicas", "rest"), [(15, [12, 7]), (5, [4, 3]), (20, [15, 10])])
async def test_stalled_rollout_is_scaled_in_proportion(replicas: int, rest: list[int]) -> None:
    """From 8 and 5 of 13 to parts of 15 + 4, of 5 + 2, of 20 + 5."""
    async with FixedPhases(THREE) as cluster:
        await roll_out_nothing(cluster, workload("Deployment", "web", 10))
        patched(cluster, "deployments", "web", {"spec": {"replicas": replicas}})
        await cluster.run_until("180s")
        assert sizes(cluster) == rest


# --- stateful and daemon sets ---------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
async def test_a_broken_update_taken_back_mends_only_a_set_that_does_not_wait_for_order(policy: str) -> None:
    async with FixedPhases(THREE) as cluster:
        made = workload("StatefulSet", "web", 3, podManagementPolicy=policy)
        await roll_out_nothing(cluster, made)
        assert images(cluster) == {"web-0": "c:1", "web-1": "c:1", "web-2": "gone:1"}
        patched(cluster, "statefulsets", "web", {"spec": {"template": made["spec"]["template"]}})
        await cluster.run_until("130s" if policy == "Parallel" else "300s")
        assert images(cluster)["web-2"] == ("c:1" if policy == "Parallel" else "gone:1")
        if policy == "OrderedReady":
            assert cluster.request("delete", "pods", "default", "web-2").ok
            await cluster.run_until("310s")
            assert images(cluster)["web-2"] == "c:1"


async def test_a_daemon_set_is_held_up_by_the_pod_of_a_dead_node_once_that_is_deleted() -> None:
    """Old and unavailable, it goes at once and beside the one that may: that is two of five, with a
    limit of one.

    From then on its node has no pod that counts, and nothing more goes until the node is removed.
    """
    async with FixedPhases({"": 5}) as cluster:
        made = workload("DaemonSet", "agent")
        cluster.apply(made)
        await cluster.kill("node-3")
        await cluster.run_until("200s")
        patched(cluster, "daemonsets", "agent", template(made, "r/c:2"))
        await cluster.run_until("400s")
        assert sorted(images(cluster).values()) == ["c:1"] * 4 + ["c:2"]
        assert "node-3" in cluster.seen.deleted and len(cluster.seen.deleted) == 2
        assert cluster.request("delete", "nodes", "", "node-3").ok
        await cluster.run_until("520s")
        assert sorted(images(cluster).values()) == ["c:2"] * 4


# --- jobs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "deadline", "starts"),
    [
        ("Forbid", None, [(60.1, 60.2), (152, 157), (244, 257)]),  # when the one before ends
        ("Forbid", 20, [(60.1, 60.2), (180.1, 180.2)]),  # 120 is too long ago by then
        ("Replace", None, [(60.1, 60.2), (120.1, 120.2), (180.1, 180.2), (240.1, 240.2)]),
        ("Allow", None, [(60.1, 60.2), (120.1, 120.2), (180.1, 180.2), (240.1, 240.2)]),
    ],
)
async def test_jobs_of_ninety_seconds_that_are_due_each_minute(
    policy: str, deadline: int | None, starts: list[tuple[float, float]]
) -> None:
    spec = {
        "schedule": "* * * * *",
        "concurrencyPolicy": policy,
        "jobTemplate": {"spec": job()["spec"]},
        **({} if deadline is None else {"startingDeadlineSeconds": deadline}),
    }
    metadata = {"name": "tick", "namespace": "default"}
    async with FixedPhases(THREE, profile=ends(90)) as cluster:
        await cluster.run_until("20s")
        made = Made(cluster, "jobs")
        cluster.apply({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": spec})
        await cluster.run_until("260s")
        assert len(made.at) == len(starts)
        assert all(low <= at <= high for at, (low, high) in zip(made.at, starts, strict=True))
        # never two at once, but where they may
        runs = sum(not conditions(each) for each in cluster.list("jobs", "default"))
        assert runs == (2 if policy == "Allow" else 1)


@pytest.mark.parametrize(("change", "left"), [({"suspend": True}, 0), ({"parallelism": 2}, 2)])
async def test_pods_that_a_job_has_no_more_use_for_are_no_failures(
    change: Mapping[str, Any], left: int
) -> None:
    """More of them than the back-off limit."""
    async with FixedPhases(THREE, profile=FAILING) as cluster:
        await cluster.run_until("20s")
        cluster.apply(job(parallelism=10, completions=10))
        await cluster.run_until("50s")
        patched(cluster, "jobs", "work", {"spec": dict(change)})
        await cluster.run_until("50300ms")
        assert living(cluster) == left
        await cluster.run_until("100s")
        found = status_of(cluster, "work")
        assert "failed" not in found["status"]
        assert not any(kind == "Failed" for kind, _ in conditions(found))


# --- autoscaling ----------------------------------------------------------------------------------

DOWN = {"stabilizationWindowSeconds": 0, "policies": [{"type": "Percent", "value": 50, "periodSeconds": 60}]}
UP = {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}


@pytest.mark.parametrize(
    ("replicas", "load_milli", "flags", "behavior", "steps"),
    [
        (4, 1080, {}, {}, []),  # 8 % above
        (4, 1120, {}, {}, [(5, 15)]),
        (4, 600, {}, {}, [(3, 315)]),  # what was first recommended counts for five minutes
        (4, 600, {"downscale_stabilization": "60s"}, {}, [(3, 75)]),
        (4, 1200, {"tolerance": "0.3"}, {}, []),
        (4, 1400, {"tolerance": "0.3", "sync_period": "5s"}, {}, [(6, 5)]),
        (1, 5000, {}, {}, [(4, 15), (8, 30), (16, 45), (20, 60)]),
        (2, 4000, {}, {"scaleUp": UP}, [(3, 15), (4, 75), (5, 135), (6, 195)]),
        (8, 8, {}, {"scaleDown": DOWN}, [(4, 15), (2, 75), (1, 135)]),
        (4, 8, {}, {"scaleDown": {"selectPolicy": "Disabled"}}, []),
    ],
)
async def test_an_autoscaler_takes_its_steps_at_its_looks(
    replicas: int,
    load_milli: int,
    flags: Mapping[str, str],
    behavior: Mapping[str, Any],
    steps: list[tuple[int, int]],
) -> None:
    """Half of 500m is wanted of each pod; a look each 15 s, from 400 s on, when all pods are past
    their first minutes.
    """
    control = manager(**{f"horizontal_pod_autoscaler_{name}": value for name, value in flags.items()})
    nodes = tuple(replace(node, capacity={**node.capacity, "cpu": "16"}) for node in plain_nodes(4))
    made = workload("Deployment", "web", replicas)
    made["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "500m"}}
    target = {"type": "Utilization", "averageUtilization": 50}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 1,
        "maxReplicas": 20,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        **({"behavior": dict(behavior)} if behavior else {}),
    }
    scaler = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"}
    told: list[tuple[int, float]] = []

    def see(change: Change) -> None:
        if change.prev is not None:
            before, now = change.prev.obj["spec"]["replicas"], change.item.obj["spec"]["replicas"]
            if before != now:
                told.append((now, change.at_us / SECOND - 400))

    async with Cluster(replace(control, metrics=True, nodes=nodes), seed=1) as cluster:
        for node in cluster.nodes.values():
            node.behave([Override({"load_milli": load_milli})])
        cluster.apply(made)
        await cluster.run_until("400s")
        cluster.observe(see, ["deployments"])
        cluster.apply({**scaler, "metadata": {"name": "web", "namespace": "default"}, "spec": spec})
        await cluster.run_for("350s" if steps and steps[-1][1] > 300 else "200s")
        assert [size for size, _ in told] == [size for size, _ in steps]
        # a look too late where a period of exactly its length has to be over
        assert all(0 <= at - due <= 15.6 for (_, at), (_, due) in zip(told, steps, strict=True))


# --- preemption -----------------------------------------------------------------------------------


def pod(name: str, cpu: str = "1", priority: str = "", node: str = "") -> Obj:
    container = {"name": "c", "image": "r/c:1", "resources": {"requests": {"cpu": cpu}}}
    spec: Obj = {"containers": [container]}
    if priority:
        spec["priorityClassName"] = priority
    if node:
        spec["nodeName"] = node
    meta = {"name": name, "namespace": "default", "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def priority_class(cluster: Cluster, name: str, value: int) -> Obj:
    version = cluster.scheme.resource("priorityclasses").api_version
    return {"apiVersion": version, "kind": "PriorityClass", "metadata": {"name": name}, "value": value}


async def test_preemptor_waits_for_its_victims_grace_and_keeps_the_node() -> None:
    """A pod without priority that is created in between does not get the room."""
    async with FixedPhases({"": 1}, profile=STUBBORN, capacity={"cpu": "2"}) as cluster:
        times = PodTimes(cluster)
        cluster.apply(priority_class(cluster, "urgent", 1000), pod("a"), pod("b"))
        await cluster.run_until("40s")
        cluster.apply(pod("u", priority="urgent"))
        await cluster.run_until("45s")
        (marked_us,) = cluster.seen.deleted["node-0"]
        assert marked_us <= 41 * SECOND
        assert cluster.pod("u")["status"]["nominatedNodeName"] == "node-0"
        cluster.apply(pod("late"))
        await cluster.run_until("69s")
        assert not times.gone and not cluster.pod("u")["spec"].get("nodeName")
        assert await cluster.run_while(lambda: not times.gone, "60s", SECOND // 100)
        assert 70 <= cluster.kernel.now_us / SECOND <= 74
        await cluster.run_for("1600ms")
        assert cluster.pod("u")["spec"]["nodeName"] == "node-0"
        await cluster.run_for("60s")
        assert not cluster.pod("late")["spec"].get("nodeName")


async def test_preemptor_on_a_failed_node_preempts_elsewhere_after_the_detection() -> None:
    """The victim there never ends: while its node is only full, no other pod is preempted; a taint
    of the node makes the wait hopeless.
    """
    async with FixedPhases({"": 2}, profile=STUBBORN, capacity={"cpu": "1"}) as cluster:
        cluster.apply(
            priority_class(cluster, "urgent", 1000), pod("a", node="node-0"), pod("b", node="node-1")
        )
        await cluster.run_until("60s")
        cluster.apply(pod("u", priority="urgent"))
        await cluster.run_until("62s")
        first = cluster.pod("u")["status"]["nominatedNodeName"]
        cluster.fail_node(first, "power-loss")
        await cluster.run_until("450s")
        (other,) = [name for name in ("node-0", "node-1") if name != first]
        assert cluster.pod("u")["spec"]["nodeName"] == other
        assert len([e for e in cluster.list("events") if e["reason"] == "Preempted"]) == 2


@pytest.mark.parametrize("guarded", ["node-0", "node-1"])
async def test_a_victim_under_a_budget_without_room_is_spared_where_another_will_do(guarded: str) -> None:
    selector = {"matchLabels": {"app": f"on-{guarded}"}}
    budget: Obj = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "guard", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": selector},
    }
    async with FixedPhases({"": 2}, capacity={"cpu": "1"}) as cluster:
        pods = [pod(f"on-{name}", node=name) for name in ("node-0", "node-1")]
        cluster.apply(priority_class(cluster, "urgent", 1000), budget, *pods)
        await cluster.run_until("40s")
        cluster.apply(pod("u", priority="urgent"))
        await cluster.run_until("80s")
        assert list(cluster.seen.deleted) == [{"node-0": "node-1", "node-1": "node-0"}[guarded]]


@pytest.mark.parametrize(("priority", "node", "victims"), [("", "node-1", 1), ("middle", "node-0", 2)])
async def test_fewer_victims_are_chosen_but_two_that_matter_less_before_one(
    priority: str, node: str, victims: int
) -> None:
    async with FixedPhases({"": 2}, capacity={"cpu": "2"}) as cluster:
        classes = [priority_class(cluster, "urgent", 1000), priority_class(cluster, "middle", 5)]
        two = [pod("a", node="node-0"), pod("b", node="node-0")]
        cluster.apply(*classes, *two, pod("c", "2", priority, "node-1"))
        await cluster.run_until("40s")
        cluster.apply(pod("u", "2", "urgent"))
        await cluster.run_until("90s")
        assert {name: len(times) for name, times in cluster.seen.deleted.items()} == {node: victims}


# --- leases ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.8, 1, 1.2, 5])
async def test_a_standby_counts_the_lease_by_its_own_clock(rate: float) -> None:
    """It takes nothing from a leader that renews, as long as its 15 s are more than the leader's 2."""
    async with Cluster(candidates(MANAGER), seed=3) as cluster:
        lease = Leadership(cluster, MANAGER)
        await cluster.run_for("33s")
        leader = lease.leader
        (standby,) = {f"{MANAGER}-0", f"{MANAGER}-1"} - {leader}
        clock = cluster.supervisor[standby].clock
        clock.set(cluster.kernel.now_us, offset_us=3600 * SECOND, drift_ppm=round((rate - 1) * 1e6))
        await cluster.run_for("300s")
        assert len(lease.taken) == 1
        crashed = cluster.kernel.now_us / SECOND
        cluster.supervisor[leader].crash("killed")
        took = await lease.until_taken(1) - crashed
        assert 15 / rate - 2 - 0.01 <= took <= (15 + 2 * 4.4) / rate + 0.1
