"""The invariant `one-program`: no pod runs on two machines at once."""

from __future__ import annotations

from typing import ClassVar

from sim.api.store import Change
from sim.check.invariants.base import Invariant
from sim.check.monitors.programs import PROGRAMS
from sim.check.world import World
from sim.check.writes import listed
from sim.units import format_instant
from sim.verdict import Verdict


class OneProgram(Invariant):
    """No two machines run programs of pods with one name at once.

    A StatefulSet promises at most one pod of each name, and this is about what runs, not about
    objects: a pod that was deleted by force while its node was cut off, or an agent that starts
    from old state, breaks it. Up to `within` both may run, since an agent needs a moment to end
    them.
    """

    name_in_file = "one-program"
    within_default = "0s"
    example: ClassVar[str] = "{name: no pod runs twice, invariant: {name: one-program, within: 30s}}"

    _running: dict[str, dict[str, str]]  # programs of each name, and the machine of each

    def reset(self) -> None:
        """Forget the breaches; what runs stays known."""
        super().reset()
        if not hasattr(self, "_running"):
            self._running, self._since_us = {}, dict[str, int]()
        self._breaches: dict[str, str] = {}

    def resources(self) -> frozenset[str]:
        """What runs on machines."""
        return frozenset((PROGRAMS,))

    def take(self, world: World, resource: str, change: Change) -> None:
        """A program starts, or has ended."""
        program = change.item.key
        name, _, rest = program.partition("@")
        running = self._running.setdefault(name, {})
        if change.deleted:
            running.pop(program, None)
        else:
            running[program] = rest.partition("/")[0]
        machines = dict.fromkeys(running.values())
        if len(machines) > 1:
            self._since_us.setdefault(name, change.at_us)
        elif name in self._since_us:
            self._judge_one(name, change.at_us, self._since_us.pop(name))

    def _judge_one(self, name: str, at_us: int, since_us: int) -> None:
        took_us = at_us - max(since_us, self.from_us or 0)
        if took_us > self.within_us and self.in_window(at_us):
            pod = name.removeprefix(f"//{PROGRAMS}//")
            self.note(since_us, f"//pods/{pod}")
            text = f"pods/{pod} on two machines for {self.shown(took_us)}, from {format_instant(since_us)}"
            self._breaches.setdefault(f"//pods/{pod}", text)

    def at_fault(self) -> tuple[str, ...]:
        """The pods that ran twice."""
        return tuple(self._breaches)

    def judge(self, end_us: int) -> Verdict:
        """The verdict on all pods."""
        if never := self.unopened("never"):
            return never
        for name, since_us in self._since_us.items():
            self._judge_one(name, self.stop_us(end_us), since_us)
        if not self._breaches:
            return self.kept("never", "never")
        return self.broken(listed([*self._breaches.values()]), "never")
