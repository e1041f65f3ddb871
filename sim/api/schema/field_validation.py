"""Structural validation: the body of a request becomes a well-typed object of its kind.

Text or a decoded value becomes the object that upstream's typed decoder would make (without unknown
fields, nulls, and empty lists, maps and scalars of optional fields; with quantities and times in
canonical text), and the list of its unknown and duplicate fields; a wrong type raises `DecodeError`
in upstream's words.

Holds: the result fits the schema, so defaults, strategies and validation need not check types.
Bodies of in-process clients are well-typed already and skip this.

Mirrors  sigs.k8s.io/json v1.25 (type errors, strict errors), apiserver
         pkg/endpoints/handlers/create.go, apimachinery pkg/apis/meta/v1/{time,micro_time}.go,
         pkg/api/resource/quantity.go, pkg/util/intstr.
Differs  duplicate keys are reported for text only, because a decoded value has none.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from sim.api.go.base64 import corrupt_at
from sim.api.go.printing import go_number
from sim.api.memo import IdentityMemo
from sim.api.protobuf.numbers import short_name
from sim.api.schema.field_schemas import (
    JSON_SCHEMA,
    SchemaNode,
    is_pointer,
    schema_of,
)
from sim.api.schema.json_text import (
    VERSION_AND_KIND,
    Fraction,
    Twice,
    as_converted,
    duplicates,
    go_quote,
    unread_head,
)
from sim.api.schema.times import is_no_time, read_time
from sim.api.types import Json, Obj
from sim.patterns import pattern
from sim.units import quantity_text

# Optional lists of which the absence and the emptiness differ (autoscaling/v2/defaults.go:
# copyHPAScalingRules).
_KEPT_EMPTY = {
    "autoscaling.v2.HPAScalingRules": "policies",
    "autoscaling.v2beta2.HPAScalingRules": "policies",
    "discovery.v1.EndpointSlice": "ports",
    "discovery.v1beta1.EndpointSlice": "ports",
}
# Structs that have no fields, so that all fields in them are unknown.
_FIELDLESS = "apiextensions.v1.CustomResourceSubresourceStatus"
IGNORE, WARN, STRICT = "Ignore", "Warn", "Strict"
RECORD = "metadata.managedFields"
# Times that are compared with none before they are written.
_COMPARED = ("metadata.deletionTimestamp", "eventTime")
_FRACTION = pattern(r"\.\d+")
PROBLEMS_MAX = 100  # sigs.k8s.io/json: saveStrictError; further ones are not reported


class DecodeError(Exception):
    """A body that is refused with 400 BadRequest.

    problems: messages about unknown and duplicate fields, which were noticed before
    """

    def __init__(self, message: str, problems: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.problems = problems


class Sent(NamedTuple):
    """What Go remembers of a body, and shows in some errors.

    quantities, times: the texts as they were sent, by the texts that the object holds
    emptied: the paths of empty lists and maps, which the object lacks
    """

    quantities: Mapping[str, str]
    emptied: Collection[str]
    times: Mapping[str, str] = MappingProxyType({})


def has_sections(node: SchemaNode, obj: Json) -> bool:
    """True if `obj` is an object and each member that is an object by the schema (metadata, spec,
    status ...) is one, or null.

    Used for bodies from system components; other fields of these bodies are not checked.
    """
    if not isinstance(obj, dict):
        return False
    properties = node.properties
    for name, value in obj.items():
        if value is not None and not isinstance(value, dict):
            section = properties.get(name)
            if section is not None and section.type in ("object", "map"):
                return False
    return True


def conform(node: SchemaNode, value: Json, kind: str, converted: bool = False) -> tuple[Any, list[str]]:
    """(object, problems), or (DecodeError, []) at the first value of a wrong type.

    converted: True if Go converts a map (runtime/converter.go), and does not read a text
    """
    return _Walk(converted).conform(node, value, kind)


def conform_noting_sent(
    node: SchemaNode, value: Json, kind: str, converted: bool = False, stored: bool = False
) -> tuple[Any, list[str], Sent]:
    """As `conform`, and what Go remembers of the value.

    stored: True if parts of the value are those of a stored object, of which a part that is sound
        stays the same value and need not be read again
    """
    walk = _Walk(converted)
    walk.sound = _SOUND[converted] if stored else None
    made, problems = walk.conform(node, value, kind)
    return made, problems, Sent(walk.quantities, walk.emptied, walk.times)


_encode = msgspec.json.Encoder().encode
# By schema and identity, parts of objects that reading leaves unchanged, for both ways of reading.
_SOUND: tuple[IdentityMemo[bool], ...] = (IdentityMemo(), IdentityMemo())


def is_sound(node: SchemaNode, part: Json) -> bool:
    """True if reading has left a part of an object unchanged, so that its types fit."""
    return _SOUND[True].get(node, part) is not None


def conform_part(node: SchemaNode, value: Json, at: str) -> tuple[Any, list[str]]:
    """As `conform`, for a value inside of an object that otherwise has no Go type.

    at: the path of the value in the object
    """
    return _Walk().conform(node, value, node.name.rpartition(".")[2], at)


def duplicate_fields(value: Json) -> list[str]:
    """The messages about keys that a decoded text held more than once."""
    found = [f"duplicate field {go_quote(path)}" for path in duplicates(value)]
    return list(dict.fromkeys(found))[:PROBLEMS_MAX]


# --- the walk -------------------------------------------------------------------------------------


class _WrongType(Exception):
    """A value of a wrong type.  Go notes the first one and reads on."""


class _Refused(Exception):
    """A text that a type of its own cannot read, which ends the reading.

    Quirk: so its error takes the place of those of values of a wrong type before it.
    """


def go_kind(value: Json) -> str:
    """Go's name for the kind of a JSON value."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, list):
        return "array"
    return "object" if isinstance(value, dict) else "number"


