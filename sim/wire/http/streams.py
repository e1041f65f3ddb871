"""Streams to containers across the gate: the client's end of what agents of nodes serve.

Bytes of a client become operations of the journal, and bytes of a stream wait for the client's
connection, which takes them in real time.

Holds: what affects the simulation is in the journal: bytes of the client, how many it has taken,
and that it has gone; a replay, which has no client, does the same; of one stream at most a window
of bytes waits for its client.

Mirrors  nothing upstream.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio

from sim.api.streams import WINDOW, Stream
from sim.api.types import Reply
from sim.kernel import Kernel

TOOK_BYTES = WINDOW // 4  # taken by the client before the simulation is informed


class OutsideStream:
    """The client's end of one stream.  request: what it was opened for"""

    def __init__(self, streams: Streams, ident: int, stream: Stream, *, has_client: bool) -> None:
        """has_client: False in a replay"""
        self._streams, self._ident, self._stream = streams, ident, stream
        self._has_client = has_client
        self.request = stream.request
        self._came: list[tuple[int, bytes]] = []
        self._taken = 0
        self._more = trio.Event()
        self._ended = self._stopped = False

    # --- inside the simulation --------------------------------------------------------------------

    def drain(self) -> None:
        """Take what has come."""
        came = self._stream.take()
        if self._has_client:
            self._came += came
        if self._stream.ended:
            self._ended = True
            self._streams.forget(self._ident)
        if came or self._ended:
            self._more.set()

    # --- outside ----------------------------------------------------------------------------------

    async def take(self) -> list[tuple[int, bytes]]:
        """What has come, once there is anything; empty at the end."""
        if self._taken >= TOOK_BYTES and not self._ended:
            self._streams.post("stream-took", [self._ident, self._taken])
            self._taken = 0
        while not self._came and not self._ended and not self._stopped:
            self._more = trio.Event()
            await self._more.wait()
        came, self._came = self._came, []
        self._taken += sum(len(data) for _, data in came)
        return came

    async def put(self, channel: int, data: bytes) -> None:
        """Send bytes; returns once there is room for more.  b"" ends the channel"""
        if not self._ended and not self._stopped:
            await self._streams.kernel.gate.submit("stream-put", [self._ident, channel, data])

    def stop(self) -> None:
        """The client has gone, or needs nothing more."""
        if not self._stopped and not self._ended:
            self._streams.post("stream-stop", self._ident)
        self._stopped = True
        self._came.clear()
        self._more.set()


class Streams:
    """All open streams of a gateway."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._open: dict[int, Stream] = {}
        self._opened = 0
        kernel.gate.handle("stream-put", self._put)
        kernel.gate.handle("stream-took", self._took)
        kernel.gate.handle("stream-stop", self._stop)

    def post(self, name: str, payload: Any) -> None:
        """Hand in an operation."""
        self.kernel.gate.post(name, payload, lambda _: None)

    def forget(self, ident: int) -> None:
        """A stream has ended."""
        self._open.pop(ident, None)

    def leave(self) -> None:
        """End all: their clients were those of an earlier server."""
        for ident in list(self._open):
            self.post("stream-stop", ident)

    # --- inside the simulation --------------------------------------------------------------------

    def open(self, reply: Reply, done: Callable[[tuple[Reply, None]], None], *, has_client: bool) -> None:
        """Open the stream of a reply, and then pass the reply on, with the client's end of it; or a
        refusal.
        """
        stream: Stream = reply.stream
        self._opened = ident = self._opened + 1

        def opened(answer: Reply) -> None:
            if not answer.ok:
                done((answer, None))
                return
            self._open[ident] = stream
            reply.stream = outside = OutsideStream(self, ident, stream, has_client=has_client)
            done((reply, None))
            stream.attach(outside.drain)

        stream.open(opened)

    def _put(self, payload: list[Any], done: Callable[[Any], None]) -> None:
        ident, channel, data = payload
        stream = self._open.get(ident)
        if stream is None:
            done(None)
        else:
            stream.put(channel, data, lambda: done(None))

    def _took(self, payload: list[int], done: Callable[[Any], None]) -> None:
        stream = self._open.get(payload[0])
        if stream is not None:
            stream.took(payload[1])
        done(None)

    def _stop(self, ident: int, done: Callable[[Any], None]) -> None:
        stream = self._open.pop(ident, None)
        if stream is not None:
            stream.stop()
        done(None)


def stop_opened(result: tuple[Reply, Any]) -> None:
    """End the watch or the stream that a reply has opened, since its client has left."""
    for opened in (result[1], result[0].stream):
        if opened is not None:
            opened.stop()
