"""Where a node agent takes its pods from, and the modes without API servers and of a single pass."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from actors.node.server.logs import read_log
from sim.api.types import Obj
from sim.api.verbs.log import log_options
from sim.app.cluster import Cluster
from sim.app.plain_plan import plain_nodes
from sim.errors import InputError
from sim.options.node.agent import parse_node_agent
from sim.scenario.plan.plan import ClusterPlan
from sim.units import SECOND
from tests.cluster.cli.test_options import pod

STATIC: Obj = {"metadata": {"name": "log"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
ADDRESS = "10.0.0.99"
URL = f"http://{ADDRESS}/pods"


def plan(*flags: dict[str, Any], static: tuple[dict[str, Any], ...] = (STATIC,)) -> ClusterPlan:
    """A cluster with a node for each of these flags."""
    nodes = zip(plain_nodes(len(flags)), flags, strict=True)
    return ClusterPlan(nodes=tuple(replace(node, flags=one, static_pods=static) for node, one in nodes))


def running(cluster: Cluster, node: str) -> list[str]:
    """The names of the pods that run on a machine."""
    machine = cluster.nodes[node].machine
    workers = machine.agent.workers if machine.agent is not None else {}
    uids = [uid for uid, held in machine.pods.items() if held.running(cluster.kernel.now_us)]
    return sorted(workers[uid].pod["metadata"]["name"] if uid in workers else "?" for uid in uids)


def log_of(cluster: Cluster) -> str:
    """What the server of manifests has printed."""
    agent = cluster.nodes["node-0"].machine.agent
    return read_log(agent, "default", "manifests", "c", log_options({}))[1]


def served(body: str, nodes: str = "node-0") -> list[Obj]:
    """A pod that answers each request with this body, and the Service that leads to it."""
    script = 'while true; do printf "%s" "$ANSWER" | nc -l -p 80 > /last; cat /last; done'
    answer = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}"
    container = {
        "name": "c",
        "image": "busybox",
        "command": ["sh", "-c", script],
        "env": [{"name": "ANSWER", "value": answer}],
        "ports": [{"containerPort": 80}],
    }
    spec = {"nodeName": nodes, "containers": [container]}
    service = {"clusterIP": ADDRESS, "selector": {"app": "manifests"}, "ports": [{"port": 80}]}
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "manifests", "labels": {"app": "manifests"}},
            "spec": spec,
        },
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "manifests"}, "spec": service},
    ]


@pytest.mark.parametrize(("path", "names"), [("/etc/manifests", ["log-node-0"]), ("", [])])
async def test_static_pods_run_if_there_is_a_directory(path: str, names: list[str]) -> None:
    async with Cluster(plan({"pod-manifest-path": path})) as cluster:
        await cluster.run_for("10s")
        assert running(cluster, "node-0") == names


async def test_file_that_begins_with_a_dot_is_no_manifest() -> None:
    async with Cluster(plan({}, static=())) as cluster:
        await cluster.run_for("5s")
        cluster.nodes["node-0"].write_manifest(".log", STATIC)
        await cluster.run_for("5s")
        assert running(cluster, "node-0") == []
        cluster.nodes["node-0"].write_manifest("log", STATIC)
        await cluster.run_for("5s")
        assert running(cluster, "node-0") == ["log-node-0"]


@pytest.mark.slow
async def test_pods_of_a_url_run_and_headers_are_sent() -> None:
    listed = {"apiVersion": "v1", "kind": "PodList", "items": [pod("one"), pod("two")]}
    flags = {"manifest-url": URL, "manifest-url-header": "X-A: 1,X-A:2"}
    async with Cluster(plan({}, flags, static=())) as cluster:
        cluster.apply(*served(json.dumps(listed)))
        await cluster.run_for("70s")
        assert running(cluster, "node-1") == ["one-node-1", "two-node-1"]
        mirror = cluster.get("pods", "one-node-1") or {}
        assert mirror["metadata"]["annotations"][cluster.names.annotation_config_source] == "http"
        assert all(each.get("key") for each in mirror["spec"]["tolerations"])  # none of all taints
        log = log_of(cluster)
        assert "GET /pods HTTP/1.1" in log and "X-A: 1" in log and "X-A: 2" in log


@pytest.mark.parametrize("extra", [{"metadata": {"name": "two"}, "spec": {"containers": []}}, 7])
async def test_url_with_a_wrong_pod_changes_nothing(extra: object) -> None:
    listed = {"apiVersion": "v1", "kind": "PodList", "items": [pod("one"), extra]}
    async with Cluster(plan({}, {"manifest-url": URL}, static=())) as cluster:
        cluster.apply(*served(json.dumps(listed)))
        await cluster.run_for("45s")
        assert log_of(cluster).count("GET /pods") > 0
        assert running(cluster, "node-1") == []


@pytest.mark.slow
async def test_pod_of_a_url_lives_on_until_the_next_agent_has_asked() -> None:
    """Housekeeping waits for each source: it would take the pod for an orphan."""
    async with Cluster(plan({}, {"manifest-url": URL}, static=())) as cluster:
        server, service = served(json.dumps(pod("one")))
        cluster.apply(server, service)
        await cluster.run_for("45s")
        cluster.nodes["node-1"].crash_agent()
        cluster.request("delete", "services", "default", "manifests")
        await cluster.run_for("2s")
        cluster.nodes["node-1"].start_agent()
        await cluster.run_for("15s")
        assert running(cluster, "node-1") == ["?"]
        cluster.apply(service)
        await cluster.run_for("40s")
        assert running(cluster, "node-1") == ["one-node-1"]


@pytest.mark.slow
@pytest.mark.parametrize(("period", "requests"), [("20s", 3), ("5s", 12)])
async def test_url_is_asked_in_each_period(period: str, requests: int) -> None:
    flags = {"manifest-url": URL, "http-check-frequency": period}
    async with Cluster(plan({}, flags, static=())) as cluster:
        cluster.apply(*served("{}"))
        await cluster.run_for("30s")
        before = log_of(cluster).count("GET /pods")
        await cluster.run_for("60s")
        assert log_of(cluster).count("GET /pods") - before == requests
        assert running(cluster, "node-1") == []


async def test_agent_without_api_servers_runs_static_pods_only() -> None:
    async with Cluster(plan({"orchconfig": "", "pod-cidr": "10.77.0.0/24"}, {})) as cluster:
        await cluster.run_for("20s")
        assert cluster.get("nodes", "node-0") is None and cluster.get("nodes", "node-1") is not None
        assert running(cluster, "node-0") == ["log-node-0"]
        (held,) = cluster.nodes["node-0"].machine.pods.values()
        assert held.ip.startswith("10.77.0.")


async def test_client_configuration_names_the_only_server() -> None:
    config = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "b"}}],
        "clusters": [{"name": "b", "cluster": {"server": "https://apiserver-0:6443"}}],
    }
    assert parse_node_agent({"orchconfig": config}).server == "apiserver-0"
    config["clusters"] = [{"name": "b", "cluster": {"server": "https://apiserver-9:6443"}}]
    with pytest.raises(InputError, match="there is no API server apiserver-9"):
        Cluster(plan({"orchconfig": config}))
    with pytest.raises(InputError, match="contexts has no entry"):
        parse_node_agent({"orchconfig": {"current-context": "x"}})


async def test_agent_of_one_pass_ends_when_its_pods_run() -> None:
    async with Cluster(plan({"runonce": "true"})) as cluster:
        await cluster.run_for("20s")
        assert cluster.get("nodes", "node-0") is None
        assert cluster.supervisor["node-0"].context is None
        assert running(cluster, "node-0") == ["?"]  # without an agent


async def test_agent_of_one_pass_without_pods_fails() -> None:
    async with Cluster(plan({"runonce": "true"}, static=())) as cluster:
        await cluster.run_until(1 * SECOND - 1)
        assert cluster.supervisor["node-0"].running
        await cluster.run_for("1s")
        assert not cluster.supervisor["node-0"].running
