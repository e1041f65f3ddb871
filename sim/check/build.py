"""Builds the expectations of a scenario from the entries of its schema.

Turns one entry, which has exactly one of the keys of `KINDS`, into an `Expectation`.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import UNSET

from sim.check.expect import Always, Eventually, Expectation, Never, Spec, Within
from sim.check.over import parse_over
from sim.check.several import Count, Order
from sim.check.unavailability import Unavailability
from sim.ident import Names

# Kinds that measure one quantity a run.
MEASURED = ("when", "eventually", "count", "unavailability")
# Attributes that apply to some kinds of expectations only: attribute -> (key in the file, kinds).
_GOES_WITH = {
    "within": ("within", ("when",)),
    "by": ("by", ("eventually",)),
    "equals": ("equals", ("count",)),
    "at_least": ("atLeast", ("count",)),
    "at_most": ("atMost", ("count",)),
    "again": ("again", ("when", "eventually")),
}
_KINDS: dict[str, Callable[[Spec, Names], Expectation]] = {
    "when": Within,
    "never": Never,
    "always": Always,
    "eventually": Eventually,
    "count": Count,
    "order": Order,
    "unavailability": Unavailability,
}


def build(spec: Spec, names: Names) -> Expectation:
    """The expectation that a scenario entry describes.  Raises ValueError with the error."""
    given = [key for key in _KINDS if getattr(spec, key) is not UNSET]
    if len(given) != 1:
        raise ValueError(f"give exactly one of {', '.join(_KINDS)}")
    kind = given[0]
    for key, (shown, wanted) in _GOES_WITH.items():
        value = getattr(spec, key)
        if value is not UNSET and value != "" and value is not False and kind not in wanted:
            goes_with = " and ".join(map(repr, wanted))
            raise ValueError(f"{shown!r} has no effect on {kind!r}, it goes with {goes_with}")
    expectation = _KINDS[kind](spec, names)
    expectation.kind = kind
    if spec.over is not UNSET:
        expectation.over = parse_over(spec.over, kind != "count", kind in MEASURED)
    return expectation