def head_problem(value: Json) -> str:
    """Why the version and kind of a body cannot be read, which is done first; "" if they can.

    Mirrors  apimachinery v1.25 pkg/runtime/serializer/json/meta.go.
    """
    if not isinstance(value, dict):
        return unread_head(
            f"json: cannot unmarshal {go_kind(value)} into Go value of type {VERSION_AND_KIND}"
        )
    for field in ("apiVersion", "kind"):
        given = value.get(field)
        if given is not None and not isinstance(given, str):
            what = f"{go_kind(given)} into Go struct field .{field} of type string"
            return unread_head(f"json: cannot unmarshal {what}")
    return ""


_GO_SCALARS = {
    "string": "string",
    "boolean": "bool",
    "int-or-string": "int32",
    "time": "string",
    "micro-time": "string",
    "quantity": "resource.Quantity",
    "any": "interface {}",
}


def _go_type(node: SchemaNode) -> str:
    if node.go_type:
        return node.go_type
    if node.type == "array":
        return "[]" + (_go_type(node.items) if node.items else "interface {}")
    if node.type == "map":
        return "map[string]" + (_go_type(node.values) if node.values else "interface {}")
    if node.type == "object":
        return ".".join(node.name.split(".")[-2:])  # its package is its version
    if node.type == "integer":
        return node.format or "int64"
    if node.type == "number":
        return "float64"
    return "[]uint8" if node.format == "byte" else _GO_SCALARS.get(node.type, "string")


