"""The observer's view of the cluster: the node, zone and owners of each object.

Turns changes of nodes into their zones, and changes of ReplicaSets and Jobs into the owners of
their pods; returns the node and the zone of an object and the names of its owners. It is outside of
the simulation: it sees a commit at the instant it happens and influences nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from sim.api.store import Change
from sim.api.types import Obj
from sim.ident import Names

if TYPE_CHECKING:
    from sim.check.origins import Origins

# Objects between a Deployment or a CronJob, which users name, and its pods.
BETWEEN = ("jobs", "replicasets")


def split_key(key: str) -> tuple[str, str, str]:
    """A store key's resource, namespace and name: "/apps/replicasets/default/web" gives the last
    three.
    """
    _, _, resource, namespace, name = key.split("/", 4)
    return resource, namespace, name


class World:
    """The zone of every node that exists or existed.

    zones: zones of machines; their agents record events before they register
    """

    def __init__(self, names: Names, zones: Mapping[str, str] | None = None) -> None:
        self.names = names
        # The resources of which `see` needs commits; see `follow_pods`.
        self.resources: tuple[str, ...] = ("nodes", *BETWEEN)
        self.zone_of_node = dict(zones or {})
        self._node_of_pod: dict[str, str] = {}
        # By uid of a ReplicaSet or Job that has owners.
        self._owners_of: dict[str, Sequence[Obj]] = {}
        self.origins: Origins | None = None  # of the records, if an expectation needs them
        self.moved = ""  # the node that changed its zone in the last commit of a node

    def learn(self, zones: Mapping[str, str]) -> None:
        """Take in the zones of machines that are not known yet."""
        self.zone_of_node = {**zones, **self.zone_of_node}

    def follow_pods(self) -> None:
        """Remember the nodes of pods, for expectations about the place of events on pods; most runs
        have none.
        """
        if "pods" not in self.resources:
            self.resources += ("pods",)

    def see(self, resource: str, change: Change) -> None:
        """Take a commit. The owners of a deleted ReplicaSet and the node of a deleted pod remain
        known for their last pods and events.
        """
        meta = change.item.obj["metadata"]
        if resource == "pods":
            node = (change.item.obj.get("spec") or {}).get("nodeName", "")
            if node or change.prev is None:
                self._node_of_pod[f"{meta['namespace']}/{meta['name']}"] = node
            return
        if resource == "nodes":
            name, zone = meta["name"], (meta.get("labels") or {}).get(self.names.label_zone, "")
            self.moved = "" if self.zone_of_node.get(name, "") == zone else name
            self.zone_of_node[name] = zone
        elif resource in BETWEEN and not change.deleted:
            owners = meta.get("ownerReferences")
            if owners:
                self._owners_of[meta["uid"]] = owners
            else:
                self._owners_of.pop(meta["uid"], None)

    def owners(self, obj: Obj) -> Iterator[str]:
        """The names of an object's owners and, for a ReplicaSet or Job, of its owners."""
        return (owner["name"] for owner in self.references(obj))

    def references(self, obj: Obj) -> Iterator[Obj]:
        """The references to an object's owners and, for a ReplicaSet or Job, to its owners."""
        for owner in obj["metadata"].get("ownerReferences") or ():
            yield owner
            yield from self._owners_of.get(owner["uid"], ())

    def node_of(self, resource: str, obj: Obj) -> str:
        """The node that an object is, is bound to, or represents; "" if there is none.

        An event belongs to the node that it concerns, or to the node of the pod that it concerns,
        or else to the node of the agent that recorded it.
        """
        if resource == "nodes":
            return str(obj["metadata"]["name"])
        if resource == "leases":
            return str(obj["metadata"]["name"])
        if resource == "events":
            about = obj["involvedObject"]
            kind, name = about.get("kind"), about.get("name", "")
            if kind == "Node":
                return str(name)
            pod = f"{about.get('namespace', '')}/{name}" if kind == "Pod" else ""
            return self._node_of_pod.get(pod) or str((obj.get("source") or {}).get("host", ""))
        return str((obj.get("spec") or {}).get("nodeName", ""))

    def zone_of(self, resource: str, obj: Obj) -> str:
        """The zone of an object's node; "" if there is none."""
        return self.zone_of_node.get(self.node_of(resource, obj), "")
