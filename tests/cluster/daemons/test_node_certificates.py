"""Certificates of a node agent that runs alone, over real TLS."""

from __future__ import annotations

import socket
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from sim.wire.authority import Authority
from sim.wire.tls import client_context
from tests.cluster.daemons.running import api_server, client_of, config_of, daemon, free_port, process, until

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
CA = "signer"


def signed(request: bytes, authority: Authority) -> bytes:
    """The certificate for a request, PEM, of an hour."""
    wanted = x509.load_pem_x509_csr(request)
    issuer = x509.load_pem_x509_certificate(authority.pem)
    key: Any = load_pem_private_key(
        authority.signing_pem[authority.signing_pem.rindex(b"-----BEGIN") :], None
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(wanted.subject)
        .issuer_name(issuer.subject)
        .public_key(wanted.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(issuer.not_valid_before_utc)
        .not_valid_after(issuer.not_valid_after_utc)
    )
    for extension in wanted.extensions:
        builder = builder.add_extension(extension.value, extension.critical)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


def sign_all(client: httpx.Client, authority: Authority) -> None:
    """Approve and sign the requests that have no certificate."""
    for found in client.get(REQUESTS).json()["items"]:
        if found.get("status", {}).get("certificate"):
            continue
        url = f"{REQUESTS}/{found['metadata']['name']}"
        approved = {"type": "Approved", "status": "True", "reason": "Test", "message": "by a test"}
        found["status"] = {"conditions": [approved]}
        found = client.put(f"{url}/approval", json=found).json()
        pem = signed(b64decode(found["spec"]["request"]), authority)
        found["status"]["certificate"] = b64encode(pem).decode()
        assert client.put(f"{url}/status", json=found).status_code == 200


def listens(port: int) -> bool:
    """True if something accepts connections at a port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.slow
def test_an_agent_gets_both_certificates_and_is_known_by_them(tmp_path: Path) -> None:
    authority, log, port = Authority(CA), tmp_path / "agent.log", free_port()
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    with api_server(tmp_path, f"--client-ca-file={tmp_path / 'ca.crt'}") as (_, url):
        first, config = config_of(tmp_path, url, "admin"), tmp_path / "agent.config"
        words = daemon(
            "kubelet",
            f"--bootstrap-kubeconfig={first}",
            f"--kubeconfig={config}",
            f"--cert-dir={tmp_path / 'pki'}",
            f"--port={port}",
            "--hostname-override=n1",
            "--rotate-certificates",
            "--rotate-server-certificates",
            "--read-only-port=0",
            "--healthz-port=0",
        )
        current = {use: tmp_path / "pki" / f"kubelet-{use}-current.pem" for use in ("client", "server")}
        with process(words, log), client_of(first) as client:

            def signs() -> bool:
                sign_all(client, authority)
                return all(file.exists() for file in current.values())

            until(signs, log)
            until(lambda: client.get("/api/v1/nodes/n1").status_code == 200, log)
            users = yaml.safe_load(config.read_text())["users"]
            assert users[0]["user"] == dict.fromkeys(
                ("client-certificate", "client-key"), str(current["client"])
            )
            fields = client.get("/api/v1/nodes/n1").json()["metadata"]
            assert fields["name"] == "n1"
            requests = client.get(REQUESTS).json()["items"]
            by = {found["spec"]["signerName"]: found["spec"]["username"] for found in requests}
            assert by == {
                "kubernetes.io/kube-apiserver-client-kubelet": "admin",
                "kubernetes.io/kubelet-serving": "system:node:n1",
            }
            # The port is closed until the certificate is there.
            until(lambda: listens(port), log)
            address = f"https://127.0.0.1:{port}"
            with httpx.Client(verify=client_context(authority.pem), base_url=address) as direct:
                assert direct.get("/healthz").text == "ok"
