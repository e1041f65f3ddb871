"""The content of a client configuration (kubeconfig): what its current context names.

Turns the content into the cluster and the user of a context, and these into the address of a
server, its host, or the token of the user.

Mirrors  client-go tools/clientcmd (current-context).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

Entry = Mapping[str, Any]


def cluster_of(config: object, context: str = "") -> Entry:
    """The cluster of a context, "" for the current one.  Raises ValueError."""
    chosen = context_of(config, context)
    return _named(config, "clusters", "cluster", chosen.get("cluster"))


def user_of(config: object, context: str = "") -> Entry:
    """The user of a context, as `cluster_of`; empty if the context has none."""
    chosen = context_of(config, context).get("user")
    return _named(config, "users", "user", chosen) if chosen else {}


def context_of(config: object, name: str = "") -> Entry:
    """A context, "" for the current one: the names of its cluster and its user.  Raises ValueError."""
    chosen = name or (config.get("current-context") if isinstance(config, Mapping) else "")
    if not chosen:
        raise ValueError("current-context is missing")
    return _named(config, "contexts", "context", chosen)


def host_of(address: str) -> str:
    """The host of an address, with or without scheme and port; "" if it has none."""
    try:
        return urlsplit(address if "://" in address else f"//{address}").hostname or ""
    except ValueError:
        return ""


def configured_server(given: Mapping[str, Any]) -> str:
    """The address of the current context's cluster.  Raises ValueError."""
    server = cluster_of(given).get("server")
    if not isinstance(server, str) or not server:
        raise ValueError("the cluster of the current context has no server")
    return server


def configured_token(given: Mapping[str, Any]) -> str:
    """The token of the current context's user.  Raises ValueError."""
    token = user_of(given).get("token")
    if not isinstance(token, str) or not token:
        raise ValueError("the user of the current context has no token")
    return token


def _named(given: object, listed: str, field: str, name: object) -> Entry:
    for each in _listed(given, listed):
        if each.get("name") == name and isinstance(each.get(field), Mapping):
            result: Entry = each[field]
            return result
    names = [str(each["name"]) for each in _listed(given, listed) if "name" in each]
    entry = f" (there are: {', '.join(names)})" if names else ""
    raise ValueError(f"{listed} has no entry {name!r} with a {field}{entry}")


def _listed(given: object, listed: str) -> list[Entry]:
    entries = given.get(listed) if isinstance(given, Mapping) else None
    return [each for each in entries if isinstance(each, Mapping)] if isinstance(entries, list) else []
