"""The ledger of active faults: what is wrong with each target, by the step that imposed it.

Problem: faults begin and end in any order, several on one target at the same time, and the end of
one fault must not change the others.  Approach: a fault is a value under (target, aspect, step).
Whenever a value is added or removed, the aspect computes the state of its target from all values
that are in force.  Pairs of "apply" and "undo" functions were rejected: their result depends on the
order of the ends.

Holds: the end of one fault never ends another one; a target without values is in its original
    state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Literal

from sim.dataclass import dataclass
from sim.faults.shared.cluster import Target

# The respects in which a node, a process or a service can be faulty.
AspectName = Literal[
    "behaviour", "call", "clock", "cut", "devices", "disk", "down", "driver", "frozen", "instance", "lag", "outage",
    "overload", "pause", "plug-in", "pod-network", "power", "pressure", "quorum", "quota", "runtime", "runtime-delay",
    "sandboxes", "shutdown", "slow", "space", "webhook-deny", "webhook-down", "webhook-slow",
]  # fmt: skip
END_OF = "end of "  # before the name of a state of a process in the record of its end


@dataclass(frozen=True, slots=True)
class Aspect:
    """One respect in which a target can be faulty.

    settle: makes the target's state what the values in force require; called after each change
    silences: True if nothing from the target arrives while a value is in force, False if it arrives
        late; None if the process or the network reports the silence itself
    lasting: True if the consequences may outlast the fault
    group: aspects of one group silence a target in the same way, so that the first value of the
        group is the cause of the silence; "" for an aspect that is alone
    attribute: called with the trace record that is the cause of the state when its former cause has
        ended
    """

    name: AspectName
    settle: Callable[[Ledger, str], None]
    silences: bool | None = None
    lasting: bool = False
    group: str = ""
    attribute: Callable[[Ledger, str, int], None] | None = None


@dataclass(slots=True)
class _Entry:
    value: Any
    record: int  # the trace record that imposed the value


class Ledger:
    """All active faults of one cluster.

    paces: the pace that was applied to each process: -1 paused, else the microseconds that it is
        slowed by
    """

    def __init__(self, cluster: Target, aspects: Mapping[AspectName, Aspect]) -> None:
        self.cluster = cluster
        self.kernel = cluster.kernel
        self.paces: dict[str, int] = {}
        # Called with target and aspect.
        self.on_settled: list[Callable[[str, AspectName], None]] = []
        self._aspects = aspects
        self._entries: dict[tuple[str, AspectName], dict[str, _Entry]] = {}
        self._keys: dict[str, dict[tuple[str, AspectName], None]] = {}  # of each step, in order

    def impose(self, step: str, target: str, aspect: AspectName, value: Any = True) -> None:
        """Put a value into force for a step; a second value of one step replaces the first."""
        kind = self._aspects[aspect]
        if kind.silences is not None:
            self.kernel.standing.begin(f"{aspect} {step}", (target,), kind.silences, kind.lasting)
        self._entries.setdefault((target, aspect), {})[step] = _Entry(value, self.kernel.cause)
        self._keys.setdefault(step, {})[target, aspect] = None
        self._settle(target, aspect)

    def _settle(self, target: str, aspect: AspectName) -> None:
        self._aspects[aspect].settle(self, target)
        for listener in self.on_settled:
            listener(target, aspect)

    def lift(self, step: str) -> None:
        """End all values of a step."""
        for target, aspect in self._keys.pop(step, {}):
            self._drop(target, aspect, step)
            self._settle(target, aspect)

    def heal(self, target: str, only: AspectName | None = None) -> list[str]:
        """End the values of a target, of one aspect or all; returns the steps without others."""
        ended = []
        of_it = [
            key for key in self._entries if key[0].partition("/")[0] == target and only in (None, key[1])
        ]
        for at, aspect in of_it:
            for step in list(self._entries[at, aspect]):
                self._drop(at, aspect, step)
                keys = self._keys[step]
                del keys[at, aspect]
                if not keys:
                    del self._keys[step]
                    ended.append(step)
            self._settle(at, aspect)
        return ended

    def values(self, target: str, aspect: AspectName) -> list[Any]:
        """The values in force, in the order in which they were imposed."""
        return [entry.value for entry in self._entries.get((target, aspect), {}).values()]

    def targets(self, aspect: AspectName) -> list[str]:
        """The targets with a value of this aspect, in the order in which they got one."""
        return [target for target, one in self._entries if one == aspect]

    def is_faulty(self, target: str) -> bool:
        """True if a fault of a target is in force."""
        return any(at.partition("/")[0] == target for at, _ in self._entries)

    def record(self, target: str, aspect: AspectName, value: Any) -> int:
        """The trace record that imposed the first such value in force; 0 if there is none."""
        entries = self._entries.get((target, aspect), {}).values()
        return next((entry.record for entry in entries if entry.value == value), 0)

    def noted(self, name: str, what: str, active: bool, reason: str = "") -> AbstractContextManager[None]:
        """A trace record of a state of a running process, or of the end of the state."""
        text = what if active else END_OF + what
        return self.cluster.supervisor.noted(text, name, reason, of_process=False)

    def _drop(self, target: str, aspect: AspectName, step: str) -> None:
        entries, kind = self._entries[target, aspect], self._aspects[aspect]
        dropped = entries.pop(step)
        if not entries:
            del self._entries[target, aspect]
        if kind.silences is not None:
            self.kernel.standing.end(f"{aspect} {step}", (target,))
        elif kind.attribute is not None:
            held = [entry.record for entry in self._alike(target, kind)]
            if held and dropped.record <= min(held):
                kind.attribute(self, target, min(held))

    def _alike(self, target: str, kind: Aspect) -> Iterator[_Entry]:
        """The values in force that have the same effect on a target as those of an aspect."""
        for name, other in self._aspects.items():
            if other is kind or (kind.group and other.group == kind.group):
                yield from self._entries.get((target, name), {}).values()
