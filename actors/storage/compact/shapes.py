"""Shapes: what similar objects share, and where their other values belong.

Turns an object into a flat list of the values of its maps (`split`); a `Cut`, chosen by the names
and their order, decides which of them are the same in very many objects (the shape), which are the
same for objects of one origin (akin), which have an encoded form (`encoded_texts`) and which are
left; and turns a shape with these values back into an equal object, its members in the same order.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from actors.storage.compact import encoded_texts as is_brief
from sim.api.store import Item
from sim.api.types import Obj
from sim.units import Revision

Tree = Mapping[str, "Tree"]
Values = tuple[Any, ...]
Column = is_brief.Column

# What is taken apart: maps, and lists that contain only maps.
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
# Below these names very many objects have the same few values, which are part of the shape.
ALIKE = frozenset((
    "action", "apiVersion", "dnsPolicy", "enableServiceLinks", "fieldPath", "kind", "lastProbeTime", "phase",
    "preemptionPolicy", "priority", "qosClass", "ready", "reason", "reportingComponent", "reportingInstance",
    "restartCount", "restartPolicy", "schedulerName", "started", "status", "terminationGracePeriodSeconds", "type",
))  # fmt: skip
# These are the same Python objects in all objects of one origin.
AKIN = frozenset((
    "containers", "generateName", "image", "imageID", "initContainers", "labels", "namespace", "ownerReferences",
    "securityContext", "serviceAccount", "serviceAccountName", "source", "tolerations", "volumes",
))  # fmt: skip


class Form(NamedTuple):
    """An encoded form of texts: the fields that have it, the `struct` format, and the functions
    that encode and decode it.
    """

    fields: frozenset[str]
    code: str
    take: Callable[[is_brief.Column], Sequence[Any]]
    give: Callable[[Any], Any]


FORMS = (
    Form(
        frozenset(("creationTimestamp", "finishedAt", "firstTimestamp", "lastTimestamp", "lastTransitionTime",
                   "startTime", "startedAt")),
        "I", is_brief.seconds, is_brief.time_text,
    ),
    Form(frozenset(("hostIP", "ip", "podIP")), "I", is_brief.addresses, is_brief.address_text),
    Form(frozenset(("resourceVersion",)), "I", is_brief.numbers, str),
    Form(frozenset(("eventTime",)), "Q", is_brief.instants, is_brief.instant_text),
    Form(frozenset(("uid",)), "16s", is_brief.uids, is_brief.uid_text),
    Form(frozenset(("containerID",)), "32s", is_brief.containers, is_brief.container_text),
)  # fmt: skip
NAMING = frozenset(("message", "name"))  # texts that contain the name of the object concerned
SELF = "\0"  # replaces that name
# Revision, revision of the creation, cause: a day of 5,000 nodes makes some 40 million of each.
HEAD, HEAD_LENGTH = "<3I", 3
PLAIN = frozenset((str, int, float, bool, type(None)))
# Origin of a value at a place of an object: the shape, the shared tuple, its own values; a part; a
# derived value; or an encoded form (this number plus the form's number).
IS_ALIKE, IS_AKIN, IS_OWN, IS_PART, IS_DERIVED, IS_FORMED = range(6)
Table = dict[Values, dict[Values, Any]]  # by types, then by values
Field = tuple[int, Any]  # an origin, and the value, or its index, or its reader
# A function that unpacks the bytes, the index of the piece, and the function that decodes it.
Reader = tuple[Callable[[bytes], Values], int, Callable[[Any], Any]]


class Part:
    """One map or list of a shape: its place in the outer part, and the origin of each value in it."""

    __slots__ = ("akin", "own", "parent", "place", "proto")

    def __init__(self, proto: Any) -> None:
        self.parent = 0
        self.place: Any = None
        self.proto = proto
        self.own: list[tuple[Any, int]] = []
        self.akin: list[tuple[Any, int]] = []


class Layout:
    """The order of an object's own values: first those that its bytes encode, then the rest.

    akin, own: their places among the values of all maps, one after the other
    spans: for each form, its range in the unpacked bytes, and its decoding function
    naming: indexes of the rest that may contain the object's name
    """

    __slots__ = ("akin", "formed", "naming", "own", "spans", "struct")

    def __init__(self, kinds: list[tuple[int, Any]]) -> None:
        forms = [kind - IS_FORMED for kind, _ in kinds if kind >= IS_FORMED]
        self.akin, self.own = _places_of(kinds, IS_AKIN), []
        for wanted in (*range(IS_FORMED, IS_FORMED + len(FORMS)), IS_OWN):
            self.own += _places_of(kinds, wanted)
        self.formed = len(forms)
        self.spans: list[tuple[int, int, Callable[[Any], Any]]] = []
        at = HEAD_LENGTH
        for number, form in enumerate(FORMS):
            if count := forms.count(number):
                self.spans.append((at, at + count, form.give))
                at += count
        self.struct = struct.Struct(HEAD + "".join([FORMS[number].code for number in sorted(forms)]))
        rest = [place for kind, place in kinds if kind == IS_OWN]
        self.naming = [at for at, place in enumerate(rest) if place in NAMING]

    def read(self, name: str, rest: Values, data: bytes) -> list[Any]:
        """The object's own values, decoded."""
        values = self.struct.unpack(data)
        own: list[Any] = []
        for start, end, give in self.spans:
            own += map(give, values[start:end])
        own += rest
        for at in self.naming:
            text = own[self.formed + at]
            if type(text) is str and SELF in text:
                own[self.formed + at] = text.replace(SELF, stem_of(name))
        return own

    def reader(self, at: int) -> Reader:
        """A reader of one of the encoded values by itself."""
        at += HEAD_LENGTH
        give = next(give for start, end, give in self.spans if start <= at < end)
        return self.struct.unpack, at, give


