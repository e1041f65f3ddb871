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
        row for each operation (units of work done, virtual microseconds, name, payload), binary
        values (checksums of the rows of the trace, by which a replay finds the first event that
        differs), and at a clean end a map (see `End`).  Format 1 had no checksums of its blocks; it
        is refused by name, since only the program that wrote it can replay it exactly.

A journal that cannot grow any more has no room for an end.  The head therefore has room for a
`Stop` from the beginning, and is replaced in its place when an operation cannot be written.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from sim.app.plain_plan import PLAIN_CAPACITY, PLAIN_GROUP, plain_nodes
from sim.app.possible import expectations_of
from sim.app.process.printed import visible
from sim.app.study.outcome import program_digest
from sim.errors import InputError
from sim.files import new_private, write_all
from sim.kernel import MARK, Blocks, Checksums, DamageError, NotKeptError, Operation, Trace, block
from sim.patterns import pattern
from sim.scenario.compile import NODES_MAX, load, plan_of_settings
from sim.scenario.plan.digest import plan_digest
from sim.scenario.plan.plan import AdoptionPlan, ClusterPlan, Plan
from sim.scenario.plan.served import as_served
from sim.scenario.read.settings import settled, unwritten
from sim.scenario.read.source import read_documents
from sim.units import Virtual, Wall

FORMAT = 2
# Bytes of `Stop` in a head, and of its padding at least; characters of its text.
STOP_BYTES, PADDING_MIN, WHY_MAX = 1024, 256, 100
_FORMAT_1 = pattern(rb"^.?\xaeorrery_journal\x01", re.DOTALL)
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

    def document(self, plan: Plan) -> dict[str, Any]:
        """What is served as the document of a scenario, with the settings.  plan: of the session"""
        entry = read_documents(Path(self.scenario))[0] if self.scenario else unwritten(NO_SCENARIO)
        new: dict[str, Any] = settled(entry, [*self._grouped(), *self.settings]).value
        cluster = new["spec"].setdefault("cluster", {})
        if self.nodes and not self._grouped():
            names = [node.name for node in plan.cluster.nodes[-self.nodes :]]
            added = {"count": self.nodes, "names": names, "capacity": PLAIN_CAPACITY}
            cluster["nodes"] = [*cluster.get("nodes", ()), added]
        if self.adopted is not None:
            cluster["adoptNodes"] = {**(cluster.get("adoptNodes") or {}), "selector": self.adopted}
        return new

    def _grouped(self) -> list[str]:
        """The nodes of --nodes as a setting, if settings are about them and no scenario has any."""
        about_nodes = any(one.removeprefix("spec.").startswith("cluster.nodes[") for one in self.settings)
        here = self.nodes and about_nodes and not self.scenario
        return [PLAIN_GROUP.format(self.nodes)] if here else []

    def plan(self) -> Plan:
        """Return the plan of the session.  Raises InputError."""
        naming = [f"cluster.naming={self.naming}"] if self.naming else []
        grouped = self._grouped()
        if self.scenario:
            plan = load(self.scenario, [*naming, *self.settings])
        elif self.settings:
            plan = plan_of_settings(NO_SCENARIO, [*naming, *grouped, *self.settings])
        else:
            plan = Plan(
                NO_SCENARIO, "", 0, 0, ClusterPlan(naming=self.naming or "orch", nodes=()), (), (), ()
            )
        plan = replace(plan, cluster=as_served(plan.cluster))
        expectations_of(plan, alone=False)
        if self.nodes and not grouped:
            nodes = plan.cluster.nodes
            added = plain_nodes(self.nodes, dict.fromkeys(node.name for node in nodes))
            plan = replace(plan, cluster=replace(plan.cluster, nodes=(*nodes, *added)))
        if self.adopted is not None:
            adoption = replace(plan.cluster.adoption or AdoptionPlan(), selector=self.adopted)
            plan = replace(plan, cluster=replace(plan.cluster, adoption=adoption))
        return plan if self.seed is None else replace(plan, seed=self.seed)


class Stop(msgspec.Struct, frozen=True):
    """Where the journal ended because an operation could not be written, and why; "": it did not.

    step, at_us: the position of that operation
    trace_sha256: the hash of the trace before it
    padding: makes it as long as every other stop
    """

    why: str = ""
    step: int = 0
    at_us: Annotated[Virtual, msgspec.Meta(ge=0)] = Virtual(0)
    trace_sha256: str = ""
    padding: bytes = b""


class Head(msgspec.Struct, frozen=True):
    """The first block of a journal.

    plan, program: digests of the plan and of the program that ran it
    epoch_us: Unix time at which virtual time began
    stop: where the journal ended early
    """

    orrery_journal: int
    session: Session
    epoch_us: Wall
    plan: str
    program: str
    stop: Stop = Stop()


class End(msgspec.Struct, frozen=True):
    """How a session ended: virtual time, units of work done, and the hash of its trace."""

    virtual_us: Annotated[Virtual, msgspec.Meta(ge=0)]
    steps: int
    trace_sha256: str


