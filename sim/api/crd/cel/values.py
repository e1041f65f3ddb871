"""The values that rules compute with.

JSON becomes values by its schema: texts with a format become times, durations or bytes; lists and
objects stay JSON and give their parts as values when they are asked for, so that a rule costs no
more than it reads.

A value is None, a bool, int (of 64 bits), `Uint`, float, str, bytes, `Duration`, `Timestamp`,
`TypeName`, `Url`, a `Listing` or a `Mapping`.

Holds: values never change; two lists of type `set` or `map` are equal regardless of their order.

Mirrors  apiextensions-apiserver v1.25 pkg/apiserver/schema/cel/values.go; cel-go v0.12
         common/types/{list,map,object,provider}.go.
Differs  the keys of a map are visited in the order of the object, upstream's order is random.
"""

from __future__ import annotations

import base64
import binascii
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from typing import Any, NamedTuple

from sim.api.crd.cel.declared import escaped, unescaped, with_head
from sim.api.crd.cel.syntax import Uint
from sim.api.crd.formats import duration_ns, time_ns
from sim.api.crd.structural import ANYTHING, Structural
from sim.api.crd.urls import Url
from sim.api.patch.json_patches import equal as same_json
from sim.api.types import Json, Obj

NO_OVERLOAD = "no such overload"
MISSING: Any = object()
_PLAIN = (str, int, bool)  # values of one of these types are equal if Python says so
DAY_NS = 86_400 * 10**9
EPOCH_DAY = date(1970, 1, 1).toordinal()


class CelError(Exception):
    """The evaluation of a part of a rule fails; the message is the one that users see."""


class Crash(Exception):
    """The evaluation as a whole fails, as by a panic of upstream's; no operator can absorb it."""


class Duration(NamedTuple):
    """A length of time."""

    ns: int


class Timestamp(NamedTuple):
    """A point in time, since 1970. zone_s: the offset in which it was written; no part of it."""

    ns: int
    zone_s: int = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Timestamp) and self.ns == other.ns

    def __hash__(self) -> int:
        return hash(self.ns)


class TypeName(NamedTuple):
    """A type as a value."""

    name: str


# --- lists ----------------------------------------------------------------------------------------


class Listing(ABC):
    """A list."""

    @abstractmethod
    def size(self) -> int:
        """The number of items."""

    @abstractmethod
    def at(self, index: int) -> Any:
        """An item.  Raises CelError."""

    @abstractmethod
    def values(self) -> list[Any]:
        """The items, with an error in place of each that has no value.  Not to be changed."""

    @abstractmethod
    def plus(self, other: Listing) -> Listing:
        """The list with another after it."""

    def kind(self) -> type | None:
        """The type of all items if it is one of texts, integers and booleans."""
        kinds = set(map(type, self.values()))
        found = kinds.pop() if len(kinds) == 1 else None
        return found if found in _PLAIN else None

    def contains(self, item: Any) -> bool:
        """Return True if an item is equal to this one.  Raises CelError."""
        if item.__class__ in _PLAIN and self.kind() is item.__class__:
            return item in self.values()
        return self._holds(item)

    def _holds(self, item: Any) -> bool:
        for one in self:
            try:
                if equals(item, one):
                    return True
            except CelError:
                continue
        return False

    def equals(self, other: Any) -> bool:
        """Return True if the items are equal one by one."""
        if not isinstance(other, Listing) or self.size() != other.size():
            return False
        kind = self.kind()
        if kind is not None and kind is other.kind():
            return self.values() == other.values()
        return all(equals(one, two) for one, two in zip(self, other, strict=True))

    def __iter__(self) -> Iterator[Any]:
        for value in self.values():
            if value.__class__ is CelError:
                raise value.with_traceback(None)
            yield value


class Literal(Listing):
    """A list that a rule makes.

    A list that grows by one item with each round of a loop shares its storage with the one before.
    """

    __slots__ = ("_items", "_size")

    def __init__(self, items: list[Any], size: int | None = None) -> None:
        self._items = items
        self._size = len(items) if size is None else size

    def size(self) -> int:
        """See `Listing.size`."""
        return self._size

    def at(self, index: int) -> Any:
        """See `Listing.at`."""
        if not 0 <= index < self._size:
            raise CelError(f"index '{index}' out of range in list size '{self._size}'")
        return self._items[index]

    def values(self) -> list[Any]:
        """See `Listing.values`."""
        if len(self._items) != self._size:
            self._items = self._items[: self._size]
        return self._items

    def plus(self, other: Listing) -> Listing:
        """See `Listing.plus`."""
        if self._size == 0:
            return other
        if other.size() == 0:
            return self
        items = self._items if len(self._items) == self._size else self._items[: self._size]
        items.extend(other)
        return Literal(items, self._size + other.size())


