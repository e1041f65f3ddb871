"""A scenario document to typed values, or the errors of its schema with their places and remedies.

msgspec reports the first error of a document. The value there is replaced by the simplest one that
is valid, and the document is decoded again, until every error is known.

Holds: the replaced values are in a copy, and their paths are known, so that nothing else is said of
them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from typing import Any

import msgspec
from msgspec import inspect

from sim.dataclass import dataclass
from sim.errors import InputError, Problems, suggestion, suggestion_or_all
from sim.faults.shared.parameters import Nodes
from sim.patterns import pattern
from sim.scenario.read.source import Document, Path_, parts_of
from sim.scenario.schema import sections
from sim.scenario.schema.steps import Actions

ERRORS_MAX = 200  # of one document
# Words by which people ask for one node after another.
TURNS = (
    "next",
    "same",
    "each",
    "every",
    "one",
    "turn",
    "inTurn",
    "oneByOne",
    "rolling",
    "batch",
    "until",
    "then",
)
BY_TURNS = (
    "nodes get their turn by forEach: {nodes: {}, do: [drain, reboot, uncordon]}, or upgrade for reboot"
)
HOMES_MAX = 10  # places of a field in a remedy; more places are no help
_AT = pattern(r"^(?P<message>.*?)(?: - at `\$(?P<path>.*)`)?$", re.DOTALL)
_UNKNOWN = pattern(r"^Object contains unknown field `(?P<name>.*)`$")
_MISSING = pattern(r"^Object missing required field `(?P<name>.*)`$")
_FREE = "*"  # for a key that the decoder does not name
_TYPE = pattern(r"`([a-z| ]+)`")
_WORDS = {"str": "text", "int": "a whole number", "float": "a number", "bool": "true or false", "array": "a list",
          "object": "a mapping", "null": "nothing"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Decoded:
    """A document by its schema.  mended: the paths of values that were replaced, because they are
    wrong
    """

    scenario: sections.Scenario
    mended: tuple[Path_, ...]

    def touches(self, path: Path_) -> bool:
        """True if a value at this path, below it or above it was replaced."""
        return any(path[: len(one)] == one or one[: len(path)] == path for one in self.mended)


def decoded(document: Document, problems: Problems) -> Decoded:
    """The document by its schema; its errors go to `problems`.  Raises InputError for a document
    that is no mapping.
    """
    value = document.value
    if not isinstance(value, dict):
        raise document.error((), "a scenario is a mapping with apiVersion, kind, metadata and spec")
    mended: list[Path_] = []
    for _ in range(ERRORS_MAX):
        try:
            return Decoded(msgspec.convert(value, sections.Scenario), tuple(mended))
        except msgspec.ValidationError as error:
            if not mended:
                value = deepcopy(value)
            at = _place_of(value, str(error))
            problems.add(_located(document, str(error), at))
            path = _mend(value, str(error), at)
            if path is None or path in mended:
                break
            mended.append(path)
    problems.report()
    raise AssertionError("a document with errors has a report")


def _place_of(value: dict[str, Any], text: str) -> list[str | int]:
    """The path of an error.  The decoder writes [...] for a key of a mapping with free keys: it is
    that of the first value that is wrong by itself.
    """
    match = _AT.match(text)
    assert match is not None
    path = parts_of((match["path"] or "").replace("[...]", f"[{_FREE}]"))
    for place, part in enumerate(path):
        if part == _FREE:
            holder: Any = value
            for above in path[:place]:
                holder = holder[above]
            path[place] = next(key for key in [*holder] if _says_alone(value, holder, key, text))
    return path


def _says_alone(value: dict[str, Any], holder: dict[str, Any], key: str, text: str) -> bool:
    """True if a document has an error with one key of a mapping alone."""
    items = dict(holder)
    holder.clear()
    holder[key] = items[key]
    try:
        msgspec.convert(value, sections.Scenario)
    except msgspec.ValidationError as error:
        return str(error) == text
    finally:
        holder.clear()
        holder.update(items)
    return False


def _mend(value: dict[str, Any], text: str, path: list[str | int]) -> Path_ | None:
    """Replace or remove the value that an error is about; returns its path, or None if there is
    none.
    """
    match = _AT.match(text)
    assert match is not None
    unknown, missing = _UNKNOWN.match(match["message"]), _MISSING.match(match["message"])
    for field in filter(None, (unknown, missing)):
        path.append(field["name"])
    if not path:
        return None
    parent: Any = value
    for part in path[:-1]:
        parent = parent[part]
    last = path[-1]
    if isinstance(last, int) or missing or _is_required(path):
        parent[last] = _simplest(_type_of(path))
    else:
        del parent[last]
    return tuple(path)


def _is_required(path: Sequence[str | int]) -> bool:
    owner = _struct_at(path[:-1])
    fields = msgspec.structs.fields(owner) if owner else ()
    return any(field.encode_name == path[-1] and field.required for field in fields)


def _type_of(path: Sequence[str | int]) -> inspect.Type:
    """The type of the value at a path into a scenario."""
    at = inspect.type_info(sections.Scenario)
    for part in path:
        at = _inside(at, part)
    return at


def _inside(kind: inspect.Type, part: str | int) -> inspect.Type:
    for one in _alternatives(kind):
        if isinstance(one, inspect.ListType) and isinstance(part, int):
            return one.item_type
        if isinstance(one, inspect.StructType) and isinstance(part, str):
            for field in one.fields:
                if field.encode_name == part:
                    return field.type
        if isinstance(one, inspect.DictType) and isinstance(part, str):
            return one.value_type
    return inspect.AnyType()


def _alternatives(kind: inspect.Type) -> Iterator[inspect.Type]:
    """The types that a value of a type may have."""
    if isinstance(kind, inspect.Metadata):
        yield from _alternatives(kind.type)
    elif isinstance(kind, inspect.UnionType):
        for one in kind.types:
            yield from _alternatives(one)
    else:
        yield kind


def _simplest(kind: inspect.Type) -> Any:
    """A valid value of a type."""
    match kind:
        case inspect.Metadata(type=inner):
            return _simplest(inner)
        case inspect.StructType(fields=fields):
            return {field.encode_name: _simplest(field.type) for field in fields if field.required}
        case inspect.LiteralType(values=values):
            return values[0]
        case inspect.IntType(ge=ge):
            return ge or 1
        case inspect.FloatType():
            return 0.5
        case inspect.BoolType():
            return False
        case inspect.StrType():
            return "x"
        case inspect.ListType(item_type=item, min_length=least):
            return [_simplest(item) for _ in range(least or 0)]
        case inspect.UnionType(types=types):
            return _simplest(types[0])
    return {}


def _located(document: Document, text: str, path: Sequence[str | int]) -> InputError:
    """The error of the decoder with its place and remedy."""
    match = _AT.match(text)
    assert match is not None
    message, remedy = match["message"], ""
    unknown = _UNKNOWN.match(message)
    if unknown:
        owner, name = _struct_at(path), unknown["name"]
        fields = owner.__struct_encode_fields__ if owner else ()
        elsewhere = "" if name in Actions.__struct_encode_fields__ else _elsewhere(name)
        remedy = suggestion(name, fields, elsewhere) or suggestion_or_all(name, fields)
        if owner is Nodes and name in TURNS:
            remedy = BY_TURNS
        place = document.key_place((*path, name))
        return InputError(f"unknown field {name!r}", place, remedy)
    if message.startswith("Invalid enum value"):
        remedy = _choices(path)
    elif message.startswith("Expected `array`, got"):
        remedy = "both bounds, as [29s, 60s]" if path[-1:] == ["within"] else "in brackets, as [a, b]"
    elif message.startswith("Expected `object`, got"):
        remedy = _mapping_at(path)
    elif message.startswith("Expected `str`, got"):
        remedy = _text_at(path, message)
    elif missing := _MISSING.match(message):
        name = missing["name"]
        message = f"the field {name!r} is missing"
        if name == "nodes":
            remedy = "nodes: {} is all of them"
        elif name == "how":
            remedy = _choices([*path, name])
        elif _struct_at(path) is sections.Expectation:
            remedy = "a name says what is expected, in any words"
    return document.error(tuple(path), _plainly(message), remedy)


def plain_message(error: msgspec.ValidationError) -> str:
    """An error of a value that is decoded alone, without its place."""
    match = _AT.match(str(error))
    assert match is not None
    if unknown := _UNKNOWN.match(match["message"]):
        return f"unknown field {unknown['name']!r}"
    if missing := _MISSING.match(match["message"]):
        return f"the field {missing['name']!r} is missing"
    return _plainly(match["message"])


def _plainly(message: str) -> str:
    """An error of the schema's decoder in the terms of a YAML file."""
    if "matching regex" in message:
        if "x7f" in message:  # of Label, the other being Name
            return "a name holds no control characters"
        return "a name consists of lower-case letters, digits, '-' and '.', and begins and ends with no mark"
    plain = _TYPE.sub(lambda match: " or ".join(_WORDS.get(t, t) for t in match[1].split(" | ")), message)
    return plain[0].lower() + plain[1:]


