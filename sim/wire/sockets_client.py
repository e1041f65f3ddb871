"""API servers over sockets: a `Transport` for clients with a server in another process.

Requests of this kernel's actors become messages on one connection per server address, shared by all
of them; messages from the server become operations at this kernel's gate: replies, watch events,
the loss of the connection. So a process of controllers or node agents can be replayed from its
journal without a server.

Holds: every request gets one reply, or "ConnectionRefused" (no listener answered) or
"ConnectionReset" (the connection was lost while the request was open); a watch ends with its
connection; nothing is delivered within `send`; an actor that does not read its watch delays no
other actor and loses the watch at BACKLOG_MAX events.

Mirrors  client-go v1.25 transport, as `sim.client.rest.channel` does for simulated links.
Differs  the delay is the real network's; there is no fast path, heartbeats are ordinary requests.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import trio

from sim.api import status
from sim.api.types import Reply, Request
from sim.errors import first_of
from sim.kernel import Context, Kernel
from sim.wire import frames, websocket
from sim.wire.received_watch import ReceivedWatch
from sim.wire.sockets import Outbox, Pipe, PipeBrokenError, parse_address

REFUSED, RESET = "ConnectionRefused", "ConnectionReset"
OPERATION = "socket"
MESSAGE, LOST = "message", "lost"
CALLS_MAX = 10_000  # open at a time on one connection; the next is refused


class SocketClients:
    """The connections of one kernel. nursery: runs them; None in a replay, which has none."""

    def __init__(self, kernel: Kernel, nursery: trio.Nursery | None) -> None:
        self.kernel = kernel
        self.nursery = nursery
        self.kind = kernel.kind("connection", "server", "peer", "what", "reason")
        self._links: dict[str, Link] = {}
        self._by_number: list[Link] = []
        kernel.gate.handle(OPERATION, self._enter)

    def transport(self, ctx: Context, url: str) -> SocketTransport:
        """The transport of one actor's incarnation to the server at an address (see
        `parse_address`).
        """
        link = self._links.get(url)
        if link is None:
            parse_address(url)
            link = self._links[url] = Link(self, url, len(self._by_number))
            self._by_number.append(link)
        return SocketTransport(ctx, link)

    def _enter(self, payload: Any, done: Callable[[Any], None]) -> None:
        number, what, data = payload
        done(None)
        link = self._by_number[number]
        if what == MESSAGE:
            link.take(data)
        else:
            link.lose(*data)


class _Call:
    """A request without a reply so far. parts: of the list in its answer."""

    __slots__ = ("_cause", "_on_reply", "parts", "transport")

    def __init__(self, transport: SocketTransport, on_reply: Callable[[Reply], None]) -> None:
        self.transport = transport
        self.parts: list[frames.WireItem] = []
        self._on_reply = on_reply
        self._cause = transport.ctx.kernel.cause

    def answer(self, reply: Reply) -> None:
        """Passes on the reply; the effects have the cause of the request."""
        ctx = self.transport.ctx
        ctx.kernel.follow(self._cause)
        ctx.run(self._on_reply, reply)


class Link:
    """The connection to one address: opened when there is a message to send, and again after a
    loss.
    """

    def __init__(self, clients: SocketClients, url: str, number: int) -> None:
        self.url = url
        self.watches: dict[int, ReceivedWatch] = {}
        self._clients = clients
        self._number = number
        self._calls: dict[int, _Call] = {}
        self._newest = 0  # call
        self._outbox: Outbox | None = None  # of the present connection or dial
        self._scope: trio.CancelScope | None = None

    # --- in the simulation ------------------------------------------------------------------------

    def send(self, transport: SocketTransport, request: Request, on_reply: Callable[[Reply], None]) -> None:
        """Sends a request."""
        self._newest = number = self._newest + 1
        body = frames.ask(number, request)
        refusal = None
        if len(body) > frames.ASK_MAX:
            refusal = Reply(413, body=status.too_large())
        elif len(self._calls) >= CALLS_MAX:
            refusal = Reply(0, lost=REFUSED)
        if refusal is not None:
            transport.ctx.kernel.call_later(0, lambda _: transport.ctx.run(on_reply, refusal))
            return
        self._calls[number] = _Call(transport, on_reply)
        self._put(body)

    def stop(self, call: int) -> None:
        """Ends a watch."""
        if self.watches.pop(call, None) is not None:
            self._put(frames.stop(call))

    def take(self, body: bytes) -> None:
        """Handles a message from the server."""
        try:
            message = frames.read_from_server(body)
        except frames.FrameError as fault:
            self._hang_up(str(fault))
            return
        if isinstance(message, frames.Fault):
            self._hang_up(message.message)
        elif isinstance(message, frames.Events):
            watch = self.watches.get(message.call)
            if watch is not None:  # otherwise it was stopped before
                if message.ended:
                    del self.watches[message.call]
                watch.arrive([frames.event_of(event) for event in message.events], message.ended)
        elif isinstance(message, frames.Part):
            call = self._calls.get(message.call)
            if call is not None:
                call.parts += message.items
        else:
            self._answer(message)

    def _answer(self, message: frames.Answer) -> None:
        call = self._calls.pop(message.call, None)
        if call is None:
            return
        reply = frames.reply_of(message, call.parts)
        if message.watching:
            close = partial(self.stop, message.call)
            reply.watch = self.watches[message.call] = ReceivedWatch(call.transport.ctx, close)
            if not call.transport.ctx.alive:
                reply.watch.stop()
        call.answer(reply)

    def lose(self, reason: str, newest: int, text: str) -> None:
        """Ends the calls up to `newest`: their connection is lost."""
        self._record(reason, text)
        for number in [number for number in self._calls if number <= newest]:
            self._calls.pop(number).answer(Reply(0, lost=reason))
        for number in [number for number in self.watches if number <= newest]:
            self.watches.pop(number).arrive([], True)

    def _record(self, what: str, reason: str) -> None:
        self._clients.kernel.record(self._clients.kind, (self.url, self._number, what, reason))

    # --- outside ----------------------------------------------------------------------------------

    def _put(self, body: bytes) -> None:
        nursery = self._clients.nursery
        if nursery is None:
            return
        if self._outbox is None:
            self._outbox = Outbox()
            nursery.start_soon(self._connect, self._outbox)
        self._outbox.put([body])

    def _hang_up(self, reason: str) -> None:
        """Closes the connection: the server does not use this protocol."""
        self._record("fault", reason)
        if self._scope is not None:
            self._scope.cancel()

    def _post(self, what: str, data: Any) -> None:
        self._clients.kernel.gate.post(OPERATION, [self._number, what, data], _nothing)

    async def _connect(self, outbox: Outbox) -> None:
        """One connection: dial, write and read until it ends."""
        lost = [REFUSED, ""]
        try:
            async with trio.open_nursery() as nursery:
                self._scope = nursery.cancel_scope
                try:
                    pipe = await websocket.dial(nursery, self.url)
                except OSError as error:
                    lost[1] = str(error)
                else:
                    lost[0] = RESET
                    nursery.start_soon(self._write, outbox, pipe, lost)
                    try:
                        await self._read(pipe, lost)
                    finally:
                        await pipe.aclose()
                nursery.cancel_scope.cancel()
        except* Exception as group:  # any exception that the server's bytes cause
            lost[1] = str(first_of(group))
        finally:
            self._outbox = self._scope = None
            self._post(LOST, [lost[0], self._newest, lost[1]])

    async def _write(self, outbox: Outbox, pipe: Pipe, lost: list[str]) -> None:
        try:
            await outbox.write_to(pipe)
        except PipeBrokenError as broken:
            lost[1] = str(broken)
            assert self._scope is not None
            self._scope.cancel()

    async def _read(self, pipe: Pipe, lost: list[str]) -> None:
        try:
            while bodies := await pipe.receive():
                for body in bodies:
                    self._post(MESSAGE, body)
        except (PipeBrokenError, frames.FrameError) as broken:
            lost[1] = str(broken)


def _nothing(_: object) -> None:
    """The result of the operation is not needed."""


class SocketTransport:
    """A `Transport` of one actor to one server."""

    def __init__(self, ctx: Context, link: Link) -> None:
        self.ctx = ctx
        self._link = link
        ctx.on_stop(self._close)

    def send(self, request: Request, on_reply: Callable[[Reply], None]) -> None:
        """Sends a request."""
        self._link.send(self, request, on_reply)

    def _close(self) -> None:
        for watch in [watch for watch in self._link.watches.values() if watch.ctx is self.ctx]:
            watch.stop()
