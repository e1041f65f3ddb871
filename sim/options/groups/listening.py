"""Options of a server of a process that runs alone: where it listens, and with which certificates.

Mirrors  kubernetes v1.25 apiserver pkg/server/options/serving.go (SecureServingOptions).
"""

from __future__ import annotations

from typing import NamedTuple

from sim.dataclass import dataclass
from sim.options.base import boolean, file_name, integer, option, string, within
from sim.options.groups.serving import PORT_MAX, checked_address
from sim.options.groups.tls import TlsFlags


class NamedPair(NamedTuple):
    """Files of a certificate for some names of a server.  names: () for those in the certificate"""

    certificate: str
    key: str
    names: tuple[str, ...] = ()


def named_pairs(value: object) -> tuple[NamedPair, ...]:
    """ "certificate,key" or "certificate,key:name,name", several in a list or with semicolons.

    Mirrors  component-base cli/flag/namedcertkey_flag.go.
    """
    entry = value.strip("[]").split(";") if isinstance(value, str) else value
    if not isinstance(entry, list | tuple) or not all(isinstance(each, str) for each in entry):
        raise ValueError("pairs such as a.crt,a.key:name,name")
    return tuple(_named_pair(each) for each in entry if each)


def _named_pair(text: str) -> NamedPair:
    files, colon, names = (part.strip() for part in text.partition(":"))
    if colon and not names:
        raise ValueError("names after the colon: empty names list is not allowed")
    pair = [each.strip() for each in files.split(",")]
    if len(pair) != 2 or not all(pair):
        raise ValueError("comma separated certificate and key file paths")
    return NamedPair(pair[0], pair[1], tuple(each.strip() for each in names.split(",")) if names else ())


@dataclass(frozen=True)  # without slots: it is one of several bases
class CertificateFlags(TlsFlags):
    """The certificates of a server."""

    cert_dir: str = option("cert-dir", file_name, "/var/run/{short}")
    tls_sni_cert_key: tuple[NamedPair, ...] = option("tls-sni-cert-key", named_pairs, "")
    permit_port_sharing: bool = option("permit-port-sharing", boolean, False)
    permit_address_sharing: bool = option("permit-address-sharing", boolean, False)

    def __post_init__(self) -> None:
        self.check_tls()


@dataclass(frozen=True)
class ListenFlags(CertificateFlags):
    """Where an API server listens."""

    bind_address: str = option("bind-address", string, "0.0.0.0", check=checked_address)
    secure_port: int = option("secure-port", integer, 6443, check=within(1, PORT_MAX))
