"""Autoscaling by a controller manager alone, with a metrics server behind its API server."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest

from sim.wire.authority import Authority
from sim.wire.tls import server_context
from tests.cluster.daemons.running import api_server, client_of, config_of, daemon, process, until
from tests.cluster.daemons.test_controllers_alone import DEPLOYMENTS, WEB

GROUP = "metrics.k8s.io"
PODS = "/api/v1/namespaces/default/pods"
REGISTRATIONS = "/apis/apiregistration.k8s.io/v1/apiservices"
SCALERS = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
SERVICE = {"type": "ExternalName", "externalName": "localhost"}
CONTAINER = {"name": "c", "image": "nginx", "resources": {"requests": {"cpu": "100m"}}}
SCALER = {
    "metadata": {"name": "web"},
    "spec": {
        "minReplicas": 1,
        "maxReplicas": 9,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "metrics": [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
            }
        ],
    },
}


def stamp(ago_s: int = 0) -> str:
    return (datetime.now(UTC) - timedelta(seconds=ago_s)).strftime("%Y-%m-%dT%H:%M:%SZ")


class MetricsServer:
    """Says that each pod uses so much.  asked: the users who have asked for metrics"""

    def __init__(self, client: httpx.Client, usage: str) -> None:
        self.asked: set[str] = set()
        self._client, self._usage = client, usage

    def answer(self, path: str, user: str) -> dict[str, Any]:
        if "/namespaces/" not in path:
            resource = {"name": "pods", "kind": "PodMetrics", "namespaced": True, "verbs": ["get", "list"]}
            return {"kind": "APIResourceList", "groupVersion": f"{GROUP}/v1beta1", "resources": [resource]}
        self.asked.add(user)
        used = {
            "timestamp": stamp(),
            "window": "30s",
            "containers": [{"name": "c", "usage": {"cpu": self._usage}}],
        }
        pods = self._client.get(PODS).json()["items"]
        named = [{"metadata": {"name": pod["metadata"]["name"], "namespace": "default"}} for pod in pods]
        return {"kind": "PodMetricsList", "metadata": {}, "items": [{**each, **used} for each in named]}


@contextmanager
def serving(metrics: MetricsServer) -> Iterator[int]:
    """Serve metrics over TLS; yields the port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(metrics.answer(self.path, self.headers.get("X-Remote-User", ""))).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context: ssl.SSLContext = server_context(Authority("metrics").server(("localhost",)), b"")
    context.set_alpn_protocols(["http/1.1"])
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def register(client: httpx.Client, port: int, log: Path) -> None:
    """Let the API server pass requests for metrics on, and wait until it does."""
    services = "/api/v1/namespaces/kube-system/services"
    assert client.post(services, json={"metadata": {"name": "metrics"}, "spec": SERVICE}).status_code == 201
    spec = {
        "group": GROUP,
        "version": "v1beta1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "insecureSkipTLSVerify": True,
        "service": {"name": "metrics", "namespace": "kube-system", "port": port},
    }
    made = client.post(REGISTRATIONS, json={"metadata": {"name": f"v1beta1.{GROUP}"}, "spec": spec})
    assert made.status_code == 201, made.text
    until(lambda: client.get(f"/apis/{GROUP}/v1beta1").status_code == 200, log)


def run_pods(client: httpx.Client) -> int:
    """Let all pods run, as an agent would say; returns their number."""
    pods = client.get(PODS).json()["items"]
    for pod in pods:
        if pod["status"]["phase"] == "Pending":
            condition = {"type": "Ready", "status": "True", "lastTransitionTime": stamp(3600)}
            pod["status"] = {"phase": "Running", "startTime": stamp(3600), "conditions": [condition]}
            client.put(f"{PODS}/{pod['metadata']['name']}/status", json=pod)
    return len(pods)


@pytest.mark.slow
def test_a_deployment_follows_the_metrics_of_a_server_behind_the_api(tmp_path: Path) -> None:
    log = tmp_path / "manager.log"
    with api_server(tmp_path) as (_, url), client_of(config_of(tmp_path, url, "admin")) as client:
        metrics = MetricsServer(client, "150m")
        with serving(metrics) as port:
            register(client, port, log)
            template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [CONTAINER]}}
            base: dict[str, Any] = {**WEB}
            web = {**base, "spec": {**base["spec"], "replicas": 1, "template": template}}
            words = (
                f"--kubeconfig={config_of(tmp_path, url, 'manager')}",
                "--use-service-account-credentials",
                "--horizontal-pod-autoscaler-sync-period=1s",
                "--secure-port=0",
            )
            with process(daemon("kube-controller-manager", *words), log):
                assert client.post(DEPLOYMENTS, json=web).status_code == 201
                until(lambda: run_pods(client) == 1, log)
                assert client.post(SCALERS, json=SCALER).status_code == 201
                # 150 % of the request, where 50 % is wanted: three times as many, and again.
                until(lambda: run_pods(client) == 9, log)
                status = client.get(f"{SCALERS}/web").json()["status"]
                assert (status["desiredReplicas"], status["currentReplicas"] > 0) == (9, True)
        assert metrics.asked == {"system:serviceaccount:kube-system:horizontal-pod-autoscaler"}
