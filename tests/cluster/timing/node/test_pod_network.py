"""Pods of a whole cluster that talk to each other by the name of a Service."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sim.api.types import Obj
from sim.app.cluster import Cluster
from sim.app.plain_plan import plain_nodes
from sim.options.node.proxy import ProxyOptions, proxy_of
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


def printed(cluster: Cluster) -> list[bytes]:
    """The lines that all containers have printed."""
    return [
        line.data
        for node in cluster.nodes.values()
        for held in node.machine.outputs.values()
        for line in held.lines
    ]


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
        return found, printed(cluster), cluster.kernel.trace.sha256()


@pytest.mark.slow
async def test_a_job_fetches_a_page_from_a_deployment_through_its_service() -> None:
    found, lines, digest = await run()
    assert found["status"]["succeeded"] == 1
    assert b"fetched\n" in lines
    assert any(b'"GET / HTTP/1.1" 200' in line for line in lines)
    assert (await run())[1:] == (lines, digest)
    assert (await run(fast=False))[1:] == (lines, digest)


@pytest.mark.slow
@pytest.mark.parametrize(("ports", "lines"), [((), [b"refused\n"]), ((8080,), [b"[]\n"])])
async def test_an_unknown_server_answers_only_at_ports_that_it_declares(
    ports: tuple[int, ...], lines: list[bytes]
) -> None:
    deployment, service = web()
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    container |= {"image": "own/server:1", "ports": [{"containerPort": port} for port in ports]}
    service["spec"]["ports"] = [{"port": 80, "targetPort": 8080}]
    script = (
        "got=$(wget -q -O- http://web.default.svc.cluster.local 2>/dev/null) && echo [$got] || echo refused"
    )
    async with Cluster(replace(ClusterPlan(), nodes=plain_nodes(2)), seed=1) as cluster:
        await cluster.run_until("60s")
        cluster.hand_in([deployment, service])
        await cluster.run_until("100s")
        cluster.hand_in([job(script)])
        await cluster.run_until("150s")
        assert printed(cluster) == lines


@pytest.mark.slow
@pytest.mark.parametrize(("paused", "line"), [(False, b"fetched\n"), (True, b"refused\n")])
async def test_programs_reach_what_the_proxy_of_their_node_has_written(paused: bool, line: bytes) -> None:
    script = f"{SCRIPT} || echo refused"
    async with Cluster(
        replace(ClusterPlan(), nodes=plain_nodes(2), kube_proxy=ProxyOptions()), seed=1
    ) as cluster:
        await cluster.run_until("60s")
        for name in ("node-0", "node-1") if paused else ():
            cluster.supervisor[proxy_of(name)].pause()
        cluster.hand_in(web())
        await cluster.run_until("100s")
        cluster.hand_in([job(script)])
        await cluster.run_until("150s")
        assert line in printed(cluster)


@pytest.mark.slow
async def test_the_network_forgets_pods_that_have_gone_and_follows_services() -> None:
    deployment, service = web()
    deployment["spec"]["template"]["spec"]["containers"][0] |= {
        "image": "agnhost:2.40",
        "args": ["test-webserver"],
    }
    async with Cluster(replace(ClusterPlan(), nodes=plain_nodes(2)), seed=1) as cluster:
        await cluster.run_until("60s")
        cluster.hand_in([deployment, service])
        await cluster.run_until("100s")
        network, fabric = cluster.pod_network, cluster.pod_network.fabric()
        hosts = {one["status"]["podIP"] for one in cluster.list("pods")}
        assert set(fabric.networks) == hosts
        [stored] = [one for one in cluster.list("services") if one["metadata"]["name"] == "web"]
        address = stored["spec"]["clusterIP"]
        [found] = network.services_at(address, 80, node_address=False)
        assert found["metadata"]["name"] == "web"
        addresses = {
            each for one in network.slices(found) for end in one["endpoints"] for each in end["addresses"]
        }
        assert addresses == hosts
        cluster.do.delete(resource="deployments", name="web")
        cluster.do.delete(resource="services", name="web")
        await cluster.run_until("160s")
        assert not fabric.networks
        assert not network.services_at(address, 80, node_address=False)
        assert not network.slices(found)
