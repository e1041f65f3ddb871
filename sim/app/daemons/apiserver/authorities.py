"""The authorities of clients' certificates: their files may be replaced while a server runs.

Turns the files of two options into the authorities that TLS asks clients for, and into what judges
their certificates.

Holds: content that cannot be used leaves the old one in place, and one line in the log.

Mirrors  kubernetes v1.25 apiserver pkg/server/dynamiccertificates/dynamic_cafile_content.go.
Differs  the published ConfigMap keeps the authorities of the start; files are looked at when a
         client connects.
"""

from __future__ import annotations

import logging
from pathlib import Path

from sim.app.serving.identities import Files
from sim.errors import InputError
from sim.files import read_bounded
from sim.options.apiserver.authentication import AuthenticationFlags
from sim.wire.http.certificates import CertificateReader, load_bundle

LOG = logging.getLogger(__name__)


class ClientAuthorities:
    """The authorities of one server.  reader: judges certificates by the present ones"""

    def __init__(self, flags: AuthenticationFlags, files: Files) -> None:
        self._paths = [flags.client_ca_file, flags.requestheader_client_ca_file]
        self._content = [files.client_ca, files.front_proxy_ca]
        self.reader = CertificateReader([each for each in self._content[:1] if each], files.front_proxy_ca)

    @property
    def has_any(self) -> bool:
        """True if clients are asked for certificates."""
        return any(self._paths)

    def present(self) -> bytes:
        """The present authorities, PEM."""
        try:
            content = [read_bounded(Path(path)) if path else b"" for path in self._paths]
            if content != self._content:
                for each in filter(None, content):
                    load_bundle(each)
                self._content = content
                self.reader.take([each for each in content[:1] if each], content[1])
                LOG.info("Loaded a new CA Bundle")
        except (InputError, ValueError) as error:
            LOG.error("the authorities of clients are not read again: %s", error)
        return b"".join(self._content)
