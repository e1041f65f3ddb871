"""Answers of an API server as replies and events.

Turns the code, headers and bytes of an HTTP answer into a `Reply`, and the lines or frames of a
watch into events, as the clients of this process expect them: objects with their kind and without
`managedFields`, items with the keys of the store.

Holds: any bytes give a reply or an event, those of no known form the errors of upstream's client;
an object is an item if it has a revision, so that reviews and Scales are bodies, as in process.

Mirrors  client-go v1.25 rest/request.go (transformResponse); apimachinery v1.25
         pkg/watch/streamwatcher.go, pkg/api/errors/errors.go (NewClientErrorReporter).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from sim.api import status
from sim.api.aggregation.failures import UNEXPECTED, failure_of
from sim.api.messages.protobuf import ProtobufError, decode_answer, decode_frame
from sim.api.schema.resource import Resource
from sim.api.scheme.scheme import Scheme
from sim.api.store import Item
from sim.api.types import Obj, Reply, Request, WatchEvent
from sim.patterns import pattern
from sim.units import NO_REVISION, Revision

KEPT_HEADERS = ("retry-after", "warning", "content-type")  # the headers that `reply_of` reads
SCALE = "scale"
LENGTH = 4  # bytes before a frame: its length, big-endian
DIGITS_MAX = 20  # those of the greatest revision
_WARNING = pattern(r'299 \S+ "((?:[^"\\]|\\.)*)"')
_decode = msgspec.json.Decoder().decode


def reply_of(scheme: Scheme, request: Request, code: int, headers: Mapping[str, str], body: bytes) -> Reply:
    """The reply that an answer is.  headers: those of `KEPT_HEADERS`, in small letters"""
    try:
        return _reply(scheme, request, code, headers, body)
    except (KeyError, TypeError, AttributeError):
        text = f"unable to decode an answer: {body[:200].decode('utf-8', 'replace')}"
        return Reply(500, body=status.plain_error(text))


def _reply(scheme: Scheme, request: Request, code: int, headers: Mapping[str, str], body: bytes) -> Reply:
    stored = {"Retry-After": headers["retry-after"]} if "retry-after" in headers else {}
    warnings = tuple(_WARNING.findall(headers.get("warning", "")))
    resource = scheme.find(request.group, request.version, request.resource)
    is_list = resource is not None and request.verb == "list"
    if headers.get("content-type", "").startswith(scheme.names.media_protobuf):
        entry = _protobuf(scheme, body, resource.kind if resource is not None and is_list else "")
    else:
        entry = _json(body)
    if not 200 <= code < 300:
        failure = failure_of(request, code, headers, body, entry)
        return Reply(code, body=failure, headers=stored, warnings=warnings)
    if not isinstance(entry, dict) and not is_list:
        text = body.decode("utf-8", "replace")
        return Reply(code, body=text if entry is None else entry, headers=stored, warnings=warnings)
    if resource is not None and is_list:
        return _list(scheme, resource, code, entry, warnings)
    if resource is not None and request.subresource != SCALE and _is_stored(resource, entry):
        return Reply(code, item=item_of(scheme, resource, entry), warnings=warnings)
    return Reply(code, body=entry, warnings=warnings)


def _json(body: bytes) -> Any:
    """The value in a body; None if it is not JSON."""
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _protobuf(scheme: Scheme, body: bytes, item_kind: str = "") -> Any:
    """The value in a body; None if it is no message of its kind."""
    try:
        return decode_answer(body, scheme.names.upstream_group, item_kind)
    except ProtobufError:
        return None


def _is_stored(resource: Resource, obj: Obj) -> bool:
    meta = obj.get("metadata")
    return obj.get("kind") == resource.kind and isinstance(meta, dict) and bool(meta.get("resourceVersion"))


def _list(scheme: Scheme, resource: Resource, code: int, body: Obj, warnings: tuple[str, ...]) -> Reply:
    meta = body.get("metadata") or {}
    return Reply(
        code,
        items=[item_of(scheme, resource, obj) for obj in body.get("items") or ()],
        revision=revision_of(meta),
        more=meta.get("continue", ""),
        remaining=meta.get("remainingItemCount"),
        warnings=warnings,
    )


def revision_of(meta: Mapping[str, Any]) -> Revision:
    """The revision in some metadata; 0 for a server that counts in another way."""
    text = str(meta.get("resourceVersion") or "")
    return Revision(int(text)) if text.isdecimal() and len(text) < DIGITS_MAX else NO_REVISION


def item_of(scheme: Scheme, resource: Resource, obj: Obj) -> Item:
    """An object from outside as an item.  Items of lists come without their kind."""
    meta = obj["metadata"]
    if "managedFields" in meta:
        meta = {key: value for key, value in meta.items() if key != "managedFields"}
    whole = {**obj, "apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta}
    revision = revision_of(meta)
    return Item(scheme.key(resource, meta.get("namespace", ""), meta["name"]), whole, revision, revision)


def events_of(scheme: Scheme, resource: Resource, data: bytes, *, framed: bool = False) -> list[WatchEvent]:
    """The events in whole lines of a watch, or in whole frames.  The last of them is an ERROR if
    one is no event.
    """
    result: list[WatchEvent] = []
    for each in _frames(data) if framed else data.split(b"\n"):
        if not each.strip():
            continue
        try:
            if framed:
                kind, raw = decode_frame(each)
                event = {"type": kind, "object": _protobuf(scheme, raw)}
            else:
                event = _json(each)
            result.append(_event(scheme, resource, event["type"], event["object"]))
        except (KeyError, TypeError, AttributeError, ProtobufError):
            text = f"unable to decode an event from the watch stream: {each[:200].decode('utf-8', 'replace')}"
            failure = status.generic_response(500, text, causes=(UNEXPECTED, "ClientWatchDecoding"))
            result.append(WatchEvent("ERROR", None, NO_REVISION, failure))
            break
    return result


def _frames(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + LENGTH], "big")
        yield data[at + LENGTH : at + LENGTH + size]
        at += LENGTH + size


def parts_of(data: bytes, *, framed: bool) -> list[bytes]:
    """Whole lines or frames one by one; together they are the data."""
    if not framed:
        return data.splitlines(keepends=True)
    return [len(frame).to_bytes(LENGTH, "big") + frame for frame in _frames(data)]


def whole_of(data: bytes, *, framed: bool) -> int:
    """How many bytes of a watch are whole lines, or whole frames."""
    if not framed:
        return data.rfind(b"\n") + 1
    at = 0
    while at + LENGTH <= len(data):
        end = at + LENGTH + int.from_bytes(data[at : at + LENGTH], "big")
        if end > len(data):
            break
        at = end
    return at


def _event(scheme: Scheme, resource: Resource, kind: Any, obj: Obj) -> WatchEvent:
    if kind == "ERROR":
        return WatchEvent("ERROR", None, NO_REVISION, obj)
    revision = revision_of(obj["metadata"])
    if kind == "BOOKMARK":
        return WatchEvent("BOOKMARK", None, revision)
    if kind not in ("ADDED", "MODIFIED", "DELETED"):
        raise KeyError(kind)
    return WatchEvent(kind, item_of(scheme, resource, obj), revision)
