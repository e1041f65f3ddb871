"""Compact items: stored objects that are numerous, similar and rarely read once they are at rest.

This applies to pods and events. An object turns into a shape, shared by all objects that differ
only in the values of some fields, and those values; a read turns them back into an equal object. Of
an object's own values, those of a fixed form (times, addresses, uids, container ids:
`encoded_texts`) become bytes; the rest, in which the object's name is replaced by a marker, is
mostly equal for many objects.

Holds: the built object equals the packed one, with its members in the same order; subtrees shared
with other objects stay shared; an object that does not fit stays unpacked; the latest writes are
not packed yet, so that their first readers get the object that was written (an event is not read at
once: the API server passes its values, and no object is created, `Packer.cast`). A revision that
another one replaced is soon forgotten: it is not packed, but only taken apart (`PastItem`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, ClassVar, NamedTuple

from actors.storage.compact.shapes import (
    IS_AKIN,
    IS_ALIKE,
    IS_FORMED,
    IS_OWN,
    PLAIN,
    SELF,
    SPLIT,
    Column,
    Cut,
    Shape,
    Table,
    Values,
    shape_of,
    split,
    stem_of,
)  # fmt: skip
from sim.api.store import Item, Managed
from sim.api.types import Obj
from sim.units import Revision

# Number of items that wait to be packed, at least. With a twelfth of it a zone outage took 2.5 %
# more calls, as revisions were packed that were replaced soon.
YOUNG_MAX = 3072
# Number of items that are packed at a time: 1 ms. Of 2,048, clients had to wait for 20 to 30 ms.
PART_MAX = 128
# Shapes and shared tuples remembered for later objects; objects keep references to their own.
SHAPES_MAX = 4_096
TABLES_MAX = 64  # tables of shapes and rests, by the types of their values
RESTS_MAX = 16_384  # limit for values that differ from node to node


def _rows(columns: Sequence[Iterable[Any]], count: int) -> list[Values]:
    """The values of each of `count` objects, from columns of their values."""
    return [*zip(*columns, strict=True)] if columns else [()] * count


def _types(columns: Sequence[Column]) -> Values | None:
    """The type of each column's values, which separates equal values of different types; None if a
    column has several types.
    """
    types = []
    for column in columns:
        kind, *others = {*map(type, column)}
        if others:
            return None
        types.append(kind)
    return tuple(types)


ItemPattern = tuple[Cut, Cut]  # with texts encoded, and without for texts of another form
Cast = tuple[Shape, ItemPattern, list[Any]]
NO_SHAPES: dict[Values, Any] = {}


def _table(tables: Table, types: Values, more: int, size_max: int) -> dict[Values, Any]:
    """The table for these types, with room for `more` entries."""
    if types not in tables and len(tables) >= TABLES_MAX:
        tables.clear()
    table = tables.setdefault(types, {})
    if len(table) + more > size_max:
        table.clear()
    return table


class Packer:
    """Creates and packs the items of one resource; a new item stays unpacked while reads of it are
    likely.

    current: the resource's items; an item that is not among them any more is not packed
    """

    __slots__ = (
        "_akin",
        "_current",
        "_layouts",
        "_part",
        "_patterns",
        "_rests",
        "_young",
        "_young_max",
    )

    def __init__(self, current: Mapping[str, Item], young_max: int = YOUNG_MAX) -> None:
        self._current = current
        self._patterns: dict[Values, ItemPattern] = {}  # by names in their order
        self._akin: dict[tuple[int, ...], Values] = {}
        self._layouts: dict[tuple[str | None, ...], Layout] = {}  # of superseded revisions
        self._rests: Table = {}
        self._young: list[YoungItem] = []
        self._part = min(PART_MAX, max(1, young_max))
        self._young_max = young_max + self._part

    def item(
        self, key: str, obj: Obj, rev: Revision, created: Revision, managed: tuple[Managed, ...] = ()
    ) -> YoungItem:
        """A new item, which is packed later."""
        item = YoungItem(key, obj, rev, created, managed)
        self._add(item)
        return item

    def pattern(self, obj: Obj) -> ItemPattern | None:
        """The pattern by which `cast` creates objects with the names and structure of this one;
        None if it does not fit.
        """
        flat: list[Any] = []
        pattern = self._pattern(obj, flat)
        if pattern is None or self._shapes(pattern[0], [obj], [[value] for value in flat]) is None:
            return None
        return pattern

    @staticmethod
    def shape(pattern: ItemPattern, flat: list[Any]) -> Shape | None:
        """The shape of an object that has not been built; None if there was no similar object.

        flat: its values in the order of `_split`; name and revision may be anything
        """
        alike = pattern[0].pick(flat)
        known: Shape | None = pattern[0].shapes.get(tuple(map(type, alike)), NO_SHAPES).get(alike)
        return known

    def cast(self, key: str, state: Cast, rev: Revision, managed: tuple[Managed, ...]) -> UnbuiltItem:
        """A newly created item with an object that has not been built and probably never is."""
        item = UnbuiltItem.__new__(UnbuiltItem)
        item.key, item.rev, item.created, item.managed = key, rev, rev, managed
        item.cause, item.raw, item.state = 0, None, state
        self._add(item)
        return item

    def _add(self, item: YoungItem) -> None:
        young = self._young
        if len(young) >= self._young_max:
            current, part = self._current, young[: self._part]
            del young[: self._part]
            self.pack([old for old in part if current.get(old.key) is old])
            for old in part:
                if type(old) is YoungItem and current.get(old.key) is not old:
                    self._take_apart(old)
        young.append(item)

    def _take_apart(self, item: YoungItem) -> None:
        names: list[str | None] = []
        values: list[Any] = [None]
        for name, part in item.obj.items():
            names.append(name)
            if type(part) is dict:
                names += part
                values += part.values()
            else:
                names.append(None)
                values.append(part)
        key = tuple(names)
        layout = self._layouts.get(key)
        if layout is None:
            if len(self._layouts) >= SHAPES_MAX:
                self._layouts.clear()
            layout = self._layouts[key] = layout_of(item.obj)
        if values[layout.revision] == str(item.rev):
            values[0], values[layout.revision] = layout, None
            item.become_past(tuple(values))

    def pack(self, items: Iterable[YoungItem]) -> None:
        """Pack all items except those that have another name or revision than their key and
        revision, and those that do not fit.
        """
        groups: dict[int, tuple[ItemPattern, list[YoungItem], list[list[Any]]]] = {}
        for item in items:
            if type(item) is UnbuiltItem:
                _, pattern, flat = item.state
            else:
                obj, flat = item.obj, []
                metadata = obj["metadata"]
                name = item.key.rpartition("/")[2]
                if metadata.get("name") != name or metadata.get("resourceVersion") != str(item.rev):
                    continue
                found = self._pattern(obj, flat)
                if found is None:
                    continue
                pattern = found
            _, alike, flats = groups.setdefault(id(pattern), (pattern, [], []))
            alike.append(item)
            flats.append(flat)
        for pattern, alike, flats in groups.values():
            if not self._pack(pattern[:1], alike, flats):
                for one, flat in zip(alike, flats, strict=True):
                    self._pack(pattern, [one], [flat])

    def _pattern(self, obj: Obj, flat: list[Any]) -> ItemPattern | None:
        """How objects with the names of `obj` are cut; adds its values to `flat`."""
        layout: list[Any] = [*obj]
        if not split(obj, SPLIT, layout, flat):
            return None
        key = tuple(layout)
        pattern = self._patterns.get(key)
        if pattern is None:
            if len(self._patterns) >= SHAPES_MAX:
                self._patterns.clear()
            pattern = self._patterns[key] = (Cut(obj, is_brief=True), Cut(obj, is_brief=False))
        return pattern

    def _pack(self, cuts: Sequence[Cut], items: list[YoungItem], flats: list[list[Any]]) -> bool:
        """Pack items with the same names in the same order by the first cut that fits all of them;
        False if none does.
        """
        columns = [*zip(*flats, strict=True)]
        for cut in cuts:
            try:
                data = cut.data(items, columns)
            except (ValueError, TypeError, KeyError, struct.error):
                # A value has another form, or is a mapping where a text is cut (which raises
                # KeyError from Python 3.12 on).
                continue
            places: Sequence[int] = [0] * len(items)
            if cut.is_brief and {*map(type, items)} == {UnbuiltItem}:
                shapes: list[Shape] | None = [item._data[0] for item in items]
                # These items are created together and expire together: one shared piece of memory
                # saves 44 bytes for each.
                data, places = [b"".join(data)] * len(items), range(len(items))
            else:
                shapes = self._shapes(cut, items, columns)
            rests = self._shared(cut, items, columns)
            if shapes is None or rests is None:
                return False
            akin = self._kin([columns[at] for at in cut.layout.akin], len(items))
            for item, shape, kin, rest, block, at in zip(
                items, shapes, akin, rests, data, places, strict=True
            ):
                item.become(shape, kin, rest, block, at)
            return True
        return False

    @staticmethod
    def _shapes(cut: Cut, items: Sequence[Item | Obj], columns: Sequence[Column]) -> list[Shape] | None:
        alike = [columns[at] for at in cut.alike]
        types = _types(alike)
        if types is None or not PLAIN.issuperset(types):
            return None
        known, rows = _table(cut.shapes, types, len(items), SHAPES_MAX), _rows(alike, len(items))
        for row, item in zip(rows, items, strict=True):
            if row not in known:
                known[row] = shape_of(item if isinstance(item, dict) else item.obj, cut)
        return [*map(known.__getitem__, rows)]

    def _kin(self, columns: Sequence[Column], count: int) -> list[Values]:
        """The values of each object, with one tuple for all objects with the same values."""
        if len(self._akin) + count > SHAPES_MAX:
            self._akin.clear()
        ids = _rows([map(id, column) for column in columns], count)
        return [*map(self._akin.setdefault, ids, _rows(columns, count))]

    def _shared(self, cut: Cut, items: list[YoungItem], columns: Sequence[Column]) -> list[Values] | None:
        """The remaining values, with one tuple for equal values; the object's name in them is
        replaced by a marker. None if the items cannot be packed together.
        """
        chosen: list[Column] = [columns[at] for at in cut.rest]
        stems = [stem_of(item.key) for item in items] if cut.layout.naming else ()
        if not all(stems):
            return None
        for at in cut.layout.naming:
            column = chosen[at]
            if {*map(type, column)} == {str}:
                if SELF in "".join(column):
                    return None
                chosen[at] = [*map(str.replace, column, stems, repeat(SELF))]
            elif any(type(text) is str for text in column):
                return None
        rows, types = _rows(chosen, len(items)), _types(chosen)
        if types is None:
            return None
        if not PLAIN.issuperset(types):
            return rows
        return [*map(_table(self._rests, types, len(items), RESTS_MAX).setdefault, rows, rows)]


class YoungItem(Item):
    """A revision that becomes a `PackedItem` when reads of it are unlikely."""

    __slots__ = ("_data",)

    _data: Any

    def become(self, shape: Shape, akin: Values, rest: Values, block: bytes, at: int) -> None:
        """Turn into a packed item, in place."""
        packed: Any = self
        packed.__class__ = PackedItem
        packed._shape, packed._akin, packed._rest, packed._data, packed._at = shape, akin, rest, block, at

    def become_past(self, values: Values) -> None:
        """Turn into a superseded item, in place."""
        del self.obj
        past: Any = self
        past.__class__ = PastItem
        past._data = values


class Layout(NamedTuple):
    """members: names of an object's members and, for maps, of their members; revision: index of the
    resourceVersion among its values, which follow the layout.
    """

    members: tuple[tuple[str, tuple[str, ...] | None], ...]
    revision: int


def layout_of(obj: Obj) -> Layout:
    """The layout of an object."""
    members = tuple([(name, tuple(part) if type(part) is dict else None) for name, part in obj.items()])
    at = 1
    for name, names in members:
        if name == "metadata":
            return Layout(members, at + (names or ()).index("resourceVersion"))
        at += 1 if names is None else len(names)
    raise AssertionError("stored objects have metadata")


class PastItem(YoungItem):
    """A superseded revision; its object is built from the same members at each read."""

    __slots__ = ()

    @property
    def obj(self) -> Obj:  # type: ignore[override]
        """The object, built at each read."""
        values = iter(self._data)
        layout: Layout = next(values)
        obj: Obj = {
            name: next(values) if names is None else dict(zip(names, values, strict=False))
            for name, names in layout.members
        }
        obj["metadata"]["resourceVersion"] = str(self.rev)
        return obj


class UnbuiltItem(YoungItem):
    """A young item with an object that was never built: `state` holds its values."""

    __slots__ = ()

    state: Any = vars(YoungItem)["_data"]

    @property
    def obj(self) -> Obj:  # type: ignore[override]
        """The object, built at each read."""
        shape, _, flat = self.state
        obj: Obj = shape.lay_out(self.key.rpartition("/")[2], self.rev, flat)
        return obj


class Recent:
    """The object built last, because an object is usually read several times in a row."""

    item: ClassVar[PackedItem | None] = None
    obj: ClassVar[Obj] = {}


class PackedItem(YoungItem):
    """A revision with an object that is built at each read, at no extra cost to young items.

    It was a young item and has the same slots, which hold other values: `_data` encodes the numbers
    that they held before.
    _data: the encoded values, or those of several items one after the other, of which this one's
        are at index `_at`
    """

    __slots__ = ()

    _shape: Any = vars(Item)["created"]
    _akin: Any = vars(Item)["cause"]
    _rest: Any = vars(Item)["obj"]
    _at: Any = vars(Item)["rev"]

    def _own(self) -> bytes:
        """The encoded values of this item alone."""
        size: int = self._shape.size
        own: bytes = self._data[self._at * size : (self._at + 1) * size]
        return own

    def _number(self, at: int) -> int:
        """One of the numbers at the start of the encoded values."""
        start = self._at * self._shape.size + at
        return int.from_bytes(self._data[start : start + 4], "little")

    @property
    def rev(self) -> Revision:  # type: ignore[override]
        """Revision of the write that made it."""
        return self._number(0)  # type: ignore[return-value]

    @property
    def created(self) -> int:  # type: ignore[override]
        """Revision of the object's creation."""
        return self._number(4)

    @property
    def cause(self) -> int:
        """Trace record of the write that made it."""
        return self._number(8)

    @cause.setter
    def cause(self, cause: int) -> None:
        own = self._own()
        self._data, self._at = own[:8] + cause.to_bytes(4, "little") + own[12:], 0

    @property
    def obj(self) -> Obj:  # type: ignore[override]
        """The object, built at each read."""
        recent = Recent
        if recent.item is not self:
            name, rev = self.key.rpartition("/")[2], self.rev
            recent.obj = self._shape.build(name, rev, self._akin, self._rest, self._own())
            recent.item = self
        return recent.obj

    def peek(self, section: str, field: str) -> Any:
        """One field of a section of the object, read without building it."""
        kind, at = self._shape.field(section, field)
        if kind == IS_OWN:
            return self._rest[at]
        if kind == IS_AKIN:
            return self._akin[at]
        if kind == IS_FORMED:
            unpack, place, give = at
            return give(unpack(self._own())[place])
        return at if kind == IS_ALIKE else super().peek(section, field)

    def restamped(self, rev: Revision) -> PackedItem:
        """The same state with another revision: the last state, as of its deletion."""
        item, own = PackedItem.__new__(PackedItem), self._own()
        item.key, item.managed, item.raw = self.key, self.managed, None
        item._shape, item._akin, item._rest = self._shape, self._akin, self._rest
        item._data, item._at = rev.to_bytes(4, "little") + own[4:8] + bytes(4) + own[12:], 0
        return item
