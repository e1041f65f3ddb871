"""Controllers of a process of its own that need more than the API of an ordinary object."""

from __future__ import annotations

from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from sim.api.auth.keys import SigningKey
from sim.wire.authority import Authority
from tests.cluster.daemons.running import api_server, client_of, config_of, daemon, process, until

MAPS = "/api/v1/namespaces/default/configmaps"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
DEFINITION: dict[str, Any] = {
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }
        ],
    },
}


def signing_request() -> str:
    """A request for a certificate of the user "someone", as an object holds it."""
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "someone")])
    key = ec.generate_private_key(ec.SECP256R1())
    made = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    return b64encode(made.public_bytes(Encoding.PEM)).decode()


def created(client: httpx.Client, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = client.post(path, json=body)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def gone(client: httpx.Client, path: str) -> bool:
    return client.get(path).status_code == 404


def check_collection(client: httpx.Client, log: Path) -> None:
    """Namespaces are emptied, also of custom objects, and dependents follow their owners."""
    created(client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION)
    things = "/apis/example.com/v1/namespaces/mine/things"
    created(client, "/api/v1/namespaces", {"metadata": {"name": "mine"}})
    until(lambda: client.get(things).status_code == 200, log)
    head = {"apiVersion": "example.com/v1", "kind": "Thing"}
    created(client, things, {**head, "metadata": {"name": "one"}})
    assert client.delete("/api/v1/namespaces/mine").status_code == 200
    until(lambda: gone(client, "/api/v1/namespaces/mine"), log)
    owner = created(client, MAPS, {"metadata": {"name": "owner"}})["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"]}
    created(client, MAPS, {"metadata": {"name": "owned", "ownerReferences": [reference]}})
    assert client.delete(f"{MAPS}/owner").status_code == 200
    until(lambda: gone(client, f"{MAPS}/owned"), log)


def check_tokens(client: httpx.Client, ca: Path, log: Path) -> None:
    """A Secret gets a token that the API server knows, and the authority of the option."""
    until(lambda: client.get("/api/v1/namespaces/default/serviceaccounts/default").status_code == 200, log)
    secret = {
        "metadata": {"name": "t", "annotations": {"kubernetes.io/service-account.name": "default"}},
        "type": "kubernetes.io/service-account-token",
    }
    created(client, "/api/v1/namespaces/default/secrets", secret)

    def data() -> dict[str, str]:
        found: dict[str, str] = client.get("/api/v1/namespaces/default/secrets/t").json().get("data") or {}
        return found

    until(lambda: "token" in data(), log)
    assert b64decode(data()["ca.crt"]) == ca.read_bytes()
    token = b64decode(data()["token"]).decode()
    review = {"spec": {"token": token}}
    judged = created(client, "/apis/authentication.k8s.io/v1/tokenreviews", review)["status"]
    assert judged["user"]["username"] == "system:serviceaccount:default:default"
    published = client.get(f"{MAPS}/kube-root-ca.crt").json()["data"]["ca.crt"]
    assert published == ca.read_text()


def check_certificates(client: httpx.Client, authority: Authority, log: Path) -> None:
    """An approved request gets a certificate of the authority of the options."""
    spec = {
        "request": signing_request(),
        "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": ["client auth"],
    }
    made = created(client, REQUESTS, {"metadata": {"name": "r"}, "spec": spec})
    condition = {"type": "Approved", "status": "True", "reason": "Test"}
    approved = client.put(f"{REQUESTS}/r/approval", json={**made, "status": {"conditions": [condition]}})
    assert approved.status_code == 200

    def certificate() -> str:
        return str(client.get(f"{REQUESTS}/r").json()["status"].get("certificate", ""))

    until(lambda: certificate() != "", log)
    leaf = x509.load_pem_x509_certificate(b64decode(certificate()))
    leaf.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.pem))
    assert leaf.subject.rfc4514_string() == "CN=someone"


@pytest.mark.slow
def test_controllers_collect_sign_and_publish(tmp_path: Path) -> None:
    authority, log = Authority("ca"), tmp_path / "manager.log"
    whole = authority.signing_pem
    at = whole.rindex(b"-----BEGIN")
    for name, content in (
        ("ca.crt", whole[:at]),
        ("ca.key", whole[at:]),
        ("sa.key", SigningKey.new().pem),
    ):
        (tmp_path / name).write_bytes(content)
    key = tmp_path / "sa.key"
    with api_server(
        tmp_path, f"--service-account-signing-key-file={key}", f"--service-account-key-file={key}"
    ) as (_, url):
        words = (
            f"--kubeconfig={config_of(tmp_path, url, 'manager')}",
            f"--service-account-private-key-file={key}",
            f"--root-ca-file={tmp_path / 'ca.crt'}",
            f"--cluster-signing-cert-file={tmp_path / 'ca.crt'}",
            f"--cluster-signing-key-file={tmp_path / 'ca.key'}",
            "--secure-port=0",
        )
        with (
            process(daemon("kube-controller-manager", *words), log),
            client_of(config_of(tmp_path, url, "admin")) as client,
        ):
            check_collection(client, log)
            check_tokens(client, tmp_path / "ca.crt", log)
            check_certificates(client, authority, log)
