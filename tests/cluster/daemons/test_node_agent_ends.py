"""How a node agent in a process of its own ends: its exit status, and what its pods get."""

from __future__ import annotations

import signal
from pathlib import Path

import httpx
import pytest
import yaml

from tests.cluster.daemons.running import api_server, client_of, config_of, daemon, free_port, process, until
from tests.cluster.daemons.test_node_agent import POD, PODS, SPEC, phase

NO_PORTS = ("--enable-server=false", "--healthz-port=0")


def configuration(folder: Path, **fields: object) -> str:
    """The option that names a configuration file with these fields."""
    head = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    file = folder / "kubelet.yaml"
    file.write_text(yaml.safe_dump({**head, **fields}))
    return f"--config={file}"


@pytest.mark.slow
def test_an_agent_with_grace_ends_its_pods_before_itself(tmp_path: Path) -> None:
    log, modes = tmp_path / "agent.log", "--disable-admission-plugins=ServiceAccount"
    with api_server(tmp_path, modes) as (_, url):
        grace = configuration(tmp_path, shutdownGracePeriod="10s", shutdownGracePeriodCriticalPods="5s")
        access = (f"--kubeconfig={config_of(tmp_path, url, 'n1')}", "--hostname-override=n1")
        words = daemon("kubelet", *access, *NO_PORTS, grace, f"--cert-dir={tmp_path / 'pki'}")
        with process(words, log) as agent, client_of(config_of(tmp_path, url, "admin")) as client:
            until(lambda: client.get("/api/v1/nodes/n1").status_code == 200, log)
            assert client.post(PODS, json={**POD, "spec": {**SPEC, "nodeName": "n1"}}).status_code == 201
            until(lambda: phase(client, "p") == "Running", log)
            agent.send_signal(signal.SIGTERM)
            assert agent.wait(60) == 0
            status = client.get(f"{PODS}/p").json()["status"]
            assert (status["phase"], status["reason"]) == ("Failed", "Terminated")


@pytest.mark.slow
def test_an_agent_without_a_server_runs_its_folder_once(tmp_path: Path) -> None:
    manifests, log = tmp_path / "manifests", tmp_path / "agent.log"
    manifests.mkdir()
    (manifests / "one.yaml").write_text(yaml.safe_dump({**POD, "spec": SPEC}))
    own = ("--hostname-override=n1", "--runonce", f"--pod-manifest-path={manifests}", *NO_PORTS)
    with process(daemon("kubelet", *own, f"--cert-dir={tmp_path / 'pki'}"), log) as agent:
        assert agent.wait(60) == 0, log.read_text()


@pytest.mark.slow
def test_an_agent_without_a_server_shows_its_pods_on_its_port(tmp_path: Path) -> None:
    manifests, log, port = tmp_path / "manifests", tmp_path / "agent.log", free_port()
    manifests.mkdir()
    (manifests / "one.yaml").write_text(yaml.safe_dump({**POD, "spec": SPEC}))
    own = ("--hostname-override=n1", f"--pod-manifest-path={manifests}", f"--read-only-port={port}")
    others = (f"--port={free_port()}", "--healthz-port=0", f"--cert-dir={tmp_path / 'pki'}")
    with process(daemon("kubelet", *own, *others), log):

        def phases() -> list[str]:
            try:
                found = httpx.get(f"http://127.0.0.1:{port}/pods").json()["items"]
            except httpx.TransportError:
                return []
            return [pod["status"].get("phase", "") for pod in found or ()]

        until(lambda: phases() == ["Running"], log)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--kubeconfig=/nope"], "--kubeconfig: /nope"),
        (["--no-such-option"], "unknown flag: --no-such-option"),
        (["--machine=cpu=2"], "a machine has cpu and memory"),
        (["--max-pods=-1"], "--max-pods"),
        (["--runonce", "--rotate-server-certificates", "--feature-gates=X=true"], "feature-gates"),
    ],
)
def test_wrong_words_end_an_agent_with_one_line(words: list[str], text: str, tmp_path: Path) -> None:
    log = tmp_path / "agent.log"
    with process(daemon("kubelet", *words), log) as agent:
        assert agent.wait(60) == 1
    assert text in log.read_text()
    assert "Traceback" not in log.read_text()


@pytest.mark.slow
def test_a_port_in_use_ends_an_agent_with_one_line(tmp_path: Path) -> None:
    log, port = tmp_path / "agent.log", free_port()
    own = (f"--port={port}", "--healthz-port=0", f"--read-only-port={port}", f"--cert-dir={tmp_path / 'pki'}")
    with process(daemon("kubelet", *own), log) as agent:
        assert agent.wait(60) == 1
    assert f"failed to listen on 0.0.0.0:{port}" in log.read_text()
    assert "Traceback" not in log.read_text()
