"""A SPDY connection within the messages of a WebSocket.

Mirrors  kubernetes v1.30 client-go tools/portforward/tunneling_connection.go; apiserver
         pkg/util/proxy/stream_tunnel.go.
"""

from __future__ import annotations

from sim.wire.http.remote.codec import Codec, Put
from sim.wire.http.remote.websocket_channels import Messages


class Tunnel:
    """The WebSocket around another codec."""

    def __init__(self, inner: Codec) -> None:
        self._inner = inner
        self._messages = Messages()

    @property
    def out(self) -> bytearray:
        """See `Codec`."""
        if self._inner.out:
            self._messages.write(bytes(self._inner.out))
            self._inner.out.clear()
        return self._messages.out

    @property
    def closed(self) -> bool:
        """See `Codec`."""
        return self._messages.closed

    def begin(self) -> list[Put]:
        """See `Codec`."""
        return self._inner.begin()

    def feed(self, data: bytes) -> list[Put]:
        """See `Codec`."""
        return [put for piece, _ in self._messages.pieces(data) for put in self._inner.feed(piece)]

    def send(self, channel: int, data: bytes) -> None:
        """See `Codec`."""
        self._inner.send(channel, data)

    def end(self) -> None:
        """See `Codec`."""
        self._inner.end()
        assert self.out is not None  # what was left is in the messages now
        self._messages.close()