def _places_of(kinds: list[tuple[int, Any]], wanted: int) -> list[int]:
    return [at for at, (kind, _) in enumerate(kinds) if kind == wanted]


def stem_of(key: str) -> str:
    """The name by which texts refer to the object with this key or name: the name of an event is
    the name of its object and a number.
    """
    name = key[key.rfind("/") + 1 :]
    return name[: name.rfind(".")] if "." in name else name


class Shape:
    """What similar objects share: their parts, outer ones first, and the equal values."""

    __slots__ = ("_fields", "_layout", "parts", "size")

    def __init__(self, parts: list[Part], layout: Layout) -> None:
        self.parts = parts
        self.size = layout.struct.size  # number of bytes of an object's encoded values
        self._layout = layout
        self._fields: dict[tuple[str, str], Field] = {}

    def field(self, section: str, field: str) -> Field:
        """The origin of one field of a section of the object."""
        known = self._fields.get((section, field))
        if known is None:
            known = self._fields[section, field] = self._find(section, field)
        return known

    def _find(self, section: str, field: str) -> Field:
        parts = self.parts
        for number, part in enumerate(parts):
            if number and not part.parent and part.place == section:
                for place, at in part.akin:
                    if place == field:
                        return IS_AKIN, at
                for place, at in part.own:
                    if place == field:
                        layout = self._layout
                        if at < layout.formed:
                            return IS_FORMED, layout.reader(at)
                        at -= layout.formed
                        return (IS_DERIVED, None) if at in layout.naming else (IS_OWN, at)
                derived = section == "metadata" and field in ("name", "resourceVersion")
                inner = any(other.parent == number and other.place == field for other in parts)
                return (IS_DERIVED, None) if derived or inner else (IS_ALIKE, part.proto.get(field))
        return IS_DERIVED, None

    def build(self, name: str, rev: Revision, akin: Values, rest: Values, data: bytes) -> Obj:
        """The object with this name, revision and values."""
        return self._made(name, rev, akin, self._layout.read(name, rest, data))

    def lay_out(self, name: str, rev: Revision, flat: list[Any]) -> Obj:
        """The object with these values, in the order of `split`."""
        layout = self._layout
        return self._made(name, rev, [flat[at] for at in layout.akin], [flat[at] for at in layout.own])

    def _made(self, name: str, rev: Revision, akin: Sequence[Any], own: list[Any]) -> Obj:
        made: list[Any] = []
        for part in self.parts:
            new = part.proto.copy()
            for place, at in part.own:
                new[place] = own[at]
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
    """Which values of objects with the same names in the same order belong to the shape, and which
    do not.

    where: numbers of the parts
    alike, rest: places among the values of all maps, one after the other
    formed: the same for encoded values, with their forms
    """

    __slots__ = ("alike", "formed", "is_brief", "layout", "pick", "rest", "shapes", "where")

    def __init__(self, obj: Obj, is_brief: bool) -> None:
        self.where: dict[tuple[int, Any], int] = {}
        _number(obj, SPLIT, 0, self.where)
        self.is_brief = is_brief
        kinds = [
            (kind, place)
            for _, place, kind in _places(_parts(obj, self.where), self.where, is_brief)
            if type(place) is str
        ]
        self.alike, self.rest = _places_of(kinds, IS_ALIKE), _places_of(kinds, IS_OWN)
        self.pick = _picker(self.alike)
        self.formed = [
            (form, at) for number, form in enumerate(FORMS) for at in _places_of(kinds, IS_FORMED + number)
        ]
        self.layout = Layout(kinds)
        self.shapes: Table = {}

    def data(self, items: Sequence[Item], columns: Sequence[Column]) -> list[bytes]:
        """The encoded values of each object; raises ValueError and others if a value does not fit."""
        head = (
            [item.rev for item in items],
            [item.created for item in items],
            [item.cause for item in items],
        )
        formed = [form.take(columns[at]) for form, at in self.formed]
        return [*map(self.layout.struct.pack, *head, *formed)]


