"""JSON values as protobuf replies.

An object, a list, a Status or a discovery document becomes the envelope around its message, and
watch events become frames, by the same field numbers as in `protobuf`.

Holds: `protobuf.decode` reads the written object back.

Mirrors  kubernetes v1.25 apimachinery pkg/runtime/serializer/protobuf, pkg/util/framer (frames of a
         watch).
Differs  zero values that the JSON form omits are omitted here too; a reader cannot notice.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from struct import pack
from typing import Any, NamedTuple

import msgspec

from sim.api.go.escapes import escaped
from sim.api.messages.protobuf import MAGIC
from sim.api.protobuf.numbers import numbers, short_name
from sim.api.protobuf.wire import part, varint
from sim.api.raw_text import text_of
from sim.api.schema.field_schemas import JSON_SCHEMA, OBJECT_META, SchemaNode, schema_of, schema_of_kind
from sim.api.types import Obj
from sim.ident import Names
from sim.units import SECOND, parse_time

STREAM = ";stream=watch"  # of the media type of a watch
_META = OBJECT_META.rpartition(".")[0]


class _Field(NamedTuple):
    """One field. around: the numbers of the inlined messages around it."""

    around: tuple[int, ...]
    number: int
    node: SchemaNode
    wrapped: bool


def envelope(api_version: str, kind: str, message: bytes) -> bytes:
    """A message with its kind and version."""
    meta = part(1, api_version.encode()) + part(2, kind.encode())
    # Encoding and type of the content, which are what they usually are.
    return MAGIC + part(1, meta) + part(2, message) + part(3, b"") + part(4, b"")


def encode(obj: Obj, names: Names) -> bytes:
    """A whole answer that is no list of objects."""
    api_version, kind = str(obj.get("apiVersion", "v1")), str(obj["kind"])
    return envelope(api_version, kind, message(obj, names))


def message(obj: Obj, names: Names) -> bytes:
    """The message of an object, Status, discovery document or list of metadata, by its kind."""
    group, _, version = str(obj.get("apiVersion", "v1")).rpartition("/")
    kind = str(obj["kind"])
    if kind in ("PartialObjectMetadata", "PartialObjectMetadataList"):
        return _partial(obj, kind)
    return _message(schema_of_kind(names.upstream_group(group), version, kind), obj)


def items_message(metadata: Obj, items: list[bytes]) -> bytes:
    """The message of a list."""
    head = part(1, _message(schema_of(f"{_META}.ListMeta"), metadata))
    return head + b"".join([part(2, item) for item in items])


def frame(event: str, obj: bytes) -> bytes:
    """One event of a watch: its length, then a WatchEvent around an enveloped object."""
    data = part(1, event.encode()) + part(2, part(1, obj))
    return len(data).to_bytes(4, "big") + data


def _partial(obj: Obj, kind: str) -> bytes:
    if kind.endswith("List"):
        return items_message(obj["metadata"], [_partial(item, "") for item in obj["items"] or ()])
    return part(1, _message(schema_of(OBJECT_META), obj["metadata"]))


# --- messages -------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _fields(name: str) -> Mapping[str, _Field]:
    """The fields of a message by their JSON names."""
    node = schema_of(name)
    package = name.rpartition(".")[0]

    def walk(message: str, around: tuple[int, ...]) -> Iterator[tuple[str, _Field]]:
        for number, column in numbers()[message].items():
            if column.inline:
                yield from walk(column.inline, (*around, number))
            elif column.field in node.properties:
                yield (
                    column.field,
                    _Field(around, number, node.properties[column.field], column.wrapped),
                )

    return dict(walk(short_name(f"{package}.{name.rpartition('.')[2]}"), ()))


def _message(node: SchemaNode, obj: Obj) -> bytes:
    fields = _fields(node.name)
    out = bytearray()
    inlined: dict[tuple[int, ...], bytearray] = {}
    for name, value in obj.items():
        field = fields.get(name)
        if field is None or value is None:
            continue
        made = _field(field, value)
        if field.around:
            inlined.setdefault(field.around, bytearray()).extend(made)
        else:
            out += made
    # Deepest first, so that nested inlined messages are complete before they are inlined.
    for depth in range(max(map(len, inlined), default=0), 0, -1):
        for around in [around for around in inlined if len(around) == depth]:
            inner = part(around[-1], bytes(inlined[around]))
            if depth > 1:
                inlined.setdefault(around[:-1], bytearray()).extend(inner)
            else:
                out += inner
    return bytes(out)


def _field(field: _Field, value: Any) -> bytes:
    number, node = field.number, field.node
    if node.type == "array" and node.items is not None:
        parts = b"".join([_single(1 if field.wrapped else number, node.items, item) for item in value])
        return part(number, parts) if field.wrapped else parts
    if node.type == "map" and node.values is not None:
        below = node.values
        return b"".join(
            [part(number, part(1, key.encode()) + _single(2, below, entry)) for key, entry in value.items()]
        )
    return _single(number, node, value)


def _single(number: int, node: SchemaNode, value: Any) -> bytes:
    """One value with its number."""
    special = _SPECIAL.get(node.name.rpartition(".")[2])
    if special is not None and node.name.startswith("io.k8s.apimachinery."):
        return part(number, special(value))
    if node.type in _OF_SCHEMAS:
        return part(number, _OF_SCHEMAS[node.type](value))
    if node.type == "number":
        return varint(number << 3 | 1) + pack("<d", value)
    if node.type == "boolean":
        return varint(number << 3) + (b"\x01" if value else b"\x00")
    if node.type == "integer":
        return varint(number << 3) + varint(int(value))
    if node.type == "array" and node.items is not None:  # as a map's value: a message of its own
        return part(number, b"".join([_single(1, node.items, item) for item in value or ()]))
    if node.type in ("object", "map"):
        return part(number, _message(node, value or {}))
    text = "" if value is None else str(value)
    return part(number, b64decode(text) if node.format == "byte" else text.encode("utf-8", "replace"))


# --- types with forms of their own ----------------------------------------------------------------


def _time(text: str) -> bytes:
    at_us = parse_time(text)
    nanos = at_us % SECOND * 1000
    return varint(1 << 3) + varint(at_us // SECOND) + varint(2 << 3) + varint(nanos)


def _int_or_string(value: int | str) -> bytes:
    if isinstance(value, str):
        return varint(1 << 3) + b"\x01" + part(3, value.encode())
    return varint(1 << 3) + b"\x00" + varint(2 << 3) + varint(value)


def _json(value: Any) -> bytes:
    return part(1, escaped(msgspec.json.encode(value)))


def _raw(value: Any) -> bytes:
    return part(1, text_of(value))


def _schema(number: int, value: Obj) -> bytes:
    return part(number, _message(schema_of(JSON_SCHEMA), value))


def _schema_or_bool(value: Obj | bool) -> bytes:
    """A schema of further properties or items, or whether there may be any."""
    allowed = varint(1 << 3) + (b"\x01" if value is not False else b"\x00")
    return allowed + _schema(2, value) if isinstance(value, dict) else allowed


def _schema_or_list(value: Obj | list[Any]) -> bytes:
    if isinstance(value, dict):
        return _schema(1, value)
    return b"".join(_schema(2, item) if isinstance(item, dict) else part(2, item.encode()) for item in value)


_OF_SCHEMAS: dict[str, Callable[[Any], bytes]] = {
    "any": _json,
    "schema-or-bool": _schema_or_bool,
    "schema-or-list": _schema_or_list,
    "schema-or-names": _schema_or_list,
}
_SPECIAL: dict[str, Callable[[Any], bytes]] = {
    "Time": _time,
    "MicroTime": _time,
    "Quantity": lambda value: part(1, str(value).encode()),
    "IntOrString": _int_or_string,
    "FieldsV1": _json,
    "RawExtension": _raw,
}
