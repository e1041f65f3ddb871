"""What quotas count of a kind besides the number of its objects: amounts, and the record of a kind.

Holds: amounts are exact; a sum keeps the style of its first part that is not zero, as upstream's
does.

Mirrors  kubernetes v1.25 apiserver pkg/quota/v1/{interfaces,resources}.go,
         pkg/quota/v1/evaluator/core/registry.go (legacyObjectCountAliases).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sim.api.types import Obj
from sim.dataclass import dataclass
from sim.ident import Names
from sim.units import DECIMAL_SI, NANO, format_quantity_nano, quantity_nano, quantity_style

Amount = tuple[int, str]  # nano units and style
Amounts = dict[str, Amount]
ONE: Amount = (NANO, DECIMAL_SI)
NOTHING: Amount = (0, DECIMAL_SI)
ALWAYS_US = 1 << 62


def amounts_of(texts: Mapping[str, Any] | None) -> Amounts:
    """Amounts from quantity texts."""
    return {name: (quantity_nano(text), quantity_style(text)) for name, text in (texts or {}).items()}


def texts_of(amounts: Mapping[str, Amount]) -> dict[str, str]:
    """Quantity texts from amounts, by sorted name."""
    return {name: format_quantity_nano(*amount) for name, amount in sorted(amounts.items())}


def _plus(a: Amount | None, b: Amount) -> Amount:
    if a is None or not a[0]:
        return b
    return a[0] + b[0], a[1]


def add(a: Mapping[str, Amount], b: Mapping[str, Amount]) -> Amounts:
    """The sum of two sets of amounts."""
    return {**a, **{name: _plus(a.get(name), amount) for name, amount in b.items()}}


def most(a: Mapping[str, Amount], b: Mapping[str, Amount]) -> Amounts:
    """The larger of both amounts of each name."""
    return {**b, **{name: max(amount, b.get(name, amount), key=lambda x: x[0]) for name, amount in a.items()}}


def _no_name(_name: str, _names: Names) -> bool:
    return False


def _nothing(_obj: Obj, _names: Names) -> Amounts:
    return {}


def _always(_obj: Obj) -> int:
    return ALWAYS_US


def _all_named(_obj: Obj, _required: Sequence[str]) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """What quotas count of the objects of a kind, besides their number.

    owns: True if a name in a quota is an amount of this kind
    usage: the amounts of one object while it uses them
    until_us: the time after which an object uses nothing but its place in the count
    charges_updates: True if an update may use more
    frees: (old, new, time) -> True if an update may free something; None if none does
    in_scope: (requirement, object) -> True if an object lies in a scope; None if it lies in none
    unspecified: (object, names in a quota) -> why the object cannot be counted, "" if it can
    """

    owns: Callable[[str, Names], bool] = _no_name
    usage: Callable[[Obj, Names], Amounts] = _nothing
    until_us: Callable[[Obj], int] = _always
    charges_updates: bool = False
    frees: Callable[[Obj, Obj, int], bool] | None = None
    in_scope: Callable[[Obj, Obj], bool] | None = None
    unspecified: Callable[[Obj, Sequence[str]], str] = _all_named


ONLY_COUNTED = QuotaUse()


def named(plural: str) -> QuotaUse:
    """Of a core kind, of which the count may be named without "count/"."""
    return QuotaUse(lambda name, _: name == plural, lambda _obj, _names: {plural: ONE})
