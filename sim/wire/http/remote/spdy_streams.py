"""The streams of a SPDY connection as channels: of a command, or of ports.

A command has a stream for each channel, named by the header `streamtype`. A connection to a port
has two, of data and of errors, which have the header `requestid` in common.

Holds: bytes for a channel that the client has not begun are kept until it has.

Mirrors  kubernetes v1.25 pkg/kubelet/cri/streaming/remotecommand/httpstream.go,
         portforward/httpstream.go.
Differs  a program starts before the client has begun its streams.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping

from sim.api.streams import ERROR, RESIZE, STDERR, STDIN, STDOUT
from sim.wire.http.remote.codec import ProtocolError, Put
from sim.wire.spdy.session import Begun, Came, Session, SpdyError

STREAM_TYPE, PORT, REQUEST = "streamtype", "port", "requestid"
PIECE_BYTES = 32 << 10
TYPES = {"error": ERROR, "stdin": STDIN, "stdout": STDOUT, "stderr": STDERR, "resize": RESIZE}


class SpdyStreams(ABC):
    """Streams and channels of one connection.  closed: never True; a client closes its socket"""

    closed = False
    finished = False  # further streams may come

    def __init__(self) -> None:
        self._session = Session()
        self._channels: dict[int, int] = {}  # stream -> channel
        self._streams: dict[int, int] = {}

    @property
    def out(self) -> bytearray:
        """Bytes for the client, which the owner takes away."""
        return self._session.out

    def begin(self) -> list[Put]:
        """What the agent gets at the beginning."""
        return []

    def feed(self, data: bytes) -> list[Put]:
        """Channels with bytes of the client; b"" ends a channel.  Raises ProtocolError."""
        puts: list[Put] = []
        try:
            for event in self._session.feed(data):
                puts += self._begun(event) if isinstance(event, Begun) else self._came(event)
        except SpdyError as error:
            raise ProtocolError(str(error)) from None
        return puts

    def _join(self, stream: int, channel: int) -> None:
        self._channels[stream], self._streams[channel] = channel, stream

    @abstractmethod
    def _begun(self, event: Begun) -> list[Put]:
        """What the beginning of a stream puts into channels."""

    def _came(self, event: Came) -> list[Put]:
        channel = self._channels.get(event.stream)
        return [] if channel is None else [(channel, event.data)]

    def send(self, channel: int, data: bytes) -> None:
        """Send bytes to the client; b"" ends a channel."""
        stream = self._streams.get(channel)
        if stream is None:
            return
        for begin in range(0, len(data), PIECE_BYTES):
            self._session.send(stream, data[begin : begin + PIECE_BYTES])
        if not data:
            self._session.send(stream, b"", ended=True)

    def end(self) -> None:
        """Nothing more is sent."""
        self._session.end()


class CommandStreams(SpdyStreams):
    """The streams of a command.  wanted: the channels that the client asks for"""

    def __init__(self, wanted: Collection[int]) -> None:
        super().__init__()
        self._wanted = wanted
        self._kept: list[Put] | None = []

    def _begun(self, event: Begun) -> list[Put]:
        channel = TYPES.get(event.headers.get(STREAM_TYPE, ""))
        if channel is None or channel in self._streams:
            self._session.reset(event.stream)
            return []
        self._join(event.stream, channel)
        if self._kept is not None and self.complete:
            kept, self._kept = self._kept, None
            for each, data in kept:
                super().send(each, data)
        return []

    @property
    def complete(self) -> bool:
        """True once the client has begun all streams."""
        return all(channel in self._streams for channel in self._wanted)

    def send(self, channel: int, data: bytes) -> None:
        """Send bytes to the client; b"" ends a channel."""
        if self._kept is not None:
            self._kept.append((channel, data))
        else:
            super().send(channel, data)


class PortStreams(SpdyStreams):
    """The streams of ports: each connection has the channels 2n (data) and 2n + 1 (errors)."""

    def __init__(self) -> None:
        super().__init__()
        self._pairs: dict[str, tuple[int, dict[str, int]]] = {}
        self._numbers = 0

    def _begun(self, event: Begun) -> list[Put]:
        headers: Mapping[str, str] = event.headers
        kind, port = headers.get(STREAM_TYPE, ""), headers.get(PORT, "")
        if kind not in ("data", "error") or not (
            port.isascii() and port.isdecimal() and 0 < int(port) < 65536
        ):
            self._session.reset(event.stream)
            return []
        request = headers.get(REQUEST) or str(event.stream - 2 if kind == "data" else event.stream)
        if request not in self._pairs:
            self._pairs[request] = self._numbers, {}
            self._numbers += 1
        number, streams = self._pairs[request]
        if kind in streams:
            self._session.reset(event.stream)
            return []
        streams[kind] = event.stream
        self._join(event.stream, 2 * number + (kind == "error"))
        if len(streams) < 2:
            return []
        del self._pairs[request]
        return [(2 * number + 1, port.encode())]

    def _came(self, event: Came) -> list[Put]:
        # The client ends its side of the error's stream at once, which says nothing.
        return [(channel, data) for channel, data in super()._came(event) if channel % 2 == 0]
