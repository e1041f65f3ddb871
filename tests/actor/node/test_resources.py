"""Processors, memory and devices of containers, as pods, programs and the node's status show
them.
"""

from __future__ import annotations

from typing import Any

import pytest

from actors.node.node import Node
from actors.node.runtime.profile import ContainerBehaviour, NodeSpec, Rule, RuntimeProfile
from actors.node.server.logs import read_log
from sim.api.types import Obj
from sim.options.machines import DeviceSpec, TopologySpec
from sim.options.node.agent import NodeAgentOptions, parse_node_agent
from sim.units import SECOND
from tests.actor.node.fake import NAMES_USED, FakeApi, one_node

GPU = "example.com/gpu"
CAPACITY = {"cpu": "8", "memory": "16Gi", "ephemeral-storage": "100Gi"}
WIDE = NodeSpec("n1", capacity=CAPACITY, topology=TopologySpec(2, 2, 2))
LOOP = "while true; do nproc; cat /sys/fs/cgroup/cpuset.cpus.effective; sleep 1; done"


def options(**flags: Any) -> NodeAgentOptions:
    given = {name.replace("_", "-"): value for name, value in flags.items()}
    return parse_node_agent(given, names=NAMES_USED)


def static(**flags: Any) -> NodeAgentOptions:
    return options(cpu_manager_policy="static", kube_reserved="cpu=1", **flags)


def spec(*command: str, requests: bool = True, **limits: Any) -> Obj:
    """A pod with a container that runs a command, with limits, which are its requests too."""
    amounts = {name.replace("_", "-"): str(value) for name, value in limits.items()}
    container: Obj = {"name": "c", "image": "busybox", "resources": {"limits": amounts}}
    if requests:
        container["resources"]["requests"] = amounts
    if command:
        container["command"] = list(command)
    return {"containers": [container], "restartPolicy": "Never"}


def log(node: Node, name: str) -> list[str]:
    return read_log(node.machine.agent, "default", name, "c")[1].split("\n")[:-1]


def refused(api: FakeApi, name: str) -> tuple[str, str]:
    status = api.pod(name)["status"]
    return status.get("reason", ""), status.get("message", "")


@pytest.mark.parametrize(("quota", "milli"), [(True, 200), (False, 900)])
async def test_cfs_quota_caps_the_use_of_cpu(quota: bool, milli: int) -> None:
    rule = Rule(ContainerBehaviour(cpu_milli=900), pod_prefix="a")
    machine = NodeSpec("n1", profile=RuntimeProfile(rules=(rule,)))
    async with one_node(machine, options(cpu_cfs_quota=quota)) as (kernel, api, node):
        limits = {"resources": {"limits": {"cpu": "200m"}}}
        api.bind("a", {"containers": [{"name": "c", "image": "i", **limits}]})
        await kernel.run_until(40 * SECOND)
        (runtime,) = node.machine.pods.values()
        since_us = runtime.containers[0].started_us
        assert node.machine.cpu.of_pod(runtime, since_us + 10 * SECOND) == milli * 10 * SECOND


@pytest.mark.parametrize(("policy", "shown"), [("none", ["8", "0-7"]), ("static", ["2", "1,5"])])
async def test_policy_decides_which_cpus_a_program_sees(policy: str, shown: list[str]) -> None:
    used = options(cpu_manager_policy=policy, kube_reserved="cpu=1")
    async with one_node(WIDE, used) as (kernel, api, node):
        script = "nproc; cat /sys/fs/cgroup/cpuset.cpus.effective"
        api.bind("a", spec("sh", "-c", script, cpu=2, memory="1Gi"))
        await kernel.run_until(30 * SECOND)
        assert log(node, "a") == shown


