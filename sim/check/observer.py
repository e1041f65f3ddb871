"""Observers of a run: they receive commits and steps, and return verdicts at the end.

Holds: nothing in a run depends on its observers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from sim.api.store import Change
from sim.check.clients import ServiceRequest
from sim.check.condition import Condition, in_words
from sim.check.expect import Expectation
from sim.check.monitors import is_monitored, monitor_of, stored_key
from sim.check.monitors.programs import Programs
from sim.check.tally import Matter, Tally, seen_by
from sim.check.world import World
from sim.check.writes import CUSTOM, fixed_resources
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
        self._asked: dict[str, None] = {}  # resources, some of one namespace only
        self._by_resource: dict[str, list[Watcher]] = {}
        for watcher in watchers:
            for resource in sorted(watcher.resources()):
                self._asked[resource] = None
                self._by_resource.setdefault(resource.partition("/")[0], []).append(watcher)
        request = [resource for resource in self._asked if is_monitored(resource)]
        self.monitors = [monitor_of(resource, self._pass_on, world.names) for resource in request]
        self._sources = [
            (monitor, frozenset(one.partition("/")[0] for one in monitor.sources()))
            for monitor in self.monitors
        ]
        needs_custom = any(CUSTOM in one for one in (self._asked, *(of for _, of in self._sources)))
        self._fixed = fixed_resources(world.names) if needs_custom else None
        if "events" in self._by_resource:
            world.follow_pods()

    @property
    def resources(self) -> list[str]:
        """The resources of which the watchers and the world need commits, "leases/NAMESPACE" for
        those of one namespace only, `CUSTOM` for all that definitions add.
        """
        sources = [one for monitor in self.monitors for one in monitor.sources()]
        request = {*self.world.resources, *self._asked, *sources}
        real = [one for one in request if not is_monitored(one)]
        return sorted(one for one in real if "/" not in one or one.partition("/")[0] not in request)

    def _resource(self, key: str) -> str:
        """The resource of a key; `CUSTOM` if a definition has added it."""
        _, group, resource, _ = key.split("/", 3)
        return resource if self._fixed is None or (group, resource) in self._fixed else CUSTOM

    def learn(self, change: Change) -> None:
        """Take in an object that was there before, which no watcher is to see happen."""
        resource = self._resource(change.item.key)
        if resource in self.world.resources:
            self.world.see(resource, change)

    def see(self, change: Change) -> None:
        """Take a commit."""
        world, resource = self.world, self._resource(change.item.key)
        for monitor, _ in self._sources:
            monitor.advance(change.at_us)
        if resource in world.resources:
            world.see(resource, change)
        for monitor, sources in self._sources:
            if resource in sources:
                monitor.see(resource, change)
        for watcher in self._by_resource.get(resource, ()):
            watcher.see(world, resource, change)

    def _pass_on(self, change: Change) -> None:
        resource = change.item.key.split("/", 3)[2]
        for watcher in self._by_resource.get(resource, ()):
            watcher.see(self.world, resource, change)

    def begin(self, at_us: int) -> None:
        """Count times from an instant on, for an observer that comes late."""
        for monitor in self.monitors:
            monitor.begin(at_us)

    def requests(self, counts: Mapping[str, int], at_us: int) -> None:
        """The numbers of requests so far, by client."""
        for watcher in self._watchers:
            if isinstance(watcher, Expectation):
                watcher.requests(counts, at_us, self.world)

    @property
    def needs_clients(self) -> bool:
        """True if it needs what becomes of the requests of users."""
        watching = any(isinstance(one, Expectation) and one.needs_clients for one in self._watchers)
        return watching or any(monitor.needs_clients for monitor in self.monitors)

    def request(self, request: ServiceRequest, at_us: int) -> None:
        """A request of a user has ended."""
        for monitor in self.monitors:
            monitor.request(request, at_us)
        for watcher in self._watchers:
            if isinstance(watcher, Expectation):
                watcher.request(request, at_us)

    @property
    def needs_programs(self) -> bool:
        """True if it needs what runs on machines."""
        return any(isinstance(monitor, Programs) for monitor in self.monitors)

    def program(self, node: str, pod: Any, container: Any, at_us: int) -> None:
        """A container starts on a machine."""
        for monitor in self.monitors:
            monitor.program(node, pod, container, at_us)

    def advance(self, at_us: int) -> None:
        """Notice the time up to an instant, as a cluster becomes steady without a commit."""
        for monitor in self.monitors:
            monitor.advance(at_us)

    def machine(self, node: str, serves: bool, at_us: int) -> None:
        """The machine of a node begins or ceases to serve."""
        for watcher in self._watchers:
            if isinstance(watcher, Expectation):
                watcher.machine(node, serves, at_us)

    def process(self, what: str, name: str, at_us: int) -> None:
        """A process starts, ends, or is hindered (`what`, as its record in the trace)."""
        for watcher in self._watchers:
            if isinstance(watcher, Expectation):
                watcher.process(what, name, at_us)

    def step(self, name: str, kind: str, at_us: int) -> None:
        """A step of the timeline takes place, or ends ("end of NAME")."""
        for monitor in self.monitors:
            monitor.advance(at_us)
            monitor.step(kind, at_us)
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
        return ["; ".join(filter(None, map(self._doubt, target))) for target in self._wanted]

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
        for selection in (selection for target in self._wanted for selection in target):
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
            "; ".join(dict.fromkeys(self._doubt(one) for one in target if not one.met))
            for target in self._wanted
        ]

    def _doubt(self, selection: _Selection) -> str:
        if selection.created_on_a_node:
            return "pods are created before they have a node"
        resource, where = selection.matter.resource, selection.matter.where
        there = [*self._labels.get(resource, ())][:LABELS_SHOWN] if "label" in where else []
        hint = f"; their labels are {', '.join(there)}" if there else ""
        return f"there were no {resource} {in_words(where)}{hint}"

    def _learn_labels(self, resource: str, change: Change) -> None:
        result = self._labels.setdefault(resource, {})
        if len(result) < LABELS_SHOWN:
            labels = change.item.obj["metadata"].get("labels") or {}
            result.update(
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
        self.advance(end_us)
        doubts = zip(*(doubter.doubts() for doubter in self._doubters), strict=True)
        return [
            self._verdict(one, "; ".join(filter(None, doubt)), end_us)
            for one, doubt in zip(self.expectations, doubts, strict=True)
        ]

    def finish(self, diverged: Callable[[int], Mapping[str, str]]) -> None:
        """The run has ended: see `Expectation.finish`."""
        for expectation in self.expectations:
            if expectation.needs_views:
                expectation.finish(diverged)

    def _verdict(self, one: Expectation, doubt: str, end_us: int) -> Verdict:
        verdict = one.verdict(end_us)
        if not verdict.ok and not doubt:
            doubt = self._unrest(one, end_us)
        measured = f"{verdict.measured} ({doubt})" if doubt else verdict.measured
        objects = dict.fromkeys(filter(None, map(stored_key, verdict.objects)))
        return replace(verdict, measured=measured, objects=tuple(objects))

    def _unrest(self, one: Expectation, end_us: int) -> str:
        """What still changes at the end, for a condition that the cluster is steady."""
        request = one.resources()
        texts = [monitor.unrest(end_us) for monitor in self.monitors if monitor.resource in request]
        return "; ".join(f"still changes: {text}" for text in texts if text)
