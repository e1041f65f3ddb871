"""Issuing certificates: a request and a signing authority give an X.509 certificate.

Holds: the same request, authority and time give the same bytes: serial numbers are digests, and
signatures with keys of elliptic curves are deterministic (RFC 6979), so that a run repeats.

Mirrors  kubernetes v1.25 pkg/controller/certificates/authority/{authority,policies}.go;
         pkg/controller/certificates/signer/signer.go (backdating).
Differs  serial numbers are not random.  Where no authority is given, as in a run without clients
         from outside, the cluster's is derived from the seed (`stand_in`), so that it protects
         nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from sim.units import HOUR, MINUTE, SECOND

BACKDATE_US = 5 * MINUTE
SHORT_US = 8 * HOUR  # of a shorter certificate, the end is not moved with the begin
_STAND_IN_VALID = timedelta(days=3650)  # kubeadm: CACertificateValidity
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The order of fields of x509.KeyUsage.
_KEY_USAGES = (
    ("digital signature", "signing"), ("content commitment",), ("key encipherment",), ("data encipherment",),
    ("key agreement",), ("cert sign",), ("crl sign",), ("encipher only",), ("decipher only",),
)  # fmt: skip
# In the order of Go's x509.ExtKeyUsage.
_EXTENDED_USAGES: tuple[tuple[ObjectIdentifier, tuple[str, ...]], ...] = (
    (ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE, ("any",)),
    (ExtendedKeyUsageOID.SERVER_AUTH, ("server auth",)),
    (ExtendedKeyUsageOID.CLIENT_AUTH, ("client auth",)),
    (ExtendedKeyUsageOID.CODE_SIGNING, ("code signing",)),
    (ExtendedKeyUsageOID.EMAIL_PROTECTION, ("email protection", "s/mime")),
    (ObjectIdentifier("1.3.6.1.5.5.7.3.5"), ("ipsec end system",)),
    (ObjectIdentifier("1.3.6.1.5.5.7.3.6"), ("ipsec tunnel",)),
    (ObjectIdentifier("1.3.6.1.5.5.7.3.7"), ("ipsec user",)),
    (ExtendedKeyUsageOID.TIME_STAMPING, ("timestamping",)),
    (ExtendedKeyUsageOID.OCSP_SIGNING, ("ocsp signing",)),
    (ObjectIdentifier("1.3.6.1.4.1.311.10.3.3"), ("microsoft sgc",)),
    (ObjectIdentifier("2.16.840.1.113730.4.1"), ("netscape sgc",)),
)


def stand_in(name: str, secret: int, now_us: int) -> str:
    """An authority that is derived from a number of 256 bits: certificate and key, PEM."""
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # of P-256
    key = ec.derive_private_key(secret % (order - 1) + 1, ec.SECP256R1())
    public, now = key.public_key(), _moment(now_us)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    usage = x509.KeyUsage(True, False, True, False, False, True, False, False, False)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(public)
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + _STAND_IN_VALID)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .sign(key, hashes.SHA256(), ecdsa_deterministic=True)
    )
    secret_pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return (certificate.public_bytes(Encoding.PEM) + secret_pem).decode()


def issue(
    authority_pem: str,
    request: x509.CertificateSigningRequest,
    usages: Sequence[str],
    duration_us: int,
    wall_us: int,
) -> bytes:
    """The certificate for a request, PEM; raises ValueError.

    authority_pem: certificate and key of the authority
    """
    authority, key = read_authority(authority_pem.encode())
    begin_us = wall_us - BACKDATE_US
    end_us = (wall_us if duration_us < SHORT_US else begin_us) + duration_us
    authority_end_us = int(authority.not_valid_after_utc.timestamp()) * SECOND
    if wall_us >= authority_end_us:
        raise ValueError(
            f"refusing to sign a certificate that expired in the past: {authority.not_valid_after_utc}"
        )
    der = request.public_bytes(Encoding.DER)
    serial = int.from_bytes(sha256(der + begin_us.to_bytes(12, "big", signed=True)).digest()[:16]) or 1
    public: Any = request.public_key()
    builder = (
        x509.CertificateBuilder()
        .subject_name(request.subject)
        .issuer_name(authority.subject)
        .public_key(public)
        .serial_number(serial)
        .not_valid_before(_moment(begin_us))
        .not_valid_after(_moment(min(end_us, authority_end_us)))
    )
    for extension, critical in _extensions(authority, request, usages):
        builder = builder.add_extension(extension, critical=critical)
    plain = isinstance(key, ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey)
    deterministic = True if isinstance(key, ec.EllipticCurvePrivateKey) else None
    signed = builder.sign(key, None if plain else hashes.SHA256(), ecdsa_deterministic=deterministic)
    return signed.public_bytes(Encoding.PEM)


def read_authority(pem: bytes) -> tuple[x509.Certificate, Any]:
    """The first certificate and the key of a text; raises ValueError."""
    certificate = x509.load_pem_x509_certificate(pem)
    key: Any = load_pem_private_key(pem[pem.rindex(b"-----BEGIN") :], None)
    if key.public_key() != certificate.public_key():
        raise ValueError("the key is not that of the certificate")
    return certificate, key


def _moment(us: int) -> datetime:
    return _EPOCH + timedelta(seconds=us // SECOND)


def _extensions(
    authority: x509.Certificate, request: x509.CertificateSigningRequest, usages: Sequence[str]
) -> list[tuple[Any, bool]]:
    """The extensions of a certificate, each with True if it is critical.

    Of the request, only its alternative names are taken over.
    """
    found: list[tuple[Any, bool]] = []
    given = [any(usage in usages for usage in names) for names in _KEY_USAGES]
    if any(given):
        if not given[4]:  # these two say something about a key agreement only
            given[7] = given[8] = False
        found.append((x509.KeyUsage(*given), True))
    extended = [oid for oid, names in _EXTENDED_USAGES if any(usage in usages for usage in names)]
    if extended:
        found.append((x509.ExtendedKeyUsage(extended), False))
    found.append((x509.BasicConstraints(ca=False, path_length=None), True))
    try:
        issuer = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        found.append((x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer), False))
    except x509.ExtensionNotFound:
        pass
    try:
        names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        found.append((names.value, names.critical))
    except x509.ExtensionNotFound:
        pass
    return found
