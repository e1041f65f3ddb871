"""The nodes and pods of a lab over time: what the cluster widget shows.

Turns commits into the changes of a small state (of a node: whether it is ready; of a pod: its node and
phase), and the changes into the grid at any instant.

Holds: the recording sees commits and influences nothing; the grid at an instant depends on the changes up
to it only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any, NamedTuple

from sim.api.objects import condition_status, is_ready
from sim.api.store import Change
from sim.app.process.printed import table_lines
from sim.dataclass import dataclass
from sim.ident import Names
from sim.report.workloads import pod_state
from sim.units import SECOND, format_duration

RESOURCES = ("nodes", "pods")
UNPLACED = ""  # the node of pods that have none
LETTERS = {
    "running": "R", "not ready": "r", "pending": "P", "terminating": "T", "succeeded": "S", "failed": "F",
}  # fmt: skip


class Seen(NamedTuple):
    """A node or pod has come to a state.

    kind: "node" or "pod"
    place: the zone of a node, or the node of a pod
    state: "" when it is removed
    """

    at_s: float
    kind: str
    name: str
    place: str
    state: str


@dataclass(frozen=True, slots=True)
class Row:
    """A node of the grid and its pods, as (name, state).  Pods without a node are in a row of no name."""

    zone: str
    node: str
    state: str
    pods: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Recording:
    """The changes so far, in the order of time."""

    names: Names
    changes: list[Seen] = field(default_factory=list)
    _last: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)

    def see(self, change: Change) -> None:
        """Take a commit of a node or a pod."""
        obj = change.item.obj
        metadata = obj["metadata"]
        if change.item.key.split("/", 3)[2] == "nodes":
            kind, name = "node", metadata["name"]
            place = (metadata.get("labels") or {}).get(self.names.label_zone, "")
            status = condition_status(obj, "Ready")
            state = {"True": "ready", "Unknown": "unknown"}.get(status, "not ready")
        else:
            kind, name = "pod", f"{metadata.get('namespace', '')}/{metadata['name']}"
            place = (obj.get("spec") or {}).get("nodeName") or UNPLACED
            state = pod_state(change.item)
            if state == "running" and not is_ready(obj):
                state = "not ready"
        found = (place, "" if change.deleted else state)
        if self._last.get((kind, name)) != found:
            self._last[kind, name] = found
            self.changes.append(Seen(change.at_us / SECOND, kind, name, *found))


def grid(changes: Sequence[Seen], at_s: float) -> list[Row]:
    """The nodes by zone and name, with their pods by name, at an instant."""
    nodes: dict[str, tuple[str, str]] = {}
    pods: dict[str, tuple[str, str]] = {}
    for seen in changes:
        if seen.at_s > at_s:
            break
        of_kind = nodes if seen.kind == "node" else pods
        of_kind.pop(seen.name, None)
        if seen.state:
            of_kind[seen.name] = (seen.place, seen.state)
    on: dict[str, list[tuple[str, str]]] = {}
    for name in sorted(pods):
        node, state = pods[name]
        on.setdefault(node if node in nodes else UNPLACED, []).append((name, state))
    rows = [Row(zone, name, state, tuple(on.get(name, ()))) for name, (zone, state) in nodes.items()]
    rows.sort(key=lambda row: (row.zone, row.node))
    return rows + ([Row("", UNPLACED, "", tuple(on[UNPLACED]))] if UNPLACED in on else [])


def as_text(changes: Sequence[Seen], at_s: float) -> str:
    """The grid as text: a line for each node, a letter for each pod."""
    rows = grid(changes, at_s)
    cells = [
        (row.node or "no node", f"{row.state:9}", "".join(LETTERS.get(state, "?") for _, state in row.pods))
        for row in rows
    ]
    lines = [format_duration(round(at_s * SECOND)), *table_lines(cells)]
    return "\n".join([*lines, ", ".join(f"{letter} {state}" for state, letter in LETTERS.items())])


@dataclass(frozen=True, slots=True)
class Grid:
    """The grid at the end of a recording, as text: where there are no widgets."""

    changes: tuple[Seen, ...]
    at_s: float

    def __repr__(self) -> str:
        return as_text(self.changes, self.at_s)


def shared(changes: Sequence[Seen]) -> list[list[Any]]:
    """The changes as plain lists, for the program in the browser."""
    return [list(seen) for seen in changes]
