"""Serves an API server to clients on sockets.

Messages of connected peers become operations at the kernel's gate, these become requests to an
`Endpoint`, and its replies and watch events become messages. All effects of a connection on the
simulation (its opening, requests, slowness, end) are in the journal, so a replay without any socket
gives the same run.

Holds: a watch on a connection that does not accept messages is not read, so the watch cache ends it
like any slow one; a connection with CALLS_MAX open requests is not read; a peer that sends a
malformed message gets a fault and is disconnected; an exception ends its connection with a line in
the log and affects no other peer; the watches of a connection end with it.

Mirrors  the server's side of HTTP/2 in kubernetes v1.25: one connection, many streams, each with
         its own end.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import inf
from typing import Any

import trio

from sim.api.types import Endpoint, Reply, Watch
from sim.kernel import Kernel
from sim.wire import frames, websocket
from sim.wire.accepting import accept_connections, guarded
from sim.wire.patience import Limit
from sim.wire.sockets import CLOSE_S, Outbox, Pipe, PipeBrokenError, StreamPipe

CALLS_MAX = 10_000  # unanswered requests of one connection: that of a thousand busy node agents

# What an operation at the gate says of its connection.
OPENED, MESSAGE, FULL, ROOM, GONE = "opened", "message", "full", "room", "gone"


class SocketServer:
    """Serves one endpoint. One per endpoint and kernel; it outlives the endpoint's incarnations."""

    def __init__(self, kernel: Kernel, endpoint: Endpoint) -> None:
        self.kernel = kernel
        self.endpoint = endpoint
        self.peers: dict[int, Peer] = {}
        self._accepted = 0
        self._sessions: dict[int, _Session] = {}
        self._operation = f"socket/{endpoint.name}"
        self._kind = kernel.kind("connection", "server", "peer", "what", "reason")
        kernel.gate.handle(self._operation, self._enter)

    # --- outside ----------------------------------------------------------------------------------

    async def serve(self, listeners: list[trio.SocketListener], *, websockets: bool = False) -> None:
        """Serve connections until cancelled."""
        serve = self._serve_websocket if websockets else self._serve_stream
        async with trio.open_nursery() as nursery:

            def take(stream: trio.SocketStream) -> None:
                nursery.start_soon(self._serve_guarded, serve, stream)

            try:
                for listener in listeners:
                    nursery.start_soon(accept_connections, listener, take)
                await trio.sleep_forever()
            finally:
                for listener in listeners:
                    listener.socket.close()

    async def _serve_guarded(
        self, serve: Callable[[trio.SocketStream], Awaitable[None]], stream: trio.SocketStream
    ) -> None:
        """Serve one connection; its exceptions end it and no other."""
        try:
            with guarded(f"a peer of {self.endpoint.name}"):
                await serve(stream)
        finally:
            stream.socket.close()

    async def _serve_stream(self, stream: trio.SocketStream) -> None:
        await self.serve_pipe(StreamPipe(stream, frames.ASK_MAX))

    async def _serve_websocket(self, stream: trio.SocketStream) -> None:
        accepted = False
        try:
            async with trio.open_nursery() as nursery:
                try:
                    pipe = await websocket.accept(nursery, stream)
                except PipeBrokenError:
                    nursery.cancel_scope.cancel()
                else:
                    accepted = True
                    await self.serve_pipe(pipe)
        except* Exception:
            if not accepted:
                await websocket.refuse(stream)
            raise

    async def serve_pipe(self, pipe: Pipe) -> None:
        """Serve one connection until it ends."""
        self._accepted += 1
        peer = self.peers[self._accepted] = Peer(self, self._accepted)
        peer.post(OPENED)
        try:
            await peer.run(pipe)
        finally:
            del self.peers[peer.number]
            peer.post(GONE, peer.reason.encode())
            await pipe.aclose()

    def post(self, number: int, what: str, data: bytes) -> None:
        """Passes an operation to the gate."""
        self.kernel.gate.post(self._operation, [number, what, data], _nothing)

    # --- in the simulation ------------------------------------------------------------------------

    def _enter(self, payload: Any, done: Callable[[Any], None]) -> None:
        number, what, data = payload
        done(None)
        if what == OPENED:
            self._sessions[number] = _Session(self, number)
            self.record(number, OPENED, "")
            return
        session = self._sessions.get(number)
        if session is None:
            return  # cut off before
        if what == MESSAGE:
            session.take(data)
        elif what == GONE:
            self.end(number, data.decode())
        else:
            session.set_full(what == FULL)

    def end(self, number: int, reason: str) -> None:
        """Ends a session."""
        self.record(number, GONE, reason)
        self._sessions.pop(number).end()

    def record(self, number: int, what: str, reason: str) -> None:
        """Writes a trace record about a connection."""
        self.kernel.record(self._kind, (self.endpoint.name, number, what, reason))