class _Walk:
    """Rebuilds a value by its schema. Arguments of its methods:

    owner: the Go struct
    go: the field path in it, without indexes
    at: the field path with indexes
    """

    def __init__(self, converted: bool = False) -> None:
        self.converted = converted
        self.problems: list[str] = []
        self.quantities: dict[str, str] = {}
        self.emptied: dict[str, None] = {}
        self.times: dict[str, str] = {}
        self.wrong: str = ""
        self.sound: IdentityMemo[bool] | None = None

    def _note(self, error: _WrongType) -> None:
        self.wrong = self.wrong or str(error)

    def conform(self, node: SchemaNode, value: Json, kind: str, at: str = "") -> tuple[Any, list[str]]:
        """(object, problems), or (DecodeError, []) at the first value of a wrong type."""
        if not isinstance(value, dict):
            wrong = f"json: cannot unmarshal {go_kind(value)} into Go value of type v1.{kind}"
            return DecodeError(wrong), []
        try:
            made = self.fields(node, value, kind, "", at)
        except _Refused as error:
            return DecodeError(str(error)), []
        return (DecodeError(self.wrong), []) if self.wrong else (made, self.problems)

    def _report(self, problem: str) -> None:
        if len(self.problems) < PROBLEMS_MAX and problem not in self.problems:
            self.problems.append(problem)

    def fields(self, node: SchemaNode, value: Obj, owner: str, go: str, at: str) -> Obj:
        """The object with known, well-typed fields."""
        out: Obj = {}
        twice = isinstance(value, Twice)
        met: dict[str, None] = {}
        for key, given in value.pairs if isinstance(value, Twice) else value.items():
            path = f"{at}.{key}" if at else key
            below = node.properties.get(key)
            if twice and key in met and below is not None:
                self._report(f"duplicate field {go_quote(path)}")
            met[key] = None
            if below is None:
                self._report(f"unknown field {go_quote(path)}")
                continue
            if given is None:
                if key in out and (below.type in ("array", "map") or is_pointer(node, key)):
                    del out[key]
                continue
            try:
                made = self.value(
                    below,
                    given,
                    f"{owner}.{go}.{key}" if go else f"{owner}.{key}",
                    f"{go}.{key}" if go else key,
                    path,
                )
            except _WrongType as error:
                self._note(error)
                continue
            if key in out:
                made = _merged(below, out.pop(key), made, given)
            if below.type in ("time", "micro-time") and is_no_time(made) and path not in _COMPARED:
                out[key] = None  # written as null, though it is not absent
                continue
            if not made and key in node.spared:
                if below.format == "byte":
                    self.emptied[path] = None
                continue
            container = below.type in ("array", "map")
            if made or not container or _is_kept(node, key, path):
                out[key] = made
            if not made and (container or below.format == "byte"):
                self.emptied[path] = None
        return {**out, **missing} if (missing := _missing(node, out)) else out

    def _section(self, sound: IdentityMemo[bool], node: SchemaNode, value: Obj, at: str) -> Obj:
        """A member of the object: the value itself if reading changes nothing."""
        if sound.get(node, value):
            return value
        before = self._noted()
        made = self.fields(node, value, node.name.rpartition(".")[2], at, at)
        if self._noted() == before and _is_equal(made, value):
            sound.put(True, node, value)
            return value
        return made

    def _noted(self) -> tuple[object, ...]:
        """Changes when something is noted of a value."""
        return self.wrong, *map(len, (self.problems, self.emptied, self.quantities, self.times))

    def value(self, node: SchemaNode, value: Json, field: str, go: str, at: str) -> Any:
        """A value of a field."""
        kind = node.type
        if kind == "object":
            if not isinstance(value, dict):
                raise self._wrong(value, field, _go_type(node))
            if self.sound is not None and at == go != "metadata" and "." not in at and type(value) is dict:
                return self._section(self.sound, node, value, at)
            return (
                self.fields(node, value, node.name.rpartition(".")[2], go, at)
                if node.properties or short_name(node.name) == _FIELDLESS
                else _plain(value)
            )
        if kind == "map":
            return self._map(node, value, field, go, at)
        if kind == "array":
            return self._list(node, value, field, go, at)
        if kind in _SCHEMA_OR:  # here, because they nest: fewer stack frames per level
            return _schema_or(kind, value)
        return self._scalar(node, value, field)

    def _map(self, node: SchemaNode, value: Json, field: str, go: str, at: str) -> Any:
        if not isinstance(value, dict):
            raise self._wrong(value, field, _go_type(node))
        below = node.values
        if below is None:
            return _plain(value)
        if not isinstance(value, Twice) and _are_texts(below, value.values()):
            return dict(value)
        out: Obj = {}
        for key, given in value.pairs if isinstance(value, Twice) else value.items():
            if key in out:
                self._report(f"duplicate field {go_quote(f'{at}.{key}')}")
            try:
                out[key] = (
                    _zero(below) if given is None else self.value(below, given, field, go, f"{at}.{key}")
                )
            except _WrongType as error:
                self._note(error)
        return out

    def _list(self, node: SchemaNode, value: Json, field: str, go: str, at: str) -> Any:
        if not isinstance(value, list):
            raise self._wrong(value, field, _go_type(node))
        below = node.items
        if below is None:
            return [_plain(item) for item in value]
        if _are_texts(below, value):
            return list(value)
        out = []
        for i, item in enumerate(value):
            try:
                out.append(_zero(below) if item is None else self.value(below, item, field, go, f"{at}[{i}]"))
            except _WrongType as error:
                self._note(error)
        return out

    def _scalar(self, node: SchemaNode, value: Json, field: str) -> Any:
        kind = node.type
        if kind == "string":
            if node.format == "byte":
                return self._bytes(value, field)
            if not isinstance(value, str):
                raise self._wrong(value, field, node.go_type or "string")
            return value
        if kind == "boolean":
            if not isinstance(value, bool):
                raise self._wrong(value, field, "bool")
            return value
        if kind in ("integer", "number"):
            return self._number(node, value, field)
        if kind == "quantity":
            return self._quantity(value)
        if kind == "int-or-string":
            return value if isinstance(value, str) else self._int_of_either(node, value, field)
        if kind in ("time", "micro-time"):
            if not isinstance(value, str):
                wrong = str(self._wrong(value, field, "string"))
                raise _Refused(self._alone(wrong) if self.converted else wrong)
            try:
                read = read_time(value, kind == "micro-time")
            except ValueError as error:
                raise _Refused(str(error)) from None
            if kind == "time" and (fraction := _FRACTION.search(value)):  # which errors show
                self.times[read] = f"{read[:-1]}{fraction[0]}Z"
            return read
        return _plain(value)

    def _number(self, node: SchemaNode, value: Json, field: str) -> Any:
        if node.type == "number":
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise self._wrong(value, field, "float64")
            return go_number(float(value)) if isinstance(value, float | Fraction) else value
        target = "int32" if node.type == "int-or-string" else node.format or "int64"
        bits = 31 if target == "int32" else 63
        if self.converted and node.type == "integer":
            value = as_converted(value, bits)
        if isinstance(value, bool) or not isinstance(value, int) or not -(1 << bits) <= value < 1 << bits:
            raise self._wrong(value, field, target)
        return value

    def _int_of_either(self, node: SchemaNode, value: Json, field: str) -> Any:
        """The number of an IntOrString, which has a decoder of its own."""
        try:
            return self._number(node, value, field)
        except _WrongType as error:
            raise _Refused(self._alone(str(error))) from None

    def _alone(self, error: str) -> str:
        """The error of a type with a decoder of its own, which a conversion calls for a part alone."""
        head, _, target = error.partition(" into Go struct field ")
        return f"{head} into Go value of type {target.partition(' of type ')[2]}" if self.converted else error

    def _bytes(self, value: Json, field: str) -> Any:
        if isinstance(value, list):
            value = [0 if item is None else item for item in value]
            for item in value:
                if isinstance(item, bool) or not isinstance(item, int) or not 0 <= item < 256:
                    raise self._wrong(item, field, "uint8")
            return b64encode(bytes(value)).decode()
        if not isinstance(value, str):
            raise self._wrong(value, field, "[]uint8")
        wrong = corrupt_at(value)
        if wrong is not None:
            raise _WrongType(f"illegal base64 data at input byte {wrong}")
        return value.replace("\n", "").replace("\r", "")

    def _quantity(self, value: Json) -> str:
        text = value if isinstance(value, str) else None
        if text is None and isinstance(value, int | float) and not isinstance(value, bool):
            text = _number_text(value)
        try:
            shown = quantity_text(text if text is not None else "")
        except ValueError as error:
            raise _Refused(str(error)) from None
        if shown != text and text:
            self.quantities[shown] = text.strip()
        return shown

    def _wrong(self, value: Json, field: str, target: str) -> _WrongType:
        kind = go_kind(value)
        if kind == "number" and target[:3] in ("int", "uin", "flo"):
            kind = f"number {_number_text(value)}"
        return _WrongType(f"json: cannot unmarshal {kind} into Go struct field {field} of type {target}")