def _mapping_at(path: Sequence[str | int]) -> str:
    """A remedy at a place that needs a mapping: the fields of the mapping."""
    if path[-2:-1] == ["taints"]:
        return "as {key: k, value: v, effect: NoExecute}"
    owner = _struct_at(path)
    return f"it has the fields {', '.join(owner.__struct_encode_fields__)}" if owner else ""


def _text_at(path: Sequence[str | int], message: str) -> str:
    """A remedy at a place that needs a text: how the text is written."""
    if path[-1:] == ["rate"]:
        return "so many in a time, as 2/s or 6/h"
    if path[-1:] == ["selector"]:
        return "as app=web,tier!=db"
    if re.search("got `(int|float|bool)`", message):
        return "a duration has a unit, as 90s or 5m; a text that looks like something else needs quotes"
    return ""


def _struct_at(path: Sequence[str | int]) -> Any:
    """The struct type of the value at a path into a scenario; None for other values."""
    kinds = _alternatives(_type_of(path))
    return next((kind.cls for kind in kinds if isinstance(kind, inspect.StructType)), None)


def _elsewhere(name: str) -> str:
    """The remedy for a field that is known at a few other places: the outermost ones."""
    homes = [*dict.fromkeys(_homes(sections.Scenario, name, ()))]
    outermost = [".".join(home) for home in homes if len(home) == min(map(len, homes))]
    return f"it belongs in {' or '.join(outermost)}" if 0 < len(outermost) <= HOMES_MAX else ""


def _homes(kind: Any, name: str, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for field in msgspec.structs.fields(kind):
        if field.encode_name == name:
            yield path
        inner = _inner_struct(field.type)
        if inner is not None:
            yield from _homes(inner, name, (*path, field.encode_name))


def _choices(path: Sequence[str | int]) -> str:
    """The values that are possible at a path into a scenario."""
    owner = _struct_at(path[:-1])
    hints = {field.encode_name: field.type for field in msgspec.structs.fields(owner)} if owner else {}
    return "one of: " + ", ".join(_literals(hints.get(str(path[-1]))))


def _literals(hint: Any) -> Iterable[str]:
    """The literals in a type or in one of its alternatives."""
    for inner in getattr(hint, "__args__", ()):
        if isinstance(inner, str):
            yield inner
        else:
            yield from _literals(inner)


def _inner_struct(hint: Any) -> Any:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return hint
    for inner in getattr(hint, "__args__", ()):
        if (struct := _inner_struct(inner)) is not None:
            return struct
    return None
