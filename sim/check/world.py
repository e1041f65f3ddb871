"""What an omniscient observer knows of the cluster: every committed object, and where it belongs.

Turns store changes into current objects by resource, and answers which zone, node or owner an object belongs
to.  It stands outside the simulation: it sees a commit at the instant it happens and influences nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sim.ident import Names
from sim.machinery.store import Change

Obj = dict[str, Any]


def split_key(key: str) -> tuple[str, str, str]:
    """A store key's resource, namespace and name: "/apps/replicasets/default/web" gives the last three."""
    _, _, resource, namespace, name = key.split("/", 4)
    return resource, namespace, name


class World:
    """Current objects by resource and key; the zone of every node."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.objects: dict[str, dict[str, Obj]] = {}
        self.zone_of_node: dict[str, str] = {}

    def see(self, change: Change) -> str:
        """Take one change in; returns its resource."""
        key = change.item.key
        resource = key.split("/", 3)[2]
        of_kind = self.objects.get(resource)
        if of_kind is None:
            of_kind = self.objects[resource] = {}
        if change.deleted:
            of_kind.pop(key, None)
        else:
            of_kind[key] = change.item.obj
        if resource == "nodes":
            self._see_node(change)
        return resource

    def _see_node(self, change: Change) -> None:
        meta = change.item.obj["metadata"]
        self.zone_of_node[meta["name"]] = (meta.get("labels") or {}).get(self.names.label_zone, "")

    def all(self, resource: str) -> Iterator[tuple[str, Obj]]:
        return iter(self.objects.get(resource, {}).items())

    def node_of(self, resource: str, obj: Obj) -> str:
        """The node an object is, is bound to, or speaks for; "" if none."""
        if resource == "nodes":
            return str(obj["metadata"]["name"])
        if resource == "leases":
            return str(obj["metadata"]["name"])
        return str((obj.get("spec") or {}).get("nodeName", ""))

    def zone_of(self, resource: str, obj: Obj) -> str:
        return self.zone_of_node.get(self.node_of(resource, obj), "")
