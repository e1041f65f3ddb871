"""Turns label and node selectors into plain tuples that can be compared, hashed and evaluated.

Holds: equal selectors give equal tuples; `None` is a selector that matches nothing.

Mirrors  apimachinery v1.25 pkg/labels/selector.go, pkg/apis/meta/v1/helpers.go:
         LabelSelectorAsSelector; component-helpers v1.25 scheduling/corev1/nodeaffinity.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sim.api.selectors import meets

Requirement = tuple[str, str, tuple[str, ...]]
Requirements = tuple[Requirement, ...]


def from_label_selector(selector: Mapping[str, Any] | None) -> Requirements | None:
    """Return the requirements of a LabelSelector; a missing one matches nothing, an empty one
    everything.
    """
    if selector is None:
        return None
    return from_labels(selector.get("matchLabels") or {}) + _expressions(selector.get("matchExpressions"))


def from_labels(labels: Mapping[str, str]) -> Requirements:
    """Return the requirements that match objects with all these labels."""
    return tuple((key, "In", (labels[key],)) for key in sorted(labels))


def _expressions(expressions: list[Mapping[str, Any]] | None) -> Requirements:
    return tuple((e["key"], e["operator"], tuple(e.get("values") or ())) for e in expressions or ())


def holds(requirements: Requirements | None, labels: Mapping[str, str]) -> bool:
    """Return True if these labels meet all requirements."""
    if requirements is None:
        return False
    return all(meets(operator, labels.get(key), values) for key, operator, values in requirements)


class NodeTerm(NamedTuple):
    """One alternative of a node selector: requirements on labels and on fields (metadata.name)."""

    labels: Requirements
    fields: Requirements

    @property
    def empty(self) -> bool:
        """True if the term has no requirements."""
        return not self.labels and not self.fields

    def holds(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return True if a node of this name with these labels meets all requirements."""
        return holds(self.labels, labels) and holds(self.fields, {"metadata.name": name})


def node_term(term: Mapping[str, Any]) -> NodeTerm:
    """Return the parsed form of a NodeSelectorTerm."""
    return NodeTerm(_expressions(term.get("matchExpressions")), _expressions(term.get("matchFields")))


def named_nodes(terms: tuple[NodeTerm, ...] | None) -> tuple[str, ...] | None:
    """Return the nodes that the terms name by metadata.name, sorted; None if a term names none.

    An empty result means that the requirements of a term contradict each other. Quirk: one such
    term is enough, even if others name nodes, unless a term before it names no node (nodeaffinity
    PreFilter).
    """
    if not terms:
        return None
    found: dict[str, None] = {}
    for term in terms:
        named: list[str] | None = None
        for key, operator, values in term.fields:
            if key == "metadata.name" and operator == "In":
                named = [value for value in values if named is None or value in named]
        if not named:
            return None if named is None else ()
        found.update(dict.fromkeys(named))
    return tuple(sorted(found))
