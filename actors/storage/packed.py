"""The compact form of stored objects that are many, alike, short-lived and hardly read: events.

Turns an object into a shape, shared by all objects that differ only in the values of some fields, and those values;
and back into an equal object when somebody reads it.

Holds: what is built equals what was packed, with its members in the same order; values are kept by identity, so
strings and subtrees shared with other objects stay shared; an object that does not fit is kept as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any

from sim.machinery.api import Obj
from sim.machinery.store import Item, Managed

# Strings below these names are the same in very many objects: they are part of the shape.
ALIKE = frozenset((
    "action", "apiVersion", "fieldPath", "kind", "namespace", "reason", "reportingComponent", "reportingInstance", "type",
))  # fmt: skip
SPLIT = frozenset(("metadata", "involvedObject"))  # maps that are taken apart
YOUNG_MAX = 256  # items that wait to be packed
SHAPES_MAX = 4_096  # shapes kept for those to come; objects hold on to theirs

_VALUE, _NAME, _REVISION = object(), object(), object()  # in the place of a value that is not of the shape


class Shape:
    """What alike objects share: the names of their fields in order, and the values that are equal."""

    __slots__ = ("parts",)

    def __init__(self, parts: tuple[tuple[str, Any], ...]) -> None:
        self.parts = parts  # name, and value or a placeholder or (for a map taken apart) its own parts

    def build(self, name: str, rev: int, values: tuple[Any, ...]) -> Obj:
        return _built(self.parts, name, rev, iter(values))


def _built(parts: tuple[tuple[str, Any], ...], name: str, rev: int, values: Iterator[Any]) -> Obj:
    obj: Obj = {}
    for field, part in parts:
        if part is _VALUE:
            part = next(values)
        elif part is _NAME:
            part = name
        elif part is _REVISION:
            part = str(rev)
        elif type(part) is tuple:
            part = _built(part, name, rev, values)
        obj[field] = part
    return obj


class Packer:
    """Makes and packs the items of one resource: a new one stays as it is while somebody is likely to look at it."""

    __slots__ = ("_cuts", "_known", "_young", "_young_max")

    def __init__(self, young_max: int = YOUNG_MAX) -> None:
        self._known: dict[tuple[Any, ...], Shape] = {}
        self._cuts: dict[tuple[Any, ...], Cut] = {}
        self._young: list[PackedItem] = []
        self._young_max = young_max

    def item(
        self, key: str, obj: Obj, rev: int, created: int, managed: tuple[Managed, ...] = ()
    ) -> PackedItem:
        young = self._young
        if len(young) >= self._young_max:
            for older in young:
                older.pack(self)
            young.clear()
        item = PackedItem(key, obj, rev, created, managed)
        young.append(item)
        return item

    def pack(self, obj: Obj, name: str, rev: int) -> tuple[Shape, tuple[Any, ...]] | None:
        """None for an object that carries another name or revision than it is stored under."""
        metadata = obj["metadata"]
        if metadata.get("name") != name or metadata.get("resourceVersion") != str(rev):
            return None
        involved = obj.get("involvedObject")
        if type(involved) is not dict:
            return self._pack(obj)
        flat = (*obj.values(), *metadata.values(), *involved.values())
        layout = (len(obj), len(metadata), *obj, *metadata, *involved, *map(type, flat))
        cut = self._cuts.get(layout)
        if cut is None:
            if len(self._cuts) >= SHAPES_MAX:
                self._cuts.clear()
            cut = self._cuts[layout] = _cut(obj, metadata)
        alike = cut.alike(flat)
        shape = cut.shapes.get(alike)
        if shape is None:
            if len(cut.shapes) >= SHAPES_MAX:
                cut.shapes.clear()
            shape = cut.shapes[alike] = self._pack(obj)[0]
        return shape, cut.own(flat)

    def _pack(self, obj: Obj) -> tuple[Shape, tuple[Any, ...]]:
        values: list[Any] = []
        parts = tuple([_part(field, value, values) for field, value in obj.items()])
        shape = self._known.get(parts)
        if shape is None:
            if len(self._known) >= SHAPES_MAX:
                self._known.clear()
            shape = self._known[parts] = Shape(parts)
        return shape, tuple(values)


class Cut:
    """What of objects with the same names and types in the same order goes into the shape, and what is their own.

    alike, own: pick from the values of the object, its metadata and its reference, one after the other
    """

    __slots__ = ("alike", "own", "shapes")

    def __init__(self, alike: list[int], own: list[int]) -> None:
        self.alike, self.own = _picker(alike), _picker(own)
        self.shapes: dict[tuple[Any, ...], Shape] = {}


def _picker(places: list[int]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    if len(places) > 1:
        return itemgetter(*places)
    return lambda flat: tuple([flat[place] for place in places])


def _cut(obj: Obj, metadata: Obj) -> Cut:
    """As `_part` and `_inner` tell the values apart."""
    alike: list[int] = []
    own: list[int] = []
    inner = {"metadata": len(obj), "involvedObject": len(obj) + len(metadata)}
    for at, (field, value) in enumerate(obj.items()):
        if field in SPLIT:
            mine = field == "metadata"
            for place, (name, below) in enumerate(value.items(), inner[field]):
                if not (mine and name in ("name", "resourceVersion")):
                    _tell(name, below, place, alike, own)
        else:
            _tell(field, value, at, alike, own)
    return Cut(alike, own)


def _tell(field: str, value: Any, place: int, alike: list[int], own: list[int]) -> None:
    if type(value) is str and field in ALIKE:
        alike.append(place)
    elif value is not None:
        own.append(place)


def _part(field: str, value: Any, values: list[Any]) -> tuple[str, Any]:
    kind = type(value)
    if kind is dict and field in SPLIT:
        own = field == "metadata"
        return field, tuple([_inner(own, name, inner, values) for name, inner in value.items()])
    if value is None or (kind is str and field in ALIKE):
        return field, value
    values.append(value)
    return field, _VALUE


def _inner(own: bool, field: str, value: Any, values: list[Any]) -> tuple[str, Any]:
    if own and field == "name":
        return field, _NAME
    if own and field == "resourceVersion":
        return field, _REVISION
    if value is None or (type(value) is str and field in ALIKE):
        return field, value
    values.append(value)
    return field, _VALUE


class PackedItem(Item):
    """A revision whose object is built each time that somebody reads it, once it has been packed."""

    __slots__ = ("_plain", "_shape", "_values")

    def __init__(self, key: str, obj: Obj, rev: int, created: int, managed: tuple[Managed, ...] = ()) -> None:
        self.key = key
        self.rev = rev
        self.created = created
        self.managed = managed
        self.cause = 0
        self.raw = None
        self._plain: Obj | None = obj
        self._shape: Shape | None = None
        self._values: tuple[Any, ...] = ()

    @property
    def obj(self) -> Obj:  # type: ignore[override]
        plain, shape = self._plain, self._shape
        if plain is None:
            assert shape is not None
            return shape.build(self.key.rpartition("/")[2], self.rev, self._values)
        return plain

    def pack(self, packer: Packer) -> None:
        """Nobody is likely to read it any more."""
        plain = self._plain
        if plain is not None:
            packed = packer.pack(plain, self.key.rpartition("/")[2], self.rev)
            if packed is not None:
                self._shape, self._values = packed
                self._plain = None

    def restamped(self, rev: int) -> PackedItem:
        """Its last state, as of its deletion."""
        plain = self._plain
        if plain is not None:
            plain = {**plain, "metadata": {**plain["metadata"], "resourceVersion": str(rev)}}
        item = PackedItem(self.key, plain or {}, rev, self.created, self.managed)
        item._plain, item._shape, item._values = plain, self._shape, self._values
        return item
