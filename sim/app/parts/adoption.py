"""Machines for Node objects that come through the API.

Turns the Node objects that match a selector, and that no machine of the plan registered, into
machines with agents, and their deletion into the end of the machine.

Holds: a machine is added after the commit that shows its object, and only while the object exists;
    the objects decide, so a replay adds the same machines at the same instants; a machine of the
    plan is never taken away.
Differs  from clouds: a machine boots as soon as its object exists. Its architecture and operating
    system are those of all machines.
"""

from __future__ import annotations

from collections.abc import Mapping

from sim.api.selectors import parse_labels
from sim.api.store import Change
from sim.api.types import Obj
from sim.app.options import node_agent_options
from sim.app.parts.ports import BuiltCluster
from sim.scenario.plan.plan import AdoptionPlan, NodePlan

CAPACITY: Mapping[str, str] = {"cpu": "8", "memory": "32Gi"}  # of an object and a profile without one
SAMPLE: Obj = {"metadata": {"name": "node"}}


class Adoption:
    """Gives machines to the Node objects of a cluster.

    _adopted: the names of the nodes that have a machine because of their object
    """

    def __init__(self, cluster: BuiltCluster, plan: AdoptionPlan) -> None:
        self._cluster = cluster
        self._plan = plan
        self._selector = parse_labels(plan.selector)
        self._adopted: dict[str, None] = {}
        node_agent_options(self._node_plan(SAMPLE), cluster.names)  # raises InputError for bad flags

    def see(self, change: Change) -> None:
        """Take notice of a commit to a Node object."""
        obj = change.item.obj
        name = obj["metadata"]["name"]
        if change.deleted:
            if name in self._adopted:
                self._cluster.kernel.call_later(0, self._remove, name)
        elif name not in self._cluster.nodes and self._selector.matches(obj["metadata"].get("labels")):
            self._cluster.kernel.call_later(0, self._adopt, obj)

    def _adopt(self, obj: Obj) -> None:
        """Add the machine of an object that exists, unless it has one."""
        name = obj["metadata"]["name"]
        # The name of another process cannot be the name of a machine.
        if name not in self._cluster.supervisor.actors:
            self._adopted[name] = None
            self._cluster.add_node(self._node_plan(obj))

    def _remove(self, name: str) -> None:
        """Take the machine away, with all that runs on it and all faults of it."""
        cluster = self._cluster
        if name not in self._adopted:
            return
        del self._adopted[name]
        cluster.faults.heal(name)
        cluster.nodes[name].power_loss()
        cluster.supervisor.remove(name)
        del cluster.nodes[name]
        cluster.options.nodes.pop(name, None)

    def _node_plan(self, obj: Obj) -> NodePlan:
        """The machine of an object: its own capacity and allocatable amounts, else those of the
        profile.
        """
        meta, names, plan = obj["metadata"], self._cluster.names, self._plan
        labels = meta.get("labels") or {}
        status = obj.get("status") or {}
        capacity, allocatable = status.get("capacity") or {}, status.get("allocatable") or {}
        return NodePlan(
            meta["name"],
            labels.get(names.label_zone, ""),
            labels.get(names.label_region, ""),
            {**CAPACITY, **plan.capacity, **{key: str(value) for key, value in capacity.items()}},
            {},
            (),
            plan.runtime,
            plan.flags,
            plan.place,
            plan.places,
            allocatable={key: str(value) for key, value in allocatable.items()},
        )
