"""Certificate signing requests for tests."""

from __future__ import annotations

from base64 import b64encode
from functools import lru_cache
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from sim.api.types import Obj

KEY = ec.derive_private_key(7, ec.SECP256R1())


@lru_cache(maxsize=64)
def request_pem(user: str = "jane", groups: tuple[str, ...] = ("dev",), hosts: tuple[str, ...] = ()) -> bytes:
    """A request for a user; each host is a DNS name or an IP address."""
    subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject.append(x509.NameAttribute(NameOID.COMMON_NAME, user))
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
    if hosts:
        names: list[x509.GeneralName] = [
            x509.IPAddress(ip_address(host)) if host[0].isdigit() else x509.DNSName(host) for host in hosts
        ]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(KEY, hashes.SHA256()).public_bytes(Encoding.PEM)


def csr(pem: bytes | None = None, **spec: object) -> Obj:
    """A CertificateSigningRequest."""
    encoded = b64encode(request_pem() if pem is None else pem).decode()
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "c"},
        "spec": {"request": encoded, "signerName": "example.com/s", "usages": ["client auth"], **spec},
    }
