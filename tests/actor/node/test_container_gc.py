"""Dead containers: which are kept, which are removed, and what is shown of them then."""

from collections.abc import Mapping

import pytest

from actors.node.runtime.container_gc import excess
from actors.node.runtime.containers import Container
from actors.node.runtime.machine import Machine
from actors.node.runtime.profile import ContainerBehaviour, NodeSpec, Rule, RuntimeProfile
from actors.node.server.logs import read_log
from sim.api.streams import LogOptions
from sim.api.types import Obj
from sim.options.node.agent import parse_node_agent
from sim.units import MINUTE, SECOND
from tests.actor.node.fake import FakeApi, one_node
from tests.actor.node.test_agent import behaving

CRASHING = {"exit_after_us": 1 * SECOND, "exit_code": 1}


def shown(api: FakeApi, name: str = "web") -> Obj:
    status: Obj = api.pod(name)["status"]["containerStatuses"][0]
    return status


def kept(machine: Machine) -> list[int]:
    return [container.attempt for pod in machine.pods.values() for container in pod.containers]


@pytest.mark.parametrize(("given", "wanted"), [({}, 1), ({"maximum-dead-containers-per-container": 3}, 3),
                                               ({"maximum-dead-containers-per-container": -1}, 1)])  # fmt: skip
async def test_newest_dead_instances_of_a_container_are_kept(
    given: Mapping[str, object], wanted: int
) -> None:
    async with one_node(behaving(**CRASHING), parse_node_agent(given)) as (kernel, api, node):
        api.bind("web")
        await kernel.run_until(20 * SECOND + 3 * MINUTE)
        dead = kept(node.machine)
        newest = shown(api)["restartCount"]
        assert newest >= 4 and dead == list(range(newest + 1 - wanted, newest + 1))


async def test_earlier_end_of_container_is_shown_until_its_final_end() -> None:
    """`c` fails once and then succeeds; `d` runs on, so that the pod does."""
    ends = ContainerBehaviour(exit_after_us=5 * SECOND, exit_code=1)
    spec = NodeSpec("n1", profile=RuntimeProfile(rules=(Rule(ends, container="c"),)))
    containers = [{"name": name, "image": "img:1"} for name in "cd"]
    async with one_node(spec) as (kernel, api, node):
        api.bind("web", {"containers": containers, "restartPolicy": "OnFailure"})
        await kernel.run_until(25 * SECOND)
        good = RuntimeProfile(rules=(Rule(ContainerBehaviour(exit_after_us=5 * SECOND), container="c"),))
        node.machine.agent.spec = NodeSpec("n1", profile=good)
        await kernel.run_until(50 * SECOND)
        first = shown(api)
        assert first["state"]["terminated"]["exitCode"] == 0 and first["restartCount"] == 1
        assert first["lastState"]["terminated"]["exitCode"] == 1
        ended_us = next(c.exit_us for pod in node.machine.pods.values() for c in pod.instances("c"))
        await kernel.run_until(ended_us + 59 * SECOND)
        assert shown(api) == first
        await kernel.run_until(ended_us + 95 * SECOND)
        assert shown(api) == {**first, "lastState": {}}


async def test_only_the_end_after_a_failure_is_shown_of_a_finished_pod() -> None:
    rule = Rule(ContainerBehaviour(**CRASHING))  # type: ignore[arg-type]
    async with one_node(NodeSpec("n1", profile=RuntimeProfile(rules=(rule,)))) as (kernel, api, node):
        api.bind("web", {"restartPolicy": "OnFailure"})
        await kernel.run_until(22 * SECOND)
        good = Rule(ContainerBehaviour(exit_after_us=5 * SECOND))
        node.machine.agent.spec = NodeSpec("n1", profile=RuntimeProfile(rules=(good,)))
        await kernel.run_until(50 * SECOND)
        assert api.pod("web")["status"]["phase"] == "Succeeded"
        assert shown(api)["restartCount"] == 1 and shown(api)["lastState"] == {}
        answer = read_log(node.machine.agent, "default", "web", "c", LogOptions(previous=True))
        assert answer == (400, 'previous terminated container "c" in pod "web" not found')


async def test_end_found_by_sync_before_relist_is_counted_by_the_relist() -> None:
    """The second instance ends at 31.2 s, the pod changes at 31.5 s; its next sync is ten seconds
    away.
    """
    async with one_node(behaving(exit_after_us=5 * SECOND, exit_code=1)) as (kernel, api, node):
        api.bind("web")
        await kernel.run_until(31_500_000)
        pod = api.pod("web")
        api.put("pods", {**pod, "metadata": {**pod["metadata"], "labels": {"a": "b"}}})
        await kernel.run_until(32 * SECOND - 1)
        assert "terminated" in shown(api)["state"] and kept(node.machine) == [0, 1]
        await kernel.run_until(32 * SECOND)
        assert kept(node.machine) == [1]


