"""A trace as a Perfetto (Chrome) trace: actors as tracks, what stands as slices, causes as flows, counters.

Turns records into the events of the Trace Event Format: one process each for the scenario, the control plane and the
nodes, one track an actor; steps, outages and stalls are slices that last, everything else a slice of one
microsecond with its text; an arrow leads from each cause to what it led to on another track; counters say how many
pods are in each phase and how many nodes are ready.

Holds: slices of one track lie apart or within each other, the longer one first, as the format wants it: steps that
overlap lie on tracks of their own ("scenario 2").

Mirrors  the Trace Event Format (phases X, s, f, C, M) as https://ui.perfetto.dev reads it.
Differs  heartbeats (writes of leases) have no arrows: there are more of them than of everything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sim.kernel import Record
from sim.report.story import Book, tell, who

Event = dict[str, Any]

SCENARIO, CONTROL_PLANE, NODES = 1, 2, 3
GROUPS = {SCENARIO: "scenario", CONTROL_PLANE: "control plane", NODES: "nodes"}
MENDS = ("start", "resume")
LEASES = "/leases/"


class _Tracks:
    """Numbers of the tracks, in the order of first use."""

    def __init__(self, nodes: Mapping[str, None]) -> None:
        self._nodes = nodes
        self._known: dict[str, tuple[int, int]] = {}
        self._lanes: dict[int, str] = {}  # by the record of a step that is not on the first
        self._free_us: list[int] = [0]  # when each lane of steps is free
        self.made: list[Event] = []

    def lay(self, step: Record, duration_us: int) -> None:
        """Give a step that lasts the first lane that is free."""
        lane = next((n for n, free in enumerate(self._free_us) if free <= step.at_us), len(self._free_us))
        self._free_us[lane : lane + 1] = [step.at_us + duration_us]
        if lane:
            self._lanes[step.ident] = f"scenario {lane + 1}"

    def with_step(self, ended: Record, step: Record) -> None:
        """The end of a step belongs where the step is."""
        if step.ident in self._lanes:
            self._lanes[ended.ident] = self._lanes[step.ident]

    def of_record(self, record: Record) -> tuple[int, int]:
        return self.of(self._lanes.get(record.ident) or who(record))

    def of(self, actor: str) -> tuple[int, int]:
        track = self._known.get(actor)
        if track is None:
            group = NODES if actor in self._nodes else CONTROL_PLANE
            group = SCENARIO if actor.startswith("scenario") and group != NODES else group
            track = self._known[actor] = (group, len(self._known) + 1)
            self.made.append(_named("thread_name", group, track[1], actor or "cluster"))
        return track


def events(book: Book) -> Iterator[Event]:
    """The events of a trace, metadata last."""
    tracks = _Tracks(book.nodes)
    end_us = book.records[-1].at_us if book.records else 0
    yield from _lasting(book, tracks, end_us)
    for record in book.records:
        if record.kind in ("change", "actor", "step", "step-end"):
            continue
        yield _slice(record, tracks, tell(record, book.changes(record)), 1)
    yield from _flows(book, tracks)
    yield from _counters(book)
    yield from tracks.made
    for group, name in GROUPS.items():
        yield _named("process_name", group, 0, name)


def _named(what: str, group: int, track: int, name: str) -> Event:
    return {"ph": "M", "name": what, "pid": group, "tid": track, "args": {"name": name}}


def _slice(record: Record, tracks: _Tracks, text: str, duration_us: int) -> Event:
    group, track = tracks.of_record(record)
    return {
        "ph": "X",
        "name": text,
        "cat": record.kind,
        "ts": record.at_us,
        "dur": duration_us,
        "pid": group,
        "tid": track,
        "args": {"record": record.ident, "cause": record.cause},
    }


def _lasting(book: Book, tracks: _Tracks, end_us: int) -> Iterator[Event]:
    """Steps and what befalls processes, each before what lies within it."""
    found = sorted(_durations(book, end_us), key=lambda one: (one[0].at_us, -one[1]))
    steps = {}
    for record, duration_us in found:
        name = record.values["name"]
        if record.kind == "step":
            steps[name] = record
            if duration_us > 1:
                tracks.lay(record, duration_us)
        elif record.kind == "step-end" and name in steps:
            tracks.with_step(record, steps[name])
        yield _slice(record, tracks, tell(record), duration_us)


def _durations(book: Book, end_us: int) -> Iterator[tuple[Record, int]]:
    """How long steps last up to their end, and what befalls a process up to its mending; all else a moment."""
    open_steps: dict[str, Record] = {}
    troubles: dict[str, Record] = {}
    for record in book.records:
        values = record.values
        if record.kind == "step":
            open_steps[values["name"]] = record
        elif record.kind == "step-end":
            begun = open_steps.pop(values["name"], None)
            if begun is not None:
                yield begun, max(1, record.at_us - begun.at_us)
            yield record, 1
        elif record.kind == "actor" and values["what"] not in MENDS and values["name"] not in troubles:
            troubles[values["name"]] = record
        elif record.kind == "actor":
            trouble = None if values["what"] not in MENDS else troubles.pop(values["name"], None)
            if trouble is not None:
                yield trouble, max(1, record.at_us - trouble.at_us)
            yield record, 1
    for begun in open_steps.values():
        yield begun, 1
    for trouble in troubles.values():
        yield trouble, max(1, end_us - trouble.at_us)


def _flows(book: Book, tracks: _Tracks) -> Iterator[Event]:
    for record in book.records:
        cause = book.get(record.cause)
        if cause is None or record.kind == "change" or LEASES in str(record.values.get("key", "")):
            continue
        here, there = tracks.of_record(record), tracks.of_record(cause)
        if here != there:
            shared = {"cat": "cause", "name": "leads to", "id": record.ident}
            yield {"ph": "s", "ts": cause.at_us, "pid": there[0], "tid": there[1], **shared}
            yield {"ph": "f", "bp": "e", "ts": record.at_us, "pid": here[0], "tid": here[1], **shared}


def _counters(book: Book) -> Iterator[Event]:
    phases: dict[str, int] = {}
    held: dict[str, str] = {}
    ready: dict[str, bool] = {}
    for record in book.records:
        if record.kind != "change":
            continue
        values = record.values
        key, what, after = values["key"], values["what"], values["after"]
        pod, node = key.startswith("//pods/"), key.startswith("//nodes/")
        if pod and what in ("phase", "removed"):
            before = held.pop(key, None)
            if before is not None:
                phases[before] -= 1
            if what == "phase" and after is not None:
                held[key] = after
                phases[after] = phases.get(after, 0) + 1
            yield _counter("pods", record.at_us, phases)
        elif node and what in ("ready", "removed"):
            ready[key] = what == "ready" and after == "True"
            yield _counter("nodes", record.at_us, {"ready": sum(ready.values())})


def _counter(name: str, at_us: int, values: dict[str, int]) -> Event:
    return {"ph": "C", "name": name, "ts": at_us, "pid": SCENARIO, "args": dict(values)}
