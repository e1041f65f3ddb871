"""What one call of a function costs when it is evaluated, without its arguments.

A function and its overload become `Units`: a number, or a function of the arguments and the result.

Holds: a call that fails costs as much as one that does not, with 1 for the size of what is missing.

Mirrors  cel-go v0.12 interpreter/runtimecost.go; apiextensions-apiserver v1.25
         pkg/apiserver/schema/cel/library/cost.go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import Any

from sim.api.crd.cel.cost import PATTERN, TRAVERSAL
from sim.api.crd.cel.functions import size
from sim.api.crd.cel.values import Listing, Mapping

Units = int | Callable[[Sequence[Any], Any], int]
_OF_LISTS = ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf")
_OF_TEXTS = ("url", "lowerAscii", "upperAscii", "substring", "trim")
_OF_FIRST = ("startsWith_string", "endsWith_string", "string_to_bytes", "bytes_to_string")
_BY_SMALLER = ("less", "less_equals", "greater", "greater_equals")
_SCALARS = (int, bool, float)


def units_of(name: str, overload: str) -> Units:
    """The cost of a call.  overload: "" if type checking left several open."""
    if name in _OF_LISTS:
        return lambda args, _: _traversal(args[0])
    if name in _OF_TEXTS:
        return lambda args, _: ceil(_size(args[0]) * TRAVERSAL)
    if name in ("replace", "split"):
        return lambda args, _: ceil(_size(args[0]) * 2 * TRAVERSAL)
    if name == "join":
        return lambda _, result: ceil(_size(result) * 2 * TRAVERSAL)
    if name in ("find", "findAll") or overload == "matches_string":
        return _search
    if overload in _OF_FIRST:
        return lambda args, _: ceil(_size(args[0]) * TRAVERSAL)
    if overload == "in_list":
        return lambda args, _: _size(args[1])
    if name in ("_==_", "_!=_") or _is_text_relation(overload):
        return _of_smaller
    if overload in ("add_string", "add_bytes"):
        return lambda args, _: ceil((_size(args[0]) + _size(args[1])) * TRAVERSAL)
    if overload == "contains_string":
        return lambda args, _: ceil(_size(args[0]) * TRAVERSAL) * ceil(_size(args[1]) * TRAVERSAL)
    return 1


def _of_smaller(args: Sequence[Any], _: Any) -> int:
    one, other = args
    return ceil(min(_size(one), _size(other)) * TRAVERSAL)


def _search(args: Sequence[Any], _: Any) -> int:
    return ceil((1.0 + _size(args[0])) * TRAVERSAL) * ceil(_size(args[1]) * PATTERN)


def _is_text_relation(overload: str) -> bool:
    relation, _, kind = overload.rpartition("_")
    return kind in ("string", "bytes") and relation in _BY_SMALLER


def _size(value: Any) -> int:
    kind = value.__class__
    if kind is str:
        return len(value)
    if kind in _SCALARS:
        return 1
    return size(value) if isinstance(value, str | bytes | Listing | Mapping) else 1


def _traversal(value: Any) -> int:
    if isinstance(value, str | bytes):
        data = value.encode(errors="surrogatepass") if isinstance(value, str) else value
        return int(len(data) * TRAVERSAL)
    if isinstance(value, Listing):
        if value.kind() in _SCALARS:
            return value.size()
        return sum(_traversal(item) for item in value)
    if isinstance(value, Mapping):
        return sum(_traversal(key) + _traversal(value.find(key)[1]) for key in value.names())
    return 1