@pytest.mark.parametrize("period", ["5s", "30s"])
async def test_shared_cpus_shrink_at_the_next_reconciliation(period: str) -> None:
    used = static(cpu_manager_reconcile_period=period)
    async with one_node(WIDE, used) as (kernel, api, node):
        api.bind("shared", spec("sh", "-c", LOOP))
        await kernel.run_until(40 * SECOND)
        assert log(node, "shared")[-2:] == ["8", "0-7"]
        api.bind("own", spec("sleep", "1000", cpu=2, memory="1Gi"))
        await kernel.run_until(52 * SECOND)
        assert log(node, "shared")[-2:] == (["6", "0,2-4,6-7"] if period == "5s" else ["8", "0-7"])
        await kernel.run_until(80 * SECOND)
        assert log(node, "shared")[-2:] == ["6", "0,2-4,6-7"]
        api.delete("own", 0)
        await kernel.run_until(140 * SECOND)
        assert log(node, "shared")[-2:] == ["8", "0-7"]


async def test_own_cpus_outlive_the_agent() -> None:
    async with one_node(WIDE, static()) as (kernel, api, node):
        api.bind("own", spec("sh", "-c", LOOP, cpu=2, memory="1Gi"))
        await kernel.run_until(30 * SECOND)
        node.crash_agent()
        node.start_agent()
        await kernel.run_until(60 * SECOND)
        api.bind("next", spec("sh", "-c", LOOP, cpu=2, memory="1Gi"))
        await kernel.run_until(90 * SECOND)
        assert log(node, "own")[-2:] == ["2", "1,5"]
        assert log(node, "next")[-2:] == ["2", "2,6"]


@pytest.mark.parametrize(("full", "reason"), [("false", ""), ("true", "SMTAlignmentError")])
async def test_full_cores_fail_a_pod_with_an_odd_number(full: str, reason: str) -> None:
    async with one_node(WIDE, static(cpu_manager_policy_options=f"full-pcpus-only={full}")) as (
        kernel,
        api,
        _node,
    ):
        api.bind("a", spec("sleep", "1000", cpu=3, memory="1Gi"))
        await kernel.run_until(30 * SECOND)
        text = "Pod SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2" if reason else ""
        assert refused(api, "a") == (reason, text)


@pytest.mark.parametrize(("reserved", "taken"), [("", "1-2"), ("1-2", "0,3")])
async def test_reserved_cpus_are_not_given(reserved: str, taken: str) -> None:
    one = NodeSpec("n1", capacity=CAPACITY)
    used = options(cpu_manager_policy="static", kube_reserved="cpu=1", reserved_cpus=reserved)
    async with one_node(one, used) as (kernel, api, node):
        api.bind("a", spec("sh", "-c", LOOP, cpu=2, memory="1Gi"))
        await kernel.run_until(30 * SECOND)
        assert log(node, "a")[:2] == ["2", taken]
        assert api.objects["nodes", "", "n1"]["status"]["allocatable"]["cpu"] == ("6" if reserved else "7")


@pytest.mark.parametrize(
    ("policy", "scope", "reason"),
    [
        ("best-effort", "container", ""),
        ("restricted", "container", "TopologyAffinityError"),
        ("single-numa-node", "container", "TopologyAffinityError"),
        ("none", "container", ""),
    ],
)
async def test_topology_policy_admits_or_fails(policy: str, scope: str, reason: str) -> None:
    """Two CPUs are left on each of the NUMA nodes, and the pod wants three of one."""
    used = static(topology_manager_policy=policy, topology_manager_scope=scope)
    async with one_node(WIDE, used) as (kernel, api, _node):
        for name in ("a", "b"):
            api.bind(name, spec("sleep", "1000", cpu=2, memory="1Gi"))
        await kernel.run_until(30 * SECOND)
        api.bind("c", spec("sleep", "1000", cpu=3, memory="1Gi"))
        await kernel.run_until(40 * SECOND)
        text = "Pod Resources cannot be allocated with Topology locality" if reason else ""
        assert refused(api, "c") == (reason, text)


@pytest.mark.parametrize(("scope", "reason"), [("container", ""), ("pod", "TopologyAffinityError")])
async def test_topology_scope_counts_containers_alone_or_together(scope: str, reason: str) -> None:
    used = static(topology_manager_policy="single-numa-node", topology_manager_scope=scope)
    async with one_node(WIDE, used) as (kernel, api, _node):
        one = spec("sleep", "1000", cpu=3, memory="1Gi")
        one["containers"].append({**one["containers"][0], "name": "d"})
        api.bind("a", one)
        await kernel.run_until(30 * SECOND)
        assert refused(api, "a")[0] == reason


