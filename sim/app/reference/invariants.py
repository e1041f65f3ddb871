"""The invariants that an expectation may name, as rows with their documentation and an example."""

from __future__ import annotations

import inspect
from typing import NamedTuple

from sim.check.invariants import INVARIANTS


class InvariantRow(NamedTuple):
    """One invariant.

    parameters: its parameters with their defaults, as an entry gives them
    after: the start of its window where the entry says none
    example: an entry of `expect`
    """

    name: str
    parameters: str
    after: str
    documentation: str
    example: str


def invariant_rows() -> list[InvariantRow]:
    """All invariants, in their order."""
    rows = []
    for name, one in INVARIANTS.items():
        parameters = [f"within: {one.within_default}"] if one.within_default else []
        if one.at_most_default is not None:
            parameters.append(f"atMost: {one.at_most_default}")
        text = " ".join(inspect.cleandoc(one.__doc__ or "").split())
        after = f"the {one.after_default or 'start of the run'}"
        rows.append(InvariantRow(name, ", ".join(parameters), after, text, one.example))
    return rows
