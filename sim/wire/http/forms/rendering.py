"""Replies as bytes of JSON, YAML or protobuf: objects, lists, Tables, metadata, Status bodies and
watch events.

A `Reply` and a `Form` become a code, headers and a body. The bytes of a stored object are made once
and kept in its `Item`, shared by every get, list and watch event.

Holds: an item is shown as its object with `managedFields`; nothing here changes either.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/handlers/{response,get,watch}.go, responsewriters,
         pkg/endpoints/filters/warning.go, apimachinery pkg/util/net/http.go (NewWarningHeader),
         pkg/runtime/serializer/json (List items carry no kind and apiVersion).
Differs  fields are in the stored order, not in the order of upstream's structs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial as partial_of
from typing import Any

import msgspec

from sim.api import raw_text, status
from sim.api.go.escapes import escaped
from sim.api.kinds.common.cells import age
from sim.api.kinds.tables import columns, row
from sim.api.messages import protobuf_encode
from sim.api.ownership import managed
from sim.api.schema.kind import PLAIN_COLUMNS
from sim.api.schema.resource import Resource
from sim.api.schema.zero_values import zero_value
from sim.api.store import Item
from sim.api.types import EMPTY, Obj, Reply, WatchEvent
from sim.ident import Names
from sim.patterns import pattern
from sim.units import NO_REVISION, Revision, go_quote
from sim.wire.http.forms.kept import KEPT
from sim.wire.http.forms.negotiation import PARTIAL, PARTIAL_LIST, TABLE, Form, NotAcceptable
from sim.wire.http.forms.yaml_json import dump_yaml

TEXT = "text/plain; charset=utf-8"
SHARED_MAX, SHARED_BYTES = 64, 4 << 20  # events that watches share, and bytes of them
PART_MAX = 64 * 1024  # bytes of a watch that are made before the client has taken those before
INCLUDE = ("", "Metadata", "Object", "None")
# Keys of Item.raw: JSON without kind and apiVersion, the protobuf message (which has none), and the
# metadata as JSON.
_BARE, _MESSAGE, _METADATA = "bare", "message", "metadata"
_encoder = msgspec.json.Encoder()
# pkg/endpoints/filters/warning.go: letters of all warnings, above which each is cut to so many.
WARNED_MAX, WARNING_MAX = 4096, 256
_CONTROL, _ESCAPED = pattern(r"[\x00-\x1f\x7f-\x9f]"), pattern(r'["\\]')


class View(msgspec.Struct, frozen=True):
    """The parameters of one rendering. include: includeObject of a Table."""

    names: Names
    resource: Resource
    form: Form
    now_us: int
    include: str = ""

    @property
    def meta_version(self) -> str:
        """The version of the meta group in the form."""
        return f"{self.names.group('meta')}/{self.form.version}"


class Answer(msgspec.Struct, frozen=True):
    """An HTTP answer that is complete."""

    code: int
    media: str
    body: bytes
    headers: Mapping[str, str] = EMPTY
    warnings: tuple[str, ...] = ()


def _encode(value: object) -> bytes:
    """JSON as upstream writes it."""
    return escaped(_encoder.encode(value))


# --- values ---------------------------------------------------------------------------------------


def whole(item: Item) -> Obj:
    """An item's object with its managedFields."""
    if not item.managed:
        return item.obj
    metadata = {**item.obj["metadata"], "managedFields": managed.render(item.managed, item.obj)}
    return {**item.obj, "metadata": metadata}


def _listed(resource: Resource, item: Item) -> bytes:
    """One object of a list. Quirk: only custom resources carry their kind there."""
    return object_bytes(resource, item) if resource.custom else _bare(item)


def _bare(item: Item) -> bytes:
    result = item.raw and item.raw.get(_BARE)
    if result:
        return result
    shown = raw_text.shown(whole(item)).items()
    obj = {key: value for key, value in shown if key not in ("kind", "apiVersion")}
    return KEPT.keep(item, _BARE, _encode(obj))


def _message(view: View, item: Item) -> bytes:
    """One object as a protobuf message."""
    result = item.raw and item.raw.get(_MESSAGE)
    return result or KEPT.keep(
        item, _MESSAGE, protobuf_encode.message(typed(view.resource, item), view.names)
    )


