"""Semantic validation: (resource, object[, old object]) to the field errors upstream would report,
in its order.

Turns objects that are well-typed and defaulted (see `field_validation`) into a list of
`FieldError`; empty means valid.  `status.invalid` takes the list as its causes.  Each kind brings
its rules (`Kind.validate_create` and so on); a kind without rules of its own has its metadata
checked.

Holds: subtrees that were checked once are known by identity (`memo.IdentityMemo`), and an update
does not check a part that is the same object as before.  So the pods of one template and the status
writes of thousands of nodes cost little.

Mirrors  kubernetes v1.25 pkg/apis/*/validation, apiserver pkg/registry/rest/{create,update}.go.
"""

from __future__ import annotations

from collections.abc import Collection

from sim.api.kinds.common.pods.gated_rules import CHANGE_RULES, gated_errors
from sim.api.objects import get_in
from sim.api.schema.kind import NOTHING, Kind
from sim.api.schema.resource import Resource
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, FieldError
from sim.api.validation.metadata import object_meta, object_meta_update

__all__ = ["FieldError", "validate_create", "validate_update"]

# A change of one of these members has all of the metadata checked again.
_CHECKED_AGAIN = (
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "generateName",
    "name",
    "namespace",
    "generation",
)


def validate_create(resource: Resource, obj: Obj, gates: Collection[str] = ()) -> Errors:
    """Errors of a new object: the kind's own rules, and the general ones once those hold.

    gates: with another value than their default
    """
    kind = resource.behavior
    rule = kind.validate_create
    if gates and kind.gated_rules is not None:
        rule = kind.gated_rules(gates)[0]
    errors = rule(obj) if rule is not None else []
    errors = _of_pods(kind, errors, obj, NOTHING, gates)
    if errors or (rule is not None and not kind.general_metadata):  # which checks metadata
        return errors
    return object_meta(obj["metadata"], resource.namespaced, text.segment, core=False)


def validate_update(
    resource: Resource, new: Obj, old: Obj, subresource: str = "", gates: Collection[str] = ()
) -> Errors:
    """Errors of a change.  Quirk: errors of metadata come from the general rules and from the
    kind's own.

    gates: with another value than their default
    """
    if new is old:
        return []
    after, before = new["metadata"], old["metadata"]
    errors = object_meta_update(after, before, core=False)
    if after is not before and any(after.get(key) is not before.get(key) for key in _CHECKED_AGAIN):
        errors = object_meta(after, resource.namespaced, text.segment, core=False) + errors
    kind = resource.behavior
    rules = kind.validate_update
    if gates and kind.gated_rules is not None:
        rules = kind.gated_rules(gates)[1]
    rule = rules.get(subresource)
    return errors if rule is None else _of_pods(kind, errors + rule(new, old), new, old, gates)


def _of_pods(kind: Kind, errors: Errors, new: Obj, old: Obj, gates: Collection[str]) -> Errors:
    """The errors as the gates have them, of which some concern pod specs."""
    if not kind.pod_spec or CHANGE_RULES.isdisjoint(gates):
        return errors
    spec, before = get_in(new, kind.pod_spec) or NOTHING, get_in(old, kind.pod_spec) or NOTHING
    return gated_errors(errors, spec, before, ".".join(kind.pod_spec), gates)
