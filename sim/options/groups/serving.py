"""Options of the server of a daemon that is no API server: where it listens, and what it answers.

Turns a probe of another process on the same machine into whether the server answers it.

Mirrors  kubernetes v1.25 apiserver pkg/server/options/{serving,authorization}.go
         (SecureServingOptions, DelegatingAuthorizationOptions), pkg/authorization/path.
Differs  of what the server serves only its health is asked for, by the API servers (the
         componentstatuses); of authorization-kubeconfig only its presence counts: access is
         reviewed by the API server that probes.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from ipaddress import ip_address
from typing import Any

from sim.dataclass import dataclass
from sim.options.base import document, integer, option, string, strings, within
from sim.options.client_config import configured_server

LOCAL = "127.0.0.1"
EVERYWHERE = ("", "0.0.0.0", "::")
PORT_MAX = 65535


class Access(Enum):
    """What a server does with a probe without credentials."""

    REFUSED = "refused"  # it does not listen there
    FORBIDDEN = "forbidden"
    REVIEWED = "reviewed"  # the rights of users that are not known decide
    ALLOWED = "allowed"


def checked_address(value: str) -> str | None:
    """The problem of an address to listen on; None if it has none."""
    try:
        ip_address(value)
    except ValueError:
        return None if not value else "failed to parse IP"
    return None


def _paths(value: tuple[str, ...]) -> str | None:
    wrong = next((each for each in value if "*" in each.removesuffix("*")), None)
    return None if wrong is None else f'only trailing * allowed in "{wrong}"'


@dataclass(frozen=True)  # without slots: it is one of several bases
class ServerFlags:
    """A daemon gives `secure_port` a default of its own."""

    bind_address: str = option(
        "bind-address",
        string,
        "0.0.0.0",
        check=checked_address,
        effect=f"address of the server; componentstatuses probe {LOCAL}",
    )
    secure_port: int = option(
        "secure-port", integer, 0, check=within(0, PORT_MAX), effect="port of the server; 0: none"
    )
    always_allow_paths: tuple[str, ...] = option(
        "authorization-always-allow-paths", strings, "/healthz,/readyz,/livez", check=_paths
    )
    reviews_config: Mapping[str, Any] = option("authorization-kubeconfig", document, {})

    def check_server(self) -> None:
        """Raises ValueError if the configuration for reviews names no server."""
        if self.reviews_config:
            try:
                configured_server(self.reviews_config)
            except ValueError as problem:
                raise ValueError(f"authorization config: {problem}") from None

    def access(self, port: int, path: str) -> Access:
        """What the server does with a local probe of a path, without credentials."""
        if port != self.secure_port or self.bind_address not in (LOCAL, *EVERYWHERE):
            return Access.REFUSED
        if self.allows(path):
            return Access.ALLOWED
        return Access.REVIEWED if self.reviews_config else Access.FORBIDDEN

    def allows(self, path: str) -> bool:
        """True for a path that needs no rights (path.NewAuthorizer)."""
        asked = path.lstrip("/")
        for allowed in self.always_allow_paths:
            prefix = allowed.removesuffix("*").lstrip("/")
            if asked == prefix if not allowed.endswith("*") else asked.startswith(prefix):
                return True
        return False
