"""The order of the checks by which a pod can be refused."""

from dataclasses import replace
from typing import Any

import pytest

from actors.node.runtime.profile import ContainerBehaviour, NodeSpec, Rule, RuntimeProfile
from sim.api.types import Obj
from sim.options.node.agent import parse_node_agent
from sim.units import SECOND
from tests.actor.node.fake import one_node
from tests.actor.node.test_agent import behaving
from tests.actor.node.test_pod_ends import sysctl

JOBS = RuntimeProfile(rules=(Rule(ContainerBehaviour(exit_after_us=SECOND), pod_prefix="job"),))
PORT = {"ports": [{"containerPort": 80, "hostPort": 80}]}


def asking(cpu: str = "1", memory: str = "1Gi", **more: Any) -> Obj:
    return {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": memory}}, **more}


async def test_admission_reports_first_of_several_reasons() -> None:
    wrong: Obj = {"nodeSelector": {"disk": "none"}}
    windows: Obj = {"os": {"name": "windows"}}
    options = parse_node_agent({"max-pods": 3, "shutdown-grace-period": "30s"})
    spec = NodeSpec("n1", capacity={"cpu": "8", "memory": "8Gi", "ephemeral-storage": "10Gi"})
    async with one_node(spec, options) as (kernel, api, node):
        api.bind("port", {"containers": [asking(**PORT)]})
        await kernel.run_until(22 * SECOND)
        held = api.objects["nodes", "", "n1"]
        taints = [{"key": "k", "value": "v", "effect": "NoExecute"}]
        cases: list[tuple[str, Obj]] = [
            ("SysctlForbidden", {**sysctl("kernel.msgmax"), "containers": [asking("9")], **wrong}),
            ("OutOfcpu", {"containers": [asking("9", "9Gi")], **wrong}),
            ("OutOfmemory", {"containers": [asking("1", "9Gi")], **wrong, **windows}),
            ("NodeAffinity", {"containers": [asking(**PORT)], **wrong, **windows}),
            ("NodePorts", {"containers": [asking(**PORT)], **windows}),
            ("PodOSNotSupported", {"containers": [asking()], **windows}),
        ]
        for number, (_, pod) in enumerate(cases):
            api.bind(f"p{number}", pod)
        await kernel.run_until(24 * SECOND)
        assert [api.pod(f"p{number}")["status"]["reason"] for number in range(len(cases))] == [
            reason for reason, _ in cases
        ]
        # A taint is checked after ports and before the system; a full node before all else.
        api.put("nodes", {**held, "spec": {**held["spec"], "taints": taints}})
        api.bind("tainted", {"containers": [asking()], **windows})
        api.bind("tainted-port", {"containers": [asking(**PORT)]})
        await kernel.run_until(26 * SECOND)
        assert api.pod("tainted")["status"]["reason"] == "TaintToleration"
        assert api.pod("tainted-port")["status"]["reason"] == "NodePorts"
        tolerant = {"tolerations": [{"operator": "Exists"}]}
        for name in ("second", "third"):
            api.bind(name, {"containers": [asking()], **tolerant})
        await kernel.run_until(28 * SECOND)
        api.bind("full", {"containers": [asking("9")], **wrong})
        await kernel.run_until(30 * SECOND)
        assert api.pod("full")["status"]["reason"] == "OutOfpods"
        # A shutdown is checked last, pressure first.
        api.delete("third", 1)
        await kernel.run_until(33 * SECOND)
        node.shutdown()
        api.bind("going", {"containers": [asking()], **tolerant})
        api.bind("going-large", {"containers": [asking("9")], **tolerant})
        await kernel.run_until(33_500_000)
        assert api.pod("going")["status"]["reason"] == "NodeShutdown"
        assert api.pod("going-large")["status"]["reason"] == "OutOfcpu"
        node.cancel_shutdown()
        node.set_pressure("nodefs", 0)
        await kernel.run_until(65 * SECOND)
        api.bind("pressed", {**sysctl("kernel.msgmax"), "containers": [asking("9")], **wrong})
        await kernel.run_until(67 * SECOND)
        status = api.pod("pressed")["status"]
        assert (status["reason"], status["message"]) == (
            "Evicted", "Pod The node had condition: [DiskPressure]. ",
        )  # fmt: skip


async def test_second_deletion_with_shorter_grace_does_not_shorten_a_kill() -> None:
    async with one_node(behaving(stop_us=None)) as (kernel, api, _):
        api.bind("web")
        await kernel.run_until(30 * SECOND)
        api.delete("web", 30)
        await kernel.run_until(35 * SECOND)
        api.delete("web", 5)
        await kernel.run_until(60 * SECOND)
        assert api.has("web")
        await kernel.run_until(63 * SECOND)
        assert not api.has("web") and len(api.events("Killing")) == 1


async def test_running_pods_are_admitted_in_order_of_creation() -> None:
    """An agent that starts with less to allocate refuses the youngest, and deletes it when it knows
    that nothing of it runs.
    """
    async with one_node(NodeSpec("n1", capacity={"cpu": "8", "memory": "8Gi"})) as (kernel, api, node):
        for at_s, name in ((21, "z"), (23, "b"), (25, "a")):
            await kernel.run_until(at_s * SECOND)
            api.bind(name, {"containers": [asking("2")]})
        await kernel.run_until(30 * SECOND)
        node.crash_agent()
        node.machine.spec = replace(node.machine.spec, capacity={"cpu": "5", "memory": "8Gi"})
        node.start_agent()
        await kernel.run_until(31_500_000)
        assert "containerStatuses" not in api.pod("a")["status"]
        assert api.pod("a")["status"]["phase"] == "Running"
        await kernel.run_until(40_100_000)  # the batch after the first housekeeping
        phases = {name: api.pod(name)["status"]["phase"] for name in "zba"}
        assert phases == {"z": "Running", "b": "Running", "a": "Failed"}


@pytest.mark.parametrize("how", ["ended", "going"])
async def test_new_agent_admits_pods_that_have_ended_or_are_to_end(how: str) -> None:
    """The node's label has changed: a pod that had succeeded fails, and one that was being deleted
    is refused and does not end normally.
    """
    spec = NodeSpec("n1", labels={"disk": "ssd"}, profile=JOBS)
    async with one_node(spec) as (kernel, api, node):
        selecting = {"containers": [{"name": "c", "image": "i"}], "nodeSelector": {"disk": "ssd"}}
        api.bind("job", {**selecting, "restartPolicy": "Never"})
        api.bind("web", selecting)
        await kernel.run_until(30 * SECOND)
        assert api.pod("job")["status"]["phase"] == "Succeeded"
        node.crash_agent()
        held = api.objects["nodes", "", "n1"]
        labels = {key: value for key, value in held["metadata"]["labels"].items() if key != "disk"}
        api.put("nodes", {**held, "metadata": {**held["metadata"], "labels": labels}})
        if how == "going":
            api.delete("web", 30)
        node.start_agent()
        await kernel.run_until(31_800_000)
        refused = [message for _, message in api.events("NodeAffinity")]
        assert refused == ["Predicate NodeAffinity failed"] * 2
        await kernel.run_until(45 * SECOND)
        status = api.pod("job")["status"]
        assert (status["phase"], status["reason"]) == ("Failed", "NodeAffinity")
        assert api.has("web") is (how == "ended")


@pytest.mark.parametrize("last", ["PodOSNotSupported", "PodOSSelectorNodeLabelDoesNotMatch", "NodeShutdown"])
async def test_critical_pod_preempts_before_it_is_refused_by_later_checks(last: str) -> None:
    """The later checks: the operating system, or a shutdown of the node."""
    spec: Obj = {"priority": 2_000_000_000, "containers": [asking("3")]}
    meta: Obj = {}
    if last == "PodOSNotSupported":
        spec["os"] = {"name": "windows"}
    elif last == "PodOSSelectorNodeLabelDoesNotMatch":
        meta["labels"] = {"kubernetes.io/os": "windows"}
    options = parse_node_agent({"shutdown-grace-period": "30s", "shutdown-grace-period-critical-pods": "10s"})
    node_spec = replace(behaving(stop_us=None), capacity={"cpu": "4", "memory": "8Gi"})
    async with one_node(node_spec, options) as (kernel, api, node):
        api.bind("lesser", {"containers": [asking("2")], "terminationGracePeriodSeconds": 5})
        await kernel.run_until(30 * SECOND)
        if last == "NodeShutdown":
            node.shutdown()
        api.bind("critical", spec, **meta)
        await kernel.run_until(34 * SECOND)
        assert [text for _, text in api.events("Preempting")] == ["Preempted in order to admit critical pod"]
        assert api.pod("critical")["status"]["phase"] == "Pending"
        await kernel.run_until(37 * SECOND)
        assert api.pod("critical")["status"]["reason"] == last
        wanted = "Terminated" if last == "NodeShutdown" else "Preempting"
        assert api.pod("lesser")["status"]["reason"] == wanted
