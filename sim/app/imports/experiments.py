"""What the importers of experiments share: durations, targets, and the steps of a scenario.

An experiment selects pods by labels.  A scenario refers only to objects that it has, so a
Deployment with these labels takes the place of the pods, for the user to replace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sim.app.imports.parts import PLAIN_NODES, START, Imported, Value, plain_nodes
from sim.app.imports.references import BUILT_IN_NAMESPACES
from sim.errors import InputError
from sim.patterns import pattern
from sim.scenario.compile import compile_plan
from sim.scenario.read.source import Document
from sim.units import SECOND, format_duration, parse_duration_us

REPLICAS = 3
_GO = pattern(r"(\d+(?:\.\d+)?)(ns|us|µs|μs|ms|s|m|h)")
_SCALE_US = {"ns": 0.001, "us": 1, "µs": 1, "μs": 1, "ms": 1_000, "s": 1e6, "m": 60e6, "h": 3600e6}
_LABEL_NAME = pattern("[^a-z0-9-]+")
NETWORK = (
    "the network faults act between the nodes and the API servers, since traffic between pods is not modelled"
)


class NoCounterpart(Exception):
    """A part of an experiment that has no counterpart; the message says which."""


def go_duration(text: Any) -> str:
    """A duration in Go's notation, in that of a scenario.  Raises NoCounterpart."""
    sign, rest = ("-", str(text)[1:]) if str(text).startswith("-") else ("", str(text))
    parts = _GO.findall(rest)
    if not parts or "".join(number + unit for number, unit in parts) != rest:
        raise NoCounterpart(f"the duration {text!r}")
    us = round(sum(float(number) * _SCALE_US[unit] for number, unit in parts))
    return f"{sign}{format_duration(us)}"


class Experiments:
    """Collects steps, and the objects and notes that they need."""

    def __init__(self) -> None:
        self.found = Imported(nodes=plain_nodes(), notes=[PLAIN_NODES])
        self._stand_ins: dict[tuple[str, str], str] = {}
        self._names: dict[str, None] = {}

    def note(self, text: str) -> None:
        """Note something once."""
        if text not in self.found.notes:
            self.found.notes.append(text)

    def add(self, name: str, action: Value, lasts: str = "", **when: Any) -> None:
        """Add a step: one action, and for how long it lasts.  when: fields such as every and times"""
        unique, number = name, 2
        while unique in self._names:
            unique, number = f"{name}-{number}", number + 1
        self._names[unique] = None
        step: Value = {"at": START, "name": unique, **when, **action}
        if lasts:
            step["for"] = lasts
        self.found.steps.append(step)
        until = when.get("until", "0s")
        ends_us = parse_duration_us(START) + parse_duration_us(lasts or "0s")
        self.lasts_until(max(ends_us, parse_duration_us(until)))

    def lasts_until(self, at_us: int) -> None:
        """Let the scenario last so long at least."""
        self.found.lasts_s = max(self.found.lasts_s, -(-at_us // SECOND))

    def convert(self, what: str, action: Callable[[], None]) -> None:
        """Carry out a conversion; what has no counterpart becomes a note, and no step."""
        try:
            action()
        except NoCounterpart as error:
            self.note(f"{what} has no counterpart: {error}")

    def stand_in(self, namespace: str, labels: Mapping[str, str]) -> str:
        """The name of a Deployment with these labels."""
        namespace = namespace or BUILT_IN_NAMESPACES[0]
        key = namespace, selector_of(labels)
        if key not in self._stand_ins:
            name = f"target-{len(self._stand_ins) + 1}"
            self._stand_ins[key] = name
            if namespace not in BUILT_IN_NAMESPACES and not self._has_namespace(namespace):
                self.found.objects.append(
                    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
                )
            self.found.objects.append(deployment(name, namespace, labels))
            self.note(
                f"Deployment {name} stands for the pods labelled {key[1]} in namespace {namespace}: put your own in its place"
            )
        return self._stand_ins[key]

    def _has_namespace(self, name: str) -> bool:
        return any(
            each["kind"] == "Namespace" and each["metadata"]["name"] == name for each in self.found.objects
        )

    def checked(self) -> Imported:
        """What was found; a step that a scenario refuses is left out with a note."""
        kept: list[Value] = []
        for step in self.found.steps:
            try:
                _plan(self.found, [*kept, step])
            except InputError as error:
                self.note(f"the step {step['name']} is left out: {error.message}")
            else:
                kept.append(step)
        self.found.steps = kept
        return self.found


def _plan(found: Imported, steps: list[Value]) -> None:
    cluster = {"naming": "kubernetes", "nodes": found.nodes, "metrics": found.metrics}
    spec = {"duration": "24h", "cluster": cluster, "objects": found.objects, "timeline": steps}
    value = {"apiVersion": "orrery.dev/v1", "kind": "Scenario", "metadata": {"name": "import"}, "spec": spec}
    compile_plan(Document("", value), Path())


def selector_of(labels: Mapping[str, str]) -> str:
    """Labels as the selector of a step."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def deployment(name: str, namespace: str, labels: Mapping[str, str]) -> Value:
    """A Deployment of pods with these labels."""
    place = {} if namespace == BUILT_IN_NAMESPACES[0] else {"namespace": namespace}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, **place},
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": {**labels}},
            "template": {
                "metadata": {"labels": {**labels}},
                "spec": {"containers": [{"name": "main", "image": f"registry.example/{name}:1"}]},
            },
        },
    }


def step_name(text: str) -> str:
    """A name as that of a step."""
    return _LABEL_NAME.sub("-", text.lower()).strip("-") or "step"
