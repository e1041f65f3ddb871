"""One node agent against a small API: heartbeats, pods, probes, back-off, deletion, faults."""

import itertools

import pytest

from actors.node.runtime.profile import ContainerBehaviour, NodeSpec, Rule, RuntimeProfile
from actors.node.runtime.ramps import Ramp
from sim.api.store import Item
from sim.options.node.agent import parse_node_agent
from sim.units import MINUTE, SECOND
from tests.actor.node.fake import one_node


def behaving(**behaviour: object) -> NodeSpec:
    rule = Rule(ContainerBehaviour(**behaviour))  # type: ignore[arg-type]
    return NodeSpec("n1", profile=RuntimeProfile(rules=(rule,)))


async def test_pod_runs_and_is_ready_about_a_second_after_its_bind() -> None:
    async with one_node() as (kernel, api, _):
        api.bind("web")
        await kernel.run_until(21 * SECOND + 600_000)
        status = api.pod("web")["status"]
        assert status["phase"] == "Running" and api.ready("web")
        assert status["podIP"] == "10.200.0.2" and status["qosClass"] == "BestEffort"
        state = status["containerStatuses"][0]
        assert state["ready"] and state["started"] and state["restartCount"] == 0
        assert [c["type"] for c in status["conditions"]] == [
            "Initialized", "Ready", "ContainersReady", "PodScheduled",
        ]  # fmt: skip
        reasons = [body[0] for _, verb, name, body in api.log if verb == "event" and name == "web"]
        assert reasons == ["Pulled", "Created", "Started"]


async def test_quiet_node_renews_lease_and_writes_status_every_five_minutes() -> None:
    async with one_node() as (kernel, api, _):
        api.bind("web")
        await kernel.run_until(30 * SECOND)
        steps = kernel.steps
        await kernel.run_until(930 * SECOND)
        renewals = [
            b - a
            for a, b in zip(
                api.writes("update", "leases")[2:], api.writes("update", "leases")[3:], strict=False
            )
        ]
        assert all(10 * SECOND <= gap <= 10_410_000 for gap in renewals) and len(renewals) > 80
        reports = api.writes("patch", "nodes")
        assert [300 <= (b - a) / SECOND <= 311 for a, b in itertools.pairwise(reports)].count(False) == 0
        assert len(reports) == 3
        # A renewal is its timer and its reply, a report a few more; the pod adds none.
        assert kernel.steps - steps < 2 * len(renewals) + 30


