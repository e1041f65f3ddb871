"""What an omniscient observer knows of the cluster: where an object belongs.

Turns changes of nodes into their zones, and answers which node and zone an object belongs to.  It stands outside
the simulation: it sees a commit at the instant it happens and influences nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sim.ident import Names
from sim.machinery.store import Change

Obj = dict[str, Any]


def split_key(key: str) -> tuple[str, str, str]:
    """A store key's resource, namespace and name: "/apps/replicasets/default/web" gives the last three."""
    _, _, resource, namespace, name = key.split("/", 4)
    return resource, namespace, name


class World:
    """The zone of every node that there is or was.  zones: those of machines, whose agents tell events before they register."""

    def __init__(self, names: Names, zones: Mapping[str, str] | None = None) -> None:
        self.names = names
        self.zone_of_node = dict(zones or {})

    def see_node(self, change: Change) -> None:
        meta = change.item.obj["metadata"]
        self.zone_of_node[meta["name"]] = (meta.get("labels") or {}).get(self.names.label_zone, "")

    def node_of(self, resource: str, obj: Obj) -> str:
        """The node an object is, is bound to, or speaks for; "" if none.

        An event's is the node that it is about, else the one whose agent tells it.
        """
        if resource == "nodes":
            return str(obj["metadata"]["name"])
        if resource == "leases":
            return str(obj["metadata"]["name"])
        if resource == "events":
            about = obj["involvedObject"]
            return str(
                about["name"] if about.get("kind") == "Node" else (obj.get("source") or {}).get("host", "")
            )
        return str((obj.get("spec") or {}).get("nodeName", ""))

    def zone_of(self, resource: str, obj: Obj) -> str:
        return self.zone_of_node.get(self.node_of(resource, obj), "")
