"""What goes over a socket between a client and an API server: messages, and their frames of
msgpack.

Turns requests, replies, watch events and "stop this watch" into frames and frames back into the
same values.  A frame on a byte stream is its length, four bytes big-endian, and that many bytes of
msgpack; where the transport keeps messages apart (WebSocket) it goes without the length.

Holds: a frame is never longer than the bound of its direction; bytes that are no message raise
`FrameError`, nothing else; an object arrives equal to what was sent, without managedFields; an
object revision is encoded once, however many connections it goes to.

Differs  causes do not cross (they are ids of one run's trace), nor does the ownership kept beside
         an object.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

import msgspec
from msgspec import Struct

from sim.api import status
from sim.api.store import Item
from sim.api.types import EventType, Json, Reply, Request, WatchEvent
from sim.units import Revision

# To a server: upstream takes request bodies up to 3 MiB (apiserver DefaultConfig
# MaxRequestBodyBytes); the rest is names and options.
ASK_MAX = 4 << 20
# To a client: lists and events are cut into parts of PART_BYTES or one object; an object is at most
# 1.5 MiB in etcd.
FROM_SERVER_MAX = 16 << 20
PART_BYTES = 1 << 20
LENGTH_BYTES = 4
RAW_KEY = "msgpack"  # of Item.raw


class FrameError(Exception):
    """The peer sent something that is no message: the connection cannot go on."""


class WireItem(Struct, frozen=True, array_like=True):
    """The sent form of an item: key, revisions and the packed object."""

    key: str
    obj: dict[str, Any]
    rev: Revision
    created: Revision


class WireEvent(Struct, frozen=True, array_like=True):
    """The sent form of a watch event."""

    type: EventType
    item: WireItem | None
    revision: Revision
    status: Json = None


class Ask(Struct, frozen=True, array_like=True, tag="ask"):
    """Client to server.  call: the client's number for it, growing."""

    call: int
    request: Request


class Stop(Struct, frozen=True, array_like=True, tag="stop"):
    """Client to server: the watch opened by this call is over."""

    call: int


class Part(Struct, frozen=True, array_like=True, tag="part"):
    """Server to client: some items of a list; the rest follows with the `Answer`."""

    call: int
    items: list[WireItem]


class Answer(Struct, frozen=True, array_like=True, tag="answer"):
    """Server to client: a reply. items: None if it is not a list; watching: True if events follow."""

    call: int
    code: int
    item: WireItem | None
    items: list[WireItem] | None
    revision: Revision
    more: str
    remaining: int | None
    body: Json
    watching: bool
    warnings: tuple[str, ...]
    headers: dict[str, str]
    lost: str


class Events(Struct, frozen=True, array_like=True, tag="events"):
    """Server to client: events of a watch, in order; ended: none come after these."""

    call: int
    events: list[WireEvent]
    ended: bool


class Fault(Struct, frozen=True, array_like=True, tag="fault"):
    """Server to client: the message was malformed; the connection is closed."""

    message: str


ToServer = Ask | Stop
ToClient = Part | Answer | Events | Fault

# What msgspec raises on bytes that are no message (RecursionError: nested too deep).
BROKEN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_encode = msgspec.msgpack.Encoder().encode
_to_server: msgspec.msgpack.Decoder[ToServer] = msgspec.msgpack.Decoder(ToServer)
_to_client: msgspec.msgpack.Decoder[ToClient] = msgspec.msgpack.Decoder(ToClient)


# --- to the server --------------------------------------------------------------------------------


def ask(call: int, request: Request) -> bytes:
    """The message of a request."""
    return _encode(Ask(call, msgspec.structs.replace(request, cause=0)))


def stop(call: int) -> bytes:
    """The message that ends a watch."""
    return _encode(Stop(call))


def read_from_client(body: bytes) -> ToServer:
    """A message from a client; raises FrameError."""
    try:
        return _to_server.decode(body)
    except BROKEN as error:
        raise FrameError(f"not a message to a server: {error}") from None


# --- to the client --------------------------------------------------------------------------------


def _packed(item: Item) -> bytes:
    raw = item.raw
    if raw is None:
        raw = item.raw = {}
    known = raw.get(RAW_KEY)
    if known is None:
        known = raw[RAW_KEY] = _encode(WireItem(item.key, item.obj, item.rev, item.created))
    return known


