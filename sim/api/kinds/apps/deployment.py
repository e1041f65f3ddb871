"""Deployments.

Mirrors  kubernetes v1.25 pkg/registry/apps/deployment/strategy.go,
         pkg/apis/apps/validation/validation.go: ValidateDeployment and its updates;
         pkg/apis/apps/v1/defaults.go.
"""

from __future__ import annotations

from functools import partial

from sim.api.go.printing import INT_OR_STRING, GoValue
from sim.api.kinds.common.cells import AGE, NAME, SELECTOR, WIDE, age, container_cells, count
from sim.api.kinds.common.counts import int_or_percent, is_zero, not_above_all
from sim.api.kinds.common.fill import fill, present, within
from sim.api.kinds.common.pods.defaults import fill_template
from sim.api.kinds.common.pods.warnings import template_warnings
from sim.api.kinds.common.status import UPDATE_TIMES, fill_status_conditions
from sim.api.kinds.common.workloads import (
    bound_errors,
    collision_errors,
    counter_errors,
    fill_rolling_update,
    selector_errors,
    set_template_errors,
    spec_of,
)
from sim.api.objects import get_in, name_of, with_metadata
from sim.api.schema.kind import SCALE, STATUS, Cells, Kind, Row, Strategy
from sim.api.selectors import format_selector
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, at_least_zero, forbidden, invalid, required, unsupported
from sim.api.validation.metadata import immutable_selector, object_meta, object_meta_update
from sim.ident import Names


def _fill_defaults(obj: Obj) -> Obj:
    def spec(value: Obj) -> Obj:
        value = fill(value, {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600})
        value = present(value, {"template": {}})
        return within(
            fill_rolling_update(value, "strategy", {"maxUnavailable": "25%", "maxSurge": "25%"}),
            "template",
            fill_template,
        )

    return fill_status_conditions(
        within(present(obj, {"spec": {}, "status": {}}), "spec", spec), UPDATE_TIMES
    )


def _prepare_status(new: Obj, old: Obj, _: Names) -> Obj:
    labels = old["metadata"].get("labels")
    return new if new["metadata"].get("labels") == labels else with_metadata(new, labels=labels)


# --- validation -----------------------------------------------------------------------------------


def _spec_errors(spec: Obj) -> Errors:
    errors = at_least_zero("spec.replicas", spec.get("replicas"))
    errors += selector_errors(spec, "deployment")
    errors += set_template_errors(spec)
    errors += _strategy_errors(spec.get("strategy") or {})
    ready = spec.get("minReadySeconds", 0)
    errors += at_least_zero("spec.minReadySeconds", ready)
    errors += at_least_zero("spec.revisionHistoryLimit", spec.get("revisionHistoryLimit"))
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None:
        errors += at_least_zero("spec.progressDeadlineSeconds", deadline)
        if deadline <= ready:
            errors.append(
                invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")
            )
    return errors


def _strategy_errors(strategy: Obj) -> Errors:
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "Recreate":
        if rolling is None:
            return []
        detail = "may not be specified when strategy `type` is 'Recreate'"
        return [forbidden("spec.strategy.rollingUpdate", detail)]
    if kind == "RollingUpdate":
        if rolling is None:
            return [required("spec.strategy.rollingUpdate", "this should be defaulted and never be nil")]
        return _rolling_errors(rolling, "spec.strategy.rollingUpdate")
    shown = GoValue("apps.DeploymentStrategy", strategy)
    return [unsupported("spec.strategy", shown, ("Recreate", "RollingUpdate"))]


def _rolling_errors(rolling: Obj, field: str) -> Errors:
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    errors = int_or_percent(unavailable, f"{field}.maxUnavailable") + int_or_percent(
        surge, f"{field}.maxSurge"
    )
    if is_zero(unavailable) and is_zero(surge):
        shown = GoValue(INT_OR_STRING, unavailable)
        errors.append(invalid(f"{field}.maxUnavailable", shown, "may not be 0 when `maxSurge` is 0"))
    return errors + not_above_all(unavailable, f"{field}.maxUnavailable")


def _validate_create(obj: Obj) -> Errors:
    return object_meta(obj["metadata"], True, text.subdomain) + _spec_errors(spec_of(obj))


def _validate_update(new: Obj, old: Obj) -> Errors:
    errors = object_meta_update(new["metadata"], old["metadata"])
    if spec_of(new) is spec_of(old):
        return errors
    errors += _spec_errors(spec_of(new))
    return errors + immutable_selector(spec_of(new).get("selector"), spec_of(old).get("selector"))


_COUNTERS = (
    "observedGeneration",
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
)


def _validate_status(new: Obj, old: Obj) -> Errors:
    status, was = new.get("status") or {}, old.get("status") or {}
    errors = object_meta_update(new["metadata"], old["metadata"])
    errors += counter_errors(status, (*_COUNTERS, "collisionCount"))
    detail = "cannot be greater than status.replicas"
    errors += bound_errors(
        status, ("updatedReplicas", "readyReplicas", "availableReplicas"), "replicas", detail
    )
    errors += bound_errors(
        status, ("availableReplicas",), "readyReplicas", "cannot be greater than readyReplicas"
    )
    return errors + collision_errors(status, was)


# --- table ----------------------------------------------------------------------------------------


def _cells(obj: Obj, now_us: int, _: Names) -> Cells:
    ready = f"{count(obj, 'status', 'readyReplicas')}/{count(obj, 'spec', 'replicas')}"
    numbers = [count(obj, "status", "updatedReplicas"), count(obj, "status", "availableReplicas")]
    selector = format_selector(get_in(obj, ("spec", "selector")))
    shown = "" if selector == "<none>" else selector
    return [name_of(obj), ready, *numbers, age(obj, now_us), *container_cells(obj), shown]


KIND = Kind(
    rows=(
        Row(
            "apps",
            "v1",
            "deployments",
            "Deployment",
            short=("deploy",),
            categories=("all",),
            subs=(SCALE, STATUS),
        ),
    ),
    strategy=Strategy(status=True, generation="spec+annotations", prepare_status=_prepare_status),
    defaults=_fill_defaults,
    validate_create=_validate_create,
    validate_update={"": _validate_update, "status": _validate_status},
    pod_spec=("spec", "template", "spec"),
    columns=(
        NAME,
        "Ready",
        "Up-to-date=status.updatedReplicas",
        "Available=status.availableReplicas",
        AGE,
        *WIDE,
        SELECTOR,
    ),
    cells=_cells,
    client_warnings=partial(template_warnings, path=("spec", "template")),
)
