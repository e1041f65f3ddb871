"""Protobuf bodies, which Go clients send by default, as JSON values.

The envelope and the message inside become the object that the same body in JSON would give, by the
field numbers in `sim.api.protobuf.numbers` and the types in the schema.

Holds: every length is checked against the data; nesting and the number of fields are bounded;
unknown fields are skipped; any bytes give a JSON value or a `ProtobufError`.

Mirrors  kubernetes v1.25 apimachinery pkg/runtime/serializer/protobuf, api */generated.proto
         (numbers only).
Differs  fields newer than the schema are dropped; bytes that must be JSON and are not are refused
         here, and so are times outside of the years 1 to 9999, which JSON cannot hold.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator
from math import isfinite
from struct import unpack
from typing import Any

import msgspec

from sim.api.protobuf.numbers import numbers, short_name
from sim.api.schema.field_schemas import JSON_SCHEMA, SchemaNode, schema_of, schema_of_kind
from sim.units import NANO, SECOND, format_micro_time, format_time

MAGIC = b"k8s\x00"
DEPTH_MAX = 64  # schemas nest about 20 deep
FIELDS_MAX = 150_000  # an entry of a map is three: itself, its key and its value
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_INT64, _INT32 = 1 << 63, 1 << 31
# Unix seconds; YEAR_1_S is Go's zero time.
YEAR_1_S, _YEAR_10000_S = -62_135_596_800, 253_402_300_800

WHOLE_MAX = 1 << 63


class ProtobufError(Exception):
    """The body is no message of its kind."""


class ProtobufTooLarge(ProtobufError):
    """The body has more fields than are read."""


# Older versions that a request may still have, with the fields of a version in the document.
_SAME_FIELDS = {("policy/v1beta1", "Eviction"): "v1"}


def decode(body: bytes, upstream_group: str) -> Any:
    """The object in a body; `upstream_group` of the kind it should be of.  Raises ProtobufError."""
    if not body.startswith(MAGIC):
        raise ProtobufError(
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
        )
    return _Reader(FIELDS_MAX).envelope(body[len(MAGIC) :], upstream_group)


def _unknown(kind: str, api_version: str) -> str:
    return f'no kind "{kind}" is known for version "{api_version}"'


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data):
            raise ProtobufError("unexpected EOF")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (2 * _INT64 - 1), at
        shift += 7
        if shift >= 64:
            raise ProtobufError("proto: integer overflow")


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ProtobufError("wrong wireType")
    return value


def _text(value: int | bytes) -> str:
    return _bytes(value).decode("utf-8", "replace")


def _signed(value: int | bytes, half: int = _INT64) -> int:
    """half: 2^31 or 2^63; what is larger wraps around, as in Go."""
    if not isinstance(value, int):
        raise ProtobufError("wrong wireType")
    value %= 2 * half
    return value - 2 * half if value >= half else value


class _Reader:
    """Reads one body. left: number of fields that may still be read."""

    def __init__(self, left: int) -> None:
        self._left = left

    def envelope(self, data: bytes, upstream_group: str) -> Any:
        api_version, kind, raw = "", "", b""
        for number, value in self._fields(data):
            if number == 1 and isinstance(value, bytes):
                meta = {n: _text(v) for n, v in self._fields(value) if isinstance(v, bytes)}
                api_version, kind = meta.get(1, ""), meta.get(2, "")
            elif number == 2 and isinstance(value, bytes):
                raw = value
        version = api_version.rpartition("/")[2]
        try:
            node = schema_of_kind(upstream_group, _SAME_FIELDS.get((api_version, kind), version), kind)
        except KeyError:
            raise ProtobufError(_unknown(kind, api_version)) from None
        if short_name(node.name) not in numbers():
            raise ProtobufError(_unknown(kind, api_version))
        return {"apiVersion": api_version, "kind": kind, **self._message(node, node.name, raw, 0)}

    def _fields(self, data: bytes) -> Iterator[tuple[int, int | bytes]]:
        """Field numbers and values of one message."""
        at, end = 0, len(data)
        while at < end:
            self._left -= 1
            if self._left < 0:
                raise ProtobufTooLarge("too many fields")
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

    def _message(self, node: SchemaNode, name: str, data: bytes, depth: int) -> dict[str, Any]:
        """A message with the schema `node`; `name` selects its field numbers."""
        if depth > DEPTH_MAX:
            raise ProtobufError("exceeded max depth")
        table = numbers().get(short_name(name), {})
        made: dict[str, Any] = {}
        for number, value in self._fields(data):
            column = table.get(number)
            if column is None:
                continue
            if column.inline:
                made |= self._message(node, column.inline, _bytes(value), depth + 1)
                continue
            below = node.properties.get(column.field)
            if below is None:
                continue
            if below.type == "array" and below.items is not None:
                made.setdefault(column.field, []).append(self._value(below.items, value, depth))
            elif below.type == "map" and below.values is not None:
                key, entry = self._entry(below.values, _bytes(value), depth)
                made.setdefault(column.field, {})[key] = entry
            else:
                found = self._value(below, value, depth)
                if found is not None and (column.pointer or found not in ("", 0, False, {})):
                    made[column.field] = found
        return made

    def _entry(self, node: SchemaNode, data: bytes, depth: int) -> tuple[str, Any]:
        parts = dict(self._fields(data))
        absent: int | bytes = 0 if node.type in ("boolean", "integer") else b""
        return _text(parts.get(1, b"")), self._value(node, parts.get(2, absent), depth)

    def _value(self, node: SchemaNode, value: int | bytes, depth: int) -> Any:
        special = _SPECIAL.get(node.name.rpartition(".")[2])
        if special is not None and node.name.startswith("io.k8s.apimachinery."):
            return special(dict(self._fields(_bytes(value))))
        if node.type in ("object", "map"):
            return self._message(node, node.name, _bytes(value), depth + 1)
        if node.type == "any":
            return _json(dict(self._fields(_bytes(value))))
        if node.type.startswith("schema-or-"):
            return self._schema_or_other(node.type, _bytes(value), depth)
        if node.type == "number":
            return _double(_bytes(value))
        # As a map's value: a message of its own.
        if node.type == "array" and node.items is not None:
            entries = self._fields(_bytes(value))
            return [self._value(node.items, entry, depth + 1) for number, entry in entries if number == 1]
        if node.type == "boolean":
            return bool(_signed(value))
        if node.type == "integer":
            return _signed(value, _INT32 if node.format == "int32" else _INT64)
        return b64encode(_bytes(value)).decode() if node.format == "byte" else _text(value)

    def _schema_or_other(self, kind: str, data: bytes, depth: int) -> Any:
        """A JSON schema, or what may be in its place: a boolean, schemas, or names."""
        node = schema_of(JSON_SCHEMA)
        fields = list(self._fields(data))
        one = 2 if kind == "schema-or-bool" else 1
        for number, value in fields:
            if number == one:
                return self._message(node, node.name, _bytes(value), depth + 1)
        if kind == "schema-or-bool":
            return bool(dict(fields).get(1, 0))
        rest = [_bytes(value) for number, value in fields if number == 2]
        if kind == "schema-or-names":
            return [_text(value) for value in rest]
        return [self._message(node, node.name, value, depth + 1) for value in rest]


# --- types with forms of their own, from the fields of their messages -----------------------------

_Parts = dict[int, int | bytes]


def _instant(parts: _Parts) -> tuple[int, int] | None:
    """Seconds since 1970, negative before, and nanoseconds; None for no time, which Go writes as an
    empty message.

    Quirk: client-go sends the year 1 for it.
    """
    seconds, nanos = _signed(parts.get(1, 0)), _signed(parts.get(2, 0), _INT32)
    if not parts or (seconds, nanos) == (YEAR_1_S, 0):
        return None
    seconds, nanos = seconds + nanos // NANO, nanos % NANO
    if not YEAR_1_S <= seconds < _YEAR_10000_S:
        raise ProtobufError("year outside of range [0,9999]")
    return seconds, nanos


def _time(parts: _Parts) -> Any:
    instant = _instant(parts)
    return None if instant is None else format_time(instant[0] * SECOND)


def _micro_time(parts: _Parts) -> Any:
    instant = _instant(parts)
    return None if instant is None else format_micro_time(instant[0] * SECOND + instant[1] // 1000)


def _quantity(parts: _Parts) -> Any:
    return _text(parts.get(1, b"")) or "0"


def _int_or_string(parts: _Parts) -> Any:
    if _signed(parts.get(1, 0)):
        return _text(parts.get(3, b""))
    return _signed(parts.get(2, 0), _INT32)


def _double(data: bytes) -> int | float:
    """A number as Go writes it in JSON: without a point if it is whole."""
    if len(data) != 8:
        raise ProtobufError("unexpected EOF")
    (found,) = unpack("<d", data)
    if not isfinite(found):
        raise ProtobufError(f"json: unsupported value: {found}")
    return int(found) if found.is_integer() and abs(found) < WHOLE_MAX else float(found)


def _json(parts: _Parts) -> Any:
    try:
        return msgspec.json.decode(_bytes(parts.get(1, b"")) or b"null")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtobufError(str(error)) from None


def _raw(parts: _Parts) -> Any:
    """A value in its own text, which the body of the request carries on."""
    _json(parts)
    return msgspec.Raw(_bytes(parts.get(1, b"")) or b"null")


_SPECIAL: dict[str, Callable[[_Parts], Any]] = {
    "Time": _time,
    "MicroTime": _micro_time,
    "Quantity": _quantity,
    "IntOrString": _int_or_string,
    "FieldsV1": _json,
    "RawExtension": _raw,
}
