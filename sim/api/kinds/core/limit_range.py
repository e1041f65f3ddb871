"""LimitRanges.

Mirrors  kubernetes v1.25 pkg/apis/core/validation/validation.go: ValidateLimitRange;
         pkg/apis/core/v1/defaults.go.
"""

from __future__ import annotations

from typing import Any

from sim.api.go.printing import QUANTITY, GoValue
from sim.api.kinds.common.fill import all_of, amounts, present, within
from sim.api.kinds.common.resources import container_resource_name, is_native, resource_name
from sim.api.schema.kind import Kind, Row, Strategy
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, checked, duplicate, forbidden, invalid, required
from sim.api.validation.metadata import object_meta
from sim.ident import Names
from sim.units import quantity_milli, quantity_nano, quantity_text

_LIMITS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


def _fill_defaults(obj: Obj) -> Obj:
    """Defaults of a LimitRange: `max` is the default limit, and that the default request."""

    def limit(item: Obj) -> Obj:
        for name in _LIMITS:
            item = within(item, name, amounts)
        if item.get("type") != "Container":
            return item
        default = {**(item.get("max") or {}), **(item.get("default") or {})}
        request = {**(item.get("min") or {}), **default, **(item.get("defaultRequest") or {})}
        wanted = {name: value for name, value in (("default", default), ("defaultRequest", request)) if value}
        return item if all(item.get(name) == value for name, value in wanted.items()) else {**item, **wanted}

    def spec(value: Obj) -> Obj:
        return all_of(present(value, {"limits": None}), "limits", limit)

    return within(present(obj, {"spec": {}}), "spec", spec)


def _prepare_create(obj: Obj, _: Names) -> Obj:
    """An empty list of limits is stored as null; its writer owns it all the same."""
    spec = obj.get("spec") or {}
    return {**obj, "spec": {**spec, "limits": None}} if spec.get("limits") == [] else obj


def _validate_create(obj: Obj) -> Errors:
    errors = object_meta(obj["metadata"], True, text.subdomain)
    seen: dict[str, None] = {}
    for index, limit in enumerate((obj.get("spec") or {}).get("limits") or ()):
        errors += _limit(limit, f"spec.limits[{index}]", seen)
    return errors


def _validate_update(new: Obj, _: Obj) -> Errors:
    return _validate_create(new)


def _limit(limit: Obj, field: str, seen: dict[str, None]) -> Errors:
    kind = limit.get("type", "")
    errors: Errors = checked(f"{field}.type", kind, text.qualified_name)
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
    if kind == "Pod":  # its defaults are not compared
        levels = {**levels, "default": {}, "defaultRequest": {}}
    for name in sorted(dict.fromkeys(name for level in levels.values() for name in level)):
        errors += _ordered(name, field, levels)
    return errors


_LEVELS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")

# smaller level, larger level, field of the error, level that it shows, names of both in the text
_ORDER = (
    ("min", "max", "min", "min", "min", "max"),
    ("min", "defaultRequest", "defaultRequest", "defaultRequest", "min", "default request"),
    ("defaultRequest", "max", "defaultRequest", "defaultRequest", "default request", "max"),
    ("defaultRequest", "default", "defaultRequest", "defaultRequest", "default request", "default limit"),
    ("min", "default", "default", "min", "min", "default"),
    ("default", "max", "default", "max", "default", "max"),
)


def _ordered(name: str, field: str, levels: dict[str, Obj]) -> Errors:
    """Errors of levels in a wrong order, which is min, default request, default, max.

    Quirk: an error of a default out of bounds shows the bound as the value.
    """
    errors: Errors = []
    for low, high, blamed, shown, lower, larger in _ORDER:
        small, large = levels[low].get(name), levels[high].get(name)
        if small is not None and large is not None and quantity_nano(small) > quantity_nano(large):
            texts = quantity_text(small), quantity_text(large)
            detail = f"{lower} value {texts[0]} is greater than {larger} value {texts[1]}"
            errors.append(
                invalid(f"{field}.{blamed}[{name}]", GoValue(QUANTITY, levels[shown][name]), detail)
            )
    ratio = levels["maxLimitRequestRatio"].get(name)
    if ratio is not None:
        errors += _ratio(
            ratio, levels["min"].get(name), levels["max"].get(name), f"{field}.maxLimitRequestRatio[{name}]"
        )
    if not is_native(name) or name.startswith("hugepages-"):
        errors += _unequal(name, field, levels["defaultRequest"].get(name), levels["default"].get(name))
    return errors


def _unequal(name: str, field: str, request: Any, limit: Any) -> Errors:
    """The error of a default request that is not the default limit, where nothing can overcommit."""
    if request is None or limit is None or quantity_nano(request) == quantity_nano(limit):
        return []
    texts = (
        f"default value {quantity_text(limit)} must equal to defaultRequest value {quantity_text(request)}"
    )
    return [invalid(f"{field}.defaultRequest[{name}]", GoValue(QUANTITY, request), f"{texts} in {name}")]


def _ratio(ratio: Any, low: Any, high: Any, field: str) -> Errors:
    shown, value = quantity_text(ratio), quantity_milli(ratio)
    errors: Errors = []
    if value < 1000:
        errors.append(invalid(field, GoValue(QUANTITY, ratio), f"ratio {shown} is less than 1"))
    if low is not None and high is not None and quantity_milli(low):
        most = quantity_milli(high) / quantity_milli(low)
        if value / 1000 > most:
            detail = f"ratio {shown} is greater than max/min = {most:f}"
            errors.append(invalid(field, GoValue(QUANTITY, ratio), detail))
    return errors


KIND = Kind(
    rows=(Row("", "v1", "limitranges", "LimitRange", short=("limits",)),),
    strategy=Strategy(
        create_by_put=True,
        named_by_uid=True,
        prepare_create=_prepare_create,
        prepare_update=lambda new, _, names: _prepare_create(new, names),
    ),
    defaults=_fill_defaults,
    validate_create=_validate_create,
    validate_update={"": _validate_update},
)
