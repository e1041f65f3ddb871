"""What programs in the pods of a node agent alone know: tokens, and the names of Services."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cluster.daemons.running import api_server, client_of, config_of, daemon, free_port, process, until

API = "/api/v1/namespaces/default"
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"


def created(client: httpx.Client, resource: str, name: str, **content: Any) -> dict[str, Any]:
    path = resource if resource.startswith("/") else f"{API}/{resource}"
    answer = client.post(path, json={"metadata": {"name": name}, **content})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def run(client: httpx.Client, name: str, image: str, *command: str, **more: Any) -> None:
    """A pod on the machine."""
    container = {"name": "c", "image": image, **more}
    if command:
        container["command" if image == "busybox" else "args"] = list(command)
    created(client, "pods", name, spec={"nodeName": "n1", "containers": [container]})


def log(client: httpx.Client, name: str) -> str:
    """What a pod has printed, by the agent of its node; "" before it runs."""
    answer = client.get(f"{API}/pods/{name}/log")
    return answer.text if answer.status_code == 200 else ""


@contextmanager
def machine(folder: Path) -> Iterator[tuple[httpx.Client, Path]]:
    """An API server and an agent with the rights of a node; yields a client and the agent's log."""
    said = folder / "agent.log"
    modes = ("--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "-v=3")
    with api_server(folder, *modes) as (_, url):
        words = (
            f"--kubeconfig={config_of(folder, url, 'n1')}",
            f"--machine-proxy-config={config_of(folder, url, 'admin')}",
            "--hostname-override=n1",
            f"--port={free_port()}",
            "--read-only-port=0",
            "--healthz-port=0",
            f"--cert-dir={folder / 'pki'}",
        )
        with (
            process(daemon("kubelet", *words), said),
            client_of(config_of(folder, url, "admin")) as client,
        ):
            until(lambda: client.get("/api/v1/nodes/n1").status_code == 200, said)
            created(client, "configmaps", "kube-root-ca.crt", data={"ca.crt": "x"})
            created(client, "serviceaccounts", "default")
            yield client, said


@pytest.mark.slow
def test_pods_have_tokens_that_the_api_server_knows(tmp_path: Path) -> None:
    with machine(tmp_path) as (client, said):
        run(client, "shown", "busybox", "sh", "-c", f"cat {TOKEN}; echo; sleep 1000")
        run(
            client,
            "asking",
            "registry.k8s.io/e2e-test-images/agnhost:2.39",
            "inclusterclient",
            "--poll-interval=1",
        )
        until(lambda: "eyJ" in log(client, "shown"), said)
        spec = {"token": log(client, "shown").strip()}
        answer = client.post("/apis/authentication.k8s.io/v1/tokenreviews", json={"spec": spec})
        user = answer.json()["status"]["user"]
        assert user["username"] == "system:serviceaccount:default:default"
        assert user["extra"]["authentication.kubernetes.io/pod-name"] == ["shown"]
        until(lambda: "authz_header" in log(client, "asking"), said)
        server = tmp_path / "api-server.log"
        until(lambda: "program/" in server.read_text(), server)
        line = next(line for line in server.read_text().splitlines() if "program/" in line)
        assert ("/api/v1/namespaces/default" in line, "resp=403" in line) == (True, True), line
        assert "status=failed" not in log(client, "asking")


@pytest.mark.slow
def test_pods_reach_services_of_their_machine_by_name(tmp_path: Path) -> None:
    with machine(tmp_path) as (client, said):
        run(client, "web", "nginx", ports=[{"containerPort": 80}])
        pod: dict[str, Any] = {}

        def serves() -> bool:
            pod.update(client.get(f"{API}/pods/web").json())
            return bool(pod["status"].get("podIP"))

        until(serves, said)
        service = created(client, "services", "web", spec={"ports": [{"port": 80}]})
        created(
            client,
            "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
            "web",
            metadata={"name": "web", "labels": {"kubernetes.io/service-name": "web"}},
            addressType="IPv4",
            endpoints=[{"addresses": [pod["status"]["podIP"]], "conditions": {"ready": True}}],
            ports=[{"port": 80, "name": ""}],
        )
        script = (
            "until nslookup web.default.svc.cluster.local; do sleep 1; done; wget -qO- http://web; sleep 1000"
        )
        run(client, "asking", "busybox", "sh", "-c", script)
        until(lambda: "Welcome to nginx" in log(client, "asking"), said)
        assert f"Address: {service['spec']['clusterIP']}" in log(client, "asking")
