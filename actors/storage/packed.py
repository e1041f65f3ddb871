"""The compact form of stored objects that are many, alike and hardly read once they are at rest: pods and events.

Turns an object into a shape, shared by all objects that differ only in the values of some fields, and those values;
and back into an equal object when somebody reads it.

Holds: what is built equals what was packed, with its members in the same order; values are kept by identity, so
strings and subtrees shared with other objects stay shared; an object that does not fit is kept as it is; what was
written last is not packed yet, so that those whom a write concerns at once read the object that was written (nobody
reads an event at once: the API server has it packed without making it, `Packer.cast`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter
from typing import Any, ClassVar

from sim.machinery.api import Obj
from sim.machinery.store import Item, Managed

Tree = Mapping[str, "Tree"]
Values = tuple[Any, ...]

# What is taken apart: maps, and lists of nothing but maps.
LEAF: Tree = {}
SPLIT: Tree = {
    "metadata": LEAF,
    "involvedObject": LEAF,
    "spec": LEAF,
    "status": {
        "conditions": LEAF,
        "podIPs": LEAF,
        "containerStatuses": {"state": {"running": LEAF}, "lastState": LEAF},
    },
}
# Below these names the same few values stand in very many objects: they are part of the shape.
ALIKE = frozenset((
    "action", "apiVersion", "dnsPolicy", "enableServiceLinks", "fieldPath", "kind", "lastProbeTime", "phase",
    "preemptionPolicy", "priority", "qosClass", "ready", "reason", "reportingComponent", "reportingInstance",
    "restartCount", "restartPolicy", "schedulerName", "started", "status", "terminationGracePeriodSeconds", "type",
))  # fmt: skip
# These are the same objects in all that has one origin.
AKIN = frozenset((
    "containers", "generateName", "image", "imageID", "initContainers", "labels", "namespace", "ownerReferences",
    "securityContext", "serviceAccount", "serviceAccountName", "source", "tolerations", "volumes",
))  # fmt: skip
PLAIN = frozenset((str, int, float, bool, type(None)))
# What stands in a place of an object: a value that is part of the shape, its kin's, its own; a part; what follows.
_ALIKE, _AKIN, _OWN, _PART, _DERIVED = range(5)
Field = tuple[int, Any]  # which of these, and its place among the values, or itself
OWN_FROM = 2  # in what is packed, after the shape and what is akin
YOUNG_MAX = 256  # items that wait to be packed; as many again are older than all of them, and wait too
SHAPES_MAX = 4_096  # shapes and kin kept for those to come; objects hold on to theirs


class Part:
    """One map or list of a shape: where it belongs, what is in it, and which of it comes from where."""

    __slots__ = ("akin", "own", "parent", "place", "proto")

    def __init__(self, proto: Any) -> None:
        self.parent = 0
        self.place: Any = None
        self.proto = proto
        self.own: list[tuple[Any, int]] = []
        self.akin: list[tuple[Any, int]] = []


class Shape:
    """What alike objects share: the parts they are made of, outer ones first, and the values that are equal."""

    __slots__ = ("_fields", "parts")

    def __init__(self, parts: list[Part]) -> None:
        self.parts = parts
        self._fields: dict[tuple[str, str], Field] = {}

    def field(self, section: str, field: str) -> Field:
        """Where one field of a section of the object comes from."""
        known = self._fields.get((section, field))
        if known is None:
            known = self._fields[section, field] = self._find(section, field)
        return known

    def _find(self, section: str, field: str) -> Field:
        parts = self.parts
        for number, part in enumerate(parts):
            if number and not part.parent and part.place == section:
                for kind, places in ((_OWN, part.own), (_AKIN, part.akin)):
                    for place, at in places:
                        if place == field:
                            return kind, at
                derived = section == "metadata" and field in ("name", "resourceVersion")
                inner = any(other.parent == number and other.place == field for other in parts)
                return (_DERIVED, None) if derived or inner else (_ALIKE, part.proto.get(field))
        return _DERIVED, None

    def build(self, name: str, rev: int, values: Values) -> Obj:
        """`values`: the shape, what is akin, and what is the object's own."""
        akin: Values = values[1]
        made: list[Any] = []
        for part in self.parts:
            new = part.proto.copy()
            for place, at in part.own:
                new[place] = values[at]
            for place, at in part.akin:
                new[place] = akin[at]
            if made:
                made[part.parent][part.place] = new
            made.append(new)
        obj: Obj = made[0]
        metadata = obj["metadata"]
        metadata["name"], metadata["resourceVersion"] = name, str(rev)
        return obj