def _nothing(_: object) -> None:
    """The result of the operation is not needed: replies are separate messages."""


class Peer:
    """The outside part of a connection: its outbox, and the reason of its end."""

    def __init__(self, server: SocketServer, number: int) -> None:
        self.number = number
        self.reason = ""
        self.asked = self.answered = 0
        self.outbox = Outbox(self._on_full)
        self._server = server
        self._room = trio.Event()

    def post(self, what: str, data: bytes = b"") -> None:
        """Passes an operation of this connection to the gate."""
        self._server.post(self.number, what, data)

    def _on_full(self, full: bool) -> None:
        self.post(FULL if full else ROOM)
        self._room.set()

    def put(self, bodies: list[bytes]) -> None:
        """Sends messages."""
        self.outbox.put(bodies)

    def answer(self, bodies: list[bytes]) -> None:
        """Sends the answer to a call."""
        self.answered += 1
        self._room.set()
        self.outbox.put(bodies)

    def fail(self, reason: str) -> None:
        """Sends the reason and closes the connection."""
        self.reason = reason
        self.outbox.put([frames.fault(reason)])
        self.outbox.close()

    async def run(self, pipe: Pipe) -> None:
        """Reads and writes until the connection ends."""
        closing: Limit | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._write, pipe, nursery.cancel_scope)
            if await self._read(pipe):
                nursery.cancel_scope.cancel()
            else:  # the fault is being written
                closing = Limit(nursery.cancel_scope)
                closing.set(CLOSE_S)
        if closing is not None:
            closing.set(inf)

    async def _write(self, pipe: Pipe, scope: trio.CancelScope) -> None:
        try:
            await self.outbox.write_to(pipe)
        except PipeBrokenError as broken:
            self.reason = str(broken)
        scope.cancel()

    async def _read(self, pipe: Pipe) -> bool:
        """Reads until the connection ends (True) or its data is malformed."""
        try:
            while bodies := await pipe.receive():
                for body in bodies:
                    self.asked += 1
                    self.post(MESSAGE, body)
                while self.outbox.full or self.asked - self.answered > CALLS_MAX:
                    self._room = trio.Event()
                    await self._room.wait()
        except PipeBrokenError as broken:
            self.reason = str(broken)
        except frames.FrameError as fault:
            self.fail(str(fault))
            return False
        return True


class _Session:
    """The inside part of a connection: its requests and watches."""

    def __init__(self, server: SocketServer, number: int) -> None:
        self._server = server
        self._number = number
        self._full = False
        self._ended = False
        self._calls: dict[int, bool] = {}  # unanswered: whether the answer is still wanted
        self._watches: dict[int, Watch] = {}

    @property
    def _peer(self) -> Peer | None:
        """None in a replay, and once the connection has ended."""
        return self._server.peers.get(self._number)

    def take(self, body: bytes) -> None:
        try:
            message = frames.read_from_client(body)
        except frames.FrameError as fault:
            self._refuse(str(fault))
            return
        call = message.call
        if isinstance(message, frames.Stop):
            self._stop(call)
        elif call in self._calls or call in self._watches:
            self._refuse(f"call {call} is still open")
        else:
            self._calls[call] = True
            self._server.endpoint.handle(message.request, lambda reply: self._respond(call, reply))

    def _refuse(self, reason: str) -> None:
        if (peer := self._peer) is not None:
            peer.fail(reason)
        self._server.end(self._number, reason)

    def _stop(self, call: int) -> None:
        if (peer := self._peer) is not None:
            peer.answered += 1  # a stop has no answer
        watch = self._watches.pop(call, None)
        if watch is not None:
            watch.stop()
        elif call in self._calls:
            self._calls[call] = False

    def _respond(self, call: int, reply: Reply) -> None:
        wanted = self._calls.pop(call, False) and not self._ended
        if (peer := self._peer) is not None:
            peer.answer(frames.answer(call, reply) if wanted else [])
        watch = reply.watch
        if watch is None:
            return
        if not wanted:
            watch.stop()
            return
        self._watches[call] = watch
        watch.attach(lambda: self._pump(call))
        self._pump(call)

    def _pump(self, call: int) -> None:
        """Sends the events of a watch, unless the peer accepts none."""
        watch = self._watches.get(call)
        if watch is None or self._full:
            return
        while batch := watch.take():
            if (peer := self._peer) is not None:
                peer.put(frames.events(call, batch, False))
        if watch.ended:
            del self._watches[call]
            if (peer := self._peer) is not None:
                peer.put(frames.events(call, [], True))

    def set_full(self, full: bool) -> None:
        self._full = full
        if not full:
            for call in list(self._watches):
                self._pump(call)

    def end(self) -> None:
        self._ended = True
        watches, self._watches = self._watches, {}
        for watch in watches.values():
            watch.stop()
