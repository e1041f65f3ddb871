"""The timeline of a scenario as typed values: when a step happens, and what it does.

A step is one action (`Actions`) with the time of the action (`Step`): an instant, a condition, or
another step; once or repeatedly.  A random step draws one of several actions each time (`Drawn`).
Durations are text; at, delay, for and every may be ranges, "10s..60s", of which one value is drawn
each time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sim.faults.shared.parameters import Strict
from sim.scenario.actions import KINDS
from sim.scenario.schema.common import Label, Matter

if TYPE_CHECKING:

    class Actions(Strict):
        """One optional field for each kind of step in the registry; exactly one field is given."""

else:
    Actions = msgspec.defstruct(
        "Actions",
        [(name, kind.parameters | UnsetType, UNSET) for name, kind in KINDS.items()],
        bases=(Strict,),
        kw_only=True,
    )


class Drawn(Actions, kw_only=True):
    """One of the actions that a random step draws from.  weight: its share of the draws."""

    weight: Annotated[int, Meta(ge=1, le=1_000)] = 1
    for_: str | UnsetType = msgspec.field(name="for", default=UNSET)


class Step(Actions, kw_only=True):
    """One step: its time, and exactly one action or `random`."""

    name: Label = ""
    at: str | UnsetType = UNSET
    when: str | Matter | UnsetType = UNSET
    after: str | UnsetType = UNSET
    delay: str | UnsetType = UNSET
    every: str | UnsetType = UNSET
    rate: str | UnsetType = UNSET
    times: Annotated[int, Meta(ge=1, le=100_000)] | UnsetType = UNSET
    until: str | UnsetType = UNSET
    for_: str | UnsetType = msgspec.field(name="for", default=UNSET)
    random: Annotated[list[Drawn], Meta(min_length=1)] | UnsetType = UNSET
    by: Label = ""
    """Who does it: shown with the step, and where causes are told."""


def given_actions(step: Step | Drawn) -> list[str]:
    """The fields of the actions that a step has, in the order of the registry, and "random"."""
    return [name for name in (*KINDS, "random") if getattr(step, name, UNSET) is not UNSET]
