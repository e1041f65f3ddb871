"""The invariant `informers-converge`: at the end every process knows what the storage holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from sim.api.store import Change, path_of
from sim.check.invariants.base import Invariant
from sim.check.world import World
from sim.check.writes import listed
from sim.faults.disturbances import LAST_DISTURBANCE
from sim.verdict import Verdict


class InformersConverge(Invariant):
    """At the end of a run the informers of every process hold what the storage holds.

    What was written in the last `within` is left out, and so are processes under a fault, and all
    of them while a fault of an API server or the storage is in force, or if the last disturbance
    was less than `within` before the end. An event that a watch has lost breaks it. A run that is
    judged before its end (a served cluster) is not.
    """

    name_in_file = "informers-converge"
    within_default = "1m"
    after_default = LAST_DISTURBANCE
    needs_views = True
    example: ClassVar[str] = "{name: all know the same, invariant: informers-converge}"

    def reset(self) -> None:
        """Forget what was found."""
        super().reset()
        self._wrong: Mapping[str, str] | None = None

    def resources(self) -> frozenset[str]:
        """None: the end decides."""
        return frozenset()

    def take(self, world: World, resource: str, change: Change) -> None:
        """Has no effect."""

    def finish(self, diverged: Callable[[int], Mapping[str, str]]) -> None:
        """The run has ended: compare."""
        self._wrong = diverged(self.within_us)

    def at_fault(self) -> tuple[str, ...]:
        """The objects about which a process is wrong."""
        return tuple(self._wrong or ())

    def judge(self, end_us: int) -> Verdict:
        """The verdict on all informers."""
        target = f"what was written until {self.shown(self.within_us)} before the end"
        if never := self.unopened(target):
            return never
        if self._wrong is None:
            return self.kept("not judged: the run has not ended", target)
        if end_us < self.deadline_us:
            return self.too_short(target, end_us)
        if not self._wrong:
            return self.kept("all", target)
        parts = [f"{path_of(key)}: {text}" for key, text in self._wrong.items()]
        return self.broken(listed(parts), target, (float(len(parts)),))
