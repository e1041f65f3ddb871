"""The protobuf form of an OpenAPI v3 document, which clients read that ask for it by its type.

Mirrors  google/gnostic openapiv3/OpenAPIv3.proto (field numbers), OpenAPIv3.go; kube-openapi
         pkg/handler3/handler.go (ToV3ProtoBinary).
Quirk    a default that is an object or a list has no form there and is left empty; a reference has
         no siblings.
"""

from __future__ import annotations

from typing import Any, Final

from sim.api.openapi.gnostic import (
    Body,
    Table,
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

MEDIA = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"


def document(body: Body) -> bytes:
    """The bytes of a document."""
    return message(body, _DOCUMENT, 9)


# --- schemas --------------------------------------------------------------------------------------


def _schema_or_reference(raw: Body) -> bytes:
    return part(2, text(1, raw["$ref"])) if "$ref" in raw else part(1, _schema(raw))


def _schema(raw: Body) -> bytes:
    return message(raw, _SCHEMA, 36)


def _default(number: int, value: Any) -> bytes:
    if isinstance(value, bool):
        return part(number, b"\x10\x01" if value else b"\x10\x00")
    if isinstance(value, int | float):
        return part(number, double(1, value) or b"\x09" + bytes(8))
    return part(number, part(3, value.encode()) if isinstance(value, str) else b"")


def _additional(number: int, value: Any) -> bytes:
    if isinstance(value, dict):
        return part(number, part(1, _schema_or_reference(value)))
    return part(number, b"\x10\x01" if value else b"\x10\x00")


_SCHEMA: Final[Table] = {
    "nullable": (1, flag),
    "title": (9, text),
    "multipleOf": (10, double),
    "maximum": (11, double),
    "exclusiveMaximum": (12, flag),
    "minimum": (13, double),
    "exclusiveMinimum": (14, flag),
    "maxLength": (15, whole),
    "minLength": (16, whole),
    "pattern": (17, text),
    "maxItems": (18, whole),
    "minItems": (19, whole),
    "uniqueItems": (20, flag),
    "maxProperties": (21, whole),
    "minProperties": (22, whole),
    "required": (23, texts),
    "enum": (24, any_values),
    "type": (25, text),
    "allOf": (26, each(_schema_or_reference)),
    "oneOf": (27, each(_schema_or_reference)),
    "anyOf": (28, each(_schema_or_reference)),
    "not": (29, nested(_schema)),
    "items": (30, nested(lambda raw: part(1, _schema_or_reference(raw)))),
    "properties": (31, nested(lambda raw: mapped(raw, _schema_or_reference))),
    "additionalProperties": (32, _additional),
    "default": (33, _default),
    "description": (34, text),
    "format": (35, text),
}


# --- paths ----------------------------------------------------------------------------------------

_PARAMETER: Final[Table] = {
    "name": (1, text),
    "in": (2, text),
    "description": (3, text),
    "required": (4, flag),
    "schema": (10, nested(_schema_or_reference)),
}


def _parameter(raw: Body) -> bytes:
    return part(1, message(raw, _PARAMETER, 13))


def _content(raw: Body) -> bytes:
    return mapped(raw, lambda media: part(1, _schema_or_reference(media["schema"])))


_BODY: Final[Table] = {
    "description": (1, text),
    "content": (2, nested(_content)),
    "required": (3, flag),
}
_ANSWER: Final[Table] = {"description": (1, text), "content": (3, nested(_content))}


def _answers(raw: Body) -> bytes:
    return b"".join(
        part(2, named(code, part(1, message(answer, _ANSWER, 5)))) for code, answer in raw.items()
    )


def _operation(raw: Body) -> bytes:
    return message(raw, _OPERATION, 13)


_OPERATION: Final[Table] = {
    "tags": (1, texts),
    "description": (3, text),
    "operationId": (5, text),
    "parameters": (6, each(_parameter)),
    "requestBody": (7, nested(lambda raw: part(1, message(raw, _BODY, 4)))),
    "responses": (8, nested(_answers)),
}
_ITEM: Final[Table] = {
    "get": (4, nested(_operation)),
    "put": (5, nested(_operation)),
    "post": (6, nested(_operation)),
    "delete": (7, nested(_operation)),
    "options": (8, nested(_operation)),
    "head": (9, nested(_operation)),
    "patch": (10, nested(_operation)),
    "parameters": (13, each(_parameter)),
}
_KEY: Final[Table] = {"type": (1, text), "description": (2, text), "name": (3, text), "in": (4, text)}
_COMPONENTS: Final[Table] = {
    "schemas": (1, nested(lambda raw: mapped(raw, _schema_or_reference))),
    "securitySchemes": (
        7,
        nested(lambda raw: mapped(raw, lambda scheme: part(1, message(scheme, _KEY, 9)))),
    ),
}
_INFO: Final[Table] = {"title": (1, text), "description": (2, text), "version": (6, text)}
_DOCUMENT: Final[Table] = {
    "openapi": (1, text),
    "info": (2, nested(lambda raw: message(raw, _INFO, 7))),
    "paths": (4, nested(lambda raw: mapped(raw, lambda item: message(item, _ITEM, 14)))),
    "components": (5, nested(lambda raw: message(raw, _COMPONENTS, 10))),
}