class Journal(msgspec.Struct, frozen=True):
    """A journal that was read.

    end: None if the server did not end cleanly, or its journal could not be written
    note: which part of the file was left out, "" for none
    checksums: those of the rows of the trace, as far as they are known (`sim.kernel.Comparison`)
    size: bytes of the file up to its last operation
    """

    head: Head
    operations: list[Operation]
    end: End | None
    note: str = ""
    checksums: bytes = b""
    size: int = 0

    @property
    def stop(self) -> Stop | None:
        """Where the journal ended early; None if each operation could be written."""
        return self.head.stop if self.head.stop.why else None

    @property
    def virtual_us(self) -> int:
        """The virtual time of the end, or of the last operation if the server did not end cleanly."""
        if self.stop is not None:
            return self.stop.at_us
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
        self, path: Path, session: Session, plan: Plan, epoch_us: Wall, *, force: bool = False
    ) -> None:
        """Create the file.  Raises OSError, and InputError if it exists and `force` is not set."""
        self._head = Head(FORMAT, session, epoch_us, plan_digest(plan), program_digest(), _padded(Stop()))
        self._path = path
        self._broken = self._lacks_checksums = False
        self._checksums: Checksums | None = None
        self._trace: Trace | None = None
        data = _block(self._head)
        self._size = len(data)
        self._file = new_private(path, data, force=force)

    @classmethod
    def resumed(cls, path: Path, journal: Journal) -> JournalFile:
        """The file of a journal that is written on, after its last operation.  Raises OSError."""
        result = cls.__new__(cls)
        result._head, result._path = msgspec.structs.replace(journal.head, stop=_padded(Stop())), path
        # Checksums are of the trace from its beginning, which only the first server wrote.
        result._broken, result._lacks_checksums = False, True
        result._checksums = result._trace = None
        result._file = os.open(path, os.O_RDWR)
        if journal.stop is not None:  # there is room again
            os.pwrite(result._file, _block(result._head), 0)
        os.ftruncate(result._file, journal.size)
        os.lseek(result._file, journal.size, os.SEEK_SET)
        result._size = journal.size
        return result

    def follow(self, trace: Trace) -> None:
        """Keep checksums of the rows of the trace of the session."""
        self._trace = trace
        self._checksums = Checksums(trace, self._keep)

    def append(self, operation: Operation) -> None:
        """Write an operation.  Raises NotKeptError."""
        if self._broken:
            raise NotKeptError
        try:
            self._write(operation)
        except OSError as error:
            self._break(operation, error.strerror or "cannot be written")
            raise NotKeptError from None

    def end(self, end: End) -> None:
        """Close the file; write its end if all operations are in it."""
        if not self._broken:
            if self._checksums is not None:
                self._checksums.finish()
            try:
                self._write(end)
            except OSError as error:
                self._break(Operation(end.steps, end.virtual_us, "", None), error.strerror or "")
        with suppress(OSError):
            os.fsync(self._file)
        os.close(self._file)

    def discard(self) -> None:
        """Close and remove the file, because nothing was served."""
        os.close(self._file)
        with suppress(OSError):
            self._path.unlink()

    def _keep(self, checksums: bytes) -> None:
        """Write checksums of the trace, up to the first that cannot be written."""
        if checksums and not self._broken and not self._lacks_checksums:
            try:
                self._write(checksums)
            except OSError:
                self._lacks_checksums = True

    def _write(self, value: Operation | End | bytes) -> None:
        data = _block(value)
        try:
            write_all(self._file, data)
        except OSError:
            with suppress(OSError):  # so that no part of a record is left
                os.ftruncate(self._file, self._size)
                os.lseek(self._file, self._size, os.SEEK_SET)
            raise
        self._size += len(data)

    def _break(self, lost: Operation, why: str) -> None:
        """End the journal: no further operation is accepted, because one could not be written."""
        self._broken = True
        sha256 = "" if self._trace is None else self._trace.sha256()
        stop = _padded(Stop(why[:WHY_MAX], lost.step, lost.at_us, sha256))
        with suppress(OSError):
            os.pwrite(self._file, _block(msgspec.structs.replace(self._head, stop=stop)), 0)
            os.fsync(self._file)
        if lost.name:
            message = f"the journal ends here: {why}; requests that change something are refused from now on"
            print(visible(f"orrery: {self._path}: {message}"), file=sys.stderr, flush=True)


def _padded(stop: Stop) -> Stop:
    """The stop in the length that all have."""
    some = b"\0" * PADDING_MIN  # the length of each padding is written in two bytes
    size = len(msgspec.msgpack.encode(msgspec.structs.replace(stop, padding=some)))
    return msgspec.structs.replace(stop, padding=some + b"\0" * (STOP_BYTES - size))


def _block(value: Head | Operation | End | bytes) -> bytes:
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
        self._checksums: list[bytes] = []
        self._size = 0

    def read(self) -> Journal:
        """Read all blocks.  Raises DamageError, InputError, msgspec.DecodeError."""
        end = None
        try:
            for content in self._blocks.feed(self._data):
                if self._head is None:
                    self._head = self._read_head(content)
                    self._size = self._blocks.at
                    continue
                value = msgspec.msgpack.decode(content)
                if isinstance(value, bytes):
                    self._checksums.append(value)
                    self._size = self._blocks.at
                    continue
                if isinstance(value, dict):
                    end = msgspec.convert(value, End)
                    break
                self._operations.append(msgspec.convert(value, Operation))
                self._size = self._blocks.at
        except DamageError as error:
            # A crash of the machine leaves zeros in place of a block that did not reach the disk.
            if self._head is None or self._data[error.at :].strip(b"\0"):
                raise
        if self._head is None:
            raise self.damage(0)
        note, checksums = self._note(end), b"".join(self._checksums)
        return Journal(self._head, self._operations, end, note, checksums, self._size)

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
