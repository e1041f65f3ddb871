"""Certificates: an authority made for one run, the certificates of its server and its clients.

Holds: keys stay in memory, except while OpenSSL reads the server's from a private folder. Clients
that apply RFC 5280 strictly, as Python's do from 3.13 on (`ssl.VERIFY_X509_STRICT`), accept the
certificates.

Mirrors  kubeadm's phases/certs (CN and O of the administrator's certificate).
Differs  a client certificate of an unknown authority ends the handshake (upstream: 401), since
         Python's `ssl` verifies each certificate that it asks for.
"""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from sim.dataclass import dataclass

VALID = timedelta(days=365)  # kubeadm: CertificateValidity
_BACKDATED = timedelta(hours=1)  # clients with clocks a little behind
# Letters of a common name: ITU-T X.520, ub-common-name; clients read the alternatives.
NAME_MAX = 64
_NO_CHECK_TIME = 0x200000  # OpenSSL's X509_V_FLAG_NO_CHECK_TIME, which `ssl` does not name


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, PEM."""

    certificate: bytes
    key: bytes


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
            .not_valid_before(self._now - _BACKDATED)
            .not_valid_after(self._now + VALID)
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
        made = builder.sign(self._key, hashes.SHA256())
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return Pair(made.public_bytes(Encoding.PEM), secret)


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def server_context(pair: Pair, authorities: bytes) -> ssl.SSLContext:
    """TLS of a server that accepts, but does not require, client certificates of these authorities.

    A certificate of another authority ends the handshake. One that has expired does not: the
    request is refused instead, with an answer that its client can read.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with TemporaryDirectory() as folder:
        certificate, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
        certificate.write_bytes(pair.certificate)
        key.touch(0o600)
        key.write_bytes(pair.key)
        context.load_cert_chain(certificate, key)
    context.load_verify_locations(cadata=authorities.decode())
    context.verify_mode = ssl.CERT_OPTIONAL
    context.verify_flags |= _NO_CHECK_TIME
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


def client_context(
    authorities: bytes = b"", client_pair: bytes = b"", *, verified: bool = True
) -> ssl.SSLContext:
    """TLS of a client of a server that is not trusted.  Raises ssl.SSLError or ValueError for
    certificates that cannot be read.

    A certificate among the authorities is trusted itself, also that of the server, as in Go's
    pools.  A certificate is not refused for the strictness of RFC 5280 alone, and its names are the
    alternative ones.  The flags are set one by one, since Python 3.13 has other defaults.

    Mirrors  golang crypto/x509 verify.go (Verify, VerifyHostname) at go1.19.

    authorities: PEM; b"" for those of this machine
    client_pair: certificate and key of the client, PEM; b"" for none
    verified: False accepts any certificate
    """
    context = ssl.create_default_context(cadata=authorities.decode() if authorities else None)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.hostname_checks_common_name = False
    if not verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if client_pair:
        with TemporaryDirectory() as folder:
            file = Path(folder, "pair.pem")
            file.touch(0o600)
            file.write_bytes(client_pair)
            context.load_cert_chain(file)
    context.set_alpn_protocols(["http/1.1"])
    return context