async def test_crash_looping_container_restarts_after_growing_delays() -> None:
    """Known timing case 32."""
    async with one_node(behaving(exit_after_us=SECOND)) as (kernel, api, _):
        api.bind("loop")
        await kernel.run_until(1_600 * SECOND)
        starts = [at for at, _ in api.events("Started")]
        delays = [(b - a) / SECOND - 1 for a, b in itertools.pairwise(starts)]
        assert 0 <= delays[0] <= 2
        for wanted, delay in zip((10, 20, 40, 80, 160, 300, 300), delays[1:], strict=False):
            assert wanted <= delay <= wanted + 16
        assert starts[7] - starts[0] >= 610 * SECOND
        await kernel.run_until(kernel.now_us + 40 * SECOND)
        status = api.pod("loop")["status"]
        assert status["phase"] == "Running"
        assert status["containerStatuses"][0]["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert "terminated" in status["containerStatuses"][0]["lastState"]


async def test_container_that_is_never_healthy_is_killed_by_liveness_probe() -> None:
    """Known timing case 34."""
    probe = {"httpGet": {"port": 80}, "periodSeconds": 10, "timeoutSeconds": 1, "failureThreshold": 3}
    spec = {"containers": [{"name": "c", "image": "i", "livenessProbe": probe}]}
    async with one_node(behaving(unhealthy_after_us=0)) as (kernel, api, _):
        await kernel.run_until(40 * SECOND)
        api.bind("web", spec)
        await kernel.run_until(100 * SECOND)
        started = [at for at, _ in api.events("Started")]
        killed = [at for at, _ in api.events("Killing")]
        assert 20 * SECOND <= killed[0] - started[0] <= 31 * SECOND
        assert api.events("Killing")[0][1] == "Container c failed liveness probe, will be restarted"
        assert 0 < started[1] - killed[0] <= 3 * SECOND
        assert len(api.events("Unhealthy")) >= 3
        assert api.pod("web")["status"]["containerStatuses"][0]["restartCount"] == 1


async def test_failing_readiness_makes_pod_unready_after_three_probes_ready_after_one() -> None:
    """Known timing case 35."""
    probe = {"httpGet": {"port": 80}, "periodSeconds": 5, "failureThreshold": 3}
    spec = {"containers": [{"name": "c", "image": "i", "readinessProbe": probe}]}
    async with one_node() as (kernel, api, node):
        api.bind("web", spec)
        await kernel.run_until(60 * SECOND)
        assert api.ready("web")
        steps = kernel.steps
        await kernel.run_until(70 * SECOND)
        assert kernel.steps - steps < 10  # a probe that succeeds causes no events
        assert node.set_health("default", "web", "c", False)
        bad_us = kernel.now_us
        while api.ready("web"):
            await kernel.run_until(kernel.now_us + SECOND // 10)
        assert 10 * SECOND <= kernel.now_us - bad_us <= 16 * SECOND
        node.set_health("default", "web", "c", True)
        await kernel.run_until(kernel.now_us + 6 * SECOND)
        assert api.ready("web")


async def test_pod_that_ignores_sigterm_is_killed_at_end_of_grace_and_deleted() -> None:
    """Known timing case 39."""
    async with one_node(behaving(stop_us=None)) as (kernel, api, _):
        api.bind("stubborn")
        await kernel.run_until(40 * SECOND)
        api.delete("stubborn", 30)
        await kernel.run_until(69 * SECOND)
        assert "running" in api.pod("stubborn")["status"]["containerStatuses"][0]["state"]
        await kernel.run_until(74 * SECOND)
        assert not api.has("stubborn")
        shown = [body["status"].get("containerStatuses") for _, verb, where, body in api.log
                 if verb == "patch" and where == "pods/stubborn"]  # fmt: skip
        assert [s for s in shown if s][-1][0]["state"]["terminated"]["exitCode"] == 137
        removal = [body for _, verb, _, body in api.log if verb == "delete"]
        assert removal[0]["gracePeriodSeconds"] == 0 and "uid" in removal[0]["preconditions"]
        await kernel.run_until(80 * SECOND)
        assert len(removal) == 1


async def test_graceful_pod_ends_within_seconds_and_leaves_nothing() -> None:
    async with one_node() as (kernel, api, node):
        api.bind("web")
        await kernel.run_until(40 * SECOND)
        api.delete("web", 30)
        await kernel.run_until(44 * SECOND)
        assert not api.has("web")
        assert node.machine.pods == {} and node.machine.agent.workers == {}
        assert node.machine.agent.used.pods == 0 and node.machine.agent.statuses._entries == {}


async def test_job_pod_succeeds_once_its_containers_have_ended() -> None:
    async with one_node(behaving(exit_after_us=5 * SECOND)) as (kernel, api, _):
        api.bind("job", {"restartPolicy": "Never"})
        await kernel.run_until(24 * SECOND)
        assert api.pod("job")["status"]["phase"] == "Running"
        await kernel.run_until(32 * SECOND)
        status = api.pod("job")["status"]
        assert status["phase"] == "Succeeded"
        ready = next(c for c in status["conditions"] if c["type"] == "Ready")
        assert ready["reason"] == "PodCompleted"


async def test_second_pod_that_does_not_fit_fails_and_never_starts() -> None:
    """Known timing case 38."""
    spec = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "5"}}}]}
    async with one_node() as (kernel, api, _):
        api.bind("a", spec)
        api.bind("b", spec)
        await kernel.run_until(30 * SECOND)
        assert api.pod("a")["status"]["phase"] == "Running"
        status = api.pod("b")["status"]
        assert (status["phase"], status["reason"]) == ("Failed", "OutOfcpu")
        assert status["message"] == (
            "Pod Node didn't have enough resource: cpu, requested: 5000, used: 5000, capacity: 8000"
        )
        assert list(status) == ["phase", "reason", "message", "startTime"]
        api.delete("b", 0)
        await kernel.run_until(32 * SECOND)
        assert not api.has("b")


