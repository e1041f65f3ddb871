"""A trace as a Perfetto (Chrome) trace: actors are tracks, lasting states slices, causes flows.

Turns records into the events of the Trace Event Format: one process each for the scenario, the
control plane and the nodes, and one track for each actor. Steps, outages and stalls are slices with
their durations; everything else is a slice of one microsecond with its text. An arrow leads from
each cause to its effects on other tracks; counters show how many pods are in each phase and how
many nodes are ready.

Holds: slices of one track are disjoint or nested, the longer one first, as the format requires;
overlapping ones are on tracks of their own ("scenario 2", "apiserver-0 2").

Mirrors  the Trace Event Format (phases X, s, f, C, M) as https://ui.perfetto.dev reads it.
Differs  heartbeats (writes of leases) have no arrows: there are more of them than of everything
         else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sim.faults.shared.ledger import END_OF
from sim.kernel import Record
from sim.report.story import Book, tell, who

Event = dict[str, Any]

SCENARIO, CONTROL_PLANE, NODES = 1, 2, 3
GROUPS = {SCENARIO: "scenario", CONTROL_PLANE: "control plane", NODES: "nodes"}
MENDS = ("start", "resume")
# States of a process that exclude each other.
LIFE = ("crash", "exit", "terminate", "pause", "slow", *MENDS)
LEASES = "/leases/"


class _Tracks:
    """Numbers of the tracks, in the order of first use."""

    def __init__(self, nodes: Mapping[str, None]) -> None:
        self._nodes = nodes
        self._known: dict[str, tuple[int, int]] = {}
        # The track of a record that is not on its actor's first track.
        self._rows: dict[int, str] = {}
        self._of: dict[str, str] = {}  # the actor of each such track
        self._free_us: dict[str, list[int]] = {}  # when each track of an actor is free
        self.made: list[Event] = []

    def lay(self, record: Record, duration_us: int) -> None:
        """Put a lasting record on the first free track of its actor."""
        actor = who(record)
        free_us = self._free_us.setdefault(actor, [0])
        row = next((n for n, free in enumerate(free_us) if free <= record.at_us), len(free_us))
        free_us[row : row + 1] = [record.at_us + duration_us]
        if row:
            self._rows[record.ident] = track = f"{actor} {row + 1}"
            self._of[track] = actor

    def beside(self, ended: Record, begun: Record) -> None:
        """Put the record of an end on the track of the beginning."""
        if begun.ident in self._rows:
            self._rows[ended.ident] = self._rows[begun.ident]

    def of_record(self, record: Record) -> tuple[int, int]:
        return self.of(self._rows.get(record.ident) or who(record))

    def of(self, actor: str) -> tuple[int, int]:
        track = self._known.get(actor)
        if track is None:
            whose = self._of.get(actor, actor)
            group = NODES if whose in self._nodes else SCENARIO if whose == "scenario" else CONTROL_PLANE
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
    """Steps and states of processes, each before the slices within it."""
    found = sorted(_durations(book, end_us), key=lambda one: (one[0].at_us, -one[1]))
    begun: dict[tuple[str, str], Record] = {}
    for record, duration_us in found:
        of = _of(record)
        if record.kind == "step-end" or _mends(record):
            if of in begun:
                tracks.beside(record, begun[of])
        else:
            begun[of] = record
            if duration_us > 1:
                tracks.lay(record, duration_us)
        yield _slice(record, tracks, tell(record), duration_us)


def _of(record: Record) -> tuple[str, str]:
    """The actor of a record and what kind of state it begins: of each, one lasts at a time."""
    values = record.values
    if record.kind != "actor":
        return "scenario", values["name"]
    return values["name"], "" if values["what"] in LIFE else values["what"].removeprefix(END_OF)


def _mends(record: Record) -> bool:
    what = record.values.get("what", "")
    return what in MENDS or what.startswith(END_OF)


def _durations(book: Book, end_us: int) -> Iterator[tuple[Record, int]]:
    """The duration of steps, up to their ends, and of states of processes, up to a start or resume
    or the next state (a paused process may crash); all else lasts a moment.
    """
    steps: dict[tuple[str, str], Record] = {}
    troubles: dict[tuple[str, str], Record] = {}
    for record in book.records:
        if record.kind == "step":
            steps[_of(record)] = record
        elif record.kind in ("step-end", "actor"):
            open_ones = troubles if record.kind == "actor" else steps
            before = open_ones.pop(_of(record), None)
            if before is not None:
                yield before, max(1, record.at_us - before.at_us)
            if record.kind == "actor" and not _mends(record):
                troubles[_of(record)] = record
            else:
                yield record, 1
    for step in steps.values():
        yield step, 1
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