async def test_pass_that_keeps_none_removes_all_and_resets_restarts_and_back_off() -> None:
    """The pass at 60 s falls into the pause before the third restart, which would last until 57 +
    20 s: it removes what restarts and their back-off are derived from.
    """
    options = parse_node_agent({"maximum-dead-containers-per-container": 0})
    async with one_node(behaving(**CRASHING), options) as (kernel, api, node):
        api.bind("web")
        await kernel.run_until(60 * SECOND - 1)
        before = shown(api)
        assert before["state"]["waiting"]["reason"] == "CrashLoopBackOff" and before["restartCount"] == 2
        assert kept(node.machine) == [2]
        await kernel.run_until(60 * SECOND)
        assert kept(node.machine) == []
        code, text = read_log(node.machine.agent, "default", "web", "c", LogOptions(previous=True))
        gone = before["lastState"]["terminated"]["containerID"]
        assert (code, text) == (400, f"unable to retrieve container logs for {gone}")
        await kernel.run_until(67 * SECOND)
        after = shown(api)
        assert "running" in after["state"] and after["restartCount"] == 0 and after["lastState"] == {}
        assert gone != after["containerID"]


async def test_containers_of_finished_pod_are_removed_by_first_pass_after_deletion() -> None:
    async with one_node(behaving(exit_after_us=5 * SECOND, log_bytes=1)) as (kernel, api, node):
        api.bind("web", {"restartPolicy": "Never"})
        await kernel.run_until(70 * SECOND)
        assert kept(node.machine) == [0]
        api.delete("web", 0)
        await kernel.run_until(120 * SECOND - 1)
        assert not api.has("web") and kept(node.machine) == [0]
        await kernel.run_until(120 * SECOND)
        assert not node.machine.pods


async def test_dead_container_is_not_removed_before_its_minimum_age() -> None:
    options = parse_node_agent({"minimum-container-ttl-duration": "100s"})
    async with one_node(behaving(exit_after_us=5 * SECOND), options) as (kernel, api, node):
        api.bind("web", {"restartPolicy": "Never"})
        await kernel.run_until(50 * SECOND)
        api.delete("web", 0)
        await kernel.run_until(180 * SECOND - 1)
        assert kept(node.machine) == [0]
        await kernel.run_until(180 * SECOND)
        assert not node.machine.pods


@pytest.mark.parametrize(
    ("healed", "failed", "removed"),
    [(170, [], 170), (245, [245], 305), (500, [360], 500)],
)
async def test_container_pass_waits_for_runtime_and_fails_without_answer(
    healed: int, failed: list[int], removed: int
) -> None:
    """The pass of 120 s waits two minutes for containers and then as long for sandboxes; that of
    420 s waits again.
    """
    async with one_node(behaving(exit_after_us=5 * SECOND)) as (kernel, api, node):
        api.bind("web", {"restartPolicy": "Never"})
        await kernel.run_until(70 * SECOND)
        api.delete("web", 0)
        await kernel.run_until(75 * SECOND)
        node.hang_runtime()
        await kernel.run_until(healed * SECOND)
        node.heal_runtime()
        if not node.machine.pods:
            assert removed == healed
        await kernel.run_until(removed * SECOND)
        assert not node.machine.pods
        late = "rpc error: code = DeadlineExceeded desc = context deadline exceeded"
        assert api.events("ContainerGCFailed") == [(at * SECOND, late) for at in failed]


def dead(machine: Machine, name: str, *started: int) -> list[Container]:
    pod = machine.run_sandbox(name, "ns", name, "10.0.0.0/24", "")
    return [machine.start(pod, "c", "i", ContainerBehaviour(exit_after_us=1), at) for at in started]


def test_excess_removes_evenly_first_and_then_by_age() -> None:
    machine = Machine(NodeSpec("n"))
    a, b, c = (dead(machine, name, *at) for name, at in (("a", (1, 2, 9)), ("b", (3, 4)), ("c", (5,))))
    assert excess([a, b, c], -1, -1) == []
    assert excess([a, b, c], 2, -1) == a[:1]
    assert excess([a, b, c], -1, 5) == [a[0], a[1], b[0]]  # one of each, although five may stay
    assert excess([a, b, c], 1, 2) == [a[0], a[1], b[0], b[1]]
    assert excess([a, b, c], -1, 0) == [a[0], a[1], b[0], b[1], c[0], a[2]]
    assert excess([a, b, c], 0, 0) == [*a, *b, *c]
