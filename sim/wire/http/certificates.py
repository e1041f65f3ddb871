"""Certificates of clients: the bytes of a TLS connection become the `Certificate` of a request.

Holds: which bundle an authority belongs to is decided by its signature; a certificate that cannot
be read is one that no authority signed.

Mirrors  golang crypto/x509 (Certificate.Verify, CheckSignatureFrom) and crypto/x509/pkix
         (FillFromRDNSequence: of several common names the last counts), at go1.19.
Differs  intermediate certificates are not used.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from sim.api.auth.authenticator import Certificate
from sim.units import SECOND

REMEMBERED_MAX = 1024  # certificates; the oldest is forgotten
_CLIENT_USES = (ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE)


class CertificateReader:
    """Reads certificates, and remembers what it has read.

    client_cas: PEM bundles of the authorities of clients
    front_proxy_ca: PEM bundle of the authorities of front proxies, b"" for none
    """

    def __init__(self, client_cas: Sequence[bytes] = (), front_proxy_ca: bytes = b"") -> None:
        self.take(client_cas, front_proxy_ca)

    def take(self, client_cas: Sequence[bytes], front_proxy_ca: bytes) -> None:
        """Judge by other authorities from now on."""
        self._client_cas = [ca for bundle in client_cas for ca in load_bundle(bundle)]
        self._front_proxy_cas = load_bundle(front_proxy_ca) if front_proxy_ca else []
        self._read: dict[bytes, Certificate] = {}

    def certificate(self, der: bytes | None) -> Certificate | None:
        """The certificate of a connection; None if it has none."""
        if not der:
            return None
        result = self._read.get(der)
        if result is None:
            if len(self._read) >= REMEMBERED_MAX:
                del self._read[next(iter(self._read))]
            result = self._read[der] = self._certificate(der)
        return result

    def _certificate(self, der: bytes) -> Certificate:
        try:
            leaf = x509.load_der_x509_certificate(der)
            name, groups = _subject(leaf)
            for_clients = _is_for_clients(leaf)
        except ValueError:
            return Certificate("", client_ca=False)
        client = _signer(leaf, self._client_cas)
        proxy = _signer(leaf, self._front_proxy_cas)
        chain = [leaf, *(each for each in (client, proxy) if each is not None)]
        return Certificate(
            name,
            groups,
            client_ca=client is not None,
            front_proxy_ca=proxy is not None,
            valid_from_us=max(_unix_us(each.not_valid_before_utc) for each in chain),
            valid_until_us=min(_unix_us(each.not_valid_after_utc) for each in chain),
            for_clients=for_clients,
            identifier=f"SN={leaf.serial_number}",
        )


def load_bundle(pem: bytes) -> list[x509.Certificate]:
    """The certificates of a PEM bundle; raises ValueError."""
    return x509.load_pem_x509_certificates(pem)


def _subject(leaf: x509.Certificate) -> tuple[str, tuple[str, ...]]:
    names = [_text(each) for each in leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    groups = leaf.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return (names[-1] if names else ""), tuple(_text(each) for each in groups)


def _text(attribute: x509.NameAttribute[str | bytes]) -> str:
    value = attribute.value
    return value if isinstance(value, str) else value.decode("latin1")


def _is_for_clients(leaf: x509.Certificate) -> bool:
    try:
        uses = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return any(use in _CLIENT_USES for use in uses)


def _signer(leaf: x509.Certificate, authorities: Sequence[x509.Certificate]) -> x509.Certificate | None:
    """The authority that signed a certificate."""
    for authority in authorities:
        try:
            leaf.verify_directly_issued_by(authority)
        except (ValueError, TypeError, InvalidSignature):
            continue
        return authority
    return None


def _unix_us(time: datetime) -> int:
    return int(time.timestamp()) * SECOND
