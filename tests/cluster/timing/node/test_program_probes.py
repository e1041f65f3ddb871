"""Probes and hooks that connect to the programs of pods, in a whole cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sim.api.types import Obj
from sim.app.cluster import Cluster
from sim.app.plain_plan import plain_nodes
from sim.scenario.plan.plan import ClusterPlan

pytestmark = pytest.mark.slow
IMAGE = "registry.k8s.io/e2e-test-images/agnhost:2.40"
NETEXEC, GRPC = ("netexec",), ("grpc-health-checking", "--port=5000")


def pod(name: str, *args: str, **fields: Any) -> Obj:
    container = {"name": "c", "image": IMAGE, "args": list(args), **fields}
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}}


def http(path: str, port: int = 8080, **fields: Any) -> Obj:
    return {"httpGet": {"path": path, "port": port, **fields}, "periodSeconds": 5}


# Name of a pod -> arguments, its readiness probe, and what the event about its failure says.
PROBES: dict[str, tuple[tuple[str, ...], Obj, str]] = {
    "plain": (NETEXEC, http("/healthz"), ""),
    "moved": (NETEXEC, http("/redirect?location=/healthz"), ""),
    "elsewhere": (NETEXEC, http("/redirect?location=http://elsewhere/x"), ""),
    "wrong": (NETEXEC, http("/echo?msg=x&code=500"), "HTTP probe failed with statuscode: 500"),
    "encrypted": (NETEXEC, http("/", scheme="HTTPS"), "http: server gave HTTP response to HTTPS client"),
    "stalled": (NETEXEC, http("/exit?wait=1h"), "(Client.Timeout exceeded while awaiting headers)"),
    "socket": (NETEXEC, {"tcpSocket": {"port": 8080}}, ""),
    "closed": (NETEXEC, {"tcpSocket": {"port": 8090}}, ":8090: connect: connection refused"),
    "serving": (GRPC, {"grpc": {"port": 5000}}, ""),
    "unknown": (GRPC, {"grpc": {"port": 5000, "service": "x"}}, "unknown service"),
    "no-grpc": (NETEXEC, {"grpc": {"port": 8080}}, '8080" within 1s: context deadline exceeded'),
}


async def test_probes_are_answered_by_what_listens() -> None:
    async with Cluster(replace(ClusterPlan(), nodes=plain_nodes(1)), seed=1) as cluster:
        await cluster.run_until("60s")
        cluster.hand_in([pod(name, *args, readinessProbe=probe) for name, (args, probe, _) in PROBES.items()])
        await cluster.run_until("120s")
        ready, said = set[str](), dict[str, str]()
        for one in cluster.list("pods"):
            if one["status"]["containerStatuses"][0]["ready"]:
                ready.add(one["metadata"]["name"])
        for event in cluster.list("events"):
            if event["reason"] == "Unhealthy":
                said[event["involvedObject"]["name"]] = event["message"]
        assert ready == {name for name, (_, _, text) in PROBES.items() if not text}
        for name, (_, _, text) in PROBES.items():
            assert text in said.get(name, "")
            assert (name in said) is bool(text)


async def test_a_liveness_probe_restarts_a_program_that_stops_to_answer() -> None:
    async with Cluster(replace(ClusterPlan(), nodes=plain_nodes(1)), seed=1) as cluster:
        await cluster.run_until("60s")
        cluster.hand_in([pod("web", "liveness", livenessProbe=http("/healthz"))])
        await cluster.run_until("120s")
        found = cluster.get("pods", "web")
        assert found is not None
        assert found["status"]["containerStatuses"][0]["restartCount"] >= 1


async def test_hooks_by_http_reach_another_pod_and_others_fail() -> None:
    async with Cluster(replace(ClusterPlan(), nodes=plain_nodes(2)), seed=1) as cluster:
        await cluster.run_until("60s")
        cluster.hand_in([pod("handler", *NETEXEC)])
        await cluster.run_until("80s")
        handler = cluster.get("pods", "handler")
        assert handler is not None
        host = handler["status"]["podIP"]
        hooks = {
            f"{hook}-{name}": {hook: given}
            for hook in ("postStart", "preStop")
            for name, given in {
                "said": {"httpGet": {"path": f"/echo?msg={hook}", "host": host, "port": 8080}},
                "closed": {"httpGet": {"path": "/", "host": host, "port": 8090}},
                "tcp": {"tcpSocket": {"port": 8080}},
            }.items()
        }
        cluster.hand_in([pod(name.lower(), "pause", lifecycle=given) for name, given in hooks.items()])
        await cluster.run_until("110s")
        for name in hooks:
            cluster.do.delete(resource="pods", name=name.lower())
        await cluster.run_until("150s")
        [output] = [
            held for node in cluster.nodes.values() for held in node.machine.outputs.values()
            if any(b"/echo" in line.data for line in held.lines)
        ]  # fmt: skip
        lines = b"".join(line.data for line in output.lines)
        assert b"GET /echo?msg=postStart&code=\n" in lines
        assert b"GET /echo?msg=preStop&code=\n" in lines
        said = {
            (event["involvedObject"]["name"], event["reason"]): event["message"]
            for event in cluster.list("events")
            if event["reason"].endswith("Hook") and event["reason"].startswith("Failed")
        }
        for hook in ("postStart", "preStop"):
            reason = f"Failed{hook[0].upper()}{hook[1:]}Hook"
            refused = f'Get "http://{host}:8090//": dial tcp {host}:8090: connect: connection refused'
            assert refused in said[f"{hook.lower()}-closed", reason]
            text = "Cannot run handler: invalid handler: &LifecycleHandler{Exec:nil,HTTPGet:nil,TCPSocket:&TCPSocketAction{Port:{0 8080 },Host:,},}"
            assert said[f"{hook.lower()}-tcp", reason] == text
            assert (f"{hook.lower()}-said", reason) not in said
