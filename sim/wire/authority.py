"""Certificates: an authority made for one run, the certificates of its server and its clients.

Holds: keys stay in memory; an authority is valid before its time too, as long as after it.

Mirrors  kubeadm's phases/certs (CN and O of the administrator's certificate).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from sim.wire.tls import Pair

VALID = timedelta(days=365)  # kubeadm: CertificateValidity
AUTHORITY_VALID = timedelta(days=3650)  # kubeadm: ten years
_BACKDATED = timedelta(hours=1)  # clients with clocks a little behind
# Letters of a common name: ITU-T X.520, ub-common-name; clients read the alternatives.
NAME_MAX = 64


class Authority:
    """A certificate authority. `now`: when its certificates become valid."""

    def __init__(self, name: str, now: datetime | None = None) -> None:
        self._now = now or datetime.now(UTC)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        public = self._key.public_key()
        self._certificate = (
            self._builder(self._name, public, authority=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .sign(self._key, hashes.SHA256())
        )

    @classmethod
    def read(cls, pem: bytes) -> Authority:
        """The authority of `signing_pem`.  Raises ValueError."""
        certificate = x509.load_pem_x509_certificate(pem)
        key = load_pem_private_key(pem[pem.rindex(b"-----BEGIN") :], None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("the key is none of an authority")
        if key.public_key() != certificate.public_key():
            raise ValueError("the key is that of another certificate")
        result = cls.__new__(cls)
        result._now, result._key = datetime.now(UTC), key
        result._certificate, result._name = certificate, certificate.subject
        return result

    @property
    def pem(self) -> bytes:
        """The authority's certificate, PEM."""
        return self._certificate.public_bytes(Encoding.PEM)

    @property
    def signing_pem(self) -> bytes:
        """The authority's certificate and its key, PEM."""
        secret = self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return self.pem + secret

    def server(self, hosts: tuple[str, ...]) -> Pair:
        """A server's certificate for names and addresses."""
        alternatives = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        name = hosts[0][:NAME_MAX]
        return self._issue([(NameOID.COMMON_NAME, name)], ExtendedKeyUsageOID.SERVER_AUTH, alternatives)

    def client(self, user: str, groups: tuple[str, ...]) -> Pair:
        """A client's certificate: CN the user, O each group."""
        subject = [*((NameOID.ORGANIZATION_NAME, group) for group in groups), (NameOID.COMMON_NAME, user)]
        return self._issue(subject, ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, authority: bool = False
    ) -> x509.CertificateBuilder:
        usage = x509.KeyUsage(True, False, True, False, False, authority, False, False, False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            # That of a data directory is used again, maybe after the clock was set back.
            .not_valid_before(self._now - (AUTHORITY_VALID if authority else _BACKDATED))
            .not_valid_after(self._now + (AUTHORITY_VALID if authority else VALID))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(issuer, critical=False)
        )

    def _issue(
        self,
        subject: list[tuple[x509.ObjectIdentifier, str]],
        usage: x509.ObjectIdentifier,
        alternatives: x509.SubjectAlternativeName | None,
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(oid, value) for oid, value in subject])
        builder = self._builder(name, key.public_key()).add_extension(
            x509.ExtendedKeyUsage([usage]), critical=False
        )
        if alternatives is not None:
            builder = builder.add_extension(alternatives, critical=False)
        new = builder.sign(self._key, hashes.SHA256())
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return Pair(new.public_bytes(Encoding.PEM), secret)


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
