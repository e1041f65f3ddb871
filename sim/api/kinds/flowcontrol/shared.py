"""What FlowSchemas and PriorityLevelConfigurations share.

Mirrors  kubernetes v1.25 pkg/registry/flowcontrol/*/strategy.go,
         pkg/apis/flowcontrol/v1beta2/defaults.go.
"""

from __future__ import annotations

from collections.abc import Mapping

from sim.api.kinds.common.status import fill_status_conditions
from sim.api.objects import with_field
from sim.api.schema.kind import Strategy
from sim.api.types import Json, Obj
from sim.api.validation.errors import Errors, duplicate, required

EXEMPT = "exempt"  # types.go: PriorityLevelConfigurationNameExempt, FlowSchemaNameExempt

FLOW = Strategy(
    status=True,
    generation="spec",
    prepare_status=lambda new, old, _: with_field(new, "metadata", old["metadata"]),
)


def condition_errors(obj: Obj) -> Errors:
    """Errors of the conditions in a status: each needs a type of its own."""
    errors: Errors = []
    types: list[str] = []
    for i, condition in enumerate((obj.get("status") or {}).get("conditions") or ()):
        at, kind = f"status.conditions[{i}].type", condition.get("type") or ""
        if kind in types:
            errors.append(duplicate(at, kind))
        types.append(kind)
        if not kind:
            errors.append(required(at, "must not be empty"))
    return errors


def validate_status(new: Obj, _old: Obj) -> Errors:
    """Errors of a changed status."""
    return condition_errors(new)


def filled(obj: Obj, defaults: Mapping[str, Json]) -> Obj:
    """The object with these defaults of plain integers, of which 0 counts as missing."""
    return {**obj, **{key: value for key, value in defaults.items() if not obj.get(key)}}


def with_spec(obj: Obj, spec: Obj) -> Obj:
    """The object with this spec and a status; the same object if it has both."""
    made = fill_status_conditions({"status": {}, **obj, "spec": spec})
    return obj if made == obj else made
