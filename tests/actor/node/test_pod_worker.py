"""What a pod's worker begins, and when: ends that are requested twice, a loop that sleeps."""

from __future__ import annotations

from typing import Any

import pytest

from actors.node.node import Node
from actors.node.pods.worker import Worker
from actors.node.runtime.profile import ContainerBehaviour, NodeSpec, Rule, RuntimeProfile
from sim.api.types import Obj
from sim.options.node.agent import parse_node_agent
from sim.options.storage_drivers import StorageDriver, StorageDrivers
from sim.units import SECOND
from tests.actor.node.fake import FakeApi, one_node
from tests.actor.node.test_agent import behaving
from tests.actor.node.test_volumes import DISK, UNIQUE, claim, pod_spec

EVICTED, PREEMPTED = ("Failed", "Evicted", "too much"), ("Failed", "Preempting", "another pod")


def worker_of(node: Node, api: FakeApi, name: str) -> Worker:
    worker = node.machine.agent.workers[api.pod(name)["metadata"]["uid"]]
    assert isinstance(worker, Worker)
    return worker


def seconds(api: FakeApi, reason: str) -> list[float]:
    """When events of a reason were recorded, in seconds."""
    return [round(at_us / SECOND, 1) for at_us, _ in api.events(reason)]


@pytest.mark.parametrize(
    ("first_s", "second_s", "grace_s"),
    [(20, 5, 5), (5, 20, 5), (None, 5, 5), (20, None, 20), (None, None, 30)],
)
async def test_later_request_to_end_a_pod_counts_with_the_shortest_grace(
    first_s: int | None, second_s: int | None, grace_s: int
) -> None:
    """Both come while the worker pulls the image; the end begins after that."""
    rule = Rule(ContainerBehaviour(stop_us=None))
    spec = NodeSpec("n1", profile=RuntimeProfile(rules=(rule,), warm=False, pull_us=10 * SECOND))
    async with one_node(spec) as (kernel, api, node):
        api.bind("web")
        await kernel.run_until(25 * SECOND)
        worker = worker_of(node, api, "web")
        worker.kill(grace_s=first_s, override=EVICTED)
        worker.kill(grace_s=second_s, override=PREEMPTED)
        worker.kill(grace_s=1)  # the removal from its source changes nothing
        await kernel.run_until(80 * SECOND)
        (killed_us, _), *_ = api.events("Killing")
        assert worker.runtime is not None
        assert worker.runtime.containers[0].exit_us == killed_us + grace_s * SECOND
        status = api.pod("web")["status"]
        assert (status["phase"], status["reason"], status["message"]) == PREEMPTED


async def test_sleeping_loop_restarts_no_container_until_it_wakes() -> None:
    """The runtime fails from 26 to 61 s, which the loop notices at 30 s."""
    async with one_node(behaving(exit_after_us=20 * SECOND)) as (kernel, api, node):
        api.bind("web")
        await kernel.run_until(26 * SECOND)
        node.fail_runtime("no")
        await kernel.run_until(61 * SECOND)
        node.heal_runtime()
        assert len(seconds(api, "Started")) == 1
        await kernel.run_until(75 * SECOND)
        first, second = seconds(api, "Started")
        assert (first < 22, second > 61) == (True, True)


@pytest.mark.parametrize(("evicted", "waits"), [(False, True), (True, False)])
async def test_sleeping_loop_delays_deletions_that_came_before_but_no_evictions(
    evicted: bool, waits: bool
) -> None:
    """The end is requested while the worker has a sync under way, which ends as the loop sleeps."""
    spec = NodeSpec("n1", profile=RuntimeProfile(warm=False, pull_us=8 * SECOND))
    async with one_node(spec) as (kernel, api, node):
        api.bind("web")
        await kernel.run_until(23 * SECOND)
        if evicted:
            worker_of(node, api, "web").kill(override=EVICTED)
        else:
            api.delete("web", 5)
        await kernel.run_until(24 * SECOND)
        node.fail_runtime("no")
        await kernel.run_until(60 * SECOND)
        assert bool(api.events("Killing")) is not waits
        node.heal_runtime()
        await kernel.run_until(80 * SECOND)
        assert len(api.events("Killing")) == 1


