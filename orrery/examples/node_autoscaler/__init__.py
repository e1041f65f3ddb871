"""A node autoscaler: it adds nodes for pods that find no room, and removes nodes with few of them.

    groups = [Group("small", {"cpu": "4", "memory": "8Gi", "pods": "110"}, most=10)]
    cluster.add_program("node-autoscaler", lambda client: node_autoscaler.run(client, groups))

A new node is a Node object with the label `GROUP`; `adoptNodes` of a scenario gives it a machine,
which ends with the object.
"""

from orrery.examples.node_autoscaler.decide import (
    GROUP,
    LEAVING,
    Decision,
    Group,
    Memory,
    Options,
    Seen,
    decide,
)
from orrery.examples.node_autoscaler.loop import run

__all__ = ["GROUP", "LEAVING", "Decision", "Group", "Memory", "Options", "Seen", "decide", "run"]
