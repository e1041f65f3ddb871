"""Trace files, read back: whole, or as they grow.

Turns the bytes of a file that `Trace` wrote (a header, rows, an end mark with count and hash) into `Record`s.

Holds: what is yielded before an error is as it was recorded; a file that was closed is known to be whole by its
end mark, whose hash is compared; one without an end mark is a run that was killed or goes on (`Decoder.ended`).
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgpack
import msgspec

from sim.kernel.trace import END, FORMAT, IN_SERIES, RUN, SERIES

CHUNK = 1 << 20


class TraceError(ValueError):
    """The file is no trace, or damaged."""


class CutError(TraceError):
    """The file ends within a row: what wrote it was killed, or goes on."""


class Record(msgspec.Struct, frozen=True, gc=False):
    """A record as read back."""

    ident: int
    at_us: int
    cause: int
    kind: str
    values: Mapping[str, Any]


class Decoder:
    """Takes a file's bytes in pieces and gives the records they complete."""

    def __init__(self, name: str) -> None:
        self.header: Mapping[str, Any] | None = None
        self.ended = False
        self.count = 0
        self._name = name
        self._unpacker = msgpack.Unpacker(use_list=False, strict_map_key=False)
        self._kinds: dict[int, tuple[str, tuple[str, ...]]] = {}
        self._series: dict[int, tuple[int, str, dict[str, Any], str]] = {}
        self._places: Mapping[str, Mapping[str, str]] = {}  # `places` of the header
        self._hash = hashlib.sha256()
        self._unhashed = bytearray()
        self._hashed = 0
        self._row_at = 0  # where the next row begins

    def feed(self, data: bytes) -> Iterator[Record]:
        self._unhashed += data
        self._unpacker.feed(data)
        unpacker = self._unpacker
        try:
            for row in unpacker:
                if self.header is None:
                    self._begin(row)
                elif self.ended:
                    raise self._damaged("something follows its end")
                elif row[0] == END:
                    self._end(row)
                elif row[0] == 0:
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
                self._row_at = unpacker.tell()  # within a row that is not all there it would tell more
        except (KeyError, IndexError, TypeError, struct.error) as error:
            raise self._damaged("a row is of no known kind") from error
        except TraceError:
            raise
        except (
            msgpack.UnpackException,
            ValueError,
        ) as error:  # ValueError: a row too short, a text that is none
            if self.header is None:
                raise self._foreign() from error
            raise self._damaged("a row cannot be read") from error
        self._take(self._row_at)

    def finish(self) -> None:
        """No more bytes come.  Raises TraceError if there should be more."""
        if self.header is None:
            raise self._foreign()
        if self._unhashed:
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

    def _declare(self, number: int, kind: int, cause: int, values: tuple[Any, ...]) -> None:
        name, fields = self._kinds[kind]
        self._series[number] = cause, name, dict(zip(fields[:-1], values, strict=True)), fields[-1]

    def _records(self, first: int, packed: bytes) -> Iterator[Record]:
        """The records of a run."""
        for last, (series, at_us) in enumerate(IN_SERIES.iter_unpack(packed), first):
            self.count += 1
            cause, name, values, counted = self._series[series]
            yield Record(self.count, at_us, cause, name, {**values, counted: last})

    def _take(self, up_to: int) -> None:
        """Hash what lies before this offset."""
        size = up_to - self._hashed
        self._hash.update(self._unhashed[:size])
        del self._unhashed[:size]
        self._hashed = up_to

    def _begin(self, row: Any) -> None:
        if not isinstance(row, dict) or row.get("format") != FORMAT:
            raise self._foreign()
        self.header = row
        self._places = row.get("places", {})
        size = self._unpacker.tell()
        del self._unhashed[:size]  # the hash covers the rows only
        self._hashed = size

    def _end(self, row: Any) -> None:
        self._take(self._row_at)
        if row[1:] != (self.count, self._hash.hexdigest()):
            raise self._damaged("its records are not those that were written")
        self.ended = True

    def _foreign(self) -> TraceError:
        return TraceError(f"{self._name} is not a trace file of format {FORMAT}")

    def _damaged(self, how: str) -> TraceError:
        return TraceError(f"{self._name} is damaged after record {self.count}: {how}")


def read_header(path: Path) -> Mapping[str, Any]:
    """The header of a trace file.  Raises TraceError if it is not one."""
    decoder = Decoder(str(path))
    with path.open("rb") as file:
        while decoder.header is None and (data := file.read(CHUNK)):
            for _ in decoder.feed(data):
                break
    if decoder.header is None:
        decoder.finish()
    assert decoder.header is not None
    return decoder.header


def read(path: Path) -> Generator[Record, None, bool]:
    """The records of a trace file, in order; answers whether the end mark was there.

    Raises CutError where it is cut off within a row, TraceError where it is no trace or damaged.
    """
    decoder = Decoder(str(path))
    with path.open("rb") as file:
        while data := file.read(CHUNK):
            yield from decoder.feed(data)
    decoder.finish()
    return decoder.ended
