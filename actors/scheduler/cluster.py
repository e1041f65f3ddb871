"""The scheduler's view of nodes and the pods on them, with a log of changes.

Nodes and pods come from informers; pods that the scheduler has just placed are *assumed* until an
informer shows them. Every change that can alter the result of a filter or score for a node is noted
in `log`, so that classes of equal pods (`actors.scheduler.search`) evaluate only those nodes again.

Holds: `order` interleaves the zones, first seen first; sums on a node equal those over its pods; a
node's heartbeat changes nothing here, and a pod's status only if `whole_objects` is set; `layout`
rises when positions or labels change.

Mirrors  kubernetes v1.25 pkg/scheduler/internal/cache/{cache,node_tree}.go, framework/types.go:
         NodeInfo.
Differs  there is no snapshot: cycles do not overlap, so the live state is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from actors.scheduler.images import Counted, Images
from actors.scheduler.match import from_label_selector
from actors.scheduler.pods import (
    Amounts,
    Group,
    PodInfo,
    PodTerm,
    Port,
    Template,
    Templates,
    amounts,
    image_name,
)
from sim.api.objects import zone_key
from sim.api.scheduling import Requirements, Taint, equal_labels, holds, taint_of
from sim.api.types import Obj
from sim.ident import Names
from sim.units import quantity_value

# Changes kept, at least half as many; a class that is further behind evaluates every node.
LOG_MAX = 8_192
ANTI, SCORE, REQUIRED = 0, 1, 2


class NodeInfo:
    """A node and the pods on it.

    obj: the Node object, or None while only pods of the node are known
    facts: a token that is replaced when the node's own properties change
    rooms: results that depend on the node's properties and pods, by demand of a pod
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.obj: Obj | None = None
        self.labels: Mapping[str, str] = {}
        self.taints: tuple[Taint, ...] = ()
        self.unschedulable = False
        self.allocatable = Amounts()
        self.pods_max = 0
        self.images: dict[str, Counted] = {}
        self.facts = object()
        self.requested = Amounts()
        self.scoring = Amounts()
        self.pods: dict[str, PodInfo] = {}
        self.ports: dict[Port, int] = {}
        self.groups: dict[Group, int] = {}
        self.priorities: dict[int, int] = {}
        self.rooms: dict[object, Any] = {}

    def add(self, pod: PodInfo, sign: int = 1) -> None:
        """Add the pod to the node (sign 1) or remove it (sign -1)."""
        template = pod.template
        self.rooms = {}
        if sign > 0:
            self.pods[pod.key] = pod
        else:
            del self.pods[pod.key]
        self.requested.add(template.request, sign)
        self.scoring.add(template.scoring, sign)
        for port in template.ports:
            _count(self.ports, port, sign)
        _count(self.groups, pod.group, sign)
        _count(self.priorities, template.priority, sign)

    def copy(self) -> NodeInfo:
        """Return a copy to which pods can be added, or from which they can be removed."""
        made = NodeInfo.__new__(NodeInfo)
        made.__dict__.update(self.__dict__)
        made.requested, made.scoring = self.requested.copy(), self.scoring.copy()
        made.pods, made.ports, made.groups = dict(self.pods), dict(self.ports), dict(self.groups)
        made.priorities, made.rooms = dict(self.priorities), {}
        return made


def _count(counts: dict[Any, int], key: Any, by: int) -> None:
    left = counts.get(key, 0) + by
    if left:
        counts[key] = left
    else:
        counts.pop(key, None)


def _move(groups: dict[str, dict[str, None]], name: str, was: str | None, now: str | None) -> None:
    """Move the name from one group to the end of another; None stands for no group."""
    if was is not None:
        del groups[was][name]
        if not groups[was]:
            del groups[was]
    if now is not None:
        groups.setdefault(now, {})[name] = None


class Entry:
    """One (anti-)affinity term of existing pods: the sum of its weight by topology value."""

    __slots__ = ("kind", "term", "values", "weight")

    def __init__(self, kind: int, term: PodTerm, weight: int) -> None:
        self.kind = kind
        self.term = term
        self.weight = weight
        self.values: dict[str, int] = {}


