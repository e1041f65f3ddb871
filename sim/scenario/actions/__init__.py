"""All kinds of steps: the faults, then what people and programs do, one file a kind.

A kind of step that is no fault has the shape of a fault (`sim.faults.shared.kinds`) and is added in
the same way: a file here that exports `KIND`, and its name in `MODULES`.  A second kind that undoes
the first one is in the same file, as `OPPOSITE`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from sim.faults import FAULTS
from sim.faults.shared.kinds import StepKind

MODULES = (
    "apply",
    "scale",
    "delete",
    "patch",
    "evict",
    "cordon",
    "taint",
    "drain",
    "load",
    "request",
    "mark",
    "for_each",
    "upgrade",
)


def _kinds(module: str) -> tuple[StepKind, ...]:
    names = vars(import_module(f"sim.scenario.actions.{module}"))
    return tuple(names[name] for name in ("KIND", "OPPOSITE") if name in names)


USER_ACTIONS = tuple(kind for module in MODULES for kind in _kinds(module))
KINDS: Mapping[str, StepKind] = {kind.attribute: kind for kind in (*FAULTS, *USER_ACTIONS)}
"""Every kind of step, by the name of its field in Python."""