class Given(Listing):
    """A list of an object."""

    __slots__ = ("_keys", "_kind", "_same", "_values", "items", "raw", "schema")

    def __init__(self, raw: list[Json], schema: Structural, items: Structural) -> None:
        self.raw, self.schema, self.items = raw, schema, items
        self._values: list[Any] | None = None
        self._kind: Any = MISSING
        self._keys: dict[Any, int] | None = None
        self._same: bool | None = None

    def size(self) -> int:
        """See `Listing.size`."""
        return len(self.raw)

    def at(self, index: int) -> Any:
        """See `Listing.at`."""
        if not 0 <= index < len(self.raw):
            raise CelError(f"index out of bounds: {index}")
        if self._values is None:
            return value_of(self.raw[index], self.items)
        found = self._values[index]
        if found.__class__ is CelError:
            raise found.with_traceback(None)
        return found

    def values(self) -> list[Any]:
        """See `Listing.values`."""
        if self._values is None:
            if set(map(type, self.raw)) == {_as_given(self.items)}:
                self._values = self.raw
            else:
                self._values = [value_or_error(item, self.items) for item in self.raw]
        return self._values

    def kind(self) -> type | None:
        """See `Listing.kind`."""
        if self._kind is MISSING:
            self._kind = super().kind()
        found: type | None = self._kind
        return found

    def keys(self) -> dict[Any, int]:
        """The places of the items of a set or map by what makes them the same, the last of each."""
        if self._keys is None:
            self._keys = {self.key(item): i for i, item in enumerate(self.raw)}
        return self._keys

    def _holds(self, item: Any) -> bool:
        failed = False
        for one in self:
            try:
                if equals(one, item):
                    return True
            except CelError:
                failed = True
        if failed:
            raise CelError(NO_OVERLOAD)
        return False

    def key(self, item: Json) -> Any:
        """What makes an item of a set or map the same as another."""
        if self.schema.list_type == "set":
            return _hashable(item)
        if not isinstance(item, dict):
            raise CelError("unexpected data format for element of array with x-kubernetes-list-type=map")
        # Quirk: keys are looked up by their names in rules, so that an escaped one is absent.
        return tuple(_hashable(item.get(escaped(key) or key)) for key in self.schema.map_keys)

    def plus(self, other: Listing) -> Listing:
        """See `Listing.plus`."""
        made, more = list(self.raw), [plain(item) for item in other]
        if self.schema.list_type in ("set", "map"):
            places = dict(self.keys())
            for item in more:
                place = places.setdefault(self.key(item), len(made))
                if place == len(made):
                    made.append(item)
                elif self.schema.list_type == "map":
                    made[place] = item
        else:
            made += more
        return Given(made, self.schema, self.items)

    def equals(self, other: Any) -> bool:
        """See `Listing.equals`."""
        if not isinstance(other, Listing):
            raise CelError(NO_OVERLOAD)
        if self.size() != other.size():
            return False
        if other is not self:
            return self._equals(other)
        if self._same is None:
            self._same = self._equals(other)
        return self._same

    def _equals(self, other: Listing) -> bool:
        if self.schema.list_type not in ("set", "map"):
            return super().equals(other)
        mine = self.keys()
        for item in other:
            key = self.key(plain(item))
            if key not in mine:
                return False
            if self.schema.list_type == "map" and not equals(self.at(mine[key]), item):
                return False
        return True


def _hashable(value: Json) -> Any:
    # Python takes 1, 1.0 and True for one key; Go does not.
    return (type(value).__name__, value if isinstance(value, str | int | float | None) else repr(value))


# --- maps -----------------------------------------------------------------------------------------


class Mapping(ABC):
    """A map, or an object with fields."""

    @abstractmethod
    def size(self) -> int:
        """The number of entries."""

    @abstractmethod
    def find(self, key: Any) -> tuple[bool, Any]:
        """Whether a key is there, and its value.  Raises CelError."""

    @abstractmethod
    def names(self) -> Sequence[Any]:
        """The keys."""

    def equals(self, other: Any) -> bool:
        """Return True if both have the same keys with equal values."""
        if not isinstance(other, Mapping) or self.size() != other.size():
            return False
        for key in self.names():
            known, value = other.find(key)
            if not known or not equals(self.find(key)[1], value):
                return False
        return True


