"""Experiments of Chaos Mesh as steps.

Mirrors  chaos-mesh api/v1alpha1: {podchaos,networkchaos,timechaos,stresschaos,schedule}_types.go
         (fields and actions), selector.go (modes).
Differs  the pods of an experiment are those of a Deployment that takes their place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

from sim.app.imports.dump import split
from sim.app.imports.experiments import (
    NETWORK,
    Experiments,
    NoCounterpart,
    go_duration,
    selector_of,
    step_name,
)
from sim.app.imports.parts import Imported, Value
from sim.errors import InputError
from sim.ident import CHAOS_MESH_GROUPS
from sim.patterns import pattern
from sim.units import format_duration, parse_duration_us

_EVERY = pattern(r"@every (\S+)")
_CLOCKS = "the clock faults act on the agents of all nodes, since programs in containers have no clocks"
_PERCENT_MAX = 100
_SHORT = "50ms"
"""For how long programs end once they have been started: less than a restart takes."""


def import_chaos_mesh(documents: Sequence[Any], shown: str) -> Imported:
    """The experiments of the documents.  Raises InputError if there are none."""
    ours, others = split(documents, CHAOS_MESH_GROUPS)
    if not ours:
        raise InputError("holds no experiment of Chaos Mesh", shown)
    into = Experiments()
    for obj in ours:
        what = f"{obj['kind']} {obj['metadata']['name']}"
        into.convert(what, partial(_experiment, into, obj))
    if others:
        into.note(f"left out {len(others)} documents that are no experiments of Chaos Mesh")
    return into.checked()


def _experiment(into: Experiments, obj: Value) -> None:
    kind, spec = obj["kind"], obj.get("spec") or {}
    namespace = obj["metadata"].get("namespace", "")
    when: Value = {}
    if kind == "Schedule":
        kind = str(spec.get("type", ""))
        when = _repeated(str(spec.get("schedule", "")))
        spec = spec.get(kind[:1].lower() + kind[1:]) or {}
    elif spec.get("scheduler"):
        when = _repeated(str(spec["scheduler"].get("cron", "")))
    convert = _KINDS.get(kind)
    if convert is None:
        raise NoCounterpart("this kind of fault")
    convert(into, step_name(obj["metadata"]["name"]), spec, namespace, when)


def _repeated(schedule: str) -> Value:
    """The fields of a step that repeats."""
    found = _EVERY.fullmatch(schedule.strip())
    if found is None:
        raise NoCounterpart(f"the schedule {schedule!r}; write `every` by hand")
    every = go_duration(found[1])
    return {"every": every, "until": format_duration(parse_duration_us(every) * 10 + parse_duration_us("2m"))}


def _target(into: Experiments, spec: Value, namespace: str) -> Value:
    """The pods that an experiment selects, as the parameters `namespace` and `selector`."""
    selector = spec.get("selector") or {}
    labels = selector.get("labelSelectors") or {}
    places = selector.get("namespaces") or [namespace]
    ignored = sorted(key for key in selector if key not in ("labelSelectors", "namespaces") and selector[key])
    if ignored:
        into.note(f"selectors without a counterpart: {', '.join(ignored)}")
    if not labels:
        labels = {"app": "target"}
        into.note("an experiment without a selector of labels acts on the pods labelled app=target")
    if len(places) > 1:
        into.note(f"of several namespaces only the first is taken: {', '.join(places)}")
    into.stand_in(places[0], labels)
    return {**({"namespace": places[0]} if places[0] else {}), "selector": selector_of(labels)}


def _pick(spec: Value) -> Value:
    """The mode of an experiment as the parameter `pick`; none for the mode all.

    Raises NoCounterpart for a mode or a value that Chaos Mesh does not have.
    """
    mode, value = str(spec.get("mode") or "all"), str(spec.get("value") or "")
    if mode == "all":
        return {}
    if mode == "one":
        return {"pick": 1}
    number = int(value) if value.isdigit() else 0
    if mode == "fixed" and number:
        return {"pick": number}
    if mode in ("fixed-percent", "random-max-percent") and 0 < number <= _PERCENT_MAX:
        return {"pick": f"0%..{number}%" if mode == "random-max-percent" else f"{number}%"}
    raise NoCounterpart(f"the mode {mode} with the value {value!r}")


def _lasts(spec: Value) -> str:
    """For how long an experiment lasts; without a duration until it is deleted, here ten minutes."""
    return go_duration(spec["duration"]) if spec.get("duration") else "10m"


def _pod(into: Experiments, name: str, spec: Value, namespace: str, when: Value) -> None:
    pods, action = {**_target(into, spec, namespace), **_pick(spec)}, spec.get("action")
    if action == "pod-kill":
        grace = int(spec.get("gracePeriod") or 0)
        action = {"resource": "pods", **pods, "gracePeriodSeconds": grace}
        into.add(name, {"delete": action}, **when)
        return
    if action == "pod-failure":
        into.add(name, {"workload": {**pods, "ready": False}}, _lasts(spec), **when)
        into.note("pod-failure: the pods are unready, and their containers are not replaced")
    elif action == "container-kill":
        for container in spec.get("containerNames") or [""]:
            which = {**pods, **({"container": container} if container else {})}
            _end_programs(into, name, which, when)
    else:
        raise NoCounterpart(f"the action {action!r}")


def _end_programs(into: Experiments, name: str, pods: Value, when: Value) -> None:
    """Add a step that ends the programs in containers once, as a kill does."""
    if "container" in pods:
        into.note(f"the container {pods.pop('container')}: all containers of the pods are killed")
    into.add(name, {"workload": {**pods, "exitAfter": "0s", "exitCode": 137}}, _SHORT, **when)


def _network(into: Experiments, name: str, spec: Value, namespace: str, when: Value) -> None:
    action = spec.get("action")
    into.note(NETWORK)
    way = {"oneWay": True} if spec.get("direction", "to") in ("to", "from") and spec.get("target") else {}
    ends = ["apiserver", "nodes"] if spec.get("direction") == "from" else ["nodes", "apiserver"]
    if action == "partition":
        into.add(name, {"partition": {"between": ends, **way}}, _lasts(spec), **when)
        return
    effect: Value = {}
    if spec.get("delay"):
        effect["latency"] = _delay(spec["delay"])
    for key, field in (("loss", "loss"), ("duplicate", "duplication")):
        if spec.get(key):
            effect[field] = min(float(spec[key].get(key, 0)) / 100, 0.99)
    if not effect:
        raise NoCounterpart(f"the action {action!r}")
    into.add(name, {"network": {"between": ends, **effect, **way}}, _lasts(spec), **when)


def _delay(delay: Value) -> str:
    """A latency with its jitter as a range."""
    latency = parse_duration_us(go_duration(delay.get("latency", "0ms")))
    jitter = parse_duration_us(go_duration(delay.get("jitter") or "0ms"))
    if not jitter:
        return format_duration(latency)
    return f"{format_duration(max(0, latency - jitter))}..{format_duration(latency + jitter)}"


def _time(into: Experiments, name: str, spec: Value, namespace: str, when: Value) -> None:
    into.note(_CLOCKS)
    into.add(
        name,
        {"clock": {"actor": "nodes", "offset": go_duration(spec.get("timeOffset", ""))}},
        _lasts(spec),
        **when,
    )


def _stress(into: Experiments, name: str, spec: Value, namespace: str, when: Value) -> None:
    stressors = spec.get("stressors") or {}
    pods, effect = {**_target(into, spec, namespace), **_pick(spec)}, {}
    if memory := stressors.get("memory"):
        size = str(memory.get("size", ""))
        if not re.fullmatch(r"\d+(\.\d+)?[KMGkmg]i?B?", size):
            raise NoCounterpart(f"a memory stressor of {size!r}; write an amount such as 256MB")
        amount, unit = re.split(r"(?<=\d)(?=[A-Za-z])", size)
        effect["memory"] = f"{amount}{unit[0].upper()}i"
    if cpu := stressors.get("cpu"):
        effect["cpu"] = f"{int(cpu.get('workers', 1)) * int(cpu.get('load') or 100) * 10}m"
        into.found.metrics = True
    if not effect:
        raise NoCounterpart("its stressors")
    into.add(name, {"workload": {**pods, **effect}}, _lasts(spec), **when)


_KINDS = {
    "PodChaos": _pod, "NetworkChaos": _network, "TimeChaos": _time, "StressChaos": _stress,
}  # fmt: skip