class Places:
    """The nodes by zone and by host name. zone_of: the zone of each node"""

    __slots__ = ("hosts", "zone_of", "zones")

    def __init__(self) -> None:
        self.zones: dict[str, dict[str, None]] = {}
        self.zone_of: dict[str, str] = {}
        self.hosts: dict[str, dict[str, None]] = {}


class Versions:
    """Numbers that rise with each change: of the terms of pods, of namespaces, of what selects
    pods, of the labels that selectors read, and of the order of the nodes (`layout`).
    """

    __slots__ = ("entries", "layout", "namespaces", "owners", "selected")

    def __init__(self) -> None:
        self.entries = self.layout = self.namespaces = self.owners = self.selected = 0


class ChangeLog:
    """The latest changes of nodes: the name, and the group of the pod that came or went.

    base: the number of changes that were dropped before them
    """

    __slots__ = ("base", "latest")

    def __init__(self) -> None:
        self.latest: list[tuple[str, Group | None]] = []
        self.base = 0

    @property
    def end(self) -> int:
        """The number of changes so far."""
        return self.base + len(self.latest)


class Cluster:
    """All nodes, the pods on them, and indexes over both.

    gates: the feature gates of pod fields that are on
    whole_objects: True if a plugin may read any part of the objects, so that every change is noted
    order: the nodes, one of each zone in turn
    assumed: keys of pods that were placed and that the informer does not show yet
    nominated: pods that wait for room, by node; `nominations` holds the node by pod
    selected_labels: number of selectors by label key; other labels do not distinguish pods of one
        shape
    """

    def __init__(self, names: Names, gates: Collection[str] = (), *, whole_objects: bool = False) -> None:
        self.names = names
        self.whole_objects = whole_objects
        self.templates = Templates(gates)
        self.nodes: dict[str, NodeInfo] = {}
        self.order: list[NodeInfo] = []
        self.position: dict[str, int] = {}
        self.changes = ChangeLog()
        self.pods: dict[str, PodInfo] = {}  # assigned and assumed
        self.assumed: dict[str, None] = {}
        self.nominated: dict[str, dict[str, PodInfo]] = {}
        self.nominations: dict[str, str] = {}
        self.entries: dict[tuple[int, PodTerm, int], Entry] = {}
        self.versions = Versions()
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.services: dict[str, dict[str, Requirements]] = {}
        self.owners: dict[tuple[str, str, str], Requirements | None] = {}
        self.selected_labels: dict[str, int] = {}
        self._places = Places()
        self.images = Images()
        self._listed = True

    # --- nodes ------------------------------------------------------------------------------------

    def set_node(self, obj: Obj) -> None:
        """Add or update a node."""
        name = obj["metadata"]["name"]
        node = self.nodes.get(name)
        if node is None:
            node = self.nodes[name] = NodeInfo(name)
        old = node.obj
        if old is not None and not self.whole_objects and self._is_same(old, obj):
            node.obj = obj
            self.observe(name)
            return
        labels = obj["metadata"].get("labels") or {}
        if old is None or labels != node.labels:
            for pod in node.pods.values():
                self._count_terms(pod, node, -1)
            self._place(node, labels)
            node.obj = obj
            for pod in node.pods.values():
                self._count_terms(pod, node, 1)
        self._read(node, obj)
        self.touch(name)

    @staticmethod
    def _is_same(old: Obj, new: Obj) -> bool:
        """Return True if no field that the default plugins read has changed."""
        was, now = old.get("status") or {}, new.get("status") or {}
        return (
            old["metadata"].get("labels") == new["metadata"].get("labels")
            and old.get("spec") == new.get("spec")
            and was.get("allocatable") == now.get("allocatable")
            and was.get("images") == now.get("images")
        )

    def _read(self, node: NodeInfo, obj: Obj) -> None:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        node.obj = obj
        node.facts, node.rooms = object(), {}
        node.unschedulable = bool(spec.get("unschedulable"))
        node.taints = tuple(map(taint_of, spec.get("taints") or ()))
        allocatable = status.get("allocatable") or {}
        node.allocatable = amounts(allocatable)
        node.pods_max = quantity_value(allocatable.get("pods", "0"))
        sizes = {
            image_name(name): image.get("sizeBytes") or 0
            for image in status.get("images") or ()
            for name in image.get("names") or ()
        }
        node.images = self.images.hold(node.name, sizes, node.images)

    def observe(self, name: str) -> None:
        """Note that the node was reported without other changes: its images are counted again."""
        node = self.nodes[name]
        images = self.images.count_again(name, node.images)
        if images is not node.images:
            node.images, node.facts = images, object()
            self.touch(name)

    def delete_node(self, name: str) -> None:
        """Remove a node; the pods on it stay until they are removed."""
        node = self.nodes.get(name)
        if node is None or node.obj is None:
            return
        for pod in node.pods.values():
            self._count_terms(pod, node, -1)
        self._place(node, {}, there=False)
        self.images.drop(name, node.images)
        node.images = {}
        node.obj = None
        if not node.pods:
            del self.nodes[name]

    def _place(self, node: NodeInfo, labels: Mapping[str, str], there: bool = True) -> None:
        """Move the node to the zone and host of these labels, or out of all; within a zone it keeps
        its place.
        """
        places = self._places
        was, now = places.zone_of.pop(node.name, None), zone_key(labels, self.names) if there else None
        if was != now:
            _move(places.zones, node.name, was, now)
        if now is not None:
            places.zone_of[node.name] = now
        host = self.names.label_hostname
        _move(places.hosts, node.name, node.labels.get(host), labels.get(host))
        node.labels = labels
        self._listed = False
        self.versions.layout += 1

    def list_nodes(self) -> list[NodeInfo]:
        """Return all nodes, one of each zone in turn."""
        if not self._listed:
            columns = [list(zone) for zone in self._places.zones.values()]
            deepest = max((len(column) for column in columns), default=0)
            self.order = [
                self.nodes[column[row]] for row in range(deepest) for column in columns if row < len(column)
            ]
            self.position = {node.name: at for at, node in enumerate(self.order)}
            self._listed = True
        return self.order

    # --- pods -------------------------------------------------------------------------------------

    def set_pod(self, pod: PodInfo) -> None:
        """Add or update a pod that has a node; an assumed pod is then no longer only assumed."""
        self.assumed.pop(pod.key, None)
        self._set(pod)

    def assume(self, pod: PodInfo) -> None:
        """Add a pod to the node that was chosen for it."""
        self.assumed[pod.key] = None
        self._set(pod)

    def _set(self, pod: PodInfo) -> None:
        old = self.pods.get(pod.key)
        self.pods[pod.key] = pod
        if old is not None:
            if old.node_name == pod.node_name and old.group is pod.group and old.template is pod.template:
                self.nodes[pod.node_name].pods[pod.key] = pod
                self.note_update(pod)
                return
            self._take(old)
        node = self.nodes.get(pod.node_name)
        if node is None:
            node = self.nodes[pod.node_name] = NodeInfo(pod.node_name)
        node.add(pod)
        self._count_terms(pod, node, 1)
        self.touch(node.name, pod.group)

    def note_update(self, pod: PodInfo) -> None:
        """Note that the object of a pod with a node changed in parts that the default plugins do
        not read.
        """
        if self.whole_objects:
            self.touch(pod.node_name)

    def remove_pod(self, key: str) -> None:
        """Remove a pod, if it is there."""
        pod = self.pods.pop(key, None)
        self.assumed.pop(key, None)
        if pod is not None:
            self._take(pod)

    def _take(self, pod: PodInfo) -> None:
        node = self.nodes[pod.node_name]
        node.add(pod, -1)
        self._count_terms(pod, node, -1)
        self.touch(node.name, pod.group)
        if node.obj is None and not node.pods:
            del self.nodes[node.name]

    def _count_terms(self, pod: PodInfo, node: NodeInfo, sign: int) -> None:
        """Count the pod's terms at its node's topology values."""
        template = pod.template
        for term in template.pod_terms.forbidden:
            self._count_term(ANTI, term, 1, node, sign)
        for term in template.pod_terms.required:
            self._count_term(REQUIRED, term, 1, node, sign)
        for weight, term in template.pod_terms.preferred:
            self._count_term(SCORE, term, weight, node, sign)

    def _count_term(self, kind: int, term: PodTerm, weight: int, node: NodeInfo, sign: int) -> None:
        value = node.labels.get(term.topology_key)
        if value is None:
            return
        key = (kind, term, weight)
        entry = self.entries.get(key)
        if entry is None:
            entry = self.entries[key] = Entry(kind, term, weight)
            self.versions.entries += 1
            self._select(term.selector, 1)
        _count(entry.values, value, sign * weight)
        if not entry.values:
            del self.entries[key]
            self.versions.entries += 1
            self._select(term.selector, -1)

    def _select(self, selector: Requirements | None, sign: int) -> None:
        for label, _, _ in selector or ():
            _count(self.selected_labels, label, sign)
            self.versions.selected += 1

    def concerning(self, template: Template) -> list[Entry]:
        """Return the terms of existing pods that match such pods."""
        return [
            entry
            for entry in self.entries.values()
            if entry.term.matches(template.namespace, template.labels, self.namespaces)
        ]

    def touch(self, name: str, group: Group | None = None) -> None:
        """Note that results for this node, and for others with its hostname, may have changed.

        group: the group of the pod that was added or removed; None if something else has changed
        """
        log = self.changes.latest
        log.append((name, group))
        node = self.nodes.get(name)
        if node is not None and node.obj is not None:
            sharing = self._places.hosts.get(node.labels.get(self.names.label_hostname, ""))
            if sharing is not None and len(sharing) > 1:
                log.extend([(other, None) for other in sharing])
        if len(log) > LOG_MAX:
            # Only the older half, so that classes that follow closely need not evaluate every node.
            gone = len(log) // 2
            self.changes.base += gone
            del log[:gone]

    # --- nominations ------------------------------------------------------------------------------

    def nominate(self, pod: PodInfo, node_name: str) -> None:
        """Note that the pod waits for room on this node; "" if it waits on none."""
        self.forget_nomination(pod.key)
        if node_name:
            self.nominations[pod.key] = node_name
            self.nominated.setdefault(node_name, {})[pod.key] = pod
            for term in pod.template.pod_terms.forbidden:
                self._select(term.selector, 1)

    def forget_nomination(self, key: str) -> None:
        """Note that the pod waits for room on no node."""
        before = self.nominations.pop(key, None)
        if before is not None:
            held = self.nominated[before]
            for term in held.pop(key).template.pod_terms.forbidden:
                self._select(term.selector, -1)
            if not held:
                del self.nominated[before]

    # --- namespaces, services and owners ----------------------------------------------------------

    def set_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        """Set the labels of a namespace; None if it was deleted."""
        if labels is None:
            self.namespaces.pop(name, None)
        elif self.namespaces.get(name) != labels:
            self.namespaces[name] = labels
            self.versions.namespaces += 1

    def set_service(self, namespace: str, name: str, obj: Obj | None) -> None:
        """Set a service; pods are spread by its selector. None if it was deleted."""
        selector = equal_labels((obj or {}).get("spec", {}).get("selector") or {})
        held = self.services.setdefault(namespace, {})
        if held.get(name, ()) != selector:
            self._select(held.get(name), -1)
            self._select(selector, 1)
            held[name] = selector
            self.versions.owners += 1
            if not selector:
                del held[name]

    def set_owner(self, kind: str, obj: Obj, deleted: bool = False) -> None:
        """Set a ReplicaSet, StatefulSet or ReplicationController; its selector spreads its pods."""
        meta, selector = obj["metadata"], obj["spec"].get("selector")
        key = (kind, meta["namespace"], meta["name"])
        if deleted:
            self._select(self.owners.pop(key, None), -1)
            self.versions.owners += 1
            return
        plain = kind == "ReplicationController"
        made = equal_labels(selector or {}) if plain else from_label_selector(selector)
        if self.owners.get(key, ()) != made:
            self._select(self.owners.get(key), -1)
            self._select(made, 1)
            self.owners[key] = made
            self.versions.owners += 1

    def default_selector(
        self, namespace: str, labels: Mapping[str, str], owner: tuple[str, str]
    ) -> Requirements:
        """Return the selectors of the pod's services and of its controller, joined; empty if there
        are none.
        """
        found: list[Any] = []
        services: Iterable[Requirements] = self.services.get(namespace, {}).values()
        for selector in services:
            if holds(selector, labels):
                found.extend(selector)
        found.extend(self.owners.get((owner[0], namespace, owner[1])) or ())
        return tuple(sorted(dict.fromkeys(found)))
