"""The durations and counts on the pages of an agent's metrics."""

from __future__ import annotations

import pytest

from actors.node.runtime.profile import NodeSpec, RuntimeProfile
from sim.units import SECOND
from tests.actor.node.fake import one_node
from tests.actor.node.test_server_pages import ask, samples

PROFILE = RuntimeProfile(sandbox_us=300_000, start_us=100_000, pull_us=SECOND, warm=False)
SPEC = NodeSpec("n1", capacity={"cpu": "4", "memory": "8Gi", "ephemeral-storage": "100Gi"}, profile=PROFILE)
PROBED = {
    "containers": [
        {
            "name": "c",
            "image": "img:1",
            "readinessProbe": {"httpGet": {"port": 80}, "periodSeconds": 5},
            "ports": [{"containerPort": 80}],
        }
    ]
}


def series(page: dict[str, float], name: str) -> dict[str, float]:
    """The series of a family with their labels, without those of no value."""
    return {key.removeprefix(name): value for key, value in page.items() if key.startswith(name) and value}


async def test_durations_are_those_of_the_runtime_and_of_syncs() -> None:
    async with one_node(SPEC) as (kernel, api, node):
        api.bind("p")
        await kernel.run_until(60 * SECOND)
        page = samples(ask(node, "/metrics"))
        agent = node.machine.agent.names.node_agent
        calls = f"{agent}_runtime_operations_duration_seconds"
        for operation, took in (("run_podsandbox", 0.3), ("start_container", 0.1), ("pull_image", 1.0)):
            label = f'operation_type="{operation}"'
            assert page[f"{calls}_sum{{{label}}}"] == pytest.approx(took)
            assert page[f"{calls}_count{{{label}}}"] == 1
            assert page[f"{agent}_runtime_operations_total{{{label}}}"] == 1
        assert page[f'{calls}_bucket{{operation_type="pull_image",le="0.48828125"}}'] == 0
        assert page[f'{calls}_bucket{{operation_type="pull_image",le="1.220703125"}}'] == 1
        assert page[f'{agent}_pod_worker_duration_seconds_sum{{operation_type="create"}}'] == pytest.approx(
            1.4
        )
        # the first sync counts too, without a duration
        assert page[f"{agent}_pod_start_duration_seconds_count"] == 2
        assert 1.4 <= page[f"{agent}_pod_start_duration_seconds_sum"] < 2.5
        assert page[f'{agent}_cgroup_manager_duration_seconds_count{{operation_type="create"}}'] == 4


async def test_relists_are_counted_by_their_rhythm() -> None:
    async with one_node(SPEC) as (kernel, _, node):
        agent = node.machine.agent.names.node_agent
        name = f"{agent}_pleg_relist_duration_seconds"
        await kernel.run_until(60 * SECOND)
        before = samples(ask(node, "/metrics"))
        assert before[f"{name}_sum"] == 0
        node.slow_runtime(3 * SECOND)
        await kernel.run_until(100 * SECOND)
        after = samples(ask(node, "/metrics"))
        assert after[f"{name}_count"] - before[f"{name}_count"] == 10
        assert after[f"{name}_sum"] == pytest.approx(30, abs=3)
        assert after[f"{agent}_pleg_relist_interval_seconds_count"] == after[f"{name}_count"] - 1


async def test_probes_are_counted_with_those_that_change_nothing() -> None:
    async with one_node(SPEC) as (kernel, api, node):
        api.bind("p", PROBED)
        await kernel.run_until(30 * SECOND)
        [(name, before)] = series(samples(ask(node, "/metrics/probes")), "prober_probe_total").items()
        assert 'probe_type="Readiness",result="successful"' in name
        await kernel.run_until(80 * SECOND)
        [(_, after)] = series(samples(ask(node, "/metrics/probes")), "prober_probe_total").items()
        assert after - before == 10
