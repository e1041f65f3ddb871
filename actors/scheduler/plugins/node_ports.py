"""Keeps pods off nodes on which their host ports are taken.

Mirrors  kubernetes v1.25 pkg/scheduler/framework/plugins/nodeports, framework/types.go:
         HostPortInfo.
"""

from __future__ import annotations

from actors.scheduler.cluster import NodeInfo
from actors.scheduler.plugins.base import ClusterEvent, DefaultPlugin, Reads, Status
from actors.scheduler.pods import Port, Template

PORTS = Status("NodePorts", ("node(s) didn't have free ports for the requested pod ports",))


class NodePorts(DefaultPlugin):
    """Refuses nodes on which another pod uses one of the pod's host ports."""

    name = "NodePorts"
    events = ClusterEvent.POD_DELETE | ClusterEvent.NODE
    reads = Reads.ROOM

    def filter(self, pod: Template, node: NodeInfo) -> Status | None:
        """Refuse a node on which a port is taken."""
        return PORTS if pod.ports and any(_is_taken(port, node) for port in pod.ports) else None


def _is_taken(port: Port, node: NodeInfo) -> bool:
    address, protocol, number = port
    if port in node.ports or ("0.0.0.0", protocol, number) in node.ports:
        return True
    return address == "0.0.0.0" and any(p == protocol and n == number for _, p, n in node.ports)