@pytest.mark.parametrize(("policy", "shown"), [("None", ["0-1"]), ("Static", ["1"])])
async def test_memory_policy_decides_the_numa_nodes_of_memory(policy: str, shown: list[str]) -> None:
    used = static(
        memory_manager_policy=policy, reserved_memory="0:memory=2148Mi" if policy == "Static" else "",
        system_reserved="memory=2Gi",
    )  # fmt: skip
    async with one_node(WIDE, used) as (kernel, api, node):
        command = ("cat", "/sys/fs/cgroup/cpuset.mems.effective")
        api.bind("a", spec(*command, cpu="500m", memory="7Gi"))
        await kernel.run_until(30 * SECOND)
        assert log(node, "a") == shown


@pytest.mark.parametrize(("quota", "shown"), [(True, "150000 100000"), (False, "max 100000")])
async def test_cfs_quota_is_in_cpu_max(quota: bool, shown: str) -> None:
    async with one_node(WIDE, options(cpu_cfs_quota=quota)) as (kernel, api, node):
        api.bind("a", spec("cat", "/sys/fs/cgroup/cpu.max", cpu="1500m", memory="1Gi"))
        await kernel.run_until(30 * SECOND)
        assert log(node, "a") == [shown]


@pytest.mark.parametrize(("period", "shown"), [("100ms", "150000 100000"), ("10ms", "15000 10000")])
async def test_period_of_the_quota_is_in_cpu_max(period: str, shown: str) -> None:
    used = options(cpu_cfs_quota_period=period, feature_gates="CustomCPUCFSQuotaPeriod=true")
    async with one_node(WIDE, used) as (kernel, api, node):
        api.bind("a", spec("cat", "/sys/fs/cgroup/cpu.max", cpu="1500m", memory="1Gi"))
        await kernel.run_until(30 * SECOND)
        assert log(node, "a") == [shown]


@pytest.mark.parametrize(
    ("flags", "texts"),
    [
        ({}, ["Updated Node Allocatable limit across pods"]),
        ({"cgroups_per_qos": False, "enforce_node_allocatable": ""}, []),
        (
            {
                "enforce_node_allocatable": "pods,system-reserved,kube-reserved",
                "system_reserved_cgroup": "/system",
                "kube_reserved_cgroup": "/kube",
            },
            [
                "Updated Node Allocatable limit across pods",
                "Updated limits on system reserved cgroup /system",
                "Updated limits on kube reserved cgroup /kube",
            ],
        ),
    ],
)
async def test_enforced_limits_are_events(flags: dict[str, Any], texts: list[str]) -> None:
    async with one_node(None, options(**flags)) as (_, api, __):
        found = [text for _, text in api.events("NodeAllocatableEnforced")]
        assert found == texts


# --- devices --------------------------------------------------------------------------------------

GPUS = DeviceSpec(GPU, ("a", "b", "c"), (0, 0, 1), "GPUS", 2 * SECOND)
WITH_GPUS = NodeSpec("n1", capacity=CAPACITY, topology=TopologySpec(2, 2, 2), devices=(GPUS,))


def gpu_pod(count: int, *command: str) -> Obj:
    return spec(*(command or ("sh", "-c", "echo $GPUS; sleep 1000")), **{GPU: count})


def gpus(api: FakeApi) -> tuple[str | None, str | None]:
    status = api.objects["nodes", "", "n1"]["status"]
    return status["capacity"].get(GPU), status["allocatable"].get(GPU)


async def test_devices_are_in_the_status_and_in_the_environment() -> None:
    async with one_node(WITH_GPUS) as (kernel, api, node):
        assert gpus(api) == ("3", "3")
        api.bind("a", gpu_pod(2))
        await kernel.run_until(30 * SECOND)
        assert log(node, "a") == ["a,b"]
        api.bind("b", gpu_pod(2))
        await kernel.run_until(40 * SECOND)
        text = f"requested number of devices unavailable for {GPU}. Requested: 2, Available: 1"
        assert refused(api, "b") == (
            "UnexpectedAdmissionError",
            f"Pod Allocate failed due to {text}, which is unexpected",
        )


