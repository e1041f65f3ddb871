"""The protobuf form of an OpenAPI v2 document, which older clients read for explain and validation.

Mirrors  google/gnostic openapiv2/OpenAPIv2.proto (field numbers), OpenAPIv2.go (which of the
         alternatives a parameter or an answer is); kube-openapi pkg/handler/handler.go
         (ToProtoBinary).
"""

from __future__ import annotations

from typing import Any, Final

from sim.api.openapi.gnostic import (
    Body,
    Table,
    any_value,
    any_values,
    double,
    each,
    flag,
    mapped,
    message,
    named,
    nested,
    text,
    texts,
    whole,
)
from sim.api.protobuf.wire import part

MEDIA = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


def document(body: Body) -> bytes:
    """The bytes of a document."""
    return message(body, _DOCUMENT, 16)


# --- schemas --------------------------------------------------------------------------------------


def _schema(raw: Body) -> bytes:
    return message(raw, _SCHEMA, 31)


def _additional(number: int, value: Any) -> bytes:
    """The schema of a map's values, or whether they are allowed; a false is written too."""
    if isinstance(value, dict):
        return part(number, part(1, _schema(value)))
    return part(number, b"\x10\x01" if value else b"\x10\x00")


_SCHEMA: Final[Table] = {
    "$ref": (1, text),
    "format": (2, text),
    "title": (3, text),
    "description": (4, text),
    "default": (5, any_value),
    "multipleOf": (6, double),
    "maximum": (7, double),
    "exclusiveMaximum": (8, flag),
    "minimum": (9, double),
    "exclusiveMinimum": (10, flag),
    "maxLength": (11, whole),
    "minLength": (12, whole),
    "pattern": (13, text),
    "maxItems": (14, whole),
    "minItems": (15, whole),
    "uniqueItems": (16, flag),
    "maxProperties": (17, whole),
    "minProperties": (18, whole),
    "required": (19, texts),
    "enum": (20, any_values),
    "additionalProperties": (21, _additional),
    "type": (22, lambda number, value: part(number, texts(1, [value] if isinstance(value, str) else value))),
    "items": (23, nested(lambda raw: part(1, _schema(raw)))),
    "allOf": (24, each(_schema)),
    "properties": (25, nested(lambda raw: mapped(raw, _schema))),
    "example": (30, any_value),
}


# --- paths ----------------------------------------------------------------------------------------

_OF_QUERY: Final[Table] = {
    "required": (1, flag),
    "in": (2, text),
    "description": (3, text),
    "name": (4, text),
    "type": (6, text),
    "format": (7, text),
    "uniqueItems": (20, flag),
}
_OF_PATH: Final[Table] = {**_OF_QUERY, "type": (5, text), "format": (6, text), "uniqueItems": (19, flag)}
_OF_BODY: Final[Table] = {
    "description": (1, text),
    "name": (2, text),
    "in": (3, text),
    "required": (4, flag),
    "schema": (5, nested(_schema)),
}
_PLACES: Final = {"header": (1, _OF_PATH), "query": (3, _OF_QUERY), "path": (4, _OF_PATH)}


def _parameter(raw: Body) -> bytes:
    if raw["in"] == "body":
        return part(1, part(1, message(raw, _OF_BODY, 6)))
    number, table = _PLACES[raw["in"]]
    return part(1, part(2, part(number, message(raw, table, 22 if table is _OF_PATH else 23))))


def _answer(raw: Body) -> bytes:
    return part(1, message(raw, _ANSWER, 5))


_ANSWER: Final[Table] = {
    "description": (1, text),
    "schema": (2, nested(lambda raw: part(1, _schema(raw)))),
}


def _operation(raw: Body) -> bytes:
    return message(raw, _OPERATION, 13)


_OPERATION: Final[Table] = {
    "tags": (1, texts),
    "summary": (2, text),
    "description": (3, text),
    "operationId": (5, text),
    "produces": (6, texts),
    "consumes": (7, texts),
    "parameters": (8, each(_parameter)),
    "responses": (9, nested(lambda raw: mapped(raw, _answer))),
    "schemes": (10, texts),
    "deprecated": (11, flag),
}
_ITEM: Final[Table] = {
    "get": (2, nested(_operation)),
    "put": (3, nested(_operation)),
    "post": (4, nested(_operation)),
    "delete": (5, nested(_operation)),
    "options": (6, nested(_operation)),
    "head": (7, nested(_operation)),
    "patch": (8, nested(_operation)),
    "parameters": (9, each(_parameter)),
}


def _paths(raw: Body) -> bytes:
    return b"".join(part(2, named(path, message(item, _ITEM, 10))) for path, item in raw.items())


_INFO: Final[Table] = {"title": (1, text), "version": (2, text), "description": (3, text)}
_KEY: Final[Table] = {"type": (1, text), "name": (2, text), "in": (3, text), "description": (4, text)}
_DOCUMENT: Final[Table] = {
    "swagger": (1, text),
    "info": (2, nested(lambda raw: message(raw, _INFO, 7))),
    "paths": (8, nested(_paths)),
    "definitions": (9, nested(lambda raw: mapped(raw, _schema))),
    "security": (12, each(lambda raw: mapped(raw, lambda scopes: texts(1, scopes)))),
    "securityDefinitions": (
        13,
        nested(lambda raw: mapped(raw, lambda scheme: part(2, message(scheme, _KEY, 5)))),
    ),
}
