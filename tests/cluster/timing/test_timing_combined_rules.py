"""Combinations of rules of controllers on whole clusters: sets and dead or crowded nodes, updates
and minimum times, tolerations of custom taints, ends of namespaces and Jobs across a change of
leader. The expected values of each test follow from the rules.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from actors.node.runtime.profile import ContainerBehaviour, Rule, RuntimeProfile
from sim.api.types import Obj
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from sim.units import SECOND
from tests.cluster.fixed import FixedPhases, workload
from tests.cluster.seen import pods_on, pods_with
from tests.cluster.timing.node.test_node_timing_agent import GI, SMALL, behaving, condition, pod

NEW: Obj = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "registry.example/c:2"}]}}}}
TWO_MANAGERS = ClusterPlan(controller_manager=ComponentPlan(replicas=2))


def patched(cluster: FixedPhases, resource: str, name: str, body: Obj, namespace: str = "default") -> None:
    kind = "application/strategic-merge-patch+json"
    reply = cluster.request("patch", resource, namespace, name, body=body, content_type=kind)
    assert reply.ok, reply.message


class Pods:
    """When pods came, were Ready, were marked and went: (time, name) in order."""

    def __init__(self, cluster: FixedPhases, prefix: str = "//pods/default/") -> None:
        self._prefix = prefix
        self.added: list[tuple[float, str]] = []
        self.ready: list[tuple[float, str]] = []
        self.marked: list[tuple[float, str]] = []
        self.gone: list[tuple[float, str]] = []
        cluster.observe(self._see)

    def _see(self, change: Any) -> None:
        if not change.item.key.startswith(self._prefix):
            return
        meta, at = change.item.obj["metadata"], change.at_us / SECOND
        entry = (at, meta["name"])
        before = change.prev.obj if change.prev is not None else None
        if change.deleted:
            self.gone.append(entry)
        elif before is None:
            self.added.append(entry)
        else:
            if "deletionTimestamp" in meta and "deletionTimestamp" not in before["metadata"]:
                self.marked.append(entry)
            if _is_ready(change.item.obj) and not _is_ready(before):
                self.ready.append(entry)

    def names(self, of: list[tuple[float, str]]) -> list[str]:
        return [name for _, name in of]


def _is_ready(obj: Obj) -> bool:
    held = (obj.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in held)


# --- sets -----------------------------------------------------------------------------------------


async def test_daemon_pods_rejected_by_a_full_node_are_recreated_after_growing_delays() -> None:
    """0, 1, 2, 4 … s; a new leader does not know them and starts from 0."""
    profile = RuntimeProfile(rules=(Rule(ContainerBehaviour(log_bytes=GI), pod_prefix="big"),))
    async with FixedPhases({"": 1}, TWO_MANAGERS, profile=profile, capacity=SMALL) as cluster:
        cluster.apply(pod("big"))
        await cluster.run_until("40s")
        node = cluster.nodes["node-0"]
        node.set_pressure("nodefs", GI)
        over = node.machine.outside["nodefs"]
        node.machine.outside["nodefs"] = type(over)(over.end + 5 * GI, over.end + 5 * GI, 0, 0)
        await cluster.run_until("60s")
        assert condition(cluster, "DiskPressure")["status"] == "True"
        pods = Pods(cluster)
        cluster.apply(workload("DaemonSet", "agent"))
        await cluster.run_until("130s")
        times = [at for at, _ in pods.added]
        gaps = [later - earlier for earlier, later in pairwise(times)]
        assert len(gaps) >= 6
        for wanted, gap in zip((0, 1, 2, 4, 8, 16), gaps, strict=False):
            assert wanted <= gap <= wanted + 1.5
        cluster.supervisor[cluster.actor_named("controller-manager-leader")].crash()
        await cluster.run_until("165s")
        led = cluster.seen.leaders[-1][0] / SECOND
        after = [at for at, _ in pods.added if at > led]
        assert len(after) >= 4 and after[0] <= led + 2 and after[3] <= after[0] + 10


async def test_a_surging_daemon_set_keeps_the_old_pod_until_the_new_one_is_available() -> None:
    async with FixedPhases({"": 2}) as cluster:
        rolling = {"maxUnavailable": 0, "maxSurge": 1}
        strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
        cluster.apply(workload("DaemonSet", "agent", minReadySeconds=10, updateStrategy=strategy))
        await cluster.run_until("60s")
        pods = Pods(cluster)
        patched(cluster, "daemonsets", "agent", NEW)
        await cluster.run_until("64s")
        assert len(cluster.list("pods")) == 3
        await cluster.run_until("160s")
        assert len(pods.marked) == 2
        for (marked, _), (ready, _) in zip(pods.marked, pods.ready, strict=True):
            assert 10 <= marked - ready <= 12.5


async def test_a_stateful_set_looks_for_minimum_ready_times_at_multiples_of_them() -> None:
    """Each sync requests the next one after twenty seconds, and a waiting one is not delayed: 20,
    40, 60 …
    """
    async with FixedPhases({"": 1}) as cluster:
        pods = Pods(cluster)
        await cluster.run_until("20s")
        ordered = {"podManagementPolicy": "OrderedReady", "minReadySeconds": 20}
        cluster.apply(workload("StatefulSet", "web", 3, **ordered))
        await cluster.run_until("130s")
        assert [round(at) for at, _ in pods.added] == [20, 60, 100]


async def test_an_unready_pod_of_an_ordered_set_holds_up_scaling_down() -> None:
    """Also of those that stay; ready again, the last goes first and the next when it is gone."""
    async with FixedPhases({"": 1}) as cluster:
        made = workload("StatefulSet", "web", 3, podManagementPolicy="OrderedReady")
        probe = {"httpGet": {"port": 80}, "periodSeconds": 2, "failureThreshold": 1}
        made["spec"]["template"]["spec"]["containers"][0]["readinessProbe"] = probe
        cluster.apply(made)
        await cluster.run_until("60s")
        node = cluster.nodes["node-0"]
        assert node.set_health("default", "web-0", "c", False)
        await cluster.run_until("70s")
        pods = Pods(cluster)
        patched(cluster, "statefulsets", "web", {"spec": {"replicas": 1}})
        await cluster.run_until("120s")
        assert not pods.marked
        assert node.set_health("default", "web-0", "c", True)
        await cluster.run_until("160s")
        assert pods.names(pods.marked) == ["web-2", "web-1"]
        assert pods.marked[1][0] >= pods.gone[0][0]


async def test_recreation_waits_for_the_pod_of_a_dead_node_until_that_is_removed() -> None:
    async with FixedPhases({"": 2}) as cluster:
        cluster.apply(workload("Deployment", "web", 2, strategy={"type": "Recreate"}))
        await cluster.kill("node-1")
        await cluster.run_until("150s")
        pods = Pods(cluster)
        patched(cluster, "deployments", "web", NEW)
        await cluster.run_until("400s")
        assert not pods.added
        assert cluster.request("delete", "nodes", "", "node-1").ok
        await cluster.run_until("490s")
        assert 440 <= pods.added[0][0] <= 482


async def test_time_while_a_deployment_is_paused_does_not_count_against_its_deadline() -> None:
    profile = RuntimeProfile(warm=False, broken_images={"registry.example/c:1": "no such image"})
    async with FixedPhases({"": 1}, profile=profile) as cluster:

        def reason() -> str:
            found = cluster.get("deployments", "web")
            assert found is not None
            held = found["status"]["conditions"]
            return next(str(each["reason"]) for each in held if each["type"] == "Progressing")

        await cluster.run_until("10s")
        cluster.apply(workload("Deployment", "web", 2, progressDeadlineSeconds=30))
        await cluster.run_until("20s")
        patched(cluster, "deployments", "web", {"spec": {"paused": True}})
        await cluster.run_until("120s")
        assert reason() == "DeploymentPaused"
        patched(cluster, "deployments", "web", {"spec": {"paused": False}})
        await cluster.run_until("149s")
        assert reason() != "ProgressDeadlineExceeded"
        await cluster.run_until("155s")
        assert reason() == "ProgressDeadlineExceeded"


# --- custom taints --------------------------------------------------------------------------------


def tainted(cluster: FixedPhases, *keys: str) -> None:
    body = {"spec": {"taints": [{"key": key, "effect": "NoExecute"} for key in keys]}}
    kind = "application/merge-patch+json"
    assert cluster.request("patch", "nodes", "", "node-0", body=body, content_type=kind).ok


def tolerating(seconds: int | None, key: str = "x") -> Obj:
    limit = {} if seconds is None else {"tolerationSeconds": seconds}
    name = {"key": key} if key else {}
    return {**name, "operator": "Exists", "effect": "NoExecute", **limit}


async def test_pods_leave_a_tainted_node_after_their_tolerations() -> None:
    """Nothing, zero and less: at once; the shorter of two times, and for good once it runs; without
    end: never.
    """
    rows: list[list[Obj]] = [
        [],
        [tolerating(0)],
        [tolerating(-5)],
        [tolerating(20)],
        [tolerating(None)],
        [tolerating(7, "")],
        [tolerating(30), tolerating(10, "y")],
    ]
    async with FixedPhases({"": 2}) as cluster:
        tolerated = [[*row, tolerating(None, "y")] if len(row) < 2 else row for row in rows]
        cluster.apply(*pods_with("node-0", tolerated))
        await cluster.run_until("60s")
        pods = Pods(cluster)
        tainted(cluster, "x", "y")
        await cluster.run_until("65s")
        tainted(cluster, "x")
        await cluster.run_until("200s")
        left = {int(name.rpartition("-")[2]): at for at, name in pods.marked}
        wanted = {0: 60, 1: 60, 2: 60, 3: 80, 5: 67, 6: 70}
        assert left.keys() == wanted.keys()
        assert all(wanted[row] <= left[row] <= wanted[row] + 0.3 for row in wanted)


async def test_controller_with_a_fast_clock_keeps_its_own_time() -> None:
    """Twice as fast: 20 s of silence and half a pass, the next pass 2.5 s later, 150 s of
    toleration.
    """
    async with FixedPhases({"": 3}) as cluster:
        cluster.apply(*pods_on(["node-1"], 1))
        await cluster.run_until("50s")
        clock = cluster.supervisor[cluster.actor_named("controller-manager-leader")].clock
        clock.set(cluster.kernel.now_us, drift_ppm=1_000_000)
        await cluster.kill("node-1")
        await cluster.run_until("400s")
        seen = cluster.seen
        found, taint = seen.unknown["node-1"] / SECOND, seen.no_execute["node-1"] / SECOND
        assert 110 <= found <= 118 and 2.4 <= taint - found <= 2.8
        assert 149.8 <= seen.deleted["node-1"][0] / SECOND - taint <= 150.3


# --- namespaces and Jobs --------------------------------------------------------------------------


async def test_a_namespace_ends_with_its_last_pod_also_where_that_is_on_a_dead_node() -> None:
    async with FixedPhases({"": 2}) as cluster:
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}})
        await cluster.run_until("20s")
        held = pod("web", "node-1")
        cluster.apply({**held, "metadata": {**held["metadata"], "namespace": "x"}})
        await cluster.kill("node-1")
        await cluster.run_until("140s")
        pods, namespaces = Pods(cluster, "//pods/x/"), Pods(cluster, "//namespaces/")
        assert cluster.request("delete", "namespaces", "", "x").ok
        await cluster.run_until("300s")
        assert not namespaces.gone
        assert cluster.request("delete", "nodes", "", "node-1").ok
        await cluster.run_until("460s")
        assert 340 <= pods.gone[0][0] <= 382
        assert (
            pods.gone[0][0] <= namespaces.gone[0][0] <= pods.gone[0][0] + 62
        )  # tries are a minute apart by then


@pytest.mark.parametrize("crash", [False, True])
async def test_finished_job_is_deleted_after_its_ttl_under_any_leader(crash: bool) -> None:
    async with FixedPhases({"": 1}, TWO_MANAGERS, profile=behaving(exit_after_us=5 * SECOND)) as cluster:
        ended: list[float] = []
        gone: list[float] = []

        def see(change: Any) -> None:
            if "/jobs/" not in change.item.key:
                return
            conditions = (change.item.obj.get("status") or {}).get("conditions") or ()
            if change.deleted:
                gone.append(change.at_us / SECOND)
            elif any(each["type"] == "Complete" for each in conditions):
                ended.append(change.at_us / SECOND)

        cluster.observe(see)
        await cluster.run_until("20s")
        template = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "registry.example/c:1"}]}
        cluster.apply(
            {
                "apiVersion": f"{cluster.scheme.resource('jobs').group}/v1",
                "kind": "Job",
                "metadata": {"name": "task", "namespace": "default"},
                "spec": {"ttlSecondsAfterFinished": 60, "template": {"spec": template}},
            }
        )
        await cluster.run_until("40s")
        if crash:
            cluster.supervisor[cluster.actor_named("controller-manager-leader")].crash()
        await cluster.run_until("120s")
        assert 59 <= gone[0] - ended[0] <= 62
