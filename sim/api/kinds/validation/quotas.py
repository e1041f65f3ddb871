"""ResourceQuotas and LimitRanges.

Mirrors  kubernetes v1.25 pkg/apis/core/validation/validation.go: ValidateResourceQuota, ValidateLimitRange;
         pkg/apis/core/helper/helpers.go.
"""

from __future__ import annotations

from typing import Any

from sim.api.kinds.validation import text
from sim.api.kinds.validation.errors import (
    IMMUTABLE,
    Errors,
    Shown,
    duplicate,
    forbidden,
    go_strings,
    invalid,
    required,
)
from sim.api.kinds.validation.meta import object_meta, object_meta_update
from sim.api.kinds.validation.resources import container_resource_name, go_quantity, quantity, resource_name
from sim.api.schema.json_text import go_quote
from sim.api.status import CAUSES_MAX
from sim.api.types import Obj
from sim.units import quantity_milli, quantity_nano, quantity_text

_COMPUTE = (
    "cpu",
    "memory",
    "ephemeral-storage",
    *(f"{side}.{name}" for side in ("requests", "limits") for name in ("cpu", "memory", "ephemeral-storage")),
)
_COUNTED = (
    "requests.storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
)
_EXISTS_ONLY = ("Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "CrossNamespacePodAffinity")
_SCOPES = (*_EXISTS_ONLY, "PriorityClass")
_APART = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))


def _is_standard(name: str) -> bool:
    return name in _COMPUTE or name in _COUNTED or name.startswith(("hugepages-", "requests.hugepages-"))


def _fits(scope: str, name: str) -> bool:
    """Whether a quota of `name` may be confined to `scope`."""
    if not _is_standard(name):
        return True
    if scope == "BestEffort":
        return name == "pods"
    return scope not in _SCOPES or name == "pods" or name in _COMPUTE


def _amounts(given: Any, field: str) -> Errors:
    errors: Errors = []
    for name, value in (given or {}).items():
        at = f"{field}[{name}]"
        errors += resource_name(name, at)
        if "/" not in name and not _is_standard(name):
            errors.append(invalid(at, name, "must be a standard resource for quota"))
        errors += quantity(name, value, at)
    return errors


def _go_scopes(scopes: Any) -> Shown:
    if scopes is None:
        return Shown("[]core.ResourceQuotaScope(nil)")
    return Shown("[]core.ResourceQuotaScope{" + ", ".join(go_quote(s) for s in scopes) + "}")


def _quota_spec(spec: Obj) -> Errors:
    hard, scopes = spec.get("hard") or {}, spec.get("scopes") or ()
    errors = _amounts(hard, "spec.hard")
    shown, misfits = _go_scopes(scopes), _Misfits(hard)
    for scope in scopes:
        if scope not in _SCOPES:
            errors.append(invalid("spec.scopes", shown, "unsupported scope"))
        errors += misfits.of(scope, "spec.scopes", shown)
        if len(errors) > CAUSES_MAX:
            break
    for pair in _APART:
        if all(scope in scopes for scope in pair):
            errors.append(invalid("spec.scopes", _go_scopes(scopes), "conflicting scopes"))
    for expression in (spec.get("scopeSelector") or {}).get("matchExpressions") or ():
        errors += _expression(expression, misfits)
        if len(errors) > CAUSES_MAX:
            break
    return errors


class _Misfits:
    """Resources of a quota that cannot be confined to a scope: looked for once a scope, as there may be many of both."""

    def __init__(self, hard: Obj) -> None:
        self._hard = hard
        self._counts: dict[str, int] = {}

    def of(self, scope: str, field: str, shown: Shown) -> Errors:
        """An error for each, as far as one answer has room for them."""
        if scope not in _SCOPES:
            return []
        if scope not in self._counts:
            self._counts[scope] = sum(not _fits(scope, name) for name in self._hard)
        error = invalid(field, shown, "unsupported scope applied to resource")
        return [error] * min(self._counts[scope], CAUSES_MAX)


def _expression(expression: Obj, misfits: _Misfits) -> Errors:
    field = "spec.scopeSelector.matchExpressions"
    scope, operator = expression.get("scopeName", ""), expression.get("operator", "")
    values = expression.get("values") or []
    errors: Errors = []
    if scope not in _SCOPES:
        errors.append(invalid(f"{field}.scopeName", scope, "unsupported scope"))
    errors += misfits.of(scope, field, Shown("[]"))
    if scope in _EXISTS_ONLY and operator != "Exists":
        detail = (
            "must be 'Exist' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating,"
            " ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or"
            " ResourceQuotaScopeCrossNamespacePodAffinity"
        )
        errors.append(invalid(f"{field}.operator", operator, detail))
    if operator in ("In", "NotIn"):
        if not values:
            detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            errors.append(required(f"{field}.values", detail))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            errors.append(invalid(f"{field}.values", go_strings(values), detail))
    else:
        errors.append(invalid(f"{field}.operator", operator, "not a valid selector operator"))
    return errors


def _quota_status(status: Obj) -> Errors:
    return _amounts(status.get("hard"), "status.hard") + _amounts(status.get("used"), "status.used")


