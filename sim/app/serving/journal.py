"""The journal of `orrery serve`: the session and everything that came from outside, written to a
file as it happens, and read back.

Turns a session (a scenario or none, settings, seed, the instant it began) and the operations of the
kernel's gate into a file, and the file into a `Journal`, from which `orrery replay` repeats the
run.

Holds: an operation is in the file before it has an effect, so a killed process loses none that it
has acknowledged.  An operation that cannot be written raises `NotKeptError`, and so does each one
after it, since a journal with a gap cannot be replayed.  A file has one writer, replaces no other
unless forced, and is readable by its owner only, because it holds what clients sent.  Each changed
bit is reported with its place; an incomplete last record is left out, with a note.

The file is handed to the operating system with each operation, and to the disk at the beginning and
the end: a crash of the machine may lose the operations of the last seconds before it.

Format  Blocks with checksums (`sim.kernel.blocks`), each a MessagePack value: a map (the head), a
        row for each operation (units of work done, virtual microseconds, name, payload), and at a
        clean end a map (see `End`).  Format 1 had no checksums; it is refused by name, since only
        the program that wrote it can replay it exactly.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from sim.app.plain_plan import plain_nodes
from sim.app.printed import visible
from sim.app.run import expectations_of
from sim.app.study.outcome import plan_digest, program_digest
from sim.errors import InputError
from sim.files import new_private, write_all
from sim.kernel import MARK, Blocks, DamageError, NotKeptError, Operation, block
from sim.scenario.plan.compile import NODES_MAX, load, plan_of_settings
from sim.scenario.plan.plan import AdoptionPlan, ClusterPlan, Plan

FORMAT = 2
_FORMAT_1 = re.compile(rb"^.?\xaeorrery_journal\x01", re.DOTALL)
NO_SCENARIO = "served"  # the name of a session without a scenario


class Session(msgspec.Struct, frozen=True):
    """The arguments with which a server was started.

    scenario: the path of its file, "" for none
    settings: overrides of its values
    naming: "" for the scenario's
    nodes: number of nodes that are added
    seed: None for the scenario's
    adopted: selector of the Node objects of clients that become nodes; None for the scenario's
    """

    scenario: str = ""
    settings: tuple[str, ...] = ()
    naming: Literal["", "orch", "kubernetes"] = ""
    nodes: Annotated[int, msgspec.Meta(ge=0, le=NODES_MAX)] = 0
    seed: Annotated[int, msgspec.Meta(ge=0)] | None = None
    adopted: str | None = None

    def plan(self) -> Plan:
        """Return the plan of the session.  Raises InputError."""
        naming = [f"cluster.naming={self.naming}"] if self.naming else []
        if self.scenario:
            plan = load(self.scenario, [*self.settings, *naming])
        elif self.settings:
            plan = plan_of_settings(NO_SCENARIO, [*self.settings, *naming])
        else:
            plan = Plan(
                NO_SCENARIO, "", 0, 0, ClusterPlan(naming=self.naming or "orch", nodes=()), (), (), ()
            )
        expectations_of(plan, alone=False)
        if self.nodes:
            nodes = plan.cluster.nodes
            added = plain_nodes(self.nodes, dict.fromkeys(node.name for node in nodes))
            plan = replace(plan, cluster=replace(plan.cluster, nodes=(*nodes, *added)))
        if self.adopted is not None:
            adoption = replace(plan.cluster.adoption or AdoptionPlan(), selector=self.adopted)
            plan = replace(plan, cluster=replace(plan.cluster, adoption=adoption))
        return plan if self.seed is None else replace(plan, seed=self.seed)


class Head(msgspec.Struct, frozen=True):
    """The first block of a journal.

    plan, program: digests of the plan and of the program that ran it
    epoch_us: Unix time at which virtual time began
    """

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
    """A journal that was read.

    end: None if the server did not end cleanly
    note: which part of the file was left out, "" for none
    """

    head: Head
    operations: list[Operation]
    end: End | None
    note: str = ""

    @property
    def virtual_us(self) -> int:
        """The virtual time of the end, or of the last operation if the server did not end cleanly."""
        if self.end is not None:
            return self.end.virtual_us
        return self.operations[-1].at_us if self.operations else 0

    def plan(self, scenario: Path | None = None) -> Plan:
        """Return the plan of what was served, up to its end.  Raises InputError.

        scenario: the path at which the scenario is now, None if it was not moved
        """
        session = self.head.session
        if scenario is not None:
            session = msgspec.structs.replace(session, scenario=str(scenario))
        elif session.scenario and not Path(session.scenario).exists():
            raise InputError(
                "the served scenario does not exist any more", session.scenario, "--scenario FILE"
            )
        plan = session.plan()
        if plan_digest(plan) != self.head.plan:
            place = session.scenario or "the journal's session"
            raise InputError("has changed since the journal was written", place)
        return replace(plan, duration_us=self.virtual_us)


class JournalFile:
    """A journal that is being written."""

    def __init__(
        self, path: Path, session: Session, plan: Plan, epoch_us: int, *, force: bool = False
    ) -> None:
        """Create the file.  Raises OSError, and InputError if it exists and `force` is not set."""
        head = _block(Head(FORMAT, session, epoch_us, plan_digest(plan), program_digest()))
        self._path = path
        self._broken = False
        self._size = len(head)
        self._file = new_private(path, head, force=force)

    def append(self, operation: Operation) -> None:
        """Write an operation.  Raises NotKeptError."""
        self._write(operation)

    def end(self, end: End) -> None:
        """Close the file; write its end if all operations are in it."""
        with suppress(NotKeptError):
            self._write(end)
        with suppress(OSError):
            os.fsync(self._file)
        os.close(self._file)

    def discard(self) -> None:
        """Close and remove the file, because nothing was served."""
        os.close(self._file)
        with suppress(OSError):
            self._path.unlink()

    def _write(self, value: Operation | End) -> None:
        if self._broken:
            raise NotKeptError
        data = _block(value)
        try:
            write_all(self._file, data)
        except OSError as error:
            self._break(error.strerror or "cannot be written")
            raise NotKeptError from None
        self._size += len(data)

    def _break(self, why: str) -> None:
        """End the journal: no further operation is accepted, because one could not be written."""
        self._broken = True
        with suppress(OSError):
            os.ftruncate(self._file, self._size)
        told = f"the journal ends here: {why}; requests that change something are refused from now on"
        print(visible(f"orrery: {self._path}: {told}"), file=sys.stderr, flush=True)


def _block(value: Head | Operation | End) -> bytes:
    return block(msgspec.msgpack.encode(value))


def read_journal(path: Path) -> Journal:
    """Read the file of a journal.  Raises InputError."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(error.strerror or "cannot be read", str(path)) from None
    reader = _Reader(str(path), data)
    try:
        return reader.read()
    except DamageError as error:
        raise reader.damage(error.at) from None
    except msgspec.DecodeError:  # its checksum is right, so another version of the program wrote it
        raise InputError("is no journal of orrery serve", str(path)) from None