def _picker(places: list[int]) -> Callable[[list[Any]], Values]:
    if len(places) > 1:
        return itemgetter(*places)
    return lambda flat: tuple([flat[place] for place in places])


def split(part: Any, tree: Tree, layout: list[Any], flat: list[Any]) -> bool:
    """Collect the values of a map and of the parts below it, in order; False if a list that would
    be taken apart contains anything but maps.

    layout: collects the names, so that it is equal for equal structures
    """
    flat += part.values()
    for name, below in tree.items():
        inner = part.get(name)
        kind = type(inner)
        if kind is dict:
            layout += (name, len(inner), *inner)
            if not below:
                flat += inner.values()
            elif not split(inner, below, layout, flat):
                return False
        elif kind is list:
            layout += (name, -len(inner))
            for each in inner:
                if type(each) is not dict:
                    return False
                layout += (len(each), *each)
                if not below:
                    flat += each.values()
                elif not split(each, below, layout, flat):
                    return False
    return True


def _number(part: Any, tree: Tree, number: int, where: dict[tuple[int, Any], int]) -> None:
    """Number the parts in the order of `split`, by the number of the outer part and the place in
    it.
    """
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


def _places(
    parts: list[Any], where: Mapping[tuple[int, Any], int], is_brief: bool
) -> Iterator[tuple[int, Any, int]]:
    """For each value, the number of its part, its place in it, and its origin."""
    for number, part in enumerate(parts):
        for place in range(len(part)) if type(part) is list else part:
            if (number, place) in where:
                kind = IS_PART
            elif place in ("name", "resourceVersion") and number == where[0, "metadata"]:
                kind = IS_DERIVED
            else:
                kind = IS_ALIKE if place in ALIKE else IS_AKIN if place in AKIN else IS_OWN
                for at, form in enumerate(FORMS):
                    if is_brief and place in form.fields:
                        kind = IS_FORMED + at
            yield number, place, kind


def shape_of(obj: Obj, cut: Cut) -> Shape:
    """The shape of an object that is cut in this way."""
    parts = _parts(obj, cut.where)
    made = [Part(part.copy()) for part in parts]
    for (outer, place), number in cut.where.items():
        made[number].parent, made[number].place = outer, place
    places = [*_places(parts, cut.where, cut.is_brief)]
    akin = [(number, place) for number, place, kind in places if kind == IS_AKIN]
    own = [
        (number, place)
        for wanted in (*range(IS_FORMED, IS_FORMED + len(FORMS)), IS_OWN)
        for number, place, kind in places
        if kind == wanted
    ]
    for at, (number, place) in enumerate(akin):
        made[number].akin.append((place, at))
    for at, (number, place) in enumerate(own):
        made[number].own.append((place, at))
    for number, place, kind in places:
        if kind != IS_ALIKE:
            made[number].proto[place] = None
    return Shape(made, cut.layout)
