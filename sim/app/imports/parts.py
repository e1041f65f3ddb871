"""What an import found, and the text of the scenario that is made of it."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

import yaml

from sim.dataclass import dataclass

Value = dict[str, Any]
START = "2m"
"""When the first step occurs: the objects have had time to become Ready."""
_WIDTH = 108


@dataclass(slots=True)
class Imported:
    """The parts of a scenario.

    nodes, objects, steps: as the file has them
    notes: what was left out or changed, one sentence each
    lasts_s: seconds until the last step has ended
    metrics: True if something needs the APIs of metrics
    storage, places: the fields of `cluster`, if they have entries
    established: True if the objects run already when the run begins
    names: the name in the scenario of each node of the files
    expect: what is judged, as the file has it
    """

    nodes: list[Value] = field(default_factory=list)
    objects: list[Value] = field(default_factory=list)
    steps: list[Value] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    lasts_s: int = 0
    metrics: bool = False
    storage: list[Value] = field(default_factory=list)
    places: dict[str, list[str]] = field(default_factory=dict)
    established: bool = False
    names: Mapping[str, str] = field(default_factory=dict)
    expect: list[Value] = field(default_factory=list)


def scenario_text(found: Imported, name: str, source: str) -> str:
    """The scenario as YAML, with the notes as comments at its beginning.

    name: of the scenario
    source: what was imported, for the description
    """
    return text_of(scenario_value(found, name, f"Imported from {source}."), found.notes)


def scenario_value(found: Imported, name: str, description: str) -> Value:
    """The scenario as the value of a document.  name, description: its metadata"""
    cluster: Value = {"naming": "kubernetes", "nodes": found.nodes}
    if found.metrics:
        cluster["metrics"] = True
    if found.storage:
        cluster["storage"] = found.storage
    if found.established and found.objects:
        cluster["established"] = True
    if found.places:
        cluster["places"] = found.places
    minutes = max(10, -(-found.lasts_s // 60) + 10)
    spec: Value = {"seed": 1, "duration": f"{minutes}m", "cluster": cluster}
    if found.objects:
        spec["objects"] = found.objects
    if found.steps:
        spec["timeline"] = found.steps
    if found.expect:
        spec["expect"] = found.expect
    return {
        "apiVersion": "orrery.dev/v1",
        "kind": "Scenario",
        "metadata": {"name": name, "description": description},
        "spec": spec,
    }


def text_of(value: Value, notes: Iterable[str] = ()) -> str:
    """A scenario, or parts of one, as YAML, with notes as comments at its beginning."""
    body = yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH, default_flow_style=None
    )
    return f"{_comments(notes)}{body}"


class _Dumper(yaml.SafeDumper):
    """Writes equal values out where they occur, instead of aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _comments(notes: Iterable[str]) -> str:
    wrap = {"width": _WIDTH, "break_long_words": False, "break_on_hyphens": False}
    lines = [
        line
        for note in notes
        for line in textwrap.wrap(note, initial_indent="# - ", subsequent_indent="#   ", **wrap)  # type: ignore[arg-type]
    ]
    return (
        "".join(f"{line}\n" for line in ["# What the import left out or changed:", *lines]) if lines else ""
    )


def counted(counts: Mapping[str, int]) -> str:
    """Numbers of things in words: "2 Pods, 1 Job"."""
    return ", ".join(f"{count} {name}{'s' if count > 1 else ''}" for name, count in sorted(counts.items()))


def note_groups(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Notes of pairs of a reason and a kind, one sentence for each reason."""
    groups: dict[str, Counter[str]] = {}
    for reason, kind in pairs:
        groups.setdefault(reason, Counter())[kind] += 1
    return [f"{reason}: {counted(counts)}" for reason, counts in groups.items()]


def plain_nodes() -> list[Value]:
    """Six nodes in three zones, for formats that describe no nodes."""
    return [{"count": 6, "zones": ["a", "b", "c"], "capacity": {"cpu": 8, "memory": "32Gi"}}]


PLAIN_NODES = "the file describes no nodes: six of 8 CPU and 32Gi in three zones take their place"
