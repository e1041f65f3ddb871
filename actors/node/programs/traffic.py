"""What has passed an interface of the simulated network.

Turns messages between programs into counts of bytes and packets.

Holds: what programs of one pod say to each other passes no interface.

Mirrors  Linux net/core/dev.c: the statistics of an interface.
Differs  bytes are those of programs, without headers; packets are full ones.
"""

from __future__ import annotations

SEGMENT = 1448  # bytes of programs in a packet of 1500


class Traffic:
    """The counts of one interface.  host: those of the interface of its host; None for that itself"""

    __slots__ = ("host", "packets_received", "packets_sent", "received", "sent")

    def __init__(self, host: Traffic | None = None) -> None:
        self.host = host
        self.received = self.sent = self.packets_received = self.packets_sent = 0

    def pass_to(self, other: Traffic, size: int) -> None:
        """So many bytes go from here to another interface."""
        packets = max(1, -(-size // SEGMENT))
        here: Traffic | None = self
        there: Traffic | None = other
        for _ in range(2):
            if here is not None:
                here.sent += size
                here.packets_sent += packets
            if there is not None:
                there.received += size
                there.packets_received += packets
            here, there = self.host, other.host
            if here is there:
                return


QUIET = Traffic()
