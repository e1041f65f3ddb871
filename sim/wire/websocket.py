"""Pipes over WebSocket: a message is one binary WebSocket message.

The opening handshake, on either side, makes a `Pipe` from a byte stream. The library reads in a
task of its own, in the given nursery: an exception about a malformed opening leaves that nursery.

Holds: a message longer than its direction allows closes the connection with code 1009, text with
1003.
"""

from __future__ import annotations

from contextlib import suppress

import trio
import trio_websocket
from trio_websocket import ConnectionClosed, HandshakeError, WebSocketConnection

from sim.wire import frames
from sim.wire.patience import Deadline, within
from sim.wire.sockets import CLOSE_S, Pipe, PipeBrokenError, StreamPipe, dial_stream, parse_address

REFUSAL = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
HANDSHAKE_S = 10
QUEUED_MESSAGES = 64  # received and not yet taken; then the peer's writes wait
NORMAL_CLOSURE, GOING_AWAY, UNSUPPORTED_DATA = 1000, 1001, 1003


class WebSocketPipe:
    """Messages on an open WebSocket."""

    def __init__(self, connection: WebSocketConnection, stream: trio.SocketStream) -> None:
        self._connection = connection
        self._stream = stream

    async def send(self, bodies: list[bytes]) -> None:
        """Writes messages; raises PipeBrokenError."""
        try:
            for body in bodies:
                await self._connection.send_message(body)
        except ConnectionClosed as closed:
            raise PipeBrokenError(str(closed.reason)) from None

    async def receive(self) -> list[bytes]:
        """The next messages; raises FrameError, PipeBrokenError."""
        try:
            message = await self._connection.get_message()
        except ConnectionClosed as closed:
            if closed.reason is not None and closed.reason.code in (NORMAL_CLOSURE, GOING_AWAY):
                return []
            raise PipeBrokenError(str(closed.reason)) from None
        if isinstance(message, str):
            await self._connection.aclose(UNSUPPORTED_DATA, "messages are binary")
            raise frames.FrameError("a text message, where messages are binary")
        return [message]

    async def aclose(self) -> None:
        """Closes the connection."""
        try:
            with within(CLOSE_S):  # the other side may never answer
                await self._connection.aclose()
        finally:
            await trio.aclose_forcefully(self._stream)


async def accept(nursery: trio.Nursery, stream: trio.SocketStream) -> WebSocketPipe:
    """The server's side of the handshake; raises PipeBrokenError if it fails."""
    try:
        with Deadline(HANDSHAKE_S) as handshake, handshake.bounded():
            request = await trio_websocket.wrap_server_stream(
                nursery, stream, message_queue_size=QUEUED_MESSAGES, max_message_size=frames.ASK_MAX
            )
            return WebSocketPipe(await request.accept(), stream)
    except (HandshakeError, ConnectionClosed, trio.TooSlowError) as error:
        raise PipeBrokenError(f"no WebSocket handshake: {error}") from None


async def refuse(stream: trio.SocketStream) -> None:
    """Answers a malformed opening, if its client reads the answer."""
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError), within(CLOSE_S):
        await stream.send_all(REFUSAL)


async def dial(nursery: trio.Nursery, url: str) -> Pipe:
    """Connects to an address of any kind; raises OSError without a listener of this protocol."""
    stream = await dial_stream(url)
    parts = parse_address(url)
    if parts.scheme != "ws":
        return StreamPipe(stream, frames.FROM_SERVER_MAX)
    try:
        with Deadline(HANDSHAKE_S) as handshake, handshake.bounded():
            connection = await trio_websocket.wrap_client_stream(
                nursery,
                stream,
                parts.netloc,
                parts.path or "/",
                message_queue_size=QUEUED_MESSAGES,
                max_message_size=frames.FROM_SERVER_MAX,
            )
            return WebSocketPipe(connection, stream)
    except (HandshakeError, ConnectionClosed, trio.TooSlowError) as error:
        await trio.aclose_forcefully(stream)
        raise ConnectionRefusedError(f"no WebSocket handshake: {error}") from None
    except trio.Cancelled:
        await trio.aclose_forcefully(stream)
        raise
