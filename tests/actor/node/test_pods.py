"""More of a pod's life on one node: startup probes, hooks, deadlines, logs, pauses."""

import re

import pytest

from actors.node.runtime.profile import ContainerBehaviour, NodeSpec, Override, Rule, RuntimeProfile
from actors.node.server.logs import read_log
from sim.api.streams import LogOptions
from sim.options.node.agent import parse_node_agent
from sim.units import SECOND
from tests.actor.node.fake import one_node
from tests.actor.node.test_agent import behaving


async def test_other_probes_wait_for_startup_probe() -> None:
    probe = {"httpGet": {"port": 80}, "periodSeconds": 5, "failureThreshold": 30}
    spec = {"containers": [{"name": "c", "image": "i", "startupProbe": probe,
                            "livenessProbe": {**probe, "failureThreshold": 1}, "readinessProbe": probe}]}  # fmt: skip
    async with one_node(behaving(healthy_after_us=42 * SECOND)) as (kernel, api, _):
        api.bind("slow", spec)
        await kernel.run_until(60 * SECOND)
        status = api.pod("slow")["status"]["containerStatuses"][0]
        assert status["started"] is False and status["restartCount"] == 0
        await kernel.run_until(75 * SECOND)
        assert api.ready("slow") and not api.events("Killing")
        assert all("Startup probe" in text for _, text in api.events("Unhealthy"))


async def test_failed_startup_probe_restarts_its_container() -> None:
    probe = {"httpGet": {"port": 80}, "periodSeconds": 5, "failureThreshold": 3}
    spec = {"containers": [{"name": "c", "image": "i", "startupProbe": probe}]}
    async with one_node(behaving(unhealthy_after_us=0)) as (kernel, api, _):
        api.bind("never", spec)
        await kernel.run_until(60 * SECOND)
        assert api.events("Killing")[0][1] == "Container c failed startup probe, will be restarted"
        assert api.pod("never")["status"]["containerStatuses"][0]["restartCount"] >= 1


async def test_deleted_pod_has_full_grace_after_its_pre_stop_hook() -> None:
    hook = {"preStop": {"exec": {"command": ["sleep", "10"]}}}
    spec = {"containers": [{"name": "c", "image": "i", "lifecycle": hook}]}
    async with one_node(behaving(stop_us=None)) as (kernel, api, _):
        api.bind("web", spec)
        await kernel.run_until(40 * SECOND)
        api.delete("web", 20)
        await kernel.run_until(69 * SECOND)
        assert api.has("web")
        await kernel.run_until(74 * SECOND)
        assert not api.has("web")


async def test_pod_past_deadline_fails_once_its_containers_have_stopped() -> None:
    async with one_node() as (kernel, api, _):
        api.bind("late", {"activeDeadlineSeconds": 10, "restartPolicy": "Never"})
        await kernel.run_until(29 * SECOND)
        assert api.pod("late")["status"]["phase"] == "Running"
        await kernel.run_until(36 * SECOND)
        status = api.pod("late")["status"]
        assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")
        assert status["message"] == "Pod was active on the node longer than the specified deadline"


async def test_paused_agent_does_nothing_while_containers_run() -> None:
    async with one_node() as (kernel, api, node):
        api.bind("web")
        await kernel.run_until(30 * SECOND)
        node.hang()
        api.bind("late")
        writes = len(api.log)
        await kernel.run_until(120 * SECOND)
        assert len(api.log) == writes
        node.resume()
        await kernel.run_until(125 * SECOND)
        assert api.ready("late") and api.pod("web")["status"]["containerStatuses"][0]["restartCount"] == 0


async def test_logs_are_served_for_existing_containers_and_refused_for_others() -> None:
    rules = (Rule(ContainerBehaviour(log="hello", exit_after_us=5 * SECOND), pod_prefix="web"),)
    async with one_node(NodeSpec("n1", profile=RuntimeProfile(rules=rules))) as (kernel, api, node):
        api.bind("web")
        await kernel.run_until(30 * SECOND)
        agent = node.machine.agent
        code, text = read_log(agent, "default", "web", "c", LogOptions(previous=True))
        assert (code, text) == (200, "hello\n")
        assert read_log(agent, "default", "web", "x") == (404, 'container "x" not found in pod "web"')
        assert read_log(agent, "default", "no", "c") == (404, 'pod "no" does not exist')


