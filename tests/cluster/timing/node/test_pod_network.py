"""Pods of a whole cluster that talk to each other by the name of a Service."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sim.api.types import Obj
from sim.app.cluster import Cluster
from sim.app.plain_plan import plain_nodes
from sim.scenario.plan.plan import ClusterPlan
from tests.cluster.fixed import workload

SCRIPT = 'test -n "$(wget -q -O- http://web)" && nslookup web.default >/dev/null && echo fetched'


def web() -> list[Obj]:
    """A Deployment of nginx, its Service and a Job that fetches a page."""
    deployment = workload("Deployment", "web", 2)
    deployment["spec"]["template"]["spec"]["containers"][0] |= {"image": "nginx:1.23"}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    }
    return [deployment, service]


def job(script: str) -> Obj:
    container = {"name": "c", "image": "busybox:1.35", "command": ["sh", "-c", script]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "fetch", "namespace": "default"},
        "spec": {
            "template": {"spec": {"containers": [container], "restartPolicy": "Never"}},
            "backoffLimit": 0,
        },
    }


async def run(*, fast: bool = True) -> tuple[Obj, list[bytes], str]:
    """The Job, what its pod and the servers have printed, the run's hash."""
    nodes = [replace(node, flags={"cluster-domain": "cluster.local"}) for node in plain_nodes(2)]
    plan = replace(ClusterPlan(), nodes=tuple(nodes))
    async with Cluster(plan, seed=1, fast=fast) as cluster:
        await cluster.run_until("60s")
        cluster.hand_in(web())
        await cluster.run_until("100s")
        cluster.hand_in([job(SCRIPT)])
        await cluster.run_until("150s")
        found = cluster.get("jobs", "fetch")
        assert found is not None
        lines = [
            line.data
            for node in cluster.nodes.values()
            for held in node.machine.outputs.values()
            for line in held.lines
        ]
        return found, lines, cluster.kernel.trace.sha256()


@pytest.mark.slow
async def test_a_job_fetches_a_page_from_a_deployment_through_its_service() -> None:
    found, lines, digest = await run()
    assert found["status"]["succeeded"] == 1
    assert b"fetched\n" in lines
    assert any(b'"GET / HTTP/1.1" 200' in line for line in lines)
    assert (await run())[1:] == (lines, digest)
    assert (await run(fast=False))[1:] == (lines, digest)
