"""Combinations of rules of one node on whole clusters: probes and restarts, kills and hooks, paused
agents, ending pods, back-offs and reboots. The expected values of each test follow from the rules
alone.
"""

from __future__ import annotations

from typing import Any

import pytest

from actors.node.runtime.profile import ContainerBehaviour, Rule, RuntimeProfile
from sim.api.types import Obj
from sim.kernel import Rule as NetworkRule
from sim.units import SECOND
from tests.cluster.fixed import FixedPhases, container, workload
from tests.cluster.seen import pods_on
from tests.cluster.timing.node.test_node_timing_agent import (
    MI,
    SMALL,
    PodTimes,
    at_s,
    behaving,
    condition,
    pod,
    taints,
    using,
)
from tests.cluster.timing.test_timing_pods import Starts

HTTP: Obj = {"httpGet": {"port": 80}}


def sleeping(hook: str, seconds: int) -> Obj:
    return {"lifecycle": {hook: {"exec": {"command": ["sleep", str(seconds)]}}}}


def patched(cluster: FixedPhases, name: str, spec: Obj) -> None:
    kind = "application/strategic-merge-patch+json"
    reply = cluster.request("patch", "pods", "default", name, body={"spec": spec}, content_type=kind)
    assert reply.ok, reply.message


class Readiness:
    """When a pod's condition Ready changed, and to what."""

    def __init__(self, cluster: FixedPhases, name: str) -> None:
        self.told: list[tuple[float, str]] = []
        self._key = f"//pods/default/{name}"
        cluster.observe(self._see)

    def _see(self, change: Any) -> None:
        if change.item.key != self._key or change.deleted:
            return
        for held in (change.item.obj.get("status") or {}).get("conditions") or ():
            if held["type"] == "Ready" and (not self.told or self.told[-1][1] != held["status"]):
                self.told.append((change.at_us / SECOND, held["status"]))


# --- probes and restarts --------------------------------------------------------------------------


@pytest.mark.parametrize(("period", "successes"), [(30, 1), (60, 1), (10, 3)])
async def test_a_container_that_starts_again_is_ready_with_the_first_look_at_it(
    period: int, successes: int
) -> None:
    """The sync that reports it probes at once, with any period; successes of the last instance
    still count.
    """
    probe = {**HTTP, "periodSeconds": period, "successThreshold": successes}
    async with FixedPhases({"": 1}) as cluster:
        readiness = Readiness(cluster, "web")
        await cluster.run_until("20s")
        cluster.apply(pod("web", container={"readinessProbe": probe}))
        await cluster.run_until("153s")
        assert cluster.nodes["node-0"].end_container("default", "web", "c", 1)
        await cluster.run_until("200s")
        assert [status for _, status in readiness.told] == ["False", "True", "False", "True"]
        down, up = (at for at, _ in readiness.told[2:])
        assert 153 <= down <= 155 and up <= down + 2.2  # a relist each


async def test_failures_of_an_instance_that_ended_by_itself_count_against_the_next() -> None:
    """Three failures are allowed: the first instance ends after two, and the next is killed for its
    first.
    """
    profile = behaving(unhealthy_after_us=0, exit_after_us=18 * SECOND, exit_code=1, stop_us=0)
    async with FixedPhases({"": 1}, profile=profile) as cluster:
        starts = Starts(cluster)
        await cluster.run_until("60s")
        cluster.apply(pod("web", container={"livenessProbe": HTTP}))
        await cluster.run_until("130s")
        lived = [end - start for start, end in zip(starts.started["web"], starts.ended["web"], strict=False)]
        assert 17 <= lived[0] <= 19 and lived[1] <= 12
        assert len([e for e in cluster.list("events") if e["reason"] == "Killing"]) == 1


async def test_started_container_is_reported_by_the_relist_that_shows_it() -> None:
    """Not before, and not by the result of a probe."""
    async with FixedPhases({"": 1}) as cluster:
        told: list[tuple[float, int]] = []

        def see(change: Any) -> None:
            if change.item.key == "//pods/default/web":
                for status in (change.item.obj.get("status") or {}).get("containerStatuses") or ():
                    if "running" in status["state"] and status["restartCount"]:
                        told.append((change.at_us / SECOND, status["restartCount"]))

        cluster.observe(see)
        cluster.apply(pod("web", container={"readinessProbe": {**HTTP, "periodSeconds": 30}}))
        await cluster.run_until("100s")
        assert cluster.nodes["node-0"].end_container("default", "web", "c", 1)
        await cluster.run_until("110s")  # observed at 101, recreated by 101.1
        assert 102 <= told[0][0] < 102.1


