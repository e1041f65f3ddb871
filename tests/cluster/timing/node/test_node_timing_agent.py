"""The node's own timing on whole clusters: known cases, numbered in the names of the tests, and
what follows from the facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest

from actors.node.runtime.profile import ContainerBehaviour, Rule, RuntimeProfile
from sim.api.types import Obj
from sim.kernel import Rule as NetworkRule
from sim.units import SECOND, format_micro_time, parse_time
from tests.cluster.fixed import FixedPhases, workload

MI = 1 << 20
GI = 1 << 30
SMALL = {"memory": "8Gi"}


def behaving(**behaviour: Any) -> RuntimeProfile:
    return RuntimeProfile(rules=(Rule(ContainerBehaviour(**behaviour)),))


def using(megabytes: Mapping[str, int]) -> RuntimeProfile:
    """Pods by the prefix of their names and the MiB of memory that they use."""
    rules = tuple(
        Rule(ContainerBehaviour(memory_bytes=size * MI), pod_prefix=name) for name, size in megabytes.items()
    )
    return RuntimeProfile(rules=rules)


def pod(name: str, node: str = "node-0", requests: Mapping[str, str] | None = None, **spec: Any) -> Obj:
    """A pod of one container, bound."""
    more = spec.pop("container", {})
    container = {"name": "c", "image": "registry.example/c:1", **more}
    if requests:
        container["resources"] = {"requests": dict(requests)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
        "spec": {"nodeName": node, "containers": [container], **spec},
    }


def at_s(cluster: FixedPhases, text: str) -> float:
    """Seconds since the start of the run of a time of the API."""
    return (parse_time(text) - cluster.kernel.epoch_us) / SECOND


def condition(cluster: FixedPhases, type_: str, node: str = "node-0") -> Obj:
    found = cluster.get("nodes", node)
    assert found is not None
    held: Obj = next(c for c in found["status"]["conditions"] if c["type"] == type_)
    return held


def taints(cluster: FixedPhases, node: str = "node-0") -> list[str]:
    found = cluster.get("nodes", node)
    assert found is not None
    return [taint["key"] for taint in found["spec"].get("taints") or ()]


class PodTimes:
    """When pods' statuses came to say something, by (pod, what)."""

    def __init__(self, cluster: FixedPhases) -> None:
        self.evicted: dict[str, float] = {}
        self.failed: dict[str, float] = {}
        self.unready: dict[str, float] = {}
        self.ready: dict[str, float] = {}
        self.gone: dict[str, float] = {}
        cluster.observe(self._see)

    def _see(self, change: Any) -> None:
        if not change.item.key.startswith("//pods/"):
            return
        name, now_s = change.item.obj["metadata"]["name"], change.at_us / SECOND
        if change.deleted:
            self.gone[name] = now_s
            return
        status = change.item.obj.get("status") or {}
        if status.get("phase") == "Failed":
            self.failed.setdefault(name, now_s)
            if status.get("reason") == "Evicted":
                self.evicted.setdefault(name, now_s)
        for held in status.get("conditions") or ():
            if held["type"] == "Ready" and held["status"] == "True":
                self.ready.setdefault(name, now_s)
            elif held["type"] == "Ready" and name in self.ready:
                self.unready.setdefault(name, now_s)


# --- a node that was gone -------------------------------------------------------------------------


@pytest.mark.parametrize(("how", "gone_by"), [("restarted", 645), ("partition", 705)])
async def test_14_node_that_returns_ends_its_evicted_pod(how: str, gone_by: int) -> None:
    async with FixedPhases({"": 10}) as cluster:
        times = PodTimes(cluster)
        cluster.apply(workload("ReplicaSet", "web", 10))
        await cluster.run_until("90s")
        (old,) = [p for p in cluster.list("pods") if p["spec"]["nodeName"] == "node-3"]
        await cluster.run_until("95s")
        if how == "restarted":
            cluster.nodes["node-3"].power_loss()
        else:
            cluster.kernel.network.impose(NetworkRule("cut", frozenset({"node-3"}), None, cut=True))
        await cluster.run_until("600s")
        name = old["metadata"]["name"]
        assert name not in times.gone
        if how == "restarted":
            cluster.nodes["node-3"].power_on()
        else:
            cluster.kernel.network.lift("cut")
        await cluster.run_until("710s")
        assert 600 < times.gone[name] <= gone_by
        assert len(times.gone) == 1
        live = cluster.list("pods")
        assert len(live) == 10 and all(p["status"]["phase"] == "Running" for p in live)
        assert not cluster.nodes["node-3"].machine.pods
        assert condition(cluster, "Ready", "node-3")["status"] == "True"


