"""Where a pod may run, and its class of service: tolerations, node selectors, quality of service.

Turns the fields of a pod and of a node into tuples, and these into the answer of each rule. The
scheduler, the controllers, the node agents and the admission of the API server share the rules.

Holds: equal fields give equal tuples.

Mirrors  core/v1 v1.25 toleration.go (ToleratesTaint, MatchToleration);
         component-helpers scheduling/corev1/helpers.go, scheduling/corev1/nodeaffinity;
         kubernetes pkg/util/tolerations/tolerations.go, pkg/apis/core/helper/qos/qos.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sim.api.memo import IdentityMemo
from sim.api.selectors import EXISTS, IN, meets
from sim.api.types import Obj
from sim.units import quantity_nano

EQUAL = "Equal"
NO_SCHEDULE, NO_EXECUTE = "NoSchedule", "NoExecute"

Taint = tuple[str, str, str]  # key, value, effect
Toleration = tuple[str, str, str, str]  # key, operator, value, effect


_NOTHING: Obj = {}


# --- tolerations ----------------------------------------------------------------------------------


def taint_of(taint: Mapping[str, Any]) -> Taint:
    """A taint as a tuple."""
    return taint["key"], taint.get("value") or "", taint["effect"]


def toleration_of(toleration: Mapping[str, Any]) -> Toleration:
    """A toleration as a tuple; the operator is Equal by default."""
    return (
        toleration.get("key") or "",
        toleration.get("operator") or EQUAL,
        toleration.get("value") or "",
        toleration.get("effect") or "",
    )


def tolerations_of(spec: Obj) -> tuple[Toleration, ...]:
    """The tolerations of a pod's spec."""
    return tuple(map(toleration_of, spec.get("tolerations") or ()))


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """True if one of the tolerations matches the taint."""
    key, value, effect = taint
    for wanted_key, operator, wanted_value, wanted_effect in tolerations:
        if wanted_effect and wanted_effect != effect:
            continue
        if wanted_key and wanted_key != key:
            continue
        if operator == EXISTS or (operator == EQUAL and wanted_value == value):
            return True
    return False


def toleration(key: str, effect: str, seconds: int | None = None) -> Obj:
    """The toleration of each taint with this key ("": of any key) and effect, for some seconds."""
    named = {"key": key} if key else {}
    limited = {} if seconds is None else {"tolerationSeconds": seconds}
    return {**named, "operator": EXISTS, "effect": effect, **limited}


def with_toleration(tolerations: Sequence[Obj], added: Obj) -> list[Obj]:
    """The list with one toleration in the place of each that equals it but for the seconds.

    At the end if none does.
    """
    same = [_matches(each, added) for each in tolerations]
    if not any(same):
        return [*tolerations, added]
    return [added if equal else each for each, equal in zip(tolerations, same, strict=True)]


def _matches(a: Obj, b: Obj) -> bool:
    # Quirk: an absent operator differs from Equal here.
    return all((a.get(part) or "") == (b.get(part) or "") for part in ("key", "effect", "operator", "value"))


def merged_tolerations(first: Sequence[Obj], second: Sequence[Obj]) -> list[Obj]:
    """Both lists without the tolerations that another one covers."""
    both = [*first, *second]
    merged: list[Obj] = []
    for index, each in enumerate(both):
        later = both[index + 1 :]
        if any(covers(wide, each) for wide in merged):
            continue
        if any(_canonical(wide) != _canonical(each) and covers(wide, each) for wide in later):
            continue
        merged.append(each)
    return merged


def covers(wide: Obj, narrow: Obj) -> bool:
    """True if `wide` tolerates all that `narrow` tolerates, for at least as long."""
    wide, narrow = _canonical(wide), _canonical(narrow)
    if wide == narrow:
        return True
    operator = wide.get("operator", "")
    if narrow.get("key") != wide.get("key") and ("key" in wide or operator != EXISTS):
        return False
    if "effect" in wide and narrow.get("effect") != wide["effect"]:
        return False
    if wide.get("effect") == NO_EXECUTE and "tolerationSeconds" in wide:
        seconds = narrow.get("tolerationSeconds")
        if seconds is None or seconds > wide["tolerationSeconds"]:
            return False
    if operator in ("", EQUAL):
        # Quirk: an absent operator means Equal in the wide toleration only.
        return narrow.get("operator") == EQUAL and narrow.get("value") == wide.get("value")
    return bool(operator == EXISTS)


