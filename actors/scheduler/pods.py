"""Turns a pod object into what scheduling needs, shared by all pods with the same demands.

A `Template` is everything about a pod that the default plugins read, parsed once per class of equal
pods; a `PodInfo` is one pod of it. The class is found by the bytes of these parts, so that names,
mounts and environments (which differ per pod) do not split a class.

A `shape` is all of a template except its labels: these differ from pod to pod of a StatefulSet,
although hardly any selector reads them.

Holds: two pods share a Template if and only if no default plugin can distinguish them; a Template
never changes.

Mirrors  kubernetes v1.25 pkg/scheduler/framework/types.go: PodInfo, calculateResource,
         AffinityTerm; pkg/scheduler/util/pod_resources.go: non-zero defaults.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from sys import intern
from typing import Any, NamedTuple

import msgspec

from actors.scheduler.match import from_label_selector, named_nodes
from sim.api.memo import IdentityMemo
from sim.api.objects import controller_of
from sim.api.scheduling import (
    NodeTerm,
    RequiredNodes,
    Requirements,
    equal_labels,
    holds,
    node_term,
    required_nodes,
    tolerations_of,
)
from sim.api.store import Item
from sim.api.types import Obj
from sim.options.features.gates import MATCH_LABEL_KEYS, MIN_DOMAINS, NODE_INCLUSION
from sim.units import quantity_milli, quantity_value

# Counted for scoring if a container requests nothing (pkg/scheduler/util/pod_resources.go).
DEFAULT_MILLI_CPU = 100
DEFAULT_MEMORY = 200 << 20
# Parts of a spec that belong to a class without changes.
_PLAIN_PARTS = (
    "overhead",
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "priority",
    "preemptionPolicy",
)
# The owners with selectors that spread their pods (plugins/helper/spread.go: DefaultSelector):
# their resources, and their names in owner references.
OWNERS = {
    ("apps", "v1", "replicasets"): ("apps/v1", "ReplicaSet"),
    ("apps", "v1", "statefulsets"): ("apps/v1", "StatefulSet"),
    ("", "v1", "replicationcontrollers"): ("v1", "ReplicationController"),
}
# Parsed classes; beyond it the cache starts again empty, which costs only time.
TEMPLATES_MAX = 20_000

# Sources of volumes that a plugin reads; most pods have none of them.
_SOURCES = frozenset(
    ("persistentVolumeClaim", "ephemeral", "gcePersistentDisk", "awsElasticBlockStore", "azureDisk", "cinder")
) | {"iscsi", "rbd"}

Port = tuple[str, str, int]
NamespaceLabels = Mapping[str, Mapping[str, str]]
_NO_LABELS: Mapping[str, str] = {}


class Group:
    """Pods that no selector can distinguish.

    terminating: True if the pods are being deleted
    """

    __slots__ = ("labels", "namespace", "terminating")

    def __init__(self, namespace: str, labels: Mapping[str, str], terminating: bool) -> None:
        self.namespace = namespace
        self.labels = labels
        self.terminating = terminating


class PodTerm(NamedTuple):
    """A pod affinity term with its namespaces resolved."""

    topology_key: str
    selector: Requirements | None
    namespaces: tuple[str, ...]
    namespace_selector: Requirements | None

    def matches(self, namespace: str, labels: Mapping[str, str], of_namespaces: NamespaceLabels) -> bool:
        """Return True if the term selects a pod of this namespace with these labels."""
        if namespace not in self.namespaces and not (
            self.namespace_selector is not None
            and holds(self.namespace_selector, of_namespaces.get(namespace, _NO_LABELS))
        ):
            return False
        return holds(self.selector, labels)


class Spread(NamedTuple):
    """A topology spread constraint.

    any_node: True if nodes that the pod's affinity leaves out are domains too
    tolerated: True if only nodes with taints that the pod tolerates are domains
    """

    topology_key: str
    max_skew: int
    selector: Requirements | None
    min_domains: int = 0
    any_node: bool = False
    tolerated: bool = False


NO_SCALARS: Mapping[str, int] = {}


class Amounts:
    """Requested or available amounts; CPU in thousandths of a core, the others in whole units.

    scalars: other resources, mostly none; a change replaces the mapping, so that copies can share
        it
    """

    __slots__ = ("cpu", "ephemeral", "memory", "scalars")

    def __init__(
        self, cpu: int = 0, memory: int = 0, ephemeral: int = 0, scalars: Mapping[str, int] = NO_SCALARS
    ) -> None:
        self.cpu = cpu
        self.memory = memory
        self.ephemeral = ephemeral
        self.scalars = scalars

    @property
    def nothing(self) -> bool:
        """True if all amounts are 0."""
        return not (self.cpu or self.memory or self.ephemeral or self.scalars)

    def copy(self) -> Amounts:
        """Return a copy that can be changed."""
        return Amounts(self.cpu, self.memory, self.ephemeral, self.scalars)

    def add(self, other: Amounts, sign: int = 1) -> None:
        """Add the other amounts (sign 1) or subtract them (sign -1)."""
        self.cpu += sign * other.cpu
        self.memory += sign * other.memory
        self.ephemeral += sign * other.ephemeral
        for name, amount in other.scalars.items():
            self.scalars = {**self.scalars, name: self.scalars.get(name, 0) + sign * amount}

    def at_least(self, other: Amounts) -> None:
        """Raise each amount to the other one if that is greater."""
        self.cpu = max(self.cpu, other.cpu)
        self.memory = max(self.memory, other.memory)
        self.ephemeral = max(self.ephemeral, other.ephemeral)
        for name, amount in other.scalars.items():
            self.scalars = {**self.scalars, name: max(self.scalars.get(name, 0), amount)}


def amounts(resources: Mapping[str, Any]) -> Amounts:
    """Parse a resource list; resources other than cpu, memory, ephemeral-storage and pods are
    scalars.
    """
    result = Amounts()
    for name, text in resources.items():
        if name == "cpu":
            result.cpu = quantity_milli(text)
        elif name == "memory":
            result.memory = quantity_value(text)
        elif name == "ephemeral-storage":
            result.ephemeral = quantity_value(text)
        elif name != "pods":
            result.scalars = {**result.scalars, name: quantity_value(text)}
    return result


class Demand:
    """The room that a pod demands on a node; `Templates` keeps one object for each demand.

    scores: remembered scores of nodes by load (see `search.room.room_score`)
    """

    __slots__ = ("key", "scores")

    def __init__(
        self, ports: tuple[Port, ...], request: Amounts, scoring: Amounts, unscored_cpu: int
    ) -> None:
        scalars = tuple(sorted(request.scalars.items()))
        self.key = (
            ports, request.cpu, request.memory, request.ephemeral, scalars,
            scoring.cpu, scoring.memory, unscored_cpu,
        )  # fmt: skip
        self.scores: dict[tuple[int, ...], int] = {}


class NodeTerms(NamedTuple):
    """What a pod says of its node.

    names: of the nodes that the required terms name; None if they name none
    preferred: with their weights
    """

    required: RequiredNodes
    names: tuple[str, ...] | None
    preferred: tuple[tuple[int, NodeTerm], ...]


class PodTerms(NamedTuple):
    """What a pod says of the pods near it.

    forbidden: of its required anti-affinity
    preferred: with their weights, which are negative for anti-affinity
    """

    required: tuple[PodTerm, ...]
    forbidden: tuple[PodTerm, ...]
    preferred: tuple[tuple[int, PodTerm], ...]


class Template:
    """The parts of a pod that the default plugins read, under the names in the pod's spec.

    shape: one object for all templates that differ only in their labels
    own_keys: the labels that the pod's own terms and constraints read
    unscored_cpu: CPU overhead that does not count for scores, in thousandths of a core
    """

    def __init__(self, pod: Obj, gates: Collection[str] = ()) -> None:
        meta, spec = pod["metadata"], pod["spec"]
        self.shape = object()
        self.namespace: str = meta["namespace"]
        self._label(meta.get("labels") or {})
        self.owner = _controller(pod)
        self.priority: int = spec.get("priority") or 0
        self.never_preempts = spec.get("preemptionPolicy") == "Never"
        self.tolerations = tolerations_of(spec)
        self._requests(spec)
        self.demand = Demand(self.ports, self.request, self.scoring, self.unscored_cpu)
        affinity = spec.get("affinity") or {}
        self.node_terms = node_terms_of(required_nodes(spec), affinity.get("nodeAffinity") or {})
        self.pod_terms = self._pod_terms(affinity)
        constraints = spec.get("topologySpreadConstraints") or ()
        self.own_spread = bool(constraints)
        hard, soft = (
            tuple([_spread(c, self.labels, gates) for c in constraints if c["whenUnsatisfiable"] == action])
            for action in ("DoNotSchedule", "ScheduleAnyway")
        )
        self.hard, self.soft = hard, soft
        selectors = (
            *(spread.selector for spread in (*self.hard, *self.soft)),
            *(term.selector for term in (*self.pod_terms.required, *self.pod_terms.forbidden)),
            *(term.selector for _, term in self.pod_terms.preferred),
        )
        self.own_keys = frozenset(need[0] for selector in selectors for need in selector or ())

    def _label(self, labels: Mapping[str, str]) -> None:
        self.labels = labels
        self.groups = (Group(self.namespace, labels, False), Group(self.namespace, labels, True))

    def labelled(self, labels: Mapping[str, str]) -> Template:
        """Return the template of the same shape with these labels."""
        made = Template.__new__(Template)
        made.__dict__.update(self.__dict__)
        made._label(labels)
        return made

    def _requests(self, spec: Mapping[str, Any]) -> None:
        containers = spec.get("containers") or ()
        self.request, self.scoring = Amounts(), Amounts()
        for container in containers:
            requested = amounts((container.get("resources") or {}).get("requests") or {})
            self.request.add(requested)
            self.scoring.add(_for_scoring(container, requested))
        for container in spec.get("initContainers") or ():
            requested = amounts((container.get("resources") or {}).get("requests") or {})
            self.request.at_least(requested)
            self.scoring.at_least(_for_scoring(container, requested))
        overhead = amounts(spec.get("overhead") or {})
        self.request.add(overhead)
        self.scoring.add(overhead)
        # Quirk: for a pod without a node, scores count each whole core of overhead as a thousandth.
        self.unscored_cpu = overhead.cpu - -(-overhead.cpu // 1000)
        self.ports: tuple[Port, ...] = tuple(
            (port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", port["hostPort"])
            for container in containers
            for port in container.get("ports") or ()
            if port.get("hostPort")
        )
        self.images = tuple(image_name(container.get("image") or "") for container in containers)

    def _pod_terms(self, affinity: Mapping[str, Any]) -> PodTerms:
        near, far = affinity.get("podAffinity") or {}, affinity.get("podAntiAffinity") or {}
        preferred = tuple(
            (sign * item["weight"], self._term(item["podAffinityTerm"]))
            for sign, side in ((1, near), (-1, far))
            for item in side.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        )
        return PodTerms(
            self._terms(near.get("requiredDuringSchedulingIgnoredDuringExecution")),
            self._terms(far.get("requiredDuringSchedulingIgnoredDuringExecution")),
            preferred,
        )

    def _terms(self, terms: list[Mapping[str, Any]] | None) -> tuple[PodTerm, ...]:
        return tuple(map(self._term, terms or ()))

    def _term(self, term: Mapping[str, Any]) -> PodTerm:
        namespaces = tuple(term.get("namespaces") or ())
        selector = term.get("namespaceSelector")
        if not namespaces and selector is None:
            namespaces = (self.namespace,)
        return PodTerm(
            term["topologyKey"],
            from_label_selector(term.get("labelSelector")),
            namespaces,
            from_label_selector(selector),
        )


def node_terms_of(required: RequiredNodes, affinity: Mapping[str, Any]) -> NodeTerms:
    """What a required selection and the preferences of a node affinity say of nodes."""
    # An empty preference matches no node; if it matched all, the other preferences would count
    # less.
    preferred = tuple(
        (item["weight"], term)
        for item in affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        if not (term := node_term(item["preference"])).empty
    )
    return NodeTerms(required, named_nodes(required.terms), preferred)


def _for_scoring(container: Mapping[str, Any], requested: Amounts) -> Amounts:
    requests = (container.get("resources") or {}).get("requests") or {}
    return Amounts(
        requested.cpu if "cpu" in requests else DEFAULT_MILLI_CPU,
        requested.memory if "memory" in requests else DEFAULT_MEMORY,
    )


def _spread(constraint: Mapping[str, Any], labels: Mapping[str, str], gates: Collection[str]) -> Spread:
    selector = from_label_selector(constraint.get("labelSelector"))
    if MATCH_LABEL_KEYS in gates and selector is not None:
        keys = dict.fromkeys(constraint.get("matchLabelKeys") or ())
        selector = equal_labels({key: labels[key] for key in keys if key in labels}) + selector
    includes = NODE_INCLUSION in gates
    return Spread(
        constraint["topologyKey"],
        constraint["maxSkew"],
        selector,
        (constraint.get("minDomains") or 0) if MIN_DOMAINS in gates else 0,
        includes and constraint.get("nodeAffinityPolicy") == "Ignore",
        includes and constraint.get("nodeTaintsPolicy") == "Honor",
    )


def _match_label_values(pod: Obj) -> list[str | None]:
    """Return the label values that the pod's own spread constraints read (matchLabelKeys)."""
    labels = pod["metadata"].get("labels") or {}
    constraints = pod["spec"].get("topologySpreadConstraints") or ()
    return [labels.get(key) for each in constraints for key in each.get("matchLabelKeys") or ()]