def _head(resource: Resource) -> bytes:
    return b'{"kind":"%b","apiVersion":"%b",' % (resource.kind.encode(), resource.api_version.encode())


def object_bytes(resource: Resource, item: Item) -> bytes:
    """One object as JSON."""
    return _head(resource) + _bare(item)[1:]


def typed(resource: Resource, item: Item) -> Obj:
    """One object as a value, under the group version it was asked for."""
    return {**whole(item), "kind": resource.kind, "apiVersion": resource.api_version}


def partial(view: View, item: Item) -> Obj:
    """The metadata of an item as a PartialObjectMetadata."""
    metadata = whole(item)["metadata"]
    added = view.resource.behavior.converted_annotations
    annotations = metadata.get("annotations")
    if added and annotations:
        stored = {key: value for key, value in annotations.items() if key not in added}
        metadata = {key: value for key, value in metadata.items() if key != "annotations"}
        metadata |= {"annotations": stored} if stored else {}
    return {"kind": PARTIAL, "apiVersion": view.meta_version, "metadata": metadata}


def _joined(head: bytes, parts: list[bytes]) -> bytes:
    """An object that ends with a list of these parts, copied once, with the end of its line."""
    if not parts:
        return head + b"]}\n"
    parts[0] = head + parts[0]
    parts[-1] += b"]}\n"
    return b",".join(parts)


def list_metadata(reply: Reply) -> Obj:
    """The metadata of a list."""
    metadata: Obj = {"resourceVersion": str(reply.revision)} if reply.revision else {}
    if reply.more:
        metadata["continue"] = reply.more
    if reply.remaining is not None:
        metadata["remainingItemCount"] = reply.remaining
    return metadata


def _partial_bytes(view: View, item: Item) -> bytes:
    """As `partial`, as JSON."""
    if view.resource.behavior.converted_annotations:
        return _encode(partial(view, item))
    result = item.raw and item.raw.get(_METADATA)
    result = result or KEPT.keep(item, _METADATA, _encode(whole(item)["metadata"]))
    return b'{"kind":"PartialObjectMetadata","apiVersion":"%b","metadata":%b}' % (
        view.meta_version.encode(),
        result,
    )


def table(view: View, items: Iterable[Item], metadata: Obj, head: bool = True) -> bytes:
    """A Table as JSON; without `head` its columns are left out (later events of a watch)."""
    rows = []
    order = view.resource.behavior.row_order
    for item in items if order is None else sorted(items, key=lambda each: order(each.obj)):
        if view.include == "Object":
            shown = object_bytes(view.resource, item)
        else:
            shown = b"null" if view.include == "None" else _partial_bytes(view, item)
        new = _encode(row(view.resource, item.obj, view.now_us, view.names))
        rows.append(b'%b,"object":%b}' % (new[:-1], shown))
    plain = not view.resource.custom and view.resource.behavior.columns == PLAIN_COLUMNS
    heads = {
        "kind": TABLE,
        "apiVersion": view.meta_version,
        "metadata": metadata,
        "columnDefinitions": columns(view.resource) if head else None,
    }
    if plain and not rows:  # Quirk: there is no list in the plain table (defaultTableConvertor)
        return _encode({**heads, "rows": None})
    return _joined(_encode(heads)[:-1] + b',"rows":[', rows)


def check_included(view: View) -> None:
    """Raises NotAcceptable for a wrong includeObject of a Table; its body carries the code 400."""
    if view.form.kind == TABLE and view.include not in INCLUDE:
        text = (
            f"Unable to convert to Table as requested: includeObject: Invalid value: {go_quote(view.include)}: "
            "must be 'Metadata', 'Object', 'None', or empty"
        )
        raise NotAcceptable(status.bad_request(text))


