"""The invariant `steady`: nothing is written any more."""

from __future__ import annotations

from typing import ClassVar

from sim.api.store import Change
from sim.check.invariants.base import Invariant
from sim.check.world import World
from sim.check.writes import Unrest, is_heartbeat, written_resources
from sim.faults.disturbances import LAST_DISTURBANCE
from sim.verdict import Verdict


class Steady(Invariant):
    """From `within` after the last disturbance on, no object is written, created or deleted.

    Heartbeats are no writes: renewals of leases, and reports of nodes without news; nor are Events.
    A cluster with CronJobs or with users who go on writing is not steady. The verdict says what
    still changes.
    """

    name_in_file = "steady"
    within_default = "10m"
    after_default = LAST_DISTURBANCE
    example: ClassVar[str] = "{name: it comes to rest, invariant: {name: steady, within: 20m}}"

    def reset(self) -> None:
        """Forget the writes before the window."""
        super().reset()
        self._last_us = self.from_us or 0
        self._late = Unrest()

    def resources(self) -> frozenset[str]:
        """All that are written for a reason."""
        return written_resources(self.names)

    def take(self, world: World, resource: str, change: Change) -> None:
        """Note a write."""
        if not self.in_window(change.at_us) or is_heartbeat(resource, change):
            return
        self._last_us = change.at_us
        if change.at_us <= self.deadline_us:
            return
        self.note(change.at_us, change.item.key, change.item.rev)
        self._late.add(change)

    def at_fault(self) -> tuple[str, ...]:
        """The objects that still change."""
        return tuple(self._late.of)

    def judge(self, end_us: int) -> Verdict:
        """The verdict on the last write."""
        target = f"no write from {self.shown(self.within_us)} {self.since}"
        if never := self.unopened(target):
            return never
        took_us = self.since_us(self._last_us)
        if late := self._late.words(self.deadline_us):
            return self.broken(f"still changes: {late}", target, (took_us / 1e6,))
        if self.stop_us(end_us) < self.deadline_us:
            return self.too_short(target, end_us)
        return self.kept(f"last write {self.shown(took_us)} {self.since}", target, (took_us / 1e6,))
