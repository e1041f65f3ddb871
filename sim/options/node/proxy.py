"""Options of the proxies of nodes (kube-proxy), in a cluster that has them."""

from __future__ import annotations

from sim.dataclass import dataclass
from sim.units import MS, SECOND


@dataclass(frozen=True, slots=True)
class ProxyOptions:
    """The options of all proxies.

    min_sync_us: `--iptables-min-sync-period`
    sync_us, endpoint_us: what a write of the rules takes, and in addition for each endpoint
    """

    min_sync_us: int = SECOND
    sync_us: int = 50 * MS
    endpoint_us: int = 50


def proxy_of(node: str) -> str:
    """The name of the process that is the proxy of a node."""
    return f"kube-proxy-{node}"
