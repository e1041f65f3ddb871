"""A node at its limits, on whole clusters: memory, disks, process numbers, a runtime that is slow
or silent, shutdown.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from actors.node.runtime.profile import ContainerBehaviour, Rule, RuntimeProfile
from sim.app.cluster import Cluster
from sim.units import SECOND
from tests.cluster.fixed import FixedPhases, workload
from tests.cluster.timing.node.test_node_timing_agent import (
    GI,
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


async def test_36_pods_leave_a_node_short_of_memory_in_their_order_one_per_check() -> None:
    profile = using({"p": 400, "q": 150, "r": 1000, "s": 50})
    async with FixedPhases({"": 2}, profile=profile, capacity=SMALL) as cluster:
        times = PodTimes(cluster)
        asked = {"memory": "100Mi"}
        group = cluster.scheme.resource("priorityclasses").group
        high = {
            "apiVersion": f"{group}/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "high"},
            "value": 100,
        }
        cluster.apply(high)
        for name in ("p", "q", "s"):
            cluster.apply(pod(name, requests=asked))
        cluster.apply(pod("r", requests=asked, priorityClassName="high"))
        await cluster.run_until("60s")
        assert not times.evicted
        # Pods use 1600 Mi, 50 Mi less than the threshold, so that the eviction of any but all is
        # enough.
        node = cluster.nodes["node-0"]
        node.set_pressure("memory", 50 * MI)
        await cluster.run_until("75s")
        assert list(times.evicted) == ["p"] and 60 < times.evicted["p"] <= 71.5
        status = cluster.pod("p")["status"]
        assert status["phase"] == "Failed" and status["message"] == (
            "The node was low on resource: memory. "
            "Container c was using 400Mi, which exceeds its request of 100Mi. "
        )
        assert condition(cluster, "MemoryPressure")["status"] == "True"
        assert cluster.names.taint_memory_pressure in taints(cluster)
        (event,) = [e for e in cluster.list("events") if e["reason"] == "Evicted"]
        assert event["metadata"]["annotations"]["starved_resource"] == "memory"
        cluster.apply(pod("poor"))
        await cluster.run_until("80s")
        assert cluster.pod("poor")["status"]["message"] == ("Pod The node had condition: [MemoryPressure]. ")
        times.evicted.pop("poor")
        node.machine.outside.clear()
        node.set_pressure("memory", 0, ramp_us=0)
        held = node.machine.outside["memory"]
        # nothing helps
        node.machine.outside["memory"] = type(held)(2 * held.end, 2 * held.end, 0, 0)
        await cluster.run_until("200s")
        assert list(times.evicted) == ["p", "q", "r", "s"]
        # not 10 s apart: after a clean-up the next check comes at once
        assert all(later - earlier < 5 for earlier, later in pairwise(list(times.evicted.values())[1:]))
        node.end_pressure("memory")
        await cluster.run_until("480s")
        assert condition(cluster, "MemoryPressure")["status"] == "True"
        await cluster.run_until("530s")  # five minutes after it was last seen
        assert condition(cluster, "MemoryPressure")["status"] == "False"
        assert not taints(cluster)


async def test_the_next_check_waits_for_a_pod_that_takes_long_to_die_and_chooses_it_again() -> None:
    """Pods being killed are ranked as usual: each pass waits up to 40 s for the first until it has
    ended, and no other pod is evicted.
    """
    profile = RuntimeProfile(rules=(Rule(ContainerBehaviour(memory_bytes=GI, stop_us=None)),))
    async with FixedPhases({"": 1}, profile=profile, capacity=SMALL) as cluster:
        times = PodTimes(cluster)
        cluster.apply(pod("a"), pod("b", terminationGracePeriodSeconds=300), pod("c"))
        await cluster.run_until("35s")
        node = cluster.nodes["node-0"]
        node.set_pressure("memory", 0)
        over = node.machine.outside["memory"]
        node.machine.outside["memory"] = type(over)(over.end + 2 * GI, over.end + 2 * GI, 0, 0)
        await cluster.run_until("420s")
        killing = {
            e["involvedObject"]["name"]: at_s(cluster, e["firstTimestamp"])
            for e in cluster.list("events")
            if e["reason"] == "Killing"
        }
        # Pod a ends after its own 30 s.
        assert killing["a"] == 40 and 70 <= times.evicted["a"] <= 73
        # 40 s after a's turn came b's, which takes 300 s: its kill is waited for 10 s each time,
        # its end 30 s more
        assert 30 <= killing["b"] - killing["a"] <= 33
        assert 300 <= times.evicted["b"] - killing["b"] <= 303
        late = {
            e["involvedObject"]["name"]: e.get("count", 1)
            for e in cluster.list("events")
            if e["reason"] == "ExceededGracePeriod"
        }
        assert late["a"] == 1 and late["b"] == 8
        assert times.evicted["b"] <= killing["c"] <= times.evicted["b"] + 31


async def test_a_pod_that_is_being_deleted_is_waited_for_before_another_is_evicted() -> None:
    """The larger one would be chosen and is on its way out: the small one stays, for its end is
    enough.
    """
    rules = (
        Rule(ContainerBehaviour(memory_bytes=3 * GI, stop_us=None), pod_prefix="large"),
        Rule(ContainerBehaviour(memory_bytes=50 * MI), pod_prefix="small"),
    )
    async with FixedPhases({"": 1}, profile=RuntimeProfile(rules=rules), capacity=SMALL) as cluster:
        times = PodTimes(cluster)
        cluster.apply(pod("large", terminationGracePeriodSeconds=60), pod("small"))
        await cluster.run_until("38s")
        assert cluster.request("delete", "pods", "default", "large").ok
        await cluster.run_until("43s")
        cluster.nodes["node-0"].set_pressure("memory", 0)
        await cluster.run_until("115s")
        assert 98 <= times.gone["large"] <= 102
        assert not times.evicted


async def test_pods_of_which_nothing_runs_are_evicted_and_the_checks_go_on() -> None:
    """A pod without a sandbox may have ended when the kill begins; there is nothing to wait for."""
    async with FixedPhases({"": 6}, capacity=SMALL) as cluster:
        times = PodTimes(cluster)
        await cluster.run_until("20s")
        for name, node in cluster.nodes.items():
            node.fail_pod_network("no network")
            cluster.apply(pod(f"web-{name}", node=name))
        await cluster.run_until("37s")
        for node in cluster.nodes.values():
            node.set_pressure("memory", 0)
        await cluster.run_until("75s")
        assert len(times.evicted) == 6
        for node in cluster.nodes.values():
            node.end_pressure("memory")
            node.heal_pod_network()
        await cluster.run_until("420s")
        assert {condition(cluster, "MemoryPressure", name)["status"] for name in cluster.nodes} == {"False"}


async def test_a_container_over_its_memory_limit_is_killed_and_started_again() -> None:
    async with FixedPhases({"": 1}, profile=behaving(memory_bytes=GI, memory_ramp_us=60 * SECOND)) as cluster:
        await cluster.run_until("20s")
        cluster.apply(pod("web", container={"resources": {"limits": {"memory": "512Mi"}}}))
        await cluster.run_until("60s")
        status = cluster.pod("web")["status"]["containerStatuses"][0]
        ended = status["lastState"]["terminated"]
        assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)
        assert at_s(cluster, ended["finishedAt"]) - at_s(cluster, ended["startedAt"]) == 30
        assert status["restartCount"] == 1 and "running" in status["state"]


async def test_of_pods_of_equal_priority_the_one_furthest_over_its_request_goes_first() -> None:
    async with FixedPhases({"": 1}, profile=using({"a": 300, "b": 500, "c": 300}), capacity=SMALL) as cluster:
        times = PodTimes(cluster)
        cluster.apply(
            pod("c", requests={"memory": "100Mi"}), pod("a"), pod("b", requests={"memory": "400Mi"})
        )
        await cluster.run_until("40s")
        cluster.nodes["node-0"].set_pressure("memory", 0)
        node = cluster.nodes["node-0"].machine
        over = node.outside["memory"]
        node.outside["memory"] = type(over)(over.end + 2 * GI, over.end + 2 * GI, 0, 0)
        await cluster.run_until("120s")
        assert list(times.evicted) == ["a", "c", "b"]  # 300, 200 and 100 Mi over


async def test_a_soft_threshold_shows_pressure_at_once_and_evicts_after_its_grace() -> None:
    flags = {
        "eviction-soft": "memory.available<1Gi",
        "eviction-soft-grace-period": "memory.available=1m30s",
        "eviction-max-pod-grace-period": 5,
    }
    profile = RuntimeProfile(rules=(Rule(ContainerBehaviour(memory_bytes=GI, stop_us=None)),))
    async with FixedPhases({"": 1}, profile=profile, capacity=SMALL, flags=flags) as cluster:
        times = PodTimes(cluster)
        cluster.apply(pod("web"))
        await cluster.run_until("33s")
        cluster.nodes["node-0"].set_pressure("memory", 900 * MI)
        await cluster.run_until("53s")
        shown = condition(cluster, "MemoryPressure")
        assert shown["status"] == "True" and 33 < at_s(cluster, shown["lastTransitionTime"]) <= 51
        await cluster.run_until("180s")
        # first seen at 40, due at 130; the pod ignores SIGTERM and gets 5 s instead of its own 30
        assert 135 <= times.evicted["web"] <= 137.5


async def test_a_full_disk_is_cleared_of_images_before_pods_go() -> None:
    profile = RuntimeProfile(
        warm=False,
        images={"registry.example/old:1": 80 * GI, "registry.example/c:1": 2 * GI},
        rules=(Rule(ContainerBehaviour(layer_bytes=4 * GI)),),
    )
    async with FixedPhases({"": 1}, profile=profile) as cluster:
        times = PodTimes(cluster)
        cluster.apply(pod("web"))
        await cluster.run_until("55s")  # 14 GiB of 100 are left: less than 15 %
        node = cluster.get("nodes", "node-0")
        assert node is not None
        assert [image["names"][-1:] for image in node["status"]["images"]] == [["registry.example/c:1"]]
        assert condition(cluster, "DiskPressure")["status"] == "True"
        assert cluster.names.taint_disk_pressure in taints(cluster)
        met = [e for e in cluster.list("events") if e["reason"] == "EvictionThresholdMet"]
        assert [e["message"] for e in met] == ["Attempting to reclaim ephemeral-storage"]
        await cluster.run_until("360s")
        assert not times.evicted
        assert condition(cluster, "DiskPressure")["status"] == "False"
        cluster.nodes["node-0"].set_pressure("nodefs", 5 * GI)
        await cluster.run_until("375s")
        assert list(times.evicted) == ["web"]
        assert cluster.pod("web")["status"]["message"] == (
            "The node was low on resource: ephemeral-storage. "
            "Container c was using 4Gi, which exceeds its request of 0. "
        )


async def test_a_node_out_of_process_numbers_evicts_the_least_important_pod_with_the_most() -> None:
    many = {"a": 100, "b": 9000, "z": 20_000}
    rules = tuple(Rule(ContainerBehaviour(processes=n), pod_prefix=name) for name, n in many.items())
    flags = {"eviction-hard": "pid.available<10%"}
    async with FixedPhases({"": 1}, profile=RuntimeProfile(rules=rules), flags=flags) as cluster:
        times = PodTimes(cluster)
        cluster.apply(pod("a"), pod("b"), pod("z", priorityClassName="system-cluster-critical"))
        await cluster.run_until("40s")
        assert not times.evicted  # 3668 of 32768 are left
        cluster.nodes["node-0"].set_pressure("pid", 3000)
        await cluster.run_until("55s")
        assert list(times.evicted) == ["b"]
        assert cluster.pod("b")["status"]["message"] == "The node was low on resource: pids. "
        assert condition(cluster, "PIDPressure")["status"] == "True"
        assert cluster.names.taint_pid_pressure in taints(cluster)


async def test_images_on_a_disk_of_their_own_stay_when_the_nodes_disk_is_full() -> None:
    profile = RuntimeProfile(
        warm=False,
        images={"registry.example/c:1": GI, "registry.example/old:1": 10 * GI},
        image_disk_bytes=100 * GI,
        rules=(Rule(ContainerBehaviour(log_bytes=20 * GI)),),
    )
    async with FixedPhases({"": 1}, profile=profile) as cluster:
        times = PodTimes(cluster)
        cluster.apply(pod("web"))
        await cluster.run_until("40s")
        node = cluster.nodes["node-0"]
        node.set_pressure("nodefs", 5 * GI)
        await cluster.run_until("60s")
        assert list(times.evicted) == ["web"]
        assert len(node.machine.images) == 2
        node.set_pressure("imagefs", GI)
        await cluster.run_until("80s")
        assert not node.machine.images


async def test_images_are_collected_at_the_five_minute_pass_before_pressure_comes() -> None:
    profile = RuntimeProfile(warm=False, images={"registry.example/old:1": 60 * GI})
    flags = {"image-gc-high-threshold": 70, "image-gc-low-threshold": 60}
    async with FixedPhases({"": 1}, profile=profile, flags=flags) as cluster:
        await cluster.run_until("20s")
        node = cluster.nodes["node-0"]
        node.set_pressure("nodefs", 25 * GI)
        await cluster.run_until("299s")
        assert node.machine.images
        await cluster.run_until("301s")
        assert not node.machine.images
        assert condition(cluster, "DiskPressure")["status"] == "False"
        # A disk that stays too full is reported at each pass, from its second failure on by two
        # events.
        node.set_pressure("nodefs", 20 * GI)
        told = {"FreeDiskSpaceFailed": 0, "ImageGCFailed": 0}
        for until, failed, again in (
            ("599s", 0, 0),
            ("601s", 1, 0),
            ("901s", 2, 1),
            ("1201s", 2, 1),
            ("1501s", 3, 1),
        ):
            if until == "1201s":  # a pass that finds room enough ends the row
                node.set_pressure("nodefs", 50 * GI)
            await cluster.run_until(until)
            if until == "1201s":
                node.set_pressure("nodefs", 20 * GI)
            for reason in told:
                told[reason] = sum(e.get("count", 1) for e in cluster.list("events") if e["reason"] == reason)
            assert told == {"FreeDiskSpaceFailed": failed, "ImageGCFailed": again}


async def test_a_pod_over_its_local_storage_limit_is_evicted_without_any_pressure() -> None:
    profile = RuntimeProfile(rules=(Rule(ContainerBehaviour(volume_bytes=2 * GI)),))
    async with FixedPhases({"": 1}, profile=profile) as cluster:
        times = PodTimes(cluster)
        cluster.apply(
            pod(
                "web",
                container={"volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}]},
                volumes=[{"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}}],
            )
        )
        await cluster.run_until("40s")
        assert list(times.evicted) == ["web"]
        assert cluster.pod("web")["status"]["message"] == (
            'Usage of EmptyDir volume "tmp" exceeds the limit "1Gi". '
        )
        assert condition(cluster, "DiskPressure")["status"] == "False"


async def test_pod_may_write_the_sum_of_its_containers_or_one_init_containers_limit() -> None:
    limit = {"resources": {"limits": {"ephemeral-storage": "3Gi"}}}
    first = {"name": "first", "image": "registry.example/c:1"}
    writing = Rule(ContainerBehaviour(log_bytes=2 * GI))
    ending = Rule(ContainerBehaviour(log_bytes=2 * GI, exit_after_us=SECOND), container="first")
    async with FixedPhases({"": 1}, profile=RuntimeProfile(rules=(ending, writing))) as cluster:
        times = PodTimes(cluster)
        for name, most in (("little", "3Gi"), ("much", "9Gi")):
            init = {**first, "resources": {"limits": {"ephemeral-storage": most}}}
            obj = pod(name, container=limit, initContainers=[init])
            obj["spec"]["containers"].append({"name": "d", "image": "registry.example/c:1"})
            cluster.apply(obj)
        await cluster.run_until("40s")
        assert list(times.evicted) == ["little"]
        assert cluster.pod("little")["status"]["message"] == (
            "Pod ephemeral local storage usage exceeds the total limit of containers 3Gi. "
        )


# --- runtime and shutdown -------------------------------------------------------------------------


async def test_silent_runtime_is_not_ready_after_30_s_and_unhealthy_after_3_minutes() -> None:
    async with FixedPhases({"": 2}) as cluster:
        await cluster.run_until("60s")
        node = cluster.nodes["node-0"]
        node.hang_runtime()
        await cluster.run_until("85s")
        assert condition(cluster, "Ready")["status"] == "True"
        await cluster.run_until("101s")
        ready = condition(cluster, "Ready")
        assert (ready["status"], ready["message"]) == ("False", "container runtime is down")
        cluster.apply(pod("web"))
        await cluster.run_until("240s")
        assert condition(cluster, "Ready")["message"] == "container runtime is down"
        await cluster.run_until("252s")
        message = condition(cluster, "Ready")["message"]
        assert message.startswith(
            "[container runtime is down, PLEG is not healthy: pleg was last seen active 3m"
        )
        assert message.endswith(" ago; threshold is 3m0s]")
        assert cluster.pod("web")["status"]["phase"] == "Pending"
        node.heal_runtime()
        await cluster.run_until("270s")
        assert condition(cluster, "Ready")["status"] == "True"
        assert cluster.pod("web")["status"]["phase"] == "Running"


async def test_an_agent_that_starts_beside_a_silent_runtime_says_that_it_has_never_seen_it() -> None:
    async with FixedPhases({"": 1}) as cluster:
        await cluster.run_until("60s")
        node = cluster.nodes["node-0"]
        node.crash_agent()
        node.hang_runtime()
        node.set_pressure("memory", 0)
        node.start_agent()
        await cluster.run_until("75s")
        assert condition(cluster, "Ready")["message"] == (
            "[container runtime status check may not have completed yet, "
            "PLEG is not healthy: pleg has yet to be successful, network state unknown]"
        )
        # no statistics, no pressure
        assert condition(cluster, "MemoryPressure")["status"] == "False"
        node.heal_runtime()
        await cluster.run_until("95s")
        assert condition(cluster, "Ready")["status"] == "True"
        assert condition(cluster, "MemoryPressure")["status"] == "True"


async def test_a_slow_disk_makes_starts_slow_and_a_very_slow_one_the_node_unhealthy() -> None:
    async with FixedPhases({"": 2}) as cluster:
        times = PodTimes(cluster)
        await cluster.run_until("60s")
        node = cluster.nodes["node-0"]
        node.slow_runtime(5 * SECOND)
        cluster.apply(pod("web"))
        await cluster.run_until("110s")
        assert 10 <= times.ready["web"] - 60 <= 25
        assert condition(cluster, "Ready")["status"] == "True"
        node.slow_runtime(120 * SECOND)
        # a relist that began about 111 is the last one seen for 241 s
        await cluster.run_until("330s")
        assert "PLEG is not healthy" in condition(cluster, "Ready")["message"]
        node.heal_runtime()
        await cluster.run_until("345s")
        assert condition(cluster, "Ready")["status"] == "True"


async def test_a_shutdown_ends_pods_by_priority_and_then_the_machine() -> None:
    flags = {"shutdown-grace-period": "30s", "shutdown-grace-period-critical-pods": "10s"}
    async with FixedPhases({"": 2}, profile=behaving(stop_us=None), flags=flags) as cluster:
        times = PodTimes(cluster)
        cluster.apply(
            pod("short", terminationGracePeriodSeconds=5),
            pod("long"),
            pod("critical", priorityClassName="system-node-critical"),
        )
        await cluster.run_until("60s")
        cluster.nodes["node-0"].shutdown()
        await cluster.run_for("500ms")
        ready = condition(cluster, "Ready")
        assert (ready["status"], ready["message"]) == ("False", "node is shutting down")
        cluster.apply(pod("late"))
        await cluster.run_until("150s")
        assert cluster.pod("late")["status"]["reason"] == "NodeShutdown"
        times.failed.pop("late")
        assert list(times.failed) == ["short", "long", "critical"]
        assert 65 <= times.failed["short"] <= 66.1 and 80 <= times.failed["long"] <= 81.1
        assert 90 <= times.failed["critical"] <= 91.1
        for name in times.failed:
            status = cluster.pod(name)["status"]
            assert (status["phase"], status["reason"]) == ("Failed", "Terminated")
            assert status["message"] == "Pod was terminated in response to imminent node shutdown."
        machine = cluster.nodes["node-0"].machine
        assert not machine.powered
        await cluster.run_until("180s")
        assert condition(cluster, "Ready")["status"] == "Unknown"
        cluster.nodes["node-0"].power_on()
        await cluster.run_for("25s")
        assert condition(cluster, "Ready")["status"] == "True"


async def test_a_shutdown_that_is_called_off_leaves_the_node_up_without_its_pods() -> None:
    flags = {"shutdown-grace-period": "30s"}
    async with FixedPhases({"": 1}, profile=behaving(stop_us=None), flags=flags) as cluster:
        cluster.apply(pod("web"))
        await cluster.run_until("60s")
        node = cluster.nodes["node-0"]
        node.shutdown()
        await cluster.run_for("10s")
        node.cancel_shutdown()
        await cluster.run_until("120s")
        assert node.machine.powered
        assert condition(cluster, "Ready")["status"] == "True"
        assert cluster.pod("web")["status"]["reason"] == "Terminated"


@pytest.mark.parametrize("seed", [1, 2])
async def test_a_node_under_pressure_does_the_same_each_time(seed: int) -> None:
    hashes = []
    for _ in range(2):
        async with Cluster(nodes=3, seed=seed) as cluster:
            cluster.apply(workload("ReplicaSet", "web", 12))
            await cluster.run_until("40s")
            for name, resource in (("node-0", "memory"), ("node-1", "nodefs"), ("node-2", "memory")):
                cluster.nodes[name].set_pressure(resource, 10 * MI, ramp_us=20 * SECOND)
            await cluster.run_until("120s")
            assert any((p["status"] or {}).get("reason") == "Evicted" for p in cluster.list("pods"))
            hashes.append(cluster.kernel.trace.sha256())
    assert hashes[0] == hashes[1]


async def test_without_a_grace_period_a_shutdown_is_not_held_up() -> None:
    async with FixedPhases({"": 1}) as cluster:
        cluster.apply(pod("web"))
        await cluster.run_until("60s")
        cluster.nodes["node-0"].shutdown()
        await cluster.run_for("3s")
        assert not cluster.nodes["node-0"].machine.powered
        # No agent is left to report otherwise.
        assert cluster.pod("web")["status"]["phase"] == "Running"


# --- room for critical pods -----------------------------------------------------------------------


async def test_a_critical_pod_without_room_ends_the_nearest_of_the_others_and_starts_then() -> None:
    critical = {"requests": {"cpu": "1"}, "priorityClassName": "system-node-critical"}
    static = pod("base", requests={"cpu": "500m"})
    del static["spec"]["nodeName"]
    async with FixedPhases(
        {"": 1}, capacity={"cpu": "2"}, static={"node-0": (static,)}, profile=behaving(stop_us=None)
    ) as cluster:
        times = PodTimes(cluster)
        cluster.apply(pod("large", requests={"cpu": "1"}), pod("small", requests={"cpu": "500m"}))
        await cluster.run_until("60s")
        cluster.apply(pod("first", **critical))
        await cluster.run_until("89s")  # the one nearest to what is missing has its own 30 s
        assert cluster.pod("first")["status"]["phase"] == "Pending" and not times.failed
        await cluster.run_until("100s")
        status = cluster.pod("large")["status"]
        assert (status["reason"], status["message"]) == (
            "Preempting",
            "Preempted in order to admit critical pod",
        )
        assert list(times.failed) == ["large"] and 90 <= times.failed["large"] <= 93
        assert cluster.pod("first")["status"]["phase"] == "Running"
        (event,) = [e for e in cluster.list("events") if e["reason"] == "Preempting"]
        assert (event["type"], event["involvedObject"]["name"]) == ("Warning", "large")
        # neither critical pods nor what all others have is enough for a second one
        cluster.apply(pod("second", **critical), pod("plain", requests={"cpu": "1"}))
        await cluster.run_until("110s")
        assert cluster.pod("second")["status"]["reason"] == "UnexpectedAdmissionError"
        assert cluster.pod("second")["status"]["message"].endswith(
            "reclaim resources: [(res: cpu, q: 500), ]"
        )
        assert cluster.pod("plain")["status"]["reason"] == "OutOfcpu"
        assert cluster.pod("small")["status"]["phase"] == "Running"
        # A pod deleted while it waits is removed at once, and so is the victim that ended for it.
        cluster.apply(pod("third", requests={"cpu": "500m"}, priorityClassName="system-node-critical"))
        await cluster.run_until("115s")
        assert cluster.request("delete", "pods", "default", "third", body={"gracePeriodSeconds": 0}).ok
        await cluster.run_until("150s")
        assert cluster.pod("small")["status"]["reason"] == "Preempting"
        assert cluster.get("pods", "third") is None
        assert len(cluster.nodes["node-0"].machine.pods) == 4


async def test_restarted_agent_makes_room_for_the_critical_pod_that_waited() -> None:
    async with FixedPhases({"": 1}, capacity={"cpu": "2"}, profile=behaving(stop_us=None)) as cluster:
        cluster.apply(pod("large", requests={"cpu": "2"}))
        await cluster.run_until("60s")
        cluster.apply(pod("first", requests={"cpu": "1"}, priorityClassName="system-node-critical"))
        await cluster.run_until("70s")
        node = cluster.nodes["node-0"]
        node.crash_agent()
        await cluster.run_until("75s")
        node.start_agent()
        await cluster.run_until("130s")
        assert cluster.pod("large")["status"]["reason"] == "Preempting"
        assert cluster.pod("first")["status"]["phase"] == "Running"
