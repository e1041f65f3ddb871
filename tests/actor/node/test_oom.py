"""The OOM killer of a machine: its choice, its traces in the status, the events and the record."""

import pytest

from actors.node.pressure.oom import oom_score_adj
from actors.node.runtime.profile import ContainerBehaviour, NodeSpec, Rule, RuntimeProfile
from sim.api.types import Obj
from sim.options.node.agent import parse_node_agent
from sim.units import SECOND
from tests.actor.node.fake import FakeApi, one_node
from tests.actor.node.test_machine_options import log

MI = 1 << 20
GI = 1 << 30


def container(**resources: Obj) -> Obj:
    return {"name": "c", "image": "registry.example/app:1", "resources": resources}


def machine(**used: int) -> NodeSpec:
    rules = tuple(Rule(ContainerBehaviour(memory_bytes=size), pod_prefix=name) for name, size in used.items())
    return NodeSpec(
        "n1", capacity={"cpu": "8", "memory": "8Gi", "pods": "110"}, profile=RuntimeProfile(rules=rules)
    )


def reason(api: FakeApi, name: str) -> tuple[str, int]:
    status = api.pod(name)["status"]["containerStatuses"][0]
    ended = status["state"].get("terminated") or status["lastState"].get("terminated") or {}
    return ended.get("reason", ""), ended.get("exitCode", 0)


@pytest.mark.parametrize(
    ("resources", "extra", "adj"),
    [
        ({}, {}, 1000),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}, {}, -997),
        ({"requests": {"memory": "2Gi"}}, {}, 750),
        ({"requests": {"cpu": "1"}}, {}, 999),
        ({"requests": {"memory": "8188Mi"}}, {}, 3),
        ({"requests": {"memory": "2Gi"}}, {"priorityClassName": "system-node-critical"}, -997),
    ],
)
def test_oom_score_adj_follows_class_and_request(resources: Obj, extra: Obj, adj: int) -> None:
    one = container(**resources)
    pod = {"metadata": {}, "spec": {"containers": [one], **extra}}
    assert oom_score_adj(pod, one, 8 * GI) == adj


async def test_machine_without_memory_kills_the_highest_score_and_records_it() -> None:
    """The pod that uses most is guaranteed; of the others the one far above its request goes."""
    used = machine(guaranteed=4 * GI, modest=2 * GI, greedy=2 * GI + 1)
    both = {"cpu": "1", "memory": "4Gi"}
    async with one_node(used) as (kernel, api, node):
        api.bind("guaranteed", {"containers": [container(requests=both, limits=both)]})
        api.bind("modest", {"containers": [container(requests={"memory": "2Gi"})]})
        await kernel.run_until(30 * SECOND)
        assert reason(api, "modest") == ("", 0)
        api.bind("greedy", {"containers": [container(requests={"memory": "1Gi"})], "restartPolicy": "Never"})
        await kernel.run_until(40 * SECOND)
        assert reason(api, "greedy") == ("OOMKilled", 137)
        assert reason(api, "modest") == ("", 0)
        ((_, text),) = [event[:2] for event in api.events("SystemOOM")]
        assert text.startswith("System OOM encountered, victim process: app, pid: ")
        node.crash_agent()
        node.start_agent()
        await kernel.run_until(50 * SECOND)
        assert len(api.events("SystemOOM")) == 2


async def test_best_effort_container_is_killed_before_a_larger_one_with_a_request() -> None:
    async with one_node(machine(large=7 * GI, small=GI + 1)) as (kernel, api, _):
        api.bind("large", {"containers": [container(requests={"memory": "7Gi"})]})
        api.bind("small", {"containers": [container()], "restartPolicy": "Never"})
        await kernel.run_until(30 * SECOND)
        # 875 and 125 thousandths against 125 and 1000
        assert [reason(api, name) for name in ("large", "small")] == [("", 0), ("OOMKilled", 137)]


async def test_growing_use_is_met_when_it_exceeds_the_machine() -> None:
    rules = (
        Rule(ContainerBehaviour(memory_bytes=16 * GI, memory_ramp_us=160 * SECOND), pod_prefix="leak"),
        Rule(ContainerBehaviour(), pod_prefix="idle"),
    )
    spec = NodeSpec(
        "n1", capacity={"cpu": "8", "memory": "8Gi", "pods": "110"}, profile=RuntimeProfile(rules=rules)
    )
    used = parse_node_agent({"eviction-hard": "nodefs.available<1%"})
    both = {"cpu": "1", "memory": "7Gi"}
    async with one_node(spec, used) as (kernel, api, _):
        api.bind(
            "leak", {"containers": [container(requests=both, limits={"cpu": "1"})], "restartPolicy": "Never"}
        )
        api.bind("idle", {"containers": [container()], "restartPolicy": "Never"})
        await kernel.run_until(99 * SECOND)
        assert reason(api, "leak") == ("", 0)
        steps = kernel.steps
        await kernel.run_until(110 * SECOND)
        # 1000 and 125 thousandths; a best-effort container without memory has 1000
        assert reason(api, "idle") == ("", 0)
        assert reason(api, "leak") == ("OOMKilled", 137)
        assert kernel.steps - steps < 60


async def test_oom_kill_needs_no_agent_and_is_in_the_events_of_the_next() -> None:
    rule = Rule(ContainerBehaviour(memory_bytes=16 * GI, memory_ramp_us=160 * SECOND))
    spec = NodeSpec(
        "n1", capacity={"cpu": "8", "memory": "8Gi", "pods": "110"}, profile=RuntimeProfile(rules=(rule,))
    )
    async with one_node(spec, parse_node_agent({"eviction-hard": "nodefs.available<1%"})) as (
        kernel,
        api,
        node,
    ):
        api.bind("leak", {"containers": [container()], "restartPolicy": "Never"})
        await kernel.run_until(60 * SECOND)
        node.crash_agent()
        await kernel.run_until(140 * SECOND)
        assert not api.events("SystemOOM")
        node.start_agent()
        await kernel.run_until(150 * SECOND)
        assert reason(api, "leak") == ("OOMKilled", 137)
        assert len(api.events("SystemOOM")) == 1


async def test_programs_read_their_oom_score_adj_in_proc() -> None:
    one = {**container(requests={"memory": "2Gi"}), "image": "busybox", "command": ["sh", "-c"]}
    async with one_node(machine()) as (kernel, api, node):
        api.bind(
            "a", {"containers": [{**one, "args": ["cat /proc/self/oom_score_adj"]}], "restartPolicy": "Never"}
        )
        await kernel.run_until(30 * SECOND)
        assert log(node) == ["750"]
