"""What an omniscient observer knows of the cluster: where an object belongs, and to whom.

Turns changes of nodes into their zones, and those of ReplicaSets and Jobs into whose pods theirs
are; answers which node and zone an object belongs to, and what its owners are called.  It stands
outside the simulation: it sees a commit at the instant it happens and influences nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sim.api.store import Change
from sim.api.types import Obj
from sim.ident import Names

# What stands between a Deployment or a CronJob, which people speak of, and its pods.
BETWEEN = ("jobs", "replicasets")


def split_key(key: str) -> tuple[str, str, str]:
    """A store key's resource, namespace and name: "/apps/replicasets/default/web" gives the last
    three.
    """
    _, _, resource, namespace, name = key.split("/", 4)
    return resource, namespace, name


class World:
    """The zone of every node that there is or was.  zones: those of machines, whose agents tell
    events before they register.
    """

    def __init__(self, names: Names, zones: Mapping[str, str] | None = None) -> None:
        self.names = names
        # Whose commits `see` learns from; see `follow_pods`.
        self.resources: tuple[str, ...] = ("nodes", *BETWEEN)
        self.zone_of_node = dict(zones or {})
        self._node_of_pod: dict[str, str] = {}
        # by the uid of a ReplicaSet or Job that has some
        self._owners_of: dict[str, Sequence[Obj]] = {}
        self.moved = ""  # the node that the last commit of one has put into another zone

    def follow_pods(self) -> None:
        """Remember where pods are, for those who ask where an event about one belongs: most runs
        have nobody who does.
        """
        if "pods" not in self.resources:
            self.resources += ("pods",)

    def see(self, resource: str, change: Change) -> None:
        """Take a commit in; a ReplicaSet that is gone still tells whose its last pods are, and a
        pod where it was.
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
        """The names of an object's owners, and of those whose ReplicaSet or Job such an owner is."""
        for owner in obj["metadata"].get("ownerReferences") or ():
            yield owner["name"]
            for further in self._owners_of.get(owner["uid"], ()):
                yield further["name"]

    def node_of(self, resource: str, obj: Obj) -> str:
        """The node an object is, is bound to, or speaks for; "" if none.

        An event's is the node that it is about, or that the pod is on that it is about, else the
        one whose agent tells it.
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
        return self.zone_of_node.get(self.node_of(resource, obj), "")
