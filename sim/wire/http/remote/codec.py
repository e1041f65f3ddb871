"""A protocol of clients between bytes and channels.  Without I/O."""

from __future__ import annotations

from sim.api.streams import ERROR, RESIZE, STDERR, STDIN, STDOUT

# Channels that clients write.
WRITTEN = (STDIN, RESIZE)
NAMES = {"stdin": STDIN, "stdout": STDOUT, "stderr": STDERR, "error": ERROR, "resize": RESIZE}
Put = tuple[int, bytes]


class ProtocolError(Exception):
    """The client's bytes break its protocol: the connection ends."""
