"""What a cluster should always do, by name: `invariant: budgets-kept`, one module an invariant.

An invariant is an expectation that needs no condition: it knows what it looks at.  An entry of
`expect` names it, and may give its parameters: `invariant: {name: steady, within: 5m}`.

How to add one: write a subclass of `Invariant` with a name, its defaults, a docstring, which is its
documentation, and an example, and add it to `ALL`.  It takes commits (`take`), steps and machines,
and judges at the end (`judge`), at a cost proportional to what changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sim.check.expect import Spec
from sim.check.invariants.available_again import AvailableAgain
from sim.check.invariants.base import Invariant
from sim.check.invariants.bounded_requests import BoundedRequests
from sim.check.invariants.budgets_kept import BudgetsKept
from sim.check.invariants.informers_converge import InformersConverge
from sim.check.invariants.no_endless_rewrite import NoEndlessRewrite
from sim.check.invariants.no_lost_work import NoLostWork
from sim.check.invariants.no_stuck_deletion import NoStuckDeletion
from sim.check.invariants.no_unasked_deletion import NoUnaskedDeletion
from sim.check.invariants.one_leader import OneLeader
from sim.check.invariants.one_program import OneProgram
from sim.check.invariants.steady import Steady
from sim.check.invariants.true_status import TrueStatus
from sim.errors import suggestion_or_all
from sim.ident import Names

__all__ = ["INVARIANTS", "Invariant", "parse_invariant"]

ALL: tuple[type[Invariant], ...] = (
    BudgetsKept,
    AvailableAgain,
    OneLeader,
    OneProgram,
    NoUnaskedDeletion,
    NoStuckDeletion,
    NoEndlessRewrite,
    NoLostWork,
    TrueStatus,
    InformersConverge,
    BoundedRequests,
    Steady,
)
INVARIANTS: Mapping[str, type[Invariant]] = {one.name_in_file: one for one in ALL}
"""The invariants by their names in the file."""


def parse_invariant(spec: Spec, names: Names) -> Invariant:
    """The invariant of an entry of `expect`.  Raises ValueError with the error and a remedy."""
    entry: Any = spec.invariant
    name = entry if isinstance(entry, str) else entry.name
    if name not in INVARIANTS:
        raise ValueError(f"there is no invariant {name!r}; {suggestion_or_all(name, INVARIANTS)}")
    return INVARIANTS[name](spec, names)
