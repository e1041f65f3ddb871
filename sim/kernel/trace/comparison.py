"""The first record in which a trace differs from one of which only checksums are known.

Turns the rows of a trace into checksums, 4 bytes each (`Checksums`), and these and the rows of
another trace into the position of the first record that differs (`Comparison`).

Holds: rows with equal checksums are taken to be equal; that two runs are equal is shown by
their hashes, and checksums only find the place where they part.

Mirrors  nothing upstream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from zlib import crc32

import msgspec

from sim.kernel.trace.records import IN_SERIES, RUN, Trace

BYTES = 4  # of a checksum
_ENCODER = msgspec.msgpack.Encoder()


class Checksums:
    """Hands the checksums of a trace's rows on, a batch at a time.

    keep: takes the checksums of one or several rows, in their order
    """

    def __init__(self, trace: Trace, keep: Callable[[bytes], None]) -> None:
        self._trace, self._keep = trace, keep
        trace.watcher = self._see

    def finish(self) -> None:
        """Hand on those of the rows since the last whole batch."""
        self._trace.watcher = None
        self._see(self._trace.waiting_rows())

    def _see(self, rows: Sequence[Any]) -> None:
        self._keep(b"".join(_checksum(row) for row in rows))


class Comparison:
    """Compares the rows of a trace with checksums.

    expected: checksums of rows, in order; where they end, nothing is compared any more
    differs_at: number of the first record that differs, 0 if none does
    """

    def __init__(self, expected: bytes) -> None:
        self.differs_at = 0
        self._expected = expected
        self._rows = self._records = 0
        self._trace: Trace | None = None

    def follow(self, trace: Trace) -> None:
        """Compare the rows that a trace gets."""
        self._trace, trace.watcher = trace, self._see

    def finish(self) -> None:
        """Compare the rows since the last whole batch.

        A row of series that is the last one is left out: it may have been longer in the other
        trace.
        """
        assert self._trace is not None
        self._trace.watcher = None
        rows = self._trace.waiting_rows()
        self._see(rows[:-1] if rows and rows[-1][0] == RUN else rows)

    def _see(self, rows: Sequence[Any]) -> None:
        for row in rows:
            at = self._rows * BYTES
            if self.differs_at or at >= len(self._expected):
                return
            if _checksum(row) != self._expected[at : at + BYTES]:
                self.differs_at = self._records + 1
            self._rows += 1
            self._records += len(row[2]) // IN_SERIES.size if row[0] == RUN else row[0] > 0


def _checksum(row: Any) -> bytes:
    return crc32(_ENCODER.encode(row)).to_bytes(BYTES, "little")
