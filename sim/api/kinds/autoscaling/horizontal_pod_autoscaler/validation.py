"""Validation of HorizontalPodAutoscalers, in the form in which they are stored (the second
version).

Mirrors  kubernetes v1.25 pkg/apis/autoscaling/validation/validation.go.
"""

from __future__ import annotations

from sim.api.go.printing import QUANTITY, GoValue
from sim.api.kinds.autoscaling.horizontal_pod_autoscaler.forms import is_first, to_second
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import (
    ABOVE_ZERO,
    Errors,
    at_least_zero,
    checked,
    forbidden,
    invalid,
    named,
    required,
    unsupported,
)
from sim.api.validation.metadata import object_meta, object_meta_update
from sim.units import quantity_nano

WINDOW_MAX_S, PERIOD_MAX_S = 3600, 1800  # MaxStabilizationWindowSeconds, MaxPeriodSeconds
_SOURCES = {
    "Object": "object",
    "External": "external",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}
_NO_SOURCE = "must populate information for the given metric source"
_GATED = f"{_NO_SOURCE} (only allowed when HPAContainerMetrics feature is enabled)"


def create_autoscaler(obj: Obj, fewest: int = 1) -> Errors:
    """Errors of a new autoscaler.

    fewest: the lower bound of minReplicas
    """
    obj = to_second(obj) if is_first(obj) else obj
    return object_meta(obj["metadata"], True, text.subdomain) + _spec(obj.get("spec") or {}, fewest)


def update_autoscaler(new: Obj, old: Obj, fewest: int = 1) -> Errors:
    """Errors of a changed autoscaler.

    fewest: the lower bound of minReplicas, unless it was lower before
    """
    errors = object_meta_update(new["metadata"], old["metadata"])
    if (old.get("spec") or {}).get("minReplicas") == 0:
        fewest = 0
    if is_first(new):
        return errors + _spec(to_second(new)["spec"], fewest)
    return errors if new.get("spec") is old.get("spec") else errors + _spec(new.get("spec") or {}, fewest)


def status_autoscaler(new: Obj, old: Obj) -> Errors:
    """Errors of a write to /status of an autoscaler."""
    errors = object_meta_update(new["metadata"], old["metadata"])
    status = new.get("status") or {}
    for name in ("currentReplicas", "desiredReplicas"):
        errors += at_least_zero(f"status.{name}", status.get(name))
    return errors


