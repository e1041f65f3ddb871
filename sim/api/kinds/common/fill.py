"""The small steps that defaulting is made of.

Turns an object into the same object with members filled in; nothing missing means the object itself comes back.

Mirrors  the shape of kubernetes v1.25 pkg/apis/*/v1/defaults.go: "if nil or empty, then".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sim.api.types import Obj
from sim.units import format_quantity_milli, quantity_milli, quantity_style

Fn = Callable[[Any], Any]


def fill(obj: Obj, defaults: Mapping[str, Any]) -> Obj:
    """Members that are missing, null or the empty string."""
    missing = {k: v for k, v in defaults.items() if obj.get(k) is None or obj[k] == ""}
    return {**obj, **missing} if missing else obj


def fill_zero(obj: Obj, defaults: Mapping[str, Any]) -> Obj:
    """As `fill`, for plain integers of upstream's types, where 0 is not set either."""
    missing = {k: v for k, v in defaults.items() if not obj.get(k)}
    return {**obj, **missing} if missing else obj


def present(obj: Obj, members: Mapping[str, Any]) -> Obj:
    """Members that upstream's encoding never leaves out."""
    if members.keys() <= obj.keys():
        return obj
    return {**obj, **{k: v for k, v in members.items() if k not in obj}}


def within(obj: Obj, field: str, fn: Fn) -> Obj:
    value = obj.get(field)
    if value is None:
        return obj
    new = fn(value)
    return obj if new is value else {**obj, field: new}


def each_of(items: list[Any], fn: Fn) -> list[Any]:
    new = [fn(item) for item in items]
    return items if all(a is b for a, b in zip(items, new, strict=True)) else new


def all_of(obj: Obj, field: str, fn: Fn) -> Obj:
    return within(obj, field, lambda items: each_of(items, fn))


def amounts(amounts: Obj) -> Obj:
    """Quantities in their canonical text, what is finer than a milli unit rounded up."""
    rounded = {}
    for name, text in amounts.items():
        try:
            canonical = format_quantity_milli(quantity_milli(text), quantity_style(text))
        except ValueError:
            continue  # left to validation, which words the refusal
        if canonical != text:
            rounded[name] = canonical
    return {**amounts, **rounded} if rounded else amounts
