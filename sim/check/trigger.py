"""Triggers: conditions that start steps, the `when` of a timeline's steps.

Turns commits and steps into one call of `fire` each time a condition begins to hold (or a matter
happens) while the trigger is open.

Holds: `fire` is called within a commit and must only plan what follows; a condition that holds when
the trigger opens fires at once; it fires again only after it has ceased to hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sim.api.store import Change
from sim.check.condition import Condition
from sim.check.expect import is_step
from sim.check.tally import Tally, parse_matter, seen_by
from sim.check.world import World
from sim.ident import Names


class Trigger:
    """Watches one condition or matter from the start, or from the step `after`, until `close`."""

    def __init__(self, given: Any, names: Names, after: str, fire: Callable[[], None]) -> None:
        self.matter = parse_matter(given, names)
        self.tally = Tally(self.matter) if isinstance(self.matter, Condition) else None
        self._after = after
        self._fire = fire
        self._open = not after
        self._held = False

    def close(self) -> None:
        """Stop firing for good."""
        self._open = False
        self._after = ""

    def resources(self) -> frozenset[str]:
        """The resources of which it needs commits."""
        return frozenset(seen_by(self.matter))

    def step(self, name: str, kind: str, at_us: int, world: World) -> None:
        """Open at the step `after`."""
        # `after` names a step; another step may have that name as its kind.
        if self._after and is_step(self._after, name, kind=""):
            self._open, self._after = True, ""
            self._held = False
            self._look()

    def see(self, world: World, resource: str, change: Change) -> None:
        """Take a commit, and fire if the condition begins to hold or the matter happens."""
        if self.tally is not None:
            if self.tally.see(world, resource, change):
                self._look()
        elif self._open and not isinstance(self.matter, Condition):
            if self.matter.happened(world, resource, change):
                self._fire()

    def _look(self) -> None:
        if self._open and self.tally is not None:
            current, self._held = self._held, self.tally.holds
            if self._held and not current:
                self._fire()
