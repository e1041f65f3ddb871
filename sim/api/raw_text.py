"""The text in which a client wrote a value that upstream keeps as text (runtime.RawExtension).

Turns the body of a request into one in which the value of such a field knows its text, and such a
value into the texts of answers and comparisons.

Holds: a value that knows its text is an ordinary map or list to all other code; a copy of it
forgets the text, and then has that of Go's encoder.

Mirrors  apimachinery v1.25 pkg/runtime/{extension,converter}.go, golang encoding/json (Compact).
Differs  the text of a number, a string or a truth value alone is not kept: `1.0` becomes 1.0.
         Unpaired surrogates are not kept, and a text of a number is forgotten when the storage
         packs its object.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import msgspec

from sim.api.go.escapes import escaped
from sim.api.go.printing import go_number
from sim.api.types import Json, Obj
from sim.patterns import pattern

# Fields of this type, by kind: those of the fixed kinds that are stored.
FIELDS = {"ControllerRevision": "data"}

_GAPS = pattern(rb'("(?:[^"\\]++|\\.)*+")|[ \t\r\n]++', re.DOTALL)


class _RawMap(dict[str, Any]):
    """A map and its text."""

    __slots__ = ("text",)
    text: bytes


class _RawList(list[Any]):
    """A list and its text."""

    __slots__ = ("text",)
    text: bytes


class _Given(msgspec.Struct):
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


def with_text(kind: str, obj: Obj, body: object) -> Obj:
    """An object of this kind in which what is kept as text knows its text in the body."""
    name = FIELDS.get(kind)
    if name is None or not isinstance(body, bytes | bytearray):
        return obj
    try:
        given = msgspec.json.decode(body, type=_Given).data
    except (msgspec.DecodeError, UnicodeDecodeError):
        return obj
    return obj if given is msgspec.UNSET else {**obj, name: _kept(obj.get(name), bytes(given))}


def plain(kind: str, obj: Obj) -> Obj:
    """An object of this kind in which what is kept as text is a map like any other."""
    name = FIELDS.get(kind)
    value = None if name is None else obj.get(name)
    return {**obj, name: dict(value)} if name is not None and isinstance(value, dict) else obj


def unknown_part(kind: str, patch: Json, old: Obj) -> str:
    """The first key below which a strategic patch would merge into such a value, which has no
    fields; "" if there is none, since it adds or replaces all that it holds.
    """
    name = FIELDS.get(kind)
    if name is None or not isinstance(patch, dict) or not isinstance(old.get(name), dict):
        return ""
    here, below = old[name], patch.get(name)
    merged = (
        [
            key
            for key, value in below.items()
            if isinstance(value, dict | list) and type(here.get(key)) is type(value)
        ]
        if isinstance(below, dict)
        else []
    )
    return min(merged, default="")


def patched(kind: str, obj: Obj, old: Obj, merged_text: Callable[[], str] | None) -> Obj:
    """An object of this kind after a patch.

    merged_text: the text of the whole object after a patch of texts; None if the patch is a
        strategic one, which turns the value into maps: these have no order
    """
    name = FIELDS.get(kind)
    if name is None or name not in obj:
        return obj
    if merged_text is None:
        text = json.dumps(_of_maps(obj[name]), separators=(",", ":"), ensure_ascii=False).encode()
        return {**obj, name: _kept(obj[name], escaped(text))}
    if obj[name] == old.get(name):
        return {**obj, name: _kept(obj[name], compact(text_of(old[name])))}
    return with_text(kind, obj, merged_text().encode("utf-8", "surrogatepass"))


def _kept(value: Json, text: bytes) -> Json:
    """The value, with its text if it is a map or list."""
    made: Any = value
    if isinstance(value, dict):
        made = _RawMap(value)
    elif isinstance(value, list):
        made = _RawList(value)
    else:
        return value
    made.text = text
    return made


def text_of(value: Json) -> bytes:
    """The text of a value: as its client wrote it, or else as Go's encoder does."""
    if isinstance(value, _RawMap | _RawList):
        return value.text
    return escaped(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())


def shown(obj: Obj) -> Obj:
    """An object with the text of answers in place of what is kept as text."""
    name = FIELDS.get(obj.get("kind") or "")
    if name is None or not isinstance(obj.get(name), _RawMap | _RawList):
        return obj
    return {**obj, name: msgspec.Raw(compact(obj[name].text))}


def compact(text: bytes) -> bytes:
    """JSON text without what separates its parts, escaped (Go's Compact)."""
    return escaped(_GAPS.sub(lambda found: found[1] or b"", text))


def _of_maps(value: Json) -> Json:
    """The value as Go's encoder writes maps: sorted, with whole numbers as integers."""
    if isinstance(value, dict):
        return {key: _of_maps(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_of_maps(below) for below in value]
    return go_number(value) if isinstance(value, float) else value