def check_form(view: View, reply: Reply) -> None:
    """Raises NotAcceptable for a successful reply that cannot have the form.

    Quirk: only the reply is refused, after the request has had its effect (response.go:
    transformResponseObject).
    """
    if not view.form.kind:
        return
    check_included(view)
    if reply.item is None and reply.items is None:
        if view.form.kind == PARTIAL_LIST and _is_virtual(reply):
            kind, group = reply.body["kind"], reply.body["apiVersion"].partition(".")[0].partition("/")[0]
            result = "v1.Scale" if view.resource.custom else f"{group}.{kind}"
            text = f"you requested {PARTIAL_LIST}, but the requested object is not a list (*{result})"
            raise NotAcceptable(status.status(406, "NotAcceptable", text))
        return  # a Status keeps its form
    kind, listing, custom = view.form.kind, reply.items is not None, view.resource.custom
    group = view.resource.package
    if kind == PARTIAL and listing:
        result = "unstructured.UnstructuredList" if custom else f"{group}.{view.resource.naming.list_kind}"
        text = f"you requested {PARTIAL}, but the requested object is a list (*{result})"
        raise NotAcceptable(status.status(406, "NotAcceptable", text))
    if kind == PARTIAL_LIST and not listing and custom:
        # Quirk: Go's type of a custom object has the methods of a list.
        raise NotAcceptable(status.status(500, "", "content is not a list"))
    if kind == PARTIAL_LIST and not listing:
        text = f"you requested {PARTIAL_LIST}, but the requested object is not a list (*{group}.{view.resource.kind})"
        raise NotAcceptable(status.status(406, "NotAcceptable", text))


_VIRTUAL = ("Scale", "TokenRequest")  # and reviews


def _is_virtual(reply: Reply) -> bool:
    """True for an answer with an object that is not stored: a scale, a review or a token."""
    kind = reply.body.get("kind", "") if isinstance(reply.body, dict) else ""
    return reply.code < 300 and (kind in _VIRTUAL or kind.endswith("Review"))


def _virtual(view: View, scale: Obj) -> Obj:
    """A Scale in the form that was asked for (printers.go: printScale), or another object that is
    not stored, of which there is no Table.
    """
    metadata = scale["metadata"]
    short = {"kind": PARTIAL, "apiVersion": view.meta_version, "metadata": metadata}
    if view.form.kind != TABLE:
        return short
    numbers = [(scale.get(part) or {}).get("replicas", 0) for part in ("spec", "status")]
    custom = view.resource.custom
    titles = (
        ("Name", "string"),
        ("Desired", "integer"),
        ("Available", "integer"),
        ("Age", "date" if custom else "string"),
    )
    heads = [
        {
            "name": name,
            "type": kind,
            "format": "name" if name == "Name" and custom else "",
            "description": "",
            "priority": 0,
        }
        for name, kind in titles
    ]
    revision = metadata.get("resourceVersion")
    return {
        "kind": TABLE,
        "apiVersion": view.meta_version,
        "metadata": {"resourceVersion": revision} if revision else {},
        "columnDefinitions": heads,
        "rows": [
            {
                "cells": [metadata["name"], *numbers, age(scale, view.now_us)],
                "object": {"Object": scale, "None": None}.get(view.include, short),
            }
        ],
    }


# --- answers --------------------------------------------------------------------------------------


def encode(names: Names, form: Form, value: Any) -> bytes:
    """A JSON value in the form's media type; JSON ends with a line, unless it is printed prettily
    (serializer/json/json.go: doEncode).
    """
    if form.media == names.media_protobuf:
        return protobuf_encode.encode(value, names)
    if form.media == names.media_yaml:
        return dump_yaml(value)
    data = _encode(value)
    return msgspec.json.format(data, indent=2) if form.pretty else data + b"\n"


def prepare(view: View, reply: Reply) -> Callable[[], Answer]:
    """The answer of a reply that is not a watch, from immutable values: it may run on a thread."""
    body = reply.body
    if reply.item is not None:
        return partial_of(_finish, view, reply, _item_body(view, reply.item))
    if reply.items is not None:
        return partial_of(_finish, view, reply, _list_body(view, reply))
    if view.form.kind and isinstance(body, dict) and _is_virtual(reply):
        return partial_of(_finish, view, reply, _virtual(view, body))
    if isinstance(body, str):
        return partial_of(Answer, reply.code, TEXT, body.encode(), reply.headers, reply.warnings)
    return partial_of(_finish, view, reply, body)


