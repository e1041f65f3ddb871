"""Admission plugins in whole clusters: agents keep within NodeRestriction, fast paths stay equal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from sim.api.admission.plugins import node_restriction
from sim.app.cluster import Cluster
from sim.app.plain_plan import plain_nodes
from sim.kernel.fast import FAST
from sim.scenario.compile import load
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan, Plan
from sim.units import SECOND
from tests.bench.fast_plain import SCENARIOS, compare, first_difference, run_to

EVENT_LIMITS = {
    "apiVersion": "apiserver.config.orch.io/v1",
    "kind": "AdmissionConfiguration",
    "plugins": [
        {
            "name": "EventRateLimit",
            "configuration": {
                "apiVersion": "eventratelimit.admission.orch.io/v1alpha1",
                "kind": "Configuration",
                "limits": [{"type": "Server", "qps": 1, "burst": 2}],
            },
        }
    ],
}
STATIC: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "proxy", "namespace": "default"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


def with_flags(name: str, flags: dict[str, Any], end_s: int) -> Plan:
    """The first part of a scenario, with these options of the API server."""
    plan = load(SCENARIOS / f"{name}.yaml")
    server = plan.cluster.api_server
    server = replace(server, flags={**server.flags, **flags})
    cluster = replace(plan.cluster, api_server=server)
    return replace(plan, cluster=cluster, duration_us=min(plan.duration_us, end_s * SECOND))


@pytest.mark.parametrize(("name", "end_s"), [("single-node-death", 480), ("memory-pressure", 300)])
def test_agents_run_alike_under_node_restriction(name: str, end_s: int) -> None:
    flags = {"enable-admission-plugins": "NodeRestriction"}
    with TemporaryDirectory() as folder:
        files = Path(folder) / "on", Path(folder) / "off"
        for file, chosen in zip(files, (flags, {}), strict=True):
            run_to(with_flags(name, chosen, end_s), FAST, file)
        assert first_difference(*files) is None


async def test_agents_are_not_refused_by_node_restriction(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[tuple[str, str]] = []
    ordinary = node_restriction.NodeRestriction.mutate

    def mutate(self: Any, attributes: Any, obj: Any, view: Any) -> Any:
        result = ordinary(self, attributes, obj, view)
        judged.append((attributes.resource.rule, "" if isinstance(result, dict) else result.message))
        return result

    monkeypatch.setattr(node_restriction.NodeRestriction, "mutate", mutate)
    nodes = tuple(
        replace(node, static_pods=({**STATIC, "metadata": {**STATIC["metadata"]}},))
        for node in plain_nodes(2)
    )
    server = ComponentPlan(flags={"enable-admission-plugins": "NodeRestriction"})
    async with Cluster(ClusterPlan(nodes=nodes, api_server=server), seed=1) as cluster:
        await cluster.run_for("2m")
        mirrors = [f"proxy-{node.name}" for node in nodes]
        assert all(cluster.get("pods", name) is not None for name in mirrors)
    assert dict.fromkeys(kind for kind, _ in judged).keys() >= {"nodes", "leases", "pods"}
    assert [message for _, message in judged if message] == []


def test_limited_events_give_one_trace_fast_and_plain() -> None:
    flags = {"enable-admission-plugins": "EventRateLimit", "admission-control-config-file": EVENT_LIMITS}
    plan = with_flags("single-node-death", flags, 400)
    assert compare(plan) == ""


def test_restricted_nodes_give_one_trace_fast_and_plain() -> None:
    flags = {"enable-admission-plugins": "NodeRestriction,AlwaysPullImages,PodTolerationRestriction"}
    assert compare(with_flags("crash-loop", flags, 200)) == ""
