"""The bytes of a foreign file as its documents: YAML, JSON or msgpack; lists become their items.

The items of a list of one kind (`NodeList`, as a server sends it) carry no kind and no apiVersion:
they get those of their list.

Mirrors  k8s.io/apimachinery pkg/apis/meta/v1/unstructured/unstructured_list.go: UnmarshalJSON
         (the kind of an item is that of its list without "List", where the item has none).
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgpack

from sim.errors import InputError
from sim.files import read_bounded
from sim.nesting import nests_too_deep
from sim.scenario.read.foreign import is_list
from sim.scenario.read.source import parse_documents

DUMP_MAX = 64 << 20  # bytes of one file: a cluster of a thousand nodes with its pods


def documents_in(files: Sequence[Path]) -> list[Any]:
    """The documents of some files, one after the other.  Raises InputError."""
    return [
        document
        for file in files
        for document in documents_of(read_bounded(file, size_max=DUMP_MAX), str(file))
    ]


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
            yield from [*_json_values(text)]
            return
        except ValueError:
            pass  # YAML in flow style, or an error that the reader of YAML places
    yield from (document.value for document in parse_documents(text, shown))


def _json_values(text: str) -> Iterator[Any]:
    """The JSON values of a text, one after the other, as `kubectl cluster-info dump` prints them."""
    decoder, at = json.JSONDecoder(), len(text) - len(text.lstrip())
    while at < len(text):
        value, end = decoder.raw_decode(text, at)
        yield value
        at = len(text) - len(text[end:].lstrip())


def _binary(data: bytes, shown: str) -> Any:
    """A trace of SimKube in its binary form, in which a key can be a list."""
    try:
        return msgpack.unpackb(data, strict_map_key=False, object_pairs_hook=_mapping)
    except (ValueError, msgpack.exceptions.UnpackException):
        raise InputError("is neither text nor msgpack", shown) from None


def _mapping(pairs: Sequence[tuple[Any, Any]]) -> dict[Any, Any]:
    return {_hashable(key): value for key, value in pairs}


def _hashable(key: Any) -> Hashable:
    """A key of a msgpack map as one of a dict: a list as a tuple, a map as its items."""
    if isinstance(key, list):
        return tuple(_hashable(part) for part in key)
    if isinstance(key, dict):
        return tuple((name, _hashable(part)) for name, part in key.items())
    found: Hashable = key
    return found


def _items(value: Any) -> Iterator[Any]:
    if not is_list(value):
        yield value
        return
    kind = value["kind"].removesuffix("List")
    of_list = {"apiVersion": value["apiVersion"], "kind": kind} if kind else {}
    for item in value["items"] or ():
        yield from _items({**of_list, **item} if isinstance(item, dict) and "kind" not in item else item)