async def test_containers_survive_a_crash_of_the_agent() -> None:
    async with one_node() as (kernel, api, node):
        api.bind("web")
        await kernel.run_until(30 * SECOND)
        before = api.pod("web")["status"]["containerStatuses"]
        node.crash_agent()
        await kernel.run_until(60 * SECOND)
        node.start_agent()
        await kernel.run_until(90 * SECOND)
        assert api.pod("web")["status"]["containerStatuses"] == before
        assert len(api.events("Started")) == 1 and not api.events("Rebooted")


async def test_pod_deleted_without_agent_is_stopped_by_the_next_agent() -> None:
    async with one_node() as (kernel, api, node):
        api.bind("web")
        await kernel.run_until(30 * SECOND)
        node.crash_agent()
        api.remove("pods", "default", "web")
        await kernel.run_until(60 * SECOND)
        assert node.machine.pods
        node.start_agent()
        await kernel.run_until(65 * SECOND)
        assert node.machine.pods == {}


async def test_power_loss_restarts_pods_in_new_sandboxes_with_new_boot_id() -> None:
    async with one_node() as (kernel, api, node):
        api.bind("web")
        await kernel.run_until(30 * SECOND)
        boot = api.objects["nodes", "", "n1"]["status"]["nodeInfo"]["bootID"]
        node.power_loss()
        await kernel.run_until(60 * SECOND)
        node.power_on()
        await kernel.run_until(64 * SECOND)
        status = api.pod("web")["status"]
        container = status["containerStatuses"][0]
        assert status["phase"] == "Running" and container["restartCount"] == 1 and api.ready("web")
        assert container["lastState"]["terminated"]["exitCode"] == 255
        assert len(api.events("SandboxChanged")) == 1 and len(api.events("Rebooted")) == 1
        assert api.objects["nodes", "", "n1"]["status"]["nodeInfo"]["bootID"] != boot


async def test_node_marked_unknown_is_ready_again_at_its_next_pass() -> None:
    async with one_node() as (kernel, api, _):
        node = api.objects["nodes", "", "n1"]
        conditions = [{**c, "status": "Unknown"} for c in node["status"]["conditions"]]
        api.put("nodes", {**node, "status": {**node["status"], "conditions": conditions}})
        await kernel.run_until(20 * SECOND + 10_500_000)
        held = api.objects["nodes", "", "n1"]["status"]["conditions"]
        assert {c["status"] for c in held if c["type"] == "Ready"} == {"True"}


async def test_agent_retries_and_recovers_when_api_does_not_answer() -> None:
    async with one_node() as (kernel, api, _):
        api.down = "ConnectionRefused"
        await kernel.run_until(2 * MINUTE)
        assert len(api.writes("update", "leases")) < 4
        api.down = ""
        await kernel.run_until(2 * MINUTE + 21 * SECOND)
        assert api.writes("update", "leases")[-1] > 2 * MINUTE


async def test_failed_renewal_reads_lease_after_five_attempts_and_makes_five_more() -> None:
    async with one_node() as (kernel, api, _):
        api.failing = (("update", "leases"),)
        await kernel.run_until(40 * SECOND)
        tries = [at for at in api.writes("update", "leases") if at > 20 * SECOND]
        first = [at for at in tries if at < tries[0] + SECOND]
        assert len(first) == 10
        assert 10 * SECOND <= tries[10] - first[-1] <= 10_500_000  # and again at the next renewal