def create_quota(obj: Obj) -> Errors:
    errors = object_meta(obj["metadata"], True, text.subdomain) + _quota_spec(obj.get("spec") or {})
    return errors + _quota_status(obj.get("status") or {})


def update_quota(new: Obj, old: Obj) -> Errors:
    errors = object_meta_update(new["metadata"], old["metadata"])
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    if spec is before:
        return errors
    errors += _quota_spec(spec)
    scopes = spec.get("scopes")
    if sorted(scopes or ()) != sorted(before.get("scopes") or ()):
        errors.append(invalid("spec.scopes", _go_scopes(scopes), IMMUTABLE))
    return errors


def status_quota(new: Obj, old: Obj) -> Errors:
    return object_meta_update(new["metadata"], old["metadata"]) + _quota_status(new.get("status") or {})


# --- LimitRange -------------------------------------------------------------------------------------------


def create_limit_range(obj: Obj) -> Errors:
    errors = object_meta(obj["metadata"], True, text.subdomain)
    seen: dict[str, None] = {}
    for index, limit in enumerate((obj.get("spec") or {}).get("limits") or ()):
        errors += _limit(limit, f"spec.limits[{index}]", seen)
    return errors


def update_limit_range(new: Obj, old: Obj) -> Errors:
    return object_meta_update(new["metadata"], old["metadata"]) + create_limit_range(new)


def _limit(limit: Obj, field: str, seen: dict[str, None]) -> Errors:
    kind = limit.get("type", "")
    errors: Errors = [invalid(f"{field}.type", kind, problem) for problem in text.qualified_name(kind)]
    if not errors and kind not in ("Pod", "Container", "PersistentVolumeClaim") and "/" not in kind:
        errors.append(invalid(f"{field}.type", kind, "must be a standard limit type or fully qualified"))
    if kind in seen:
        errors.append(duplicate(f"{field}.type", kind))
    seen[kind] = None
    judge = container_resource_name if kind in ("Pod", "Container") else resource_name
    levels: dict[str, Obj] = {name: limit.get(name) or {} for name in _LEVELS}
    for level in ("max", "min", *(() if kind == "Pod" else ("default", "defaultRequest"))):
        errors += [e for name in levels[level] for e in judge(name, f"{field}.{level}[{name}]")]
    if kind == "Pod":
        errors += [
            forbidden(f"{field}.{name}", "may not be specified when `type` is 'Pod'")
            for name in ("default", "defaultRequest")
            if limit.get(name)
        ]
    if kind == "PersistentVolumeClaim" and "storage" not in levels["min"] and "storage" not in levels["max"]:
        detail = "either minimum or maximum storage value is required, but neither was provided"
        errors.append(required(f"{field}.limits", detail))
    ratios = levels["maxLimitRequestRatio"]
    errors += [e for name in ratios for e in judge(name, f"{field}.maxLimitRequestRatio[{name}]")]
    for name in sorted(dict.fromkeys(name for level in levels.values() for name in level)):
        errors += _ordered(name, field, levels)
    return errors


_LEVELS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
# the smaller, the larger, the field blamed, the value shown with it, and how both are called
_ORDER = (
    ("min", "max", "min", "min", "min", "max"),
    ("min", "defaultRequest", "defaultRequest", "defaultRequest", "min", "default request"),
    ("defaultRequest", "max", "defaultRequest", "defaultRequest", "default request", "max"),
    ("defaultRequest", "default", "defaultRequest", "defaultRequest", "default request", "default limit"),
    ("min", "default", "default", "min", "min", "default"),
    ("default", "max", "default", "max", "default", "max"),
)


def _ordered(name: str, field: str, levels: dict[str, Obj]) -> Errors:
    """Each of min, default request, default and max is at most the ones after it.

    Quirk: of a default out of bounds the bound is shown as the value.
    """
    errors: Errors = []
    for low, high, blamed, shown, lower, larger in _ORDER:
        small, large = levels[low].get(name), levels[high].get(name)
        if small is not None and large is not None and quantity_nano(small) > quantity_nano(large):
            texts = quantity_text(small), quantity_text(large)
            detail = f"{lower} value {texts[0]} is greater than {larger} value {texts[1]}"
            errors.append(invalid(f"{field}.{blamed}[{name}]", go_quantity(levels[shown][name]), detail))
    ratio = levels["maxLimitRequestRatio"].get(name)
    if ratio is not None:
        errors += _ratio(
            ratio, levels["min"].get(name), levels["max"].get(name), f"{field}.maxLimitRequestRatio[{name}]"
        )
    return errors


def _ratio(ratio: Any, low: Any, high: Any, field: str) -> Errors:
    shown, value = quantity_text(ratio), quantity_milli(ratio)
    errors: Errors = []
    if value < 1000:
        errors.append(invalid(field, go_quantity(ratio), f"ratio {shown} is less than 1"))
    if low is not None and high is not None and quantity_milli(low):
        most = quantity_milli(high) / quantity_milli(low)
        if value / 1000 > most:
            detail = f"ratio {shown} is greater than max/min = {most:f}"
            errors.append(invalid(field, go_quantity(ratio), detail))
    return errors
