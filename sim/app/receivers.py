"""Servers that a client configuration (kubeconfig) names: their addresses and connections.

Holds: paths in the file are relative to its folder; the certificate of a service is verified,
unless the file says otherwise.

Mirrors  kubernetes v1.25 client-go tools/clientcmd (loader.go, client_config.go) as
         apiserver pkg/util/webhook uses it.
Differs  proxies, plugins for credentials and impersonation are not read; a token file is read once.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from sim.scenario.read.option_file import OptionFile
from sim.wire.outside.receiver import Receiver
from sim.wire.rest.access import Access, AccessError, Source, access_of
from sim.wire.tls import client_context


def read_receiver(file: OptionFile, context: str = "") -> Receiver:
    """The server of a context, "" for the current one.  Raises InputError."""
    try:
        access = access_of(file.document().value, Path(), context)
    except AccessError as error:
        raise file.error(f"is no client configuration: {error}") from None
    try:
        token = _content(access.token, file).decode().strip()
        basic = f"Basic {access.basic}" if access.basic else ""
        shown = f"Bearer {token}" if token else basic
        tls = _context(access, file) if access.server.startswith("https") else None
    except (OSError, ValueError) as error:
        raise file.error(f"its certificates cannot be used: {error}") from None
    return Receiver(access.server, {"Authorization": shown} if shown else {}, tls)


def _context(access: Access, file: OptionFile) -> ssl.SSLContext:
    authority = _content(access.authorities, file)
    pair = b"\n".join(_content(each, file) for each in (access.certificate, access.key) if each)
    return client_context(authority, pair, verified=access.verified)


def _content(source: Source, file: OptionFile) -> bytes:
    """The data of a configuration, or the content of a file that it names; b"" for neither."""
    return source.data if source.file is None else file.beside(str(source.file)).data()
