"""References of steps to each other and to objects, checked when all steps are planned.

Refuses a step that can never happen or never act: one that waits for the end of a step without end
or for an occurrence that does not exist, a heal before the fault or after its end, a behaviour of
pods, a delete or a patch of objects that the scenario never makes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sim.errors import InputError, Problems, suggestion
from sim.faults.machines.heal import EndStep, HealNodes
from sim.faults.machines.workload import Behave
from sim.faults.shared.kinds import Ends, Imposed
from sim.scenario.actions.delete import DeleteObjects
from sim.scenario.actions.load import Generate
from sim.scenario.actions.patch import PatchObjects
from sim.scenario.check.made_pods import Template, made_by, may_find
from sim.scenario.plan.context import Known
from sim.scenario.plan.plan import PlannedStep
from sim.scenario.read.source import Document, Path_

# Kinds of which no controller makes objects.
MANIFESTS_ONLY = (
    "cronjobs",
    "daemonsets",
    "deployments",
    "horizontalpodautoscalers",
    "poddisruptionbudgets",
    "statefulsets",
)


def check(
    document: Document,
    numbered: Mapping[int, PlannedStep],
    objects: Sequence[Mapping[str, Any]],
    known: Known,
    whole: bool = True,
) -> None:
    """Check all references.  Raises InputError with the places of the steps.

    numbered: the steps by their numbers in the timeline
    whole: False if other steps or objects have errors, so that what a step refers to may be there
    """
    planned = [*numbered.values()]
    steps = {step.name: step for step in planned}
    made = made_by(objects, known.nodes, planned) if whole else None
    problems = Problems()
    for index, step in numbered.items():
        path: Path_ = ("spec", "timeline", index)
        if whole and step.start.after:
            with problems.part():
                check_after(document, step.start.after, steps, planned, (*path, "after"))
        for choice in step.choices:
            with problems.part():
                match choice.action:
                    case EndStep(name):
                        begun = steps.get(name.partition("/")[0])
                        if begun is not None:
                            _check_heal(document, step, name, begun, (*path, "heal", "step"))
                    case HealNodes(nodes) if whole:
                        _check_heal_nodes(document, step, nodes, planned, (*path, "heal"))
                    case DeleteObjects() | PatchObjects() as action if whole and action.name:
                        _check_made(document, action, known, planned, (*path, choice.kind, "name"))
                    case Behave() as behave if made is not None:
                        where = path if len(step.choices) == 1 else (*path, "random")
                        _check_pods(document, behave, made, where)
    problems.report()


def _has_end(step: PlannedStep) -> bool:
    return any(choice.ends is not Ends.AT_ONCE for choice in step.choices)


def check_after(
    document: Document,
    after: str,
    steps: Mapping[str, PlannedStep],
    planned: Sequence[PlannedStep],
    path: Path_,
) -> None:
    """Check that a step has the occurrence, or the end, that `after` names.  Raises InputError."""
    name = after.removeprefix("end of ")
    base, _, number = name.partition("/")
    awaited = steps[base]
    if number:
        _check_number(document, number, awaited, path)
    if name == after:
        return
    if not _has_end(awaited):
        raise document.error(path, f"{base!r} has no end", f"write after: {name}")
    ended = any(choice.for_us is not None or choice.ends is Ends.ITSELF for choice in awaited.choices)
    healed = any(choice.action.may_end(base) for step in planned for choice in step.choices)
    if not ended and not healed:
        raise document.error(path, f"nothing ends {base!r}", "give it 'for', or heal it")


def _check_number(document: Document, number: str, step: PlannedStep, path: Path_) -> None:
    """Check the number of an occurrence."""
    times = 0 if step.repeat is None else step.repeat.times
    if not number.isdecimal() or int(number) < 1 or (times is not None and int(number) > times):
        often = "happens once" if times == 0 else f"happens {times} times at most" if times else "repeats"
        raise document.error(path, f"there is no {step.name}/{number}: it {often}")


def _check_heal(document: Document, heal: PlannedStep, name: str, step: PlannedStep, path: Path_) -> None:
    number = name.partition("/")[2]
    if number:
        _check_number(document, number, step, path)
    if not _has_end(step):
        raise document.error(path, f"{step.name!r} has no end: there is nothing to heal")
    if _precedes(heal, step):
        raise document.error(path, f"{step.name!r} has not begun by then")
    at_us, begin_us = heal.start.at_us, step.start.at_us
    if at_us is None or begin_us is None or heal.repeat is not None:
        return
    spans = [choice.for_us for choice in step.choices]
    if step.repeat is None and all(span is not None and begin_us[1] + span[1] <= at_us[0] for span in spans):
        raise document.error(path, f"{step.name!r} has ended by itself by then")


def _precedes(heal: PlannedStep, step: PlannedStep) -> bool:
    """True if a heal ends before the fault that it heals can begin."""
    at_us, begin_us = heal.start.at_us, step.start.at_us
    return at_us is not None and begin_us is not None and heal.repeat is None and at_us[1] < begin_us[0]


def _check_heal_nodes(
    document: Document,
    heal: PlannedStep,
    nodes: Sequence[str],
    planned: Sequence[PlannedStep],
    path: Path_,
) -> None:
    """Check that at least one fault of these nodes may begin before the heal."""
    faults = [
        step
        for step in planned
        for choice in step.choices
        if isinstance(choice.action, Imposed) and any(node in choice.action.hosts for node in nodes)
    ]
    if not faults:
        raise document.error(path, "no step does anything to these nodes that could be healed")
    if all(_precedes(heal, step) for step in faults):
        raise document.error(path, f"{faults[0].name!r} has not begun by then")


def _check_made(
    document: Document,
    action: DeleteObjects | PatchObjects,
    known: Known,
    planned: Sequence[PlannedStep],
    path: Path_,
) -> None:
    """Check that an object of a kind that no controller makes is made by the scenario."""
    resource = known.scheme.resource(action.resource)
    loads = [choice.action for step in planned for choice in step.choices]
    if any(isinstance(load, Generate) and load.create is not None for load in loads):
        return  # a load makes up names
    of_kind = known.of_kind(resource.plural)
    if resource.plural == "nodes":
        names = [*(node.name for node in known.nodes), *(name for _, name in of_kind)]
    elif resource.plural in MANIFESTS_ONLY:
        names = [name for space, name in of_kind if space == action.namespace]
    else:
        return
    if action.name in names:
        return
    where = f"{action.namespace}/" if resource.namespaced else ""
    what = f"no {resource.plural} {where}{action.name} is made by this scenario"
    raise document.error(path, what, suggestion(action.name, names))


def _check_pods(document: Document, behave: Behave, made: Sequence[Template], path: Path_) -> None:
    if any(may_find(behave, template) for template in made):
        return
    parts: dict[str, str] = {
        "namespace": behave.namespace,
        "selector": ",".join(f"{key}={value}" for key, value in behave.labels.items()),
        "name": behave.prefix,
        "image": behave.image,
        "container": behave.container,
    }
    which = ", ".join(f"{key} {value}" for key, value in parts.items() if value)
    shown = dict.fromkeys(_shown(template) for template in made)
    raise InputError(
        f"no pods of this scenario have {which}",
        document.place(path),
        f"there are: {'; '.join([*shown][:4])}",
    )


def _shown(template: Template) -> str:
    labels = ",".join(f"{key}={value}" for key, value in template.labels.items())
    return " ".join(word for word in (template.namespace, labels or template.name, *template.images) if word)
