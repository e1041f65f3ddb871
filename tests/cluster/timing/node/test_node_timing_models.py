"""What follows from the rules of one node where several of them meet: derived from a model of each,
then run whole.
"""

from __future__ import annotations

from typing import Any

import pytest

from actors.node.runtime.profile import ContainerBehaviour, Rule, RuntimeProfile
from sim.api.types import Obj
from sim.units import SECOND
from tests.cluster.fixed import FixedPhases
from tests.cluster.timing.node.test_node_timing_agent import GI, MI, SMALL, PodTimes, at_s, behaving, pod

# --- eviction -------------------------------------------------------------------------------------


def pressed(cluster: FixedPhases, size: int, resource: str = "memory") -> None:
    """More of the resource is used from outside than exists, so that no eviction helps."""
    machine = cluster.nodes["node-0"].machine
    cluster.nodes["node-0"].set_pressure(resource, 0)
    over = machine.outside[resource]
    machine.outside[resource] = type(over)(over.end + size, over.end + size, 0, 0)


async def test_pod_that_waits_for_a_restart_has_no_statistics_and_is_evicted_first() -> None:
    """Of containers that have ended nothing is measured: the crash loop goes first, with nothing
    said of its use.
    """
    rules = (
        Rule(ContainerBehaviour(memory_bytes=50 * MI, exit_after_us=SECOND, exit_code=1), pod_prefix="crash"),
        Rule(ContainerBehaviour(memory_bytes=GI), pod_prefix="large"),
    )
    async with FixedPhases({"": 1}, profile=RuntimeProfile(rules=rules), capacity=SMALL) as cluster:
        times = PodTimes(cluster)
        cluster.apply(pod("large"), pod("crash", requests={"memory": "1Gi"}))
        await cluster.run_until("117s")  # in its back-off
        pressed(cluster, 2 * GI)
        await cluster.run_until("140s")
        assert list(times.evicted) == ["crash", "large"]
        assert cluster.pod("crash")["status"]["message"] == "The node was low on resource: memory. "


async def test_what_an_init_container_uses_counts_for_its_pod_and_is_not_named() -> None:
    rules = (
        Rule(ContainerBehaviour(memory_bytes=2 * GI), container="first"),
        Rule(ContainerBehaviour(memory_bytes=GI), pod_prefix="web"),
    )
    first = {"name": "first", "image": "registry.example/c:1"}
    async with FixedPhases({"": 1}, profile=RuntimeProfile(rules=rules), capacity=SMALL) as cluster:
        times = PodTimes(cluster)
        cluster.apply(pod("web"), pod("job", initContainers=[first]))
        await cluster.run_until("35s")
        pressed(cluster, 4 * GI)
        await cluster.run_until("55s")
        assert list(times.evicted) == ["job", "web"]
        assert cluster.pod("job")["status"]["message"] == "The node was low on resource: memory. "


async def test_layer_writes_do_not_count_for_containers_if_images_have_their_own_disk() -> None:
    """The pod as a whole answers for it still."""
    rules = (Rule(ContainerBehaviour(layer_bytes=3 * GI, log_bytes=GI)),)
    limit = {"resources": {"limits": {"ephemeral-storage": "2Gi"}}}
    beside = {
        "name": "d",
        "image": "registry.example/c:1",
        "resources": {"limits": {"ephemeral-storage": "9G"}},
    }
    messages = []
    for own_disk in (0, 100 * GI):
        profile = RuntimeProfile(rules=rules, image_disk_bytes=own_disk)
        async with FixedPhases({"": 1}, profile=profile) as cluster:
            wide = pod("wide", container=limit)
            wide["spec"]["containers"].append(beside)
            cluster.apply(wide, pod("narrow", container=limit))
            await cluster.run_until("40s")
            messages.append([cluster.pod(name)["status"].get("message", "") for name in ("wide", "narrow")])
    whole = "Pod ephemeral local storage usage exceeds the total limit of containers 2Gi. "
    assert messages == [
        ['Container c exceeded its local ephemeral storage limit "2Gi". ', whole],
        ["", whole],
    ]


async def test_a_pod_that_is_being_evicted_stays_ready_until_it_has_ended() -> None:
    """The final status is not reported while containers run, and its conditions are earlier ones."""
    async with FixedPhases(
        {"": 1}, profile=behaving(memory_bytes=GI, stop_us=None), capacity=SMALL
    ) as cluster:
        times = PodTimes(cluster)
        cluster.apply(pod("web", terminationGracePeriodSeconds=20))
        await cluster.run_until("35s")
        pressed(cluster, GI)
        await cluster.run_until("90s")
        (killing,) = [e for e in cluster.list("events") if e["reason"] == "Killing"]
        began = at_s(cluster, killing["firstTimestamp"])
        assert 20 <= times.unready["web"] - began <= 22 and times.unready["web"] == times.evicted["web"]


