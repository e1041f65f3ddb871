"""A controller manager and a scheduler in processes of their own, against a served cluster."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cluster.daemons.running import api_server, client_of, config_of, daemon, process, served, until

WEB = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "nginx"}]},
        },
    },
}
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


def available(client: httpx.Client) -> int:
    status: dict[str, Any] = client.get(f"{DEPLOYMENTS}/web").json().get("status", {})
    return int(status.get("availableReplicas", 0))


def holder(client: httpx.Client, name: str) -> str:
    lease = client.get(f"{LEASES}/{name}").json()
    return str(lease.get("spec", {}).get("holderIdentity", ""))


@pytest.mark.slow
def test_a_deployment_runs_by_two_processes_that_end_at_a_signal(tmp_path: Path) -> None:
    manager_log, scheduler_log = tmp_path / "manager.log", tmp_path / "scheduler.log"
    with served(tmp_path) as config:
        access = f"--kubeconfig={config}"
        manager_words = daemon("kube-controller-manager", access, "--use-service-account-credentials")
        with (
            process(manager_words, manager_log) as manager,
            process(daemon("kube-scheduler", access), scheduler_log) as scheduler,
            client_of(config) as client,
        ):
            assert client.post(DEPLOYMENTS, json=WEB).status_code == 201
            until(lambda: available(client) == 2, manager_log)
            assert holder(client, "kube-controller-manager") != ""
            assert holder(client, "kube-scheduler") != ""
            for each in (manager, scheduler):
                each.send_signal(signal.SIGTERM)
                assert each.wait(30) == 0
            # A scheduler releases its lease as it ends, a controller manager does not.
            assert holder(client, "kube-scheduler") == ""
            assert holder(client, "kube-controller-manager") != ""


@pytest.mark.slow
def test_three_processes_work_together_until_the_server_ends(tmp_path: Path) -> None:
    log = tmp_path / "manager.log"
    # Otherwise the server waits for the ends of watches.
    with api_server(tmp_path, "--shutdown-send-retry-after") as (server, url):
        access = [f"--kubeconfig={config_of(tmp_path, url, user)}" for user in ("manager", "scheduler")]
        words = daemon("kube-controller-manager", access[0], "--use-service-account-credentials")
        with (
            process(words, log),
            process(daemon("kube-scheduler", access[1]), tmp_path / "scheduler.log"),
            client_of(config_of(tmp_path, url, "admin")) as client,
        ):
            assert client.post(DEPLOYMENTS, json=WEB).status_code == 201
            pods = "/api/v1/namespaces/default/pods"

            def refused() -> int:
                """Pods that the scheduler has judged: there is no node for them."""
                found = client.get(pods).json()["items"]
                return sum(
                    any(c["type"] == "PodScheduled" for c in pod["status"].get("conditions", ()))
                    for pod in found
                )

            until(lambda: refused() == 2, log)
            server.send_signal(signal.SIGTERM)
            assert server.wait(30) == 0
