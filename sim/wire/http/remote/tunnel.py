"""A SPDY connection within the messages of a WebSocket.

Mirrors  kubernetes v1.30 client-go tools/portforward/tunneling_connection.go; apiserver
         pkg/util/proxy/stream_tunnel.go.
"""

from __future__ import annotations

from sim.wire.http.remote.codec import Put
from sim.wire.http.remote.spdy_streams import SpdyStreams
from sim.wire.http.remote.websocket_channels import Messages


class Tunnel:
    """The WebSocket around a SPDY connection."""

    finished = False  # further streams may come

    def __init__(self, inner: SpdyStreams) -> None:
        self._inner = inner
        self._messages = Messages()

    @property
    def out(self) -> bytearray:
        """Bytes for the client, which the owner takes away."""
        if self._inner.out:
            self._messages.write(bytes(self._inner.out))
            self._inner.out.clear()
        return self._messages.out

    @property
    def closed(self) -> bool:
        """True once the client has ended the connection in order."""
        return self._messages.closed

    def begin(self) -> list[Put]:
        """What the agent gets at the beginning."""
        return self._inner.begin()

    def feed(self, data: bytes) -> list[Put]:
        """Channels with bytes of the client; b"" ends a channel.  Raises ProtocolError."""
        return [put for piece, _ in self._messages.pieces(data) for put in self._inner.feed(piece)]

    def send(self, channel: int, data: bytes) -> None:
        """Send bytes to the client; b"" ends a channel."""
        self._inner.send(channel, data)

    def end(self) -> None:
        """Nothing more is sent."""
        self._inner.end()
        assert self.out is not None  # what was left is in the messages now
        self._messages.close()