def _spec(spec: Obj, fewest: int) -> Errors:
    errors: Errors = []
    least, most = spec.get("minReplicas"), spec.get("maxReplicas", 0)
    if least is not None and least < fewest:
        errors.append(invalid("spec.minReplicas", least, f"must be greater than or equal to {fewest}"))
    if most < 1:
        errors.append(invalid("spec.maxReplicas", most, "must be greater than 0"))
    if least is not None and least > most:
        errors.append(invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`"))
    errors += _reference(spec.get("scaleTargetRef") or {}, "spec.scaleTargetRef")
    for index, metric in enumerate(spec.get("metrics") or ()):
        errors += _metric(metric, f"spec.metrics[{index}]")
    if least == 0 and not any(
        metric.get("type") in ("Object", "External") for metric in spec.get("metrics") or ()
    ):
        detail = "must specify at least one Object or External metric to support scaling to zero replicas"
        errors.append(forbidden("spec.metrics", detail))
    for name in ("scaleUp", "scaleDown"):
        rules = (spec.get("behavior") or {}).get(name)
        if rules is not None:
            errors += _rules(rules, f"spec.behavior.{name}")
    return errors


def _reference(target: Obj, field: str) -> Errors:
    errors: Errors = []
    for name in ("kind", "name"):
        errors += named(f"{field}.{name}", target.get(name, ""), text.segment)
    return errors


def _metric(metric: Obj, field: str) -> Errors:
    kind = metric.get("type", "")
    errors: Errors = []
    if not kind:
        errors.append(required(f"{field}.type", "must specify a metric source type"))
    if kind not in _SOURCES:
        errors.append(unsupported(f"{field}.type", kind, sorted(_SOURCES)))
    present = [name for name in _SOURCES.values() if metric.get(name) is not None]
    if present:
        errors += _source(present[0], metric[present[0]], f"{field}.{present[0]}")
    expected = _SOURCES.get(kind, "")
    if not expected:  # Quirk: said twice
        errors.append(unsupported(f"{field}.type", kind, sorted(_SOURCES)))
    elif expected not in present:
        errors.append(required(f"{field}.{expected}", _GATED if kind == "ContainerResource" else _NO_SOURCE))
    if len(present) != 1:
        errors += [
            forbidden(f"{field}.{name}", "must populate the given metric source only")
            for name in present
            if name != expected
        ]
    return errors


def _source(kind: str, source: Obj, field: str) -> Errors:
    target = source.get("target") or {}
    if kind in ("resource", "containerResource"):
        return _resource(source, target, kind, field)
    errors: Errors = []
    if kind == "object":
        errors += _reference(source.get("describedObject") or {}, f"{field}.describedObject")
    name = (source.get("metric") or {}).get("name", "")
    if not name:
        errors.append(required(f"{field}.metric.name", "must specify a metric name"))
    else:
        errors += checked(f"{field}.metric.name", name, text.segment)
    errors += _target(target, f"{field}.target")
    value, average = target.get("value"), target.get("averageValue")
    at = f"{field}.target.averageValue"
    if kind == "pods":
        if average is None or quantity_nano(average) <= 0:
            errors.append(required(at, "must specify a positive target averageValue"))
    elif value is None and average is None:
        either = (
            "target value or averageValue"
            if kind == "object"
            else "target value for metric or a per-pod target"
        )
        errors.append(required(at, f"must set either a {either}"))
    elif kind == "external" and value is not None and average is not None:
        detail = "may not set both a target value for metric and a per-pod target"
        errors.append(forbidden(f"{field}.target.value", detail))
    return errors


def _resource(source: Obj, target: Obj, kind: str, field: str) -> Errors:
    errors: Errors = []
    if not source.get("name"):
        errors.append(required(f"{field}.name", "must specify a resource name"))
    if kind == "containerResource" and not source.get("container"):
        errors.append(required(f"{field}.container", "must specify a container"))
    errors += _target(target, f"{field}.target")
    share, average = target.get("averageUtilization"), target.get("averageValue")
    if share is None and average is None:
        detail = "must set either a target raw value or a target utilization"
        errors.append(required(f"{field}.target.averageUtilization", detail))
    elif share is not None and average is not None:
        detail = "may not set both a target raw value and a target utilization"
        errors.append(forbidden(f"{field}.target.averageValue", detail))
    return errors


def _target(target: Obj, field: str) -> Errors:
    errors: Errors = []
    kind = target.get("type", "")
    if not kind:
        errors.append(required(f"{field}.type", "must specify a metric target type"))
    if kind not in ("Utilization", "Value", "AverageValue"):
        errors.append(invalid(f"{field}.type", kind, "must be either Utilization, Value, or AverageValue"))
    for name in ("value", "averageValue"):
        amount = target.get(name)
        if amount is not None and quantity_nano(amount) <= 0:
            errors.append(invalid(f"{field}.{name}", GoValue(QUANTITY, amount), "must be positive"))
    share = target.get("averageUtilization")
    if share is not None and share < 1:
        errors.append(invalid(f"{field}.averageUtilization", share, "must be greater than 0"))
    return errors


def _rules(rules: Obj, field: str) -> Errors:
    errors: Errors = []
    window = rules.get("stabilizationWindowSeconds")
    at = f"{field}.stabilizationWindowSeconds"
    if window is not None and window < 0:
        errors.append(invalid(at, window, "must be greater than or equal to zero"))
    if window is not None and window > WINDOW_MAX_S:
        errors.append(invalid(at, window, f"must be less than or equal to {WINDOW_MAX_S}"))
    chosen = rules.get("selectPolicy")
    if chosen is not None and chosen not in ("Max", "Min", "Disabled"):
        errors.append(unsupported(f"{field}.selectPolicy", chosen, ("Disabled", "Max", "Min")))
    policies = rules.get("policies") or ()
    if not policies:
        errors.append(required(f"{field}.policies", "must specify at least one Policy"))
    for index, policy in enumerate(policies):
        errors += _policy(policy, f"{field}.policies[{index}]")
    return errors


def _policy(policy: Obj, field: str) -> Errors:
    errors: Errors = []
    kind, value, period = policy.get("type", ""), policy.get("value", 0), policy.get("periodSeconds", 0)
    if kind not in ("Pods", "Percent"):
        errors.append(unsupported(f"{field}.type", kind, ("Percent", "Pods")))
    if value <= 0:
        errors.append(invalid(f"{field}.value", value, ABOVE_ZERO))
    if period <= 0:
        errors.append(invalid(f"{field}.periodSeconds", period, ABOVE_ZERO))
    if period > PERIOD_MAX_S:
        errors.append(
            invalid(f"{field}.periodSeconds", period, f"must be less than or equal to {PERIOD_MAX_S}")
        )
    return errors
