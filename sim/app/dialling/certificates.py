"""Whether a client trusts the certificate of a program.

Mirrors  golang crypto/x509 verify.go at go1.19: the texts of errors.
Differs  a chain has one authority above what the server sends; uses, constraints of names and
         revocation are not checked.
"""

from __future__ import annotations

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.x509.oid import NameOID

from sim.units import SECOND, Wall, format_time

UNKNOWN = "x509: certificate signed by unknown authority"
UNREADABLE = "tls: failed to parse certificate from server"


def problem_of(authorities: bytes, now_us: Wall, chain: bytes, name: str) -> str:
    """What is wrong with a server's certificate; "" if nothing is.

    authorities: PEM certificates that are trusted; now_us: Unix time
    chain: PEM certificates, the server's first; name: that it has to have
    """
    try:
        held = x509.load_pem_x509_certificates(chain)
        roots = x509.load_pem_x509_certificates(authorities) if authorities else []
    except ValueError:
        return UNREADABLE
    return _dated(held[0], now_us) or _signed(held, roots) or _named(held[0], name)


def _dated(leaf: x509.Certificate, now_us: Wall) -> str:
    shown, now_s = format_time(now_us), now_us / SECOND
    begins, ends = leaf.not_valid_before_utc, leaf.not_valid_after_utc
    what = "x509: certificate has expired or is not yet valid: current time"
    if now_s < begins.timestamp():
        return f"{what} {shown} is before {begins:%Y-%m-%dT%H:%M:%SZ}"
    return f"{what} {shown} is after {ends:%Y-%m-%dT%H:%M:%SZ}" if now_s > ends.timestamp() else ""


def _signed(held: list[x509.Certificate], roots: list[x509.Certificate]) -> str:
    """Look for a way from the server's certificate to one that is trusted."""
    current, rest = held[0], held[1:]
    while True:
        if current in roots or any(_issued(current, root) for root in roots):
            return ""
        following = next((one for one in rest if _issued(current, one)), None)
        if following is None:
            return UNKNOWN
        current = following
        rest = [one for one in rest if one is not following]


def _issued(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _named(leaf: x509.Certificate, name: str) -> str:
    try:
        found = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names = found.get_values_for_type(x509.DNSName)
    except x509.ExtensionNotFound:
        names = []
    wanted = name.lower().rstrip(".")
    for each in names:
        one = each.lower()
        if one == wanted or (one.startswith("*.") and wanted.partition(".")[2] == one[2:]):
            return ""
    if names:
        return f"x509: certificate is valid for {', '.join(names)}, not {name}"
    if leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME):
        return "x509: certificate relies on legacy Common Name field, use SANs instead"
    return f"x509: certificate is not valid for any names, but wanted to match {name}"
