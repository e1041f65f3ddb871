"""Notes about Jobs with programs that never end, printed before a run and by a server.

Turns a plan, or a Job that a client creates, into a sentence for each such Job or CronJob.

Holds: a Job that the scenario may end otherwise (by `exitAfter` of a runtime, by a step, or by its
    deadline) gets no note, nor does one with a program that nothing is known about: it ends too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from actors.node.runtime.commands import commanded
from actors.node.runtime.interpreter import has_programs
from actors.node.runtime.programs import is_known
from sim.faults.machines.workload import Behave
from sim.scenario.actions.apply import ApplyObjects
from sim.scenario.actions.load import Generate
from sim.scenario.plan.plan import Plan

REMEDY = "give it a known command such as [sleep, 10s], its nodes runtime.exitAfter, or a workload step with exitAfter"


def endless_jobs(plan: Plan) -> list[str]:
    """The notes about a plan; none if a step or a runtime may end programs."""
    if programs_end(plan):
        return []
    return [
        f"{plan.file or plan.name}: {note}"
        for manifest in manifests_of(plan)
        for note in notes_of_job(manifest)
    ]


def programs_end(plan: Plan) -> bool:
    """True if a step or a runtime of the plan ends programs."""
    actions = [choice.action for step in plan.steps for choice in step.choices]
    ended = any(isinstance(action, Behave) and action.exit_after_us is not None for action in actions)
    return ended or any(node.runtime.exit_after for node in plan.cluster.nodes)


def notes_of_job(manifest: Mapping[str, Any]) -> list[str]:
    """The notes about one object; none unless it is a Job or a CronJob."""
    metadata = manifest.get("metadata") or {}
    shown = f"{manifest.get('kind')} {metadata.get('name') or metadata.get('generateName', '')}"
    return [
        f"{shown}: the program of container {name} has no known end, so it runs forever ({REMEDY})"
        for name in _endless(manifest)
    ]


def manifests_of(plan: Plan) -> list[Mapping[str, Any]]:
    """The manifests of a scenario: its objects, those that run already too, then its steps'."""
    manifests: list[Mapping[str, Any]] = [*plan.cluster.established, *plan.objects]
    for step in plan.steps:
        for choice in step.choices:
            match choice.action:
                case ApplyObjects(applied):
                    manifests += applied
                case Generate(create=Mapping() as created):
                    manifests.append(created)
    return manifests


def _endless(manifest: Mapping[str, Any]) -> Iterator[str]:
    """The containers of a Job that run for ever."""
    spec = manifest.get("spec") or {}
    if manifest.get("kind") == "CronJob":
        spec = (spec.get("jobTemplate") or {}).get("spec") or {}
    elif manifest.get("kind") != "Job":
        return
    pod = (spec.get("template") or {}).get("spec") or {}
    if spec.get("activeDeadlineSeconds") is not None or pod.get("activeDeadlineSeconds") is not None:
        return
    for container in pod.get("containers") or ():
        if commanded(container) is None and is_known(container) and not has_programs(container):
            yield container["name"]