async def test_unhealthy_device_leaves_allocatable_until_it_is_healthy() -> None:
    async with one_node(WITH_GPUS) as (kernel, api, node):
        node.break_devices(GPU, ("a",))
        await kernel.run_until(40 * SECOND)
        assert gpus(api) == ("3", "2")
        api.bind("a", gpu_pod(1))
        await kernel.run_until(50 * SECOND)
        assert log(node, "a") == ["b"]
        node.break_devices(GPU, ())
        await kernel.run_until(70 * SECOND)
        assert gpus(api) == ("3", "3")


@pytest.mark.parametrize(("register_s", "reason"), [(0, ""), (5, "UnexpectedAdmissionError")])
async def test_restart_fails_pods_of_a_plugin_that_registers_late(register_s: int, reason: str) -> None:
    late = DeviceSpec(GPU, ("a", "b"), (), "GPUS", register_s * SECOND)
    async with one_node(NodeSpec("n1", capacity=CAPACITY, devices=(late,))) as (kernel, api, node):
        await kernel.run_until(40 * SECOND)
        api.bind("a", gpu_pod(1))
        await kernel.run_until(50 * SECOND)
        node.crash_agent()
        node.start_agent()
        await kernel.run_until(80 * SECOND)
        assert refused(api, "a")[0] == reason
        assert gpus(api) == ("2", "2")


@pytest.mark.parametrize(("gate", "amount"), [("true", "3"), ("false", None)])
async def test_gate_switches_devices(gate: str, amount: str | None) -> None:
    async with one_node(WITH_GPUS, options(feature_gates=f"DevicePlugins={gate}")) as (_, api, __):
        assert gpus(api) == (amount, amount)


async def test_devices_and_cpus_come_from_one_numa_node() -> None:
    used = static(topology_manager_policy="single-numa-node")
    async with one_node(WITH_GPUS, used) as (kernel, api, node):
        api.bind("a", gpu_pod(2))
        await kernel.run_until(30 * SECOND)
        api.bind("b", spec("sh", "-c", "echo $GPUS; taskset -cp 1", **{GPU: 1}, cpu=2, memory="1Gi"))
        await kernel.run_until(40 * SECOND)
        assert log(node, "b") == ["c", "pid 1's current affinity list: 2,6"]


async def test_a_plugin_that_goes_leaves_nothing_to_allocate_until_it_registers_again() -> None:
    async with one_node(WITH_GPUS) as (kernel, api, node):
        await kernel.run_until(40 * SECOND)
        api.bind("a", gpu_pod(1))
        await kernel.run_until(50 * SECOND)
        node.stop_plugin(GPU)
        await kernel.run_until(70 * SECOND)
        assert gpus(api) == ("3", "0")
        api.bind("b", gpu_pod(1))
        await kernel.run_until(80 * SECOND)
        assert refused(api, "b")[0] == "UnexpectedAdmissionError"
        await kernel.run_until(400 * SECOND)
        assert gpus(api) == ("0", "0")
        assert api.objects["pods", "default", "a"]["status"]["phase"] == "Running"
        node.start_plugin(GPU)
        await kernel.run_until(430 * SECOND)
        assert gpus(api) == ("3", "3")
        api.bind("c", gpu_pod(2))
        await kernel.run_until(440 * SECOND)
        assert log(node, "c") == ["b,c"]


async def test_allocated_devices_are_below_dev() -> None:
    async with one_node(WITH_GPUS) as (kernel, api, node):
        await kernel.run_until(40 * SECOND)
        pod = gpu_pod(2)
        [container] = pod["containers"]
        container["command"] = ["sh", "-c", "cd /dev; ls a b c null; test -c a && echo device"]
        api.bind("a", pod)
        await kernel.run_until(50 * SECOND)
        found = log(node, "a")
        assert found[-4:] == ["a", "b", "null", "device"]
        assert any("c: No such file" in line for line in found)
