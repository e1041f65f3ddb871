"""Nodes, objects and Stages of kwok as a scenario.

A Stage says what becomes of a pod or a node after a delay.  The phase that its template writes
defines its meaning here: Running is the start of containers, Succeeded and Failed are their end, a
node that is not Ready is a failure of its runtime.

Mirrors  kwok pkg/apis/v1alpha1 stage_types.go (fields of a Stage), kustomize/stage (the Stages that
         come with it).
Differs  Stages that heartbeat nodes, or delete pods, are the work of the node agents here and need
         no step.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

from sim.app.imports.dump import import_dump, is_object, split
from sim.app.imports.experiments import Experiments, NoCounterpart, selector_of, step_name
from sim.app.imports.parts import START, Imported, Value
from sim.errors import InputError
from sim.ident import KWOK_GROUPS
from sim.patterns import pattern
from sim.units import MS, format_duration, parse_duration_us

_PHASE = pattern(r"^\s*phase:\s*[\"']?(\w+)", re.MULTILINE)
_NOT_READY = pattern(r"status:\s*[\"']?False", re.MULTILINE)
_LABEL = pattern(r"\.metadata\.labels\[\"([^\"]+)\"\]")
_AGENTS = "Stages that initialize nodes, send heartbeats or delete pods are left out: node agents do that"


def import_kwok(documents: Sequence[Any], shown: str) -> Imported:
    """The nodes, objects and Stages of the documents.  Raises InputError if there are none."""
    stages, others = split(documents, KWOK_GROUPS)
    if not stages and not any(map(is_object, others)):
        raise InputError("holds no Stage and no object", shown)
    into = Experiments()
    if others:
        into.found = import_dump(others, shown)
    for stage in stages:
        what = f"{stage['kind']} {stage['metadata']['name']}"
        into.convert(what, partial(_stage, into, stage))
    return into.checked()


def _stage(into: Experiments, stage: Value) -> None:
    if stage["kind"] != "Stage":
        raise NoCounterpart("this kind of object")
    spec = stage.get("spec") or {}
    kind, after = (spec.get("resourceRef") or {}).get("kind"), spec.get("next") or {}
    template = _template(after)
    delay_us = int((spec.get("delay") or {}).get("durationMilliseconds") or 0) * MS
    if (spec.get("delay") or {}).get("jitterDurationMilliseconds"):
        into.note("the jitter of delays has no counterpart")
    phase = _PHASE.search(template)
    name = step_name(stage["metadata"]["name"])
    if kind == "Node":
        _node(into, name, spec, template, delay_us)
    elif kind != "Pod":
        raise NoCounterpart(f"a Stage of {kind}")
    elif after.get("delete") or after.get("finalizers") or phase is None:
        into.note(_AGENTS)
    elif phase[1] == "Running":
        for group in into.found.nodes if delay_us else ():
            group["runtime"] = {**group.get("runtime", {}), "start": format_duration(delay_us)}
    elif phase[1] in ("Succeeded", "Failed"):
        code = 0 if phase[1] == "Succeeded" else 1
        pods = _pods(into, spec)
        action = {**pods, "exitAfter": format_duration(delay_us), "exitCode": code}
        into.add(name, {"workload": action}, at="0s")
    else:
        raise NoCounterpart(f"the phase {phase[1]}")


def _template(after: Value) -> str:
    """The templates of a Stage: of its status, or of its patches."""
    patches = [str(each.get("template", "")) for each in after.get("patches") or ()]
    return "\n".join([str(after.get("statusTemplate") or ""), *patches])


def _pods(into: Experiments, spec: Value) -> Value:
    """The pods that a Stage selects by labels."""
    labels = _labels(spec)
    if any("ownerReferences" in str(each.get("key", "")) for each in _expressions(spec)):
        remedy = "add a step workload with a selector or an image by hand"
        raise NoCounterpart(f"it selects pods by their owner; {remedy}")
    if not labels:
        raise NoCounterpart("it selects all pods; add a step workload by hand")
    into.stand_in("", labels)
    return {"selector": selector_of(labels)}


def _labels(spec: Value) -> dict[str, str]:
    """The labels by which a Stage selects, of matchLabels and of expressions with one value."""
    labels = dict((spec.get("selector") or {}).get("matchLabels") or {})
    for each in _expressions(spec):
        found, values = _LABEL.fullmatch(str(each.get("key", ""))), [*(each.get("values") or ())]
        if found and each.get("operator") == "In" and len(values) == 1:
            labels[found[1]] = str(values[0])
    return labels


def _expressions(spec: Value) -> Sequence[Value]:
    return (spec.get("selector") or {}).get("matchExpressions") or ()


def _node(into: Experiments, name: str, spec: Value, template: str, delay_us: int) -> None:
    if not _NOT_READY.search(template) or "not-ready" not in name:
        into.note(_AGENTS)
        return
    labels = _labels(spec)
    nodes = {"labels": labels} if labels else {}
    at = format_duration(parse_duration_us(START) + delay_us)
    into.add(name, {"fail": {"nodes": nodes, "how": "runtime-failure"}}, at=at)