@pytest.mark.parametrize(
    ("policy", "code", "phase", "reason"),
    [
        ("Always", 0, "Failed", "Evicted"),
        ("OnFailure", 0, "Succeeded", None),
        ("Never", 0, "Succeeded", None),
        ("Never", 1, "Failed", "Evicted"),
        ("OnFailure", 1, "Failed", "Evicted"),
    ],
)
async def test_evicted_pod_with_programs_that_end_well_for_good_has_succeeded(
    policy: str, code: int, phase: str, reason: str | None
) -> None:
    profile = behaving(memory_bytes=GI, stop_us=SECOND, stop_exit_code=code)
    async with FixedPhases({"": 1}, profile=profile, capacity=SMALL) as cluster:
        cluster.apply(pod("web", restartPolicy=policy))
        await cluster.run_until("35s")
        pressed(cluster, GI)
        await cluster.run_until("60s")
        status = cluster.pod("web")["status"]
        assert (status["phase"], status.get("reason")) == (phase, reason)
        assert ("message" in status) is (reason is not None)
        # Its remains are removed, in any phase.
        assert not cluster.nodes["node-0"].machine.pods


async def test_a_pod_past_its_deadline_has_failed_however_its_programs_end() -> None:
    """It is reported each time its status is computed: when it is found, when it is killed and when
    it has ended.
    """
    async with FixedPhases({"": 1}, profile=behaving(stop_us=SECOND)) as cluster:
        times = PodTimes(cluster)
        cluster.apply(pod("job", restartPolicy="Never", activeDeadlineSeconds=30))
        await cluster.run_until("90s")
        status = cluster.pod("job")["status"]
        assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")
        started = at_s(cluster, status["startTime"])
        assert 31 <= times.failed["job"] - started <= 34
        (event,) = [e for e in cluster.list("events") if e["reason"] == "DeadlineExceeded"]
        assert event["count"] == 3


# --- waiting for the end of a pod -----------------------------------------------------------------


def slow_to_end(name: str, grace_s: int, **spec: Any) -> Obj:
    """Its hook takes its whole grace period, and the kill as much again."""
    hook = {"lifecycle": {"preStop": {"exec": {"command": ["sleep", str(grace_s)]}}}}
    return pod(name, container=hook, terminationGracePeriodSeconds=grace_s, **spec)


def told(cluster: FixedPhases, reason: str) -> list[tuple[str, float]]:
    """(object, first time) of events."""
    found = [e for e in cluster.list("events") if e["reason"] == reason]
    return [(e["involvedObject"]["name"], at_s(cluster, e["firstTimestamp"])) for e in found]


async def test_shutdown_waits_for_a_pod_one_and_a_half_grace_periods_and_continues() -> None:
    """20 s to end with 10 s of grace: after 15 s the next group's turn comes, though its own has
    50.
    """
    flags = {"shutdown-grace-period": "60s", "shutdown-grace-period-critical-pods": "10s"}
    async with FixedPhases({"": 1}, profile=behaving(stop_us=None), flags=flags) as cluster:
        times = PodTimes(cluster)
        cluster.apply(slow_to_end("slow", 10), pod("last", priorityClassName="system-node-critical"))
        await cluster.run_until("60s")
        cluster.nodes["node-0"].shutdown()
        await cluster.run_until("84s")
        assert told(cluster, "ExceededGracePeriod") == [("slow", 75)]
        assert dict(told(cluster, "Killing")) == {"slow": 60, "last": 75}
        assert 80 <= times.failed["slow"] <= 82
        await cluster.run_until("86.9s")
        assert cluster.nodes["node-0"].machine.powered
        await cluster.run_until("87.1s")
        assert not cluster.nodes["node-0"].machine.powered


async def test_pod_that_ends_before_its_shutdown_group_is_waited_for_as_if_running() -> None:
    flags = {"shutdown-grace-period": "60s", "shutdown-grace-period-critical-pods": "30s"}
    rules = (
        Rule(ContainerBehaviour(exit_after_us=30 * SECOND), pod_prefix="job"),
        Rule(ContainerBehaviour(stop_us=None)),
    )
    async with FixedPhases({"": 1}, profile=RuntimeProfile(rules=rules), flags=flags) as cluster:
        cluster.apply(pod("web", terminationGracePeriodSeconds=20))
        await cluster.run_until("50s")
        cluster.apply(pod("job", restartPolicy="Never", priorityClassName="system-node-critical"))
        await cluster.run_until("70s")
        # the job ends 10 s later, its group's turn comes after 20 s
        cluster.nodes["node-0"].shutdown()
        await cluster.run_until("89s")
        assert cluster.pod("job")["status"]["phase"] == "Succeeded"
        # 30 s (its own grace and half of it are more than its group has) and 2 s of the machine
        await cluster.run_until("121.9s")
        assert cluster.nodes["node-0"].machine.powered
        await cluster.run_until("122.1s")
        assert not cluster.nodes["node-0"].machine.powered


