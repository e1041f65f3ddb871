"""PodNodeSelector: pods of a namespace get its node selector.

The selector is an annotation of the namespace, else the default of the plugin's configuration,
which may also list all labels that the pods of a namespace may select by.

Mirrors  kubernetes v1.25 plugin/pkg/admission/podnodeselector/admission.go,
         apimachinery pkg/labels/labels.go: ConvertSelectorToLabelsMap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sim.api.admission.base import (
    Attributes,
    Denial,
    Operation,
    View,
    failed,
    forbidden,
    internal_error,
    is_pod,
)
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import invalid
from sim.ident import Names

CLUSTER_DEFAULT = "clusterDefaultNodeSelector"


class SelectorMistake(ValueError):
    """A node selector is malformed."""


def labels_of_selector(selector: str) -> dict[str, str]:
    """The labels of "a=b,c=d"; raises `SelectorMistake`."""
    found = {}
    for part in selector.split(",") if selector else ():
        pair = part.split("=")
        if len(pair) != 2:
            raise SelectorMistake(f"invalid selector: [{' '.join(pair)}]")
        key, value = pair[0].strip(), pair[1].strip()
        problems = text.qualified_name(key)
        if problems:
            raise SelectorMistake(_shown("", key, problems))
        problems = text.label_value(value)
        if problems:
            raise SelectorMistake(_shown(key, value, problems))
        found[key] = value
    return found


def _shown(field: str, value: str, problems: Sequence[str]) -> str:
    error = invalid(field, value, "; ".join(problems))
    return f"{field or '<nil>'}: {error.message}"


class PodNodeSelector:
    """Merges the node selector of a namespace into that of its pods.

    selectors: by namespace, the labels that its pods may select by; the default selector under
        `CLUSTER_DEFAULT`
    """

    def __init__(self, names: Names, selectors: Mapping[str, str]) -> None:
        self._annotation = names.annotation_node_selector
        self._selectors = selectors

    def concerns(self, operation: Operation, plural: str, subresource: str) -> bool:
        """True for requests with objects that the plugin mutates."""
        return operation == "create" and is_pod(plural, subresource)

    judges = concerns

    def mutate(self, attributes: Attributes, obj: Obj, view: View) -> Obj | Denial:
        """The object as the plugin changes it, or the refusal."""
        wanted = self._wanted(attributes.namespace, view)
        if isinstance(wanted, Denial):
            return wanted
        spec = obj.get("spec") or {}
        given = spec.get("nodeSelector") or {}
        if not _conflict(wanted, given) and any(key not in given for key in wanted):
            obj = {**obj, "spec": {**spec, "nodeSelector": {**wanted, **given}}}
        return self.validate(attributes, obj, view) or obj

    def validate(self, attributes: Attributes, obj: Obj, view: View) -> Denial | None:
        """The refusal of an object as it would be stored; None if it is allowed."""
        wanted = self._wanted(attributes.namespace, view)
        if isinstance(wanted, Denial):
            return wanted
        given = (obj.get("spec") or {}).get("nodeSelector") or {}
        name = obj["metadata"].get("name", "")
        if _conflict(wanted, given):
            what = "pod node label selector conflicts with its namespace node label selector"
            return forbidden(attributes, what, name)
        try:
            allowed = labels_of_selector(self._selectors.get(attributes.namespace, ""))
        except SelectorMistake as mistake:
            return failed(str(mistake))
        if allowed and any(allowed.get(key) != value for key, value in given.items()):
            what = "pod node label selector labels conflict with its namespace whitelist"
            return forbidden(attributes, what, name)
        return None

    def _wanted(self, namespace: str, view: View) -> dict[str, str] | Denial:
        """The labels of the namespace's selector."""
        found = view.get("namespaces", "", namespace)
        if found is None:
            return internal_error(f"namespace {namespace} does not exist")
        annotations = found["metadata"].get("annotations") or {}
        selector = annotations.get(self._annotation, self._selectors.get(CLUSTER_DEFAULT, ""))
        try:
            return labels_of_selector(selector)
        except SelectorMistake as mistake:
            return failed(str(mistake))


def _conflict(a: Mapping[str, str], b: Mapping[str, str]) -> bool:
    return any(key in b and b[key] != value for key, value in a.items())
