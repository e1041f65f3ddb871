"""Whether a pod has room on a node, as a program beside the scheduler estimates it.  Pure.

Turns nodes and pods into `Place`s: the pods on a node, what is free, and whether another pod fits.

Mirrors  pkg/scheduler/framework/plugins: noderesources/fit.go, nodeaffinity/node_affinity.go,
         tainttoleration/taint_toleration.go, nodeunschedulable/node_unschedulable.go (v1.25).
Differs  ports, volumes and terms about other pods do not count: a pod that fits may still wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from actors.node.pod_spec import amount, requests_of
from sim.api.objects import annotations_of, is_terminal, labels_of, name_of
from sim.api.scheduling import (
    NO_EXECUTE,
    NO_SCHEDULE,
    required_nodes,
    taint_of,
    tolerates,
    tolerations_of,
)
from sim.api.types import Obj
from sim.dataclass import dataclass
from sim.ident import Names

PODS = "pods"
Amounts = dict[str, int]  # CPU in thousandths, every other resource in units


def pod_amounts(pod: Obj) -> Amounts:
    """What a pod takes of its node."""
    return {**dict(requests_of(pod).amounts), PODS: 1}


def node_amounts(node: Obj) -> Amounts:
    """What a node has for pods."""
    status = node.get("status") or {}
    texts: Mapping[str, object] = status.get("allocatable") or status.get("capacity") or {}
    return {name: amount(name, text) for name, text in texts.items()}


def accepts(node: Obj, pod: Obj) -> bool:
    """True if the pod may run on the node, apart from the room there."""
    spec = pod["spec"]
    taints = [taint_of(taint) for taint in node["spec"].get("taints") or ()]
    refusing = [taint for taint in taints if taint[2] in (NO_SCHEDULE, NO_EXECUTE)]
    if node["spec"].get("unschedulable") or not required_nodes(spec).match(name_of(node), labels_of(node)):
        return False
    return all(tolerates(tolerations_of(spec), taint) for taint in refusing)


@dataclass(slots=True)
class Place:
    """A node, the pods on it that have not ended, and what they leave free."""

    node: Obj
    pods: Sequence[Obj]
    free: Amounts

    @property
    def used(self) -> Amounts:
        """What the pods take."""
        return {name: whole - self.free[name] for name, whole in node_amounts(self.node).items()}

    def fits(self, pod: Obj) -> bool:
        """True if the node accepts the pod and has room for it."""
        needs = pod_amounts(pod).items()
        return accepts(self.node, pod) and all(need <= self.free.get(name, 0) for name, need in needs)

    def add(self, pod: Obj) -> None:
        """Take the room of one more pod."""
        self.pods = (*self.pods, pod)
        needs = pod_amounts(pod)
        self.free = {name: left - needs.get(name, 0) for name, left in self.free.items()}

    def copy(self) -> Place:
        """A copy that pods can be added to."""
        return Place(self.node, self.pods, self.free)


def places_of(nodes: Iterable[Obj], pods: Iterable[Obj]) -> dict[str, Place]:
    """The place of each node, by its name."""
    places = {name_of(node): Place(node, (), node_amounts(node)) for node in nodes}
    for pod in pods:
        place = places.get(pod["spec"].get("nodeName", ""))
        if place is not None and not is_terminal(pod):
            place.add(pod)
    return places


def is_bound_to_node(pod: Obj, names: Names) -> bool:
    """True for the pods of a DaemonSet and for mirror pods, which have no other node to go to."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return names.annotation_mirror_pod in annotations_of(pod) or any(
        one["kind"] == "DaemonSet" for one in owners
    )


def has_local_storage(pod: Obj) -> bool:
    """True if the pod would lose data with its node."""
    volumes = pod["spec"].get("volumes") or ()
    return any("emptyDir" in volume or "hostPath" in volume for volume in volumes)
