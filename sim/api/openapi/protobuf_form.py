"""The protobuf form of an OpenAPI v2 document, which older clients read for explain and validation.

Mirrors  google/gnostic-models openapiv2/OpenAPIv2.proto (field numbers only).
Differs  only the members that `openapi` writes are encoded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from sim.api.protobuf.wire import part

MEDIA = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
Body = dict[str, Any]


def document(body: Body) -> bytes:
    """The bytes of a document."""
    out = _text(1, body["swagger"]) + part(
        2, _text(1, body["info"]["title"]) + _text(2, body["info"]["version"])
    )
    paths = b"".join(part(2, _named(path, _path(item))) for path, item in body["paths"].items())
    schemas = b"".join(part(1, _named(name, _schema(raw))) for name, raw in body["definitions"].items())
    return out + part(8, paths) + part(9, schemas)


# --- the wire -------------------------------------------------------------------------------------


def _text(number: int, text: str) -> bytes:
    return part(number, text.encode())


def _named(name: str, value: bytes) -> bytes:
    return _text(1, name) + part(2, value)


def _any(value: Any) -> bytes:
    """A value of any type, as YAML; JSON is YAML too."""
    return _text(2, msgspec.json.encode(value).decode() + "\n")


def _extensions(number: int, raw: Body) -> bytes:
    return b"".join(
        part(number, _named(key, _any(value))) for key, value in raw.items() if key.startswith("x-")
    )


# --- schemas --------------------------------------------------------------------------------------


def _schema(raw: Body) -> bytes:
    return b"".join(_MEMBERS[key](value) for key, value in raw.items() if key in _MEMBERS) + _extensions(
        31, raw
    )


_MEMBERS: dict[str, Callable[[Any], bytes]] = {
    "$ref": lambda v: _text(1, v),
    "format": lambda v: _text(2, v),
    "title": lambda v: _text(3, v),
    "description": lambda v: _text(4, v),
    "default": lambda v: part(5, _any(v)),
    "required": lambda v: b"".join(_text(19, name) for name in v),
    "enum": lambda v: b"".join(part(20, _any(value)) for value in v),
    "additionalProperties": lambda v: part(21, part(1, _schema(v))) if isinstance(v, dict) else b"",
    "type": lambda v: part(22, _text(1, v)),
    "items": lambda v: part(23, part(1, _schema(v))),
    "allOf": lambda v: b"".join(part(24, _schema(below)) for below in v),
    "properties": lambda v: part(25, b"".join(part(1, _named(key, _schema(raw))) for key, raw in v.items())),
}


# --- paths ----------------------------------------------------------------------------------------

_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "options": 6, "head": 7, "patch": 8}


def _path(item: Body) -> bytes:
    return b"".join(
        part(_METHODS[method], _operation(raw)) for method, raw in item.items() if method in _METHODS
    )


def _operation(raw: Body) -> bytes:
    out = _text(5, raw["operationId"]) if "operationId" in raw else b""
    for parameter in raw.get("parameters", ()):
        if parameter["in"] != "query":
            continue
        out += part(8, part(1, part(2, part(3, _query(parameter)))))
    return out + part(9, b"") + _extensions(13, raw)


def _query(raw: Body) -> bytes:
    return _text(2, "query") + _text(4, raw["name"]) + _text(6, raw["type"])
