"""The metrics APIs that a cluster with a metrics server serves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from sim.api.aggregation.delegation import Forwarded
from sim.api.types import UserInfo
from sim.app.cluster import Cluster
from sim.app.parts.api_services import ApiRequest, resource_list
from sim.app.plain_plan import plain_plan

LABELS = {"matchLabels": {"app": "web"}}
POD = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "web", "image": "web:1", "resources": {"requests": {"cpu": "1"}}}]},
}
WEB = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {"replicas": 2, "selector": LABELS, "template": POD},
}
METRIC = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
}
SCALER = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "web"},
    "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "maxReplicas": 2,
        "minReplicas": 2,
        "metrics": [METRIC],
    },
}


async def test_metrics_apis_show_what_autoscaling_reads() -> None:
    plan = replace(plain_plan(2, "kubernetes", 0, ()), metrics=True)
    async with Cluster(plan, seed=1) as cluster:

        async def ask(path: str, query: str = "") -> tuple[int, Any]:
            got: list[tuple[int, Any]] = []
            request = Forwarded("GET", f"/apis/{path}", query, (), b"", UserInfo("ann"))
            aggregator = cluster.api_servers["apiserver-0"].aggregator
            aggregator.forward(
                request, lambda answer: got.append((answer.code, msgspec.json.decode(answer.body)))
            )
            await cluster.run_for("100ms")
            return got[0]

        cluster.apply(WEB, SCALER)
        cluster.do.workload(selector="app=web", load="600m")
        cluster.do.metric(name="depth", value=7)
        cluster.do.metric(name="hits", value="1500m", of="pods", selector="app=web")
        await cluster.run_for("1m")
        usage = "metrics.k8s.io/v1beta1"
        code, pods = await ask(f"{usage}/namespaces/default/pods", "labelSelector=app%3Dweb")
        assert (code, pods["kind"]) == (200, "PodMetricsList")
        used = [each["containers"][0] for each in pods["items"]]
        assert [(each["name"], each["usage"]["cpu"]) for each in used] == [("web", "300m")] * 2
        name = pods["items"][0]["metadata"]["name"]
        assert (await ask(f"{usage}/namespaces/default/pods/{name}"))[1]["window"] == "15s"
        code, nodes = await ask(f"{usage}/nodes")
        assert sum(int(each["usage"]["cpu"].removesuffix("m") or 0) for each in nodes["items"]) == 600
        code, gone = await ask(f"{usage}/nodes/x")
        assert (code, gone["message"]) == (404, 'nodemetrics.metrics.k8s.io "x" not found')
        assert (await ask(f"{usage}/nodes", "labelSelector=a%3D%3D%3D"))[0] == 400
        code, hits = await ask("custom.metrics.k8s.io/v1beta2/namespaces/default/pods/*/hits")
        assert [each["value"] for each in hits["items"]] == ["1500m"] * 2
        code, hits = await ask(f"custom.metrics.k8s.io/v1beta1/namespaces/default/pods/{name}/hits")
        assert [(each["metricName"], each["describedObject"]["name"]) for each in hits["items"]] == [
            ("hits", name)
        ]
        code, depth = await ask("external.metrics.k8s.io/v1beta1/namespaces/default/depth")
        assert [each["value"] for each in depth["items"]] == ["7"]
        listed = (await ask("external.metrics.k8s.io/v1beta1"))[1]["resources"]
        assert [each["name"] for each in listed] == ["depth"]
        # Autoscaling reads through the same APIServices.
        assert active(cluster) == (
            "True",
            "the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of request)",
        )
        cluster.request("delete", "apiservices", "", "v1beta1.metrics.k8s.io")
        await cluster.run_for("20s")
        status, message = active(cluster)
        assert status == "False"
        assert message.endswith(
            "unable to fetch metrics from resource metrics API: "
            "the server could not find the requested resource (get pods.metrics.k8s.io)"
        )


def active(cluster: Cluster) -> tuple[str, str]:
    scaler = cluster.get("horizontalpodautoscalers", "web")
    assert scaler is not None
    found = next(each for each in scaler["status"]["conditions"] if each["type"] == "ScalingActive")
    return found["status"], found["message"]


def _measured(request: ApiRequest) -> tuple[int, Any]:
    """The answers of a metrics server of the user's own."""
    parts = request.path.strip("/").split("/")
    if len(parts) == 3:
        return 200, resource_list("/".join(parts[1:]))
    time = "2022-01-01T00:00:00Z"
    return 200, {"items": [{"value": "30", "timestamp": time}], "seen": request.path}


async def test_autoscaling_asks_the_servers_of_registered_metrics_apis() -> None:
    paths: list[str] = []

    def serve(request: ApiRequest) -> tuple[int, Any]:
        paths.append(request.path)
        return _measured(request)

    def registered(version: str, group: str) -> dict[str, Any]:
        spec = {
            "group": group,
            "version": version,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
            "service": {"name": "adapter", "namespace": "default"},
        }
        return {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"{version}.{group}"},
            "spec": spec,
        }

    external = {
        "type": "External",
        "external": {"metric": {"name": "depth"}, "target": {"type": "AverageValue", "averageValue": "10"}},
    }
    about = {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}
    of_object = {
        "type": "Object",
        "object": {
            "metric": {"name": "hits"},
            "describedObject": about,
            "target": {"type": "Value", "value": "30"},
        },
    }
    base: dict[str, Any] = SCALER["spec"]  # type: ignore[assignment]
    spec = {**base, "maxReplicas": 9, "metrics": [external, of_object]}
    async with Cluster(plain_plan(2, "kubernetes", 0, ()), seed=1) as cluster:

        def active() -> tuple[str, str]:
            found = cluster.get("horizontalpodautoscalers", "web")
            assert found is not None
            condition = next(
                each for each in found["status"]["conditions"] if each["type"] == "ScalingActive"
            )
            return condition["reason"], condition["message"].rpartition("API: ")[2]

        cluster.apply(WEB, {**SCALER, "spec": spec})
        await cluster.run_for("40s")
        missing = "the server could not find the requested resource (get depth.external.metrics.k8s.io)"
        assert active() == ("FailedGetExternalMetric", missing)
        cluster.add_api_service("default/adapter", serve)
        service = {"type": "ExternalName", "externalName": "adapter.invalid"}
        cluster.apply(
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "adapter"}, "spec": service},
            registered("v1beta1", "external.metrics.k8s.io"),
            registered("v1beta1", "custom.metrics.k8s.io"),
        )
        await cluster.run_for("40s")
        assert active()[0] == "ValidMetricFound"
        deployment = cluster.get("deployments", "web")
        assert deployment is not None and deployment["spec"]["replicas"] == 3
        assert "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/depth" in paths
        base = "/apis/custom.metrics.k8s.io/v1beta1/namespaces/default"
        assert f"{base}/deployments/web/hits" in paths
        cluster.request("delete", "services", "default", "adapter")
        await cluster.run_for("40s")
        away = "the server is currently unable to handle the request (get depth.external.metrics.k8s.io)"
        assert active() == ("FailedGetExternalMetric", away)