async def test_images_of_cold_node_are_pulled_one_at_a_time_and_then_listed() -> None:
    profile = RuntimeProfile(warm=False, pull_us=5 * SECOND)
    async with one_node(NodeSpec("n1", profile=profile)) as (kernel, api, _):
        api.bind("a")
        api.bind("b", {"containers": [{"name": "c", "image": "img:2"}]})
        listed = []
        for at_s in (45, 75):  # the agent lists its images at 30 s and 60 s
            await kernel.run_until(at_s * SECOND)
            images = api.objects["nodes", "", "n1"]["status"]["images"]
            listed.append(sorted(i["names"][-1] for i in images))
        pulled = [(at // SECOND, text) for at, text in api.events("Pulled")]
        assert [at for at, _ in pulled] == [25, 30]
        assert pulled[1][1] == 'Successfully pulled image "img:2" in 5s (10s including waiting)'
        assert listed == [["img:1"], ["img:1", "img:2"]]


async def test_image_that_appears_while_its_pull_waits_is_only_checked() -> None:
    profile = RuntimeProfile(warm=False, pull_us=5 * SECOND, refresh_us=500_000)
    async with one_node(NodeSpec("n1", profile=profile)) as (kernel, api, _):
        for name in ("a", "b", "c"):
            api.bind(name)
        await kernel.run_until(40 * SECOND)
        pulled = [(at / SECOND, text) for at, text in api.events("Pulled")]
        assert [at for at, _ in pulled] == pytest.approx([25.3, 25.8, 26.3], abs=0.01)
        assert pulled[2][1] == 'Successfully pulled image "img:1" in 500ms (6s including waiting)'


@pytest.mark.parametrize("comes_back", [True, False])
async def test_result_of_pull_is_decided_when_it_starts(comes_back: bool) -> None:
    """It waits for another pull from 20.3 to 30.3 s; during that time the registry gains or loses
    the image.
    """
    gone = [Override({}, image="img:2", pull_error="gone")]
    async with one_node(NodeSpec("n1", profile=RuntimeProfile(warm=False, pull_us=10 * SECOND))) as (
        kernel,
        api,
        node,
    ):
        node.behave(gone if comes_back else [])
        api.bind("a")
        api.bind("b", {"containers": [{"name": "c", "image": "img:2"}]})
        await kernel.run_until(25 * SECOND)
        node.behave([] if comes_back else gone)
        await kernel.run_until(42 * SECOND)
        assert api.ready("a") and api.ready("b") is comes_back
        assert len(api.events("Pulling")) == 2


async def test_retry_due_during_long_pull_runs_after_it() -> None:
    """The first sync pulls both images and ends at 60.4 s: as `gone` has none, the next attempt is
    due 10 to 16 s later.  A relist leads to another pull before that, from 61 to 81 s; the relist
    after it shows the result.
    """
    profile = RuntimeProfile(warm=False, pull_us=20 * SECOND)
    containers = [{"name": "gone", "image": "img:1"}, {"name": "there", "image": "img:2"}]
    async with one_node(NodeSpec("n1", profile=profile)) as (kernel, api, node):
        node.behave([Override({}, image="img:1", pull_error="gone")])
        api.bind("web", {"containers": containers})
        await kernel.run_until(90 * SECOND)
        assert [at / SECOND for at, _ in api.events("Pulling")] == pytest.approx([20.3, 40.3, 61], abs=0.01)
        assert [at / SECOND for at, _ in api.events("BackOff")] == pytest.approx([82], abs=0.01)


@pytest.mark.parametrize("serial", ["true", "false"])
async def test_pulls_beyond_rate_limit_fail_and_retry_after_back_off(
    serial: str,
) -> None:
    profile = RuntimeProfile(warm=False, pull_us=10_000)
    options = parse_node_agent({"serialize-image-pulls": serial, "registry-qps": "1", "registry-burst": "3"})
    async with one_node(NodeSpec("n1", profile=profile), options) as (kernel, api, _):
        for number in range(5):
            api.bind(f"p{number}", {"containers": [{"name": "c", "image": f"img:{number}"}]})
        await kernel.run_until(30 * SECOND)
        assert sum(api.ready(f"p{number}") for number in range(5)) == 3
        failed = [text for _, text in api.events("Failed") if text.startswith("Failed to pull")]
        assert len(failed) == 2 and all(text.endswith(": pull QPS exceeded") for text in failed)
        await kernel.run_until(45 * SECOND)
        assert all(api.ready(f"p{number}") for number in range(5))


async def test_same_seed_gives_the_same_writes() -> None:
    logs = []
    for _ in range(2):
        async with one_node(behaving(exit_after_us=7 * SECOND), seed=5) as (kernel, api, _node):
            api.bind("a")
            api.bind("b", {"restartPolicy": "OnFailure"})
            await kernel.run_until(200 * SECOND)
            logs.append(api.log)
    assert logs[0] == logs[1]


async def test_pod_with_rare_readiness_probe_is_found_ready_by_next_sync() -> None:
    """Each sync probes a container that is not ready, and there is one every 60 to 90 s; ticks are
    at 321, 621, 921 s.
    """
    probe = {"httpGet": {"port": 80}, "periodSeconds": 300, "failureThreshold": 1}
    async with one_node(behaving(healthy_after_us=130 * SECOND)) as (kernel, api, node):
        await kernel.run_until(320 * SECOND)
        api.bind("web", {"containers": [{"name": "c", "image": "i", "readinessProbe": probe}]})
        for at_s, ready in ((450, False), (543, True), (619, True)):
            await kernel.run_until(at_s * SECOND)
            assert api.ready("web") is ready
        assert node.set_health("default", "web", "c", False)
        for at_s, ready in ((625, False), (700, False)):
            await kernel.run_until(at_s * SECOND)
            assert api.ready("web") is ready
        assert node.set_health("default", "web", "c", True)
        await kernel.run_until(793 * SECOND)
        assert api.ready("web")


async def test_pre_stop_hook_of_pod_past_deadline_counts_against_its_grace() -> None:
    """Its end was not requested: 10 s of the hook and the rest of 20 s; a deletion gives 10 s and
    20 s.
    """
    hook = {"preStop": {"exec": {"command": ["sleep", "10"]}}}
    container = {"name": "c", "image": "i", "lifecycle": hook}
    async with one_node(behaving(stop_us=None)) as (kernel, api, _):
        for name, deadline_s in (("late", 10), ("later", 100)):
            spec = {"activeDeadlineSeconds": deadline_s, "terminationGracePeriodSeconds": 20}
            api.bind(name, {**spec, "containers": [container]})
        await kernel.run_until(31_500_000)
        (killed_us,) = [at for at, _ in api.events("Killing")]
        await kernel.run_until(killed_us + 19_900_000)
        assert api.pod("late")["status"]["phase"] == "Running"
        await kernel.run_until(killed_us + 21_100_000)
        assert api.pod("late")["status"]["reason"] == "DeadlineExceeded"
        api.delete("later", 20)
        await kernel.run_until(kernel.now_us + 29_500_000)
        assert api.has("later")
        await kernel.run_until(kernel.now_us + 2_500_000)
        assert not api.has("later")


async def test_failed_network_is_found_by_sandboxes_first_and_by_next_check() -> None:
    """Checks run every 5 s; a sync that finds the error is retried after 1 to 1.5 s, one with a
    failed sandbox after 10 to 15 s.
    """
    problem = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:cni down"
    async with one_node() as (kernel, api, node):
        api.bind("early")
        await kernel.run_until(22 * SECOND)
        node.fail_pod_network("cni down")
        api.bind("web")
        api.bind("host", {"hostNetwork": True})
        await kernel.run_until(24_900_000)
        assert [text for _, text in api.events("FailedCreatePodSandBox")] == [
            "Failed to create pod sandbox: cni down"
        ]
        assert api.ready("host") and not api.events("NetworkNotReady")
        api.bind("late")
        await kernel.run_until(26 * SECOND)
        api.bind("later")
        await kernel.run_until(51 * SECOND)
        recorded = {
            name for _, verb, name, body in api.log if verb == "event" and body[0] == "NetworkNotReady"
        }
        assert recorded == {"web", "late", "later"} and api.ready("early")
        assert {text for _, text in api.events("NetworkNotReady")} == {f"network is not ready: {problem}"}
        (ready,) = [c for c in api.objects["nodes", "", "n1"]["status"]["conditions"] if c["type"] == "Ready"]
        assert (ready["status"], ready["message"]) == ("False", problem)
        node.heal_pod_network()  # seen at 55 s
        await kernel.run_until(54_900_000)
        assert not api.ready("late")
        await kernel.run_until(59 * SECOND)
        assert api.ready("late") and api.ready("later") and api.ready("web")


async def test_cut_short_hook_is_reported_when_its_container_has_ended() -> None:
    hook = {"preStop": {"exec": {"command": ["sh", "-c", "sleep 60"]}}}
    async with one_node(behaving(stop_us=3 * SECOND)) as (kernel, api, _):
        for name, grace_s in (("short", 10), ("long", 60), ("none", 0)):
            container = {"name": "c", "image": "i", "lifecycle": hook}
            api.bind(name, {"terminationGracePeriodSeconds": grace_s, "containers": [container]})
        await kernel.run_until(30 * SECOND)
        for name, grace_s in (("short", 10), ("long", 60), ("none", 0)):
            api.delete(name, grace_s)
        await kernel.run_until(36 * SECOND)
        assert not api.has("none") and api.has("short")  # without a grace period there is no hook
        await kernel.run_until(100 * SECOND)
        ((at_us, text),) = api.events("FailedPreStopHook")
        killed = {name: at for at, verb, name, body in api.log if verb == "event" and body[0] == "Killing"}
        assert at_us == killed["short"] + 13 * SECOND
        assert text.startswith(
            'Exec lifecycle hook ([sh -c sleep 60]) for Container "c" in Pod "short_default('
        )
        assert text.endswith("failed - error: command 'sh -c sleep 60' exited with 137: , message: \"\"")


async def test_ephemeral_container_starts_once_in_any_state_of_the_pod() -> None:
    rules = (
        Rule(ContainerBehaviour(exit_after_us=5 * SECOND), container="debug"),
        Rule(ContainerBehaviour(exit_after_us=60 * SECOND), container="slow"),
    )
    async with one_node(NodeSpec("n1", profile=RuntimeProfile(rules=rules))) as (kernel, api, _):
        made = api.bind("web", {"initContainers": [{"name": "slow", "image": "i"}]})
        await kernel.run_until(30 * SECOND)
        added = [{"name": "shell", "image": "i"}, {"name": "debug", "image": "i", "targetContainerName": "slow"},
                 {"name": "blind", "image": "i", "targetContainerName": "c"}]  # fmt: skip
        pod = api.pod("web")
        api.put("pods", {**pod, "spec": {**made["spec"], "ephemeralContainers": added}})
        await kernel.run_until(33 * SECOND)
        status = api.pod("web")["status"]
        assert status["phase"] == "Pending"
        assert [(s["name"], *s["state"]) for s in status["ephemeralContainerStatuses"]] == [
            ("blind", "waiting"), ("debug", "running"), ("shell", "running"),
        ]  # fmt: skip
        blind = status["ephemeralContainerStatuses"][0]["state"]["waiting"]
        assert (blind["reason"], blind["message"]) == (
            "CreateContainerConfigError", "unable to find target container c",
        )  # fmt: skip
        await kernel.run_until(120 * SECOND)
        status = api.pod("web")["status"]
        assert status["phase"] == "Running" and api.ready("web")
        assert [(s["name"], *s["state"], s["ready"]) for s in status["ephemeralContainerStatuses"]] == [
            ("blind", "running", False), ("debug", "terminated", False), ("shell", "running", False),
        ]  # fmt: skip
        assert [text for _, text in api.events("Started")].count("Started container debug") == 1
        api.delete("web", 30)
        await kernel.run_until(125 * SECOND)
        assert not api.has("web") and len(api.events("Killing")) == 3


def without_ids(texts: list[tuple[int, str]]) -> list[str]:
    """The messages of events without the ids of sandboxes."""
    return [re.sub("[0-9a-f]{64}", "ID", text) for _, text in texts]


async def test_used_up_range_fails_a_sandbox_until_another_pod_ends() -> None:
    options = parse_node_agent({"pod-cidr": "10.1.0.8/29"})
    async with one_node(options=options) as (kernel, api, _):
        for number in range(6):
            api.bind(f"p{number}")
        api.bind("host", {"hostNetwork": True})
        await kernel.run_until(25 * SECOND)
        waiting = [name for name in (f"p{number}" for number in range(6)) if not api.ready(name)]
        assert len(waiting) == 1 and api.ready("host")
        full = "failed to allocate for range 0: no IP addresses available in range set: 10.1.0.9-10.1.0.14"
        assert {*without_ids(api.events("FailedCreatePodSandBox"))} == {
            "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox "
            f'"ID": plugin type="bridge" failed (add): {full}'
        }
        api.delete("p0" if waiting != ["p0"] else "p1", 1)
        await kernel.run_until(60 * SECOND)
        assert api.ready(waiting[0])


async def test_node_that_waits_for_a_range_makes_no_sandbox_before_it_has_one() -> None:
    async with one_node(spec=NodeSpec("n1", pod_cidr=None)) as (kernel, api, _):
        await kernel.run_until(20 * SECOND)
        api.bind("web")
        await kernel.run_until(22 * SECOND)
        assert without_ids(api.events("FailedCreatePodSandBox")) == [
            "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox "
            '"ID": plugin type="calico" failed (add): no podCidr for node n1'
        ]
        node = api.objects["nodes", "", "n1"]
        api.put("nodes", {**node, "spec": {**node["spec"], "podCIDR": "10.2.3.0/24"}})
        await kernel.run_until(40 * SECOND)
        assert api.ready("web") and api.pod("web")["status"]["podIP"].startswith("10.2.3.")


async def test_fault_of_sandboxes_has_its_message_and_spares_pods_of_the_host() -> None:
    async with one_node() as (kernel, api, node):
        await kernel.run_until(20 * SECOND)
        node.fail_sandboxes([lambda pod: "" if pod["metadata"]["name"] == "other" else "no address"])
        for name in ("web", "other"):
            api.bind(name)
        api.bind("host", {"hostNetwork": True})
        await kernel.run_until(25 * SECOND)
        assert [api.ready(name) for name in ("web", "other", "host")] == [False, True, True]
        text = "Failed to create pod sandbox: rpc error: code = Unknown desc = no address"
        assert [found for _, found in api.events("FailedCreatePodSandBox")] == [text]
        node.fail_sandboxes([])
        await kernel.run_until(45 * SECOND)
        assert api.ready("web")


async def test_dns_warning_is_recorded_each_time_a_sandbox_is_made() -> None:
    options = parse_node_agent({"cluster-dns": ""})
    async with one_node(options=options) as (kernel, api, node):
        await kernel.run_until(20 * SECOND)
        node.fail_pod_network("no")
        own = {"nameservers": ["1.1.1.1", "1.1.1.2", "1.1.1.3"]}
        web = api.bind("web", {"containers": [{"name": "c", "image": "i"}], "dnsConfig": own})
        api.bind("plain", {"containers": [{"name": "c", "image": "i"}], "dnsPolicy": "Default"})
        # the sandbox was tried before a check of the runtime showed the error
        await kernel.run_until(21 * SECOND)
        node.heal_pod_network()
        await kernel.run_until(50 * SECOND)
        text = (
            'kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy. '
            'Falling back to "Default" policy.'
        )
        about = f'pod: "web_default({web["metadata"]["uid"]})". {text}'
        assert [recorded for _, recorded in api.events("MissingClusterDNS")] == [text, about] * 2
        line = "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: "
        assert [recorded for _, recorded in api.events("DNSConfigForming")] == [
            line + "127.0.0.53 1.1.1.1 1.1.1.2"
        ] * 2
        assert api.ready("web") and api.ready("plain")


@pytest.mark.parametrize(
    ("whole", "own", "runs"),
    [
        ({"runAsNonRoot": True}, {"runAsUser": 0}, False),
        ({"runAsNonRoot": True, "runAsUser": 0}, {}, False),
        ({"runAsUser": 0}, {"runAsNonRoot": True}, False),
        ({"runAsNonRoot": True, "runAsUser": 0}, {"runAsUser": 7}, True),
        ({"runAsNonRoot": True}, {"runAsNonRoot": False, "runAsUser": 0}, True),
        ({"runAsNonRoot": True}, {}, True),
        ({}, {"runAsUser": 0}, True),
    ],
)
async def test_root_container_does_not_start_in_pod_that_forbids_root(
    whole: dict[str, object], own: dict[str, object], runs: bool
) -> None:
    async with one_node() as (kernel, api, _):
        container = {"name": "c", "image": "i", "securityContext": own}
        web = api.bind("web", {"containers": [container], "securityContext": whole})
        await kernel.run_until(40 * SECOND)
        assert api.ready("web") is runs
        about = f'(pod: "web_default({web["metadata"]["uid"]})", container: c)'
        text = f"Error: container's runAsUser breaks non-root policy {about}"
        assert {recorded for _, recorded in api.events("Failed")} == (set() if runs else {text})
