"""The invariant `no-stuck-deletion`: what is marked for deletion goes."""

from __future__ import annotations

from typing import ClassVar

from sim.api.store import Change, path_of
from sim.check.invariants.base import Invariant
from sim.check.world import World
from sim.check.writes import listed, written_resources
from sim.faults.disturbances import LAST_DISTURBANCE
from sim.units import SECOND
from sim.verdict import Verdict


class NoStuckDeletion(Invariant):
    """No object is marked for deletion for longer than `within` and its own grace period.

    The time before the last disturbance does not count: a pod on a dead node stays until the node
    is back. Finalizers that no controller removes, and volumes that cannot be unmounted, break it.
    """

    name_in_file = "no-stuck-deletion"
    within_default = "10m"
    after_default = LAST_DISTURBANCE
    example: ClassVar[str] = "{name: what is deleted goes, invariant: no-stuck-deletion}"

    # When marked objects should be gone, when they were marked, and the revision of that.
    _due_us: dict[str, tuple[int, int, int]]

    def reset(self) -> None:
        """Forget what has gone; what is marked stays so."""
        super().reset()
        self._due_us = getattr(self, "_due_us", {})
        self._stuck: dict[str, int] = {}  # what went too late, with the time for which it was stuck

    def resources(self) -> frozenset[str]:
        """All resources."""
        return written_resources(self.names)

    def take(self, world: World, resource: str, change: Change) -> None:
        """Note a mark, or the end of an object that had one."""
        key, meta = change.item.key, change.item.obj["metadata"]
        if change.deleted:
            due = self._due_us.pop(key, None)
            if due is not None and self.in_window(change.at_us):
                self._judge_one(key, *due, change.at_us)
        elif "deletionTimestamp" in meta:
            grace_us = (meta.get("deletionGracePeriodSeconds") or 0) * SECOND
            due_us = change.at_us + grace_us
            known_us, marked_us, rev = self._due_us.get(key, (due_us, change.at_us, change.item.rev))
            # A second deletion may shorten the grace period.
            self._due_us[key] = min(known_us, due_us), marked_us, rev

    def _judge_one(self, key: str, due_us: int, marked_us: int, rev: int, at_us: int) -> None:
        over_us = at_us - max(due_us, self.from_us or 0)
        if over_us > self.within_us:
            self._stuck[key] = over_us
            self.note(marked_us, key, rev)

    def at_fault(self) -> tuple[str, ...]:
        """The objects that were stuck."""
        return tuple(self._stuck)

    def judge(self, end_us: int) -> Verdict:
        """The verdict on what went late, and on what is still there."""
        target = f"for at most {self.shown(self.within_us)}"
        if never := self.unopened(target):
            return never
        stop_us = self.stop_us(end_us)
        for key, due in self._due_us.items():
            self._judge_one(key, *due, stop_us)
        if not self._stuck:
            return self.kept("none", target)
        parts = [
            f"{path_of(key)} for {self.shown(us)}{', to the end' if key in self._due_us else ''}"
            for key, us in self._stuck.items()
        ]
        return self.broken(listed(parts), target, tuple(us / 1e6 for us in self._stuck.values()))