def _controller(pod: Obj) -> tuple[str, str]:
    """Return (kind, name) of the controller if its selector spreads its pods, or two empty strings."""
    owner = controller_of(pod)
    if owner is None or (owner["apiVersion"], owner["kind"]) not in OWNERS.values():
        return "", ""
    return owner["kind"], owner["name"]


def image_name(image: str) -> str:
    """Return the image name with an explicit tag (ImageLocality: normalizedImageName)."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


def is_terminating(pod: Obj) -> bool:
    """Return True if the pod is being deleted."""
    return "deletionTimestamp" in pod["metadata"]


class PodInfo:
    """One pod in the scheduler's view.

    held: its latest object, or the store item of that object
    volumes: those that the scheduler reads
    """

    __slots__ = ("held", "key", "node_name", "template", "terminating", "volumes")

    def __init__(self, obj: Obj, template: Template, node_name: str = "") -> None:
        meta = obj["metadata"]
        self.held: Obj | Item = obj
        self.template = template
        self.key: str = intern(f"{meta['namespace']}/{meta['name']}")  # the informer's own
        self.node_name: str = node_name or obj["spec"].get("nodeName") or ""
        self.terminating = is_terminating(obj)
        volumes = obj["spec"].get("volumes") or ()
        self.volumes = tuple([volume for volume in volumes if _SOURCES & volume.keys()])

    @property
    def obj(self) -> Obj:
        """The pod object."""
        held = self.held
        return held if type(held) is dict else held.obj  # type: ignore[union-attr]

    def has_same_demands(self, pod: Obj) -> bool:
        """Return True if the spec and labels of this later state of the pod are the same objects."""
        held: Any = self.held
        old = held if type(held) is dict else held.obj
        return old["spec"] is pod["spec"] and old["metadata"].get("labels") is pod["metadata"].get("labels")

    @property
    def group(self) -> Group:
        """The pods that selectors cannot distinguish from this one."""
        return self.template.groups[self.terminating]

    @property
    def uid(self) -> str:
        """The pod's uid, "" if it has none."""
        return str(self.obj["metadata"].get("uid", ""))

    @property
    def nominated(self) -> str:
        """The nominated node in the pod's status, "" if there is none."""
        return str((self.obj.get("status") or {}).get("nominatedNodeName") or "")

    @property
    def start_time(self) -> str:
        """The start of the pod as comparable text; a pod that has not started counts as the latest."""
        return str((self.obj.get("status") or {}).get("startTime") or "~")


