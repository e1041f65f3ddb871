"""Turns a pod object into what scheduling needs, shared by all pods that ask for the same.

A `Template` is everything about a pod that filters and scores look at, parsed once per class of equal pods;
a `PodInfo` is one pod of it.  The class is found by the bytes of the parts that count, so that names, mounts
and environments (which differ per pod) do not split a class.

A `shape` is all of a template but its labels: those differ from pod to pod of a StatefulSet, though hardly any
selector asks for them.

Holds: two pods share a Template if and only if no plugin can tell them apart; a Template never changes.

Mirrors  kubernetes v1.25 pkg/scheduler/framework/types.go: PodInfo, calculateResource, AffinityTerm;
         pkg/scheduler/util/pod_resources.go: non-zero defaults.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from sys import intern
from typing import Any, NamedTuple

import msgspec

from actors.scheduler.match import (
    NodeTerm,
    Requirements,
    from_label_selector,
    from_labels,
    holds,
    named_nodes,
    node_term,
)
from sim.api.memo import IdentityMemo
from sim.api.objects import controller_of
from sim.api.store import Item
from sim.api.types import Obj
from sim.options.gates import MATCH_LABEL_KEYS, MIN_DOMAINS, NODE_INCLUSION
from sim.units import quantity_milli, quantity_value

# Counted for scoring where a container asks for nothing (pkg/scheduler/util/pod_resources.go).
DEFAULT_MILLI_CPU = 100
DEFAULT_MEMORY = 200 << 20
# Parts of a spec that count as they are.
_PLAIN_PARTS = (
    "overhead",
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "priority",
    "preemptionPolicy",
)
# The owners whose selectors spread their pods (plugins/helper/spread.go: DefaultSelector): their resources, and how pods
# name them.
OWNERS = {
    ("apps", "v1", "replicasets"): ("apps/v1", "ReplicaSet"),
    ("apps", "v1", "statefulsets"): ("apps/v1", "StatefulSet"),
    ("", "v1", "replicationcontrollers"): ("v1", "ReplicationController"),
}
TEMPLATES_MAX = 20_000  # parsed classes kept; beyond it the cache starts anew, which costs time only

Port = tuple[str, str, int]
Toleration = tuple[str, str, str, str]  # key, operator, value, effect
NamespaceLabels = Mapping[str, Mapping[str, str]]
_NO_LABELS: Mapping[str, str] = {}


class Group:
    """The pods that no selector can tell apart: namespace, labels, and whether they are being deleted."""

    __slots__ = ("dying", "labels", "namespace")

    def __init__(self, namespace: str, labels: Mapping[str, str], dying: bool) -> None:
        self.namespace = namespace
        self.labels = labels
        self.dying = dying


class PodTerm(NamedTuple):
    """A pod affinity term with its namespaces resolved."""

    topology_key: str
    selector: Requirements | None
    namespaces: tuple[str, ...]
    namespace_selector: Requirements | None

    def matches(self, namespace: str, labels: Mapping[str, str], of_namespaces: NamespaceLabels) -> bool:
        if namespace not in self.namespaces and not (
            self.namespace_selector is not None
            and holds(self.namespace_selector, of_namespaces.get(namespace, _NO_LABELS))
        ):
            return False
        return holds(self.selector, labels)


class Spread(NamedTuple):
    """A topology spread constraint.

    any_node: also nodes that the pod's affinity leaves out are domains; tolerated: only nodes are whose taints the pod tolerates
    """

    topology_key: str
    max_skew: int
    selector: Requirements | None
    min_domains: int = 0
    any_node: bool = False
    tolerated: bool = False


NO_SCALARS: Mapping[str, int] = {}


class Amounts:
    """Requested or available amounts.  cpu in milli, the others in whole units.

    scalars: changed by another mapping in its place, so that copies share it; mostly there are none
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
        return not (self.cpu or self.memory or self.ephemeral or self.scalars)

    def copy(self) -> Amounts:
        return Amounts(self.cpu, self.memory, self.ephemeral, self.scalars)

    def add(self, other: Amounts, sign: int = 1) -> None:
        self.cpu += sign * other.cpu
        self.memory += sign * other.memory
        self.ephemeral += sign * other.ephemeral
        for name, amount in other.scalars.items():
            self.scalars = {**self.scalars, name: self.scalars.get(name, 0) + sign * amount}

    def at_least(self, other: Amounts) -> None:
        self.cpu = max(self.cpu, other.cpu)
        self.memory = max(self.memory, other.memory)
        self.ephemeral = max(self.ephemeral, other.ephemeral)
        for name, amount in other.scalars.items():
            self.scalars = {**self.scalars, name: max(self.scalars.get(name, 0), amount)}


def amounts(resources: Mapping[str, Any]) -> Amounts:
    """A resource list.  Counts other than cpu, memory, ephemeral-storage and pods are scalars."""
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