def _number_text(value: Json) -> str:
    """A number as its body held it."""
    return value.text if isinstance(value, Fraction) else str(value)


def _merged(node: SchemaNode, before: Any, made: Any, given: Json) -> Any:
    """The value of a field that a text holds twice: Go decodes the second one into the first.

    given: the second one as the text has it, without what Go always writes

    Quirk: so structs and maps are merged, and lists item by item.
    """
    dicts = isinstance(before, dict) and isinstance(made, dict) and isinstance(given, dict)
    if node.type in ("object", "map") and dicts:
        if node.type == "map" or not node.properties:
            return {**before, **made}
        merged = {
            key: _merged(node.properties[key], before[key], value, given[key]) if key in before else value
            for key, value in made.items()
            if key in given or key not in before
        }
        return {**before, **merged}
    if node.type == "array" and node.items is not None and isinstance(before, list) and made:
        if node.items.type == "object":
            parts = zip(before, made, given, strict=False)
            items = [_merged(node.items, old, new, text) for old, new, text in parts]
            return items + made[len(items) :]
    return made


def _plain(value: Json) -> Json:
    if isinstance(value, Fraction):
        return float(value)
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, list) else value


_SCHEMA_OR = ("schema-or-list", "schema-or-bool", "schema-or-names")


def _schema_or(kind: str, value: Json) -> Any:
    """A JSON schema or an alternative to one. Such a value has a decoder of its own.

    Quirk: therefore it drops unknown fields without a report, and paths in its errors start at the
    value. Any other value becomes null.
    Mirrors  apiextensions-apiserver v1.25 pkg/apis/apiextensions/v1/marshal.go.
    """
    node = schema_of(JSON_SCHEMA)
    if isinstance(value, dict):
        return _schema(node, value)
    if kind == "schema-or-bool":
        if not isinstance(value, bool):
            raise _Refused("boolean or JSON schema expected")
        return value
    if not isinstance(value, list) or not value:
        return None
    wanted, what = (dict, _go_type(node)) if kind == "schema-or-list" else (str, "string")
    for item in value:
        if item is not None and not isinstance(item, wanted):
            raise _Refused(f"json: cannot unmarshal {go_kind(item)} into Go value of type {what}")
    if wanted is str:
        return [item or "" for item in value]
    return [_schema(node, item or {}) for item in value]