def binding(pod: PodInfo, node: str) -> Obj:
    """Return the Binding that assigns the pod to the node."""
    meta = pod.obj["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": meta["namespace"], "name": meta["name"], "uid": pod.uid},
        "target": {"kind": "Node", "name": node},
    }


class Templates:
    """The classes of equal pods that have occurred.

    gates: the feature gates of pod fields that are on
    """

    def __init__(self, gates: Collection[str] = ()) -> None:
        self._gates = gates
        self._known: dict[tuple[bytes, bytes], Template] = {}
        self._shapes: dict[bytes, Template] = {}
        self._demands: dict[tuple[Any, ...], Demand] = {}
        self._seen: IdentityMemo[Template] = IdentityMemo()
        self._encode = msgspec.json.Encoder().encode

    def info(self, pod: Obj, before: PodInfo | None = None) -> PodInfo:
        """Return the pod's info; `before`, its earlier info, saves the look-up if nothing changed."""
        same = before is not None and before.has_same_demands(pod)
        return PodInfo(pod, before.template if before is not None and same else self.template(pod))

    def template(self, pod: Obj) -> Template:
        """Return the template of the pod's class."""
        meta, get = pod["metadata"], pod["spec"].get
        parts = (
            meta["namespace"],
            meta.get("labels"),
            meta.get("ownerReferences"),
            get("containers"),
            get("initContainers"),
            *map(get, _PLAIN_PARTS),
        )
        return self._seen.get(*parts) or self._seen.put(self._find(pod), *parts)

    def _find(self, pod: Obj) -> Template:
        """Find the template by content, since equal parts need not be the same objects."""
        meta, get = pod["metadata"], pod["spec"].get
        labels = meta.get("labels") or {}
        shape = self._encode(
            (
                meta["namespace"],
                _controller(pod),
                [(c.get("image"), c.get("resources"), c.get("ports")) for c in get("containers") or ()],
                [c.get("resources") for c in get("initContainers") or ()],
                [get(part) for part in _PLAIN_PARTS],
                _match_label_values(pod),
            )
        )
        key = (shape, self._encode(labels))
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= TEMPLATES_MAX:
                self._known.clear()
                self._shapes.clear()
                self._demands.clear()
                self._seen = IdentityMemo()
            like = self._shapes.get(shape)
            if like is None:
                known = self._shapes[shape] = Template(pod, self._gates)
                known.demand = self._demands.setdefault(known.demand.key, known.demand)
            else:
                known = like.labelled(labels)
            self._known[key] = known
        return known
