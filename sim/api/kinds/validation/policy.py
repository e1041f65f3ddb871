"""Leases, PodDisruptionBudgets, PriorityClasses, RuntimeClasses.

Mirrors  kubernetes v1.25 pkg/apis/{coordination,policy,scheduling,node}/validation/validation.go.
"""

from __future__ import annotations

from typing import Any

from sim.api.kinds.validation import text
from sim.api.kinds.validation.errors import (
    Errors,
    Shown,
    at_least_zero,
    forbidden,
    immutable,
    invalid,
    unsupported,
)
from sim.api.kinds.validation.meta import label_selector, labels, object_meta, object_meta_update
from sim.api.kinds.validation.pods.affinity import tolerations
from sim.api.kinds.validation.resources import container_resource_name, pages
from sim.api.kinds.validation.workloads import int_or_percent, not_above_all
from sim.api.types import Obj

# scheduling.HighestUserDefinablePriority; system classes start above it.
USER_PRIORITY_MAX = 1_000_000_000
SYSTEM_PREFIX = "system-"
SYSTEM_CLASSES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}


def create_lease(obj: Obj) -> Errors:
    return object_meta(obj["metadata"], True, text.subdomain, core=False) + _lease(obj.get("spec") or {})


def _lease(spec: Obj) -> Errors:
    seconds, changes = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    errors: Errors = []
    if seconds is not None and seconds <= 0:
        errors.append(invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
    return errors + at_least_zero("spec.leaseTransitions", changes)


def update_lease(new: Obj, old: Obj) -> Errors:
    return object_meta_update(new["metadata"], old["metadata"], core=False) + _lease(new.get("spec") or {})


def create_budget(obj: Obj) -> Errors:
    return object_meta(obj["metadata"], True, text.segment, core=False) + _budget(obj.get("spec") or {})


def _budget(spec: Obj) -> Errors:
    errors: Errors = []
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if least is not None and most is not None:
        errors.append(invalid("spec", _go_budget(spec), "minAvailable and maxUnavailable cannot be both set"))
    for key, value in (("minAvailable", least), ("maxUnavailable", most)):
        if value is not None:
            errors += int_or_percent(value, f"spec.{key}") + not_above_all(value, f"spec.{key}")
    return errors + label_selector(spec.get("selector"), "spec.selector")


def _go_budget(spec: Obj) -> Shown:
    del spec  # a Go struct of pointers: its text differs from run to run
    return Shown("policy.PodDisruptionBudgetSpec{}")


def update_budget(new: Obj, old: Obj) -> Errors:
    errors = object_meta_update(new["metadata"], old["metadata"], core=False)
    if new.get("spec") is not old.get("spec"):
        errors += _budget(new.get("spec") or {})
    return errors


def status_budget(new: Obj, old: Obj) -> Errors:
    errors = object_meta_update(new["metadata"], old["metadata"], core=False)
    status = new.get("status") or {}
    for key in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"):
        errors += at_least_zero(f"status.{key}", status.get(key))
    return errors


def create_runtime_class(obj: Obj) -> Errors:
    errors = object_meta(obj["metadata"], False, text.subdomain, core=False)
    handler = obj.get("handler") or ""
    errors += [invalid("handler", handler, problem) for problem in text.label(handler)]
    overhead = (obj.get("overhead") or {}).get("podFixed") or {}
    for name, amount in overhead.items():
        at = f"overhead.podFixed[{name}]"
        errors += container_resource_name(name, at) + pages(name, amount, at)
    scheduling = obj.get("scheduling") or {}
    errors += labels(scheduling.get("nodeSelector"), "scheduling.nodeSelector")
    return errors + tolerations(scheduling.get("tolerations"), "scheduling.tolerations")


def update_runtime_class(new: Obj, old: Obj) -> Errors:
    errors = object_meta_update(new["metadata"], old["metadata"], core=False)
    return errors + immutable("handler", new.get("handler"), old.get("handler"))


def create_priority_class(obj: Obj) -> Errors:
    errors = object_meta(obj["metadata"], False, text.subdomain, core=False)
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
    if policy is not None and policy not in ("PreemptLowerPriority", "Never"):
        errors.append(unsupported("preemptionPolicy", policy, ("PreemptLowerPriority", "Never")))
    return errors


def _system_problem(name: str, value: Any, default: bool) -> str:
    known = SYSTEM_CLASSES.get(name)
    if known is None:
        return f"{name} is not a known system priority class"
    if value != known:
        return f"value of {name} PriorityClass must be {known}"
    return f"globalDefault of {name} PriorityClass must be false" if default else ""


def update_priority_class(new: Obj, old: Obj) -> Errors:
    errors = object_meta_update(new["metadata"], old["metadata"], core=False)
    if new.get("value", 0) != old.get("value", 0):
        errors.append(forbidden("value", "may not be changed in an update."))
    return errors + immutable("preemptionPolicy", new.get("preemptionPolicy"), old.get("preemptionPolicy"))