class Cut:
    """What of objects with the same names in the same order goes into the shape, and what does not.

    where: numbers of the parts; alike, akin, own: pick from the values of all maps, one after the other
    """

    __slots__ = ("akin", "alike", "own", "shapes", "where")

    def __init__(self, obj: Obj) -> None:
        self.where: dict[tuple[int, Any], int] = {}
        _number(obj, SPLIT, 0, self.where)
        kinds = [
            kind for _, place, kind in _places(_parts(obj, self.where), self.where) if type(place) is str
        ]
        self.alike, self.akin, self.own = [
            _picker([at for at, kind in enumerate(kinds) if kind == wanted])
            for wanted in (_ALIKE, _AKIN, _OWN)
        ]
        self.shapes: dict[tuple[Values, Values], Shape] = {}


def _picker(places: list[int]) -> Callable[[list[Any]], Values]:
    if len(places) > 1:
        return itemgetter(*places)
    return lambda flat: tuple([flat[place] for place in places])


class Packer:
    """Makes and packs the items of one resource: a new one stays as it is while somebody is likely to look at it.

    current: the resource's items; what is not among them any more is soon forgotten, and not packed
    """

    __slots__ = ("_akin", "_current", "_cuts", "_older", "_young", "_young_max")

    def __init__(self, current: Mapping[str, Item], young_max: int = YOUNG_MAX) -> None:
        self._current = current
        self._cuts: dict[Values, Cut] = {}
        self._akin: dict[tuple[int, ...], Values] = {}
        self._young: list[YoungItem] = []
        self._older: list[YoungItem] = []
        self._young_max = young_max

    def item(
        self, key: str, obj: Obj, rev: int, created: int, managed: tuple[Managed, ...] = ()
    ) -> YoungItem:
        young = self._young
        if len(young) >= self._young_max:
            current = self._current
            for older in self._older:
                if current.get(older.key) is older:
                    older.pack(self)
            self._older, self._young = young, []
            young = self._young
        item = YoungItem(key, obj, rev, created, managed)
        young.append(item)
        return item

    def pack(self, obj: Obj, name: str, rev: int) -> Values | None:
        """None for an object that carries another name or revision than it is stored under."""
        metadata = obj["metadata"]
        if metadata.get("name") != name or metadata.get("resourceVersion") != str(rev):
            return None
        flat: list[Any] = []
        cut = self._cut(obj, flat)
        return None if cut is None else self._fill(cut, flat, obj)

    def _cut(self, obj: Obj, flat: list[Any]) -> Cut | None:
        """How objects with its names are cut; its values are added to `flat`."""
        layout: list[Any] = [*obj]
        if not _split(obj, SPLIT, layout, flat):
            return None
        key = tuple(layout)
        cut = self._cuts.get(key)
        if cut is None:
            if len(self._cuts) >= SHAPES_MAX:
                self._cuts.clear()
            cut = self._cuts[key] = Cut(obj)
        return cut

    def _fill(self, cut: Cut, flat: list[Any], obj: Obj | None) -> Values | None:
        """`obj`: what the values are of; without it nothing comes of a shape that is not known."""
        alike = cut.alike(flat)
        types = tuple(map(type, alike))
        if not PLAIN.issuperset(types):
            return None
        shape = cut.shapes.get((alike, types))
        if shape is None:
            if obj is None:
                return None
            if len(cut.shapes) >= SHAPES_MAX:
                cut.shapes.clear()
            shape = cut.shapes[alike, types] = _shape(obj, cut.where)
        return shape, self._kin(cut.akin(flat)), *cut.own(flat)

    def mould(self, obj: Obj) -> Cut | None:
        """By which `cast` makes what has the names and the shape of this object."""
        flat: list[Any] = []
        cut = self._cut(obj, flat)
        return None if cut is None or self._fill(cut, flat, obj) is None else cut

    def cast(self, mould: Cut, flat: list[Any]) -> Values | None:
        """What an object that has not been made is packed to; None: none of its shape has been seen.

        flat: its values, as `_split` collects them; those of name and revision may be anything
        """
        return self._fill(mould, flat, None)

    def _kin(self, akin: Values) -> Values:
        """The same values as one tuple for all objects that have them."""
        key = tuple(map(id, akin))
        known = self._akin.get(key)
        if known is None:
            if len(self._akin) >= SHAPES_MAX:
                self._akin.clear()
            known = self._akin[key] = akin
        return known


