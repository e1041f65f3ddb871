"""The objects that a run can have: nodes, zones, namespaces, objects of manifests, labels of pods.

Turns a plan into the error of a condition that selects objects which can never exist. Such a
condition would never hold, or never fail, without a visible reason.

Holds: what is unknown (loads that create objects, patches, labels and names that controllers give)
    is assumed to be possible.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

from sim.api.scheme.scheme import Scheme
from sim.check import Condition, Expectation, Matter, Mistakes, build, misplaced, parse_matter, texts_of
from sim.dataclass import dataclass
from sim.errors import InputError, Problems, suggestion
from sim.ident import NAMES
from sim.scenario.actions.apply import ApplyObjects
from sim.scenario.actions.load import Generate
from sim.scenario.check.made_pods import is_given, made_by
from sim.scenario.check.references import MANIFESTS_ONLY
from sim.scenario.plan.plan import Plan

SHOWN = 4  # names in a remedy


def zones_of(plan: Plan) -> dict[str, str]:
    """The zone ("" for none) of every node that the scenario runs or creates, by name."""
    label = NAMES[plan.cluster.naming].label_zone
    zones = {node.name: node.zone for node in plan.cluster.nodes}
    for obj in _manifests(plan):
        if obj["kind"] == "Node":
            metadata = obj["metadata"]
            zones[metadata["name"]] = (metadata.get("labels") or {}).get(label, "")
    return zones


def _manifests(plan: Plan) -> list[Mapping[str, Any]]:
    applied = [obj for action in _actions(plan) if isinstance(action, ApplyObjects) for obj in action.objects]
    return [*plan.cluster.established, *plan.objects, *applied]


def _actions(plan: Plan) -> Iterator[Any]:
    return (choice.action for step in plan.steps for choice in step.choices)


@dataclass(frozen=True)
class Possible:
    """The objects that a run of a plan can have.

    alone: True if only the scenario makes objects, no client and no program of a library's user
    """

    plan: Plan
    alone: bool = True

    @cached_property
    def zones(self) -> dict[str, str]:
        """The zone of each node."""
        return zones_of(self.plan)

    def problem(self, matter: Condition | Matter) -> str:
        """What is wrong with the selection of a condition; "" if nothing."""
        found = misplaced(matter.resource, matter.where, self.zones)
        if found or not self.alone:
            return found
        return self._unknown_namespace(matter) or self._unmade(matter) or self._unlabelled(matter)

    @cached_property
    def _named(self) -> Mapping[str, Collection[str]]:
        """The names of the objects of manifests, by resource."""
        scheme = Scheme(NAMES[self.plan.cluster.naming])
        named: dict[str, dict[str, None]] = {}
        for obj in _manifests(self.plan):
            resource = scheme.by_kind(obj["apiVersion"], obj["kind"])
            if resource is not None:
                named.setdefault(resource.plural, {})[str(obj["metadata"]["name"])] = None
        return named

    @cached_property
    def _drawn(self) -> bool:
        """True if loads create objects, because loads make up names."""
        return any(isinstance(one, Generate) and one.create is not None for one in _actions(self.plan))

    @cached_property
    def _namespaces(self) -> Collection[str]:
        """All possible namespaces, in both sets of identifiers."""
        own = NAMES[self.plan.cluster.naming]
        both = [own, *(names for names in NAMES.values() if names is not own)]
        given = [
            name
            for names in both
            for name in (
                names.default_namespace,
                names.system_namespace,
                names.public_namespace,
                names.lease_namespace,
            )
        ]
        return tuple(dict.fromkeys([*self._named.get("namespaces", ()), *given]))

    def _unknown_namespace(self, matter: Condition | Matter) -> str:
        key = "name" if matter.resource == "namespaces" else "namespace"
        if key not in matter.where or self._drawn:
            return ""
        return _none_of(texts_of(matter.where[key]), self._namespaces, "there is no namespace {!r}")

    def _unmade(self, matter: Condition | Matter) -> str:
        """Objects of kinds that no controller makes exist only if manifests name them."""
        if matter.resource not in MANIFESTS_ONLY or "name" not in matter.where or self._drawn:
            return ""
        says = f"this scenario makes no {matter.resource} {{!r}}"
        return _none_of(texts_of(matter.where["name"]), self._named.get(matter.resource, ()), says)

    def _unlabelled(self, matter: Condition | Matter) -> str:
        made = made_by(_manifests(self.plan), self.plan.cluster.nodes, self.plan.steps)
        if matter.resource != "pods" or "label" not in matter.where or made is None:
            return ""
        labels = dict.fromkeys(f"{key}={value}" for one in made for key, value in one.labels.items())
        asked = [pair for pair in texts_of(matter.where["label"]) if not is_given(pair.partition("=")[0])]
        return _none_of(
            [pair for pair in asked if "/" not in pair], tuple(labels), "no pods here are labelled {!r}"
        )


def _none_of(patterns: Sequence[str], names: Collection[str], says: str) -> str:
    """The error of the first pattern that matches none of the names; "" if there is none."""
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            there = ", ".join([*names][:SHOWN]) + (" …" if len(names) > SHOWN else "")
            remedy = suggestion(pattern, names) or (f"there are {there}" if names else "")
            return says.format(pattern) + (f" ({remedy})" if remedy else "")
    return ""


def expectations_of(plan: Plan, alone: bool = True, whole: bool = True) -> list[Expectation]:
    """The expectations of a plan, parsed.  Raises InputError with every error and its place.

    alone: True if only the scenario makes objects
    whole: False if parts of the scenario have errors and are not in the plan
    """
    names, possible = NAMES[plan.cluster.naming], Possible(plan, alone)
    problems = Problems()

    def check(matters: Sequence[Condition | Matter], place: str) -> None:
        for matter in matters if whole else ():
            if problem := possible.problem(matter):
                problems.add(InputError(problem, place))

    for step in plan.steps:
        waited = [] if step.start.condition is None else [step.start.condition]
        for condition in (*waited, *(text for choice in step.choices for text in choice.action.conditions)):
            try:
                check([parse_matter(condition, names)], step.place)
            except ValueError as error:
                problems.add(InputError(str(error), step.place))
    built = []
    for planned in plan.expectations:
        try:
            built.append(build(planned.expectation, names))
            check(built[-1].matters(), planned.place)
        except Mistakes as error:
            for mistake in error.found:
                problems.add(InputError(mistake, planned.place))
    problems.report()
    return built