class Asks:
    """What a pod wants of a node's room, by identity: `Templates` has one object for all that want the same.

    scores: of nodes, by their load (see `filters.known_score`)
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


class Template:
    """What the plugins see of a pod.  See the fields' upstream names in the pod's spec.

    shape: the same object for all templates that differ in their labels only
    own_keys: the labels that the pod's own terms and constraints ask for
    """

    def __init__(self, pod: Obj, gates: Collection[str] = ()) -> None:
        meta, spec = pod["metadata"], pod["spec"]
        self.shape = object()
        self.namespace: str = meta["namespace"]
        self._label(meta.get("labels") or {})
        self.owner = _controller(pod)
        self.priority: int = spec.get("priority") or 0
        self.never_preempts = spec.get("preemptionPolicy") == "Never"
        self.tolerations: tuple[Toleration, ...] = tuple(
            (t.get("key", ""), t.get("operator") or "Equal", t.get("value", ""), t.get("effect", ""))
            for t in spec.get("tolerations") or ()
        )
        self._requests(spec)
        self.asks = Asks(self.ports, self.request, self.scoring, self.unscored_cpu)
        self._affinities(spec.get("affinity") or {}, spec.get("nodeSelector") or {})
        constraints = spec.get("topologySpreadConstraints") or ()
        self.own_spread = bool(constraints)
        hard, soft = (
            tuple([_spread(c, self.labels, gates) for c in constraints if c["whenUnsatisfiable"] == action])
            for action in ("DoNotSchedule", "ScheduleAnyway")
        )
        self.hard, self.soft = hard, soft
        asking = (
            *(spread.selector for spread in (*self.hard, *self.soft)),
            *(term.selector for term in (*self.affinity, *self.anti_affinity)),
            *(term.selector for _, term in self.preferred_pods),
        )
        self.own_keys = frozenset(need[0] for selector in asking for need in selector or ())

    def _label(self, labels: Mapping[str, str]) -> None:
        self.labels = labels
        self.groups = (Group(self.namespace, labels, False), Group(self.namespace, labels, True))

    def labelled(self, labels: Mapping[str, str]) -> Template:
        """The template of the same shape with these labels."""
        made = Template.__new__(Template)
        made.__dict__.update(self.__dict__)
        made._label(labels)
        return made

    def _requests(self, spec: Mapping[str, Any]) -> None:
        containers = spec.get("containers") or ()
        self.request, self.scoring = Amounts(), Amounts()
        for container in containers:
            asked = amounts((container.get("resources") or {}).get("requests") or {})
            self.request.add(asked)
            self.scoring.add(_for_scoring(container, asked))
        for container in spec.get("initContainers") or ():
            asked = amounts((container.get("resources") or {}).get("requests") or {})
            self.request.at_least(asked)
            self.scoring.at_least(_for_scoring(container, asked))
        overhead = amounts(spec.get("overhead") or {})
        self.request.add(overhead)
        self.scoring.add(overhead)
        # Quirk: of the overhead of a pod that has no node yet, scores take each whole core for a thousandth.
        self.unscored_cpu = overhead.cpu - -(-overhead.cpu // 1000)
        self.ports: tuple[Port, ...] = tuple(
            (port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", port["hostPort"])
            for container in containers
            for port in container.get("ports") or ()
            if port.get("hostPort")
        )
        self.images = tuple(image_name(container.get("image") or "") for container in containers)

    def _affinities(self, affinity: Mapping[str, Any], node_selector: Mapping[str, str]) -> None:
        self.node_selector = from_labels(node_selector)
        node = affinity.get("nodeAffinity") or {}
        required = node.get("requiredDuringSchedulingIgnoredDuringExecution")
        self.required: tuple[NodeTerm, ...] | None = (
            None if required is None else tuple(map(node_term, required["nodeSelectorTerms"]))
        )
        self.node_names = named_nodes(self.required)
        # An empty preference is for no node: for all alike it would only make what others are for count less.
        self.preferred: tuple[tuple[int, NodeTerm], ...] = tuple(
            (item["weight"], term)
            for item in node.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
            if not (term := node_term(item["preference"])).empty
        )
        near, far = affinity.get("podAffinity") or {}, affinity.get("podAntiAffinity") or {}
        self.affinity = self._terms(near.get("requiredDuringSchedulingIgnoredDuringExecution"))
        self.anti_affinity = self._terms(far.get("requiredDuringSchedulingIgnoredDuringExecution"))
        self.preferred_pods: tuple[tuple[int, PodTerm], ...] = tuple(
            (sign * item["weight"], self._term(item["podAffinityTerm"]))
            for sign, side in ((1, near), (-1, far))
            for item in side.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
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


def _for_scoring(container: Mapping[str, Any], asked: Amounts) -> Amounts:
    requests = (container.get("resources") or {}).get("requests") or {}
    return Amounts(
        asked.cpu if "cpu" in requests else DEFAULT_MILLI_CPU,
        asked.memory if "memory" in requests else DEFAULT_MEMORY,
    )


def _spread(constraint: Mapping[str, Any], labels: Mapping[str, str], gates: Collection[str]) -> Spread:
    selector = from_label_selector(constraint.get("labelSelector"))
    if MATCH_LABEL_KEYS in gates and selector is not None:
        keys = dict.fromkeys(constraint.get("matchLabelKeys") or ())
        selector = from_labels({key: labels[key] for key in keys if key in labels}) + selector
    includes = NODE_INCLUSION in gates
    return Spread(
        constraint["topologyKey"],
        constraint["maxSkew"],
        selector,
        (constraint.get("minDomains") or 0) if MIN_DOMAINS in gates else 0,
        includes and constraint.get("nodeAffinityPolicy") == "Ignore",
        includes and constraint.get("nodeTaintsPolicy") == "Honor",
    )


def _looked_at(pod: Obj) -> list[str | None]:
    """The labels that the pod's own spread constraints take their values from."""
    labels = pod["metadata"].get("labels") or {}
    constraints = pod["spec"].get("topologySpreadConstraints") or ()
    return [labels.get(key) for each in constraints for key in each.get("matchLabelKeys") or ()]


