"""A protocol of clients between bytes and channels.  Without I/O."""

from __future__ import annotations

from typing import Protocol

from sim.api.streams import ERROR, RESIZE, STDERR, STDIN, STDOUT

# Channels that clients write.
WRITTEN = (STDIN, RESIZE)
NAMES = {"stdin": STDIN, "stdout": STDOUT, "stderr": STDERR, "error": ERROR, "resize": RESIZE}
Put = tuple[int, bytes]


class ProtocolError(Exception):
    """The client's bytes break its protocol: the connection ends."""


class Codec(Protocol):
    """One connection."""

    @property
    def out(self) -> bytearray:
        """Bytes for the client, which the owner takes away."""
        ...

    @property
    def closed(self) -> bool:
        """True once the client has ended the connection in order."""
        ...

    def begin(self) -> list[Put]:
        """What the agent gets at the beginning."""
        ...

    def feed(self, data: bytes) -> list[Put]:
        """Channels with bytes of the client; b"" ends a channel.  Raises ProtocolError."""
        ...

    def send(self, channel: int, data: bytes) -> None:
        """Send bytes to the client; b"" ends a channel."""
        ...

    def end(self) -> None:
        """Nothing more is sent."""
        ...
