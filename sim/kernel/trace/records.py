"""The trace: typed events in kernel order, each with its cause, hashed as they are added.

A record is `(kind, at_us, cause, *values)`; its id is its position, counted from 1 (0 means "no
cause"). Kinds are declared once with the names of their values; a kind's declaration is itself part
of the stream, so that a file is self-describing. Records are packed in batches: one record takes
well under a microsecond plus its share of a batch, which makes a record for every lease renewal
affordable.

Records that occur by the million and differ only in their time and a number that counts up
(renewals: the revision) belong to a series, which is declared with the values they share.
Successive records of series form one row of the stream (RUN, the first record's number, then a
series and a time each), regardless of how they were added.

A file begins with a header, a mapping that the hash does not cover. It holds what describes the
origin of a run rather than its events: names of files and lines in them. `places` of the header
maps the name of a kind to a mapping from the value `name` of a record to its place; a reader adds
it to the record as `place`. In a file each batch is a block with a checksum (`sim.kernel.blocks`),
and so are the header before the first batch and the end mark after the last. The end mark may hold
the outcome of the run, a mapping that the hash does not cover either: verdicts and the picture.

Holds: the hash covers kinds, times, causes and values, and nothing of the machine or of the path of
a scenario; two runs are equal if and only if their hashes are; a file yields the records that were
added.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import msgpack
import msgspec

from sim.files import growing
from sim.kernel.blocks import block
from sim.units import Virtual

_ENCODER = msgspec.msgpack.Encoder()
_HEAD_BYTES = 3  # length of the head of a msgpack array of 16 to 65,535 elements; 1 for fewer
PART = 1 << 18  # bytes read at once
BATCH = 4096  # records packed at once; limits what a crash of the process can lose
FORMAT = "orrery-trace/3"
# In place of a kind: the last row of a closed file; records of series; the declaration of a series.
END, RUN, SERIES = -1, -2, -3
IN_SERIES = struct.Struct("<qq")  # number of a record's series, and its time

Values = tuple[Any, ...]
# The names of the kinds of record.  A program of a user's own may declare others.
RecordKind = Literal[
    "actor", "change", "command", "connection", "decision", "load", "refused", "request", "rules", "schedule",
    "step", "step-end", "sync-error", "write", "zone",
]  # fmt: skip


class Kind:
    """One type of record.  `listeners` are called with (record id, at_us, cause, values) when one
    is added, and so are `followers`, which do not change how records are written.
    """

    __slots__ = ("fields", "followers", "ident", "listeners", "name")

    def __init__(self, ident: int, name: RecordKind, fields: tuple[str, ...]) -> None:
        self.ident = ident
        self.name = name
        self.fields = fields
        self.listeners: list[Callable[[int, Virtual, int, Values], None]] = []
        self.followers: list[Callable[[int, Virtual, int, Values], None]] = []


class SoFar(NamedTuple):
    """The records of a trace up to an instant: the first `size` bytes of its file, and the rest."""

    file: Path
    size: int
    rest: bytes

    def parts(self) -> Iterator[bytes]:
        """The bytes, in parts that are not empty."""
        left = self.size
        with self.file.open("rb") as opened:
            while left and (part := opened.read(min(left, PART))):
                left -= len(part)
                yield part
        if self.rest:
            yield self.rest

    def copy(self, path: Path) -> None:
        """Write them to a file."""
        with path.open("wb") as opened:
            opened.writelines(self.parts())


class Trace:
    """Collects records, hashes them and writes them to a file, if one is given."""

    def __init__(
        self, path: Path | None = None, header: Mapping[str, Any] | None = None, *, needed: bool = True
    ) -> None:
        """needed: False for a file that is given up where it cannot be written"""
        self._needed = needed
        self.count = 0
        self.outcome: Mapping[str, Any] | None = None  # of the run, for the end mark
        # Gets the rows of each batch that is complete.
        self.watcher: Callable[[Sequence[Any]], None] | None = None
        self._kinds: dict[RecordKind, Kind] = {}
        self._followers: list[Callable[[RecordKind, int, int, Values], None]] = []
        self._batch: list[Any] = []
        self._series = 0
        # The pieces of the last row of the batch, if that is a row of series.
        self._run: list[bytes] | None = None
        self._runs: list[list[Any]] = []  # rows of series in the batch, not joined yet
        self._next = 0  # the number that continues the last row of series
        self._hash = hashlib.sha256()
        self._path = path
        self._file: IO[bytes] | None = None
        if path is not None:
            head = _head(header or {})
            self._head_size = len(head)
            self._file = growing(path, head)

    @property
    def path(self) -> Path | None:
        """Its file, if it has one."""
        return self._path

    def kind(self, name: RecordKind, *fields: str) -> Kind:
        """Declare a kind of record; repeating a declaration returns the same kind."""
        known = self._kinds.get(name)
        if known is not None:
            if known.fields != fields:
                raise ValueError(f"trace kind {name!r} is declared with {known.fields} and {fields}")
            return known
        made = self._kinds[name] = Kind(len(self._kinds) + 1, name, fields)
        for follower in self._followers:
            made.followers.append(_of_kind(name, follower))
        self._run = None
        self._batch.append((0, made.ident, name, fields))
        return made

    def listen(self, kind: Kind, listener: Callable[[int, Virtual, int, Values], None]) -> None:
        """Call `listener` with (record id, at_us, cause, values) for each record of this kind."""
        kind.listeners.append(listener)
        kind.followers.append(listener)

    def follow(self, follower: Callable[[RecordKind, int, int, Values], None]) -> None:
        """Call `follower` with (name of the kind, record id, cause, values) for each record of each
        kind, except for records of series; the trace stays the same.
        """
        self._followers.append(follower)
        for kind in self._kinds.values():
            kind.followers.append(_of_kind(kind.name, follower))

    def add(self, kind: Kind, at_us: Virtual, cause: int, values: Values) -> int:
        """Append a record; returns its id. Values are msgpack scalars, or tuples and dicts of them."""
        return self.put(kind, (kind.ident, at_us, cause, *values))

    def put(self, kind: Kind, row: Values) -> int:
        """Like `add` for a row of the kind's number, time, cause and values, which saves a tuple
        for records that occur by the million.
        """
        assert row[2] <= self.count, "a cause is later than its effect"
        self.count = ident = self.count + 1
        batch = self._batch
        self._run = None
        batch.append(row)
        if len(batch) >= BATCH:
            self._flush()
        if kind.followers:
            values = row[3:]
            for listener in kind.followers:
                listener(ident, row[1], row[2], values)
        return ident

    def series(self, kind: Kind, cause: int, values: Values) -> int:
        """Declare a series of records with this kind, cause and values, except for the last value,
        which counts up; returns the series' number.
        """
        self._series += 1
        self._run = None
        self._batch.append((SERIES, self._series, kind.ident, cause, values))
        return self._series

    def run(self, first: int, records: bytes) -> int:
        """Append records of series (each packed as IN_SERIES); their last values count up from
        `first`.

        Returns the id of the first record. Listeners of their kinds are not called.
        """
        ident = self.count + 1
        number = len(records) // IN_SERIES.size
        self.count += number
        run = self._run
        if run is None or first != self._next:
            if len(self._batch) >= BATCH:
                self._flush()
            run = self._run = []
            row = [RUN, first, run]
            self._batch.append(row)
            self._runs.append(row)
        run.append(records)
        self._next = first + number
        return ident

    def _packed(self) -> bytes:
        """The rows that wait to be written, as the body of an array without its head."""
        batch = self._batch
        pieces = [row[2] for row in self._runs]
        for row in self._runs:
            row[2] = b"".join(row[2])
        data = _ENCODER.encode(batch)[_HEAD_BYTES if len(batch) > 15 else 1 :]
        for row, run in zip(self._runs, pieces, strict=True):
            row[2] = run
        return data

    def waiting_rows(self) -> list[Any]:
        """The rows since the last whole batch, as they are written."""
        return [[*row[:2], b"".join(row[2])] if row[0] == RUN else row for row in self._batch]

    def _flush(self) -> None:
        if not self._batch:
            return
        data = self._packed()
        if self.watcher is not None:
            self.watcher(self.waiting_rows())
        self._batch.clear()
        self._runs.clear()
        self._run = None
        self._hash.update(data)
        self._write(data)

    def _write(self, data: bytes, last: bool = False) -> None:
        if self._file is None:
            return
        try:
            self._file.write(block(data))
            self._file.flush()  # an incomplete block could not be read
            if last:
                self._file.close()
        except OSError as error:
            file, self._file = self._file, None
            with suppress(OSError):
                file.close()
            error.filename = str(self._path)  # an error of a write does not contain it
            if self._needed:
                raise
            self._path = None

    def sha256(self) -> str:
        """Hash of everything that has been added so far."""
        so_far = self._hash.copy()
        so_far.update(self._packed())
        return so_far.hexdigest()

    def so_far(self) -> SoFar:
        """What a file of the records so far, which has no end mark, consists of.

        The trace itself does not change: the division of its rows into blocks is part of its hash.
        Raises ValueError if it has no file.
        """
        if self._path is None:
            raise ValueError("a trace without a file keeps no records")
        rest = block(self._packed()) if self._batch else b""
        return SoFar(self._path, self._path.stat().st_size, rest)

    def move(self, so_far: SoFar, path: Path, header: Mapping[str, Any] | None = None) -> None:
        """Continue in a copy of the file: in a copy of the process, of which `so_far` is from
        before.

        header: that of the copy, if it is another one
        """
        assert self._file is not None
        source, at, copy = self._file.fileno(), 0, path.open("wb+")
        if header is not None:
            at = self._head_size
            copy.write(_head(header))
        while part := os.pread(source, min(so_far.size - at, PART), at):  # its file may have gone
            copy.write(part)
            at += len(part)
        copy.flush()
        self._path, self._file = path, copy

    def close(self) -> None:
        """Write the end mark, with the outcome of the run if there is one, and close the file."""
        self._flush()
        end: list[Any] = [END, self.count, self._hash.hexdigest()]
        if self.outcome is not None:
            end.append(self.outcome)
        self._write(msgpack.packb(end), last=True)
        self._file = None


def _head(header: Mapping[str, Any]) -> bytes:
    """The first block of a file."""
    data: bytes = block(msgpack.packb({"format": FORMAT, **header}))
    return data


def _of_kind(
    name: RecordKind, follower: Callable[[RecordKind, int, int, Values], None]
) -> Callable[[int, Virtual, int, Values], None]:
    return lambda ident, _, cause, values: follower(name, ident, cause, values)
