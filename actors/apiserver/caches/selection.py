"""The objects that a list or watch selects.

Turns the label and field selectors of a request into one predicate, and into the one object or node
that they name.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/handlers/{get,watch}.go,
         pkg/registry/generic/registry/store.go (MatchesSingle).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from sim.api import selectors
from sim.api.refusals import bad_request
from sim.api.schema.resource import Resource
from sim.api.scheme.scheme import Scheme
from sim.api.selectors import FieldSelector, LabelSelector
from sim.api.store import Item, Only
from sim.api.types import Obj
from sim.api.verbs import list as verbs_list
from sim.api.verbs.call import Call
from sim.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Selection:
    """What a list or watch selects.

    key: of the one object that it can match
    node: the one node of the pods that it can match
    alone: True if it selects all pods of that node
    only: a hint for the store, by one of the labels or fields
    """

    matches: Callable[[Obj], bool] | None = None
    key: str = ""
    node: str = ""
    alone: bool = False
    only: Only | None = None


EVERYTHING = Selection()


def _on_node(node: str) -> Callable[[Obj], bool]:
    def matches(pod: Obj) -> bool:
        spec = pod.get("spec")
        return spec is not None and spec.get("nodeName") == node

    return matches


def _by_name(call: Call, field_text: str) -> str:
    """The field selector of a watch of one object by its path (get.go: ListResource)."""
    name = call.request.name
    if field_text:
        try:
            fields = selectors.parse_fields(call.resource, field_text)
        except selectors.SelectorError as error:
            raise bad_request(str(error)) from None
        if not fields.empty and fields.exact("metadata.name") != name:
            raise bad_request("fieldSelector metadata.name doesn't match requested name")
    return f"metadata.name={name}"


def select(scheme: Scheme, call: Call) -> Selection:
    """Return the label and field selectors of a request as one predicate."""
    options, request = call.options, call.request
    label_text, field_text = options.get("labelSelector", ""), options.get("fieldSelector", "")
    if request.name:  # a watch of one object by its path
        field_text = _by_name(call, field_text)
    if options:
        group = scheme.names.group("meta")
        verbs_list.check_list_options(options, group, watching=request.verb == "watch")
    if not label_text and not field_text:
        return EVERYTHING
    try:
        labels = selectors.parse_labels(label_text)
        fields = selectors.parse_fields(call.resource, field_text)
    except selectors.SelectorError as error:
        raise bad_request(str(error)) from None
    if labels.empty and fields.empty:
        return EVERYTHING
    name = fields.exact("metadata.name") or ""
    namespace = request.namespace or fields.exact("metadata.namespace") or ""
    key = (
        scheme.key(call.resource, namespace, name)
        if name and (namespace or not call.resource.namespaced)
        else ""
    )
    node = (fields.exact("spec.nodeName") or "") if call.resource.rule == "pods" else ""
    if labels.empty:
        alone = bool(node) and len(fields.requirements) == 1  # the list of a node agent
        only = _only_field(call.resource, fields)
        return Selection(_on_node(node) if alone else fields.matches, key, node, alone, only)
    only = _only_label(labels) or _only_field(call.resource, fields)
    if fields.empty:
        return Selection(lambda obj: labels.matches(obj["metadata"].get("labels")), key, node, only=only)
    return Selection(
        lambda obj: labels.matches(obj["metadata"].get("labels")) and fields.matches(obj),
        key,
        node,
        only=only,
    )


def _only_label(labels: LabelSelector) -> Only | None:
    """The hint of the first label that has to have one of some values."""
    for each in labels.requirements:
        if each.operator == selectors.IN:
            return Only(f"label {each.key}", partial(_label_of, each.key), each.values)
    return None


def _label_of(key: str, item: Item) -> str | None:
    found: str | None = (item.peek("metadata", "labels") or {}).get(key)
    return found


def _only_field(resource: Resource, fields: FieldSelector) -> Only | None:
    """The hint of the first field that has to have a value."""
    for each in fields.requirements:
        if each.equal:
            name = f"field {resource.api_version} {each.field}"
            return Only(name, partial(_field_of, each.get), (each.value,))
    return None


def _field_of(get: Callable[[Obj], str], item: Item) -> str:
    return get(item.obj)
