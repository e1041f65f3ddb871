"""The journal of `orrery serve`: what it served and all that came from outside, in a file as it happens; read back.

Turns a session (a scenario or none, settings, seed, the instant it began) and the kernel gate's operations into a
file, and the file into a `Journal`, by which `orrery replay` makes the run again.

Holds: what came before the process was killed, or the disk was full, is in the file and is read; a file that is no
journal, or whose scenario is another one now, is refused.

Format  MessagePack values one after the other: a map (the head), a row an operation (units of work done, virtual
        microseconds, name, payload), and at a clean end a map (see `End`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import msgpack
import msgspec

from sim.app.cluster import plain_nodes
from sim.app.outcome import plan_digest, program_digest
from sim.app.run import expectations_of
from sim.errors import InputError
from sim.kernel import Operation
from sim.scenario.compile import NODES_MAX, load
from sim.scenario.plan import ClusterPlan, Plan

FORMAT = 1
NO_SCENARIO = "served"  # the name of a session without a scenario


class Session(msgspec.Struct, frozen=True):
    """What a server was asked to serve.

    scenario: its file, "" for none; settings: its overrides; naming: "" for the scenario's; nodes: that are added;
    seed: None for the scenario's
    """

    scenario: str = ""
    settings: tuple[str, ...] = ()
    naming: Literal["", "orch", "kubernetes"] = ""
    nodes: Annotated[int, msgspec.Meta(ge=0, le=NODES_MAX)] = 0
    seed: Annotated[int, msgspec.Meta(ge=0)] | None = None

    def plan(self) -> Plan:
        """Raises InputError."""
        if self.settings and not self.scenario:
            raise InputError("there is no scenario to set it in", f"--set {self.settings[0]}")
        if self.scenario:
            naming = [f"cluster.naming={self.naming}"] if self.naming else []
            plan = load(self.scenario, [*self.settings, *naming])
        else:
            plan = Plan(
                NO_SCENARIO, "", 0, 0, ClusterPlan(naming=self.naming or "orch", nodes=()), (), (), ()
            )
        expectations_of(plan, alone=False)
        if self.nodes:
            nodes = plan.cluster.nodes
            added = plain_nodes(self.nodes, dict.fromkeys(node.name for node in nodes))
            plan = replace(plan, cluster=replace(plan.cluster, nodes=(*nodes, *added)))
        return plan if self.seed is None else replace(plan, seed=self.seed)


class Head(msgspec.Struct, frozen=True):
    """plan, program: digests of what ran; epoch_us: Unix time at which virtual time began."""

    orrery_journal: int
    session: Session
    epoch_us: int
    plan: str
    program: str


class End(msgspec.Struct, frozen=True):
    """How a session ended: virtual time, units of work done, and the hash of its trace."""

    virtual_us: Annotated[int, msgspec.Meta(ge=0)]
    steps: int
    trace_sha256: str


class Journal(msgspec.Struct, frozen=True):
    """A journal that was read.  end: None where the server did not get to write it."""

    head: Head
    operations: list[Operation]
    end: End | None

    @property
    def virtual_us(self) -> int:
        if self.end is not None:
            return self.end.virtual_us
        return self.operations[-1].at_us if self.operations else 0

    def plan(self, scenario: Path | None = None) -> Plan:
        """What was served, up to its end.  scenario: where its file is now.  Raises InputError."""
        session = self.head.session
        if scenario is not None:
            session = msgspec.structs.replace(session, scenario=str(scenario))
        elif session.scenario and not Path(session.scenario).exists():
            raise InputError("what was served is not there any more", session.scenario, "--scenario FILE")
        plan = session.plan()
        if plan_digest(plan) != self.head.plan:
            place = session.scenario or "the journal's session"
            raise InputError("is not what was served when the journal was written", place)
        return replace(plan, duration_us=self.virtual_us)


class JournalFile:
    """A journal that is being written; only its owner may read it, for it holds what clients sent, secrets too."""

    def __init__(self, path: Path, session: Session, plan: Plan, epoch_us: int) -> None:
        self._path = path
        self._broken = False
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        self._write(Head(FORMAT, session, epoch_us, plan_digest(plan), program_digest()))

    def append(self, operation: Operation) -> None:
        self._write(operation)

    def end(self, end: End) -> None:
        self._write(end)
        os.close(self._file)

    def _write(self, value: Any) -> None:
        if self._broken:
            return
        try:
            left = memoryview(msgspec.msgpack.encode(value))
            while left:
                left = left[os.write(self._file, left) :]
        except OSError as error:  # the clients are served on
            self._broken = True
            print(
                f"orrery: {self._path}: the journal ends here: {error.strerror}", file=sys.stderr, flush=True
            )


def read_journal(path: Path) -> Journal:
    """Raises InputError."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(error.strerror or "cannot be read", str(path)) from None
    try:
        values = _values(data)
        head = msgspec.convert(next(values, None), Head)
        operations: list[Operation] = []
        end = None
        for value in values:
            if isinstance(value, dict):
                end = msgspec.convert(value, End)
                break
            operations.append(msgspec.convert(value, Operation))
    except (ValueError, msgpack.UnpackException):
        raise InputError("is no journal of orrery serve, or damaged", str(path)) from None
    if head.orrery_journal != FORMAT:
        raise InputError(
            f"is a journal of format {head.orrery_journal}; this program reads {FORMAT}", str(path)
        )
    return Journal(head, operations, end)


def _values(data: bytes) -> Iterator[Any]:
    """The whole values; what a process that was killed left of one is passed over."""
    unpacker = msgpack.Unpacker(strict_map_key=False, max_buffer_size=len(data) or 1)
    unpacker.feed(data)
    yield from unpacker
