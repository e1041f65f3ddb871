"""PodDisruptionBudgets.

Mirrors  kubernetes v1.25 pkg/registry/policy/poddisruptionbudget/strategy.go,
         pkg/apis/policy/validation/validation.go.
"""

from __future__ import annotations

from sim.api.go.printing import GoValue
from sim.api.kinds.common.cells import AGE, NAME, age, count
from sim.api.kinds.common.conditions import condition_errors
from sim.api.kinds.common.counts import int_or_percent, not_above_all
from sim.api.kinds.common.fill import present
from sim.api.kinds.common.status import fill_counters
from sim.api.objects import get_in, name_of
from sim.api.schema.kind import STATUS, Cells, Kind, Row, Strategy
from sim.api.types import Obj
from sim.api.validation.errors import Errors, at_least_zero, invalid
from sim.api.validation.metadata import label_selector
from sim.ident import Names


def _fill_defaults(obj: Obj) -> Obj:
    obj = present(obj, {"spec": {}})
    return fill_counters(obj, "disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


def _validate_create(obj: Obj) -> Errors:
    return _spec_errors(obj.get("spec") or {})


def _spec_errors(spec: Obj) -> Errors:
    errors: Errors = []
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if least is not None and most is not None:
        errors.append(
            invalid(
                "spec",
                GoValue("policy.PodDisruptionBudgetSpec", spec),
                "minAvailable and maxUnavailable cannot be both set",
            )
        )
    for key, value in (("minAvailable", least), ("maxUnavailable", most)):
        if value is not None:
            errors += int_or_percent(value, f"spec.{key}") + not_above_all(value, f"spec.{key}")
    return errors + label_selector(spec.get("selector"), "spec.selector")


def _validate_update(new: Obj, old: Obj) -> Errors:
    return [] if new.get("spec") is old.get("spec") else _spec_errors(new.get("spec") or {})


def _validate_status(new: Obj, _old: Obj) -> Errors:
    status = new.get("status") or {}
    errors = condition_errors(status.get("conditions") or (), "status.conditions")
    for key in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"):
        errors += at_least_zero(f"status.{key}", status.get(key))
    return errors


def _cells(obj: Obj, now_us: int, _: Names) -> Cells:
    limits = [get_in(obj, ("spec", field)) for field in ("minAvailable", "maxUnavailable")]
    shown = ["N/A" if limit is None else str(limit) for limit in limits]
    return [name_of(obj), *shown, count(obj, "status", "disruptionsAllowed"), age(obj, now_us)]


KIND = Kind(
    rows=(
        Row(
            "policy",
            "v1",
            "poddisruptionbudgets",
            "PodDisruptionBudget",
            short=("pdb",),
            subs=(STATUS,),
            stored_version="v1beta1",
        ),
    ),
    strategy=Strategy(
        status=True,
        zero_status={"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0},
        generation="spec",
        unconditional=False,
    ),
    defaults=_fill_defaults,
    validate_create=_validate_create,
    general_metadata=True,
    validate_update={"": _validate_update, "status": _validate_status},
    columns=(
        NAME,
        "Min Available=spec.minAvailable",
        "Max Unavailable=spec.maxUnavailable",
        "Allowed Disruptions:integer",
        AGE,
    ),
    cells=_cells,
)
