"""Builds the expectations of a scenario from the entries of its schema.

Turns one entry, which has exactly one of the keys of `KINDS`, into an `Expectation`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from sim.check.clients import SERVICES, ServiceUnavailability
from sim.check.component import COMPONENTS, ComponentUnavailability
from sim.check.condition import parse_condition
from sim.check.expect import Always, Eventually, Expectation, Never, Spec, Within
from sim.check.over import parse_over
from sim.check.several import Count, Order
from sim.check.tally import parse_matter
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
    "per": ("per", ("count",)),
    "again": ("again", ("when", "eventually")),
}


def _unavailability(spec: Spec, names: Names) -> Expectation:
    """That of a Service, of a component of the control plane, or of a workload."""
    of = spec.unavailability.of
    if of.startswith(SERVICES):
        return ServiceUnavailability(spec, names)
    return ComponentUnavailability(spec, names) if of in COMPONENTS else Unavailability(spec, names)


def _invariant(spec: Spec, names: Names) -> Expectation:
    """An invariant; few scenarios need the modules of all of them."""
    from sim.check.invariants import parse_invariant

    return parse_invariant(spec, names)


_KINDS: dict[str, Callable[[Spec, Names], Expectation]] = {
    "when": Within,
    "never": Never,
    "always": Always,
    "eventually": Eventually,
    "count": Count,
    "order": Order,
    "unavailability": _unavailability,
    "invariant": _invariant,
}


# How the matters of a kind are read; `unavailability` and `invariant` have none.
_READERS: dict[str, Callable[[Any, Names], object]] = {
    **dict.fromkeys(("when", "eventually", "count", "order"), parse_matter),
    "never": partial(parse_matter, unsaid="any"),
    "always": parse_condition,
}
# A matter that is valid for each kind, in place of a wrong one: it shows what else is wrong.
_SOUND = "pods are ready"


class Mistakes(ValueError):
    """All that is wrong with an expectation; `found` has an entry for each mistake."""

    def __init__(self, found: list[str]) -> None:
        super().__init__("; ".join(found))
        self.found = found


def build(spec: Spec, names: Names) -> Expectation:
    """The expectation that a scenario entry describes.  Raises Mistakes."""
    entry = [key for key in _KINDS if getattr(spec, key) is not UNSET]
    if len(entry) != 1:
        raise Mistakes([f"give exactly one of {', '.join(_KINDS)}"])
    kind = entry[0]
    result = [*_misplaced(spec, kind)]
    wrong = matter_mistakes(spec, names)
    result += wrong
    expectation = None
    try:
        expectation = _KINDS[kind](_with_sound_matters(spec, kind) if wrong else spec, names)
        expectation.kind = kind
    except ValueError as error:
        result.append(str(error))
    try:
        over = None if spec.over is UNSET else parse_over(spec.over, kind != "count", kind in MEASURED)
    except ValueError as error:
        result.append(str(error))
    if spec.over is not UNSET and spec.fails:
        result.append("'over' judges many runs, 'fails' a single one")
    if result or expectation is None:
        raise Mistakes([*dict.fromkeys(result)])
    expectation.over = over
    return expectation


def matter_mistakes(spec: Spec, names: Names) -> list[str]:
    """The errors of the conditions and matters of an entry, which may have other errors too."""
    result: list[str] = []
    for kind, read in _READERS.items():
        entry = getattr(spec, kind)
        for matter in () if entry is UNSET else entry if kind == "order" else (entry,):
            try:
                read(matter, names)
            except ValueError as error:
                result.append(str(error))
    return result


def _with_sound_matters(spec: Any, kind: str) -> Any:
    """The entry with valid matters, and as many."""
    entry = getattr(spec, kind)
    return replace(spec, **{kind: [_SOUND for _ in entry] if kind == "order" else _SOUND})


def _misplaced(spec: Spec, kind: str) -> Iterator[str]:
    """An error for each attribute that does not go with the kind of the expectation."""
    for key, (shown, target) in _GOES_WITH.items():
        value = getattr(spec, key)
        if value is not UNSET and value != "" and value is not False and kind not in target:
            goes_with = " and ".join(map(repr, target))
            yield f"{shown!r} has no effect on {kind!r}, it goes with {goes_with}"