async def test_critical_pod_waits_for_its_victim_at_most_one_and_a_half_grace_periods() -> None:
    async with FixedPhases({"": 1}, capacity={"cpu": "2"}, profile=behaving(stop_us=None)) as cluster:
        times = PodTimes(cluster)
        cluster.apply(slow_to_end("large", 20, requests={"cpu": "2"}))
        await cluster.run_until("60s")
        cluster.apply(pod("first", requests={"cpu": "1"}, priorityClassName="system-node-critical"))
        await cluster.run_until("120s")
        assert told(cluster, "ExceededGracePeriod") == [("large", 90)]
        ((_, started),) = [found for found in told(cluster, "Started") if found[0] == "first"]
        assert 90 <= started <= 92 and 100 <= times.failed["large"] <= 102
        assert cluster.pod("large")["status"]["reason"] == "Preempting"


async def test_last_of_several_requests_to_end_a_pod_before_its_end_counts() -> None:
    """A deleted pod with an image still being pulled is chosen for eviction: its end is reported as
    an eviction.
    """
    profile = RuntimeProfile(warm=False, pull_us=60 * SECOND)
    async with FixedPhases({"": 1}, profile=profile, capacity=SMALL) as cluster:
        times = PodTimes(cluster)
        await cluster.run_until("31s")
        cluster.apply(pod("web"))
        await cluster.run_until("35s")
        assert cluster.request("delete", "pods", "default", "web").ok
        await cluster.run_until("36s")
        pressed(cluster, GI)
        await cluster.run_until("120s")
        assert 91 <= times.evicted["web"] <= 94 and times.evicted["web"] <= times.gone["web"] <= 95


# --- images ---------------------------------------------------------------------------------------


async def test_the_image_that_no_pass_has_found_in_use_for_longest_goes_first() -> None:
    """Passes at 0, 300, 600, 900: `early` was in use at the first of these, `late` at the second as
    well, `short` at none.
    """
    sizes = {f"registry.example/{name}:1": 20 * GI for name in ("late", "early", "short", "z-unused")}
    profile = RuntimeProfile(warm=False, images=sizes)
    flags = {"image-gc-high-threshold": 81, "image-gc-low-threshold": 80}
    async with FixedPhases({"": 1}, profile=profile, flags=flags) as cluster:
        machine = cluster.nodes["node-0"].machine

        async def runs(name: str, from_s: int) -> None:
            await cluster.run_until(f"{from_s}s")
            cluster.apply(pod(name, container={"image": f"registry.example/{name}:1"}))

        async def goes(name: str, at_s: int) -> None:
            await cluster.run_until(f"{at_s}s")
            assert cluster.request("delete", "pods", "default", name).ok

        await runs("early", 20)
        await runs("late", 30)
        await goes("early", 400)
        await goes("late", 700)
        await runs("short", 710)
        await goes("short", 720)
        await cluster.run_until("760s")
        order = []
        for until_s in (901, 1201, 1501, 1801):
            cluster.nodes["node-0"].set_pressure("imagefs", 18 * GI)
            before = dict(machine.images)
            await cluster.run_until(f"{until_s}s")
            order += [name.split("/")[1][:-2] for name in before if name not in machine.images]
        assert order == ["short", "z-unused", "early", "late"]


@pytest.mark.parametrize(("full_s", "failures"), [(250, 1), (310, 0)])
async def test_the_pass_at_the_start_of_an_agent_counts_as_one_that_failed(
    full_s: int, failures: int
) -> None:
    """Without statistics it finds no disk, so a failure of the next pass is reported as the second
    one.
    """
    profile = RuntimeProfile(warm=False, images={})
    flags = {"image-gc-high-threshold": 70, "image-gc-low-threshold": 60}
    async with FixedPhases({"": 1}, profile=profile, flags=flags) as cluster:
        await cluster.run_until(f"{full_s}s")
        cluster.nodes["node-0"].set_pressure("nodefs", 20 * GI)
        await cluster.run_until("610s" if full_s > 300 else "310s")
        ((node, looked_s),) = told(cluster, "InvalidDiskCapacity")
        assert (node, looked_s) == ("node-0", told(cluster, "Starting")[0][1])
        assert len(told(cluster, "FreeDiskSpaceFailed")) == 1
        assert len(told(cluster, "ImageGCFailed")) == failures


async def test_an_agent_that_never_collects_images_does_not_look_at_their_disk() -> None:
    async with FixedPhases({"": 1}, flags={"image-gc-high-threshold": 100}) as cluster:
        await cluster.run_until("60s")
        assert told(cluster, "Starting") and not told(cluster, "InvalidDiskCapacity")
