"""Protobuf bodies, which Go clients send by default, as JSON values.

Turns the envelope and the message inside it into the object that the same body in JSON would be, from the field
numbers in `sim.machinery.protobuf_numbers` and the types in the schema.

Holds: every length is checked against what is there; nesting is bounded; unknown fields are skipped.

Mirrors  kubernetes v1.25 apimachinery pkg/runtime/serializer/protobuf, api */generated.proto (numbers only).
Differs  fields newer than the schema are dropped.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import msgspec

from sim.machinery.protobuf_numbers import numbers, short_name
from sim.machinery.schema import SchemaNode, schema_of_kind
from sim.units import SECOND, format_micro_time, format_time

MAGIC = b"k8s\x00"
DEPTH_MAX = 64  # schemas nest about 20 deep
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_INT64 = 1 << 63
YEAR_1_S = -62_135_596_800  # Unix time of Go's zero time


class ProtobufError(Exception):
    """The body is no message of its kind."""


def decode(body: bytes, upstream_group: str) -> Any:
    """The object in a body; `upstream_group` of the kind it should be of.  Raises ProtobufError."""
    if not body.startswith(MAGIC):
        raise ProtobufError(
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
        )
    api_version, kind, raw = "", "", b""
    for number, value in _fields(body[len(MAGIC) :]):
        if number == 1 and isinstance(value, bytes):
            meta = {n: v.decode("utf-8", "replace") for n, v in _fields(value) if isinstance(v, bytes)}
            api_version, kind = meta.get(1, ""), meta.get(2, "")
        elif number == 2 and isinstance(value, bytes):
            raw = value
    version = api_version.rpartition("/")[2]
    try:
        node = schema_of_kind(upstream_group, version, kind)
    except KeyError:
        raise ProtobufError(_unknown(kind, api_version)) from None
    if short_name(node.name) not in numbers():
        raise ProtobufError(_unknown(kind, api_version))
    return {"apiVersion": api_version, "kind": kind, **_message(node, node.name, raw, 0)}


def _unknown(kind: str, api_version: str) -> str:
    return f'no kind "{kind}" is known for version "{api_version}"'


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Field numbers and values of one message."""
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if wire == _BYTES:
            size, at = _varint(data, at)
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
        else:
            raise ProtobufError(f"illegal wireType {wire}")
        if at + size > end:
            raise ProtobufError("unexpected EOF")
        yield number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data):
            raise ProtobufError("unexpected EOF")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift >= 64:
            raise ProtobufError("proto: integer overflow")


def _message(node: SchemaNode, name: str, data: bytes, depth: int) -> dict[str, Any]:
    """A message whose schema is `node` and whose numbers stand under `name`."""
    if depth > DEPTH_MAX:
        raise ProtobufError("exceeded max depth")
    table = numbers()[short_name(name)]
    made: dict[str, Any] = {}
    for number, value in _fields(data):
        column = table.get(number)
        if column is None:
            continue
        if column.inline:
            made |= _message(node, column.inline, _bytes(value), depth + 1)
            continue
        below = node.properties[column.field]
        if below.type == "array" and below.items is not None:
            made.setdefault(column.field, []).append(_value(below.items, value, depth))
        elif below.type == "map" and below.values is not None:
            key, entry = _entry(below.values, _bytes(value), depth)
            made.setdefault(column.field, {})[key] = entry
        else:
            found = _value(below, value, depth)
            if found is not None and (column.pointer or found not in ("", 0, False, {})):
                made[column.field] = found
    return made


def _entry(node: SchemaNode, data: bytes, depth: int) -> tuple[str, Any]:
    parts = dict(_fields(data))
    key = _bytes(parts.get(1, b"")).decode("utf-8", "replace")
    return key, _value(node, parts[2], depth) if 2 in parts else ""


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ProtobufError("wrong wireType")
    return value


def _signed(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise ProtobufError("wrong wireType")
    return value - (_INT64 << 1) if value >= _INT64 else value


def _value(node: SchemaNode, value: int | bytes, depth: int) -> Any:
    special = _SPECIAL.get(node.name.rpartition(".")[2])
    if special is not None and node.name.startswith("io.k8s.apimachinery."):
        return special(_bytes(value))
    if node.type in ("object", "map"):
        return _message(node, node.name, _bytes(value), depth + 1)
    if node.type == "array" and node.items is not None:  # as a map's value: a message of its own
        return [_value(node.items, entry, depth) for number, entry in _fields(_bytes(value)) if number == 1]
    if node.type == "boolean":
        return bool(_signed(value))
    if node.type == "integer":
        return _signed(value)
    raw = _bytes(value)
    return b64encode(raw).decode() if node.format == "byte" else raw.decode("utf-8", "replace")


# --- types with forms of their own ------------------------------------------------------------------------


def _instant(data: bytes) -> tuple[int, int] | None:
    """Seconds since 1970, negative before, and nanoseconds; None for no time, which Go writes as an empty message.

    Quirk: client-go sends the year 1 for it.
    """
    parts = dict(_fields(data))
    instant = _signed(parts.get(1, 0)), _signed(parts.get(2, 0))
    return None if not parts or instant == (YEAR_1_S, 0) else instant


def _time(data: bytes) -> Any:
    instant = _instant(data)
    return None if instant is None else format_time(instant[0] * SECOND)


def _micro_time(data: bytes) -> Any:
    instant = _instant(data)
    return None if instant is None else format_micro_time(instant[0] * SECOND + instant[1] // 1000)


def _quantity(data: bytes) -> Any:
    return _bytes(dict(_fields(data)).get(1, b"0")).decode("utf-8", "replace") or "0"


def _int_or_string(data: bytes) -> Any:
    parts = dict(_fields(data))
    if _signed(parts.get(1, 0)):
        return _bytes(parts.get(3, b"")).decode("utf-8", "replace")
    return _signed(parts.get(2, 0))


def _json(data: bytes) -> Any:
    try:
        return msgspec.json.decode(_bytes(dict(_fields(data)).get(1, b"")) or b"null")
    except (msgspec.DecodeError, RecursionError) as error:
        raise ProtobufError(str(error)) from None


_SPECIAL = {
    "Time": _time,
    "MicroTime": _micro_time,
    "Quantity": _quantity,
    "IntOrString": _int_or_string,
    "FieldsV1": _json,
    "RawExtension": _json,
}
