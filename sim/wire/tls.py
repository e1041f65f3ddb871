"""TLS of a server and of clients, with certificates as PEM.

Holds: keys stay in memory, except while OpenSSL reads the server's from a private folder. Clients
that apply RFC 5280 strictly, as Python's do from 3.13 on (`ssl.VERIFY_X509_STRICT`), accept the
certificates.

Differs  a client certificate of an unknown authority ends the handshake (upstream: 401), since
         Python's `ssl` verifies each certificate that it asks for.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from tempfile import TemporaryDirectory

from sim.dataclass import dataclass

_NO_CHECK_TIME = 0x200000  # OpenSSL's X509_V_FLAG_NO_CHECK_TIME, which `ssl` does not name


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, PEM."""

    certificate: bytes
    key: bytes


def server_context(pair: Pair, authorities: bytes) -> ssl.SSLContext:
    """TLS of a server that accepts, but does not require, client certificates of these authorities;
    without authorities it asks for none.

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
    if authorities:
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
