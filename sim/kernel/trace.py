"""The trace: typed events in kernel order, each with the event that caused it, hashed as they come.

A record is `(kind, at_us, cause, *values)`; its id is its position, counted from 1 (0 means "no cause").
Kinds are declared once with the names of their values; a kind's declaration is itself part of the stream, so
that a file explains itself.  Records are packed in batches: one record costs well under a microsecond plus
its share of a batch, which is what lets every lease renewal be one.

Holds: the hash covers kinds, times, causes and values, nothing of the machine; two runs are equal if and
only if their hashes are; a file read back gives the records that were added.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import msgpack
import msgspec

_ENCODER = msgspec.msgpack.Encoder()
_HEAD_BYTES = 3  # of a msgpack array of 16 to 65,535 elements; 1 below
BATCH = 4096  # records packed at once; bounds what a crash of the process can lose
FORMAT = "orrery-trace/1"
END = -1  # in the place of a kind: the last row of a file that was closed

Values = tuple[Any, ...]


class Kind:
    """One type of record.  `listeners` are called with (record id, at_us, cause, values) as it is added."""

    __slots__ = ("fields", "ident", "listeners", "name")

    def __init__(self, ident: int, name: str, fields: tuple[str, ...]) -> None:
        self.ident = ident
        self.name = name
        self.fields = fields
        self.listeners: list[Callable[[int, int, int, Values], None]] = []


class Trace:
    """Collects records, hashes them and, when given a file, writes them."""

    def __init__(self, path: Path | None = None, header: Mapping[str, Any] | None = None) -> None:
        self.count = 0
        self._kinds: dict[str, Kind] = {}
        self._batch: list[Values] = []
        self._hash = hashlib.sha256()
        self._file: IO[bytes] | None = None
        if path is not None:
            self._file = path.open("wb")
            self._file.write(msgpack.packb({"format": FORMAT, **(header or {})}))

    def kind(self, name: str, *fields: str) -> Kind:
        """Declare a kind of record (again: the same declaration gives the same kind)."""
        known = self._kinds.get(name)
        if known is not None:
            if known.fields != fields:
                raise ValueError(f"trace kind {name!r} is declared with {known.fields} and {fields}")
            return known
        made = self._kinds[name] = Kind(len(self._kinds) + 1, name, fields)
        self._batch.append((0, made.ident, name, fields))
        return made

    def listen(self, kind: Kind, listener: Callable[[int, int, int, Values], None]) -> None:
        kind.listeners.append(listener)

    def add(self, kind: Kind, at_us: int, cause: int, values: Values) -> int:
        """Append a record; returns its id.  Values are msgpack scalars, or tuples and dicts of them."""
        return self.put(kind, (kind.ident, at_us, cause, *values))

    def put(self, kind: Kind, row: Values) -> int:
        """As `add`, of a row of the kind's number, time, cause and values: what is written by the million saves a tuple."""
        self.count = ident = self.count + 1
        batch = self._batch
        batch.append(row)
        if len(batch) >= BATCH:
            self._flush()
        if kind.listeners:
            values = row[3:]
            for listener in kind.listeners:
                listener(ident, row[1], row[2], values)
        return ident

    def _flush(self) -> None:
        batch = self._batch
        if not batch:
            return
        # One array, and then without its head: the rows one after the other.
        data = _ENCODER.encode(batch)[_HEAD_BYTES if len(batch) > 15 else 1 :]
        batch.clear()
        self._hash.update(data)
        if self._file is not None:
            self._file.write(data)

    def sha256(self) -> str:
        """Hash of everything added so far."""
        self._flush()
        return self._hash.hexdigest()

    def close(self) -> None:
        self._flush()
        if self._file is not None:
            self._file.write(msgpack.packb((END, self.count, self._hash.hexdigest())))
            self._file.close()
            self._file = None
