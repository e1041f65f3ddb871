"""A certificate that the cluster signs identifies its holder to the served API."""

from __future__ import annotations

import ssl
from base64 import b64decode
from pathlib import Path

import httpx
import trio
import yaml
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from sim.app.cluster import Cluster
from sim.app.serving.configs.clients import parse_client_configs
from sim.app.serving.serve import served
from sim.kernel import NEVER_US
from tests.unit.sim.api.kinds.certificates.requests import KEY, csr, request_pem

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
SIGNER = "kubernetes.io/kube-apiserver-client"
MERGE = {"Content-Type": "application/merge-patch+json"}


async def signed(admin: httpx.AsyncClient) -> str:
    """The certificate of an approved request."""
    pem = request_pem("jane", ("dev",))
    made = await admin.post(REQUESTS, json=csr(pem, signerName=SIGNER))
    assert made.status_code == 201, made.text
    approval = {"status": {"conditions": [{"type": "Approved", "status": "True"}]}}
    await admin.patch(f"{REQUESTS}/c/approval", json=approval, headers=MERGE)
    while True:
        status = (await admin.get(f"{REQUESTS}/c")).json()["status"]
        if "certificate" in status:
            return b64decode(status["certificate"]).decode()
        await trio.lowlevel.checkpoint()


async def test_signed_certificate_identifies_its_holder(tmp_path: Path) -> None:
    config = tmp_path / "admin"
    async with (
        Cluster(naming="kubernetes") as cluster,
        served(cluster, parse_client_configs(f"admin={config}"), pace=60) as url,
    ):
        cluster.kernel.set_goal(NEVER_US)
        token = yaml.safe_load(config.read_text())["users"][0]["user"]["token"]
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(base_url=url, headers=headers, verify=False) as admin:
            certificate = await signed(admin)
        pair = tmp_path / "jane.pem"
        secret = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        pair.write_text(certificate + secret)
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.load_cert_chain(pair)
        async with httpx.AsyncClient(base_url=url, verify=context) as jane:
            refused = await jane.get("/api/v1/nodes")
        assert refused.status_code == 403 and 'User "jane" cannot list' in refused.json()["message"]
