"""The agent's end of one stream: bytes in channels to the client, and room for them.

Holds: at most `WINDOW` bytes are under way that the client has not taken; the status at the end is
sent in any case; after the end nothing is sent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from actors.node.programs.ends import End
from actors.node.programs.waits import Source
from sim.api.streams import WINDOW


class Refused(Exception):
    """The agent opens no stream.  code: of HTTP"""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Peer:
    """The client of a session, as the session sees it.

    room: ready while bytes may be sent
    idle_us: how long no byte has passed, about; idle_max_us: how long that may be, 0 for ever
    ended: True once nothing is sent any more
    """

    __slots__ = ("_send", "_under_way", "ended", "idle_max_us", "idle_us", "room")

    def __init__(self, send: Callable[[Any], None], idle_max_us: int = 0) -> None:
        """send: takes messages to the API server"""
        self.idle_max_us = idle_max_us
        self._send = send
        self._under_way = 0
        self.room = Source(ready=True)
        self.ended = False
        self.idle_us = 0

    @property
    def free(self) -> int:
        """How many bytes there is room for."""
        return max(0, WINDOW - self._under_way)

    def send(self, channel: int, data: bytes) -> int:
        """Send bytes; returns how many were taken."""
        if self.ended:
            return len(data)  # as into a terminal that has been closed
        return self._sent(channel, data[: self.free])

    def send_line(self, channel: int, data: bytes) -> None:
        """Send bytes that belong together, also beyond the room."""
        if not self.ended:
            self._sent(channel, data)

    def _sent(self, channel: int, data: bytes) -> int:
        if data:
            self.idle_us = 0
            self._under_way += len(data)
            self._send((channel, data))
            if not self.free:
                self.room.clear()
        return len(data)

    def acknowledge(self, size: int) -> None:
        """The session has taken so many bytes of the client."""
        self.idle_us = 0
        if not self.ended:
            self._send(("took", size))

    def took(self, size: int) -> None:
        """The client has taken so many bytes."""
        self._under_way -= size
        if self.free:
            self.room.set()

    def close(self, channel: int) -> None:
        """End a channel."""
        if not self.ended:
            self._send((channel, b""))

    def end(self, channel: int = -1, last: bytes = b"") -> None:
        """End the stream.  last: sent before, without regard to room"""
        if self.ended:
            return
        if last:
            self._send((channel, last))
        self._send(("end", 0))
        self.ended = True
        self.room.set()


class ChannelEnd(End):
    """A descriptor of a process that leads to a channel of a client.

    closed: called when the last process has closed it
    """

    __slots__ = ("_channel", "_closed", "_peer")

    def __init__(self, peer: Peer, channel: int, closed: Callable[[], None]) -> None:
        super().__init__(writable=peer.room)
        self._peer, self._channel, self._closed = peer, channel, closed

    def write(self, data: bytes) -> int:
        """Send what there is room for."""
        return self._peer.send(self._channel, data)

    def ended(self) -> None:
        """No process writes to it any more."""
        self._closed()


class Session(ABC):
    """One open stream."""

    @abstractmethod
    def put(self, channel: int, data: bytes) -> None:
        """The client has sent bytes, b"" for the end of a channel; all are to be acknowledged."""

    @abstractmethod
    def poll(self) -> None:
        """Look if anything has changed that nothing else reports."""

    @abstractmethod
    def stop(self) -> None:
        """The client has gone."""