def _finish(view: View, reply: Reply, body: Any) -> Answer:
    form = view.form
    if not isinstance(body, bytes):
        data = encode(view.names, form, body)
    elif form.media == view.names.media_yaml:
        data = dump_yaml(msgspec.json.decode(body))
    elif form.media != view.names.media_json:
        data = body
    else:
        ended = body if body.endswith(b"\n") else body + b"\n"
        data = msgspec.json.format(body, indent=2) if form.pretty else ended
    return Answer(reply.code, form.media, data, reply.headers, reply.warnings)


def _item_body(view: View, item: Item) -> Any:
    form = view.form
    if form.kind == TABLE:
        revision = item.obj["metadata"].get("resourceVersion")
        metadata = {"resourceVersion": revision} if revision else {}
        return table(view, [item], metadata)
    if form.kind and form.media == view.names.media_protobuf:
        return partial(view, item)
    if form.kind:
        return _partial_bytes(view, item)
    if form.media == view.names.media_json:
        return object_bytes(view.resource, item)
    if form.media == view.names.media_protobuf:
        resource = view.resource
        return protobuf_encode.envelope(resource.api_version, resource.kind, _message(view, item))
    return typed(view.resource, item)


def _list_body(view: View, reply: Reply) -> Any:
    form, resource = view.form, view.resource
    items = reply.items or []
    metadata = list_metadata(reply)
    if form.kind == TABLE:
        return table(view, items, metadata)
    if form.kind:
        # Quirk: an empty list of metadata is null.
        heads: Obj = {"kind": PARTIAL_LIST, "apiVersion": view.meta_version, "metadata": metadata}
        if form.media == view.names.media_protobuf:
            return {**heads, "items": [partial(view, item) for item in items] or None}
        if not items:
            return _encode({**heads, "items": None})
        return _joined(_encode(heads)[:-1] + b',"items":[', [_partial_bytes(view, item) for item in items])
    if form.media == view.names.media_protobuf:
        listed = protobuf_encode.items_message(metadata, [_message(view, item) for item in items])
        return protobuf_encode.envelope(resource.api_version, resource.naming.list_kind, listed)
    if form.media == view.names.media_json:
        if resource.custom:
            metadata = {"continue": "", **metadata}  # Quirk: there in any case
        head = _encode(
            {"kind": resource.naming.list_kind, "apiVersion": resource.api_version, "metadata": metadata}
        )
        return _joined(head[:-1] + b',"items":[', [_listed(resource, item) for item in items])
    values = [
        typed(resource, item)
        if resource.custom
        else {key: value for key, value in whole(item).items() if key not in ("kind", "apiVersion")}
        for item in items
    ]
    return {
        "kind": resource.naming.list_kind,
        "apiVersion": resource.api_version,
        "metadata": metadata,
        "items": values,
    }


def failure(names: Names, form: Form, body: Obj) -> Answer:
    """A Status as an answer, with a Retry-After header if its details have one."""
    after = (body.get("details") or {}).get("retryAfterSeconds", 0)
    headers = {"Retry-After": str(after)} if after else {}
    return Answer(body["code"], form.media, encode(names, form, body), headers)


# --- warnings -------------------------------------------------------------------------------------


def warning_headers(texts: Iterable[str]) -> list[str]:
    """The values of the Warning headers for these texts, each once; long ones are cut if all are
    too long together.

    Quirk: a text that a header cannot hold is dropped; the bound is checked before a warning, not
    after it.
    """
    kept_texts = [text for text in dict.fromkeys(texts) if text and not _CONTROL.search(text)]
    if sum(map(len, kept_texts)) > WARNED_MAX:
        left, kept_texts, whole_ones = WARNED_MAX, [], kept_texts
        for text in whole_ones:
            if left <= 0:
                break
            kept_texts.append(text[:WARNING_MAX])
            left -= len(kept_texts[-1])
    quoted = [_ESCAPED.sub(r"\\\g<0>", text) for text in kept_texts]
    return [f'299 - "{text}"' for text in quoted]


# --- watches --------------------------------------------------------------------------------------


