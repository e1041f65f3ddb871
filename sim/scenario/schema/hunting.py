"""The section `hunt` of a scenario as typed values: what a hunt may vary, and what must hold.

A run of the scenario itself ignores the section.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sim.faults.shared.parameters import Strict
from sim.scenario.schema.steps import Drawn


class PaletteEntry(Drawn, kw_only=True):
    """A step that may be drawn: one action, as a draw of a random step.

    Ranges of durations and `pick` of nodes and processes are drawn for each step.

    values: other parameters that are drawn for each step, by their path below the entry: a list, or
        a set of the cluster: `zones`, `nodes`, `servers`, `processes`, `drivers`, `selectors`, or
        the plural of a kind; a text of the list may hold a set, as "zone {zones}"
    then: a step that follows, `delay` after it, on the same nodes
    """

    values: dict[str, list[Any] | str] = {}
    then: dict[str, Any] | None = None


class Orders(Strict):
    """Orders in which messages arrive, of `cluster.arrivals`: see there.

    Of up to five names in `among` every permutation, of more of them some; without names some sets
    of draws.
    """

    among: list[str] = []
    spread: str = "0s"


class Hunt(Strict):
    """What a hunt may vary, and what must hold in each run besides the expectations of the file.

    palette: the steps that may be drawn: entries, or a word: the name of a kind of step for the
        usual draws of that kind, `faults` for those of all faults, `users` for those of the actions
        of users
    from: the earliest step; without it a quarter of the duration, 2m at most
    for: the time in which steps are drawn
    quiet: the time at the end without a fault; without it the third of the duration after `from`
    steps: the lowest and the highest number of steps
    at_once: the largest number of faults that are active at the same time
    vary: values of the scenario by their path, as with `--set`: a list, or a range of whole numbers
        or durations, as 3..6
    arrivals: the orders in which messages arrive; without it that of the scenario
    invariants: what must hold, by name or as an expectation; without it all that the scenario keeps
        without a drawn step
    maximise: quantities that lead the search, as "unavailability of deployments/web" or
        "time until all nodes have Ready=True", or an expectation that measures one
    """

    palette: list[str | PaletteEntry] = msgspec.field(default_factory=lambda: ["faults"])
    from_: str | None = msgspec.field(name="from", default=None)
    for_: str | None = msgspec.field(name="for", default=None)
    quiet: str | None = None
    steps: Annotated[list[Annotated[int, Meta(ge=1, le=100)]], Meta(min_length=2, max_length=2)] = (
        msgspec.field(default_factory=lambda: [1, 5])
    )
    at_once: Annotated[int, Meta(ge=1, le=100)] = 3
    vary: dict[str, list[Any] | str] = {}
    arrivals: Orders | UnsetType = UNSET
    invariants: list[str | dict[str, Any]] | UnsetType = UNSET
    maximise: list[str | dict[str, Any]] = []
