"""Turns label selectors into requirements, and the terms of a node selector into names of nodes.

Holds: equal selectors give equal tuples; `None` is a selector that matches nothing.

Mirrors  apimachinery v1.25 pkg/labels/selector.go, pkg/apis/meta/v1/helpers.go:
         LabelSelectorAsSelector; kubernetes v1.25 pkg/scheduler/framework/plugins/nodeaffinity.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sim.api.scheduling import NodeTerm, Requirements, equal_labels, requirements_of


def from_label_selector(selector: Mapping[str, Any] | None) -> Requirements | None:
    """Return the requirements of a LabelSelector; a missing one matches nothing, an empty one
    everything.
    """
    if selector is None:
        return None
    return equal_labels(selector.get("matchLabels") or {}) + requirements_of(selector.get("matchExpressions"))


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
