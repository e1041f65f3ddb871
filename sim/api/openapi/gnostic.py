"""What the protobuf forms of OpenAPI 2 and 3 have in common.

Turns the members of a JSON object into a message, by a table of numbers and encoders.

Holds: fields are in the order of their numbers; zeros are left out.

Mirrors  google/gnostic openapiv2/OpenAPIv2.proto, openapiv3/OpenAPIv3.proto (proto3: a zero is no
         value).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from sim.api.openapi.yaml_text import yaml_text
from sim.api.protobuf.wire import part, varint

Body = dict[str, Any]
Encoder = Callable[[int, Any], bytes]
Table = Mapping[str, tuple[int, Encoder]]


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


def any_value(number: int, value: Any) -> bytes:
    """A value of any form."""
    return part(number, some(value))


def any_values(number: int, values: Iterable[Any]) -> bytes:
    """A list of values of any form."""
    return b"".join(part(number, some(each)) for each in values)


def named(name: str, value: bytes) -> bytes:
    """A message that names another."""
    return part(1, name.encode()) + part(2, value)


def mapped(values: Mapping[str, Any], form: Callable[[Any], bytes]) -> bytes:
    """A message that is a list of names with values."""
    return b"".join(part(1, named(name, form(value))) for name, value in values.items())


def nested(form: Callable[[Any], bytes]) -> Encoder:
    """The encoder of a message."""
    return lambda number, value: part(number, form(value))


def each(form: Callable[[Any], bytes]) -> Encoder:
    """The encoder of a list of messages."""
    return lambda number, values: b"".join(part(number, form(value)) for value in values)


def message(raw: Mapping[str, Any], table: Table, extensions: int = 0) -> bytes:
    """The bytes of a message.

    table: the number and encoder of each member that has a form
    extensions: the number of the members that begin with `x-`, 0 if they have none
    """
    known = [(*table[key], value) for key, value in raw.items() if key in table]
    made = [encode(number, value) for number, encode, value in sorted(known, key=_number)]
    if extensions:
        own = [(key, value) for key, value in raw.items() if key.startswith("x-")]
        made += [part(extensions, named(key, some(value))) for key, value in own]
    return b"".join(made)


def _number(entry: tuple[int, Encoder, Any]) -> int:
    return entry[0]
