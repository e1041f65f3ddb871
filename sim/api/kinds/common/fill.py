"""The small steps that defaulting is made of.

Turns an object into the same object with members filled in.

Holds: path copy only; the same object is returned if nothing is missing.

Mirrors  the shape of kubernetes v1.25 pkg/apis/*/v1/defaults.go: "if nil or empty, then".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sim.api.types import Obj
from sim.units import quantity_rounded, quantity_text

Fn = Callable[[Any], Any]


def fill(obj: Obj, defaults: Mapping[str, Any]) -> Obj:
    """The object with these defaults where a member is missing, null or the empty string."""
    missing = {k: v for k, v in defaults.items() if obj.get(k) is None or obj[k] == ""}
    return {**obj, **missing} if missing else obj


def fill_zero(obj: Obj, defaults: Mapping[str, Any]) -> Obj:
    """As `fill`, for plain integers of upstream's types, of which 0 counts as missing too."""
    missing = {k: v for k, v in defaults.items() if not obj.get(k)}
    return {**obj, **missing} if missing else obj


def present(obj: Obj, members: Mapping[str, Any]) -> Obj:
    """The object with these members, which upstream's encoding always writes."""
    if members.keys() <= obj.keys():
        return obj
    return {**obj, **{k: v for k, v in members.items() if k not in obj}}


def within(obj: Obj, field: str, fn: Fn) -> Obj:
    """The object with `fn` applied to one field; the same object if the field is missing."""
    value = obj.get(field)
    if value is None:
        return obj
    new = fn(value)
    return obj if new is value else {**obj, field: new}


def each_of(items: list[Any], fn: Fn) -> list[Any]:
    """The list with `fn` applied to each item; the same list if no item changes."""
    new = [fn(item) for item in items]
    return items if all(a is b for a, b in zip(items, new, strict=True)) else new


def all_of(obj: Obj, field: str, fn: Fn) -> Obj:
    """The object with `fn` applied to each item of a field that holds a list."""
    return within(obj, field, lambda items: each_of(items, fn))


def amounts(amounts: Obj) -> Obj:
    """Quantities in their canonical text, rounded up to milli units."""
    rounded = {}
    for name, text in amounts.items():
        try:
            canonical = quantity_text(quantity_rounded(text))
        except ValueError:
            continue  # validation reports it
        if canonical != text:
            rounded[name] = canonical
    return {**amounts, **rounded} if rounded else amounts