class LiteralMap(Mapping):
    """A map that a rule makes."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Sequence[tuple[Any, Any]]) -> None:
        self._entries = {_map_key(key): (key, value) for key, value in entries}

    def size(self) -> int:
        """See `Mapping.size`."""
        return len(self._entries)

    def find(self, key: Any) -> tuple[bool, Any]:
        """See `Mapping.find`."""
        found = self._entries.get(_map_key(key))
        return (False, None) if found is None else (True, found[1])

    def names(self) -> Sequence[Any]:
        """See `Mapping.names`."""
        return [key for key, _ in self._entries.values()]


def _map_key(key: Any) -> Any:
    if isinstance(key, bool) or not isinstance(key, int | float):
        return (type(key).__name__, key)
    return ("number", key)


class GivenMap(Mapping):
    """An object, or a map in one."""

    __slots__ = ("_same", "known", "raw", "schema")

    def __init__(self, raw: Obj, schema: Structural) -> None:
        self.raw, self.schema = raw, schema
        self.known: dict[Any, Any] = {}  # the values that were found, by their names in rules
        self._same: bool | None = None

    def size(self) -> int:
        """See `Mapping.size`."""
        return len(self.raw)

    def _below(self, key: str) -> Structural | None:
        rest = self.schema.rest
        if self.schema.properties:
            return self.schema.properties.get(key)
        return None if rest is ANYTHING else rest

    def find(self, key: Any) -> tuple[bool, Any]:
        """See `Mapping.find`."""
        found = self.known.get(key, MISSING) if key.__class__ is str else MISSING
        if found is not MISSING:
            return True, found
        if not isinstance(key, str):
            raise CelError(NO_OVERLOAD)
        name: str | None = unescaped(key) if self.schema.properties else key
        if name is None or name not in self.raw:
            return False, None
        given, below = self.raw[name], self._below(name)
        if below is None or (given is None and self.schema.properties):
            return False, None
        found = self.known[key] = value_of(given, below)
        return True, found

    def names(self) -> Sequence[Any]:
        """See `Mapping.names`."""
        known = [key for key in self.raw if self._below(key) is not None]
        return [escaped(key) or key for key in known] if self.schema.properties else known

    def equals(self, other: Any) -> bool:
        """See `Mapping.equals`."""
        if not isinstance(other, Mapping):
            raise CelError(NO_OVERLOAD)
        if self.size() != other.size():
            return False
        if other is not self:
            return self._equals(other)
        if self._same is None:
            self._same = self._equals(other)
        return self._same

    def _equals(self, other: Mapping) -> bool:
        for key, given in self.raw.items():
            below = self._below(key)
            if below is not None:
                # Quirk: looked up as in a rule, so that a key with a special character is absent.
                known, value = other.find(key)
                if not known or not equals(value_of(given, below), value):
                    return False
            elif not isinstance(other, GivenMap):
                raise CelError(NO_OVERLOAD)
            elif key in other.raw and not same_json(given, other.raw[key]):
                return False
        return True


class Unknown:
    """A value of unknown form, which can only be compared."""

    __slots__ = ("raw",)

    def __init__(self, raw: Json) -> None:
        self.raw = raw


# --- from JSON ------------------------------------------------------------------------------------


def value_or_error(raw: Json, schema: Structural) -> Any:
    """A part of an object as a value, or the error that it does not fit its schema."""
    try:
        return value_of(raw, schema)
    except CelError as error:
        return error


def value_of(raw: Json, schema: Structural) -> Any:
    """A part of an object as a value.  Raises CelError if it does not fit its schema."""
    if raw is None:
        if schema.nullable:
            return None
        raise CelError("invalid data, got null for schema with nullable=false")
    if schema.int_or_string:
        if isinstance(raw, str) or (isinstance(raw, int) and not isinstance(raw, bool)):
            return raw
        raise CelError("invalid data, expected XIntOrString value to be either a string or integer")
    make = _MAKERS.get(schema.type)
    if make is not None:
        return make(raw, schema)
    if schema.free:
        return Unknown(raw)
    raise CelError(
        "invalid type, expected object, array, number, integer, boolean or string, or no type with "
        f"x-kubernetes-int-or-string or x-kubernetes-preserve-unknown-fields is true, got {schema.type}"
    )


_GO_TYPES = {bool: "bool", int: "int64", float: "float64", str: "string", list: "[]interface {}"}


def _wrong(wanted: str, raw: Json) -> CelError:
    given = _GO_TYPES.get(type(raw), "map[string]interface {}")
    return CelError(f"invalid data, expected {wanted}, got {given}")


def _object(raw: Json, schema: Structural) -> Any:
    if not isinstance(raw, dict):
        raise CelError("invalid data, expected a map for the provided schema with type=object")
    if schema.embedded:
        return GivenMap(raw, with_head(schema))
    declares = "properties" in schema.raw or bool(schema.properties)
    if declares or (schema.rest is not None and schema.rest is not ANYTHING) or schema.free:
        return GivenMap(raw, schema)
    raise CelError(
        "invalid object type, expected either Properties or AdditionalProperties with Allows=true and "
        "non-empty Schema"
    )


def _array(raw: Json, schema: Structural) -> Any:
    if not isinstance(raw, list):
        raise CelError("invalid data, expected an array for the provided schema with type=array")
    if schema.items is None:
        raise CelError("invalid array type, expected Items with a non-empty Schema")
    return Given(raw, schema, schema.items)


def _string(raw: Json, schema: Structural) -> Any:
    if not isinstance(raw, str):
        raise _wrong("string", raw)
    form = schema.raw.get("format")
    if form == "duration":
        ns = duration_ns(raw)
        if ns is None:
            raise CelError(f"Invalid duration {raw}: unable to parse {raw} as a duration")
        return Duration(ns)
    if form in ("date", "date-time"):
        found = time_ns(f"{raw}T00:00:00Z" if form == "date" else raw)
        if found is None:
            raise CelError(f"Invalid {form} formatted string {raw}")
        return Timestamp(*found)
    if form == "byte":
        try:
            return base64.b64decode(raw, validate=True)
        except (ValueError, binascii.Error):
            raise CelError(f"Invalid byte formatted string {raw}") from None
    return raw


def _number(raw: Json, _: Structural) -> float:
    if isinstance(raw, bool) or not isinstance(raw, int | float):
        raise _wrong("float", raw)
    return float(raw)


def _integer(raw: Json, _: Structural) -> int:
    if isinstance(raw, bool) or not isinstance(raw, int):
        raise _wrong("int", raw)
    return raw


def _boolean(raw: Json, _: Structural) -> bool:
    if not isinstance(raw, bool):
        raise _wrong("bool", raw)
    return raw


def _as_given(schema: Structural) -> type | None:
    """The type of JSON values that are themselves the values of a schema, None if there is none."""
    if schema.int_or_string or (schema.type == "string" and schema.raw.get("format") in _FORMATS):
        return None
    return {"string": str, "integer": int, "boolean": bool}.get(schema.type)


_FORMATS = ("duration", "date", "date-time", "byte")
_MAKERS: dict[str, Callable[[Json, Structural], Any]] = {
    "object": _object,
    "array": _array,
    "string": _string,
    "number": _number,
    "integer": _integer,
    "boolean": _boolean,
}


def plain(value: Any) -> Json:
    """A value as JSON, as far as it came from JSON or is like it."""
    if isinstance(value, Given | GivenMap | Unknown):
        return value.raw
    if isinstance(value, Listing):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): plain(value.find(key)[1]) for key in value.names()}
    found: Json = value
    return found


# --- comparison -----------------------------------------------------------------------------------


def equals(one: Any, other: Any) -> bool:
    """CEL's equality, which takes values of different types for different.  Raises CelError."""
    if one.__class__ is other.__class__ and one.__class__ in _PLAIN:
        return bool(one == other)
    if one is None or other is None:
        return one is other
    if isinstance(one, Listing | Mapping):
        return one.equals(other)
    if isinstance(one, Unknown):
        return bool(same_json(one.raw, plain(other)))
    numbers = [isinstance(value, int | float) and not isinstance(value, bool) for value in (one, other)]
    if all(numbers):
        return bool(one == other)
    return type(one) is type(other) and bool(one == other)


def type_name(value: Any) -> TypeName:
    """The type of a value."""
    if isinstance(value, Listing):
        return TypeName("list")
    if isinstance(value, Mapping):
        return TypeName("map")
    return TypeName(_NAMES.get(type(value), "type"))


_NAMES: dict[type, str] = {
    type(None): "null_type",
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    Url: "kubernetes.URL",
}
