"""Certificates, authorities and tokens of processes: they are replaced, and no log shows them."""

from __future__ import annotations

import os
from pathlib import Path

import httpx
import pytest

from sim.wire.authority import Authority
from sim.wire.tls import client_context
from tests.cluster.daemons.running import (
    USERS,
    api_server,
    client_of,
    config_of,
    daemon,
    free_port,
    process,
    until,
)

SECRET = "a-token-that-no-log-shows"
AUTOSCALER = {
    "metadata": {"name": "web"},
    "spec": {
        "maxReplicas": 3,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
    },
}


def put(folder: Path, name: str, content: bytes) -> str:
    """Replace a file as a whole; returns its path."""
    (folder / "new").write_bytes(content)
    os.replace(folder / "new", folder / name)
    return str(folder / name)


@pytest.mark.slow
def test_certificates_and_authorities_are_replaced_without_a_restart(tmp_path: Path) -> None:
    first, second, servers = Authority("first"), Authority("second"), Authority("servers")
    served = servers.server(("127.0.0.1",))
    put(tmp_path, "tls.crt", served.certificate)
    put(tmp_path, "tls.key", served.key)
    put(tmp_path, "ca.crt", first.pem)
    port, log = free_port(), tmp_path / "log"
    words = (
        f"--client-ca-file={tmp_path / 'ca.crt'}",
        f"--tls-cert-file={tmp_path / 'tls.crt'}",
        f"--tls-private-key-file={tmp_path / 'tls.key'}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
    )

    def reached(server: Authority, client: Authority) -> int:
        """The status of a page for a client of an authority; 0 if there is no connection."""
        pair = client.client("x", ("system:masters",))
        context = client_context(server.pem, pair.certificate + b"\n" + pair.key)
        try:
            return httpx.get(f"https://127.0.0.1:{port}/metrics", verify=context, timeout=30).status_code
        except httpx.TransportError:
            return 0

    with api_server(tmp_path) as (_, url):
        config = config_of(tmp_path, url, "scheduler")
        with process(daemon("kube-scheduler", f"--kubeconfig={config}", *words), log):
            until(lambda: reached(servers, first) == 200, log)
            assert reached(servers, second) == 0
            put(tmp_path, "ca.crt", second.pem)
            until(lambda: reached(servers, second) == 200, log)
            assert reached(servers, first) == 0
            others = Authority("others")
            renewed = others.server(("127.0.0.1",))
            put(tmp_path, "tls.key", renewed.key)
            put(tmp_path, "tls.crt", renewed.certificate)
            until(lambda: reached(others, second) == 200, log)


@pytest.mark.slow
def test_no_log_shows_a_secret_at_any_verbosity(tmp_path: Path) -> None:
    log, key = tmp_path / "log", tmp_path / "key.pem"
    made = Authority("tokens").signing_pem
    key.write_bytes(made[made.rindex(b"-----BEGIN") :])
    users = tmp_path / "more.csv"
    users.write_text(f"{USERS}{SECRET},system:kube-controller-manager,9\n")
    with api_server(tmp_path, f"--token-auth-file={users}") as (_, url):
        config = config_of(tmp_path, url, "admin")
        given = tmp_path / "secret.config"
        given.write_text(config.read_text().replace("token: admin", f"token: {SECRET}"))
        words = (
            f"--kubeconfig={given}",
            f"--authentication-kubeconfig={given}",
            "--authentication-tolerate-lookup-failure",
            f"--service-account-private-key-file={key}",
            "--secure-port=0",
            "--horizontal-pod-autoscaler-sync-period=1s",
            "-v=10",
        )
        with process(daemon("kube-controller-manager", *words), log), client_of(config) as client:
            scalers = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
            assert client.post(scalers, json=AUTOSCALER).status_code == 201
            until(lambda: "conditions" in client.get(f"{scalers}/web").json().get("status", {}), log)
            accounts = "/api/v1/namespaces/default/serviceaccounts"
            until(lambda: client.get(f"{accounts}/default").status_code == 200, log)
    said = log.read_text()
    assert "HTTP Request: POST" in said
    assert "serviceaccounts/horizontal-pod-autoscaler/token" in said
    assert [secret for secret in (SECRET, "eyJ", "Bearer ", "PRIVATE KEY") if secret in said] == []
