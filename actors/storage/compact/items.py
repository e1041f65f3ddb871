"""The compact form of stored objects that are many, alike and hardly read once they are at rest:
pods and events.

Turns an object into a shape, shared by all objects that differ only in the values of some fields,
and those values; and back into an equal object when somebody reads it.  Of an object's own values
those of a fixed form (times, addresses, uids, ids of containers: `terse`) become bytes; the rest,
in which the object's name stands for itself, is mostly what others have too.

Holds: what is built equals what was packed, with its members in the same order; subtrees shared
with other objects stay shared; an object that does not fit is kept as it is; what was written last
is not packed yet, so that those whom a write concerns at once read the object that was written
(nobody reads an event at once: the API server gives its values, and no object is made,
`Packer.cast`).  What another revision took the place of is soon forgotten: it is not packed, but
only taken apart (`PastItem`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, repeat
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

# items that wait to be packed; as many again are older than all of them, and wait too
YOUNG_MAX = 256
SHAPES_MAX = 4_096  # shapes and kin kept for those to come; objects hold on to theirs
TABLES_MAX = 64  # of shapes and rests, by the types of their values
RESTS_MAX = 16_384  # of what differs from node to node


def _rows(columns: Sequence[Iterable[Any]], count: int) -> list[Values]:
    """Of each of so many objects its values."""
    return [*zip(*columns, strict=True)] if columns else [()] * count


def _types(columns: Sequence[Column]) -> Values | None:
    """The type of each column's values; they tell apart what is equal.  None: one has several."""
    types = [{*map(type, column)} for column in columns]
    return tuple(chain.from_iterable(types)) if all(len(each) == 1 for each in types) else None


Mould = tuple[Cut, Cut]  # with forms, and without for what has not the form
Cast = tuple[Shape, Mould, list[Any]]
NO_SHAPES: dict[Values, Any] = {}


def _table(tables: Table, types: Values, more: int, size_max: int) -> dict[Values, Any]:
    """The one for these types, with room for so many more."""
    if types not in tables and len(tables) >= TABLES_MAX:
        tables.clear()
    table = tables.setdefault(types, {})
    if len(table) + more > size_max:
        table.clear()
    return table


