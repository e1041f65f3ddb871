"""The protobuf forms of OpenAPI documents of versions 2 and 3.

Turns the members of a JSON object into a message, by the numbers and kinds of its fields.  Older
clients read the form of version 2 for explain and validation, newer ones that of version 3 if they
ask for it by its type.

Holds: fields are in the order of their numbers; zeros are left out.

Mirrors  google/gnostic openapiv2/OpenAPIv2.proto, openapiv3/OpenAPIv3.proto (field numbers; proto3:
         a zero is no value), OpenAPIv2.go, OpenAPIv3.go (which of the alternatives a parameter or
         an answer is); kube-openapi pkg/handler/handler.go (ToProtoBinary), pkg/handler3/handler.go
         (ToV3ProtoBinary).
Quirk    of version 3, a default that is an object or a list has no form and is left empty, and a
         reference has no siblings.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from operator import itemgetter
from typing import Any

import msgspec

from sim.api.openapi.yaml_text import yaml_text
from sim.api.protobuf.wire import part, varint
from sim.patterns import pattern

Body = dict[str, Any]
Encoder = Callable[[int, Any], bytes]
Content = Callable[[Any], bytes]
Table = Mapping[str, tuple[int, Encoder]]
MEDIA_V2, MEDIA_V3 = (
    f"application/com.github.proto-openapi.spec.{version}@v1.0+protobuf" for version in ("v2", "v3")
)


def text(number: int, value: str) -> bytes:
    """A text."""
    return part(number, value.encode()) if value else b""


def texts(number: int, values: Iterable[str]) -> bytes:
    """A list of texts."""
    return b"".join(part(number, each.encode()) for each in values)


def flag(number: int, value: bool) -> bytes:
    """A flag."""
    return varint(number << 3) + b"\x01" if value else b""


def whole(number: int, value: int) -> bytes:
    """A whole number."""
    return varint(number << 3) + varint(int(value)) if value else b""


def double(number: int, value: float) -> bytes:
    """A number."""
    return varint(number << 3 | 1) + struct.pack("<d", value) if value else b""


def some(value: Any) -> bytes:
    """A message `Any`: a value of any form, as YAML."""
    return _some(msgspec.json.encode(value))


@lru_cache(maxsize=4096)
def _some(value: bytes) -> bytes:
    return text(2, yaml_text(msgspec.json.decode(value)))


def named(name: str, value: bytes) -> bytes:
    """A message that names another."""
    return part(1, name.encode()) + part(2, value)


def message(raw: Mapping[str, Any], table: Table, extensions: int = 0) -> bytes:
    """The bytes of a message.

    table: the number and encoder of each member that has a form
    extensions: the number of the members that begin with `x-`, 0 if they have none
    """
    known = [(*table[key], value) for key, value in raw.items() if key in table]
    made = [encode(number, value) for number, encode, value in sorted(known, key=itemgetter(0))]
    if extensions:
        own = [(key, value) for key, value in raw.items() if key.startswith("x-")]
        made += [part(extensions, named(key, some(value))) for key, value in own]
    return b"".join(made)


_VALUES: Mapping[str, Encoder] = {
    "": text,
    "text*": texts,
    "flag": flag,
    "whole": whole,
    "double": double,
    "any": lambda number, value: part(number, some(value)),
    "any*": lambda number, values: b"".join(part(number, some(each)) for each in values),
}
_KIND = pattern(r"(?:(\d)>)?(\w+)(\*|\{(\d)\})?")


class Form:
    """The messages of a version.

    messages: a line a message: name, number of extensions, and its fields with number and kind.
        A kind is a text if it is missing, a value, or a message: `M` is one, `M*` a list, `M{1}` a
        map with its pairs in field 1 of a message, `2>M` field 2 of such a message
    others: messages that depend on their value, by name
    """

    def __init__(self, messages: str, others: Mapping[str, Content]) -> None:
        self._contents: dict[str, Content] = dict(others)
        for line in messages.replace("\n    ", " ").strip().splitlines():
            head, _, fields = line.partition(":")
            name, extensions = head.split()
            members = [f"{each.strip()} ".split(" ") for each in fields.split(",")]
            table = {member: (int(number), self._encoder(kind)) for member, number, kind, *_ in members}
            self._contents[name] = partial(message, table=table, extensions=int(extensions))

    def _encoder(self, kind: str) -> Encoder:
        if kind in _VALUES:
            return _VALUES[kind]
        found = _KIND.fullmatch(kind)
        assert found is not None, kind
        outer, name, several, pair = found.groups()

        def content(value: Any) -> bytes:
            made = self._contents[name](value)
            return part(int(outer), made) if outer else made

        if several == "*":
            return lambda number, values: b"".join([part(number, content(each)) for each in values])
        if several:
            field = int(pair)
            return lambda number, values: part(
                number, b"".join([part(field, named(key, content(value))) for key, value in values.items()])
            )
        return lambda number, value: part(number, content(value))

    def content(self, name: str, value: Any) -> bytes:
        """The bytes of one message."""
        return self._contents[name](value)


def _boolean(value: Any) -> bytes:
    """A flag that is written although it may be false."""
    return b"\x10\x01" if value else b"\x10\x00"


# --- version 2 ------------------------------------------------------------------------------------

_PLACES = {"header": (1, "OfPath"), "query": (3, "OfQuery"), "path": (4, "OfPath")}


def _parameter(raw: Body) -> bytes:
    if raw["in"] == "body":
        return part(1, part(1, _V2.content("OfBody", raw)))
    number, name = _PLACES[raw["in"]]
    return part(1, part(2, part(number, _V2.content(name, raw))))


_V2: Form = Form(
    """
