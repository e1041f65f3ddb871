"""Checks of the taints of a scenario: of its nodes, and of steps that add or remove some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sim.api.kinds.common.taints import taint_errors
from sim.errors import suggestion_or_all

TAINT_KEYS = ("key", "value", "effect")


def taints_problem(
    given: Sequence[Mapping[str, str]], removed: bool = False
) -> tuple[tuple[str | int, ...], str, str] | None:
    """The place of the first error, the error, and its remedy; None if there is none.

    removed: True if the taints are to be removed, which needs no effect
    """
    for index, taint in enumerate(given):
        for key in taint:
            if key not in TAINT_KEYS:
                return ("taints", index), f"unknown field {key!r}", suggestion_or_all(key, TAINT_KEYS)
    filled = [{"effect": "NoSchedule"} | {k: v for k, v in taint.items() if v} for taint in given]
    for error in taint_errors(filled if removed else given, "taints"):
        return ("taints",), f"{error.field}: {error.message}", ""
    return None