@pytest.mark.parametrize(("update", "lease_s", "wanted_s"), [("10s", 40, 10), ("4s", 40, 4), ("30s", 12, 12)])
async def test_heartbeat_timeout_is_shorter_of_status_period_and_lease(
    update: str, lease_s: int, wanted_s: int
) -> None:
    options = parse_node_agent(
        {"node-status-update-frequency": update, "node-lease-duration-seconds": lease_s}
    )
    async with one_node(options=options) as (_, api, _node):
        assert api.patience_us == wanted_s * SECOND


async def test_failing_runtime_makes_node_not_ready_and_delays_new_pods() -> None:
    async with one_node() as (kernel, api, node):
        node.fail_runtime("containerd is down")
        await kernel.run_until(36 * SECOND)
        ready = next(
            c for c in api.objects["nodes", "", "n1"]["status"]["conditions"] if c["type"] == "Ready"
        )
        assert ready["status"] == "False" and "containerd is down" in ready["message"]
        api.bind("web")
        await kernel.run_until(50 * SECOND)
        assert api.pod("web")["status"]["phase"] == "Pending" and not api.events("Started")
        node.heal_runtime()
        await kernel.run_until(70 * SECOND)
        assert api.ready("web")
        ready = next(
            c for c in api.objects["nodes", "", "n1"]["status"]["conditions"] if c["type"] == "Ready"
        )
        assert ready["status"] == "True"


async def test_init_containers_run_in_order_before_the_others() -> None:
    spec = {"initContainers": [{"name": "i1", "image": "i"}, {"name": "i2", "image": "i"}]}
    async with one_node() as (kernel, api, _):
        api.bind("web", spec)
        await kernel.run_until(30 * SECOND)
        assert api.ready("web")
        assert [text for _, text in api.events("Started")] == [
            "Started container i1", "Started container i2", "Started container c",
        ]  # fmt: skip


async def test_failing_pull_alternates_between_error_and_back_off() -> None:
    spec = NodeSpec("n1", profile=RuntimeProfile(broken_images={"img:1": "manifest unknown"}))
    async with one_node(spec) as (kernel, api, _):
        api.bind("web")
        await kernel.run_until(1600 * SECOND)
        reasons = [text for _, text in api.events("Failed")]
        assert "Error: ErrImagePull" in reasons and "Error: ImagePullBackOff" in reasons
        pulls = [at for at, _ in api.events("Pulling")]
        gaps = [(b - a) / SECOND for a, b in itertools.pairwise(pulls)]
        for wanted, gap in zip((10, 20, 40, 80, 160, 300, 300), gaps, strict=False):
            assert wanted <= gap <= wanted + 16 + 5  # 5 s are the pull itself
        assert len(gaps) >= 7
        assert api.pod("web")["status"]["phase"] == "Pending"


async def test_static_pod_runs_without_api_and_deleted_mirror_is_made_again() -> None:
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "proxy"},
                "spec": {"containers": [{"name": "c", "image": "i"}]}}  # fmt: skip
    async with one_node(NodeSpec("n1", static_pods=(manifest,))) as (kernel, api, _):
        mirror = api.pod("proxy-n1")
        assert mirror["status"]["phase"] == "Running" and api.ready("proxy-n1")
        assert mirror["metadata"]["ownerReferences"][0]["kind"] == "Node"
        annotations = mirror["metadata"]["annotations"]
        assert annotations["kubernetes.io/config.seen"] == "2026-01-01T00:00:00.000000000Z"
        assert annotations["kubernetes.io/config.mirror"] == annotations["kubernetes.io/config.hash"]
        api.remove("pods", "default", "proxy-n1")
        await kernel.run_until(25 * SECOND)
        again = api.pod("proxy-n1")
        assert again["metadata"]["uid"] != mirror["metadata"]["uid"]
        assert api.ready("proxy-n1") and len(api.events("Started")) == 1


