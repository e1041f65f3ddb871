"""The invariant `true-status`: what the API says of pods is what runs on their machines."""

from __future__ import annotations

from typing import Any, ClassVar

from sim.api.store import Change
from sim.api.types import Obj
from sim.check.expect import Spec
from sim.check.invariants.base import Invariant, ReadyNodes
from sim.check.monitors.programs import PROGRAMS
from sim.check.world import World
from sim.check.writes import listed
from sim.faults.disturbances import LAST_DISTURBANCE
from sim.ident import Names
from sim.units import format_instant
from sim.verdict import Verdict

FINISHED = ("Succeeded", "Failed")
Place = tuple[str, str]  # namespace and name of a pod, and a node


class TrueStatus(Invariant):
    """What the API says of a pod is true within `within`, on nodes that are Ready.

    A pod with a running container in its status runs on its machine; a pod that has finished, or
    that the API no longer knows, does not run there. The time is counted from the last disturbance,
    and from when the node was Ready without a gap.
    """

    name_in_file = "true-status"
    within_default = "2m"
    after_default = LAST_DISTURBANCE
    example: ClassVar[str] = "{name: no status lies, invariant: {name: true-status, within: 5m}}"

    def __init__(self, spec: Spec, names: Names) -> None:
        self._nodes = ReadyNodes()
        self._said: dict[Place, bool | None] = {}  # True: it runs; None: it may
        self._programs: dict[Place, dict[str, None]] = {}
        self._false: dict[Place, tuple[int, str]] = {}  # since when, and what is wrong
        super().__init__(spec, names)

    def reset(self) -> None:
        """Forget the breaches; what is said and what runs stays known."""
        super().reset()
        self._breaches: dict[str, str] = {}

    def resources(self) -> frozenset[str]:
        """Pods, what runs on machines, and nodes."""
        return frozenset(("pods", "nodes", PROGRAMS))

    def take(self, world: World, resource: str, change: Change) -> None:
        """Take what the API says of a pod, or what runs."""
        if resource == "nodes":
            self._nodes.take(change)
            return
        obj = change.item.obj
        pod = f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"
        place = pod, (obj.get("spec") or {}).get("nodeName", "")
        if not place[1]:
            return
        if resource == PROGRAMS:
            programs = self._programs.setdefault(place, {})
            if not change.deleted:
                programs[change.item.key] = None
            else:
                programs.pop(change.item.key, None)
                if not programs:
                    del self._programs[place]
        elif change.deleted:
            self._said.pop(place, None)
        else:
            self._said[place] = _runs(obj)
        self._compare(place, change.at_us)

    def _compare(self, place: Place, at_us: int) -> None:
        said, runs = self._said.get(place, False), place in self._programs
        wrong = ""
        if said is True and not runs:
            wrong = "is said to run, and does not"
        elif said is False and runs:
            wrong = "is not said to run, and does"
        entry = self._false.get(place)
        if entry is not None and entry[1] != wrong:
            self._judge_one(place, *entry, at_us)
            del self._false[place]
        if wrong and place not in self._false:
            self._false[place] = at_us, wrong

    def _judge_one(self, place: Place, since_us: int, wrong: str, at_us: int) -> None:
        pod, node = place
        ready_us = self._nodes.since_us(node)
        if ready_us is None or not self.in_window(at_us):
            return
        since_us = max(since_us, ready_us, self.from_us or 0)
        if at_us - since_us > self.within_us:
            self.note(since_us, f"//pods/{pod}")
            text = f"pods/{pod} {wrong} on {node} for {self.shown(at_us - since_us)}"
            self._breaches.setdefault(f"//pods/{pod}", f"{text}, from {format_instant(since_us)}")

    def at_fault(self) -> tuple[str, ...]:
        """The pods with a status that is not true."""
        return tuple(self._breaches)

    def judge(self, end_us: int) -> Verdict:
        """The verdict on all pods."""
        target = f"true within {self.shown(self.within_us)}"
        if never := self.unopened(target):
            return never
        for place, (since_us, wrong) in self._false.items():
            self._judge_one(place, since_us, wrong, self.stop_us(end_us))
        if self._breaches:
            return self.broken(listed([*self._breaches.values()]), target)
        return self.kept("all are true", target)


def _runs(pod: Obj) -> bool | None:
    """What a status says: True if a container runs, False if the pod has finished, else None."""
    status: Any = pod.get("status") or {}
    if status.get("phase") in FINISHED:
        return False
    states = [one.get("state") or {} for one in status.get("containerStatuses") or ()]
    return True if any("running" in state for state in states) else None
