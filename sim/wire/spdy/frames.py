"""Frames of SPDY/3.1: bytes to values and back.

Holds: a frame of more than `FRAME_MAX` bytes and headers of more than `HEADERS_MAX` are refused
before they take memory; what is malformed raises SpdyError and nothing else.

Mirrors  SPDY protocol draft 3.1, sections 2.2 and 2.6; moby/spdystream spdy/read.go, write.go.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from enum import IntEnum

from sim.dataclass import dataclass
from sim.wire.spdy.dictionary import DICTIONARY

VERSION = 3
FRAME_MAX = 1 << 20  # upstream's clients send 32 KiB at most
HEADERS_MAX = 64 << 10  # of one frame, after decompression
HEAD_BYTES = 8
FIN = 1  # a flag of a stream's last frame
_CONTROL = 0x8000
_ID = 0x7FFFFFFF


class Kind(IntEnum):
    """Types of control frames; DATA stands for frames without a type."""

    DATA = 0
    SYN_STREAM = 1
    SYN_REPLY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PING = 6
    GOAWAY = 7
    HEADERS = 8
    WINDOW_UPDATE = 9


class Reset(IntEnum):
    """Why a stream is reset."""

    PROTOCOL_ERROR = 1
    INVALID_STREAM = 2
    REFUSED_STREAM = 3


class SpdyError(Exception):
    """Bytes that are no SPDY/3.1: the connection cannot be used any more."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame.

    stream: its stream, or the number of a ping
    headers: names in lower case; data: of DATA, or what is not read any further
    """

    kind: Kind
    stream: int = 0
    fin: bool = False
    headers: Mapping[str, str] | None = None
    data: bytes = b""


class Reader:
    """Turns the bytes of one side of a connection into frames."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._inflater = zlib.decompressobj(zdict=DICTIONARY)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are complete.  Raises SpdyError."""
        self._held += data
        while len(self._held) >= HEAD_BYTES:
            first, size = int.from_bytes(self._held[:4], "big"), int.from_bytes(self._held[5:8], "big")
            if size > FRAME_MAX:
                raise SpdyError(f"a frame of {size} bytes")
            if len(self._held) < HEAD_BYTES + size:
                return
            flags, body = self._held[4], bytes(self._held[HEAD_BYTES : HEAD_BYTES + size])
            del self._held[: HEAD_BYTES + size]
            if not first >> 31:
                yield Frame(Kind.DATA, first, bool(flags & FIN), data=body)
            elif (frame := self._control(first >> 16 & 0x7FFF, first & 0xFFFF, flags, body)) is not None:
                yield frame

    def _control(self, version: int, number: int, flags: int, body: bytes) -> Frame | None:
        if version != VERSION:
            raise SpdyError(f"version {version}")
        try:
            kind = Kind(number)
        except ValueError:
            return None  # section 2.2.1: unknown control frames are ignored
        if kind is Kind.SETTINGS:
            return None
        if len(body) < 4 or kind is Kind.DATA:
            raise SpdyError(f"a frame of type {number} with {len(body)} bytes")
        stream, fin = int.from_bytes(body[:4], "big") & _ID, bool(flags & FIN)
        if kind is Kind.SYN_STREAM:
            return Frame(kind, stream, fin, self._headers(body, 10))
        if kind in (Kind.SYN_REPLY, Kind.HEADERS):
            return Frame(kind, stream, fin, self._headers(body, 4))
        return Frame(
            kind, int.from_bytes(body[:4], "big") if kind is Kind.PING else stream, fin, data=body[4:]
        )

    def _headers(self, body: bytes, begin: int) -> dict[str, str]:
        """Names and values.  All blocks of a connection are one compressed stream."""
        if len(body) < begin:
            raise SpdyError("headers are cut off")
        try:
            block = self._inflater.decompress(body[begin:], HEADERS_MAX)
        except zlib.error as error:
            raise SpdyError(str(error)) from None
        if self._inflater.unconsumed_tail or self._inflater.eof:
            raise SpdyError("headers are too long")
        at, found = 4, dict[str, str]()

        def taken() -> str:
            nonlocal at
            size = int.from_bytes(block[at : at + 4], "big")
            at += 4 + size
            if at > len(block):
                raise SpdyError("headers are cut off")
            return block[at - size : at].decode("latin1")

        for _ in range(min(int.from_bytes(block[:4], "big"), HEADERS_MAX)):
            name = taken().lower()
            found.setdefault(name, taken().partition("\0")[0])
        return found


class Writer:
    """Turns frames into the bytes of one side of a connection."""

    def __init__(self) -> None:
        self._deflater = zlib.compressobj(zdict=DICTIONARY)

    def data(self, stream: int, data: bytes, *, fin: bool = False) -> bytes:
        """A data frame."""
        return stream.to_bytes(4, "big") + bytes([FIN if fin else 0]) + len(data).to_bytes(3, "big") + data

    def begin(self, stream: int, headers: Mapping[str, str], *, fin: bool = False) -> bytes:
        """SYN_STREAM, as a client begins a stream."""
        body = stream.to_bytes(4, "big") + bytes(6) + self._block(headers)
        return self._control(Kind.SYN_STREAM, body, fin)

    def reply(self, stream: int) -> bytes:
        """SYN_REPLY without headers."""
        return self._control(Kind.SYN_REPLY, stream.to_bytes(4, "big") + self._block({}))

    def reset(self, stream: int, why: Reset) -> bytes:
        """RST_STREAM."""
        return self._control(Kind.RST_STREAM, stream.to_bytes(4, "big") + why.to_bytes(4, "big"))

    def ping(self, number: int) -> bytes:
        """PING, or its answer."""
        return self._control(Kind.PING, number.to_bytes(4, "big"))

    def goaway(self, last: int) -> bytes:
        """GOAWAY without an error."""
        return self._control(Kind.GOAWAY, last.to_bytes(4, "big") + bytes(4))

    def _control(self, kind: Kind, body: bytes, fin: bool = False) -> bytes:
        head = (_CONTROL | VERSION).to_bytes(2, "big") + kind.to_bytes(2, "big")
        return head + bytes([FIN if fin else 0]) + len(body).to_bytes(3, "big") + body

    def _block(self, headers: Mapping[str, str]) -> bytes:
        parts = [len(headers).to_bytes(4, "big")]
        for text in (part for pair in headers.items() for part in pair):
            data = text.encode("latin1", "replace")
            parts.append(len(data).to_bytes(4, "big") + data)
        return self._deflater.compress(b"".join(parts)) + self._deflater.flush(zlib.Z_SYNC_FLUSH)
