"""How pods start and end on one node if work takes long: pulls, hooks, init containers."""

from typing import Any

import pytest

from actors.node.runtime.profile import ContainerBehaviour, NodeSpec, Rule, RuntimeProfile
from sim.api.types import Obj
from sim.options.node.agent import parse_node_agent
from sim.units import SECOND
from tests.actor.node.fake import FakeApi, one_node
from tests.actor.node.test_agent import behaving


def states(api: FakeApi, name: str) -> Obj:
    """Container -> the word of its state, with the reason."""
    status = api.pod(name)["status"]
    held = [*(status.get("initContainerStatuses") or ()), *status["containerStatuses"]]
    return {
        s["name"]: next((word, state.get("reason", "")) for word, state in s["state"].items()) for s in held
    }


def sysctl(name: str) -> dict[str, Any]:
    return {"securityContext": {"sysctls": [{"name": name, "value": "1"}]}}


async def test_pod_with_finally_failed_init_container_leaves_others_waiting() -> None:
    fails = Rule(ContainerBehaviour(exit_after_us=SECOND, exit_code=2), container="i1")
    init = [{"name": name, "image": "i"} for name in ("i1", "i2")]
    async with one_node(NodeSpec("n1", profile=RuntimeProfile(rules=(fails,)))) as (kernel, api, _):
        api.bind("web", {"restartPolicy": "Never", "initContainers": init})
        await kernel.run_until(40 * SECOND)
        status = api.pod("web")["status"]
        assert status["phase"] == "Failed"
        waiting = ("waiting", "PodInitializing")
        assert states(api, "web") == {"i1": ("terminated", "Error"), "i2": waiting, "c": waiting}
        (initialized,) = [c for c in status["conditions"] if c["type"] == "Initialized"]
        assert initialized["status"] == "False"
        assert initialized["message"] == "containers with incomplete status: [i1 i2]"


async def test_pod_deleted_during_image_pull_ends_after_the_pull() -> None:
    cold = NodeSpec("n1", profile=RuntimeProfile(warm=False, pull_us=60 * SECOND))
    async with one_node(cold) as (kernel, api, _):
        api.bind("web")
        await kernel.run_until(25 * SECOND)
        api.delete("web", 5)
        await kernel.run_until(79 * SECOND)
        assert states(api, "web") == {"c": ("waiting", "ContainerCreating")}
        await kernel.run_until(84 * SECOND)
        assert not api.has("web") and len(api.events("Killing")) == 1


async def test_failed_pull_shows_at_next_relist() -> None:
    broken = RuntimeProfile(warm=False, pull_us=SECOND, broken_images={"img:1": "manifest unknown"})
    async with one_node(NodeSpec("n1", profile=broken)) as (kernel, api, _):
        api.bind("web")
        await kernel.run_until(23 * SECOND)
        assert states(api, "web") == {"c": ("waiting", "ErrImagePull")}
        assert len(api.events("Pulling")) == 1 and len(api.events("BackOff")) == 1


async def test_invalid_image_name_is_reported_and_not_pulled() -> None:
    async with one_node() as (kernel, api, _):
        api.bind("web", {"containers": [{"name": "c", "image": "Web:1"}]})
        await kernel.run_until(25 * SECOND)
        assert states(api, "web") == {"c": ("waiting", "InvalidImageName")}
        assert not api.events("Pulling") and len(api.events("InspectFailed")) == 2
        assert api.events("Failed")[0][1] == "Error: InvalidImageName"


