"""The types that the schemas of a definition declare for rules.

A structural schema becomes `Declared`: its CEL type, the types of its fields, and the sizes that
bound its values, from which costs are estimated.

Holds: what rules cannot reach (values of unknown form) has no declared type and is left out.

Mirrors  apiextensions-apiserver v1.25
         third_party/forked/celopenapi/model/{schemas,types,escaping}.go.
Differs  the root of a rule's type has the name `selfType`, where upstream adds a number that is
         another each time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sim.api.crd.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    Type,
    list_of,
    map_of,
)
from sim.api.crd.structural import ABSENT, ANYTHING, Structural, structural
from sim.api.types import Json, Obj
from sim.patterns import pattern

ROOT = "selfType"
REQUEST_BYTES_MAX = 3 * 1024 * 1024
_TEXT_BYTES_MAX = REQUEST_BYTES_MAX - 2  # without the quotes
_TEXT, _NUMBER = 2, 1  # the smallest JSON of a value: "" and 0
_FORMATS = {  # of texts: type, smallest JSON, largest size
    "byte": (BYTES, _TEXT, _TEXT_BYTES_MAX),
    "duration": (DURATION, 3, 32),
    "date": (TIMESTAMP, 12, 12),
    "date-time": (TIMESTAMP, 21, 32),
}


class Declared:
    """The type of a value.

    fields: of an object, by their names in rules
    items: of a list or of the values of a map
    most: the largest size of a text, list or map
    least_json: the bytes that its JSON has at least
    """

    __slots__ = ("fields", "items", "least_json", "most", "type")

    def __init__(self, kind: Type, least_json: int, most: int = 0, items: Declared | None = None) -> None:
        self.type = kind
        self.least_json = least_json
        self.most = most
        self.items = items
        self.fields: dict[str, Declared] | None = None

    def objects(self) -> Iterator[Declared]:
        """Every object type in this one, itself included."""
        if self.fields is not None:
            yield self
        for below in (self.fields or {}).values():
            yield from below.objects()
        if self.items is not None:
            yield from self.items.objects()


def declared(schema: Structural, root: bool, name: str = ROOT) -> Declared | None:
    """The type of a schema's values; None if rules cannot reach them.

    root: True for a whole object, which has metadata
    name: of the type, if it is one of objects
    """
    if schema.int_or_string:
        return Declared(DYN, _NUMBER, _TEXT_BYTES_MAX)
    raw = schema.raw
    if schema.type == "array":
        return None if schema.items is None else _list(schema.items, raw, name)
    if schema.type == "object":
        if not root and schema.rest is not None and schema.rest is not ANYTHING:
            return _map(schema.rest, raw, name)
        return _object(with_head(schema) if root else schema, name)
    if schema.type == "string":
        return _text(raw)
    plain = {"boolean": (BOOL, 4), "number": (DOUBLE, _NUMBER), "integer": (INT, _NUMBER)}
    return Declared(*plain[schema.type]) if schema.type in plain else None


def _count(raw: Obj, key: str) -> int | None:
    found = raw.get(key)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    return max(0, int(found))


def _list(below: Structural, raw: Obj, name: str) -> Declared | None:
    items = declared(below, below.embedded, f"{name}.@idx")
    if items is None:
        return None
    most = _count(raw, "maxItems")
    if most is None:
        most = (REQUEST_BYTES_MAX - 2) // (items.least_json + 1)
    return Declared(list_of(items.type), 2, most, items)


def _map(below: Structural, raw: Obj, name: str) -> Declared | None:
    values = declared(below, below.embedded, f"{name}.@elem")
    if values is None:
        return None
    most = _count(raw, "maxProperties")
    if most is None:
        most = (REQUEST_BYTES_MAX - 2) // (values.least_json + 6)
    return Declared(map_of(STRING, values.type), 2, most, values)


def _object(schema: Structural, name: str) -> Declared:
    needed = schema.raw.get("required")
    needed = needed if isinstance(needed, list) else ()
    made = Declared(Type("object", name), 2)
    made.fields = {}
    for key, below in schema.properties.items():
        short = escaped(key)
        kind = declared(below, below.embedded, f"{name}.{short}")
        if kind is None:
            continue
        if short:
            made.fields[short] = kind
        if key in needed and below.default in (ABSENT, None):
            made.least_json += len(key.encode()) + kind.least_json + 4
    return made


def _text(raw: Obj) -> Declared:
    most = _count(raw, "maxLength")
    form = str(raw.get("format") or "")
    if form in _FORMATS:
        kind, least, size = _FORMATS[form]
        return Declared(kind, least, most if most is not None and form == "byte" else size)
    # A character can take four bytes.
    return Declared(STRING, _TEXT, _TEXT_BYTES_MAX if most is None else most * 4)


_HEAD: Json = {
    "kind": {"type": "string"},
    "apiVersion": {"type": "string"},
    "metadata": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}},
    },
}


def with_head(schema: Structural) -> Structural:
    """The schema of a whole object with the fields that every object has.

    Quirk: other fields of metadata that the schema names are out of reach, unless it names all of
    these.
    """
    properties = schema.properties
    metadata = properties.get("metadata")
    names = {} if metadata is None else metadata.properties
    texts = [
        properties.get("kind"),
        properties.get("apiVersion"),
        names.get("name"),
        names.get("generateName"),
    ]
    if all(one is not None and one.type == "string" for one in texts):
        return schema
    made = structural(schema.raw)
    made.properties = {**properties, **structural({"properties": _HEAD}).properties}
    return made


# --- names ----------------------------------------------------------------------------------------

RESERVED = frozenset(
    (
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    )
)
_SPECIAL = pattern(r"__|[-./]|[^a-zA-Z0-9-./_]")
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPED = pattern(r"_{2}[^_]+_{2}")
_UNESCAPES = {escape: text for text, escape in _ESCAPES.items()}


def escaped(name: str) -> str:
    """The name of a property in rules; "" if they cannot name it."""
    if not name or name[0] in "0123456789":
        return ""
    if name in RESERVED:
        return f"__{name}__"
    parts = [match[0] for match in _SPECIAL.finditer(name)]
    if any(part not in _ESCAPES for part in parts):
        return ""
    return _SPECIAL.sub(lambda match: _ESCAPES[match[0]], name)


def unescaped(name: str) -> str | None:
    """The property that a name in a rule means; None if it is no escaped name."""
    bad = False

    def one(match: re.Match[str]) -> str:
        nonlocal bad
        found, inner = match[0], match[0][2:-2]
        if found in _UNESCAPES:
            return _UNESCAPES[found]
        bad = bad or inner not in RESERVED or found != name
        return inner

    made = _ESCAPED.sub(one, name)
    return None if bad else made
