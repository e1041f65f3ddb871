"""Bytes of a client that wait for room in what a program reads.

Holds: each byte is acknowledged once, when it is taken or lost.

Mirrors  golang io.Copy from a stream of a client.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from actors.node.programs.ends import BrokenPipe, End

TYPED_MAX = 65536  # bytes of a terminal that no process has read


class Input:
    """What a client writes to a pipe or a connection, as far as there is no room in it."""

    def __init__(self, acknowledge: Callable[[int], None], end: End, *, closes: bool = True) -> None:
        """acknowledge: called with the number of bytes that are taken, or lost

        closes: True if the input ends with this client
        """
        self._acknowledge, self._end, self._closes = acknowledge, end, closes
        self._held: deque[bytes] = deque()
        self._waits = self.closed = False

    def put(self, data: bytes) -> None:
        """Bytes of the client; b"": the end."""
        if not self.closed:
            self._held.append(data)
            self._push()
        else:
            self._acknowledge(len(data))

    @property
    def size(self) -> int:
        """How many bytes wait for room."""
        return sum(map(len, self._held))

    def type(self, line: bytes) -> None:
        """A line of a terminal, which loses it if too much waits; b"": the end."""
        if self.size + len(line) <= TYPED_MAX:
            self.put(line)

    def close(self) -> None:
        """No process reads any more."""
        if not self.closed:
            self.closed = True
            self._end.writable.unwatch(self._push)
            if self._closes and self._end.users:
                self._end.close()
        self._acknowledge(self.size)
        self._held.clear()

    def _push(self) -> None:
        self._waits = False
        while self._held and not self.closed:
            data = self._held[0]
            if not data:
                self.close()
                return
            try:
                taken = self._end.write(data)
            except BrokenPipe:
                self.close()
                return
            self._acknowledge(taken)
            if taken == len(data):
                self._held.popleft()
                continue
            self._held[0] = data[taken:]
            if not self._waits:
                self._waits = True
                self._end.writable.watch(self._push)
            return
