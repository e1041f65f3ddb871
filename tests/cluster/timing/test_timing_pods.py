"""Probes, restarts, rejections and deletions of pods on whole clusters: known cases, numbered in
the names of the tests, in breadth of periods, thresholds, policies and grace periods.

Containers of one cluster behave alike, or by the prefix of their pod's name; several of the same
kind give several phases.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from actors.node.runtime.profile import ContainerBehaviour, Override, Rule, RuntimeProfile
from sim.units import SECOND
from tests.cluster.fixed import FixedPhases
from tests.cluster.timing.node.test_node_timing_agent import PodTimes, at_s, behaving, pod

WEDGED: dict[str, Any] = {"unhealthy_after_us": 0}


class Starts:
    """When a pod's container started and ended by its status, in whole seconds."""

    def __init__(self, cluster: FixedPhases) -> None:
        self.cluster = cluster
        self.started: dict[str, list[float]] = {}
        self.ended: dict[str, list[float]] = {}
        cluster.observe(self._see)

    def _see(self, change: Any) -> None:
        if not change.item.key.startswith("//pods/") or change.deleted:
            return
        name = change.item.obj["metadata"]["name"]
        for status in (change.item.obj.get("status") or {}).get("containerStatuses") or ():
            for state in (status["lastState"], status["state"]):
                if "running" in state:
                    self._add(self.started, name, state["running"]["startedAt"])
                if "terminated" in state:
                    self._add(self.started, name, state["terminated"]["startedAt"])
                    self._add(self.ended, name, state["terminated"]["finishedAt"])

    def _add(self, times: dict[str, list[float]], name: str, text: str) -> None:
        at = at_s(self.cluster, text)
        held = times.setdefault(name, [])
        if at not in held:
            held.append(at)

    def delays(self, name: str) -> list[float]:
        """From each end to the next start."""
        return [start - end for end, start in zip(self.ended[name], self.started[name][1:], strict=False)]


# --- 32, 33: restarts -----------------------------------------------------------------------------


@pytest.mark.parametrize(("policy", "code", "phase"), [
    ("Always", 0, "Running"),
    ("OnFailure", 1, "Running"),
    ("OnFailure", 0, "Succeeded"),
    ("Never", 1, "Failed"),
    ("Never", 0, "Succeeded"),
])  # fmt: skip
async def test_32_the_policy_decides_whether_a_container_that_ended_starts_again(
    policy: str, code: int, phase: str
) -> None:
    async with FixedPhases({"": 1}, profile=behaving(exit_after_us=SECOND, exit_code=code)) as cluster:
        starts = Starts(cluster)
        await cluster.run_until("20s")
        cluster.apply(pod("loop", restartPolicy=policy))
        await cluster.run_until("400s")
        status = cluster.pod("loop")["status"]
        assert status["phase"] == phase
        if phase != "Running":
            assert status["containerStatuses"][0]["restartCount"] == 0
            return
        first, *others = starts.delays("loop")
        assert 0 <= first <= 2
        assert len(others) >= 4
        for wanted, delay in zip((10, 20, 40, 80, 160), others, strict=False):
            assert wanted - 1 <= delay <= wanted + 16 + 1  # times of the API have whole seconds


@pytest.mark.parametrize(("runs_s", "grows"), [(200, True), (599, True), (601, False), (700, False)])
async def test_33_a_container_that_always_runs_long_is_never_held_back(runs_s: int, grows: bool) -> None:
    """Each run of more than ten minutes makes the next restart immediate; of less, the delay grows
    as ever.
    """
    profile = behaving(exit_after_us=runs_s * SECOND, exit_code=1)
    async with FixedPhases({"": 1}, profile=profile) as cluster:
        starts = Starts(cluster)
        cluster.apply(pod("loop"))
        await cluster.run_until(5 * (runs_s + 60) * SECOND)
        delays = starts.delays("loop")[:4]
        assert len(delays) == 4
        for number, delay in enumerate(delays):
            least = 10 << number - 1 if grows and number else 0
            assert least - 1 <= delay <= least + (17 if least else 3), delays