# --- heartbeats -----------------------------------------------------------------------------------


def ghost() -> Obj:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "ghost"}}


async def test_28_a_node_that_never_reports_turns_unknown_after_its_startup_grace() -> None:
    async with FixedPhases({"": 3}) as cluster:
        cluster.apply(ghost())
        await cluster.run_until("60s")
        found = cluster.get("nodes", "ghost")
        assert found is not None and not (found.get("status") or {}).get("conditions")
        await cluster.run_until("80s")
        assert list(cluster.seen.unknown) == ["ghost"]
        found = cluster.get("nodes", "ghost")
        assert found is not None
        created_s = at_s(cluster, found["metadata"]["creationTimestamp"])
        assert 60 < cluster.seen.unknown["ghost"] / SECOND - created_s <= 65.1
        assert [c["reason"] for c in found["status"]["conditions"]] == ["NodeStatusNeverUpdated"] * 4


async def test_29_a_lease_without_status_keeps_a_node_from_being_judged() -> None:
    async with FixedPhases({"": 3}) as cluster:
        cluster.apply(ghost())
        await cluster.run_until("1s")
        namespace = cluster.names.lease_namespace
        lease: Obj = {
            "apiVersion": f"{cluster.scheme.resource('leases').group}/v1",
            "kind": "Lease",
            "metadata": {"name": "ghost", "namespace": namespace},
            "spec": {"holderIdentity": "ghost", "leaseDurationSeconds": 40},
        }
        for turn in range(60):
            now = format_micro_time(cluster.kernel.epoch_us + cluster.kernel.now_us)
            lease = {**lease, "spec": {**lease["spec"], "renewTime": now}}
            verb, name = ("update", "ghost") if turn else ("create", "")
            reply = cluster.request(verb, "leases", namespace, name, body=lease)
            assert reply.ok, reply.message
            lease = reply.obj
            await cluster.run_for("10s")
        assert "ghost" not in cluster.seen.unknown
        found = cluster.get("nodes", "ghost")
        assert found is not None and not (found.get("status") or {}).get("conditions")


@pytest.mark.parametrize("back", ["200s", "203s", "206s"])
async def test_30_an_outage_of_the_api_is_no_failure_of_nodes(back: str) -> None:
    async with FixedPhases({"": 10}) as cluster:
        cluster.apply(workload("ReplicaSet", "web", 10))
        await cluster.run_until("100s")
        cluster.supervisor["apiserver-0"].crash()
        await cluster.run_until(back)
        cluster.supervisor["apiserver-0"].start()
        await cluster.run_for("10500ms")
        if cluster.seen.unknown:
            assert len(cluster.seen.unknown) == 10
        ready = [condition(cluster, "Ready", node)["status"] for node in cluster.nodes_of()]
        assert ready == ["True"] * 10
        await cluster.run_until("900s")
        assert not cluster.seen.no_execute
        assert not cluster.seen.deleted


async def test_a_change_is_reported_within_ten_seconds_and_nothing_new_every_five_minutes() -> None:
    async with FixedPhases({"": 1}) as cluster:
        writes: list[float] = []

        def see(change: Any) -> None:
            if change.item.key.startswith("//nodes/") and change.prev is not None:
                if change.item.obj.get("status") != change.prev.obj.get("status"):
                    writes.append(change.at_us / SECOND)

        await cluster.run_until("20s")
        cluster.observe(see)
        await cluster.run_until("700s")
        assert all(300 <= later - earlier <= 311 for earlier, later in pairwise(writes))
        assert len(writes) == 2
        cluster.nodes["node-0"].fail_pod_network("cni down")
        await cluster.run_until("720s")
        # the runtime is looked at every 5 s, the status every 10
        assert 0 < writes[2] - 700 <= 15.5