async def test_deleted_pod_in_crash_loop_shows_its_last_end() -> None:
    async with one_node(behaving(exit_after_us=SECOND, exit_code=1)) as (kernel, api, _):
        api.bind("web")
        await kernel.run_until(60 * SECOND)
        assert states(api, "web") == {"c": ("waiting", "CrashLoopBackOff")}
        api.delete("web", 30)
        seen = api.pod("web")
        for _ in range(50):
            await kernel.run_until(kernel.now_us + SECOND // 10)
            if not api.has("web"):
                break
            seen = api.pod("web")
        assert list(seen["status"]["containerStatuses"][0]["state"]) == ["terminated"]


async def test_grace_of_failed_probe_also_limits_pre_stop_hook() -> None:
    probe = {"httpGet": {"port": 80}, "periodSeconds": 5, "failureThreshold": 1, "initialDelaySeconds": 10}
    hook = {"preStop": {"exec": {"command": ["sleep", "20"]}}}
    container = {"name": "c", "image": "i", "lifecycle": hook,
                 "livenessProbe": {**probe, "terminationGracePeriodSeconds": 5}}  # fmt: skip
    async with one_node(behaving(unhealthy_after_us=0, stop_us=None)) as (kernel, api, _):
        api.bind("web", {"containers": [container]})
        await kernel.run_until(60 * SECOND)
        killed_us, again_us = api.events("Killing")[0][0], api.events("Started")[1][0]
        # 5 s of the hook, at least 2 s after SIGTERM
        assert 7 <= (again_us - killed_us) / SECOND <= 7.2


async def test_container_is_shown_as_running_after_its_post_start_hook() -> None:
    hook = {"postStart": {"exec": {"command": ["sleep", "10"]}}}
    probe = {"httpGet": {"port": 80}, "periodSeconds": 1}
    container = {"name": "c", "image": "i", "lifecycle": hook, "readinessProbe": probe}
    async with one_node() as (kernel, api, _):
        api.bind("web", {"containers": [container]})
        await kernel.run_until(30 * SECOND)
        assert states(api, "web") == {"c": ("waiting", "ContainerCreating")} and not api.ready("web")
        await kernel.run_until(32 * SECOND)
        assert api.ready("web")


async def test_running_pod_refused_by_restarted_agent_is_stopped_by_housekeeping() -> None:
    async with one_node(NodeSpec("n1", labels={"disk": "ssd"})) as (kernel, api, node):
        api.bind("web", {"nodeSelector": {"disk": "ssd"}})
        await kernel.run_until(30 * SECOND)
        node.crash_agent()
        held = api.objects["nodes", "", "n1"]
        api.put("nodes", {**held, "metadata": {**held["metadata"], "labels": {}}})
        await kernel.run_until(40 * SECOND)
        (runtime,) = node.machine.pods.values()
        assert runtime.running(kernel.now_us)
        node.start_agent()
        await kernel.run_until(45 * SECOND)
        assert not runtime.running(kernel.now_us)
        await kernel.run_until(51 * SECOND)
        status = api.pod("web")["status"]
        assert (status["phase"], status["reason"]) == ("Failed", "NodeAffinity")


async def test_cordon_event_comes_with_next_pass_and_again_from_restarted_agent() -> None:
    async with one_node() as (kernel, api, node):
        await kernel.run_until(32 * SECOND)
        held = api.objects["nodes", "", "n1"]
        api.put("nodes", {**held, "spec": {"unschedulable": True}})
        await kernel.run_until(33 * SECOND)
        assert not api.events("NodeNotSchedulable")
        await kernel.run_until(43 * SECOND)
        assert len(api.events("NodeNotSchedulable")) == 1
        node.crash_agent()
        node.start_agent()
        await kernel.run_until(45 * SECOND)
        assert len(api.events("NodeNotSchedulable")) == 2


async def test_new_agent_delays_first_probes_independent_of_syncs() -> None:
    """A pod is bound right when the agent starts: its probe waits a random part of its period, here
    of an hour.
    """
    probe = {"httpGet": {"port": 80}, "periodSeconds": 3600}
    async with one_node() as (kernel, api, node):
        node.crash_agent()
        api.bind("web", {"containers": [{"name": "c", "image": "i", "readinessProbe": probe}]})
        node.start_agent()
        await kernel.run_until(60 * SECOND)
        assert states(api, "web") == {"c": ("running", "")} and not api.ready("web")
        await kernel.run_until(3700 * SECOND)
        assert api.ready("web")


async def test_max_pods_option_is_the_capacity_of_pods() -> None:
    async with one_node(options=parse_node_agent({"max-pods": 1})) as (kernel, api, _):
        assert api.objects["nodes", "", "n1"]["status"]["capacity"]["pods"] == "1"
        api.bind("first")
        await kernel.run_until(21 * SECOND)
        api.bind("second")
        await kernel.run_until(25 * SECOND)
        assert api.pod("second")["status"]["reason"] == "OutOfpods"


@pytest.mark.parametrize(("spec", "meta", "reason", "message"), [
    ({"os": {"name": "windows"}}, {}, "PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"),
    ({}, {"labels": {"kubernetes.io/os": "windows"}}, "PodOSSelectorNodeLabelDoesNotMatch",
     "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"),
    (sysctl("kernel.msgmax"), {}, "SysctlForbidden", 'forbidden sysctl: "kernel.msgmax" not allowlisted'),
    ({**sysctl("net.ipv4.tcp_syncookies"), "hostNetwork": True}, {}, "SysctlForbidden",
     'forbidden sysctl: "net.ipv4.tcp_syncookies" not allowed with host net enabled'),
    (sysctl("net.core.somaxconn"), {}, "", ""),
    (sysctl("net.ipv4.tcp_syncookies"), {"labels": {"kubernetes.io/os": "linux"}}, "", ""),
    ({"os": {"name": "linux"}}, {}, "", ""),
])  # fmt: skip
async def test_node_admits_pods_of_its_os_with_safe_or_allowed_sysctls(
    spec: dict[str, Any], meta: dict[str, Any], reason: str, message: str
) -> None:
    options = parse_node_agent({"allowed-unsafe-sysctls": "net.core.*,kernel.shm_next_id"})
    async with one_node(options=options) as (kernel, api, _):
        api.bind("web", spec, **meta)
        await kernel.run_until(25 * SECOND)
        status = api.pod("web")["status"]
        assert status["phase"] == ("Failed" if reason else "Running")
        if reason:
            assert (status["reason"], status["message"]) == (reason, "Pod " + message)


async def test_new_sandbox_runs_every_init_container_again() -> None:
    """Nothing of those in the old sandbox is kept: only the first one, which starts at once,
    continues its count.
    """
    init = [{"name": name, "image": "i"} for name in ("i1", "i2", "i3")]
    async with one_node() as (kernel, api, node):
        api.bind("web", {"initContainers": init})
        await kernel.run_until(30 * SECOND)
        node.power_loss()
        await kernel.run_until(60 * SECOND)
        began = len(api.events("Started"))
        node.power_on()
        await kernel.run_until(60_800_000)
        assert states(api, "web")["i2"] == ("terminated", "Completed")  # the end in the old sandbox
        await kernel.run_until(70 * SECOND)
        again = [text.rpartition(" ")[2] for _, text in api.events("Started")[began:]]
        assert again == ["i1", "i2", "i3", "c"]
        status = api.pod("web")["status"]
        held = [*status["initContainerStatuses"], *status["containerStatuses"]]
        assert [(s["restartCount"], list(s["lastState"])) for s in held] == [
            (1, []), (0, []), (0, []), (1, ["terminated"]),
        ]  # fmt: skip


async def test_pods_over_local_storage_limits_are_evicted_one_after_another() -> None:
    """`a` needs 2 s to end, `b` its whole grace period, and `c` is not waited for: the next check
    runs when `b` is gone.
    """
    gi = 1 << 30
    rules = tuple(
        Rule(ContainerBehaviour(log_bytes=2 * gi, stop_us=stop_us), pod_prefix=name)
        for name, stop_us in (("a", 2 * SECOND), ("b", None), ("c", None))
    )
    limit = {"resources": {"limits": {"ephemeral-storage": "1Gi"}}}
    async with one_node(NodeSpec("n1", profile=RuntimeProfile(rules=rules))) as (kernel, api, _):
        for name in "abc":
            api.bind(name, {"containers": [{"name": "c", "image": "i", **limit}]})
        await kernel.run_until(35 * SECOND)
        recorded = [
            (name, at / SECOND)
            for at, verb, name, body in api.log
            if verb == "event" and body[0] == "Evicted"
        ]
        assert recorded == [("a", 30), ("b", 32)]
        await kernel.run_until(100 * SECOND)
        recorded = [
            (name, at / SECOND)
            for at, verb, name, body in api.log
            if verb == "event" and body[0] == "Evicted"
        ]
        assert recorded == [("a", 30), ("b", 32), ("c", 42)]
        assert [at / SECOND for at, _ in api.events("ExceededGracePeriod")] == [42, 52]
        assert all(api.pod(name)["status"]["reason"] == "Evicted" for name in "abc")


async def test_end_of_kill_is_shown_by_next_relist() -> None:
    async with one_node(behaving(stop_us=1_300_000)) as (kernel, api, node):
        api.bind("web")
        await kernel.run_until(30 * SECOND)
        (container,) = next(iter(node.machine.pods.values())).containers
        api.delete("web", 30)
        await kernel.run_until(31 * SECOND)
        assert container.exit_us is not None
        shown_us = -(-container.exit_us // SECOND) * SECOND
        await kernel.run_until(shown_us - 1_000)
        assert states(api, "web") == {"c": ("running", "")}
        await kernel.run_until(shown_us + 5_000)
        assert states(api, "web") == {"c": ("terminated", "Completed")}


async def test_pod_end_is_final_two_relists_after_the_one_that_shows_it() -> None:
    """One relist for the sync that finds it, one for the work that ends the pod, one for its last
    status, which shows that all is cleaned up.
    """
    async with one_node(behaving(exit_after_us=3_300_000)) as (kernel, api, node):
        api.bind("job", {"restartPolicy": "Never"})
        await kernel.run_until(22 * SECOND)
        (container,) = next(iter(node.machine.pods.values())).containers
        assert container.exit_us is not None
        shown_us = -(-container.exit_us // SECOND) * SECOND
        await kernel.run_until(shown_us + 100_000)
        assert states(api, "job") == {"c": ("terminated", "Completed")}
        await kernel.run_until(shown_us + 2_000_000)
        assert api.pod("job")["status"]["phase"] == "Running"
        await kernel.run_until(shown_us + 2_400_000)
        assert api.pod("job")["status"]["phase"] == "Succeeded"


def told_of(api: FakeApi, hook: str, command: str) -> str:
    about = f'Container "c" in Pod "web_default({api.pod("web")["metadata"]["uid"]})"'
    return (
        f"Exec lifecycle hook ([{command}]) for {about} failed - error: command '{command}' exited with 1: , "
        'message: ""'
    )


async def test_container_with_failed_post_start_hook_is_killed_and_restarted() -> None:
    """At once the first time, after 10 s the second time, with any exit code."""
    hook = {"postStart": {"exec": {"command": ["false"]}}}
    async with one_node(behaving(stop_us=2 * SECOND)) as (kernel, api, _):
        api.bind("web", {"containers": [{"name": "c", "image": "i", "lifecycle": hook}]})
        await kernel.run_until(22 * SECOND)
        text = told_of(api, "postStart", "false")
        ((started_us, _),) = api.events("Started")
        assert api.events("FailedPostStartHook") == [(started_us, text)]
        assert api.events("Killing") == [(started_us, "FailedPostStartHook")]
        await kernel.run_until(24 * SECOND)
        shown = api.pod("web")["status"]["containerStatuses"][0]
        assert shown["state"]["waiting"] == {"reason": "PostStartHookError", "message": text}
        assert shown["lastState"]["terminated"]["exitCode"] == 0
        await kernel.run_until(45 * SECOND)
        _, second_us, third_us = (at for at, _ in api.events("Started"))
        assert second_us - started_us <= 4 * SECOND and 12 <= (third_us - second_us) / SECOND <= 19


async def test_failed_pre_stop_hook_is_reported_and_changes_nothing() -> None:
    hook = {"preStop": {"exec": {"command": ["false"]}}}
    async with one_node() as (kernel, api, _):
        api.bind("web", {"containers": [{"name": "c", "image": "i", "lifecycle": hook}]})
        await kernel.run_until(30 * SECOND)
        text = told_of(api, "preStop", "false")
        api.delete("web", 30)
        await kernel.run_until(34 * SECOND)
        assert [recorded for _, recorded in api.events("FailedPreStopHook")] == [text] and not api.has("web")


@pytest.mark.parametrize(
    ("container", "spec", "ended", "code"),
    [
        ({"command": ["sleep", "600"]}, {}, "after its grace period", 137),
        ({"command": ["sleep", "600"]}, {"shareProcessNamespace": True}, "at once", 143),
        ({"image": "r/web:1"}, {}, "at once", 0),
    ],
)
async def test_deleted_pod_ends_as_its_program_handles_sigterm(
    container: Obj, spec: Obj, ended: str, code: int
) -> None:
    async with one_node() as (kernel, api, node):
        api.bind("web", {"containers": [{"name": "c", "image": "i", **container}], **spec})
        await kernel.run_until(30 * SECOND)
        (held,) = [one for pod in node.machine.pods.values() for one in pod.containers]
        api.delete("web", 10)
        await kernel.run_until(30 * SECOND + SECOND // 2)
        assert held.exit_code == code and held.exit_us is not None
        after_us = held.exit_us - 30 * SECOND
        assert after_us > 9 * SECOND if ended == "after its grace period" else after_us < SECOND


async def test_image_that_cannot_exist_is_not_pulled_on_a_warm_node() -> None:
    async with one_node() as (kernel, api, _):
        api.bind("web", {"containers": [{"name": "c", "image": "nginx:404"}]})
        await kernel.run_until(28 * SECOND)
        assert states(api, "web") == {"c": ("waiting", "ErrImagePull")}
        assert api.events("Failed")[0][1].endswith("docker.io/library/nginx:404: not found")
