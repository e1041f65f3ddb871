"""A node agent in a process of its own, with its simulated machine and its ports."""

from __future__ import annotations

import signal
from pathlib import Path

import httpx
import pytest
import yaml

from tests.cluster.daemons.running import api_server, client_of, config_of, daemon, free_port, process, until

PODS = "/api/v1/namespaces/default/pods"
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
SPEC = {"containers": [{"name": "c", "image": "nginx"}], "terminationGracePeriodSeconds": 1}


def phase(client: httpx.Client, name: str) -> str:
    """The phase of a pod; "" without one."""
    answer = client.get(f"{PODS}/{name}")
    return str(answer.json()["status"]["phase"]) if answer.status_code == 200 else ""


@pytest.mark.slow
def test_an_agent_alone_runs_pods_and_guards_its_port(tmp_path: Path) -> None:
    log, manifests, port = tmp_path / "agent.log", tmp_path / "manifests", free_port()
    manifests.mkdir()
    (manifests / "broken.yaml").write_text("a: [")
    (manifests / "one.yaml").write_text(yaml.safe_dump({**POD, "metadata": {"name": "fixed"}, "spec": SPEC}))
    reviews = ("--anonymous-auth=false", "--authorization-mode=Webhook", "--authentication-token-webhook")
    own = (f"--port={port}", "--read-only-port=0", "--healthz-port=0", f"--cert-dir={tmp_path / 'pki'}")
    modes = ("--disable-admission-plugins=ServiceAccount", "--authorization-mode=Node,RBAC")
    with api_server(tmp_path, *modes) as (_, url):
        config = (f"--kubeconfig={config_of(tmp_path, url, 'n1')}", "--hostname-override=n1")
        sources = (f"--pod-manifest-path={manifests}", "--machine=cpu=2,memory=4Gi,example.com/gpu=1")
        words = daemon("kubelet", *config, *own, *reviews, *sources)
        with process(words, log) as agent, client_of(config_of(tmp_path, url, "admin")) as client:
            until(lambda: phase(client, "fixed-n1") == "Running", log)
            node = client.get("/api/v1/nodes/n1").json()
            capacity = node["status"]["capacity"]
            assert (capacity["cpu"], capacity["memory"], capacity["example.com/gpu"]) == ("2", "4Gi", "1")
            assert node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] == port
            assert "broken.yaml" in log.read_text()
            bound = {**POD, "spec": {**SPEC, "nodeName": "n1"}}
            assert client.post(PODS, json=bound).status_code == 201
            until(lambda: phase(client, "p") == "Running", log)
            with httpx.Client(base_url=f"https://127.0.0.1:{port}", verify=False, timeout=30) as direct:
                assert direct.get("/pods").status_code == 401
                assert direct.get("/pods", headers={"Authorization": "Bearer scheduler"}).status_code == 403
                names = direct.get("/pods", headers={"Authorization": "Bearer admin"}).json()["items"]
                assert sorted(one["metadata"]["name"] for one in names) == ["fixed-n1", "p"]
            assert (tmp_path / "pki" / "kubelet.key").stat().st_mode & 0o777 == 0o600
            (manifests / "one.yaml").unlink()
            client.delete(f"{PODS}/p")
            until(lambda: client.get(PODS).json()["items"] == [], log)
            agent.send_signal(signal.SIGTERM)
            assert agent.wait(30) == 0
