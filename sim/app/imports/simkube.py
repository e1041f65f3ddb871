"""A trace of SimKube as objects and timed steps.

Mirrors  acrlabs/simkube sk-store: a trace is a mapping of `config`, `events` and `pod_lifecycles`
         (version 1: a list of them); an event has the time `ts` in seconds, `applied_objs` and
         `deleted_objs`.
Differs  how long pods lived is not taken over: pods run until they are deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sim.api.scheme.scheme import Scheme
from sim.app.imports.dump import is_object
from sim.app.imports.experiments import Experiments
from sim.app.imports.objects import manifests
from sim.app.imports.parts import START, Imported, Value
from sim.app.imports.references import UPSTREAM
from sim.errors import InputError
from sim.scenario.read.foreign import is_simkube
from sim.units import SECOND, format_duration, parse_duration_us


def import_simkube(documents: Sequence[Any], shown: str) -> Imported:
    """The events of one trace.  Raises InputError if there is none."""
    traces = [each for each in documents if is_simkube(each)]
    if len(traces) != 1 or len(documents) != 1:
        raise InputError("holds no trace of SimKube, or several", shown)
    (trace,) = traces
    events = trace[1] if isinstance(trace, list) else trace["events"]
    into = Experiments()
    known: dict[tuple[str, str, str], None] = {}
    start_s: int | None = None
    for event in sorted(
        (each for each in events if isinstance(each, dict)), key=lambda each: each.get("ts", 0)
    ):
        ts = int(event.get("ts", 0))
        start_s = ts if start_s is None else start_s
        _event(into, event, ts - start_s, known)
    if isinstance(trace, dict) and trace.get("pod_lifecycles"):
        into.note("how long pods lived (pod_lifecycles) is not taken over: they run until they are deleted")
    return into.checked()


def _event(into: Experiments, event: Value, after_s: int, known: dict[tuple[str, str, str], None]) -> None:
    """Add the objects of the first instant, or the steps of a later one."""
    last = {_key(each): each for each in event.get("applied_objs") or () if is_object(each)}
    applied, notes = manifests([*last.values()])
    for note in notes:
        into.note(note)
    at = format_duration(parse_duration_us(START) + after_s * SECOND)
    if applied and after_s == 0:
        again = [_key(each) for each in applied]
        into.found.objects = [each for each in into.found.objects if _key(each) not in again] + applied
    elif applied:
        into.add(f"applied-{after_s}s", {"apply": {"objects": applied}})
        into.found.steps[-1]["at"] = at
    known.update(dict.fromkeys(map(_key, applied)))
    for obj in event.get("deleted_objs") or ():
        if is_object(obj):
            _delete(into, obj, at, known)
    into.lasts_until(parse_duration_us(at))


def _delete(into: Experiments, obj: Value, at: str, known: dict[tuple[str, str, str], None]) -> None:
    metadata = obj["metadata"]
    if _key(obj) not in known:
        into.note(f"the deletion of {obj['kind']} {metadata['name']} is left out: it is never applied")
        return
    resource = Scheme(UPSTREAM).by_kind(obj["apiVersion"], obj["kind"])
    if resource is None:
        into.note(f"the deletion of {obj['kind']} {metadata['name']} is left out: there is no such kind")
        return
    place = {"namespace": metadata["namespace"]} if metadata.get("namespace") else {}
    into.add(
        f"deleted-{metadata['name']}",
        {"delete": {"resource": resource.plural, **place, "name": metadata["name"]}},
    )
    into.found.steps[-1]["at"] = at


def _key(obj: Value) -> tuple[str, str, str]:
    metadata = obj["metadata"]
    return obj["kind"], metadata.get("namespace") or UPSTREAM.default_namespace, metadata["name"]
