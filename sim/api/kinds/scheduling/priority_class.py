"""PriorityClasses.

Mirrors  kubernetes v1.25 pkg/apis/scheduling/{validation/validation,v1/defaults}.go.
"""

from __future__ import annotations

from typing import Any

from sim.api.kinds.common.cells import AGE, NAME, age, count
from sim.api.kinds.common.fill import present
from sim.api.objects import name_of
from sim.api.schema.kind import Cells, Deletion, Kind, Row, Strategy
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, forbidden, immutable, required, unsupported
from sim.api.validation.metadata import object_meta, object_meta_update
from sim.ident import Names

# scheduling.HighestUserDefinablePriority; system classes start above it.
USER_PRIORITY_MAX = 1_000_000_000

SYSTEM_PREFIX = "system-"

SYSTEM_CLASSES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}


def _validate_create(obj: Obj) -> Errors:
    errors = object_meta(obj["metadata"], False, text.subdomain)
    name, value = obj["metadata"].get("name", ""), obj.get("value", 0)
    if name.startswith(SYSTEM_PREFIX):
        problem = _system_problem(name, value, bool(obj.get("globalDefault")))
        if problem:
            detail = f"priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. error: {problem}"
            errors.append(forbidden("metadata.name", detail))
    elif value > USER_PRIORITY_MAX:
        detail = f"maximum allowed value of a user defined priority is {USER_PRIORITY_MAX}"
        errors.append(forbidden("value", detail))
    policy = obj.get("preemptionPolicy")
    if policy == "":
        errors.append(required("preemptionPolicy"))
    elif policy is not None and policy not in ("PreemptLowerPriority", "Never"):
        errors.append(unsupported("preemptionPolicy", policy, ("PreemptLowerPriority", "Never")))
    return errors


def _system_problem(name: str, value: Any, default: bool) -> str:
    known = SYSTEM_CLASSES.get(name)
    if known is None:
        return f"{name} is not a known system priority class"
    if value != known:
        return f"value of {name} PriorityClass must be {known}"
    return f"globalDefault of {name} PriorityClass must be false" if default else ""


def _validate_update(new: Obj, old: Obj) -> Errors:
    errors = object_meta_update(new["metadata"], old["metadata"])
    if new.get("value", 0) != old.get("value", 0):
        errors.append(forbidden("value", "may not be changed in an update."))
    return errors + immutable("preemptionPolicy", new.get("preemptionPolicy"), old.get("preemptionPolicy"))


def _fill_defaults(obj: Obj) -> Obj:
    return present(obj, {"preemptionPolicy": "PreemptLowerPriority"})


def _cells(obj: Obj, now_us: int, _: Names) -> Cells:
    return [name_of(obj), count(obj, "value"), bool(obj.get("globalDefault")), age(obj, now_us)]


def _deletion_refusal(name: str) -> str:
    """Why a class cannot be deleted (plugin/pkg/admission/priority and scheduling/helpers.go)."""
    return "this is a system priority class and cannot be deleted" if name in SYSTEM_CLASSES else ""


KIND = Kind(
    rows=(Row("scheduling", "v1", "priorityclasses", "PriorityClass", namespaced=False, short=("pc",)),),
    deletion=Deletion(refusal=_deletion_refusal),
    strategy=Strategy(generation="one"),
    defaults=_fill_defaults,
    validate_create=_validate_create,
    validate_update={"": _validate_update},
    columns=(NAME, "Value:integer=value", "Global-Default:boolean=globalDefault", AGE),
    cells=_cells,
)
