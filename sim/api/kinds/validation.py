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

from sim.api.kinds.common import text
from sim.api.kinds.common.errors import Errors, FieldError
from sim.api.kinds.common.metadata import object_meta, object_meta_update
from sim.api.kinds.common.pods.gates import host_user_errors
from sim.api.kinds.kind import Kind
from sim.api.objects import get_in
from sim.api.schema.resource import Resource
from sim.api.types import Obj
from sim.options.gates import USER_NAMESPACES

__all__ = ["FieldError", "validate_create", "validate_update"]

# A change of one of these members has all of the metadata checked again.
_CHECKED_AGAIN = (
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
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
    errors += _of_pods(kind, obj, gates)
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
    return errors if rule is None else errors + rule(new, old) + _of_pods(kind, new, gates)


def _of_pods(kind: Kind, obj: Obj, gates: Collection[str]) -> Errors:
    """Errors of the pod spec that come with gates."""
    if USER_NAMESPACES not in gates or not kind.pod_spec:
        return []
    return host_user_errors(get_in(obj, kind.pod_spec) or {}, ".".join(kind.pod_spec))