class Packer:
    """Makes and packs the items of one resource: a new one stays as it is while somebody is likely
    to look at it.

    current: the resource's items; what is not among them any more is not packed
    """

    __slots__ = ("_akin", "_current", "_layouts", "_moulds", "_older", "_rests", "_young", "_young_max")

    def __init__(self, current: Mapping[str, Item], young_max: int = YOUNG_MAX) -> None:
        self._current = current
        self._moulds: dict[Values, Mould] = {}  # by names in their order
        self._akin: dict[tuple[int, ...], Values] = {}
        self._layouts: dict[tuple[str | None, ...], Layout] = {}  # of revisions of the past
        self._rests: Table = {}
        self._young: list[YoungItem] = []
        self._older: list[YoungItem] = []
        self._young_max = young_max

    def item(
        self, key: str, obj: Obj, rev: int, created: int, managed: tuple[Managed, ...] = ()
    ) -> YoungItem:
        item = YoungItem(key, obj, rev, created, managed)
        self._add(item)
        return item

    def mould(self, obj: Obj) -> Mould | None:
        """By which `cast` makes what has the names and the shape of this object; None: it does not
        fit.
        """
        flat: list[Any] = []
        mould = self._mould(obj, flat)
        if mould is None or self._shapes(mould[0], [obj], [[value] for value in flat]) is None:
            return None
        return mould

    @staticmethod
    def shape(mould: Mould, flat: list[Any]) -> Shape | None:
        """Of an object that has not been made.  None: there was none like it.

        flat: its values, as `_split` collects them; those of name and revision may be anything
        """
        alike = mould[0].pick(flat)
        known: Shape | None = mould[0].shapes.get(tuple(map(type, alike)), NO_SHAPES).get(alike)
        return known

    def cast(self, key: str, state: Cast, rev: int, managed: tuple[Managed, ...]) -> CastItem:
        """What has not been made and is not likely to be, as it is created."""
        item = CastItem.__new__(CastItem)
        item.key, item.rev, item.created, item.managed = key, rev, rev, managed
        item.cause, item.raw, item.state = 0, None, state
        self._add(item)
        return item

    def _add(self, item: YoungItem) -> None:
        young = self._young
        if len(young) >= self._young_max:
            current, older = self._current, self._older
            self.pack([old for old in older if current.get(old.key) is old])
            for old in older:
                if type(old) is YoungItem and current.get(old.key) is not old:
                    self._take_apart(old)
            self._older, self._young = young, []
            young = self._young
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
        """All but those that carry another name or revision than they are stored under, or hold
        what fits nowhere.
        """
        groups: dict[int, tuple[Mould, list[YoungItem], list[list[Any]]]] = {}
        for item in items:
            if type(item) is CastItem:
                _, mould, flat = item.state
            else:
                obj, flat = item.obj, []
                metadata = obj["metadata"]
                name = item.key.rpartition("/")[2]
                if metadata.get("name") != name or metadata.get("resourceVersion") != str(item.rev):
                    continue
                found = self._mould(obj, flat)
                if found is None:
                    continue
                mould = found
            _, alike, flats = groups.setdefault(id(mould), (mould, [], []))
            alike.append(item)
            flats.append(flat)
        for mould, alike, flats in groups.values():
            if not self._pack(mould[:1], alike, flats):
                for one, flat in zip(alike, flats, strict=True):
                    self._pack(mould, [one], [flat])

    def _mould(self, obj: Obj, flat: list[Any]) -> Mould | None:
        """How objects with its names are cut; its values are added to `flat`."""
        layout: list[Any] = [*obj]
        if not split(obj, SPLIT, layout, flat):
            return None
        key = tuple(layout)
        mould = self._moulds.get(key)
        if mould is None:
            if len(self._moulds) >= SHAPES_MAX:
                self._moulds.clear()
            mould = self._moulds[key] = (Cut(obj, terse=True), Cut(obj, terse=False))
        return mould

    def _pack(self, cuts: Sequence[Cut], items: list[YoungItem], flats: list[list[Any]]) -> bool:
        """Pack items with the same names in the same order, by the first that fits all, or none of
        them.
        """
        columns = [*zip(*flats, strict=True)]
        for cut in cuts:
            try:
                data = cut.data(items, columns)
            except (ValueError, TypeError, KeyError, struct.error):
                # something has another form, a mapping where text is cut (from Python 3.12 on a key
                # is looked up)
                continue
            places: Sequence[int] = [0] * len(items)
            if cut.terse and {*map(type, items)} == {CastItem}:
                shapes: list[Shape] | None = [item._data[0] for item in items]
                # They come together and are gone together, an hour later: one piece of memory takes
                # 44 bytes less of each.
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
        """The same values as one tuple for all objects that have them."""
        if len(self._akin) + count > SHAPES_MAX:
            self._akin.clear()
        ids = _rows([map(id, column) for column in columns], count)
        return [*map(self._akin.setdefault, ids, _rows(columns, count))]

    def _shared(self, cut: Cut, items: list[YoungItem], columns: Sequence[Column]) -> list[Values] | None:
        """The same of the rest, by what they are, in which its name stands for itself.  None: they
        do not go together.
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
    """A revision that is packed when nobody is likely to read it any more: then it becomes a
    `PackedItem`.
    """

    __slots__ = ("_data",)

    _data: Any

    def become(self, shape: Shape, akin: Values, rest: Values, block: bytes, at: int) -> None:
        """Somebody else: packed."""
        packed: Any = self
        packed.__class__ = PackedItem
        packed._shape, packed._akin, packed._rest, packed._data, packed._at = shape, akin, rest, block, at

    def become_past(self, values: Values) -> None:
        """Somebody else: of the past."""
        del self.obj
        past: Any = self
        past.__class__ = PastItem
        past._data = values


class Layout(NamedTuple):
    """members: of an object, and where one is a map of it; revision: which of its values, after the
    layout, that is.
    """

    members: tuple[tuple[str, tuple[str, ...] | None], ...]
    revision: int


def layout_of(obj: Obj) -> Layout:
    members = tuple([(name, tuple(part) if type(part) is dict else None) for name, part in obj.items()])
    at = 1
    for name, names in members:
        if name == "metadata":
            return Layout(members, at + (names or ()).index("resourceVersion"))
        at += 1 if names is None else len(names)
    raise AssertionError("stored objects have metadata")


class PastItem(YoungItem):
    """A revision in whose place another is.  Its object is built, of the same members, each time
    that somebody reads it.
    """

    __slots__ = ()

    @property
    def obj(self) -> Obj:  # type: ignore[override]
        values = iter(self._data)
        layout: Layout = next(values)
        obj: Obj = {
            name: next(values) if names is None else dict(zip(names, values, strict=False))
            for name, names in layout.members
        }
        obj["metadata"]["resourceVersion"] = str(self.rev)
        return obj


class CastItem(YoungItem):
    """A young one whose object was never made: `state` holds its values."""

    __slots__ = ()

    state: Any = vars(YoungItem)["_data"]

    @property
    def obj(self) -> Obj:  # type: ignore[override]
        shape, _, flat = self.state
        obj: Obj = shape.lay_out(self.key.rpartition("/")[2], self.rev, flat)
        return obj


class Recent:
    """What was built last: who reads an object mostly reads it several times."""

    item: ClassVar[PackedItem | None] = None
    obj: ClassVar[Obj] = {}


class PackedItem(YoungItem):
    """A revision whose object is built each time that somebody reads it.  (Of young items no
    reading costs more.)

    It has the members of a young one, for it was one: what its bytes tell makes room for the rest
    of its state.
    _data: its bytes, or those of several one after the other, in which they are at place `_at`
    """

    __slots__ = ()

    _shape: Any = vars(Item)["created"]
    _akin: Any = vars(Item)["cause"]
    _rest: Any = vars(Item)["obj"]
    _at: Any = vars(Item)["rev"]

    def _own(self) -> bytes:
        """Its bytes alone."""
        size: int = self._shape.size
        own: bytes = self._data[self._at * size : (self._at + 1) * size]
        return own

    def _number(self, at: int) -> int:
        """One of the numbers that its bytes begin with."""
        start = self._at * self._shape.size + at
        return int.from_bytes(self._data[start : start + 4], "little")

    @property
    def rev(self) -> int:  # type: ignore[override]
        return self._number(0)

    @property
    def created(self) -> int:  # type: ignore[override]
        return self._number(4)

    @property
    def cause(self) -> int:
        return self._number(8)

    @cause.setter
    def cause(self, cause: int) -> None:
        own = self._own()
        self._data, self._at = own[:8] + cause.to_bytes(4, "little") + own[12:], 0

    @property
    def obj(self) -> Obj:  # type: ignore[override]
        recent = Recent
        if recent.item is not self:
            name, rev = self.key.rpartition("/")[2], self.rev
            recent.obj = self._shape.build(name, rev, self._akin, self._rest, self._own())
            recent.item = self
        return recent.obj

    def peek(self, section: str, field: str) -> Any:
        kind, at = self._shape.field(section, field)
        if kind == IS_OWN:
            return self._rest[at]
        if kind == IS_AKIN:
            return self._akin[at]
        if kind == IS_FORMED:
            unpack, place, give = at
            return give(unpack(self._own())[place])
        return at if kind == IS_ALIKE else super().peek(section, field)

    def restamped(self, rev: int) -> PackedItem:
        item, own = PackedItem.__new__(PackedItem), self._own()
        item.key, item.managed, item.raw = self.key, self.managed, None
        item._shape, item._akin, item._rest = self._shape, self._akin, self._rest
        item._data, item._at = rev.to_bytes(4, "little") + own[4:8] + bytes(4) + own[12:], 0
        return item
