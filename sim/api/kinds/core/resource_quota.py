"""ResourceQuotas.

Mirrors  kubernetes v1.25 pkg/apis/core/validation/validation.go: ValidateResourceQuota and its
         updates; pkg/apis/core/helper/helpers.go.
"""

from __future__ import annotations

from typing import Any

from sim.api.go.printing import GoValue
from sim.api.kinds.common.cells import AGE, NAME, age
from sim.api.kinds.common.fill import amounts, present, within
from sim.api.kinds.common.resources import quantity, resource_name
from sim.api.objects import name_of
from sim.api.schema import quota_use
from sim.api.schema.kind import STATUS, Cells, Deletion, Kind, Row, Strategy
from sim.api.status import CAUSES_MAX
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import IMMUTABLE, Errors, invalid, required
from sim.api.validation.metadata import object_meta, object_meta_update
from sim.ident import Names


def _fill_defaults(obj: Obj) -> Obj:
    obj = within(present(obj, {"spec": {}, "status": {}}), "spec", lambda spec: within(spec, "hard", amounts))
    return within(obj, "status", lambda status: within(within(status, "hard", amounts), "used", amounts))


# --- validation -----------------------------------------------------------------------------------

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

_SCOPE_LIST = "[]core.ResourceQuotaScope"

_APART = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))


def _is_standard(name: str) -> bool:
    return name in _COMPUTE or name in _COUNTED or name.startswith(("hugepages-", "requests.hugepages-"))


def _fits(scope: str, name: str) -> bool:
    """True if a quota of `name` may be confined to `scope`."""
    if not _is_standard(name):
        return True
    if scope == "BestEffort":
        return name == "pods"
    return scope not in _SCOPES or name == "pods" or name in _COMPUTE


def _amount_errors(given: Any, field: str) -> Errors:
    errors: Errors = []
    for name, value in (given or {}).items():
        at = f"{field}[{name}]"
        errors += resource_name(name, at)
        if "/" not in name and not _is_standard(name):
            errors.append(invalid(at, name, "must be a standard resource for quota"))
        errors += quantity(name, value, at)
    return errors


def _spec_errors(spec: Obj) -> Errors:
    hard, scopes = spec.get("hard") or {}, spec.get("scopes") or ()
    errors = _amount_errors(hard, "spec.hard")
    shown, misfits = GoValue(_SCOPE_LIST, spec.get("scopes")), _Misfits(hard)
    for scope in scopes:
        if scope not in _SCOPES:
            errors.append(invalid("spec.scopes", shown, "unsupported scope"))
        errors += misfits.of(scope, "spec.scopes", shown)
        if len(errors) > CAUSES_MAX:
            break
    for pair in _APART:
        if all(scope in scopes for scope in pair):
            errors.append(invalid("spec.scopes", shown, "conflicting scopes"))
    expressions = (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    selector = GoValue("core.ScopeSelector", spec.get("scopeSelector"))
    for expression in expressions:
        errors += _expression_errors(expression, misfits, selector)
        if len(errors) > CAUSES_MAX:
            break
    selected = [expression.get("scopeName") for expression in expressions]
    for pair in _APART:
        if all(scope in selected for scope in pair):
            # Quirk: the value is the list of scopes, and not the selector.
            errors.append(invalid("spec.scopeSelector.matchExpressions", shown, "conflicting scopes"))
    return errors


class _Misfits:
    """Resources of a quota that cannot be confined to a scope, counted once for each scope."""

    def __init__(self, hard: Obj) -> None:
        self._hard = hard
        self._counts: dict[str, int] = {}

    def of(self, scope: str, field: str, shown: GoValue) -> Errors:
        """An error for each such resource, up to the number that one answer holds."""
        if scope not in _SCOPES:
            return []
        if scope not in self._counts:
            self._counts[scope] = sum(not _fits(scope, name) for name in self._hard)
        error = invalid(field, shown, "unsupported scope applied to resource")
        return [error] * min(self._counts[scope], CAUSES_MAX)


def _expression_errors(expression: Obj, misfits: _Misfits, selector: GoValue) -> Errors:
    field = "spec.scopeSelector.matchExpressions"
    scope, operator = expression.get("scopeName", ""), expression.get("operator", "")
    values = expression.get("values") or []
    errors: Errors = []
    if scope not in _SCOPES:
        errors.append(invalid(f"{field}.scopeName", scope, "unsupported scope"))
    errors += misfits.of(scope, field, selector)
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
            errors.append(invalid(f"{field}.values", GoValue("[]string", values), detail))
    else:
        errors.append(invalid(f"{field}.operator", operator, "not a valid selector operator"))
    return errors


def _status_errors(status: Obj) -> Errors:
    return _amount_errors(status.get("hard"), "status.hard") + _amount_errors(
        status.get("used"), "status.used"
    )


def _validate_create(obj: Obj) -> Errors:
    errors = object_meta(obj["metadata"], True, text.subdomain) + _spec_errors(obj.get("spec") or {})
    return errors + _status_errors(obj.get("status") or {})


def _validate_update(new: Obj, old: Obj) -> Errors:
    errors = object_meta_update(new["metadata"], old["metadata"])
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    if spec is before:
        return errors
    errors += _spec_errors(spec)
    scopes = spec.get("scopes")
    if sorted(scopes or ()) != sorted(before.get("scopes") or ()):
        errors.append(invalid("spec.scopes", GoValue(_SCOPE_LIST, spec.get("scopes")), IMMUTABLE))
    return errors


def _validate_status(new: Obj, old: Obj) -> Errors:
    return object_meta_update(new["metadata"], old["metadata"]) + _status_errors(new.get("status") or {})


# --- table ----------------------------------------------------------------------------------------


def _cells(obj: Obj, now_us: int, _: Names) -> Cells:
    status = obj.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    requests: list[str] = []
    limits: list[str] = []
    for name in sorted(hard):
        group = limits if name.startswith("limits.") else requests
        group.append(f"{name}: {used.get(name, '0')}/{hard[name]}")
    return [name_of(obj), age(obj, now_us), ", ".join(requests), ", ".join(limits)]


KIND = Kind(
    rows=(Row("", "v1", "resourcequotas", "ResourceQuota", short=("quota",), subs=(STATUS,)),),
    deletion=Deletion(returns_object=True),
    strategy=Strategy(status=True),
    defaults=_fill_defaults,
    validate_create=_validate_create,
    validate_update={"": _validate_update, "status": _validate_status},
    columns=(NAME, AGE, "Request", "Limit"),
    cells=_cells,
    quota=quota_use.named("resourcequotas"),
)
