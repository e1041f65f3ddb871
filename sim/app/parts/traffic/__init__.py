"""The data plane, coarsely: proxies of nodes, the cluster's DNS, and clients of Services.

A run without proxies imports none of its modules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sim.app.parts.ports import BuiltCluster
    from sim.app.parts.traffic.clients import Traffic


def traffic_of(cluster: BuiltCluster) -> Traffic:
    """The proxies of nodes, and the clients of Services."""
    from sim.app.parts.traffic.clients import Traffic

    return Traffic(cluster)