def _split(part: Any, tree: Tree, layout: list[Any], flat: list[Any]) -> bool:
    """Collect the values of a map, and of what is taken apart of it, in order.

    `layout`, with the names of the map, is the same for the same structure.
    False: a list that is to be taken apart holds something else than maps.
    """
    flat += part.values()
    for name, below in tree.items():
        inner = part.get(name)
        kind = type(inner)
        if kind is dict:
            layout += (name, len(inner), *inner)
            if not below:
                flat += inner.values()
            elif not _split(inner, below, layout, flat):
                return False
        elif kind is list:
            layout += (name, -len(inner))
            for each in inner:
                if type(each) is not dict:
                    return False
                layout += (len(each), *each)
                if not below:
                    flat += each.values()
                elif not _split(each, below, layout, flat):
                    return False
    return True


def _number(part: Any, tree: Tree, number: int, where: dict[tuple[int, Any], int]) -> None:
    """Number what `_split` takes apart, in its order, by the number of the outer part and the place in it."""
    for name, below in tree.items():
        inner = part.get(name)
        kind = type(inner)
        if kind is dict:
            where[number, name] = at = len(where) + 1
            _number(inner, below, at, where)
        elif kind is list:
            where[number, name] = at = len(where) + 1
            for place, each in enumerate(inner):
                where[at, place] = one = len(where) + 1
                _number(each, below, one, where)


def _parts(obj: Obj, where: Mapping[tuple[int, Any], int]) -> list[Any]:
    parts: list[Any] = [obj]
    for outer, place in where:
        parts.append(parts[outer][place])
    return parts


def _places(parts: list[Any], where: Mapping[tuple[int, Any], int]) -> Iterator[tuple[int, Any, int]]:
    """Of each value: number of its part, place therein, and what becomes of it."""
    for number, part in enumerate(parts):
        for place in range(len(part)) if type(part) is list else part:
            if (number, place) in where:
                kind = _PART
            elif place in ("name", "resourceVersion") and number == where[0, "metadata"]:
                kind = _DERIVED
            else:
                kind = _ALIKE if place in ALIKE else _AKIN if place in AKIN else _OWN
            yield number, place, kind


def _shape(obj: Obj, where: Mapping[tuple[int, Any], int]) -> Shape:
    parts = _parts(obj, where)
    made = [Part(part.copy()) for part in parts]
    for (outer, place), number in where.items():
        made[number].parent, made[number].place = outer, place
    own = akin = 0
    for number, place, kind in _places(parts, where):
        part = made[number]
        if kind == _OWN:
            part.own.append((place, OWN_FROM + own))
            own += 1
        elif kind == _AKIN:
            part.akin.append((place, akin))
            akin += 1
        if kind != _ALIKE:
            part.proto[place] = None
    return Shape(made)


class YoungItem(Item):
    """A revision that is packed when nobody is likely to read it any more: then it becomes a `PackedItem`.

    _state: what `Packer.pack` made of the object
    """

    __slots__ = ("_state",)

    _state: Values

    def pack(self, packer: Packer) -> None:
        state = packer.pack(self.obj, self.key.rpartition("/")[2], self.rev)
        if state is not None:
            self._state = state
            del self.obj
            self.__class__ = PackedItem


class Recent:
    """What was built last: who reads an object mostly reads it several times."""

    item: ClassVar[PackedItem | None] = None
    obj: ClassVar[Obj] = {}


class PackedItem(YoungItem):
    """A revision whose object is built each time that somebody reads it.  (Of young items no reading costs more.)"""

    __slots__ = ()

    @property
    def obj(self) -> Obj:  # type: ignore[override]
        recent = Recent
        if recent.item is not self:
            shape: Shape = self._state[0]
            recent.obj = shape.build(self.key.rpartition("/")[2], self.rev, self._state)
            recent.item = self
        return recent.obj

    def peek(self, section: str, field: str) -> Any:
        state = self._state
        shape: Shape = state[0]
        kind, at = shape.field(section, field)
        if kind == _OWN:
            return state[at]
        if kind == _AKIN:
            return state[1][at]
        return at if kind == _ALIKE else super().peek(section, field)

    def restamped(self, rev: int) -> PackedItem:
        return packed(self.key, rev, self.created, self.managed, self._state)


def packed(key: str, rev: int, created: int, managed: tuple[Managed, ...], state: Values) -> PackedItem:
    """An item that never was young."""
    item = PackedItem.__new__(PackedItem)
    item.key, item.rev, item.created, item.managed = key, rev, created, managed
    item.cause, item.raw, item._state = 0, None, state
    return item
