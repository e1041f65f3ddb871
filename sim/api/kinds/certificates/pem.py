"""PEM blocks and the PKCS #10 requests in them.

Turns the bytes of a field into blocks, and the first block into a parsed request.  ValueError has
the text that upstream's validation shows.

Mirrors  kubernetes v1.25 pkg/apis/certificates/helpers.go (ParseCSR); Go encoding/pem, crypto/x509.
Differs  the errors of a malformed request or certificate have the texts of the library, not Go's.

The library is imported when the first block is parsed, because few clusters need it.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as BadBase64
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from sim.patterns import pattern

if TYPE_CHECKING:
    from cryptography import x509

REQUEST, CERTIFICATE = "CERTIFICATE REQUEST", "CERTIFICATE"

_BLOCK = pattern(
    rb"(?:^|\n)-----BEGIN ([^\n]*?)-----[ \t\r]*\n(.*?)-----END \1-----[ \t\r]*(?:\n|$)", re.DOTALL
)
_HEADER = pattern(rb"[^\n:]+:[^\n]*\n")
_SPACES = pattern(rb"\s+")


class Block(NamedTuple):
    """One PEM block."""

    type: str
    has_headers: bool
    der: bytes


def blocks(data: bytes) -> Iterator[Block]:
    """The well-formed blocks of a text, in order; anything else is skipped."""
    for found in _BLOCK.finditer(data):
        text = found[2]
        lines = 0
        while (header := _HEADER.match(text)) is not None:
            text, lines = text[header.end() :], lines + 1
        try:
            der = b64decode(_SPACES.sub(b"", text), validate=True)
        except BadBase64:
            continue
        yield Block(found[1].decode("utf-8", "replace"), lines > 0, der)


def parse_request(data: bytes) -> x509.CertificateSigningRequest:
    """The request in the first block; raises ValueError."""
    block = next(blocks(data), None)
    if block is None or block.type != REQUEST:
        raise ValueError("PEM block type must be CERTIFICATE REQUEST")
    from cryptography import x509

    return x509.load_der_x509_csr(block.der)


def subject(request: x509.CertificateSigningRequest) -> tuple[str, list[str]]:
    """The common name of a request, "" if it has none, and its organizations."""
    from cryptography.x509.oid import NameOID

    names = request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    organizations = request.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    # Go keeps the last of several common names.
    return str(names[-1].value) if names else "", [str(each.value) for each in organizations]


def check_signature(request: x509.CertificateSigningRequest) -> None:
    """Raises ValueError unless the request is signed with its own key."""
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    try:
        key = request.public_key()
        valid = request.is_signature_valid
    except (UnsupportedAlgorithm, InvalidSignature):
        raise ValueError("x509: cannot verify signature: algorithm unimplemented") from None
    if valid:
        return
    if isinstance(key, rsa.RSAPublicKey):
        raise ValueError("crypto/rsa: verification error")
    if isinstance(key, ec.EllipticCurvePublicKey):
        raise ValueError("x509: ECDSA verification failure")
    raise ValueError("x509: Ed25519 verification failure")


def certificate_problem(data: bytes) -> str:
    """What is wrong with the certificates of a status; "" if nothing is, or if there are none."""
    if not data:
        return ""
    from cryptography import x509

    found = 0
    for block in blocks(data):
        if block.type != CERTIFICATE:
            return f'only CERTIFICATE PEM blocks are allowed, found "{block.type}"'
        if block.has_headers:
            return "no PEM block headers are permitted"
        found += 1
        if not block.der:
            return "found CERTIFICATE PEM block containing 0 certificates"
        try:
            x509.load_der_x509_certificate(block.der)
        except ValueError as error:
            return str(error)
    return "" if found else "must contain at least one CERTIFICATE PEM block"