def bookmark(resource: Resource, names: Names, revision: Revision) -> Obj:
    """The object of a bookmark: the zero value of its type, with a revision (cacher.go).

    Quirk: a conversion adds to it what it adds to each object of its kind.
    """
    obj: Obj = {"kind": resource.kind, "apiVersion": resource.api_version}
    metadata: Obj = {"resourceVersion": str(revision)}
    if resource.custom:
        return {**obj, "metadata": metadata}
    obj |= zero_value(resource.schema)
    if resource.rule == "daemonsets":
        metadata |= {"annotations": {names.annotation_template_generation: "0"}}
    return {**obj, "metadata": {**metadata, "creationTimestamp": None}}


class SharedEvents:
    """The bytes of the newest events, which the watches of one front share in each form."""

    def __init__(self) -> None:
        # The item as well, so that its number stays its own.
        self._kept: dict[tuple[int, str, Resource, str], tuple[Item, bytes]] = {}
        self._size = 0

    def find(self, event: WatchEvent, item: Item, view: View, make: Callable[[Item], bytes]) -> bytes:
        """The bytes of an event, made for the first watch that asks."""
        key = id(item), event.type, view.resource, view.form.media
        result = self._kept.get(key)
        if result is not None:
            return result[1]
        data = make(item)
        self._kept[key] = item, data
        self._size += len(data)
        while len(self._kept) > SHARED_MAX or (self._size > SHARED_BYTES and len(self._kept) > 1):
            self._size -= len(self._kept.pop(next(iter(self._kept)))[1])
        return data


class EventWriter:
    """The events of one watch, as lines of JSON or frames of protobuf."""

    def __init__(self, view: View, shared: SharedEvents) -> None:
        self._view = view
        self._shared = shared
        self._first = True
        self._binary = view.form.media == view.names.media_protobuf

    @property
    def media(self) -> str:
        """The media type of the stream."""
        return self._view.form.media + (protobuf_encode.STREAM if self._binary else "")

    def parts(self, events: Iterable[WatchEvent], now_us: int, part_max: int = PART_MAX) -> Iterator[bytes]:
        """The events in parts of limited size, and the remainder of the last event of each: a
        backlog may be long.
        """
        kind, view = self._view.form.kind, self._view
        if kind == PARTIAL_LIST:
            return  # Quirk: upstream cannot convert an event to a list and drops it
        if kind:
            view = msgspec.structs.replace(view, now_us=now_us)
        part, size = [], 0
        for event in events:
            data = self._event(event, self._converted(view, event)) if kind else self._plain(event)
            part.append(data)
            size += len(data)
            if size > part_max:
                yield b"".join(part)
                part, size = [], 0
        if part:
            yield b"".join(part)

    def _plain(self, event: WatchEvent) -> bytes:
        if event.item is None:
            return self._event(event, self._bodyless(event))
        make = partial_of(self._frame if self._binary else self._text, event)
        return self._shared.find(event, event.item, self._view, make)

    def _frame(self, event: WatchEvent, item: Item) -> bytes:
        return protobuf_encode.frame(event.type, _item_body(self._view, item))

    def _text(self, event: WatchEvent, item: Item) -> bytes:
        return self._line(event, object_bytes(self._view.resource, item))

    def _event(self, event: WatchEvent, value: Any) -> bytes:
        if self._binary:
            return protobuf_encode.frame(event.type, protobuf_encode.encode(value, self._view.names))
        return self._line(event, value.rstrip() if isinstance(value, bytes) else _encode(value))

    def _bodyless(self, event: WatchEvent) -> Any:
        if event.status is not None:
            return event.status
        return bookmark(self._view.resource, self._view.names, event.revision)

    @staticmethod
    def _line(event: WatchEvent, obj: bytes) -> bytes:
        return b'{"type":"%b","object":%b}\n' % (event.type.encode(), obj)

    def _converted(self, view: View, event: WatchEvent) -> Any:
        if event.status is not None:
            return event.status
        revision = str(event.revision)
        if view.form.kind != TABLE:
            if event.item is not None:
                return partial(view, event.item) if self._binary else _partial_bytes(view, event.item)
            metadata = {"resourceVersion": revision, "creationTimestamp": None}
            return {"kind": PARTIAL, "apiVersion": view.meta_version, "metadata": metadata}
        zero = bookmark(view.resource, view.names, event.revision)
        items = [event.item or Item("", zero, event.revision, NO_REVISION)]
        first, self._first = self._first, False
        return table(view, items, {"resourceVersion": revision}, first)
