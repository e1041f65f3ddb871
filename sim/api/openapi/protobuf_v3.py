"""The protobuf form of an OpenAPI v3 document, which clients read that ask for it by its type.

Mirrors  google/gnostic-models openapiv3/OpenAPIv3.proto (field numbers only); kube-openapi
         pkg/handler3/handler.go (ToV3ProtoBinary).
Differs  only the members that this server's documents contain are encoded; a default that is an
         object has no form in this message and is left out.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from sim.api.protobuf.wire import part, varint

MEDIA = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"
Body = dict[str, Any]


def document(body: Body) -> bytes:
    """The bytes of a document."""
    info, components = body["info"], body["components"]
    out = _text(1, body["openapi"]) + part(2, _text(1, info["title"]) + _text(6, info["version"]))
    out += part(4, b"".join(part(1, _named(path, _path(item))) for path, item in body["paths"].items()))
    schemas = part(1, _mapped(components.get("schemas", {}), _schema_or_reference))
    schemes = part(7, _mapped(components.get("securitySchemes", {}), lambda raw: part(1, _scheme(raw))))
    return out + part(5, schemas + schemes) + _extensions(9, body)


# --- the wire -------------------------------------------------------------------------------------


def _text(number: int, text: str) -> bytes:
    return part(number, text.encode())


def _flag(number: int, value: bool) -> bytes:
    return varint(number << 3) + varint(int(value)) if value else b""


def _whole(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(int(value))


def _double(number: int, value: float) -> bytes:
    return varint(number << 3 | 1) + struct.pack("<d", value)


def _named(name: str, value: bytes) -> bytes:
    return _text(1, name) + part(2, value)


def _mapped(values: Body, form: Callable[[Any], bytes]) -> bytes:
    """A message that is a list of names with values."""
    return b"".join(part(1, _named(name, form(value))) for name, value in values.items())


def _any(value: Any) -> bytes:
    """A value of any type, as YAML; JSON is YAML too."""
    return _text(2, msgspec.json.encode(value).decode() + "\n")


def _extensions(number: int, raw: Body) -> bytes:
    return b"".join(
        part(number, _named(key, _any(value))) for key, value in raw.items() if key.startswith("x-")
    )


# --- schemas --------------------------------------------------------------------------------------


def _schema_or_reference(raw: Body) -> bytes:
    if "$ref" in raw:
        return part(2, _text(1, raw["$ref"]))
    return part(1, _schema(raw))


def _schema(raw: Body) -> bytes:
    members = b"".join(_MEMBERS[key](value) for key, value in raw.items() if key in _MEMBERS)
    return members + _extensions(36, raw)


def _each(number: int, parts: Iterable[bytes]) -> bytes:
    return b"".join(part(number, each) for each in parts)


def _default(value: Any) -> bytes:
    if isinstance(value, bool):
        return part(33, varint(2 << 3) + varint(int(value)))
    if isinstance(value, int | float):
        return part(33, _double(1, value))
    return part(33, _text(3, value)) if isinstance(value, str) else b""


def _additional(value: Any) -> bytes:
    if isinstance(value, bool):
        return part(32, varint(2 << 3) + varint(int(value)))
    return part(32, part(1, _schema_or_reference(value)))


_MEMBERS: dict[str, Callable[[Any], bytes]] = {
    "nullable": lambda v: _flag(1, v),
    "title": lambda v: _text(9, v),
    "multipleOf": lambda v: _double(10, v),
    "maximum": lambda v: _double(11, v),
    "exclusiveMaximum": lambda v: _flag(12, v),
    "minimum": lambda v: _double(13, v),
    "exclusiveMinimum": lambda v: _flag(14, v),
    "maxLength": lambda v: _whole(15, v),
    "minLength": lambda v: _whole(16, v),
    "pattern": lambda v: _text(17, v),
    "maxItems": lambda v: _whole(18, v),
    "minItems": lambda v: _whole(19, v),
    "uniqueItems": lambda v: _flag(20, v),
    "maxProperties": lambda v: _whole(21, v),
    "minProperties": lambda v: _whole(22, v),
    "required": lambda v: b"".join(_text(23, name) for name in v),
    "enum": lambda v: _each(24, map(_any, v)),
    "type": lambda v: _text(25, v),
    "allOf": lambda v: _each(26, map(_schema_or_reference, v)),
    "oneOf": lambda v: _each(27, map(_schema_or_reference, v)),
    "anyOf": lambda v: _each(28, map(_schema_or_reference, v)),
    "not": lambda v: part(29, _schema(v)),
    "items": lambda v: part(30, part(1, _schema_or_reference(v))),
    "properties": lambda v: part(31, _mapped(v, _schema_or_reference)),
    "additionalProperties": _additional,
    "default": _default,
    "description": lambda v: _text(34, v),
    "format": lambda v: _text(35, v),
}


def _scheme(raw: Body) -> bytes:
    return _text(1, raw["type"]) + _text(2, raw["description"]) + _text(3, raw["name"]) + _text(4, raw["in"])


# --- paths ----------------------------------------------------------------------------------------

_METHODS = {"get": 4, "put": 5, "post": 6, "delete": 7, "options": 8, "head": 9, "patch": 10}


def _path(item: Body) -> bytes:
    out = b"".join(
        part(_METHODS[method], _operation(raw)) for method, raw in item.items() if method in _METHODS
    )
    return out + _each(13, (part(1, _parameter(raw)) for raw in item.get("parameters", ())))


def _operation(raw: Body) -> bytes:
    out = b"".join(_text(1, tag) for tag in raw.get("tags", ()))
    if "description" in raw:
        out += _text(3, raw["description"])
    if "operationId" in raw:
        out += _text(5, raw["operationId"])
    out += _each(6, (part(1, _parameter(each)) for each in raw.get("parameters", ())))
    if "requestBody" in raw:
        body = raw["requestBody"]
        content = part(2, _content(body["content"]))
        out += part(7, part(1, content + _flag(3, body.get("required", False))))
    answers = b"".join(
        part(2, _named(code, part(1, _response(answer)))) for code, answer in raw["responses"].items()
    )
    return out + part(8, answers) + _extensions(13, raw)


def _response(raw: Body) -> bytes:
    content = part(3, _content(raw["content"])) if "content" in raw else b""
    return _text(1, raw["description"]) + content


def _content(raw: Body) -> bytes:
    return _mapped(raw, lambda media: part(1, _schema_or_reference(media["schema"])))


def _parameter(raw: Body) -> bytes:
    out = _text(1, raw["name"]) + _text(2, raw["in"])
    if "description" in raw:
        out += _text(3, raw["description"])
    return out + _flag(4, raw.get("required", False)) + part(10, _schema_or_reference(raw["schema"]))
