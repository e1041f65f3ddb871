"""Pipes: connections that carry whole messages, over TCP, Unix sockets or WebSocket
(`sim.wire.websocket`).

An address becomes a listener or a connected `Pipe`, and a byte stream the bodies of frames.
Messages leave a process through an `Outbox`, which accepts them without waiting and writes the
pending ones in one piece.

Holds: bodies arrive in order; an outbox reports once when it is full and once when it has room
again; a peer that has stopped answering is detected after 45 s.

Mirrors  golang.org/x/net/http2 health checks as apimachinery sets them (30 s idle, 15 s for an
         answer).
Differs  TCP's keep-alive does the check here. Peers are trusted: a message names its user. Listen
         on Unix sockets, or on addresses that only cluster components reach; other clients use the
         HTTP server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol
from urllib.parse import SplitResult, urlsplit

import trio
from trio import socket

from sim.wire import frames

RECEIVE_BYTES = 1 << 18
KEEP_IDLE_S, KEEP_ANSWER_S = 30, 15  # as apimachinery's HTTP/2 health check: 30 idle + 15 ping
# An outbox is full beyond the one mark until it falls below the other: a few lists of a large
# cluster.
FULL_BYTES, ROOM_BYTES = 32 << 20, 8 << 20
CLOSE_S = 5  # for the last messages on a connection
SCHEMES = ("tcp", "unix", "ws")


class PipeBrokenError(Exception):
    """The connection is lost, and the peer did not close it."""


class Pipe(Protocol):
    """A connection that carries messages."""

    async def send(self, bodies: list[bytes]) -> None:
        """Writes messages; raises PipeBrokenError."""
        ...

    async def receive(self) -> list[bytes]:
        """The next messages, at least one; none once the peer has closed. Raises FrameError,
        PipeBrokenError.
        """
        ...

    async def aclose(self) -> None:
        """Closes the connection."""


class StreamPipe:
    """Frames on a byte stream. longest: bound of received frames."""

    def __init__(self, stream: trio.abc.Stream, longest: int) -> None:
        self._stream = stream
        self._reader = frames.FrameReader(longest)
        self._fault: frames.FrameError | None = None
        if isinstance(stream, trio.SocketStream):
            _keep_alive(stream)

    async def send(self, bodies: list[bytes]) -> None:
        """Writes messages; raises PipeBrokenError."""
        try:
            await self._stream.send_all(b"".join(frames.framed(body) for body in bodies))
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise PipeBrokenError(str(error.__cause__ or error)) from None

    async def receive(self) -> list[bytes]:
        """The next messages; raises FrameError, PipeBrokenError."""
        bodies: list[bytes] = []
        while not bodies:
            if self._fault is not None:
                raise self._fault
            try:
                data = await self._stream.receive_some(RECEIVE_BYTES)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise PipeBrokenError(str(error.__cause__ or error)) from None
            if not data:
                if self._reader.broken_off:
                    raise PipeBrokenError("closed within a frame")
                return []
            try:
                for body in self._reader.feed(data):
                    bodies.append(body)
            except frames.FrameError as fault:
                self._fault = fault  # what came before it counts
        return bodies

    async def aclose(self) -> None:
        """Closes the connection."""
        await self._stream.aclose()


def _keep_alive(stream: trio.SocketStream) -> None:
    if stream.socket.family == socket.AF_UNIX:
        return
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    timing = (
        ("TCP_KEEPIDLE", KEEP_IDLE_S),
        ("TCP_KEEPINTVL", KEEP_ANSWER_S),
        ("TCP_KEEPCNT", 1),
        ("TCP_USER_TIMEOUT", (KEEP_IDLE_S + KEEP_ANSWER_S) * 1000),
    )
    for name, value in timing:
        option = getattr(socket, name, None)  # not every system has them all
        if option is not None:
            stream.setsockopt(socket.IPPROTO_TCP, option, value)


class Outbox:
    """Pending messages from this process."""

    def __init__(self, on_full: Callable[[bool], None] | None = None) -> None:
        self.size = 0
        self.full = False
        self._on_full = on_full
        self._bodies: list[bytes] = []
        self._closing = False
        self._wake = trio.Event()

    def put(self, bodies: Iterable[bytes]) -> None:
        """Adds messages."""
        for body in bodies:
            self._bodies.append(body)
            self.size += len(body)
        if not self.full and self.size > FULL_BYTES:
            self._turn(True)
        self._wake.set()

    def close(self) -> None:
        """Makes `write_to` return once all is written."""
        self._closing = True
        self._wake.set()

    def _turn(self, full: bool) -> None:
        self.full = full
        if self._on_full is not None:
            self._on_full(full)

    async def write_to(self, pipe: Pipe) -> None:
        """Writes messages until the outbox is closed; raises PipeBrokenError."""
        while True:
            while self._bodies:
                bodies, self._bodies = self._bodies, []
                await pipe.send(bodies)
                self.size -= sum(map(len, bodies))
                if self.full and self.size < ROOM_BYTES:
                    self._turn(False)
            if self._closing:
                return
            self._wake = trio.Event()
            await self._wake.wait()


# --- addresses ------------------------------------------------------------------------------------


def parse_address(url: str) -> SplitResult:
    """tcp://host:port, unix:///path or ws://host:port/path.  ValueError for anything else."""
    parts = urlsplit(url)
    known = parts.scheme in SCHEMES
    if not known or not (parts.path if parts.scheme == "unix" else parts.hostname and parts.port is not None):
        raise ValueError(f"not an address: {url!r} (tcp://host:port, unix:///path, ws://host:port/path)")
    return parts


async def dial_stream(url: str) -> trio.SocketStream:
    """Connects; raises OSError if there is no listener."""
    parts = parse_address(url)
    if parts.scheme == "unix":
        return await trio.open_unix_socket(parts.path)
    assert parts.hostname is not None and parts.port is not None
    return await trio.open_tcp_stream(parts.hostname, parts.port)


async def listen(url: str) -> list[trio.SocketListener]:
    """Listens at an address (port 0: any); raises OSError if it is in use."""
    parts = parse_address(url)
    if parts.scheme != "unix":
        assert parts.hostname is not None and parts.port is not None
        return list(await trio.open_tcp_listeners(parts.port, host=parts.hostname))
    await _remove_abandoned(trio.Path(parts.path))
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        await sock.bind(parts.path)
        sock.listen(1024)
    except OSError:
        sock.close()
        raise
    return [trio.SocketListener(sock)]


async def _remove_abandoned(path: trio.Path) -> None:
    """Removes the socket file of a server that no longer answers."""
    if not await path.is_socket():
        return
    try:
        stream = await trio.open_unix_socket(str(path))
    except ConnectionRefusedError:
        await path.unlink(missing_ok=True)
    else:
        await stream.aclose()


def address_of(listener: trio.SocketListener, scheme: str = "tcp") -> str:
    """The address under which a listener is reached."""
    name = listener.socket.getsockname()
    if isinstance(name, str):
        return f"unix://{name}"
    host = f"[{name[0]}]" if ":" in name[0] else name[0]
    return f"{scheme}://{host}:{name[1]}"
