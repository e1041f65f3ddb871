"""The messages of etcd's API in the JSON of its gateway, as far as they are used.

Turns requests into bytes, and bytes of responses into structs.  Numbers of 64 bits are strings in
JSON, and bytes are base64.

Mirrors  etcd v3.4 etcdserver/etcdserverpb/rpc.proto, mvcc/mvccpb/kv.proto.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

Message = TypeVar("Message")
EVERY_KEY = b"\0"  # as a key the first one, as the end of a range no end


class Header(msgspec.Struct, frozen=True):
    """Of each response.  revision: of the store as it answered"""

    cluster_id: int = 0
    revision: int = 0


class KeyValue(msgspec.Struct, frozen=True):
    """A key.  mod_revision: of its last write; create_revision: of its creation"""

    key: bytes
    create_revision: int = 0
    mod_revision: int = 0
    version: int = 0
    value: bytes = b""


class Found(msgspec.Struct, frozen=True):
    """A response to a range.  count: of the keys without the limit"""

    header: Header = Header()
    kvs: tuple[KeyValue, ...] = ()
    more: bool = False
    count: int = 0


class Deleted(msgspec.Struct, frozen=True):
    """A response to the deletion of keys.  prev_kvs: their last states"""

    prev_kvs: tuple[KeyValue, ...] = ()


class Part(msgspec.Struct, frozen=True):
    """A response in that of a transaction."""

    response_range: Found | None = None
    response_delete_range: Deleted | None = None


class Done(msgspec.Struct, frozen=True):
    """A response to a transaction."""

    header: Header = Header()
    succeeded: bool = False
    responses: tuple[Part, ...] = ()


class Event(msgspec.Struct, frozen=True):
    """A change of a key.  type: "DELETE", or "" for a write"""

    kv: KeyValue
    type: str = ""


class News(msgspec.Struct, frozen=True):
    """A message of a watch.

    canceled: the watch ends; compact_revision: because that is the oldest revision
    fragment: more events of the same message follow
    """

    header: Header = Header()
    created: bool = False
    canceled: bool = False
    compact_revision: int = 0
    cancel_reason: str = ""
    fragment: bool = False
    events: tuple[Event, ...] = ()


class Problem(msgspec.Struct, frozen=True):
    """An error.  code: of gRPC"""

    error: str = ""
    message: str = ""
    code: int = 0


class Line(msgspec.Struct, frozen=True):
    """A line of a stream."""

    result: News | None = None
    error: Problem | None = None


class Granted(msgspec.Struct, frozen=True):
    """A lease."""

    ID: int = 0
    TTL: int = 0


encode = msgspec.json.Encoder().encode


def decode(kind: type[Message], body: bytes) -> Message:
    """A response.  Raises msgspec.MsgspecError."""
    return msgspec.json.decode(body, type=kind, strict=False)


def problem_of(body: bytes) -> Problem:
    """The error in a response."""
    try:
        return decode(Problem, body)
    except msgspec.MsgspecError:
        return Problem(body[:200].decode("utf-8", "replace"))


def range_of(key: bytes, end: bytes = b"", **more: Any) -> Mapping[str, Any]:
    """A request for a key, or for those from it until before `end`."""
    return {"key": key, "range_end": end, **more}


def after_prefix(prefix: bytes) -> bytes:
    """The end of the keys that begin with a prefix."""
    return prefix[:-1] + bytes([prefix[-1] + 1])
