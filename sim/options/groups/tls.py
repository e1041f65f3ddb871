"""Options of a server about TLS: its certificate, cipher suites and versions.

Mirrors  kubernetes v1.25 apiserver pkg/server/options/serving.go, component-base
         cli/flag/ciphersuites_flag.go.
"""

from __future__ import annotations

from sim.dataclass import dataclass
from sim.options.base import file_name, option, string, strings

TLS_VERSIONS = ("VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13")
_ECDHE = [
    "AES_128_CBC_SHA",
    "AES_128_CBC_SHA256",
    "AES_128_GCM_SHA256",
    "AES_256_CBC_SHA",
    "AES_256_GCM_SHA384",
    "CHACHA20_POLY1305",
    "CHACHA20_POLY1305_SHA256",
    "RC4_128_SHA",
]
_RSA = [
    "3DES_EDE_CBC_SHA",
    "AES_128_CBC_SHA",
    "AES_128_CBC_SHA256",
    "AES_128_GCM_SHA256",
    "AES_256_CBC_SHA",
    "AES_256_GCM_SHA384",
    "RC4_128_SHA",
]
CIPHER_SUITES = (
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    *(f"TLS_ECDHE_{key}_WITH_{rest}" for key in ("ECDSA", "RSA") for rest in _ECDHE),
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    *(f"TLS_RSA_WITH_{rest}" for rest in _RSA),
)


def _suites(value: tuple[str, ...]) -> str | None:
    unknown = next((each for each in value if each not in CIPHER_SUITES), None)
    return None if unknown is None else f"Cipher suite {unknown} not supported or doesn't exist"


def _version(value: str) -> str | None:
    return None if not value or value in TLS_VERSIONS else f'unknown tls version "{value}"'


@dataclass(frozen=True)  # without slots: it is one of several bases
class TlsFlags:
    """TLS of a server."""

    tls_cert_file: str = option("tls-cert-file", file_name, "")
    tls_private_key_file: str = option("tls-private-key-file", file_name, "")
    tls_cipher_suites: tuple[str, ...] = option("tls-cipher-suites", strings, "", check=_suites)
    tls_min_version: str = option("tls-min-version", string, "", check=_version)

    def check_tls(self) -> None:
        """Raises ValueError for a certificate without its key, or a key alone."""
        if bool(self.tls_cert_file) != bool(self.tls_private_key_file):
            raise ValueError("tls-cert-file and tls-private-key-file are given together")
