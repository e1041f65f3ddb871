"""Restricts a pod to the node in its `spec.nodeName`.

Mirrors  kubernetes v1.25 pkg/scheduler/framework/plugins/nodename.
Differs  it refuses no node: the queue holds only pods without a node name.
"""

from __future__ import annotations

from actors.scheduler.plugins.base import ClusterEvent, DefaultPlugin, Reads


class NodeName(DefaultPlugin):
    """Passes every node."""

    name = "NodeName"
    events = ClusterEvent.NODE
    reads = Reads.NODE
