"""The invariant `one-leader`: no two replicas of a component act as leader at once.

Turns the holders of the leases of components, and what becomes of their processes, into the times
during which two processes lead. A process leads from the write that makes it the holder of a lease
until it ends, releases the lease, or is hindered. What a process wrote before it ended may be
stored later, and makes it no leader.
"""

from __future__ import annotations

from typing import ClassVar

from sim.api.store import Change
from sim.check.invariants.base import Invariant
from sim.check.world import World
from sim.check.writes import listed
from sim.dataclass import dataclass
from sim.units import SECOND, format_instant
from sim.verdict import Verdict

ENDS = ("crash", "exit")
HINDERS = ("pause", "slow")
HINDERED_US = 60 * SECOND  # time before a take-over in which a hindrance of the old leader counts


@dataclass(slots=True)
class _Overlap:
    """A process that leads though another one holds its lease.

    lease: key of the lease
    since_us: since when it acts so; None while it is hindered
    allowed_us: the time for which it may
    """

    lease: str
    new: str
    since_us: int | None
    allowed_us: int
    rev: int


class OneLeader(Invariant):
    """No two replicas of a component lead at once.

    A replica leads from the write that makes it the holder of its lease until its process ends or
    it releases the lease. An old leader that is stalled or slow cannot know of the new one: nothing
    but its own clock and its own requests say so (client-go's leaderelection.go: renew). It may act
    while the hindrance lasts and for `within` more: upstream's renew deadline and a retry. Without
    such a hindrance it may not act at all beside the new one.
    """

    name_in_file = "one-leader"
    within_default = "12s"
    needs_processes = True
    example: ClassVar[str] = "{name: one leader at a time, invariant: one-leader}"

    _leaders: dict[str, dict[str, None]]  # the processes that lead, by lease
    _identities: dict[str, str]  # the last holder of each lease
    _ended: dict[str, None]  # processes that have ended, and identities that these had
    _hindered: dict[str, None]
    _hindered_us: dict[str, int]  # when a process was last hindered, or ceased to be
    _overlaps: dict[str, _Overlap]  # by the old leader's process

    def reset(self) -> None:
        """Forget the breaches; the leaders stay known."""
        super().reset()
        if not hasattr(self, "_leaders"):
            self._leaders, self._hindered, self._hindered_us, self._overlaps = {}, {}, {}, {}
            self._identities, self._ended = {}, {}
        self._breaches: list[str] = []

    def resources(self) -> frozenset[str]:
        """The leases of components."""
        return frozenset((f"leases/{self.names.system_namespace}",))

    def take(self, world: World, resource: str, change: Change) -> None:
        """Take a write of a lease."""
        key = change.item.key
        identity = _identity(change) if not change.deleted else ""
        holder = identity.partition("_")[0]
        self._identities[key] = identity
        leaders = self._leaders.setdefault(key, {})
        if not holder:
            for name in leaders:  # the leader has released it, or a user has
                self._end(name, change.at_us)
            leaders.clear()
        elif holder in self._ended or identity in self._ended:
            self._ended[identity] = None
        elif holder not in leaders:
            for name in leaders:
                self._begin(key, name, holder, change)
            leaders[holder] = None

    def _begin(self, lease: str, old: str, new: str, change: Change) -> None:
        at_us, hindered_us = change.at_us, self._hindered_us.get(old)
        recently = hindered_us is not None and at_us - hindered_us <= HINDERED_US
        hindered = old in self._hindered or recently
        since_us = None if old in self._hindered else at_us
        allowed_us = self.within_us if hindered else 0
        self._overlaps[old] = _Overlap(lease, new, since_us, allowed_us, change.item.rev)

    def process(self, what: str, name: str, at_us: int) -> None:
        """A process ends, is paused or slowed, or continues."""
        if what in HINDERS or what == "resume":
            self._hindered_us[name] = at_us
        overlap = self._overlaps.get(name)
        if what in HINDERS:
            self._hindered[name] = None
            if overlap is not None:
                self._judge_one(name, overlap, at_us)
                overlap.since_us, overlap.allowed_us = None, self.within_us
        else:
            self._hindered.pop(name, None)
            if what == "resume" and overlap is not None:
                overlap.since_us = at_us
        if what == "start":
            self._ended.pop(name, None)
        if what in ENDS:
            self._end(name, at_us)
            held = [one for one in self._identities.values() if one.partition("_")[0] == name]
            self._ended |= dict.fromkeys((name, *held))
            for leaders in self._leaders.values():
                leaders.pop(name, None)

    def _end(self, name: str, at_us: int) -> None:
        if (overlap := self._overlaps.pop(name, None)) is not None:
            self._judge_one(name, overlap, at_us)

    def _judge_one(self, name: str, overlap: _Overlap, at_us: int) -> None:
        since_us = overlap.since_us
        if since_us is None or not self.in_window(at_us):
            return
        since_us = max(since_us, self.from_us or 0)
        if at_us - since_us > overlap.allowed_us:
            self.note(since_us, overlap.lease, overlap.rev)
            text = f"{name} led for {self.shown(at_us - since_us)} beside {overlap.new}"
            self._breaches.append(f"{text}, from {format_instant(since_us)}")

    def judge(self, end_us: int) -> Verdict:
        """The verdict on all times with two leaders."""
        if never := self.unopened("never"):
            return never
        for name, overlap in self._overlaps.items():
            self._judge_one(name, overlap, self.stop_us(end_us))
        if not self._breaches:
            return self.kept("never", "never")
        return self.broken(listed(self._breaches), "never", (float(len(self._breaches)),))


def _identity(change: Change) -> str:
    """What holds a lease: a process and its incarnation; "" if none does."""
    spec = change.item.obj.get("spec") or {}
    return str(spec.get("holderIdentity") or "")
