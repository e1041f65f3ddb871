"""Two values of a Go type side by side: a tree of what is equal and what differs.

Turns two values of JSON and their Go type into nodes, with the items of lists paired.

Holds: an equal value has no differing leaf below it.

Mirrors  go-cmp v0.5.6 cmp/compare.go, cmp/report_value.go, cmp/internal/diff/diff.go.
Differs  the first search for equal items begins at the front; upstream's program begins at either
         end, by chance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from sim.api.go.internal import as_internal
from sim.api.go.structures import Field, fields_of, underlying
from sim.pauses import spent
from sim.units import quantity_nano

ABSENT: Any = object()  # in a map or list that the other side has it in
NODE_US = 5  # of processor time, for a pair without those below
LONG = 1_000  # items of two lists: of so many only those that differ are compared inside
BUDGET = 4  # comparisons of a list for each of its items
# Types that are compared as a whole, by a method.
_WHOLE = ("resource.Quantity", "*v1.Time", "*v1.MicroTime")
_TIMES = ("v1.Time", "v1.MicroTime")
_INT_OR_STRING = (
    Field("Type", "type", "int64"),
    Field("IntVal", "number", "int32"),
    Field("StrVal", "text", "string"),
)


class Node:
    """A pair of values.

    key: the name of the field, or the key of the entry
    same, differ: the number of its leaves that are equal, and that differ
    count, depth: the number of nodes below, and of their levels
    """

    __slots__ = ("_below", "count", "depth", "differ", "key", "kind", "new", "old", "same")

    def __init__(self, kind: str, old: Any, new: Any, key: str = "") -> None:
        self.kind = kind
        self.old = old
        self.new = new
        self.key = key
        self._below: list[Node] | None = []
        self.same = self.differ = self.count = self.depth = 0
        if old is ABSENT or new is ABSENT or not self._descend():
            equal = old is not ABSENT and new is not ABSENT and _equal(kind, old, new)
            self.same, self.differ = int(equal), int(not equal)

    @classmethod
    def of_equal(cls, kind: str, old: Any, new: Any) -> Node:
        """A pair of equal structs, compared inside only if that is read; it counts as one."""
        node = object.__new__(cls)
        node.kind, node.old, node.new, node.key = kind, old, new, ""
        node._below = None
        node.same, node.differ, node.count, node.depth = 1, 0, 1, 1
        return node

    @property
    def below(self) -> list[Node]:
        """The pairs inside."""
        if self._below is None:
            self._below = list(_parts(self.kind, self.old, self.new) or ())
        return self._below

    def _descend(self) -> bool:
        """Compare what is inside; False if the pair is a leaf."""
        spent(NODE_US)
        for node in _parts(self.kind, self.old, self.new) or ():
            self.below.append(node)
            self.same += node.same
            self.differ += node.differ
            self.count += node.count + 1
            self.depth = max(self.depth, node.depth + 1)
        return bool(self.below) or _is_open(self.kind, self.old, self.new)


@lru_cache(maxsize=1024)
def form_of(kind: str) -> str:
    """What a type is: "pointer", "list", "map", "struct" or "leaf"."""
    if kind == "resource.Quantity":
        return "leaf"
    if kind.startswith("*"):
        return "pointer"
    if kind == "intstr.IntOrString" or kind in _TIMES or fields_of(kind) is not None:
        return "struct"
    below = underlying(kind)
    return "list" if below.startswith("[]") else "map" if below.startswith("map[") else "leaf"


def fields_with_values(kind: str, value: Any) -> list[tuple[Field, Any]]:
    """The fields of a struct and their values."""
    if kind == "intstr.IntOrString":
        text = isinstance(value, str)
        given = (int(text), 0 if text else value or 0, value if text else "")
        return list(zip(_INT_OR_STRING, given, strict=True))
    if kind in _TIMES:
        return [(Field("Time", "", "time.Time"), value)]
    held = as_internal(kind, value or {})
    return [(field, held.get(field.key) if field.key else held) for field in fields_of(kind) or ()]


def item_type(kind: str) -> str:
    """The type of the items of a list or the values of a map."""
    return underlying(kind).partition("]")[2]


def is_zero(kind: str, value: Any) -> bool:
    """True if the value is the zero of its type; an empty list is none."""
    form = form_of(kind)
    if form == "struct":
        return all(is_zero(field.type, below) for field, below in fields_with_values(kind, value))
    return value is None if form != "leaf" else not value


def _is_open(kind: str, old: Any, new: Any) -> bool:
    """True if both values have an inside, which may be empty."""
    form = form_of(kind)
    if kind in _WHOLE or form == "leaf":
        return False
    return form == "struct" or (old is not None and new is not None)


def _equal(kind: str, old: Any, new: Any) -> bool:
    if kind == "resource.Quantity":
        return quantity_nano(old or 0) == quantity_nano(new or 0)
    if form_of(kind) == "leaf":
        return bool((old or None) == (new or None))
    return bool(old == new) if kind in _WHOLE else old is None and new is None


def _parts(kind: str, old: Any, new: Any) -> Iterator[Node] | None:
    if not _is_open(kind, old, new):
        return None
    form = form_of(kind)
    if form == "pointer":
        return iter((Node(kind[1:], old, new),))
    if form == "struct":
        pairs = zip(fields_with_values(kind, old), fields_with_values(kind, new), strict=True)
        return (Node(field.type, a, b, field.name) for (field, a), (_, b) in pairs)
    inner = item_type(kind)
    if form == "map":
        keys = sorted({**old, **new})
        return (Node(inner, old.get(key, ABSENT), new.get(key, ABSENT), key) for key in keys)
    return _paired(inner, old, new)


# --- lists ----------------------------------------------------------------------------------------


def _paired(kind: str, old: list[Any], new: list[Any]) -> Iterator[Node]:
    """The items of two lists: equal and similar ones side by side, others alone."""
    made: dict[tuple[int, int], Node] = {}

    long = len(old) + len(new) > LONG and form_of(kind) == "struct"

    def compared(x: int, y: int) -> Node:
        if (x, y) not in made:
            alike = long and old[x] == new[y]
            made[x, y] = (Node.of_equal if alike else Node)(kind, old[x], new[y])
        return made[x, y]

    def same(x: int, y: int) -> bool:
        return bool(old[x] == new[y]) if long else not compared(x, y).differ

    for x, y in _steps(len(old), len(new), same, compared):
        if x is None or y is None:
            yield Node(kind, ABSENT if x is None else old[x], ABSENT if y is None else new[y])
        else:
            yield compared(x, y)


def _steps(
    width: int, height: int, same: Callable[[int, int], bool], compared: Callable[[int, int], Node]
) -> Iterator[tuple[int | None, int | None]]:
    """Pairs of positions: a greedy search for equal items from both ends, along diagonals."""
    front, back = (0, 0), (width, height)
    first: list[tuple[int | None, int | None]] = []
    last: list[tuple[int | None, int | None]] = []
    ahead, behind = front, back  # where the searches are
    budget, forward = BUDGET * (width + height), True
    while ahead[0] < behind[0] and ahead[1] < behind[1] and budget > 0:
        step = 1 if forward else -1
        origin = ahead if forward else behind
        hit, budget = _diagonal(origin, front, back, step, same, budget)
        if hit is not None:
            if forward:
                first += _joined(front, hit, compared, 1)
                front = hit
                while front[0] < back[0] and front[1] < back[1] and same(*front):
                    first.append(front)
                    front = front[0] + 1, front[1] + 1
                ahead = front
            else:
                last += _joined(back, hit, compared, -1)
                back = hit
                while front[0] < back[0] and front[1] < back[1]:
                    before = back[0] - 1, back[1] - 1
                    if not same(*before):
                        break
                    last.append(before)
                    back = before
                behind = back
        if forward:
            right = back[0] - ahead[0] >= back[1] - ahead[1]
            ahead = (ahead[0] + 1, ahead[1]) if right else (ahead[0], ahead[1] + 1)
        else:
            left = behind[0] - front[0] >= behind[1] - front[1]
            behind = (behind[0] - 1, behind[1]) if left else (behind[0], behind[1] - 1)
        forward = not forward
    yield from [*first, *_joined(front, back, compared, 1), *reversed(last)]


def _diagonal(
    origin: tuple[int, int],
    front: tuple[int, int],
    back: tuple[int, int],
    step: int,
    same: Callable[[int, int], bool],
    budget: int,
) -> tuple[tuple[int, int] | None, int]:
    """The next pair of equal items on a diagonal through a point, seen in a direction."""
    ended = [False, False]
    turn = 0
    while not all(ended) and budget > 0:
        offset = (turn >> 1) if turn % 2 == 0 else -((turn + 1) >> 1)
        turn += 1
        x, y = origin[0] + step * offset, origin[1] - step * offset
        if step > 0:
            if x >= back[0] or y < front[1]:
                ended[0] = True
            elif y >= back[1] or x < front[0]:
                ended[1] = True
            elif same(x, y):
                return (x, y), budget
            else:
                budget -= 1
        elif front[0] >= x or back[1] < y:
            ended[0] = True
        elif front[1] >= y or back[0] < x:
            ended[1] = True
        elif same(x - 1, y - 1):
            return (x, y), budget
        else:
            budget -= 1
    return None, budget


def _joined(
    start: tuple[int, int], end: tuple[int, int], compared: Callable[[int, int], Node], step: int
) -> list[tuple[int | None, int | None]]:
    """The steps from a point to another: equal and similar items in pairs, others alone."""
    (x, y), (right, low) = start, end
    made: list[tuple[int | None, int | None]] = []
    shift = 0 if step > 0 else -1  # the item before the point, seen backwards
    while (right - x) * step > 0 and (low - y) * step > 0:
        node = compared(x + shift, y + shift)
        if not node.differ or node.same + 1 >= node.differ:
            made.append((x + shift, y + shift))
            x, y = x + step, y + step
            continue
        wide, high = (right - x) * step, (low - y) * step
        if wide > high or (wide == high and step > 0):
            made.append((x + shift, None))
            x += step
        else:
            made.append((None, y + shift))
            y += step
    while (right - x) * step > 0:
        made.append((x + shift, None))
        x += step
    while (low - y) * step > 0:
        made.append((None, y + shift))
        y += step
    return made