# --- restarts and probes --------------------------------------------------------------------------


async def test_32_a_crash_loop_is_restarted_after_growing_delays() -> None:
    async with FixedPhases({"": 1}, profile=behaving(exit_after_us=SECOND, exit_code=1)) as cluster:
        starts: list[float] = []

        def see(change: Any) -> None:
            if change.item.key == "//pods/default/loop" and not change.deleted:
                for status in (change.item.obj.get("status") or {}).get("containerStatuses") or ():
                    runs = status["state"].get("running")
                    if runs and (not starts or runs["startedAt"] != starts[-1]):
                        starts.append(runs["startedAt"])

        cluster.observe(see)
        await cluster.run_until("20s")
        cluster.apply(pod("loop"))
        await cluster.run_until("1500s")
        times = [at_s(cluster, str(text)) for text in starts]
        delays = [later - earlier - 1 for earlier, later in pairwise(times)]
        assert 0 <= delays[0] <= 2
        for wanted, delay in zip((10, 20, 40, 80, 160, 300, 300), delays[1:], strict=False):
            assert wanted <= delay <= wanted + 16 + 1  # times of the API have whole seconds
        assert len(delays) >= 8 and times[7] - times[0] >= 610
        status = cluster.pod("loop")["status"]
        assert status["phase"] == "Running"
        assert status["containerStatuses"][0]["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert status["containerStatuses"][0]["restartCount"] == len(delays)


async def _restarted_s(cluster: FixedPhases, count: int) -> float:
    """Run on until the container has been restarted so often; its start."""

    def waiting() -> bool:
        status = cluster.pod("loop")["status"]["containerStatuses"][0]
        return not ("running" in status["state"] and status["restartCount"] >= count)

    if await cluster.run_while(waiting, limit="400s", step="200ms"):
        assert not waiting()
    state = cluster.pod("loop")["status"]["containerStatuses"][0]["state"]
    return at_s(cluster, state["running"]["startedAt"])


@pytest.mark.parametrize(("ran_s", "low", "high"), [(601, 0, 3), (599, 299, 317)])
async def test_33_a_run_of_more_than_ten_minutes_ends_the_back_off(ran_s: int, low: int, high: int) -> None:
    async with FixedPhases({"": 1}) as cluster:
        await cluster.run_until("20s")
        cluster.apply(pod("loop"))
        await cluster.run_for("3s")
        node = cluster.nodes["node-0"]
        for count in range(1, 8):  # up to a back-off of 300 s
            assert node.end_container("default", "loop", "c", 1)
            await _restarted_s(cluster, count)
        runtime = next(iter(node.machine.pods.values()))
        newest = runtime.newest("c")
        assert newest is not None
        await cluster.run_until(newest.started_us + ran_s * SECOND)
        ended_s = cluster.kernel.now_us / SECOND
        assert node.end_container("default", "loop", "c", 1)
        assert low <= await _restarted_s(cluster, 8) - ended_s <= high


async def test_34_a_container_wedged_from_its_start_is_killed_by_its_liveness_probe() -> None:
    profile = behaving(unhealthy_after_us=0, stop_us=None)
    async with FixedPhases({"": 1}, profile=profile) as cluster:
        await cluster.run_until("40s")
        cluster.apply(pod("web", container={"livenessProbe": {"httpGet": {"port": 80}}}))
        await cluster.run_until("150s")
        status = cluster.pod("web")["status"]["containerStatuses"][0]
        ended = status["lastState"]["terminated"]
        assert status["restartCount"] == 1 and ended["exitCode"] == 137
        # killed in [20, 31], and SIGTERM is ignored for the 30 s of grace
        lived_s = at_s(cluster, ended["finishedAt"]) - at_s(cluster, ended["startedAt"])
        assert 20 + 30 <= lived_s <= 31 + 30 + 1
        assert (
            at_s(cluster, status["state"]["running"]["startedAt"]) - at_s(cluster, ended["finishedAt"]) <= 3
        )


async def test_35_unready_endpoint_leaves_its_service_within_a_second() -> None:
    probe = {"httpGet": {"port": 80}, "periodSeconds": 5, "failureThreshold": 3}
    async with FixedPhases({"": 1}) as cluster:
        times = PodTimes(cluster)
        left: list[float] = []

        def see(change: Any) -> None:
            if change.item.key.startswith("//endpoints/default/web") and not change.deleted:
                subsets = change.item.obj.get("subsets") or ()
                if any(subset.get("notReadyAddresses") for subset in subsets) and "web" in times.ready:
                    left.append(change.at_us / SECOND)

        cluster.observe(see)
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
        }
        cluster.apply(service, pod("web", container={"readinessProbe": probe}))
        await cluster.run_until("63s")
        assert "web" in times.ready
        assert cluster.nodes["node-0"].set_health("default", "web", "c", False)
        await cluster.run_until("85s")
        assert 63 + 10 <= times.unready["web"] <= 63 + 16
        assert times.unready["web"] <= left[0] <= times.unready["web"] + 1