class _Reader:
    """Reads the bytes of a journal, up to its end or to the damage."""

    def __init__(self, place: str, data: bytes) -> None:
        self._place = place
        self._data = data
        self._blocks = Blocks()
        self._head: Head | None = None
        self._operations: list[Operation] = []

    def read(self) -> Journal:
        """Read all blocks.  Raises DamageError, InputError, msgspec.DecodeError."""
        end = None
        try:
            for content in self._blocks.feed(self._data):
                if self._head is None:
                    self._head = self._read_head(content)
                    continue
                value = msgspec.msgpack.decode(content)
                if isinstance(value, dict):
                    end = msgspec.convert(value, End)
                    break
                self._operations.append(msgspec.convert(value, Operation))
        except DamageError as error:
            # A crash of the machine leaves zeros in place of a block that did not reach the disk.
            if self._head is None or self._data[error.at :].strip(b"\0"):
                raise
        if self._head is None:
            raise self.damage(0)
        return Journal(self._head, self._operations, end, self._note(end))

    def _read_head(self, content: bytes) -> Head:
        head = msgspec.msgpack.decode(content, type=Head)
        if head.orrery_journal != FORMAT:
            raise self._other_format(head.orrery_journal)
        return head

    def _note(self, end: End | None) -> str:
        """Describe what is left out: the bytes after the last whole block."""
        left = len(self._data) - self._blocks.at
        if not left:
            return ""
        if end is not None:
            return f"{self._place}: the {left} bytes after its end are left out"
        last = f"its last {left} bytes are left out: the record is incomplete"
        return f"{self._place}: {last}, after {len(self._operations)} operations"

    def damage(self, at: int) -> InputError:
        """The error for a file that holds no block at this offset."""
        if self._head is not None:
            where = f"is damaged at byte {at}, after {len(self._operations)} operations"
            return InputError(where, self._place, f"truncate -s {at} FILE keeps the operations before")
        if _FORMAT_1.match(self._data):
            return self._other_format(1)
        if self._data.startswith(MARK):
            return InputError("is damaged or cut off in its head", self._place)
        return InputError("is no journal of orrery serve", self._place)

    def _other_format(self, found: int) -> InputError:
        problem = f"is a journal of format {found}; this program reads {FORMAT}"
        return InputError(problem, self._place, "replay it with the version of orrery that wrote it")