async def test_refused_mirror_is_retried_at_next_resync_of_the_pod() -> None:
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "proxy"},
                "spec": {"containers": [{"name": "c", "image": "i"}]}}  # fmt: skip
    async with one_node(NodeSpec("n1", static_pods=(manifest,))) as (kernel, api, _):
        api.failing = (("create", "pods"),)
        api.remove("pods", "default", "proxy-n1")
        await kernel.run_until(400 * SECOND)
        assert not api.has("proxy-n1")
        tries = [at / SECOND for at, verb, what, _ in api.log if verb == "create" and what.startswith("pods")]
        waits = [later - earlier for earlier, later in itertools.pairwise(tries[1:])]
        assert len(waits) >= 3 and all(60 <= wait <= 91.1 for wait in waits)
        api.failing = ()
        await kernel.run_until(492 * SECOND)
        assert api.ready("proxy-n1") and len(api.events("Started")) == 1


async def test_foreign_write_to_pod_status_is_restored_within_ten_seconds() -> None:
    async with one_node() as (kernel, api, _):
        api.bind("web")
        await kernel.run_until(31 * SECOND)
        pod = api.pod("web")
        conditions = [
            {**c, "status": "False"} if c["type"] == "Ready" else c for c in pod["status"]["conditions"]
        ]
        api.put("pods", {**pod, "status": {**pod["status"], "conditions": conditions}})
        assert not api.ready("web")
        await kernel.run_until(41 * SECOND)
        assert api.ready("web")
        assert len(api.writes("patch", "pods")) == 3


async def test_each_status_is_written_once() -> None:
    async with one_node() as (kernel, api, _):
        api.bind("web")
        await kernel.run_until(60 * SECOND)
        assert len(api.writes("patch", "pods")) == 2


async def test_one_pod_per_check_is_evicted_the_largest_excess_first() -> None:
    """Known timing case 36."""
    mi = 1 << 20
    used = {"p": 400, "q": 150, "r": 1000, "s": 50}
    rules = tuple(
        Rule(ContainerBehaviour(memory_bytes=size * mi), pod_prefix=name) for name, size in used.items()
    )
    requests = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"memory": "100Mi"}}}]}
    capacity = {"cpu": "8", "memory": "8Gi", "pods": "110"}
    spec = NodeSpec("n1", capacity=capacity, profile=RuntimeProfile(rules=rules))
    async with one_node(spec) as (kernel, api, node):
        for name in used:
            api.bind(name, {**requests, "priority": 100 if name == "r" else 0})
        await kernel.run_until(40 * SECOND)
        assert not api.events("Evicted")
        node.set_pressure("memory", 50 * mi)
        await kernel.run_until(55 * SECOND)
        status = api.pod("p")["status"]
        assert (status["phase"], status["reason"]) == ("Failed", "Evicted")
        assert status["message"] == (
            "The node was low on resource: memory. "
            "Container c was using 400Mi, which exceeds its request of 100Mi. "
        )
        assert len(api.events("Evicted")) == 1 and 40 <= api.events("Evicted")[0][0] / SECOND <= 50
        pressure = [
            c for c in api.objects["nodes", "", "n1"]["status"]["conditions"] if c["type"] == "MemoryPressure"
        ]
        assert pressure[0]["status"] == "True"
        api.bind("poor")
        await kernel.run_until(57 * SECOND)
        assert api.pod("poor")["status"]["reason"] == "Evicted"
        node.set_pressure("memory", 0)
        node.machine.outside["memory"] = Ramp(8192 * mi, 8192 * mi, 0, 0)  # no eviction helps now
        await kernel.run_until(120 * SECOND)
        order = [name for _, verb, name, body in api.log if verb == "event" and body[0] == "Evicted"]
        assert [name for name in order if name != "poor"] == ["p", "q", "r", "s"]
        node.end_pressure("memory")
        await kernel.run_until(500 * SECOND)
        pressure = [
            c for c in api.objects["nodes", "", "n1"]["status"]["conditions"] if c["type"] == "MemoryPressure"
        ]
        assert pressure[0]["status"] == "False"


