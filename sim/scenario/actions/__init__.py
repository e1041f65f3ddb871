"""All kinds of steps: the faults, then what people and programs do, one file a kind.

A kind of step that is no fault has the shape of a fault (`sim.faults.shared.kinds`) and is added in
the same way: a file here that exports `KIND`, and its name in `MODULES`.
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
    "uncordon",
    "taint",
    "untaint",
    "drain",
    "load",
    "mark",
)


def _kind(module: str) -> StepKind:
    found: StepKind = import_module(f"sim.scenario.actions.{module}").KIND
    return found


USER_ACTIONS = tuple(_kind(module) for module in MODULES)
KINDS: Mapping[str, StepKind] = {kind.attribute: kind for kind in (*FAULTS, *USER_ACTIONS)}
"""Every kind of step, by the name of its field in Python."""
