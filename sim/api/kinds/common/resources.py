"""Resource names and quantities of containers and claims.

Mirrors  kubernetes v1.25 pkg/apis/core/validation/validation.go: ValidateResourceRequirements,
         pkg/apis/core/helper/helpers.go.
"""

from __future__ import annotations

from typing import Any

from sim.api.go.printing import QUANTITY, GoValue
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import AT_LEAST_ZERO, Errors, FieldError, checked, forbidden, invalid, required
from sim.ident import NAMES
from sim.units import quantity_nano, quantity_text, quantity_wrapped_milli

_CONTAINER = ("cpu", "memory", "ephemeral-storage")
_HUGE = "hugepages-"
# helpers.go: integerResources
_INTEGER = (
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
)
# helpers.go: the standard resources, those of quotas included
_STANDARD = (
    *_CONTAINER,
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    *_INTEGER,
    "storage",
    "requests.storage",
)
# helpers.go: IsNativeResource; the domain of unprefixed names, in every naming set.
_NATIVE_MARKS = tuple(f"{names.domain}/" for names in NAMES.values())
_NANO = 1_000_000_000


def is_native(name: str) -> bool:
    """True if the resource is one of the cluster's own."""
    return "/" not in name or any(mark in name for mark in _NATIVE_MARKS)


def is_extended(name: str) -> bool:
    """True if the resource is one that devices provide."""
    if is_native(name) or name.startswith("requests."):
        return False
    return not text.qualified_name(f"requests.{name}")


def resource_name(name: str, field: str) -> Errors:
    """Errors of the name of a resource by the rules that hold everywhere."""
    errors = checked(field, name, text.qualified_name)
    standard = name in _STANDARD or name.startswith((_HUGE, "requests." + _HUGE))
    if not errors and "/" not in name and not standard:
        errors.append(invalid(field, name, "must be a standard resource type or fully qualified"))
    return errors


def container_resource_name(name: str, field: str) -> Errors:
    """Errors of the name of a resource that a container may request."""
    errors = resource_name(name, field)
    if "/" not in name:
        if name not in _CONTAINER and not name.startswith(_HUGE):
            errors.append(invalid(field, name, "must be a standard resource for containers"))
        return errors
    elif not is_native(name) and not is_extended(name):
        errors.append(invalid(field, name, "doesn't follow extended resource name standard"))
    return errors


def quantity(name: str, value: Any, field: str) -> Errors:
    """Errors of an amount of a resource."""
    errors = [_bad(field, value, AT_LEAST_ZERO)] if quantity_nano(value) < 0 else []
    if quantity_wrapped_milli(value) % 1000 and (name in _INTEGER or is_extended(name)):
        errors.append(invalid(field, GoValue(QUANTITY, value), "must be an integer"))
    return errors


def _fills_pages(nano: int, page: str) -> bool:
    """True if the amount is a multiple of the page size, which must be a positive whole number."""
    try:
        page_nano = quantity_nano(page)
    except ValueError:
        return False
    # Value() rounds the amount up to whole units.
    return page_nano > 0 and page_nano % _NANO == 0 and -nano // _NANO * _NANO % page_nano == 0


def pages(name: str, value: Any, field: str) -> Errors:
    """Errors of an amount of huge pages, which must be whole; a quota need not keep to that."""
    if not name.startswith(_HUGE) or _fills_pages(quantity_nano(value), name.removeprefix(_HUGE)):
        return []
    return [_bad(field, value, f"{quantity_text(value)} is not positive integer multiple of {name}")]


def _bad(field: str, value: Any, detail: str) -> FieldError:
    """The error of a quantity, which is shown as quoted text."""
    return invalid(field, quantity_text(value), detail)


def requirements(given: Obj, field: str) -> Errors:
    """Errors of the requests and limits of a container."""
    limits, requests = given.get("limits") or {}, given.get("requests") or {}
    errors: Errors = []
    needs_cpu_or_memory = False
    has_cpu_or_memory = False
    for name, value in limits.items():
        at = f"{field}.limits[{name}]"
        errors += container_resource_name(name, at) + quantity(name, value, at) + pages(name, value, at)
        needs_cpu_or_memory |= name.startswith(_HUGE)
        has_cpu_or_memory |= name in ("cpu", "memory")
    for name, value in requests.items():
        at = f"{field}.requests[{name}]"
        errors += container_resource_name(name, at) + quantity(name, value, at)
        errors += _against_limit(name, value, limits.get(name), field) + pages(name, value, at)
        needs_cpu_or_memory |= name.startswith(_HUGE)
        has_cpu_or_memory |= name in ("cpu", "memory")
    if needs_cpu_or_memory and not has_cpu_or_memory:
        errors.append(forbidden(field, "HugePages require cpu or memory"))
    return errors


def _against_limit(name: str, value: Any, limit: Any, field: str) -> Errors:
    fixed = name.startswith(_HUGE) or not is_native(name)
    if limit is None:
        if fixed:
            return [required(f"{field}.limits", "Limit must be set for non overcommitable resources")]
        return []
    asked, allowed = quantity_nano(value), quantity_nano(limit)
    if fixed and asked != allowed:
        return [_bad(f"{field}.requests", value, f"must be equal to {name} limit")]
    if not fixed and asked > allowed:
        return [_bad(f"{field}.requests", value, f"must be less than or equal to {name} limit")]
    return []