def _schema(node: SchemaNode, value: Obj) -> Obj:
    walk = _Walk()
    made = walk.fields(node, value, "JSONSchemaProps", "", "")
    if walk.wrong:
        raise _Refused(walk.wrong)
    return made


_ZEROS = {"string": "", "boolean": False, "integer": 0, "number": 0}


def _is_equal(one: Obj, other: Obj) -> bool:
    """True if two objects are equal, with their members in one order, and numbers of one type."""
    try:
        return _encode(one) == _encode(other)
    except TypeError:  # parts that are texts of JSON
        return False


def _are_texts(node: SchemaNode, values: Iterable[Json]) -> bool:
    """True if all values are texts, as their type wants them: there can be very many."""
    return node.type == "string" and node.format != "byte" and {str}.issuperset(map(type, values))


def _is_kept(node: SchemaNode, key: str, path: str) -> bool:
    """True if a field is kept although it is an empty list or map.

    An empty list of managedFields has a meaning: a reset (`managed.given_record`).
    """
    if key in node.required or key in node.written or path == RECORD:
        return True
    return key in ("policies", "ports") and _KEPT_EMPTY.get(short_name(node.name)) == key


def _missing(node: SchemaNode, made: Obj) -> Obj:
    """What Go always writes, where it is absent or empty: other code relies on it."""
    absent = [key for key in node.required if key not in made and node.properties[key].type in _ZEROS]
    missing = {key: _ZEROS[node.properties[key].type] for key in absent}
    missing |= {key: None for key in node.nulls if made.get(key) != "" and not made.get(key)}
    return missing | {key: _missing(node.properties[key], {}) for key in node.structs if key not in made}


def _zero(node: SchemaNode) -> Any:
    """The value of null where Go holds a value, not a pointer."""
    if node.type == "object":
        return _missing(node, {})
    return "0" if node.type == "quantity" else _ZEROS.get(node.type)