def _canonical(toleration: Obj) -> Obj:
    """The toleration without empty fields."""
    return {key: value for key, value in toleration.items() if value not in ("", None)}


# --- node selectors -------------------------------------------------------------------------------

Requirement = tuple[str, str, tuple[str, ...]]  # key, operator, values
Requirements = tuple[Requirement, ...]


def equal_labels(labels: Mapping[str, str]) -> Requirements:
    """The requirements that match objects with all these labels."""
    return tuple((key, IN, (labels[key],)) for key in sorted(labels))


def requirements_of(expressions: Iterable[Mapping[str, Any]] | None) -> Requirements:
    """The expressions of a selector as tuples."""
    return tuple((e["key"], e["operator"], tuple(e.get("values") or ())) for e in expressions or ())


def holds(requirements: Requirements | None, labels: Mapping[str, str]) -> bool:
    """True if these labels meet all requirements; None matches nothing."""
    if requirements is None:
        return False
    return all(meets(operator, labels.get(key), values) for key, operator, values in requirements)


class NodeTerm(NamedTuple):
    """One alternative of a node selector: requirements on labels and on fields."""

    labels: Requirements
    fields: Requirements

    @property
    def empty(self) -> bool:
        """True if the term has no requirements."""
        return not self.labels and not self.fields

    def holds(self, name: str, labels: Mapping[str, str]) -> bool:
        """True if a node of this name with these labels meets all requirements."""
        return holds(self.labels, labels) and holds(self.fields, {"metadata.name": name})


def node_term(term: Mapping[str, Any]) -> NodeTerm:
    """A NodeSelectorTerm as tuples."""
    return NodeTerm(requirements_of(term.get("matchExpressions")), requirements_of(term.get("matchFields")))


def node_terms(selector: Mapping[str, Any]) -> tuple[NodeTerm, ...]:
    """The alternatives of a NodeSelector."""
    return tuple(map(node_term, selector.get("nodeSelectorTerms") or ()))


def selects_node(terms: Iterable[NodeTerm], name: str, labels: Mapping[str, str]) -> bool:
    """True if a node meets one of the terms; a term without requirements selects nothing."""
    return any(not term.empty and term.holds(name, labels) for term in terms)


class RequiredNodes(NamedTuple):
    """What a pod's spec requires of its node.

    labels: its node selector
    terms: its required node affinity; None without one
    """

    labels: Requirements
    terms: tuple[NodeTerm, ...] | None

    def match(self, name: str, labels: Mapping[str, str]) -> bool:
        """True if a node of this name with these labels meets both."""
        if self.labels and not holds(self.labels, labels):
            return False
        return self.terms is None or selects_node(self.terms, name, labels)


_ANY_NODE = RequiredNodes((), None)


def required_nodes(spec: Obj) -> RequiredNodes:
    """The node selector and the required node affinity of a pod's spec."""
    selector, affinity = spec.get("nodeSelector"), spec.get("affinity")
    if not selector and not affinity:
        return _ANY_NODE
    terms = ((affinity or _NOTHING).get("nodeAffinity") or _NOTHING).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    return RequiredNodes(equal_labels(selector or {}), None if terms is None else node_terms(terms))


# --- quality of service ---------------------------------------------------------------------------

BEST_EFFORT, BURSTABLE, GUARANTEED = "BestEffort", "Burstable", "Guaranteed"
# Pods of a template share their containers, so they share their class.
_CLASSES: IdentityMemo[str] = IdentityMemo()


def qos_class(spec: Obj) -> str:
    """Guaranteed, Burstable or BestEffort, by the cpu and memory of all containers.

    A request that is absent is that of the limit, as defaults have it (SetDefaults_Pod): node
    agents read pods from files, which have no defaults.
    """
    parts = (spec.get("containers"), spec.get("initContainers"))
    return _CLASSES.get(*parts) or _CLASSES.put(_qos_class(spec), *parts)


def _qos_class(spec: Obj) -> str:
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    guaranteed = True
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = container.get("resources") or _NOTHING
        limited = resources.get("limits") or _NOTHING
        seen = 0
        for total, given in (
            (requests, {**limited, **(resources.get("requests") or _NOTHING)}),
            (limits, limited),
        ):
            for resource, text in given.items():
                if resource in ("cpu", "memory") and (nano := quantity_nano(text)):
                    total[resource] = total.get(resource, 0) + nano
                    seen += total is limits
        guaranteed = guaranteed and seen == 2
    if not requests and not limits:
        return BEST_EFFORT
    return GUARANTEED if guaranteed and requests == limits else BURSTABLE
