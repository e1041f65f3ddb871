"""The estimated cost of a rule: the most that one evaluation can take, from the sizes that the
schema allows.

Turns a checked rule and the declared type of `self` into a number of cost units.  The definition is
refused where it exceeds upstream's limits, so the estimate is part of the API.

Mirrors  cel-go v0.12 checker/cost.go, common/cost.go; apiextensions-apiserver v1.25
         pkg/apiserver/schema/cel/{compilation.go,library/cost.go}.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from sim.api.crd.cel.checker import Checked
from sim.api.crd.cel.declared import Declared
from sim.api.crd.cel.syntax import Const, Fold, Ident, Invoke, ListOf, MapOf, Node, Select
from sim.api.crd.cel.types import BYTES, STRING, Type

COST_MAX = (1 << 64) - 1
LIST_COST, MAP_COST = 10, 30
TRAVERSAL = 0.1  # of one character
PATTERN = 0.25  # of one character of a regular expression
_OF_LISTS = ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf")
_OF_TEXTS = ("lowerAscii", "upperAscii", "substring", "trim")
_OF_FIRST = ("startsWith_string", "endsWith_string", "string_to_bytes", "bytes_to_string")
_BY_SIZE = tuple(
    f"{relation}_{kind}"
    for relation in ("less", "less_equals", "greater", "greater_equals")
    for kind in ("string", "bytes")
)


class Range(NamedTuple):
    """The bounds of a size or a cost."""

    least: int
    most: int

    def plus(self, other: Range) -> Range:
        """The sum."""
        return Range(_capped(self.least + other.least), _capped(self.most + other.most))

    def times(self, other: Range) -> Range:
        """The product."""
        return Range(_capped(self.least * other.least), _capped(self.most * other.most))

    def scaled(self, factor: float) -> Range:
        """The product with a number, rounded up."""
        return Range(_scaled(self.least, factor), _scaled(self.most, factor))

    def either(self, other: Range) -> Range:
        """Bounds that hold for both."""
        return Range(min(self.least, other.least), max(self.most, other.most))


ZERO, ONE, ANY = Range(0, 0), Range(1, 1), Range(0, COST_MAX)


def _capped(value: int) -> int:
    return min(value, COST_MAX)


def _scaled(value: int, factor: float) -> int:
    if value > 0 and float(value) > COST_MAX / factor:
        return COST_MAX
    return _capped(math.ceil(float(value) * factor))


def estimate(checked: Checked, root: Declared) -> int:
    """The most that an evaluation can cost."""
    return _Estimate(checked, root).cost(checked.parsed.root).most


class _Known(NamedTuple):
    """What is known of a value for its size. path: how it is reached from a variable."""

    node: Node | None
    type: Type
    path: tuple[str, ...]
    size: Range | None


class _Estimate:
    def __init__(self, checked: Checked, root: Declared) -> None:
        self._checked = checked
        self._root = root
        self._paths: dict[int, tuple[str, ...]] = {}
        self._sizes: dict[int, Range] = {}
        self._loops: dict[str, list[int]] = {}
        self._totals: dict[str, None] = {}

    def cost(self, node: Node) -> Range:
        """The cost of a part of the rule."""
        if isinstance(node, Ident):
            return self._ident(node)
        if isinstance(node, Select):
            return self._select(node)
        if isinstance(node, Invoke):
            return self._invoke(node)
        if isinstance(node, ListOf):
            return self._sum(node.items).plus(Range(LIST_COST, LIST_COST))
        if isinstance(node, MapOf):
            parts = tuple(part for entry in node.entries for part in entry if isinstance(part, Node))
            return self._sum(parts).plus(Range(MAP_COST, MAP_COST))
        return self._fold(node) if isinstance(node, Fold) else ZERO

    def _sum(self, nodes: tuple[Node, ...]) -> Range:
        total = ZERO
        for node in nodes:
            total = total.plus(self.cost(node))
        return total

    def _path(self, node: Node) -> tuple[str, ...]:
        return self._paths.get(node.number, ())

    def _type(self, node: Node) -> Type:
        return self._checked.types.get(node.number, Type("none"))

    def _ident(self, node: Ident) -> Range:
        loops = self._loops.get(node.name)
        if not loops:
            self._paths[node.number] = (node.name,)
            return ONE
        # Quirk: a range without a path gives its items the path of the root.
        over = self._checked.types[loops[-1]].kind
        step = {"list": "@items", "map": "@keys"}.get(over)
        if step is not None:
            self._paths[node.number] = (*self._paths.get(loops[-1], ()), step)
        return ONE

    def _select(self, node: Select) -> Range:
        if node.has:
            return ZERO
        total = self.cost(node.operand)
        if self._type(node.operand).kind in ("map", "object", "param"):
            total = total.plus(ONE)
        self._paths[node.number] = (*self._path(node.operand), node.field)
        return total

    def _fold(self, node: Fold) -> Range:
        self._totals[node.total] = None
        total = self.cost(node.over).plus(self.cost(node.initial))
        loops = self._loops.setdefault(node.item, [])
        loops.append(node.over.number)
        each = self.cost(node.condition)
        each = self.cost(node.step).plus(each)
        loops.pop()
        total = total.plus(self.cost(node.result))
        return total.plus(self._size(self._known(node.over)).times(each))

    # --- sizes ------------------------------------------------------------------------------------

    def _known(self, node: Node) -> _Known:
        path = self._path(node)
        path = () if path and path[0] in self._totals else path
        return _Known(node, self._type(node), path, self._sizes.get(node.number))

    def _computed(self, known: _Known) -> Range | None:
        """The size of a value that the rule itself determines."""
        node = known.node
        if known.size is not None or node is None:
            return known.size
        size = None
        if isinstance(node, Const):
            value = node.value
            text = value.encode() if isinstance(value, str) else value
            size = len(text) if isinstance(text, bytes) else 1
        elif isinstance(node, ListOf):
            size = len(node.items)
        elif isinstance(node, MapOf):
            size = len(node.entries)
        return None if size is None else Range(size, size)

    def _declared(self, path: tuple[str, ...]) -> Range | None:
        """The size of a value that the schema bounds."""
        if not path:
            return None
        here = self._root
        for step in path[1:]:
            if step == "@keys":
                # The keys of maps are texts without a known size, and nothing else has keys.
                return Range(0, 0) if here.type.kind == "map" else None
            below = here.items if step in ("@items", "@values") else (here.fields or {}).get(step)
            if below is None:
                return None
            here = below
        return Range(0, here.most)

    def _size(self, known: _Known) -> Range:
        found = self._computed(known) or self._declared(known.path)
        if found is not None:
            return found
        kind = known.type
        scalar = kind.kind == "known" or (kind.kind == "primitive" and kind not in (STRING, BYTES))
        return ONE if scalar else ANY

    def _open_size(self, known: _Known) -> Range:
        """As `_size`, but as the functions of Kubernetes take it: nothing counts as a scalar."""
        return self._computed(known) or self._declared(known.path) or ANY

    # --- calls ------------------------------------------------------------------------------------

    def _invoke(self, node: Invoke) -> Range:
        costs = [self.cost(arg) for arg in node.args]
        args = [self._known(arg) for arg in node.args]
        overloads = self._checked.overloads.get(node.number)
        if not overloads:
            return ZERO
        total, target = ZERO, None
        if node.target is not None:
            total = self.cost(node.target)
            target = self._known(node.target)
        inner = ZERO
        for cost in costs:
            inner = inner.plus(cost)
        found, size = Range(COST_MAX, 0), None
        for overload in overloads:
            cost, result = self._call(node.function, overload, target, args, costs, inner)
            found = found.either(cost)
            if result is not None:
                size = result if size is None else size.either(result)
            if overload in ("index_list", "index_map") and node.args:
                step = "@items" if overload == "index_list" else "@values"
                self._paths[node.number] = (*self._path(node.args[0]), step)
        if size is not None:
            self._sizes[node.number] = size
        return total.plus(found)

    def _call(
        self,
        function: str,
        overload: str,
        target: _Known | None,
        args: list[_Known],
        costs: list[Range],
        inner: Range,
    ) -> tuple[Range, Range | None]:
        """The cost of a call with its arguments, and the size of its result if that is known."""
        own = self._extension(function, target, args)
        if own is not None:
            # Quirk: the size of the result is not known, although upstream computes it.
            return own.plus(inner), None
        if overload in ("logical_or", "logical_and"):
            return Range(costs[0].least, costs[0].plus(costs[1]).most), None
        if overload == "conditional":
            size = self._size(args[1]).either(self._size(args[2]))
            return costs[0].plus(costs[1].either(costs[2])), size
        cost, result = self._plain(overload, target, args)
        return cost.plus(inner), result

    def _plain(self, overload: str, target: _Known | None, args: list[_Known]) -> tuple[Range, Range | None]:
        sizes = [self._size(arg) for arg in args]
        if overload in _OF_FIRST:
            return sizes[0].scaled(TRAVERSAL), None
        if overload == "in_list":
            return sizes[1].scaled(1), None
        if overload == "matches_string" and target is not None:
            return self._search(self._size(target), sizes[0]), None
        if overload == "contains_string" and target is not None:
            return self._size(target).scaled(TRAVERSAL).times(sizes[0].scaled(TRAVERSAL)), None
        if overload in ("add_string", "add_bytes"):
            both = sizes[0].plus(sizes[1])
            return both.scaled(TRAVERSAL), both
        if overload == "add_list":
            return ONE, sizes[0].plus(sizes[1])
        if overload in ("equals", "not_equals", *_BY_SIZE):
            most = min(sizes[0].most, sizes[1].most)
            return Range(1 if most > 0 else 0, most).scaled(TRAVERSAL), None
        return ONE, None

    def _search(self, text: Range, pattern: Range) -> Range:
        return text.plus(ONE).scaled(TRAVERSAL).times(pattern.scaled(PATTERN))

    # --- functions of Kubernetes ------------------------------------------------------------------

    def _extension(self, function: str, target: _Known | None, args: list[_Known]) -> Range | None:
        """The cost of a function of Kubernetes, None for others."""
        if function == "url" and len(args) == 1:
            return self._open_size(args[0]).scaled(TRAVERSAL)
        if target is None:
            return None
        size = self._open_size(target)
        if function in _OF_LISTS:
            return self._list_cost(target, size)
        if function in _OF_TEXTS:
            return size.scaled(TRAVERSAL)
        if function in ("replace", "split"):
            return size.scaled(2 * TRAVERSAL)
        if function == "join":
            return self._joined(size, target, args).scaled(TRAVERSAL)
        if function in ("find", "findAll") and args:
            return self._search(size, self._open_size(args[0]))
        return None

    def _list_cost(self, target: _Known, size: Range) -> Range:
        item = self._item(target)
        if item is None:
            return size.scaled(TRAVERSAL)
        each = ONE
        if item.type in (STRING, BYTES):
            each = each.plus(self._open_size(item).scaled(TRAVERSAL))
        return size.times(each)

    def _item(self, of: _Known) -> _Known | None:
        if of.type.kind != "list":
            return None
        return _Known(None, of.type.args[0], (*of.path, "@items") if of.path else (), None)

    def _joined(self, count: Range, target: _Known, args: list[_Known]) -> Range:
        item = self._item(target)
        result = ZERO if item is None else count.times(self._open_size(item))
        if args:
            between = Range(max(0, count.least - 1), max(0, count.most - 1))
            result = result.plus(self._open_size(args[0]).times(between))
        return result
