"""Bodies of HTTP/1.1 requests: from the bytes behind a head to the body of an exchange.

Holds: nothing is read from the client before the front asks for the body or answers; a body beyond
BODY_MAX is thrown away as it comes; chunks are read strictly, so that no second request can be
hidden in them.

Mirrors  golang net/http/internal chunked.go, transfer.go (body), at go1.19.
Differs  a chunk's line ends with CR and LF, has at most LINE_MAX bytes, and extensions of a
         printable form; trailers are read and thrown away.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from sim.patterns import pattern
from sim.wire.exchange import BODY_MAX, DISCARDED_MAX
from sim.wire.http.fronts.heads import CHUNKED, HEAD_MAX
from sim.wire.http.fronts.http1 import Refused

LINE_MAX: Final = 256
_SIZE = pattern(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[\x09\x20-\x7e\x80-\xff]*)?")


class NoBody:
    """The body of a request that has none."""

    __slots__ = ("asked",)
    ended = complete = True
    too_large = False

    def __init__(self) -> None:
        self.asked = False

    async def read(self) -> bytes | None:
        """The empty body."""
        self.asked = True
        return b""

    async def skip(self) -> None:
        """Nothing is left to be read."""


class DirectBody:
    """The body of one request, read from its connection by the task that answers it.

    asked: the front has read it
    ended: nothing more is read of it; complete: it has ended by itself
    too_large: it is beyond BODY_MAX
    """

    __slots__ = (
        "_dropped",
        "_left",
        "_more",
        "_parts",
        "_rest",
        "_size",
        "_state",
        "_trailing",
        "asked",
        "complete",
        "ended",
        "too_large",
    )

    def __init__(self, length: int, more: Callable[[DirectBody], Awaitable[None]]) -> None:
        """more: gives it further bytes (`take`)"""
        self._more = more
        self._parts: list[bytes] = []
        self._left = max(0, length)  # of the body, or of the present chunk
        self._state = "size" if length == CHUNKED else "whole"
        self._rest = b""  # of a line that is not complete
        self._size = self._trailing = 0
        self.asked = self.ended = self.complete = self.too_large = self._dropped = False

    async def read(self) -> bytes | None:
        """The whole body; None if it is too large."""
        self.asked = True
        while not self.ended and not self.too_large:
            await self._more(self)
        return None if self.too_large else b"".join(self._parts)

    async def skip(self) -> None:
        """Read the rest of it and throw it away."""
        self.drop()
        while not self.ended:
            await self._more(self)

    def drop(self) -> None:
        """Keep nothing of it."""
        self._parts.clear()
        self._dropped = True

    def take(self, data: bytes) -> bytes:
        """Take what belongs to it, and return the rest.  Raises Refused."""
        if self._state == "whole":
            part = data[: self._left]
            self._keep(part)
            self._end(not self._left)
            return data[len(part) :]
        data, self._rest = self._rest + data, b""
        while data and not self.ended:
            data = self._chunk(data) if self._state in ("data", "end") else self._line(data)
        return data

    def _keep(self, part: bytes) -> None:
        self._left -= len(part)
        self._size += len(part)
        if self._size > BODY_MAX:
            self.too_large = True
            self.drop()
        elif not self._dropped:
            self._parts.append(part)
        if self._size > DISCARDED_MAX:
            self.ended = True

    def _end(self, ended: bool) -> None:
        if ended:
            self.ended = self.complete = True

    def _chunk(self, data: bytes) -> bytes:
        if self._state == "data":
            part = data[: self._left]
            self._keep(part)
            if not self._left:
                self._state = "end"
            return data[len(part) :]
        if data[:2] == b"\r\n":
            self._state = "size"
            return data[2:]
        if data != b"\r":
            raise Refused(400)
        self._rest = data
        return b""

    def _line(self, data: bytes) -> bytes:
        """Read the size of a chunk, or a line after the last one."""
        line, end, data = data.partition(b"\r\n")
        if len(line) > (LINE_MAX if self._state == "size" else HEAD_MAX):
            raise Refused(400)
        if not end:
            if b"\n" in line:
                raise Refused(400)
            self._rest = line
            return b""
        if self._state == "size":
            found = _SIZE.fullmatch(line)
            if found is None:
                raise Refused(400)
            self._left = int(found[1], 16)
            self._state = "data" if self._left else "trailer"
            return data
        self._trailing += len(line) + 2
        if self._trailing > HEAD_MAX or b"\n" in line or b"\r" in line:
            raise Refused(400)
        self._end(not line)
        return data
