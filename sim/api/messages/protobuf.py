"""Protobuf bodies, which Go clients send by default, as JSON values.

The envelope and the message inside become the object that the same body in JSON would give, by the
field numbers in `sim.api.protobuf.numbers` and the types in the schema.

Holds: every length is checked against the data; nesting and the number of fields are bounded;
unknown fields are skipped; any bytes give a JSON value or a `ProtobufError`.

Mirrors  kubernetes v1.25 apimachinery pkg/runtime/serializer/protobuf, api */generated.proto
         (numbers only).
Differs  fields newer than the schema are dropped; bytes that must be JSON and are not are refused
         here, and so are times outside of the years 1 to 9999, which JSON cannot hold. Bytes of a
         name that are no UTF-8 become U+FFFD.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Container, Iterator
from math import isfinite
from struct import unpack
from typing import Any, NamedTuple

import msgspec

from sim.api.protobuf.numbers import Column, numbers, short_name
from sim.api.schema.field_schemas import JSON_SCHEMA, OBJECT_META, SchemaNode, schema_of, schema_of_kind
from sim.api.schema.zero_values import zero_value
from sim.patterns import pattern
from sim.units import NANO, SECOND, format_micro_time, format_time

MAGIC = b"k8s\x00"
DEPTH_MAX = 64  # schemas nest about 20 deep
FIELDS_MAX = 150_000  # an entry of a map is three: itself, its key and its value
ANSWER_FIELDS_MAX = 1 << 30  # of an answer, which is as long as the list that was asked for
_LIST_META = f"{OBJECT_META.rpartition('.')[0]}.ListMeta"
_VARINT, _FIXED64, _BYTES, _GROUP, _END_GROUP, _FIXED32 = 0, 1, 2, 3, 4, 5
_READ = (_VARINT, _FIXED64, _BYTES, _FIXED32)
_VARINT_BITS = 64
_INT64, _INT32 = 1 << 63, 1 << 31
# Unix seconds; YEAR_1_S is Go's zero time.
YEAR_1_S, _YEAR_10000_S = -62_135_596_800, 253_402_300_800

WHOLE_MAX = 1 << 63


class ProtobufError(Exception):
    """The body is no message of its kind."""


class MessageError(ProtobufError):
    """The message in a body is malformed; its kind and version are known."""

    def __init__(self, why: str, kind: str, version: str) -> None:
        super().__init__(why)
        self.kind = kind
        self.version = version


class ProtobufTooLarge(ProtobufError):
    """The body has more fields than are read."""


# Kinds of older versions that a request may have, or that v1.25 stores, with the fields of v1.
_OLDER, _SAME_FIELDS = "v1beta1", ("Eviction", "PodDisruptionBudget", "EndpointSlice")


class Default(NamedTuple):
    """What a body is that does not say what it is."""

    api_version: str
    kind: str


def decode(body: bytes, upstream_group: str, default: Default = Default("", "")) -> Any:
    """The object in a body; `upstream_group` of the kind it should be of.

    Of a kind that is not known it has only apiVersion and kind, by which its decoder refuses it.
    Raises ProtobufError, and MessageError for what is inside of the envelope.
    """
    if not body:
        raise ProtobufError("empty data")
    if not body.startswith(MAGIC):
        raise ProtobufError(
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
        )
    if body == MAGIC:
        raise ProtobufError("empty body")
    return _Reader(FIELDS_MAX).envelope(body[len(MAGIC) :], upstream_group, default)


def decode_answer(body: bytes, upstream: Callable[[str], str], item_kind: str = "") -> Any:
    """The object in an answer of a server, of a kind that its envelope names, as the answer in JSON
    would hold it.  Raises ProtobufError.

    upstream: upstream's name of a group
    item_kind: of the objects, if it may be a list of them
    """
    if not body.startswith(MAGIC):
        raise ProtobufError("no envelope")
    reader, data = _Reader(ANSWER_FIELDS_MAX, whole=True), body[len(MAGIC) :]
    parts = {number: _bytes(value) for number, value in reader._pairs(data)}
    meta = reader._type_meta(parts.get(1, b""))
    api_version, kind = _text(meta.get(1, b"")), _text(meta.get(2, b""))
    if not kind:
        raise ProtobufError("no kind")
    group, _, version = api_version.rpartition("/")
    if kind != f"{item_kind}List" or not item_kind:
        return _plain(reader.envelope(data, upstream(group), Default(api_version, kind)))
    try:
        node, list_meta = schema_of_kind(upstream(group), version, item_kind), schema_of(_LIST_META)
    except KeyError:
        raise ProtobufError(f"no kind {kind} of {api_version}") from None
    found: dict[str, Any] = {"apiVersion": api_version, "kind": kind, "metadata": {}, "items": []}
    for number, value in reader._pairs(parts.get(2, b"")):
        if number == 1:
            found["metadata"] = reader._message(list_meta, list_meta.name, _bytes(value), 0)
        elif number == 2:
            found["items"].append(reader._message(node, node.name, _bytes(value), 0))
    return _plain(found)


def _plain(value: Any) -> Any:
    """The value with what is JSON inside of the message (raw objects of revisions) read."""
    try:
        return msgspec.json.decode(msgspec.json.encode(value))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise ProtobufError("bytes that must be JSON are not") from None


def decode_frame(frame: bytes) -> tuple[str, bytes]:
    """The type and the enveloped object of an event.  frame: without its length.  Raises
    ProtobufError.
    """
    reader = _Reader(FIELDS_MAX)
    parts = {number: _bytes(value) for number, value in reader._pairs(frame)}
    raw = {number: _bytes(value) for number, value in reader._pairs(parts.get(2, b""))}
    return _text(parts.get(1, b"")), raw.get(1, b"")


_ENVELOPE = {1: "TypeMeta", 2: "Raw", 3: "ContentEncoding", 4: "ContentType"}
_TYPE_META = {1: "APIVersion", 2: "Kind"}


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
        if shift >= _VARINT_BITS:
            raise ProtobufError("proto: integer overflow")


def _wrong_wire(wire: int, field: str) -> ProtobufError:
    return ProtobufError(f"proto: wrong wireType = {wire} for field {field}")


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
    """Reads one body.

    left: number of fields that may still be read
    whole: True adds the fields that Go's JSON encoder writes always
    """

    def __init__(self, left: int, *, whole: bool = False) -> None:
        self._left = left
        self._whole = whole

    def envelope(self, data: bytes, upstream_group: str, default: Default) -> Any:
        parts: dict[int, bytes] = {}
        meta: dict[int, bytes] = {}
        for number, wire, value in self._fields(data, "Unknown", _ENVELOPE):
            if number not in _ENVELOPE:
                continue
            if wire != _BYTES:
                raise _wrong_wire(wire, _ENVELOPE[number])
            parts[number] = _bytes(value)
            if number == 1:
                meta |= self._type_meta(parts[number])
        api_version, kind = _text(meta.get(1, b"")), _text(meta.get(2, b"")) or default.kind
        if not api_version or api_version.count("/") > 1:
            api_version = default.api_version
        version = api_version.rpartition("/")[2]
        made = {"apiVersion": api_version, "kind": kind}
        fields = "v1" if version == _OLDER and kind in _SAME_FIELDS else version
        try:
            node = schema_of_kind(upstream_group, fields, kind)
        except KeyError:
            return made
        if short_name(node.name) not in numbers():
            return made
        try:
            return made | self._message(node, node.name, parts.get(2, b""), 0)
        except ProtobufTooLarge:
            raise
        except ProtobufError as error:
            raise MessageError(str(error), kind, version) from None

    def _type_meta(self, data: bytes) -> dict[int, bytes]:
        found = {}
        for number, wire, value in self._fields(data, "TypeMeta", _TYPE_META):
            if number in _TYPE_META:
                if wire != _BYTES:
                    raise _wrong_wire(wire, _TYPE_META[number])
                found[number] = _bytes(value)
        return found

    def _pairs(self, data: bytes) -> Iterator[tuple[int, int | bytes]]:
        """Field numbers and values of a message, read without its types."""
        for number, _, value in self._fields(data, "", ()):
            yield number, value

    def _fields(
        self, data: bytes, message: str, known: Container[int]
    ) -> Iterator[tuple[int, int, int | bytes]]:
        """Field numbers, wire types and values of one message.

        message: its name in errors; "" for the entry of a map, in which fields are not checked
        known: the fields that the message has: their wire types are the caller's to check
        """
        at, end = 0, len(data)
        while at < end:
            self._left -= 1
            if self._left < 0:
                raise ProtobufTooLarge("too many fields")
            tag, at = _varint(data, at)
            number, wire = (tag >> 3) % (2 * _INT32), tag & 7
            if message and wire == _END_GROUP:
                raise ProtobufError(f"proto: {message}: wiretype end group for non-group")
            if message and not 0 < number < _INT32:
                shown = number - 2 * _INT32 if number else 0
                raise ProtobufError(f"proto: {message}: illegal tag {shown} (wire type {tag})")
            value: int | bytes = b""
            if number not in known or wire in _READ:
                value, at = self._any(data, at, wire)
            yield number, wire, value

    def _any(self, data: bytes, at: int, wire: int) -> tuple[int | bytes, int]:
        """The value of a field, and where it ends; b"" for a group."""
        if wire == _VARINT:
            return _varint(data, at)
        if wire == _GROUP:
            return b"", self._after_group(data, at)
        if wire == _END_GROUP:
            raise ProtobufError("proto: unexpected end of group")
        if wire == _BYTES:
            size, at = _varint(data, at)
            if size >= _INT64:
                raise ProtobufError("proto: negative length found during unmarshaling")
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
        else:
            raise ProtobufError(f"proto: illegal wireType {wire}")
        if at + size > len(data):
            raise ProtobufError("unexpected EOF")
        return data[at : at + size], at + size

    def _after_group(self, data: bytes, at: int) -> int:
        """Where a group ends, from behind its first tag (skipGenerated)."""
        depth = 1
        while depth:
            self._left -= 1
            if self._left < 0:
                raise ProtobufTooLarge("too many fields")
            tag, at = _varint(data, at)
            wire = tag & 7
            if wire in (_GROUP, _END_GROUP):
                depth += 1 if wire == _GROUP else -1
            else:
                _, at = self._any(data, at, wire)
        return at

    def _message(self, node: SchemaNode, name: str, data: bytes, depth: int) -> dict[str, Any]:
        """A message with the schema `node`; `name` selects its field numbers."""
        if depth > DEPTH_MAX:
            raise ProtobufError("exceeded max depth")
        table = numbers().get(short_name(name), {})
        made: dict[str, Any] = {}
        for number, wire, value in self._fields(data, name.rpartition(".")[2], table):
            column = table.get(number)
            if column is None:
                continue
            below = node if column.inline else node.properties.get(column.field)
            if below is None:
                continue
            many = below.type == "array" and below.items is not None and not column.inline
            item = below.items if many and below.items is not None else below
            packed = many and item.type in _PACKED and wire == _BYTES
            if wire != _wire_of(item, column) and not packed:
                raise _wrong_wire(wire, _go_name(column, node))
            if column.inline:
                made |= self._message(node, column.inline, _bytes(value), depth + 1)
            elif packed:
                made.setdefault(column.field, []).extend(_unpacked(item, _bytes(value)))
            elif many:
                made.setdefault(column.field, []).append(self._value(item, value, depth))
            elif below.type == "map" and below.values is not None:
                key, entry = self._entry(below.values, _bytes(value), depth)
                made.setdefault(column.field, {})[key] = entry
            else:
                found = self._value(below, value, depth)
                if found is not None and (column.pointer or found not in ("", 0, False, {})):
                    made[column.field] = found
        return {**zero_value(node), **made} if self._whole and name == node.name else made

    def _entry(self, node: SchemaNode, data: bytes, depth: int) -> tuple[str, Any]:
        parts = dict(self._pairs(data))
        absent: int | bytes = 0 if node.type in ("boolean", "integer") else b""
        return _text(parts.get(1, b"")), self._value(node, parts.get(2, absent), depth)

    def _value(self, node: SchemaNode, value: int | bytes, depth: int) -> Any:
        special = _SPECIAL.get(node.name.rpartition(".")[2])
        if special is not None and node.name.startswith("io.k8s.apimachinery."):
            return special(dict(self._pairs(_bytes(value))))
        if node.type in ("object", "map"):
            return self._message(node, node.name, _bytes(value), depth + 1)
        if node.type == "any":
            return _json(dict(self._pairs(_bytes(value))))
        if node.type.startswith("schema-or-"):
            return self._schema_or_other(node.type, _bytes(value), depth)
        if node.type == "number":
            return _double(_bytes(value))
        # As a map's value: a message of its own.
        if node.type == "array" and node.items is not None:
            entries = self._pairs(_bytes(value))
            return [self._value(node.items, entry, depth + 1) for number, entry in entries if number == 1]
        if node.type == "boolean":
            return bool(_signed(value))
        if node.type == "integer":
            return _signed(value, _INT32 if node.format == "int32" else _INT64)
        return b64encode(_bytes(value)).decode() if node.format == "byte" else _text(value)

    def _schema_or_other(self, kind: str, data: bytes, depth: int) -> Any:
        """A JSON schema, or what may be in its place: a boolean, schemas, or names."""
        node = schema_of(JSON_SCHEMA)
        fields = list(self._pairs(data))
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


# --- fields ---------------------------------------------------------------------------------------

_PACKED = ("integer", "boolean")  # a list of these may be one field


def _wire_of(node: SchemaNode, column: Column) -> int:
    """The wire type that a field must have."""
    if column.inline or column.wrapped or node.name:
        return _BYTES
    if node.type in _PACKED:
        return _VARINT
    return _FIXED64 if node.type == "number" else _BYTES


def _unpacked(node: SchemaNode, data: bytes) -> list[int | bool]:
    """The values of a list of numbers that is one field."""
    found: list[int | bool] = []
    at = 0
    while at < len(data):
        value, at = _varint(data, at)
        number = _signed(value, _INT32 if node.format == "int32" else _INT64)
        found.append(bool(number) if node.type == "boolean" else number)
    return found


# The words that Go writes in capitals at the begin of a name; elsewhere JSON does it too.
_INITIALS = pattern(
    r"^(?:api|aws|ca|cidr|csi|dns|fc|fs|gce|gid|grpc|http|https|id|io|ip|iqn|iscsi|nfs|os|rbd|se|tcp|tls|tty|uid|url)"
    r"(?=[A-Z]|s?$)"
)


def _go_name(column: Column, node: SchemaNode) -> str:
    """The name of a field in Go, from its name in JSON."""
    if column.inline:
        return column.inline.rpartition(".")[2]
    if column.field == "metadata":
        meta = node.properties["metadata"].name.rpartition(".")[2]
        return meta if meta in ("ObjectMeta", "ListMeta") else "Metadata"
    name = _INITIALS.sub(lambda found: found[0].upper(), column.field)
    return name[:1].upper() + name[1:]


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
