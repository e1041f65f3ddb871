"""APIServices that programs of pods serve, simulated or real."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import httpx
import pytest

from sim.api.types import Obj
from sim.app.cluster import Cluster
from sim.app.parts.api_services import resource_list
from sim.app.plain_plan import plain_nodes
from sim.app.serving.serve import served
from sim.kernel.network import Rule
from sim.scenario.plan.plan import ClusterPlan, ForwardPlan, PodNetworkPlan
from tests.cluster.cli.outside_server import ROOT, any_certificate, bundle, listening
from tests.cluster.cli.test_api_services import GROUP, api_service, condition

PLAN = ClusterPlan(naming="kubernetes", nodes=plain_nodes(1))
URL = f"https://10.0.0.77:443/apis/{GROUP}/v1"


def service() -> Obj:
    ports = [{"port": 443, "targetPort": 8443}]
    spec = {"clusterIP": "10.0.0.77", "selector": {"app": "wardle"}, "ports": ports}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "wardle"}, "spec": spec}


def pod(image: str, **container: Any) -> Obj:
    meta = {"name": "wardle", "labels": {"app": "wardle"}}
    spec = {"containers": [{"name": "c", "image": image, **container}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


PORT = [{"containerPort": 8443}]
AGNHOST = "registry.k8s.io/e2e-test-images/agnhost:2.40"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("server", "reason", "problem"),
    [
        (None, "MissingEndpoints", ""),
        (pod("busybox", command=["sleep", "9000"]), "FailedDiscoveryCheck", "connect: connection refused"),
        (pod("own:1"), "FailedDiscoveryCheck", "connect: connection refused"),
        (pod("own:1", ports=PORT), "Passed", ""),
        (
            pod(AGNHOST, args=["test-webserver", "--port=8443"]),
            "FailedDiscoveryCheck",
            "http: server gave HTTP response to HTTPS client",
        ),
    ],
)
async def test_a_check_asks_what_listens_in_the_pod(server: Obj | None, reason: str, problem: str) -> None:
    async with Cluster(PLAN, seed=1) as cluster:
        await cluster.run_until("30s")
        cluster.hand_in([service(), api_service(), *([server] if server else [])])
        await cluster.run_until("60s")
        found = condition(cluster.get("apiservices", f"v1.{GROUP}"))
        assert found[1] == reason
        if problem:
            assert found[2] == (
                f'failing or missing response from {URL}: Get "{URL}": '
                + (f"dial tcp 10.0.0.77:443: {problem}" if problem.startswith("connect") else problem)
            )


@pytest.mark.slow
async def test_a_real_server_behind_a_pod_is_checked_and_gets_requests() -> None:
    seen: list[tuple[str, str]] = []

    def page(path: str, headers: dict[str, str], body: Any) -> tuple[int, Any]:
        seen.append((path, headers.get("x-remote-user", "")))
        return 200, resource_list(f"{GROUP}/v1") if path == f"/apis/{GROUP}/v1" else {
            "items": [],
            "kind": "FlunderList",
        }

    async with listening(page, "wardle.default.svc") as real:
        plan = replace(PLAN, pods=PodNetworkPlan({"own:1": ForwardPlan(f"127.0.0.1:{real.port}")}))
        cluster = Cluster(plan, seed=1)
        trust = {"caBundle": bundle(real.authority), "insecureSkipTLSVerify": False}
        async with (
            cluster,
            served(cluster, None, 5, tokens=ROOT) as url,
            httpx.AsyncClient(
                base_url=url, verify=any_certificate(), headers={"Authorization": "Bearer root"}
            ) as client,
        ):
            await cluster.run_until("30s")
            cluster.hand_in([service(), api_service(**trust), pod("own:1")])
            await cluster.run_until("60s")

            def now() -> tuple[str, str, str]:
                return condition(cluster.get("apiservices", f"v1.{GROUP}"))

            assert now()[1] == "Passed"
            assert (f"/apis/{GROUP}/v1", "system:kube-aggregator") in seen
            answer = await client.get(f"/apis/{GROUP}/v1/flunders")
            assert (answer.status_code, answer.json()["kind"]) == (200, "FlunderList")
            assert seen[-1] == (f"/apis/{GROUP}/v1/flunders", "admin")
            cut = Rule("cut", frozenset({"apiserver-0"}), frozenset({"node-0"}), cut=True)
            cluster.kernel.network.impose(cut)
            await cluster.run_until("95s")
            assert (now()[1], "context deadline exceeded" in now()[2]) == ("FailedDiscoveryCheck", True)
            cluster.kernel.network.lift("cut")
            await cluster.run_until("130s")
            assert now()[1] == "Passed"
            cluster.do.delete(resource="pods", name="wardle")
            await cluster.run_until("170s")
            assert now()[1] == "MissingEndpoints"