async def test_node_without_shortage_schedules_nothing_with_one_only_its_check() -> None:
    gi = 1 << 30
    rule = Rule(ContainerBehaviour(memory_bytes=2 * gi, memory_ramp_us=500 * SECOND))
    spec = NodeSpec("n1", capacity={"memory": "8Gi", "pods": "110"}, profile=RuntimeProfile(rules=(rule,)))
    async with one_node(spec) as (kernel, api, node):
        api.bind("web")
        await kernel.run_until(40 * SECOND)
        node.set_pressure("memory", 6 * gi, ramp_us=100 * SECOND)
        await kernel.run_until(60 * SECOND)
        steps = kernel.steps
        await kernel.run_until(300 * SECOND)
        assert kernel.steps - steps < 2 * 25 + 12  # 24 renewals, one status report
        await kernel.run_until(600 * SECOND)
        node.set_pressure("memory", 90 << 20, ramp_us=1000 * SECOND)
        steps = kernel.steps
        await kernel.run_until(1590 * SECOND)
        assert kernel.steps - steps < 2 * 100 + 40
        assert not api.events("EvictionThresholdMet")
        await kernel.run_until(1610 * SECOND)
        # 100 MiB were left at 1598.3 s
        assert api.events("EvictionThresholdMet")[0][0] == 1600 * SECOND
        assert api.pod("web")["status"]["reason"] == "Evicted"


async def test_agent_that_starts_under_pressure_finds_it_at_first_check() -> None:
    async with one_node() as (kernel, api, node):
        node.crash_agent()
        node.set_pressure("pid", 100)
        node.start_agent()
        await kernel.run_until(60 * SECOND)
        conditions = api.objects["nodes", "", "n1"]["status"]["conditions"]
        # no threshold
        assert {c["type"]: c["status"] for c in conditions}["PIDPressure"] == "False"
        node.set_pressure("memory", 0)
        node.crash_agent()
        node.start_agent()
        await kernel.run_until(85 * SECOND)
        conditions = api.objects["nodes", "", "n1"]["status"]["conditions"]
        assert {c["type"]: c["status"] for c in conditions}["MemoryPressure"] == "True"


async def test_agent_shares_statuses_of_api_even_with_null_fields() -> None:
    async with one_node() as (kernel, api, node):
        made = api.bind("web")
        scheduled = {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": api.now(),
        }
        api.put("pods", {**made, "status": {"phase": "Pending", "conditions": [scheduled]}})
        await kernel.run_until(30 * SECOND)
        agent = node.machine.agent
        uid = made["metadata"]["uid"]
        held = api.pod("web")["status"]
        assert agent.workers[uid].status is held and agent.statuses.status(uid) is held
        assert type(agent.statuses._entries[uid]) is Item
        assert len(api.writes("patch", "pods")) == 2


async def test_failed_status_write_waits_for_next_batch_of_ten_seconds() -> None:
    async with one_node() as (kernel, api, node):
        await kernel.run_until(27 * SECOND)
        node.crash_agent()
        node.start_agent()
        api.failing = (("patch", "pods"),)
        await kernel.run_until(40 * SECOND)
        api.bind("web")
        await kernel.run_until(56 * SECOND)
        tries = [at / SECOND for at in api.writes("patch", "pods") if at > 45 * SECOND]
        assert tries == [pytest.approx(47, abs=0.01)]
        api.failing = ()
        await kernel.run_until(57_100_000)
        assert api.ready("web")


@pytest.mark.parametrize(
    ("limit", "held"), [(-1, [700, 600]), (0, [700, 600]), (900, [700, 200]), (300, [300, 1])]
)
async def test_containers_of_a_pod_share_its_limit_of_processes(limit: int, held: list[int]) -> None:
    rules = tuple(
        Rule(ContainerBehaviour(processes=n), container=name) for name, n in (("c", 700), ("d", 600))
    )
    spec = NodeSpec("n1", profile=RuntimeProfile(rules=rules))
    async with one_node(spec, parse_node_agent({"pod-max-pids": limit})) as (kernel, api, node):
        api.bind("web", {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]})
        await kernel.run_until(22 * SECOND)
        (runtime,) = node.machine.pods.values()
        assert [container.behaviour.processes for container in runtime.containers] == held
