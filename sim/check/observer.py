"""Observers of a run: they receive commits and steps, and return verdicts at the end.

Holds: nothing in a run depends on its observers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from sim.api.store import Change
from sim.check.condition import Condition, in_words
from sim.check.expect import Expectation
from sim.check.tally import Matter, Tally, seen_by
from sim.check.world import World
from sim.errors import suggestion
from sim.verdict import Verdict

SIMILARITY = 0.88  # of the letters of two reasons: NodeReady is not a misspelt NodeNotReady


class Watcher(Protocol):
    """Receives commits and steps."""

    def resources(self) -> frozenset[str]:
        """The resources of which it receives commits."""
        ...

    def see(self, world: World, resource: str, change: Change) -> None:
        """Take a commit; the world has been updated with it already."""
        ...

    def step(self, name: str, kind: str, at_us: int, world: World) -> None:
        """A step of the timeline takes place, or ends ("end of NAME")."""
        ...


class Observer:
    """Passes commits and steps to watchers; subscribe `see` to the `resources` of the store."""

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
        """The resources of which the watchers and the world need commits."""
        return sorted({*self.world.resources, *self._by_resource})

    def learn(self, change: Change) -> None:
        """Take in an object that was there before, which no watcher is to see happen."""
        resource = change.item.key.split("/", 3)[2]
        if resource in self.world.resources:
            self.world.see(resource, change)

    def see(self, change: Change) -> None:
        """Take a commit."""
        world, resource = self.world, change.item.key.split("/", 3)[2]
        if resource in world.resources:
            world.see(resource, change)
        for watcher in self._by_resource.get(resource, ()):
            watcher.see(world, resource, change)

    def machine(self, node: str, serves: bool, at_us: int) -> None:
        """The machine of a node begins or ceases to serve."""
        for watcher in self._watchers:
            if isinstance(watcher, Expectation):
                watcher.machine(node, serves, at_us)

    def step(self, name: str, kind: str, at_us: int) -> None:
        """A step of the timeline takes place, or ends ("end of NAME")."""
        for watcher in self._watchers:
            watcher.step(name, kind, at_us, self.world)


class Reasons:
    """Collects the reasons of all events, if an expectation is about events, to report misspelt
    reasons.
    """

    def __init__(self, expectations: Sequence[Expectation]) -> None:
        self._wanted = [
            [matter.reason for matter in one.matters() if isinstance(matter, Matter) and matter.reason]
            for one in expectations
        ]
        self._seen: dict[str, None] = {}

    def resources(self) -> frozenset[str]:
        """Events, if an expectation is about them."""
        return frozenset({"events"} if any(self._wanted) else ())

    def see(self, world: World, resource: str, change: Change) -> None:
        """Collect the reason of an event."""
        self._seen[str(change.item.obj.get("reason", ""))] = None

    def step(self, name: str, kind: str, at_us: int, world: World) -> None:
        """Has no effect."""

    def doubts(self) -> list[str]:
        """For each expectation, "" or a sentence: no event had its reason, but some had a similar
        one.
        """
        return ["; ".join(filter(None, map(self._doubt, wanted))) for wanted in self._wanted]

    def _doubt(self, reason: str) -> str:
        if reason in self._seen:
            return ""
        alike = next((seen for seen in self._seen if seen.lower() == reason.lower()), "")
        hint = (
            f"did you mean {alike!r}?" if alike else suggestion(reason, self._seen, similarity_min=SIMILARITY)
        )
        return f"no event {reason} came; {hint}" if hint else ""


LABELS_SHOWN = 8  # of a resource, where a selection matched nothing


class _Selection:
    """A selection of an expectation, and whether any object matched it; a pod that is created on a
    node has to match when it is created.
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
    """Reports selections that matched nothing in the run, for example because of a misspelt label."""

    def __init__(self, expectations: Sequence[Expectation]) -> None:
        self._wanted = [
            [_Selection(matter) for matter in one.matters() if matter.where and matter.resource != "events"]
            for one in expectations
        ]
        self._unmet: dict[str, list[_Selection]] = {}
        self._labels: dict[str, dict[str, None]] = {}  # that exist, by resource, for a remedy
        for selection in (selection for wanted in self._wanted for selection in wanted):
            for resource in seen_by(selection.matter):
                self._unmet.setdefault(resource, []).append(selection)

    def resources(self) -> frozenset[str]:
        """The resources of selections that matched nothing so far."""
        return frozenset(self._unmet)

    def see(self, world: World, resource: str, change: Change) -> None:
        """Check selections that matched nothing so far."""
        unmet = self._unmet[resource]
        if unmet:
            self._learn_labels(resource, change)
            for selection in unmet:
                if not selection.met:  # another resource may have met it
                    selection.see(world, resource, change)
            unmet[:] = [selection for selection in unmet if not selection.met]

    def step(self, name: str, kind: str, at_us: int, world: World) -> None:
        """Has no effect."""

    def doubts(self) -> list[str]:
        """For each expectation, "" or a sentence with the selection that matched nothing."""
        return [
            "; ".join(dict.fromkeys(self._doubt(one) for one in wanted if not one.met))
            for wanted in self._wanted
        ]

    def _doubt(self, selection: _Selection) -> str:
        if selection.created_on_a_node:
            return "pods are created before they have a node"
        resource, where = selection.matter.resource, selection.matter.where
        there = [*self._labels.get(resource, ())][:LABELS_SHOWN] if "label" in where else []
        hint = f"; their labels are {', '.join(there)}" if there else ""
        return f"there were no {resource} {in_words(where)}{hint}"

    def _learn_labels(self, resource: str, change: Change) -> None:
        found = self._labels.setdefault(resource, {})
        if len(found) < LABELS_SHOWN:
            labels = change.item.obj["metadata"].get("labels") or {}
            found.update(
                dict.fromkeys(f"{key}={value}" for key, value in labels.items() if "hash" not in key)
            )


class Checker(Observer):
    """Judges all expectations of a run."""

    def __init__(self, world: World, expectations: list[Expectation]) -> None:
        self._doubters = Reasons(expectations), Selections(expectations)
        super().__init__(world, [*expectations, *self._doubters])
        self.expectations = expectations

    def verdicts(self, end_us: int) -> list[Verdict]:
        """The verdicts on a run that ended at `end_us`, with hints on suspicious selections."""
        doubts = zip(*(doubter.doubts() for doubter in self._doubters), strict=True)
        return [
            self._verdict(one, "; ".join(filter(None, doubt)), end_us)
            for one, doubt in zip(self.expectations, doubts, strict=True)
        ]

    def _verdict(self, one: Expectation, doubt: str, end_us: int) -> Verdict:
        verdict = one.verdict(end_us)
        measured = f"{verdict.measured} ({doubt})" if doubt else verdict.measured
        return replace(verdict, measured=measured)
