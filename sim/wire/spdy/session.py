"""The server's side of one SPDY/3.1 connection: streams that a client begins.

Bytes of the client become events, and what the server sends becomes bytes in `out`.

Holds: a client has at most `STREAMS_MAX` streams at once; one more is reset, as is one with a
number that is not higher than those before; data for a stream that is not there are dropped.

Mirrors  moby/spdystream connection.go (Serve, validateStreamId, handlePingFrame, handleDataFrame).
Differs  as upstream's library, it has no flow control: WINDOW_UPDATE is ignored, and none is sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import assert_never

from sim.dataclass import dataclass
from sim.wire.spdy.frames import Kind, Reader, Reset, SpdyError, Writer

STREAMS_MAX = 512  # five for a command; two for each connection of a port


@dataclass(frozen=True, slots=True)
class Begun:
    """A client has begun a stream."""

    stream: int
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Came:
    """Bytes of a client; b"" and `ended`: it sends nothing more in this stream."""

    stream: int
    data: bytes
    ended: bool = False


Event = Begun | Came


class Session:
    """One connection.

    out: bytes for the client
    leaving: True once the client begins no further stream
    """

    def __init__(self) -> None:
        self.out = bytearray()
        self.leaving = False
        self._reader, self._writer = Reader(), Writer()
        self._sends: dict[int, bool] = {}  # stream -> the server has not ended it
        self._receives: set[int] = set()
        self._last = 0

    def feed(self, data: bytes) -> Iterator[Event]:
        """What has happened.  Raises SpdyError."""
        for frame in self._reader.feed(data):
            match frame.kind:
                case Kind.SYN_STREAM:
                    if self._accept(frame.stream):
                        yield Begun(frame.stream, frame.headers or {})
                        if frame.fin:
                            yield from self._finish(frame.stream)
                case Kind.DATA:
                    if frame.stream in self._receives and frame.data:
                        yield Came(frame.stream, frame.data)
                    if frame.fin:
                        yield from self._finish(frame.stream)
                case Kind.RST_STREAM:
                    self._sends.pop(frame.stream, None)
                    yield from self._finish(frame.stream)
                case Kind.PING:
                    if frame.stream % 2:
                        self.out += self._writer.ping(frame.stream)
                case Kind.GOAWAY:
                    self.leaving = True
                case Kind.SYN_REPLY | Kind.SETTINGS | Kind.HEADERS | Kind.WINDOW_UPDATE:
                    pass
                case _:
                    assert_never(frame.kind)

    def send(self, stream: int, data: bytes, *, ended: bool = False) -> None:
        """Send bytes in a stream.  ended: nothing follows"""
        if not self._sends.get(stream):
            return
        self.out += self._writer.data(stream, data, fin=ended)
        if ended:
            self._sends[stream] = False
            self._drop(stream)

    def reset(self, stream: int) -> None:
        """End a stream that is not wanted."""
        self._sends.pop(stream, None)
        self._receives.discard(stream)
        self.out += self._writer.reset(stream, Reset.REFUSED_STREAM)

    def end(self) -> None:
        """Send nothing more."""
        for stream in sorted(stream for stream, sends in self._sends.items() if sends):
            self.send(stream, b"", ended=True)
        self.out += self._writer.goaway(self._last)

    def _accept(self, stream: int) -> bool:
        if stream % 2 == 0 or stream <= self._last or self.leaving:
            self.out += self._writer.reset(stream, Reset.PROTOCOL_ERROR)
            return False
        self._last = stream
        if len(self._sends) >= STREAMS_MAX:
            self.out += self._writer.reset(stream, Reset.REFUSED_STREAM)
            return False
        self._sends[stream] = True
        self._receives.add(stream)
        self.out += self._writer.reply(stream)
        return True

    def _finish(self, stream: int) -> Iterator[Event]:
        if stream in self._receives:
            self._receives.remove(stream)
            self._drop(stream)
            yield Came(stream, b"", ended=True)

    def _drop(self, stream: int) -> None:
        """Forget a stream that both sides have ended."""
        if stream not in self._receives and not self._sends.get(stream):
            self._sends.pop(stream, None)


__all__ = ["STREAMS_MAX", "Begun", "Came", "Event", "Session", "SpdyError"]
