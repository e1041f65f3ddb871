"""TLS of a server that runs alone, which follows the files of its certificates.

Turns the options about certificates, suites and versions into one context, which chooses the
certificate of each connection by the name that the client asks for.

Holds: files that have changed are read again, at most once a second and when a client connects; a
pair that cannot be used is logged, and the earlier one stays; a first pair that cannot be used is
an error with its option.

Mirrors  kubernetes v1.25 apiserver pkg/server/dynamiccertificates/{tlsconfig,named_certificates}.go
         (names of the options win over those of a certificate, earlier pairs over later ones);
         golang crypto/tls common.go (getCertificate: a wildcard stands for the first label).
Differs  a certificate for an address is not chosen by the address that a client has connected to.
"""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.x509.oid import NameOID

from sim.app.daemons.certificates import files_of_pair, serving_pair
from sim.errors import InputError
from sim.files import read_bounded
from sim.options.groups.listening import CertificateFlags, NamedPair
from sim.wire.suites import restrict
from sim.wire.tls import Pair, server_context

LOG = logging.getLogger(__name__)
PERIOD_S = 1.0
_SNI = "--tls-sni-cert-key"


class ServingTls:
    """The context of a server, and its certificates.

    name, hosts: as of `serving_pair`
    authorities: those of clients as they are now, PEM; None if no client shows a certificate
    """

    def __init__(
        self,
        flags: CertificateFlags,
        name: str,
        hosts: Sequence[str],
        authorities: Callable[[], bytes] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._flags, self._authorities, self._clock = flags, authorities, clock
        self._pair = serving_pair(flags, name, hosts)
        self._files = files_of_pair(flags, name)
        self._read_s, self._state = clock(), self._present()
        self._default, self._named = self._made()
        self.context = self._context(self._pair, "--tls-cert-file")
        self.context.sni_callback = self._choose

    def _choose(self, connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        """Give a connection the present certificate for a name."""
        if self._clock() - self._read_s >= PERIOD_S:
            self._follow()
        request = (name or "").lower()
        wildcard = f"*.{request.partition('.')[2]}"
        connection.context = self._named.get(request) or self._named.get(wildcard) or self._default

    def _present(self) -> tuple[object, ...]:
        """What changes with the files and the authorities."""
        sni = [Path(each) for pair in self._flags.tls_sni_cert_key for each in (pair.certificate, pair.key)]
        result: list[object] = [self._authorities() if self._authorities is not None else b""]
        for path in (*self._files, *sni):
            with suppress(OSError):
                info = path.stat()
                result.append((info.st_mtime_ns, info.st_size, info.st_ino))
        return tuple(result)

    def _follow(self) -> None:
        self._read_s, present = self._clock(), self._present()
        if present == self._state:
            return
        self._state = present
        try:
            if self._files:
                self._pair = Pair(*(read_bounded(path) for path in self._files))
            self._default, self._named = self._made()
        except InputError as error:
            LOG.error("the certificates have changed and cannot be used: %s", error)
        else:
            LOG.info("Reloaded the certificates of the server")

    def _made(self) -> tuple[ssl.SSLContext, dict[str, ssl.SSLContext]]:
        """The contexts of the pairs as they are now.  Raises InputError."""
        written: dict[str, ssl.SSLContext] = {}
        stated: dict[str, ssl.SSLContext] = {}
        for entry in reversed(self._flags.tls_sni_cert_key):
            pair = Pair(
                read_bounded(Path(entry.certificate), place=_SNI), read_bounded(Path(entry.key), place=_SNI)
            )
            context = self._context(pair, _SNI)
            into = stated if entry.names else written
            into.update(dict.fromkeys(_names_of(entry, pair), context))
        return self._context(self._pair, "--tls-cert-file"), written | stated

    def _context(self, pair: Pair, option: str) -> ssl.SSLContext:
        try:
            context = server_context(pair, self._authorities() if self._authorities is not None else b"")
        except (ssl.SSLError, ValueError) as error:
            raise InputError(f"the certificate and its key cannot be used: {error}", option) from None
        restrict(context, self._flags)
        if self._authorities is not None:
            context.verify_mode = ssl.CERT_OPTIONAL
        return context


def _names_of(given: NamedPair, pair: Pair) -> list[str]:
    """The names for which a pair is shown, in lower case."""
    if given.names:
        return [name.lower() for name in given.names]
    leaf = x509.load_pem_x509_certificate(pair.certificate)
    names = [str(each.value) for each in leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    with suppress(x509.ExtensionNotFound):
        alternatives = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names += alternatives.get_values_for_type(x509.DNSName)
    return [name.lower() for name in names if not _is_address(name)]


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