async def test_32_a_missing_image_is_pulled_again_after_growing_delays() -> None:
    """10, 20, 40 … 300 s between tries, and up to 16 s more until the pod's next sync; the next
    sync reports the result of a try, so that of the first two tries only one is seen.
    """
    async with FixedPhases({"": 1}, profile=RuntimeProfile(warm=False, pull_us=0)) as cluster:
        told: list[tuple[float, str]] = []

        def see(change: Any) -> None:
            if change.item.key == "//pods/default/lost":
                for status in (change.item.obj.get("status") or {}).get("containerStatuses") or ():
                    told.append((change.at_us / SECOND, status["state"]["waiting"]["reason"]))

        cluster.observe(see)
        await cluster.run_until("20s")
        cluster.nodes["node-0"].behave([Override({}, image="gone:1", pull_error="no such image")])
        cluster.apply(pod("lost", container={"image": "gone:1"}))
        await cluster.run_until("1500s")
        tried = [at for at, reason in told if reason == "ErrImagePull"]
        gaps = [later - earlier for earlier, later in pairwise(tried)][-5:]
        for wanted, gap in zip((80, 160, 300, 300, 300), gaps, strict=True):
            assert wanted - 6 <= gap <= wanted + 16 + 6
        assert {reason for _, reason in told} == {"ContainerCreating", "ErrImagePull", "ImagePullBackOff"}


@pytest.mark.parametrize("warm", [True, False])
async def test_32_an_image_that_can_be_pulled_again_waits_for_the_end_of_its_back_off(warm: bool) -> None:
    """A refused pull brings no image, on nodes that have all the others either; once pulled it is
    there.
    """
    async with FixedPhases({"": 1}, profile=RuntimeProfile(warm=warm, pull_us=0)) as cluster:
        await cluster.run_until("20s")
        cluster.nodes["node-0"].behave([Override({}, image="late:1", pull_error="away")])
        cluster.apply(pod("late", container={"image": "late:1"}))
        await cluster.run_until("120s")  # tries at 20, 30, 50 and 90 s, and up to 16 s later each
        cluster.nodes["node-0"].behave([])
        starts = Starts(cluster)
        await cluster.run_until("10m")
        (began,) = starts.started["late"]
        assert 170 <= began <= 170 + 4 * 16 + 6
        cluster.apply(pod("next", container={"image": "late:1"}))
        await cluster.run_until("11m")
        (at,) = starts.started["next"]
        assert at < 604


# --- 34, 35: probes -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("period", "failures", "delay"), [(10, 3, 0), (5, 2, 0), (1, 1, 0), (2, 5, 0), (10, 3, 15), (30, 1, 7), (5, 3, 60)]
)  # fmt: skip
async def test_34_a_wedged_container_is_killed_when_its_last_allowed_probe_fails(
    period: int, failures: int, delay: int
) -> None:
    """Probes come once a period from the first after the delay on, which comes within a period of
    it.
    """
    probe = {
        "httpGet": {"port": 80},
        "periodSeconds": period,
        "failureThreshold": failures,
        "initialDelaySeconds": delay,
    }
    async with FixedPhases({"": 1}, profile=behaving(**WEDGED, stop_us=0)) as cluster:
        starts = Starts(cluster)
        await cluster.run_until("40s")
        names = [f"web-{number}" for number in range(5)]
        for name in names:
            cluster.apply(pod(name, container={"livenessProbe": probe}))
            await cluster.run_for("1700ms")
        await cluster.run_for(delay + (failures + 2) * period * SECOND + 20 * SECOND)
        await cluster.run_for(delay * SECOND)
        for name in names:
            lived = starts.ended[name][0] - starts.started[name][0]
            assert delay + (failures - 1) * period - 1 <= lived <= delay + failures * period + 2


