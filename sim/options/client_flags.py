"""Options of the controller manager about the API server that it uses.

Turns an address, or a client configuration, into the name of one API server.

Mirrors  kubernetes v1.25 cmd/kube-controller-manager/app/options/options.go (master, kubeconfig:
         the address overrides the one of the configuration) and client-go tools/clientcmd
         (current-context).
Differs  without both options the process uses every API server in turn, where upstream reads the
         configuration of the pod that it runs in. Of a configuration only the server's address is
         read: a simulated process has the identity that kubeadm gives it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from sim.options.base import document, option, string
from sim.options.volume_flags import VolumeFlags


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


def _named(given: Mapping[str, Any], listed: str, field: str, name: object) -> Mapping[str, Any]:
    entries = given.get(listed)
    for each in entries if isinstance(entries, list) else ():
        if isinstance(each, Mapping) and each.get("name") == name and isinstance(each.get(field), Mapping):
            found: Mapping[str, Any] = each[field]
            return found
    raise ValueError(f"{listed} has no entry {name!r} with a {field}")


@dataclass(frozen=True, slots=True)
class ClientFlags(VolumeFlags):
    """The options that choose an API server."""

    master: str = option(
        "master",
        string,
        "",
        "the only API server that the process uses, such as https://apiserver-0 (default: all, in turn)",
    )
    client_config: Mapping[str, Any] = option(
        "{short}config",
        document,
        {},
        "a file beside the scenario, or its content: the server of its current context is used, unless master is given",
    )

    def check_client(self) -> None:
        """Raises ValueError if the options name no server."""
        if self.client_config:
            try:
                configured_server(self.client_config)
            except ValueError as problem:
                raise ValueError(f"config: {problem}") from None
        if (self.master or self.client_config) and not self.server:
            raise ValueError("master: must be the address of an API server, such as https://apiserver-0")

    @property
    def server(self) -> str:
        """The name of the only API server that is used; "" for all."""
        if self.master:
            return host_of(self.master)
        return host_of(configured_server(self.client_config)) if self.client_config else ""
