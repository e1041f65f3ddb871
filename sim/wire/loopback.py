"""Messages of a simulation through real sockets: the network decides, and the bytes cross.

Turns the servers that actors of one process reach into servers behind a TCP connection of the
loopback: each request, reply and batch of watch events is encoded, sent, received and decoded at
the instant at which it would be handed over, and is then what the other side gets.

Holds: virtual time rests while bytes are under way, and the links of the simulated network decide
delay and loss as without sockets, so that a run has the same trace; one connection a server.

Differs  causes of records and the ownership of fields, which no message carries, go beside the
         bytes.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from sim.api.store import Item
from sim.api.types import Endpoint, Reply, Request, WatchEvent
from sim.wire import frames

CHUNK = 1 << 18


class _Wire:
    """One direction of a connection."""

    def __init__(self, near: socket.socket, far: socket.socket, longest: int) -> None:
        self._near, self._far = near, far
        self._reader = frames.FrameReader(longest)

    def carry(self, bodies: Sequence[bytes]) -> list[bytes]:
        """Send messages, and receive them."""
        rest = memoryview(b"".join(frames.framed(body) for body in bodies))
        result: list[bytes] = []
        while len(result) < len(bodies):
            select.select([self._far], [self._near] if rest else [], [])
            if rest:
                try:
                    rest = rest[self._near.send(rest) :]
                except BlockingIOError:
                    pass
            try:
                result += self._reader.feed(self._far.recv(CHUNK))
            except BlockingIOError:
                pass
        return result


class Loopback:
    """The connections between the actors of a process and its servers, by the name of the server."""

    def __init__(self) -> None:
        self._wires: dict[str, tuple[_Wire, _Wire]] = {}
        self._sockets: list[socket.socket] = []
        self._waiting: dict[Callable[[Reply], None], Callable[[Reply], None]] = {}

    def servers(self, inner: Mapping[str, Endpoint]) -> Mapping[str, Endpoint]:
        """Servers as they are reached over the connections."""
        return _Servers(inner, self)

    def close(self) -> None:
        """Close the connections."""
        for each in self._sockets:
            each.close()

    def request(self, server: str, request: Request) -> Request:
        """A request as the server gets it."""
        (body,) = self._carry(server, [frames.ask(1, request)], to_server=True)
        query = frames.read_from_client(body)
        assert isinstance(query, frames.Ask)
        return replace(query.request, cause=request.cause, annotations=request.annotations)

    def reply(self, server: str, reply: Reply) -> Reply:
        """A reply as the client gets it."""
        parts: list[frames.WireItem] = []
        for body in self._carry(server, frames.answer(1, reply)):
            message = frames.read_from_server(body)
            if isinstance(message, frames.Part):
                parts += message.items
        assert isinstance(message, frames.Answer)
        result = frames.reply_of(message, parts)
        if reply.item is not None and result.item is not None:
            _complete(result.item, reply.item)
        for item, sent in zip(result.items or (), reply.items or (), strict=True):
            _complete(item, sent)
        watch = None if reply.watch is None else _Watch(reply.watch, self, server)
        return replace(result, watch=watch, stream=reply.stream, annotations=reply.annotations)

    def events(self, server: str, batch: Sequence[WatchEvent]) -> list[WatchEvent]:
        """Events of a watch as the client gets them."""
        sent = list(batch)
        wires: list[frames.WireEvent] = []
        for body in self._carry(server, frames.events(1, sent, False)) if sent else ():
            message = frames.read_from_server(body)
            assert isinstance(message, frames.Events)
            wires += message.events
        return [_event(wire, event) for wire, event in zip(wires, sent, strict=True)]

    def _carry(self, server: str, bodies: list[bytes], *, to_server: bool = False) -> list[bytes]:
        wires = self._wires.get(server)
        if wires is None:
            wires = self._wires[server] = self._connected()
        return wires[0 if to_server else 1].carry(bodies)

    def _connected(self) -> tuple[_Wire, _Wire]:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            client = socket.create_connection(listener.getsockname())
            served, _ = listener.accept()
        self._sockets += (client, served)
        for each in (client, served):
            each.setblocking(False)
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return _Wire(client, served, frames.ASK_MAX), _Wire(served, client, frames.FROM_SERVER_MAX)

    # --- calls ------------------------------------------------------------------------------------

    def handle(self, server: Endpoint, name: str, request: Request, respond: Callable[[Reply], None]) -> None:
        """Hand a request over, and its reply back."""

        def answer(reply: Reply) -> None:
            self._waiting.pop(respond, None)
            respond(self.reply(name, reply))

        self._waiting[respond] = answer
        server.handle(self.request(name, request), answer)

    def waiting(self, respond: Callable[[Reply], None]) -> Callable[[Reply], None]:
        """What the server answers to in place of a client's function, which no longer waits."""
        return self._waiting.pop(respond, respond)


def _event(wire: frames.WireEvent, sent: WatchEvent) -> WatchEvent:
    event = frames.event_of(wire)
    if event.item is not None and sent.item is not None:
        _complete(event.item, sent.item)
    return replace(event, cause=sent.cause)


def _complete(item: Item, sent: Item) -> None:
    """Give a received item what goes beside the bytes."""
    item.managed, item.cause = sent.managed, sent.cause


class _Servers(Mapping[str, Endpoint]):
    def __init__(self, inner: Mapping[str, Endpoint], loopback: Loopback) -> None:
        self._inner, self._loopback = inner, loopback

    def __getitem__(self, name: str) -> Endpoint:
        return _Server(self._inner[name], self._loopback, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._inner)

    def __len__(self) -> int:
        return len(self._inner)


class _Server:
    """A server behind its connection; what is no message is that of the server."""

    def __init__(self, inner: Any, loopback: Loopback, name: str) -> None:
        self._inner, self._loopback, self.name = inner, loopback, name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def handle(self, request: Request, respond: Callable[[Reply], None]) -> None:
        self._loopback.handle(self._inner, self.name, request, respond)

    def serve(self, request: Request) -> tuple[Reply, int] | None:
        serve = getattr(self._inner, "serve", None)
        served = None if serve is None else serve(self._loopback.request(self.name, request))
        return None if served is None else (self._loopback.reply(self.name, served[0]), served[1])

    def forget(self, respond: Callable[[Reply], None]) -> None:
        forget = getattr(self._inner, "forget", None)
        if forget is not None:
            forget(self._loopback.waiting(respond))


class _Watch:
    """The watch of a server with events that cross the connection."""

    def __init__(self, inner: Any, loopback: Loopback, server: str) -> None:
        self.__dict__.update(_inner=inner, _loopback=loopback, _server=server)

    def __getattr__(self, name: str) -> Any:
        result = getattr(self._inner, name)
        return self._give_to if name == "give_to" else result

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._inner, name, value)

    def take(self, *limits: Any) -> Sequence[WatchEvent]:
        loopback: Loopback = self._loopback
        return loopback.events(self._server, self._inner.take(*limits))

    def _give_to(self, push: Callable[[Sequence[WatchEvent]], bool]) -> None:
        self._inner.give_to(lambda batch: push(self._loopback.events(self._server, batch)))
