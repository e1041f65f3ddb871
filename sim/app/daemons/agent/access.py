"""The API server of a node agent that runs alone, and how the agent is known there.

Turns the client configuration of the agent, or that by which it gets its first certificate, into
credentials; with a bootstrap configuration the other one is written, which names the certificate
of the folder.

Holds: a configuration with a certificate that is still valid is used and not replaced; without a
client configuration the agent has no API server.

Mirrors  kubernetes v1.25 pkg/kubelet/certificate/bootstrap/bootstrap.go: LoadClientConfig,
         isClientConfigStillValid, writeKubeconfigFromBootstrapping; cmd/kubelet/app/server.go:
         buildKubeletClientConfig.
"""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from actors.node.certificates.requests import credential
from actors.node.credentials import Credential
from sim.app.daemons.agent.certificates import Folder
from sim.app.daemons.connection import access_in
from sim.app.daemons.options import read_document
from sim.errors import InputError
from sim.files import replaced
from sim.ident import Names
from sim.wire.rest.access import Access, AccessError, Source

CONTEXT = "default-context"


class Connected(NamedTuple):
    """How an agent reaches its API server.

    document: of the client configuration, {} without an API server
    bootstrap: with which it asks for its first certificate
    proxy: with which its machine reads Services
    """

    document: Mapping[str, Any]
    main: Access | None = None
    bootstrap: Access | None = None
    proxy: Access | None = None


def connected(names: Names, values: Mapping[str, object], folder: Folder) -> Connected:
    """The API server that the options name.  Raises InputError, OSError."""
    option = f"{names.short}config"
    file, first = (str(values.get(name, "")) for name in (option, f"bootstrap-{option}"))
    if not first:
        if not file:
            return Connected({})
        document = read_document(file, f"--{option}")
        return Connected(document, access_in(document, file))
    if not file:
        raise InputError(f"needs --{option}, the file that is written", f"--bootstrap-{option}")
    current = _still_valid(file)
    if current is not None:
        return Connected(current[0], current[1], current[1])
    bootstrap = access_in(read_document(first, f"--bootstrap-{option}"), first)
    document = _document_of(bootstrap, folder.current("client"))
    with replaced(Path(file), private=True) as output:
        output.write(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
    return Connected(document, access_in(document, file), bootstrap)


def with_newest(access: Access, folder: Folder) -> Access:
    """An access that uses the newest certificate of the folder, if there is one."""
    current = Source(file=folder.current("client"))
    return replace(access, certificate=current, key=current) if folder.held("client") else access


def certificate_of(access: Access) -> Credential | None:
    """The client certificate of an access; None if there is none that can be read."""
    try:
        return credential(access.certificate.read())
    except (AccessError, ValueError):
        return None


def _still_valid(file: str) -> tuple[Mapping[str, Any], Access] | None:
    """A client configuration with a certificate that has not expired; None for any other."""
    try:
        document = read_document(file, "")
        access = access_in(document, file)
    except InputError:
        return None
    result = certificate_of(access)
    valid = result is not None and result.valid(time.time_ns() // 1000)
    return (document, access) if valid else None


def _document_of(bootstrap: Access, certificate: Path) -> Mapping[str, Any]:
    """The client configuration that names the certificate of the folder."""
    cluster: dict[str, Any] = {"server": bootstrap.server}
    if bootstrap.authorities.data:
        cluster["certificate-authority-data"] = b64encode(bootstrap.authorities.data).decode()
    elif bootstrap.authorities.file is not None:
        cluster["certificate-authority"] = str(bootstrap.authorities.file.resolve())
    if not bootstrap.verified:
        cluster["insecure-skip-tls-verify"] = True
    if bootstrap.server_name:
        cluster["tls-server-name"] = bootstrap.server_name
    if bootstrap.proxy:
        cluster["proxy-url"] = bootstrap.proxy
    path = str(certificate.absolute())
    user = {"client-certificate": path, "client-key": path}
    context = {"cluster": "default-cluster", "user": "default-auth", "namespace": "default"}
    return {
        "kind": "Config",
        "apiVersion": "v1",
        "clusters": [{"name": "default-cluster", "cluster": cluster}],
        "users": [{"name": "default-auth", "user": user}],
        "contexts": [{"name": CONTEXT, "context": context}],
        "current-context": CONTEXT,
    }
