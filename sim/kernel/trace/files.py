"""Reads trace files, complete ones or growing ones.

Turns the bytes of a file that `Trace` wrote (blocks: a header, batches of rows, an end mark with
count and hash) into `Record`s, and into the outcome of the run that the end mark may hold.

Holds: what is yielded before an error is as it was recorded, because each block has a checksum. A
closed file is recognized as complete by its end mark; a file without one belongs to a run that was
killed or still runs (`Decoder.ended`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgpack
import msgspec

from sim.kernel.blocks import Blocks, DamageError
from sim.kernel.trace.records import END, FORMAT, IN_SERIES, RUN, SERIES, RecordKind
from sim.patterns import pattern

CHUNK = 1 << 20
HEADER_MAX = 256  # bytes at the beginning of a file that must contain its format
_VERSION = pattern(rb"orrery-trace/\d+")


class TraceError(ValueError):
    """The file is not a trace, or is damaged."""


class CutError(TraceError):
    """The file ends within a row: its writer was killed, or still runs."""


class Record(msgspec.Struct, frozen=True, gc=False):
    """A record of a file."""

    ident: int
    at_us: int
    cause: int
    kind: RecordKind
    values: Mapping[str, Any]


class Decoder:
    """Takes a file's bytes in pieces and returns the records that they complete."""

    def __init__(self, name: str) -> None:
        self.header: Mapping[str, Any] | None = None
        self.ended = False
        self.outcome: Mapping[str, Any] | None = None
        self.count = 0
        self._name = name
        self._blocks = Blocks()
        self._kinds: dict[int, tuple[RecordKind, tuple[str, ...]]] = {}
        self._series: dict[int, tuple[int, RecordKind, dict[str, Any], str]] = {}
        self._places: Mapping[str, Mapping[str, str]] = {}  # `places` of the header
        self._hash = hashlib.sha256()

    def feed(self, data: bytes) -> Iterator[Record]:
        """The records that `data` completes.  Raises TraceError."""
        try:
            for content in self._blocks.feed(data):
                if self.header is None:
                    self._begin(content)
                elif self.ended:
                    raise self._damaged("something follows its end")
                else:
                    yield from self._rows(content)
        except DamageError as error:
            if self.header is None:
                raise self._foreign(data) from None
            if self.ended:
                raise self._damaged("something follows its end") from None
            raise self._damaged(f"its bytes from {error.at} on are not those that were written") from None

    def finish(self) -> None:
        """End of the file.  Raises TraceError if it is incomplete."""
        if self.header is None:
            raise self._foreign(b"")
        if self._blocks.left:
            raise CutError(
                f"{self._name} is damaged after record {self.count}: it ends within a row: cut off"
            )

    @staticmethod
    def _add_place(values: dict[str, Any], places: Mapping[str, str]) -> None:
        """Add the place of the record; occurrence NAME/3 has the place of NAME."""
        name = values["name"]
        place = places.get(name) or places.get(name.rpartition("/")[0])
        if place:
            values["place"] = place

    def _rows(self, content: bytes) -> Iterator[Record]:
        """The records of one block."""
        unpacker = msgpack.Unpacker(use_list=False, strict_map_key=False, max_buffer_size=len(content))
        unpacker.feed(content)
        for row in unpacker:
            if row[0] == END:
                self._end(row)
                return
            if row[0] == 0:
                self._kinds[row[1]] = (row[2], row[3])
            elif row[0] == RUN:
                yield from self._records(*row[1:])
            elif row[0] == SERIES:
                self._declare(*row[1:])
            else:
                self.count += 1
                name, fields = self._kinds[row[0]]
                values = dict(zip(fields, row[3:], strict=True))
                if name in self._places:
                    self._add_place(values, self._places[name])
                yield Record(self.count, row[1], row[2], name, values)
        self._hash.update(content)

    def _declare(self, number: int, kind: int, cause: int, values: tuple[Any, ...]) -> None:
        name, fields = self._kinds[kind]
        self._series[number] = cause, name, dict(zip(fields[:-1], values, strict=True)), fields[-1]

    def _records(self, first: int, packed: bytes) -> Iterator[Record]:
        """The records of a row of series."""
        for last, (series, at_us) in enumerate(IN_SERIES.iter_unpack(packed), first):
            self.count += 1
            cause, name, values, counted = self._series[series]
            yield Record(self.count, at_us, cause, name, {**values, counted: last})

    def _begin(self, content: bytes) -> None:
        header = msgpack.unpackb(content, use_list=False)
        if not isinstance(header, dict) or header.get("format") != FORMAT:
            raise self._foreign(content)
        self.header = header
        self._places = header.get("places", {})

    def _end(self, row: Any) -> None:
        if row[1:3] != (self.count, self._hash.hexdigest()):
            raise self._damaged("its records are not those that were written")
        self.ended = True
        self.outcome = row[3] if len(row) > 3 else None

    def _foreign(self, data: bytes) -> TraceError:
        earlier = _VERSION.search(data[:HEADER_MAX])
        if earlier is not None:
            found = earlier[0].decode()
            if found == FORMAT:
                return self._damaged("its header is not what was written")
            return TraceError(f"{self._name} is a trace file of format {found}; this program reads {FORMAT}")
        return TraceError(f"{self._name} is not a trace file of format {FORMAT}")

    def _damaged(self, how: str) -> TraceError:
        return TraceError(f"{self._name} is damaged after record {self.count}: {how}")


def read_header(path: Path) -> Mapping[str, Any]:
    """The header of a trace file.  Raises TraceError if the file is not a trace."""
    decoder = Decoder(str(path))
    with path.open("rb") as file:
        while decoder.header is None and (data := file.read(CHUNK)):
            for _ in decoder.feed(data):
                break
    if decoder.header is None:
        decoder.finish()
    assert decoder.header is not None
    return decoder.header


def read(
    path: Path, on_outcome: Callable[[Mapping[str, Any]], object] | None = None
) -> Generator[Record, None, bool]:
    """The records of a trace file, in order; the return value is True if the end mark was present.

    on_outcome: called with the outcome of the run, if the end mark holds one
    Raises CutError if the file ends within a block, TraceError if it is not a trace or damaged.
    """
    decoder = Decoder(str(path))
    with path.open("rb") as file:
        while data := file.read(CHUNK):
            yield from decoder.feed(data)
    decoder.finish()
    if on_outcome is not None and decoder.outcome is not None:
        on_outcome(decoder.outcome)
    return decoder.ended
