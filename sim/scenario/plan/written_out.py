"""A scenario document that needs no manifests: what the header of a trace holds.

Turns a document and its plan into the document with the objects of its files in place of their
names, for a program that repeats the run elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sim.scenario.actions.apply import ApplyObjects
from sim.scenario.plan.plan import Plan, PlannedStep


def written_out(document: Mapping[str, Any], plan: Plan) -> dict[str, Any]:
    """The document of a plan, with the objects of files; it may still name files of options."""
    spec = {key: value for key, value in document["spec"].items() if key not in ("hunt", "variants")}
    objects = plan.cluster.established or plan.objects
    if objects:
        spec["objects"] = [dict(obj) for obj in objects]
    timeline = spec.get("timeline")
    if timeline and len(timeline) == len(plan.steps):
        steps = zip(timeline, plan.steps, strict=True)
        spec["timeline"] = [_with_objects(entry, step) for entry, step in steps]
    return {**document, "spec": spec}


def _with_objects(entry: Mapping[str, Any], step: PlannedStep) -> Mapping[str, Any]:
    """The entry of a step, with the objects that it applies."""
    action = step.choices[0].action
    if len(step.choices) > 1 or not isinstance(action, ApplyObjects):
        return entry
    return {**entry, "apply": {"objects": [dict(obj) for obj in action.objects]}}