async def test_pod_that_has_failed_may_be_deleted_before_its_sync_notices() -> None:
    """The runtime does not answer while the container ends and the pod is deleted."""
    async with one_node(behaving(exit_after_us=10 * SECOND, exit_code=1)) as (kernel, api, node):
        api.bind("web", {"restartPolicy": "Never"})
        await kernel.run_until(30 * SECOND)
        node.hang_runtime()
        await kernel.run_until(33 * SECOND)
        api.delete("web", 5)
        await kernel.run_until(40 * SECOND)
        assert api.has("web")
        node.heal_runtime()
        await kernel.run_until(60 * SECOND)
        assert not api.has("web")


@pytest.mark.parametrize("host", [True, False])
async def test_pod_of_the_hosts_network_needs_no_plugin(host: bool) -> None:
    async with one_node() as (kernel, api, node):
        node.fail_pod_network("no plugin")
        await kernel.run_until(30 * SECOND)
        api.bind("web", {"hostNetwork": host})
        await kernel.run_until(40 * SECOND)
        assert bool(api.events("Started")) is host
        texts = [text for _, text in api.events("NetworkNotReady")]
        assert bool(texts) is not host
        if not host:
            assert texts[0].startswith("network is not ready: ") and texts[0].endswith("message:no plugin")
            assert len(texts) >= 5  # tried again each second, not each ten


def probed(kind: str) -> Obj:
    probe = {"httpGet": {"port": 80}, "periodSeconds": 1, "failureThreshold": 100}
    return {"containers": [{"name": "c", "image": "i", kind: probe}]}


@pytest.mark.parametrize(("kind", "goes_on"), [("livenessProbe", False), ("readinessProbe", True)])
async def test_only_readiness_is_probed_while_a_pod_ends(kind: str, goes_on: bool) -> None:
    spec = behaving(unhealthy_after_us=15 * SECOND, stop_us=None)
    async with one_node(spec) as (kernel, api, _):
        api.bind("web", probed(kind))
        await kernel.run_until(30 * SECOND)
        assert not api.events("Unhealthy")
        api.delete("web", 20)
        await kernel.run_until(45 * SECOND)
        assert bool(api.events("Unhealthy")) is goes_on


@pytest.mark.parametrize("keeps", [True, False])
async def test_volumes_of_an_ended_pod_stay_if_the_agent_keeps_them(keeps: bool) -> None:
    options = parse_node_agent({"keep-terminated-pod-volumes": keeps})
    drivers = StorageDrivers([StorageDriver(DISK, attach_required=False)])
    rule = Rule(ContainerBehaviour(exit_after_us=5 * SECOND))
    spec = NodeSpec("n1", profile=RuntimeProfile(rules=(rule,)))
    async with one_node(spec, options, drivers=drivers) as (kernel, api, node):
        claim(api)
        api.bind("web", pod_spec(restartPolicy="Never"))
        await kernel.run_until(60 * SECOND)
        assert api.pod("web")["status"]["phase"] == "Succeeded"
        assert [*node.machine.mounts] == ([UNIQUE] if keeps else [])


@pytest.mark.parametrize("updates", ["", "a", "abc"])
async def test_updates_during_a_sync_lead_to_one_more_at_once(updates: str) -> None:
    """The second pull of the image takes 10 s and fails; without an update the worker waits."""
    broken = RuntimeProfile(warm=False, pull_us=10 * SECOND, broken_images={"img:1": "none"})
    async with one_node(NodeSpec("n1", profile=broken)) as (kernel, api, _):
        api.bind("web")
        while len(api.events("Pulling")) < 2:
            await kernel.run_until(kernel.now_us + SECOND)
        starts, sync = list[int](), Worker._sync

        def counted(self: Worker) -> Any:
            starts.append(kernel.now_us)
            return sync(self)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Worker, "_sync", counted)
            for label in updates:
                pod = api.pod("web")
                api.put("pods", {**pod, "metadata": {**pod["metadata"], "labels": {"a": label}}})
                await kernel.run_until(kernel.now_us + SECOND)
            assert starts == []
            await kernel.run_until(kernel.now_us + 30 * SECOND)
        pulled_us = api.events("Pulling")[1][0] + 10 * SECOND
        assert len([at_us for at_us in starts if at_us - pulled_us <= 4 * SECOND]) == bool(updates)
