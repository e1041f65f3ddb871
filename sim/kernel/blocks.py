"""Blocks with checksums: the form of files that grow while they are written (traces, journals).

Turns bytes into a block (a mark, the length, checksums of both and of the content, the content) and
a file's bytes, in pieces of any size, back into the contents.

Holds: a content that is returned was written so; each changed bit is detected (`DamageError`), with
its offset. A file that ends within a block is not damaged: its writer was killed, or still writes
(`Blocks.left`).

The header has a checksum of its own, because a changed length would otherwise look like an
incomplete block. The mark's first byte begins no MessagePack value and no text, so that a file of
another kind is recognized at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from zlib import crc32

MARK = b"\xc1Orr"
_FIELDS = Struct("<4sII")  # the mark, the length and the checksum of the content
_CHECK = Struct("<I")  # the checksum of those
HEADER_BYTES = _FIELDS.size + _CHECK.size


class DamageError(ValueError):
    """The bytes from this offset of the file on are not a block that was written."""

    def __init__(self, at: int) -> None:
        super().__init__(f"no block at byte {at}")
        self.at = at


def block(content: bytes) -> bytes:
    """The content as one block of a file."""
    fields = _FIELDS.pack(MARK, len(content), crc32(content))
    return b"".join((fields, _CHECK.pack(crc32(fields)), content))


class Blocks:
    """Takes a file's bytes in pieces and returns the contents of completed blocks.

    at: offset in the file of the first incomplete block
    """

    def __init__(self) -> None:
        self.at = 0
        self._buffer = bytearray()

    @property
    def left(self) -> int:
        """Number of bytes received of an incomplete block."""
        return len(self._buffer)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The contents of the blocks that `data` completes.  Raises DamageError."""
        buffer = self._buffer
        buffer += data
        taken = 0
        try:
            while (content := self._next(taken)) is not None:
                size = HEADER_BYTES + len(content)
                taken += size
                self.at += size
                yield content
        finally:
            del buffer[:taken]

    def _next(self, start: int) -> bytes | None:
        buffer = self._buffer
        header = bytes(buffer[start : start + HEADER_BYTES])
        if header[: len(MARK)] != MARK[: len(header)]:
            raise DamageError(self.at)
        if len(header) < HEADER_BYTES:
            return None
        if _CHECK.unpack_from(header, _FIELDS.size)[0] != crc32(header[: _FIELDS.size]):
            raise DamageError(self.at)
        _, length, check = _FIELDS.unpack_from(header)
        first = start + HEADER_BYTES
        if len(buffer) < first + length:
            return None
        content = bytes(buffer[first : first + length])
        if crc32(content) != check:
            raise DamageError(self.at)
        return content