async def test_34_a_startup_probe_holds_the_others_off_until_it_has_succeeded_or_given_up() -> None:
    """Twelve tries of five seconds; the container of `slow` answers after 40 s, that of `dead`
    never.
    """
    startup = {"httpGet": {"port": 80}, "periodSeconds": 5, "failureThreshold": 12}
    liveness = {"httpGet": {"port": 80}, "periodSeconds": 1, "failureThreshold": 1}
    rules = (
        Rule(ContainerBehaviour(healthy_after_us=40 * SECOND), pod_prefix="slow"),
        Rule(ContainerBehaviour(unhealthy_after_us=0, stop_us=0), pod_prefix="dead"),
    )
    async with FixedPhases({"": 1}, profile=RuntimeProfile(rules=rules)) as cluster:
        starts, times = Starts(cluster), PodTimes(cluster)
        await cluster.run_until("40s")
        probes = {"startupProbe": startup, "livenessProbe": liveness}
        cluster.apply(pod("slow", container=probes), pod("dead", container=probes))
        await cluster.run_until("150s")
        assert "slow" not in starts.ended
        assert 40 - 1 <= times.ready["slow"] - starts.started["slow"][0] <= 40 + 5 + 2
        assert 55 - 1 <= starts.ended["dead"][0] - starts.started["dead"][0] <= 60 + 2
        assert "dead" not in times.ready


@pytest.mark.parametrize(("period", "failures", "successes"), [(5, 3, 1), (1, 1, 1), (10, 3, 2), (2, 4, 3)])
async def test_35_readiness_follows_its_probe_down_and_up_again(
    period: int, failures: int, successes: int
) -> None:
    probe = {
        "httpGet": {"port": 80},
        "periodSeconds": period,
        "failureThreshold": failures,
        "successThreshold": successes,
    }
    async with FixedPhases({"": 1}) as cluster:
        told: list[tuple[float, str]] = []

        def see(change: Any) -> None:
            if change.item.key == "//pods/default/web" and not change.deleted:
                for each in (change.item.obj.get("status") or {}).get("conditions") or ():
                    if each["type"] == "Ready" and (not told or told[-1][1] != each["status"]):
                        told.append((change.at_us / SECOND, each["status"]))

        cluster.observe(see)
        cluster.apply(pod("web", container={"readinessProbe": probe}))
        await cluster.run_until("103s")
        assert [status for _, status in told] == ["False", "True"]
        node = cluster.nodes["node-0"]
        assert node.set_health("default", "web", "c", False)
        await cluster.run_until("171s")
        at, status = told[-1]
        assert status == "False"
        assert (failures - 1) * period <= at - 103 <= failures * period + 1
        assert node.set_health("default", "web", "c", True)
        await cluster.run_until("240s")
        at, status = told[-1]
        assert status == "True"
        assert (successes - 1) * period <= at - 171 <= successes * period + 1
        assert cluster.pod("web")["status"]["containerStatuses"][0]["restartCount"] == 0


# --- 38: pods that a node refuses -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("capacity", "spec", "reason"),
    [
        ({"cpu": "2"}, {"requests": {"cpu": "3"}}, "OutOfcpu"),
        ({"memory": "8Gi"}, {"requests": {"memory": "9Gi"}}, "OutOfmemory"),
        ({"pods": "1"}, {}, "OutOfpods"),
        ({}, {"nodeSelector": {"disk": "fast"}}, "NodeAffinity"),
        ({}, {"hostPort": 80}, "NodePorts"),
    ],
)
async def test_38_a_node_says_what_it_refuses_a_pod_for_and_never_tries_again(
    capacity: dict[str, str], spec: dict[str, Any], reason: str
) -> None:
    port = {"ports": [{"containerPort": 80, "hostPort": spec["hostPort"]}]} if "hostPort" in spec else {}
    more = {name: value for name, value in spec.items() if name not in ("requests", "hostPort")}
    async with FixedPhases({"": 1}, capacity=capacity) as cluster:
        await cluster.run_until("20s")
        cluster.apply(pod("first", container=port))
        await cluster.run_for("5s")
        cluster.apply(pod("second", requests=spec.get("requests"), container=port, **more))
        await cluster.run_for("5s")
        status = cluster.pod("second")["status"]
        assert (status["phase"], status["reason"]) == ("Failed", reason)
        assert cluster.pod("first")["status"]["phase"] == "Running"
        assert cluster.request("delete", "pods", "default", "first", options={"gracePeriodSeconds": "0"}).ok
        await cluster.run_for("400s")
        assert cluster.pod("second")["status"]["phase"] == "Failed"
        assert not cluster.pod("second")["status"].get("containerStatuses")


