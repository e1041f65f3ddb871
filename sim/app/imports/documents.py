"""The bytes of a foreign file as its documents: YAML, JSON or msgpack; lists become their items."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgpack

from sim.errors import InputError
from sim.nesting import nests_too_deep
from sim.scenario.read.foreign import is_list
from sim.scenario.read.source import parse_documents


def documents_of(data: bytes, shown: str) -> list[Any]:
    """The documents of a file, with the items of lists in their place.  Raises InputError."""
    return [item for value in _parsed(data, shown) for item in _items(value)]


def _parsed(data: bytes, shown: str) -> Iterator[Any]:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        yield _binary(data, shown)
        return
    if text.lstrip()[:1] in ("{", "[") and not nests_too_deep(text):
        try:
            yield json.loads(text)
            return
        except ValueError:
            pass  # YAML in flow style, or an error that the reader of YAML places
    yield from (document.value for document in parse_documents(text, shown))


def _binary(data: bytes, shown: str) -> Any:
    """A trace of SimKube in its binary form."""
    try:
        return msgpack.unpackb(data, strict_map_key=False)
    except (ValueError, msgpack.exceptions.UnpackException):
        raise InputError("is neither text nor msgpack", shown) from None


def _items(value: Any) -> Iterator[Any]:
    if is_list(value):
        for item in value["items"]:
            yield from _items(item)
    else:
        yield value