async def test_38_the_loser_of_a_race_for_cpu_fails_and_its_owner_makes_one_more() -> None:
    async with FixedPhases({"": 2}, capacity={"cpu": "2"}) as cluster:
        await cluster.run_until("20s")
        cluster.apply(pod("other", requests={"cpu": "500m"}))
        cluster.supervisor["scheduler-0"].pause()
        template = {"containers": [{"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "1"}}}]}
        sets = workload("ReplicaSet", "web", 2)
        sets["spec"]["template"]["spec"] = template
        cluster.apply(sets)
        await cluster.run_for("2s")
        rivals = [p["metadata"]["name"] for p in cluster.list("pods") if p["metadata"]["name"] != "other"]
        for name in rivals:
            target = {"apiVersion": "v1", "kind": "Node", "name": "node-0"}
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
            reply = cluster.request("create", "pods", "default", name, subresource="binding", body=binding)
            assert reply.ok, reply.message
        await cluster.run_for("5s")
        cluster.supervisor["scheduler-0"].resume()
        await cluster.run_for("300s")
        found = {p["metadata"]["name"]: p for p in cluster.list("pods")}
        assert len(found) == 4
        (loser,) = [name for name in rivals if found[name]["status"]["phase"] == "Failed"]
        status = found[loser]["status"]
        assert status["reason"] == "OutOfcpu"
        assert status["message"] == (
            "Pod Node didn't have enough resource: cpu, requested: 1000, used: 1500, capacity: 2000"
        )
        assert not status.get("containerStatuses")
        (new,) = set(found) - {*rivals, "other"}
        assert found[new]["spec"]["nodeName"] == "node-1" and found[new]["status"]["phase"] == "Running"


async def test_39_a_pod_that_ignores_sigterm_is_killed_after_its_grace_period() -> None:
    async with FixedPhases({"": 1}, profile=behaving(stop_us=None)) as cluster:
        times = PodTimes(cluster)
        cluster.apply(pod("stubborn"), pod("forced"))
        await cluster.run_until("40s")
        runtime = next(
            r for r in cluster.nodes["node-0"].machine.pods.values() if r.key == "default/stubborn"
        )
        reply = cluster.request("delete", "pods", "default", "stubborn", body={})
        assert at_s(cluster, reply.obj["metadata"]["deletionTimestamp"]) == 40 + 30
        cluster.request("delete", "pods", "default", "forced", body={"gracePeriodSeconds": 0})
        assert cluster.get("pods", "forced") is None
        await cluster.run_until("80s")
        killed = runtime.newest("c")
        assert killed is not None and killed.exit_us is not None
        assert abs(killed.exit_us / SECOND - 70) <= 1.5 and killed.exit_code == 137
        assert 70 <= times.gone["stubborn"] <= 74


# --- eviction -------------------------------------------------------------------------------------
