"""The API server that a client configuration names.

Turns the content of a configuration into the address of a server, and that into its host, or into
the token of its user.

Mirrors  client-go tools/clientcmd (current-context).
Differs  of a configuration only the server's address and a token are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit


def host_of(address: str) -> str:
    """The host of an address, with or without scheme and port; "" if it has none."""
    try:
        return urlsplit(address if "://" in address else f"//{address}").hostname or ""
    except ValueError:
        return ""


def configured_server(given: Mapping[str, Any]) -> str:
    """The address of the current context's cluster.  Raises ValueError."""
    current = _named(given, "contexts", "context", given.get("current-context"))
    server = _named(given, "clusters", "cluster", current.get("cluster")).get("server")
    if not isinstance(server, str) or not server:
        raise ValueError("the cluster of the current context has no server")
    return server


def configured_token(given: Mapping[str, Any]) -> str:
    """The token of the current context's user.  Raises ValueError."""
    current = _named(given, "contexts", "context", given.get("current-context"))
    token = _named(given, "users", "user", current.get("user")).get("token")
    if not isinstance(token, str) or not token:
        raise ValueError("the user of the current context has no token")
    return token


def _named(given: Mapping[str, Any], listed: str, field: str, name: object) -> Mapping[str, Any]:
    entries = given.get(listed)
    for each in entries if isinstance(entries, list) else ():
        if isinstance(each, Mapping) and each.get("name") == name and isinstance(each.get(field), Mapping):
            found: Mapping[str, Any] = each[field]
            return found
    raise ValueError(f"{listed} has no entry {name!r} with a {field}")