Document 16: swagger 1, info 2 Info, paths 8 Item{2}, definitions 9 Schema{1}, security 12 Scopes*,
    securityDefinitions 13 2>Key{1}
Info 7: title 1, version 2, description 3
Key 5: type 1, name 2, in 3, description 4
Item 10: get 2 Operation, put 3 Operation, post 4 Operation, delete 5 Operation, options 6 Operation,
    head 7 Operation, patch 8 Operation, parameters 9 Parameter*
Operation 13: tags 1 text*, summary 2, description 3, operationId 5, produces 6 text*, consumes 7 text*,
    parameters 8 Parameter*, responses 9 1>Answer{1}, schemes 10 text*, deprecated 11 flag
Answer 5: description 1, schema 2 1>Schema
OfQuery 23: required 1 flag, in 2, description 3, name 4, type 6, format 7, uniqueItems 20 flag
OfPath 22: required 1 flag, in 2, description 3, name 4, type 5, format 6, uniqueItems 19 flag
OfBody 6: description 1, name 2, in 3, required 4 flag, schema 5 Schema
Schema 31: $ref 1, format 2, title 3, description 4, default 5 any, multipleOf 6 double, maximum 7 double,
    exclusiveMaximum 8 flag, minimum 9 double, exclusiveMinimum 10 flag, maxLength 11 whole,
    minLength 12 whole, pattern 13, maxItems 14 whole, minItems 15 whole, uniqueItems 16 flag,
    maxProperties 17 whole, minProperties 18 whole, required 19 text*, enum 20 any*,
    additionalProperties 21 Additional, type 22 Types, items 23 1>Schema, allOf 24 Schema*,
    properties 25 Schema{1}, example 30 any
""",
    {
        "Scopes": lambda raw: b"".join(
            [part(1, named(name, texts(1, scopes))) for name, scopes in raw.items()]
        ),
        "Parameter": _parameter,
        "Types": lambda value: texts(1, [value] if isinstance(value, str) else value),
        "Additional": lambda value: (
            part(1, _V2.content("Schema", value)) if isinstance(value, dict) else _boolean(value)
        ),
    },
)


def protobuf_v2(body: Body) -> bytes:
    """The bytes of a document of version 2."""
    return _V2.content("Document", body)


# --- version 3 ------------------------------------------------------------------------------------


def _default(value: Any) -> bytes:
    if isinstance(value, bool):
        return _boolean(value)
    if isinstance(value, int | float):
        return double(1, value) or b"\x09" + bytes(8)
    return part(3, value.encode()) if isinstance(value, str) else b""


_V3: Form = Form(
    """
Document 9: openapi 1, info 2 Info, paths 4 Item{1}, components 5 Components
Info 7: title 1, description 2, version 6
Components 10: schemas 1 Found{1}, securitySchemes 7 1>Key{1}
Key 9: type 1, description 2, name 3, in 4
Item 14: get 4 Operation, put 5 Operation, post 6 Operation, delete 7 Operation, options 8 Operation,
    head 9 Operation, patch 10 Operation, parameters 13 1>Parameter*
Operation 13: tags 1 text*, description 3, operationId 5, parameters 6 1>Parameter*, requestBody 7 1>Content,
    responses 8 1>Answer{2}
Parameter 13: name 1, in 2, description 3, required 4 flag, schema 10 Found
Content 4: description 1, content 2 1>Media{1}, required 3 flag
Answer 5: description 1, content 3 1>Media{1}
Schema 36: nullable 1 flag, title 9, multipleOf 10 double, maximum 11 double, exclusiveMaximum 12 flag,
    minimum 13 double, exclusiveMinimum 14 flag, maxLength 15 whole, minLength 16 whole, pattern 17,
    maxItems 18 whole, minItems 19 whole, uniqueItems 20 flag, maxProperties 21 whole,
    minProperties 22 whole, required 23 text*, enum 24 any*, type 25, allOf 26 Found*, oneOf 27 Found*,
    anyOf 28 Found*, not 29 Schema, items 30 1>Found, properties 31 Found{1},
    additionalProperties 32 Additional, default 33 Default, description 34, format 35
""",
    {
        "Media": lambda raw: _V3.content("Found", raw["schema"]),
        "Default": _default,
        "Found": lambda raw: (
            part(2, text(1, raw["$ref"])) if "$ref" in raw else part(1, _V3.content("Schema", raw))
        ),
        "Additional": lambda value: (
            part(1, _V3.content("Found", value)) if isinstance(value, dict) else _boolean(value)
        ),
    },
)


def protobuf_v3(body: Body) -> bytes:
    """The bytes of a document of version 3."""
    return _V3.content("Document", body)
