"""Keys and requests of certificates, as bytes.

Turns a secret number, the name of a node and its addresses into a CertificateSigningRequest, and a
certificate into its times.

Holds: equal arguments give equal bytes.

Mirrors  kubernetes v1.25 pkg/kubelet/certificate/{kubelet.go,bootstrap/bootstrap.go: digestedName};
         client-go util/certificate/csr/csr.go; k8s.io/apiserver cert util (P-256 keys).
"""

from __future__ import annotations

import hashlib
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

from actors.node.credentials import Credential
from sim.api.types import Obj
from sim.ident import Names
from sim.units import SECOND

ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # of P-256
KEY_USAGES = ("digital signature", "key encipherment")


def signing_request(
    secret: int, node: str, names: Names, addresses: Sequence[str] = (), *, named: bool = False
) -> Obj:
    """The request for a client certificate, or with addresses for a serving certificate.

    secret: of 256 bits, from which the key is made
    named: True for the name that follows from key and subject, so that it is found again
    """
    key = key_of(secret)
    user, group = names.node_user(node), names.group_nodes
    subject = x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group), x509.NameAttribute(NameOID.COMMON_NAME, user)]
    )
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    if addresses:
        shown: list[Any] = [x509.DNSName(node), *(x509.IPAddress(ip_address(each)) for each in addresses)]
        builder = builder.add_extension(x509.SubjectAlternativeName(shown), critical=False)
    made = builder.sign(key, hashes.SHA256(), ecdsa_deterministic=True)
    usages = [*KEY_USAGES, "server auth" if addresses else "client auth"]
    client = names.signer(f"{names.component('apiserver-client')}-{names.node_agent}")
    signer = names.signer(f"{names.node_agent}-serving") if addresses else client
    public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    digest = _digest([public, *(text.encode() for text in (user, group, *usages))])
    return {
        "apiVersion": names.api_version("certificates", "v1"),
        "kind": "CertificateSigningRequest",
        "metadata": {"name": f"node-csr-{digest}"} if named else {"generateName": "csr-"},
        "spec": {
            "request": b64encode(made.public_bytes(Encoding.PEM)).decode(),
            "signerName": signer,
            "usages": usages,
        },
    }


def key_of(secret: int) -> ec.EllipticCurvePrivateKey:
    """The key that a secret number of 256 bits gives."""
    return ec.derive_private_key(secret % (ORDER - 1) + 1, ec.SECP256R1())


def _digest(parts: Sequence[bytes]) -> str:
    """The digest of parts, of which none can run into the next."""
    found = hashlib.new("sha512_256", usedforsecurity=False)
    for part in parts:
        found.update(_encoded(part) + b"|")
    return _encoded(found.digest()).decode()


def _encoded(data: bytes) -> bytes:
    return urlsafe_b64encode(data).rstrip(b"=")


def credential(pem: bytes) -> Credential:
    """A certificate with its times.  Raises ValueError."""
    found = x509.load_pem_x509_certificate(pem)
    begin, end = found.not_valid_before_utc, found.not_valid_after_utc
    return Credential(
        int(begin.timestamp()) * SECOND, int(end.timestamp()) * SECOND, pem.decode(errors="replace")
    )