async def test_a_startup_probe_that_succeeds_lets_the_others_begin_at_once() -> None:
    probes = {
        "startupProbe": {**HTTP, "periodSeconds": 1},
        "readinessProbe": {**HTTP, "periodSeconds": 60},
        "livenessProbe": HTTP,
    }
    async with FixedPhases({"": 1}) as cluster:
        times, starts = PodTimes(cluster), Starts(cluster)
        await cluster.run_until("100s")
        cluster.apply(pod("web", container=probes))
        await cluster.run_until("120s")
        assert times.ready["web"] - starts.started["web"][0] <= 5


@pytest.mark.parametrize(("own", "probes"), [(60, 5), (10, 90)])
async def test_a_probe_has_a_grace_of_its_own_that_a_deletion_does_not_have(own: int, probes: int) -> None:
    async with FixedPhases({"": 1}, profile=behaving(unhealthy_after_us=0, stop_us=None)) as cluster:
        times, starts = PodTimes(cluster), Starts(cluster)
        await cluster.run_until("100s")
        probe = {**HTTP, "terminationGracePeriodSeconds": probes}
        cluster.apply(pod("web", terminationGracePeriodSeconds=own, container={"livenessProbe": probe}))
        await cluster.run_for(f"{40 + probes}s")
        assert 20 + probes - 1 <= starts.ended["web"][0] - starts.started["web"][0] <= 31 + probes + 1
        deleted = cluster.kernel.now_us / SECOND
        assert cluster.request("delete", "pods", "default", "web").ok
        await cluster.run_for(f"{own + 10}s")
        assert deleted + own <= times.gone["web"] <= deleted + own + 4


# --- kills ----------------------------------------------------------------------------------------


async def test_containers_of_one_sync_are_killed_one_after_the_other() -> None:
    """Their images change together; each ignores SIGTERM for ten seconds."""
    async with FixedPhases({"": 1}, profile=behaving(stop_us=None)) as cluster:
        both = pod("web", terminationGracePeriodSeconds=10)
        both["spec"]["containers"].append({**container(), "name": "d"})
        cluster.apply(both)
        await cluster.run_until("60s")
        new = [{"name": name, "image": "registry.example/c:2"} for name in "cd"]
        patched(cluster, "web", {"containers": new})
        await cluster.run_until("100s")
        ends = {
            status["name"]: at_s(cluster, status["lastState"]["terminated"]["finishedAt"])
            for status in cluster.pod("web")["status"]["containerStatuses"]
        }
        assert 70 <= ends["c"] <= 72 and 80 <= ends["d"] <= 82


@pytest.mark.parametrize(
    ("hook", "grace", "stubborn", "mild"), [(10, 30, 40, 10.2), (100, 15, 30, 15.2)]
)  # fmt: skip
async def test_a_deleted_pod_has_its_whole_grace_after_its_hook(
    hook: int, grace: int, stubborn: float, mild: float
) -> None:
    """The hook runs for the grace period at most."""
    rules = (Rule(ContainerBehaviour(stop_us=None), pod_prefix="stubborn"),)
    async with FixedPhases({"": 1}, profile=RuntimeProfile(rules=rules)) as cluster:
        times = PodTimes(cluster)
        for name in ("stubborn", "mild"):
            cluster.apply(pod(name, terminationGracePeriodSeconds=grace, container=sleeping("preStop", hook)))
        await cluster.run_until("60s")
        for name in ("stubborn", "mild"):
            assert cluster.request("delete", "pods", "default", name).ok
        await cluster.run_until("120s")
        assert 60 + stubborn <= times.gone["stubborn"] <= 64 + stubborn
        assert 60 + mild <= times.gone["mild"] <= 63.5 + mild