def _embedded(packed: bytes) -> WireItem:
    """Bytes made before, to be encoded as they are."""
    return cast(WireItem, msgspec.Raw(packed))


def answer(call: int, reply: Reply) -> list[bytes]:
    """The frames of a reply."""
    frames: list[bytes] = []
    items: list[WireItem] | None = None if reply.items is None else []
    size = 0
    for item in reply.items or ():
        assert items is not None
        packed = _packed(item)
        if size + len(packed) > PART_BYTES and items:
            frames.append(_encode(Part(call, items)))
            items, size = [], 0
        items.append(_embedded(packed))
        size += len(packed)
    last = _answered(call, reply, items)
    if len(last) > FROM_SERVER_MAX:  # text or a Status: an object is never that long
        text = f"the answer has {len(last)} bytes, at most {FROM_SERVER_MAX} can be sent"
        last = _answered(call, Reply(500, body=status.internal_error(text)), None)
    return [*frames, last]


def _answered(call: int, reply: Reply, items: list[WireItem] | None) -> bytes:
    return _encode(
        Answer(
            call,
            reply.code,
            None if reply.item is None else _embedded(_packed(reply.item)),
            items,
            reply.revision,
            reply.more,
            reply.remaining,
            reply.body,
            reply.watch is not None,
            reply.warnings,
            dict(reply.headers),
            reply.lost,
        )
    )


def events(call: int, batch: Iterable[WatchEvent], ended: bool) -> list[bytes]:
    """The frames of a watch's next events."""
    frames: list[bytes] = []
    part: list[WireEvent] = []
    size = 0
    for event in batch:
        packed = None if event.item is None else _packed(event.item)
        length = len(packed) if packed is not None else 0
        if size + length > PART_BYTES and part:
            frames.append(_encode(Events(call, part, False)))
            part, size = [], 0
        item = None if packed is None else _embedded(packed)
        part.append(WireEvent(event.type, item, event.revision, event.status))
        size += length
    if part or ended:
        frames.append(_encode(Events(call, part, ended)))
    return frames


def fault(message: str) -> bytes:
    """The frame of a fault."""
    return _encode(Fault(message))


def read_from_server(body: bytes) -> ToClient:
    """A message from a server; raises FrameError."""
    try:
        return _to_client.decode(body)
    except BROKEN as error:
        raise FrameError(f"not a message to a client: {error}") from None


def item_of(wire: WireItem) -> Item:
    """The item in a message."""
    return Item(wire.key, wire.obj, wire.rev, wire.created)


def event_of(wire: WireEvent) -> WatchEvent:
    """The watch event in a message."""
    return WatchEvent(wire.type, item_of(wire.item) if wire.item else None, wire.revision, wire.status)


def reply_of(answer: Answer, parts: list[WireItem]) -> Reply:
    """The reply of the frames of one answer, without its watch."""
    items = None if answer.items is None else [item_of(item) for item in [*parts, *answer.items]]
    return Reply(
        answer.code,
        item=item_of(answer.item) if answer.item else None,
        items=items,
        revision=answer.revision,
        more=answer.more,
        remaining=answer.remaining,
        body=answer.body,
        warnings=answer.warnings,
        headers=answer.headers,
        lost=answer.lost,
    )


# --- frames on a byte stream ----------------------------------------------------------------------


def framed(body: bytes) -> bytes:
    """A body with its length before it."""
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


class FrameReader:
    """Cuts a byte stream into frames no longer than `longest`.  Feed it what was received."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._buffer = bytearray()

    def feed(self, data: bytes | bytearray) -> Iterator[bytes]:
        """Whole frames that are there now.  FrameError: the rest of the stream makes no sense."""
        buffer = self._buffer
        buffer += data
        at = 0
        try:
            while len(buffer) - at >= LENGTH_BYTES:
                length = int.from_bytes(buffer[at : at + LENGTH_BYTES], "big")
                if length > self._longest:
                    raise FrameError(f"a frame of {length} bytes, at most {self._longest} are allowed")
                end = at + LENGTH_BYTES + length
                if len(buffer) < end:
                    break
                start, at = at + LENGTH_BYTES, end
                yield bytes(buffer[start:end])
        finally:
            del buffer[:at]

    @property
    def broken_off(self) -> bool:
        """True if the stream, ending now, ends within a frame."""
        return bool(self._buffer)
