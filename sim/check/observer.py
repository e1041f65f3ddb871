"""Whoever looks at a run from outside: commits and steps go to all that watch, and at the end come
the verdicts.

Holds: nothing of a run depends on who watches it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from sim.api.store import Change
from sim.check.condition import Condition, in_words
from sim.check.expect import Expectation, Verdict
from sim.check.tally import Matter, Tally, seen_by
from sim.check.world import World
from sim.errors import suggestion

LIKENESS = 0.88  # of reasons: NodeReady is no misspelt NodeNotReady


class Watcher(Protocol):
    """Whatever looks at commits and steps."""

    def resources(self) -> frozenset[str]: ...
    def see(self, world: World, resource: str, change: Change) -> None: ...
    def step(self, name: str, kind: str, at_us: int, world: World) -> None: ...


class Observer:
    """Watchers of a run over one world; subscribe `see` to the `resources` of the store."""

    def __init__(self, world: World, watchers: Sequence[Watcher]) -> None:
        self.world = world
        self._watchers = watchers
        self._by_resource: dict[str, list[Watcher]] = {}
        for watcher in watchers:
            for resource in sorted(watcher.resources()):
                self._by_resource.setdefault(resource, []).append(watcher)
        if "events" in self._by_resource:
            world.follow_pods()

    @property
    def resources(self) -> list[str]:
        """Whose commits matter: to the watchers, and to the world."""
        return sorted({*self.world.resources, *self._by_resource})

    def learn(self, change: Change) -> None:
        """Take in an object that was there before, which no watcher is to see happen."""
        resource = change.item.key.split("/", 3)[2]
        if resource in self.world.resources:
            self.world.see(resource, change)

    def see(self, change: Change) -> None:
        """Take a commit in."""
        resource = change.item.key.split("/", 3)[2]
        if resource in self.world.resources:
            self.world.see(resource, change)
        for watcher in self._by_resource.get(resource, ()):
            watcher.see(self.world, resource, change)

    def step(self, name: str, kind: str, at_us: int) -> None:
        """A step of the timeline takes place, or ends ("end of NAME")."""
        for watcher in self._watchers:
            watcher.step(name, kind, at_us, self.world)


class Reasons:
    """The reasons of all events of a run that expects something of events: a misspelt one never
    comes.
    """

    def __init__(self, expectations: Sequence[Expectation]) -> None:
        self._wanted = [
            [matter.reason for matter in one.matters() if isinstance(matter, Matter) and matter.reason]
            for one in expectations
        ]
        self._seen: dict[str, None] = {}

    def resources(self) -> frozenset[str]:
        return frozenset({"events"} if any(self._wanted) else ())

    def see(self, world: World, resource: str, change: Change) -> None:
        self._seen[str(change.item.obj.get("reason", ""))] = None

    def step(self, name: str, kind: str, at_us: int, world: World) -> None:
        """Nothing depends on it."""

    def doubts(self) -> list[str]:
        """Of each expectation what is odd about the events it speaks of: none came, but some that
        are called nearly so.
        """
        return ["; ".join(filter(None, map(self._doubt, wanted))) for wanted in self._wanted]

    def _doubt(self, reason: str) -> str:
        if reason in self._seen:
            return ""
        alike = next((seen for seen in self._seen if seen.lower() == reason.lower()), "")
        hint = (
            f"did you mean {alike!r}?" if alike else suggestion(reason, self._seen, similarity_min=LIKENESS)
        )
        return f"no event {reason} came; {hint}" if hint else ""


class _Selection:
    """What an expectation selects, and whether there ever was any of it: of what is to be created
    on a node, as it was created.
    """

    def __init__(self, matter: Condition | Matter) -> None:
        self.matter, self.met = matter, False
        self._tally = Tally(matter) if isinstance(matter, Condition) else None

    @property
    def created_on_a_node(self) -> bool:
        matter = self.matter
        placed = matter.resource == "pods" and ("zone" in matter.where or "node" in matter.where)
        return placed and isinstance(matter, Matter) and matter.what == "created"

    def see(self, world: World, resource: str, change: Change) -> None:
        if self._tally is not None:
            self._tally.see(world, resource, change)
            self.met = self._tally.selected > 0
        elif change.prev is None or not self.created_on_a_node:
            self.met = self.matter.select(world, resource, change.item.obj)


class Selections:
    """Whether there was ever anything of what expectations select: of a label that is misspelt
    nothing can be said.
    """

    def __init__(self, expectations: Sequence[Expectation]) -> None:
        self._wanted = [
            [_Selection(matter) for matter in one.matters() if matter.where and matter.resource != "events"]
            for one in expectations
        ]
        self._unmet: dict[str, list[_Selection]] = {}
        for selection in (selection for wanted in self._wanted for selection in wanted):
            for resource in seen_by(selection.matter):
                self._unmet.setdefault(resource, []).append(selection)

    def resources(self) -> frozenset[str]:
        return frozenset(self._unmet)

    def see(self, world: World, resource: str, change: Change) -> None:
        unmet = self._unmet[resource]
        if unmet:
            for selection in unmet:
                if not selection.met:  # by what another resource showed
                    selection.see(world, resource, change)
            unmet[:] = [selection for selection in unmet if not selection.met]

    def step(self, name: str, kind: str, at_us: int, world: World) -> None:
        """Nothing depends on it."""

    def doubts(self) -> list[str]:
        """Of each expectation that of which there was none."""
        return [
            "; ".join(dict.fromkeys(self._doubt(one) for one in wanted if not one.met))
            for wanted in self._wanted
        ]

    def _doubt(self, selection: _Selection) -> str:
        if selection.created_on_a_node:
            return "pods are created before they have a node"
        return f"there were no {selection.matter.resource} {in_words(selection.matter.where)}"


class Checker(Observer):
    """All expectations of a run."""

    def __init__(self, world: World, expectations: list[Expectation]) -> None:
        self._doubters = Reasons(expectations), Selections(expectations)
        super().__init__(world, [*expectations, *self._doubters])
        self.expectations = expectations

    def verdicts(self, end_us: int) -> list[Verdict]:
        doubts = zip(*(doubter.doubts() for doubter in self._doubters), strict=True)
        return [
            self._verdict(one, "; ".join(filter(None, doubt)), end_us)
            for one, doubt in zip(self.expectations, doubts, strict=True)
        ]

    def _verdict(self, one: Expectation, doubt: str, end_us: int) -> Verdict:
        verdict = one.verdict(end_us)
        measured = f"{verdict.measured} ({doubt})" if doubt else verdict.measured
        return replace(verdict, measured=measured, kind=one.kind, witness=one.witness, after=one.after)
