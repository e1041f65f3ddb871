"""Options of an API server that runs alone, of which a simulated one has none.

How clients reach it, and how it reaches the agents of nodes.

Mirrors  kubernetes v1.25 apiserver pkg/server/options/server_run_options.go, cmd/kube-apiserver
         app/options/options.go, pkg/kubelet/client/kubelet_client.go.
Differs  without kubelet-preferred-address-types an agent is reached at the internal address of its
         node, since names of nodes resolve nowhere.
"""

from __future__ import annotations

from ipaddress import ip_address

from sim.dataclass import dataclass
from sim.options.base import duration, file_name, integer, one_of, option, string, strings

ADDRESS_TYPES = ("Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP")


def _address(value: str) -> str | None:
    try:
        ip_address(value or "0.0.0.0")
    except ValueError:
        return "failed to parse IP"
    return None


def _types(value: tuple[str, ...]) -> str | None:
    unknown = next((each for each in value if each not in ADDRESS_TYPES), None)
    return None if unknown is None else f"{unknown!r} is none of {', '.join(ADDRESS_TYPES)}"


@dataclass(frozen=True, slots=True)
class ReachFlags:
    """How an API server is reached, and reaches agents."""

    advertise_address: str = option("advertise-address", string, "", check=_address)
    external_hostname: str = option("external-hostname", string, "")
    endpoint_reconciler: str = option(
        "endpoint-reconciler-type", string, "lease", check=one_of("lease", "none")
    )
    apiserver_count: int = option("apiserver-count", integer, 1)
    agent_client_certificate: str = option("{short}let-client-certificate", file_name, "")
    agent_client_key: str = option("{short}let-client-key", file_name, "")
    agent_authority: str = option("{short}let-certificate-authority", file_name, "")
    agent_address_types: tuple[str, ...] = option(
        "{short}let-preferred-address-types", strings, "", check=_types
    )
    agent_timeout_us: int = option("{short}let-timeout", duration, "5s")

    def __post_init__(self) -> None:
        """Raises ValueError for a certificate without its key, or a key alone."""
        if bool(self.agent_client_certificate) is not bool(self.agent_client_key):
            raise ValueError("let-client-certificate and let-client-key are given together")