async def test_a_deadline_that_passed_while_no_agent_ran_ends_the_pod_as_one_starts() -> None:
    async with FixedPhases({"": 1}) as cluster:
        times = PodTimes(cluster)
        await cluster.run_until("60s")
        cluster.apply(pod("web", activeDeadlineSeconds=60))
        await cluster.run_until("80s")
        cluster.nodes["node-0"].crash_agent()
        await cluster.run_until("150s")
        assert not times.failed
        cluster.nodes["node-0"].start_agent()
        await cluster.run_until("170s")
        assert 150 < times.failed["web"] <= 156
        assert cluster.pod("web")["status"]["reason"] == "DeadlineExceeded"


# --- resources of a node in use -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("forced", "restarted", "admitted"), [(False, False, False), (False, True, False), (True, False, True)]
)  # fmt: skip
async def test_a_pod_on_its_way_out_holds_its_share_unless_it_was_deleted_by_force(
    forced: bool, restarted: bool, admitted: bool
) -> None:
    """Also for an agent that has just started. A pod deleted by force does not count, though it
    still runs.
    """
    rules = (Rule(ContainerBehaviour(stop_us=None), pod_prefix="old"),)
    async with FixedPhases({"": 1}, profile=RuntimeProfile(rules=rules)) as cluster:
        times = PodTimes(cluster)
        asked = {"cpu": "6"}  # of 8
        cluster.apply(pod("old", requests=asked, terminationGracePeriodSeconds=20))
        await cluster.run_until("40s")
        body = {"gracePeriodSeconds": 0} if forced else {}
        assert cluster.request("delete", "pods", "default", "old", body=body).ok
        await cluster.run_until("43s")
        if restarted:
            cluster.nodes["node-0"].crash_agent()
            cluster.nodes["node-0"].start_agent()
        await cluster.run_until("47s")
        cluster.apply(pod("new", requests=asked))
        await cluster.run_until("51s")
        assert ("new" in times.ready) is admitted
        assert cluster.pod("new")["status"].get("reason") == (None if admitted else "OutOfcpu")
        await cluster.run_until("70s")
        cluster.apply(pod("later", requests={"cpu": "2"}))
        await cluster.run_until("75s")
        assert "later" in times.ready


# --- a paused agent -------------------------------------------------------------------------------


async def hung(until: str) -> tuple[FixedPhases, Obj | None]:
    """node-1 is paused from 95 on; returns the history of the node and its pod."""
    async with FixedPhases({"": 3}) as cluster:
        cluster.apply(*pods_on(["node-1"], 1))
        await cluster.run_until("95s")
        cluster.nodes["node-1"].hang()
        await cluster.run_until(until)
        cluster.nodes["node-1"].resume()
        await cluster.run_until("460s")
        assert condition(cluster, "Ready", "node-1")["status"] == "True"
        assert not taints(cluster, "node-1")
        return cluster, cluster.get("pods", "pod-node-1-0")


async def test_resumed_node_reports_that_it_is_ready_at_once() -> None:
    """Unknown at 132.26, resumed at 134: work that became due during the pause is done at once,
    before the pass at 137.27.
    """
    cluster, held = await hung("134s")
    assert 132.2 <= cluster.seen.unknown["node-1"] / SECOND <= 132.3
    assert not cluster.seen.no_execute and not cluster.seen.deleted
    assert held is not None


@pytest.mark.parametrize(
    ("until", "stays"), [("130s", True), ("139s", True), ("430s", True), ("434s", False)]
)
async def test_resumed_node_keeps_its_pods_if_a_pass_observes_it_in_time(until: str, stays: bool) -> None:
    """Due at 437.3; the last passes before are those at 432.86 and 437.87."""
    cluster, held = await hung(until)
    assert (held is not None) is stays
    assert ("node-1" in cluster.seen.unknown) is (until != "130s")
    if not stays:
        assert 437.27 <= cluster.seen.deleted["node-1"][0] / SECOND <= 437.5


# --- reboots --------------------------------------------------------------------------------------


