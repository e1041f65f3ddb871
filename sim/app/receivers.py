"""Services that a client configuration (kubeconfig) names: their addresses and connections.

Holds: paths in the file are relative to its folder; the certificate of a service is verified,
unless the file says otherwise.

Mirrors  kubernetes v1.25 client-go tools/clientcmd (loader.go, client_config.go) as
         apiserver pkg/util/webhook uses it.
Differs  proxies, plugins for credentials and impersonation are not read.
"""

from __future__ import annotations

import ssl
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

from sim.errors import InputError
from sim.files import read_bounded
from sim.scenario.read.source import read_document
from sim.wire.outside.calls import Receiver
from sim.wire.tls import client_context


def read_receiver(path: Path) -> Receiver:
    """The service of the current context.  Raises InputError."""
    config = read_document(path).value
    try:
        current = _named(config, "contexts", "context", config["current-context"])
        cluster = _named(config, "clusters", "cluster", current["cluster"])
        user = _named(config, "users", "user", current["user"]) if current.get("user") else {}
        url = cluster["server"]
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"is no client configuration: {error!r}", str(path)) from None
    if not isinstance(url, str) or not url.startswith(("https://", "http://")):
        raise InputError("names no server that is reached by http or https", str(path))
    try:
        context = _context(cluster, user, path.parent) if url.startswith("https") else None
    except (InputError, OSError, ValueError, TypeError) as error:
        raise InputError(f"its certificates cannot be used: {error}", str(path)) from None
    return Receiver(url, _headers(user), context)


def _named(config: Any, listed: str, field: str, name: str) -> dict[str, Any]:
    """One entry of a list of the configuration; raises KeyError."""
    for each in config.get(listed) or ():
        if each["name"] == name:
            return dict(each[field])
    raise KeyError(name)


def _headers(user: dict[str, Any]) -> dict[str, str]:
    if user.get("token"):
        return {"Authorization": f"Bearer {user['token']}"}
    if user.get("username"):
        pair = f"{user['username']}:{user.get('password', '')}".encode()
        return {"Authorization": f"Basic {b64encode(pair).decode()}"}
    return {}


def _context(cluster: dict[str, Any], user: dict[str, Any], folder: Path) -> ssl.SSLContext:
    authority = _content(cluster, "certificate-authority", folder)
    certificate, key = (_content(user, name, folder) for name in ("client-certificate", "client-key"))
    pair = certificate + b"\n" + key if certificate and key else b""
    unverified = cluster.get("insecure-skip-tls-verify") or False
    if not isinstance(unverified, bool):  # `no` is a text
        raise TypeError("insecure-skip-tls-verify is true or false")
    return client_context(authority, pair, verified=not unverified)


def _content(entry: dict[str, Any], name: str, folder: Path) -> bytes:
    """What `NAME-data` holds, or the file that `NAME` names; b"" for neither."""
    if entry.get(f"{name}-data"):
        return b64decode(entry[f"{name}-data"])
    return read_bounded(folder / entry[name]) if entry.get(name) else b""