def _controller(pod: Obj) -> tuple[str, str]:
    """(kind, name) of the controlling owner if its selector spreads its pods, or two empty strings."""
    owner = controller_of(pod)
    if owner is None or (owner["apiVersion"], owner["kind"]) not in OWNERS.values():
        return "", ""
    return owner["kind"], owner["name"]


def image_name(image: str) -> str:
    """The image with its tag spelled out (ImageLocality: normalizedImageName)."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


def is_dying(pod: Obj) -> bool:
    return "deletionTimestamp" in pod["metadata"]


class PodInfo:
    """One pod as the scheduler knows it; `held` is its latest state, or the item that holds it."""

    __slots__ = ("dying", "held", "key", "node_name", "template")

    def __init__(self, obj: Obj, template: Template, node_name: str = "") -> None:
        meta = obj["metadata"]
        self.held: Obj | Item = obj
        self.template = template
        self.key: str = intern(f"{meta['namespace']}/{meta['name']}")  # the informer's own
        self.node_name: str = node_name or obj["spec"].get("nodeName") or ""
        self.dying = is_dying(obj)

    @property
    def obj(self) -> Obj:
        held = self.held
        return held if isinstance(held, dict) else held.obj

    def asks_as(self, pod: Obj) -> bool:
        """Whether this later state of the pod asks for nothing else: its spec and labels are the same objects."""
        old = self.obj
        return old["spec"] is pod["spec"] and old["metadata"].get("labels") is pod["metadata"].get("labels")

    @property
    def group(self) -> Group:
        return self.template.groups[self.dying]

    @property
    def uid(self) -> str:
        return str(self.obj["metadata"].get("uid", ""))

    @property
    def nominated(self) -> str:
        return str((self.obj.get("status") or {}).get("nominatedNodeName") or "")

    @property
    def start_time(self) -> str:
        """Start of the pod as comparable text; one that has not started counts as latest."""
        return str((self.obj.get("status") or {}).get("startTime") or "~")


def binding(pod: PodInfo, node: str) -> Obj:
    """What sends a pod to a node."""
    meta = pod.obj["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": meta["namespace"], "name": meta["name"], "uid": pod.uid},
        "target": {"kind": "Node", "name": node},
    }


class Templates:
    """The classes of equal pods met so far.  gates: of fields, as far as they are on."""

    def __init__(self, gates: Collection[str] = ()) -> None:
        self._gates = gates
        self._known: dict[tuple[bytes, bytes], Template] = {}
        self._shapes: dict[bytes, Template] = {}
        self._asks: dict[tuple[Any, ...], Asks] = {}
        self._seen: IdentityMemo[Template] = IdentityMemo()
        self._encode = msgspec.json.Encoder().encode

    def info(self, pod: Obj, before: PodInfo | None = None) -> PodInfo:
        """The pod's info; `before`, what was known of it, saves the look-up where nothing changed."""
        same = before is not None and before.asks_as(pod)
        return PodInfo(pod, before.template if before is not None and same else self.template(pod))

    def template(self, pod: Obj) -> Template:
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
        """By content: pods whose parts are not the same objects may ask for the same all the same."""
        meta, get = pod["metadata"], pod["spec"].get
        labels = meta.get("labels") or {}
        shape = self._encode(
            (
                meta["namespace"],
                _controller(pod),
                [(c.get("image"), c.get("resources"), c.get("ports")) for c in get("containers") or ()],
                [c.get("resources") for c in get("initContainers") or ()],
                [get(part) for part in _PLAIN_PARTS],
                _looked_at(pod),
            )
        )
        key = (shape, self._encode(labels))
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= TEMPLATES_MAX:
                self._known.clear()
                self._shapes.clear()
                self._asks.clear()
                self._seen = IdentityMemo()
            like = self._shapes.get(shape)
            if like is None:
                known = self._shapes[shape] = Template(pod, self._gates)
                known.asks = self._asks.setdefault(known.asks.key, known.asks)
            else:
                known = like.labelled(labels)
            self._known[key] = known
        return known