async def test_a_reboot_makes_init_containers_run_again_and_leaves_what_has_succeeded() -> None:
    """`init` takes 5 s each time; of the pod that restarts failures only, the container that exited
    with 0 stays so.
    """
    rules = (
        Rule(ContainerBehaviour(exit_after_us=5 * SECOND), container="init"),
        Rule(ContainerBehaviour(exit_after_us=5 * SECOND), container="task"),
    )
    async with FixedPhases({"": 1}, profile=RuntimeProfile(rules=rules)) as cluster:
        starts, times = Starts(cluster), PodTimes(cluster)
        await cluster.run_until("30s")
        two = pod("two", restartPolicy="OnFailure")
        two["spec"]["containers"].append({**container(), "name": "task"})
        cluster.apply(pod("web", initContainers=[{**container(), "name": "init"}]), two)
        cluster.apply(pod("once", restartPolicy="Never"))
        await cluster.run_until("100s")
        cluster.nodes["node-0"].reboot(20 * SECOND)
        await cluster.run_until("150s")
        assert 124 <= starts.started["web"][-1] <= 137 and len(starts.started["web"]) == 2
        counts = {s["name"]: s["restartCount"] for s in cluster.pod("two")["status"]["containerStatuses"]}
        assert counts == {"c": 1, "task": 0}
        assert 120 < times.failed["once"] <= 135 and len(starts.started["once"]) == 1


async def test_a_new_agent_knows_of_no_back_off() -> None:
    """A container in its five minutes starts as soon as the agent does, and waits ten seconds after
    that.
    """
    async with FixedPhases({"": 1}, profile=behaving(exit_after_us=SECOND, exit_code=1)) as cluster:
        starts = Starts(cluster)
        await cluster.run_until("20s")
        cluster.apply(pod("loop"))
        await cluster.run_until("500s")
        before = len(starts.started["loop"])
        cluster.nodes["node-0"].crash_agent()
        cluster.nodes["node-0"].start_agent()
        await cluster.run_until("540s")
        first, second = starts.started["loop"][before:][:2]
        assert 499 <= first <= 506 and 10 <= second - first - 1 <= 27


async def test_another_image_ends_a_back_off_and_a_deletion_does_not_wait_for_it() -> None:
    async with FixedPhases({"": 1}, profile=behaving(exit_after_us=SECOND, exit_code=1)) as cluster:
        starts, times = Starts(cluster), PodTimes(cluster)
        await cluster.run_until("20s")
        cluster.apply(pod("loop"), pod("gone"))
        await cluster.run_until("190s")
        patched(cluster, "loop", {"containers": [{"name": "c", "image": "registry.example/c:2"}]})
        assert cluster.request("delete", "pods", "default", "gone").ok
        await cluster.run_until("196s")
        assert 189 <= starts.started["loop"][-1] <= 193
        assert 190 < times.gone["gone"] <= 194


# --- clocks that drift ----------------------------------------------------------------------------


def drifting(cluster: FixedPhases, ppm: int) -> None:
    cluster.supervisor["node-0"].clock.set(cluster.kernel.now_us, drift_ppm=ppm)


@pytest.mark.parametrize("ppm", [100, 10_000, 200_000, -100, -10_000, -500_000])
async def test_an_agent_probes_once_in_a_period_of_its_own_clock(ppm: int) -> None:
    """Three failures are 20 to 31 s by its clock, how fast or slow that is."""
    async with FixedPhases({"": 1}, profile=behaving(unhealthy_after_us=0, stop_us=0)) as cluster:
        await cluster.run_until("50s")
        drifting(cluster, ppm)
        cluster.apply(pod("web", container={"livenessProbe": HTTP}))
        await cluster.run_until("150s")
        (runtime,) = cluster.nodes["node-0"].machine.pods.values()
        first = runtime.instances("c")[0]
        assert first.exit_us is not None
        lived = (first.exit_us - first.started_us) / SECOND * (1 + ppm / 1_000_000)
        assert 19.9 <= lived <= 32


@pytest.mark.parametrize("ppm", [10_000, -10_000])
async def test_machine_events_are_seen_by_the_next_relist_and_poll_under_any_clock(
    ppm: int,
) -> None:
    """One container ends after a thousand seconds; memory becomes short in as many."""
    rules = (Rule(ContainerBehaviour(exit_after_us=1000 * SECOND, exit_code=1), pod_prefix="short"),)
    async with FixedPhases({"": 1}, profile=RuntimeProfile(rules=rules)) as cluster:
        times = PodTimes(cluster)
        await cluster.run_until("20s")
        drifting(cluster, ppm)
        cluster.apply(pod("short", restartPolicy="Never"), pod("long"))
        await cluster.run_until("30s")
        node = cluster.nodes["node-0"]
        node.set_pressure("memory", 0, ramp_us=1000 * SECOND)
        await cluster.run_until("1060s")
        ended = next(r for r in node.machine.pods.values() if r.key == "default/short").newest("c")
        assert ended is not None and ended.exit_us is not None
        assert 0 <= times.failed["short"] - ended.exit_us / SECOND <= 3
        short = 30 + 1000 * (1 - 100 / (32 << 10))
        assert short <= times.evicted["long"] <= short + 11.5


