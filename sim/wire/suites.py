"""Cipher suites and versions of TLS, as options name them, of a server's context.

Mirrors  kubernetes v1.25 component-base cli/flag/ciphersuites_flag.go; golang crypto/tls at go1.19
         (the suites of TLS 1.3 cannot be chosen).
"""

from __future__ import annotations

import ssl
import warnings

from sim.options.groups.tls import CIPHER_SUITES, TLS_VERSIONS, TlsFlags

_VERSIONS = dict(
    zip(
        TLS_VERSIONS,
        (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3),
        strict=True,
    )
)
_OLD = ("VersionTLS10", "VersionTLS11")
_ANY_STRENGTH = "@SECLEVEL=0"  # OpenSSL 3 refuses versions below 1.2 above it


def restrict(context: ssl.SSLContext, flags: TlsFlags) -> None:
    """Let a server speak only the versions and the suites that its options name."""
    if flags.tls_min_version:
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            context.minimum_version = _VERSIONS[flags.tls_min_version]
    names = [openssl_name(suite) for suite in flags.tls_cipher_suites if "_WITH_" in suite]
    if flags.tls_cipher_suites and not names:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    if names or flags.tls_min_version in _OLD:
        weak = [_ANY_STRENGTH] if flags.tls_min_version in _OLD else []
        context.set_ciphers(":".join([*(names or ["DEFAULT"]), *weak]))


def openssl_name(suite: str) -> str:
    """The name of a cipher suite of TLS 1.2 in OpenSSL."""
    assert suite in CIPHER_SUITES
    exchange, _, rest = suite.removeprefix("TLS_").partition("_WITH_")
    cipher = rest.removesuffix("_SHA256") if "POLY1305" in rest else rest
    cipher = (
        cipher.replace("AES_", "AES")
        .replace("_CBC_", "_")
        .replace("3DES_EDE", "DES_CBC3")
        .replace("RC4_128", "RC4")
    )
    return ("" if exchange == "RSA" else f"{exchange}_").replace("_", "-") + cipher.replace("_", "-")
