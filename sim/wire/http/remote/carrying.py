"""Bytes of a client's connection to channels of a stream, and back, until one side ends.

Holds: what the client sends waits in its socket while the agent has no room for it; the stream ends
with the connection; a client of SPDY that does not begin its streams is left after `BEGIN_S`.

Mirrors  kubernetes v1.25 pkg/kubelet/cri/streaming/remotecommand/httpstream.go
         (streamCreationTimeout).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec
import trio

from sim.api.streams import ERROR
from sim.wire.http.remote.agreement import Agreed
from sim.wire.http.remote.codec import ProtocolError
from sim.wire.http.remote.spdy_streams import CommandStreams
from sim.wire.http.streams import OutsideStream
from sim.wire.patience import within

BEGIN_S = 30.0  # DefaultStreamCreationTimeout


class Carrying:
    """One connection."""

    def __init__(
        self, stream: OutsideStream, agreed: Agreed, early: Sequence[tuple[int, bytes]] = ()
    ) -> None:
        """early: messages of the stream that were taken already"""
        self._early = early
        self._stream, self._agreed, self._codec = stream, agreed, agreed.codec

    async def carry(
        self, from_client: Callable[[], Awaitable[bytes]], to_client: Callable[[bytes], Awaitable[None]]
    ) -> None:
        """Carry until one side ends.  from_client: b"" at the end"""
        codec, stream = self._codec, self._stream
        lock, begun = trio.Lock(), trio.Event()

        def look() -> None:
            if not isinstance(codec, CommandStreams) or codec.complete:
                begun.set()

        async def flush() -> None:
            async with lock:
                while codec.out:
                    data = bytes(codec.out)
                    codec.out.clear()
                    await to_client(data)

        async def up(scope: trio.CancelScope) -> None:
            while data := await from_client():
                try:
                    puts = codec.feed(data)
                except ProtocolError:
                    break
                look()
                await flush()
                for channel, piece in puts:
                    await stream.put(channel, piece)
                if codec.closed:
                    break
            await flush()
            scope.cancel()

        try:
            puts = codec.begin()
            await flush()
            look()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(up, nursery.cancel_scope)
                for channel, data in puts:
                    await stream.put(channel, data)
                nursery.start_soon(_limit, begun, nursery.cancel_scope)
                came = list(self._early)
                while came or (came := await stream.take()):
                    for channel, data in came:
                        codec.send(channel, self._shown(channel, data))
                    await flush()
                    if codec.finished:
                        break
                    came = []
                await begun.wait()  # a short command ends before its client has begun
                codec.end()
                await flush()
                nursery.cancel_scope.cancel()
        finally:
            stream.stop()

    def _shown(self, channel: int, data: bytes) -> bytes:
        """The bytes of a channel; old protocols show an error as text, and nothing for success."""
        if channel != ERROR or not self._agreed.plain:
            return data
        status = msgspec.json.decode(data)
        return str(status.get("message", "")).encode() if status["status"] == "Failure" else b""


async def _limit(begun: trio.Event, scope: trio.CancelScope) -> None:
    """End the connection of a client that does not begin its streams."""
    with within(BEGIN_S):
        await begun.wait()
    if not begun.is_set():
        scope.cancel()