async def test_a_pod_is_gone_when_its_containers_are_and_not_before() -> None:
    """The runtime's grace period follows the machine's clock; an agent with a fast clock still
    waits for its end.
    """
    async with FixedPhases({"": 1}, profile=behaving(stop_us=None)) as cluster:
        times = PodTimes(cluster)
        cluster.apply(pod("web"))
        await cluster.run_until("40s")
        drifting(cluster, 200_000)
        (runtime,) = cluster.nodes["node-0"].machine.pods.values()
        assert cluster.request("delete", "pods", "default", "web").ok
        await cluster.run_until("80s")
        killed = runtime.newest("c")
        assert killed is not None and killed.exit_us is not None
        assert killed.exit_us / SECOND <= times.gone["web"] <= killed.exit_us / SECOND + 3


# --- pressure, and other events during it ---------------------------------------------------------


async def test_soft_threshold_restarts_its_grace_period_when_it_is_met_again() -> None:
    flags = {
        "eviction-soft": "memory.available<1Gi",
        "eviction-soft-grace-period": "memory.available=1m30s",
    }
    async with FixedPhases({"": 1}, capacity=SMALL, flags=flags, profile=using({"web": 1000})) as cluster:
        times = PodTimes(cluster)
        cluster.apply(pod("web"))
        await cluster.run_until("33s")
        node = cluster.nodes["node-0"]
        node.set_pressure("memory", 900 * MI)
        await cluster.run_until("101s")
        node.end_pressure("memory")
        await cluster.run_until("115s")
        node.set_pressure("memory", 900 * MI)
        await cluster.run_until("205s")
        assert not times.evicted and condition(cluster, "MemoryPressure")["status"] == "True"
        await cluster.run_until("215s")
        assert list(times.evicted) == ["web"]


async def test_pods_go_until_the_minimum_reclaim_is_free_too() -> None:
    """900 Mi are left, then 1300, beyond the threshold and not beyond what is to be reclaimed, then
    1600.
    """
    flags = {
        "eviction-hard": "memory.available<1Gi",
        "eviction-minimum-reclaim": "memory.available=500Mi",
    }
    profile = using({"a": 400, "b": 300, "d": 200})
    async with FixedPhases({"": 1}, capacity=SMALL, flags=flags, profile=profile) as cluster:
        times = PodTimes(cluster)
        cluster.apply(pod("a"), pod("b"), pod("d"))
        await cluster.run_until("40s")
        cluster.nodes["node-0"].set_pressure("memory", 900 * MI)
        await cluster.run_until("110s")
        assert list(times.evicted) == ["a", "b"]


async def test_pod_evicted_during_a_cut_of_its_node_is_reported_when_the_cut_ends() -> None:
    """So is the pressure, and from then on nothing is sent there."""
    async with FixedPhases({"": 2}, capacity=SMALL, profile=using({"a": 300})) as cluster:
        times = PodTimes(cluster)
        cluster.apply(pod("a"))
        await cluster.run_until("60s")
        node = cluster.nodes["node-0"]
        cluster.kernel.network.impose(NetworkRule("cut", frozenset({"node-0"}), None, cut=True))
        node.set_pressure("memory", 50 * MI)
        await cluster.run_until("85s")
        assert not times.evicted
        assert not any(held.running(cluster.kernel.now_us) for held in node.machine.pods.values())
        cluster.kernel.network.lift("cut")
        await cluster.run_until("150s")
        assert list(times.evicted) == ["a"]
        assert condition(cluster, "MemoryPressure")["status"] == "True"
        assert cluster.names.taint_memory_pressure in taints(cluster)
        cluster.apply(workload("ReplicaSet", "web", 4))
        await cluster.run_until("165s")
        web = [p for p in cluster.list("pods") if p["metadata"]["name"].startswith("web-")]
        assert [p["spec"]["nodeName"] for p in web] == ["node-1"] * 4