async def test_38_pod_bound_before_its_node_registers_is_judged_by_the_registration() -> None:
    """An agent that does not find its node among the API's takes the one that it is about to
    create.
    """
    async with FixedPhases({"": 1}) as cluster:
        await cluster.run_until("20s")
        cluster.apply(pod("early", "late"), pod("big", "late", requests={"cpu": "64"}))
        await cluster.run_for("5s")
        cluster.add_node(replace(cluster.plan.nodes[0], name="late"))
        await cluster.run_for("9s")
        assert cluster.pod("early")["status"]["phase"] == "Running"
        # before the agent's first housekeeping
        assert cluster.pod("big")["status"]["phase"] == "Pending"
        await cluster.run_for("2s")
        status = cluster.pod("big")["status"]
        assert (status["phase"], status["reason"]) == ("Failed", "OutOfcpu")


# --- 39: deletion ---------------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", [1, 2, 10, 45, 120])
@pytest.mark.parametrize("asked", [True, False])
async def test_39_the_grace_period_is_the_pods_or_the_one_asked_for(wanted: int, asked: bool) -> None:
    """A container that ignores SIGTERM is killed at its end; one that obeys in 200 ms ends its pod
    at once.
    """
    rules = (Rule(ContainerBehaviour(stop_us=None), pod_prefix="stubborn"),)
    own = 30 if asked else wanted
    options = {"gracePeriodSeconds": str(wanted)} if asked else {}
    async with FixedPhases({"": 1}, profile=RuntimeProfile(rules=rules)) as cluster:
        times = PodTimes(cluster)
        for name in ("stubborn", "mild"):
            cluster.apply(pod(name, terminationGracePeriodSeconds=own))
        await cluster.run_until("40s")
        runtime = next(
            r for r in cluster.nodes["node-0"].machine.pods.values() if r.key == "default/stubborn"
        )
        for name in ("stubborn", "mild"):
            reply = cluster.request("delete", "pods", "default", name, options=options)
            assert at_s(cluster, reply.obj["metadata"]["deletionTimestamp"]) == 40 + wanted
        await cluster.run_for((wanted + 10) * SECOND)
        killed = runtime.newest("c")
        assert killed is not None and killed.exit_us is not None
        assert killed.exit_code == 137
        assert abs(killed.exit_us / SECOND - 40 - max(wanted, 2)) <= 1.5
        assert 40 + wanted <= times.gone["stubborn"] <= 40 + max(wanted, 2) + 4
        assert 40 < times.gone["mild"] <= 44


async def test_39_second_deletion_only_shortens_the_grace_period_before_the_kill() -> None:
    async with FixedPhases({"": 1}, profile=behaving(stop_us=None)) as cluster:
        times = PodTimes(cluster)
        cluster.apply(pod("short"), pod("long"))
        await cluster.run_until("40s")
        for name in ("short", "long"):
            assert cluster.request("delete", "pods", "default", name).ok
        await cluster.run_until("45s")
        for name, seconds in (("short", "3"), ("long", "300")):
            options = {"gracePeriodSeconds": seconds}
            assert cluster.request("delete", "pods", "default", name, options=options).ok
        told = [cluster.pod(name)["metadata"]["deletionGracePeriodSeconds"] for name in ("short", "long")]
        assert told == [3, 30]
        assert at_s(cluster, cluster.pod("short")["metadata"]["deletionTimestamp"]) == 43
        await cluster.run_until("80s")
        assert all(70 <= times.gone[name] <= 74 for name in ("short", "long"))
