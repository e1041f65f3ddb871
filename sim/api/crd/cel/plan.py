"""A checked rule as functions that are called in each other, which is how it is evaluated.

Each node becomes a `Step`, a function of a frame that returns the value of the node and adds the
cost of it.  A frame is a list: the cost so far, the last stamp, and then the variables and what is
remembered.

What a loop evaluates in each round although it depends on no variable of that round is evaluated
once: its value is remembered with its cost, which is added each time.  So the time of an evaluation
stays near to its cost, which the limits bound.

Holds: `&&` and `||` give the result that one side determines even if the other side fails; a call
of up to two arguments evaluates both even if the first one fails.

Mirrors  cel-go v0.12 interpreter/{planner,interpretable,attributes,decorators,runtimecost}.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sim.api.crd.cel.call_costs import Units, units_of
from sim.api.crd.cel.checker import Checked
from sim.api.crd.cel.cost import LIST_COST, MAP_COST
from sim.api.crd.cel.declarations import NOT_FALSE
from sim.api.crd.cel.functions import IMPLEMENTED, OPERATORS
from sim.api.crd.cel.syntax import Const, Fold, Ident, Invoke, ListOf, MapOf, Node, Select
from sim.api.crd.cel.values import (
    MISSING,
    NO_OVERLOAD,
    CelError,
    GivenMap,
    Listing,
    Literal,
    LiteralMap,
    Mapping,
    equals,
    type_name,
)
from sim.pauses import spent

Frame = list[Any]
Step = Callable[[Frame], Any]
NO_CONSTANT: Any = object()
# _ALWAYS: the stamp of what depends on no loop; _NEXT: the cost at which a loop looks at the limit;
# _SAID: the cost that was said to be spent
_COST, _STAMP, _ALWAYS, _LIMIT, _NEXT, _SAID, _FIRST = range(7)
UNITS_PER_US = 2
_LOOK = 20_000  # units of cost from one look at the limit to the next
_PRIMITIVE = (bool, int, float, str, bytes)
_VARIABLES = ("self", "oldSelf")


class TooCostly(Exception):
    """The evaluation has taken all that it may."""


class Plan:
    """A rule that can be evaluated."""

    def __init__(self, checked: Checked, constants: dict[int, Any]) -> None:
        self._width = _FIRST + len(_VARIABLES)
        self._names = {name: _FIRST + i for i, name in enumerate(_VARIABLES)}
        self._stamps = [_ALWAYS]
        self._checked = checked
        self._constants = constants
        self._depends: dict[int, int] = {}
        self._look(checked.parsed.root, {}, 0)
        self.run: Step = self._made(checked.parsed.root)

    def frame(self, limit: int, *values: Any) -> Frame:
        """A frame for one evaluation with these values of `self` and `oldSelf`."""
        made: Frame = [0, 0, 0, limit, min(limit, _LOOK), 0, *values]
        made += [NO_CONSTANT] * (self._width - len(made))
        return made

    def cost(self, frame: Frame) -> int:
        """What the evaluation has cost."""
        found: int = frame[_COST]
        spent((found - frame[_SAID]) // UNITS_PER_US)
        return found

    # --- what depends on what ---------------------------------------------------------------------

    def _look(self, node: Node, loops: dict[str, int], depth: int) -> int:
        """Find the loops with variables that each node needs, as a set of bits by their depths."""
        found = 0
        if isinstance(node, Ident):
            found = loops.get(node.name, 0)
        elif isinstance(node, Fold):
            inner = {**loops, node.item: 1 << depth, node.total: 1 << depth}
            for part in (node.condition, node.step, node.result):
                found |= self._look(part, inner, depth + 1)
            found &= ~(1 << depth)
            found |= self._look(node.over, loops, depth) | self._look(node.initial, loops, depth)
        else:
            for part in _parts(node):
                found |= self._look(part, loops, depth)
        self._depends[id(node)] = found
        return found

    def _sub(self, node: Node, parent: int, make: Callable[[Node], Step] | None = None) -> Step:
        """The step of a part, remembered if the loops that the whole depends on are more.

        parent: the loops of the whole, see `_look`
        """
        made = (make or self._made)(node)
        level = self._depends[id(node)].bit_length()
        if level >= parent.bit_length() or node.number in self._constants or isinstance(node, Const | Ident):
            return made
        return _remembered(made, self._slots(3), self._stamps[level])

    def _subs(self, node: Node, parts: tuple[Node, ...]) -> list[Step]:
        return [self._sub(part, self._depends[id(node)]) for part in parts]

    def _slots(self, count: int) -> int:
        self._width += count
        return self._width - count

    # --- nodes ------------------------------------------------------------------------------------

    def _made(self, node: Node) -> Step:
        if node.number in self._constants:
            return _constant(self._constants[node.number])
        if isinstance(node, Ident):
            return self._ident(node, 1)
        if isinstance(node, Select):
            return self._select(node)
        if isinstance(node, Invoke):
            return self._invoke(node)
        if isinstance(node, ListOf):
            return _list(self._subs(node, node.items))
        if isinstance(node, MapOf):
            return _map(self._subs(node, tuple(_parts(node))))
        assert isinstance(node, Fold)
        return self._fold(node)

    def _ident(self, node: Ident, units: int) -> Step:
        slot = self._names.get(node.name, -1)
        absent = f"no such attribute: id: {node.number}, names: [{node.name}]"

        def named(f: Frame) -> Any:
            f[_COST] += units
            found = f[slot] if slot > 0 else NO_CONSTANT
            if found is NO_CONSTANT:
                raise CelError(absent)
            if found.__class__ is CelError:
                raise found.with_traceback(None)
            return found

        return named

    def _select(self, node: Select) -> Step:
        holder = self._sub(node.operand, self._depends[id(node)])
        if isinstance(node.operand, Ident) and node.operand.name in self._names and not node.has:
            return _field_of_name(holder, self._names[node.operand.name], node.field)
        if node.has:
            return _has(holder, node.field)
        return _field(holder, node.field, 1 if self._is_path(node.operand) else 2)

    def _branch(self, node: Node) -> Step:
        """A branch of a condition or an index: a name at its start costs nothing."""
        if node.number not in self._constants:
            depends = self._depends[id(node)]
            if isinstance(node, Ident):
                return self._ident(node, 0)
            if isinstance(node, Select) and not node.has and self._is_path(node.operand):
                return _field(self._sub(node.operand, depends, self._branch), node.field, 1)
            if isinstance(node, Invoke) and node.function == "_[_]" and self._is_path(node.args[0]):
                holder, key = (self._sub(part, depends, self._branch) for part in node.args)
                return _item(holder, key, 1)
        return self._made(node)

    def _is_path(self, node: Node) -> bool:
        if node.number in self._constants:
            return False
        if isinstance(node, Select):
            return not node.has
        return isinstance(node, Ident) or (isinstance(node, Invoke) and node.function in ("_[_]", "_?_:_"))

    def _invoke(self, node: Invoke) -> Step:
        depends = self._depends[id(node)]
        parts = node.args if node.target is None else (node.target, *node.args)
        name = node.function
        if name in ("_&&_", "_||_"):
            return _either(self._subs(node, parts), name == "_||_")
        if name == "_?_:_":
            branches = [self._sub(part, depends, self._branch) for part in parts[1:]]
            return _condition(self._sub(parts[0], depends), branches)
        if name == "_[_]":
            key = self._sub(parts[1], depends, self._branch)
            return _item(self._sub(parts[0], depends), key, 1 if self._is_path(parts[0]) else 2)
        if name == NOT_FALSE:
            return _not_false(self._sub(parts[0], depends))
        overloads = self._checked.overloads[node.number]
        overload = overloads[0] if len(overloads) == 1 else ""
        if overload == "in_list" and self._is_set(parts[1]):
            return _in_constant(self._sub(parts[0], depends), self._constants[parts[1].number])
        return _call(self._subs(node, parts), _function(name, overload), units_of(name, overload))

    def _is_set(self, node: Node) -> bool:
        """Return True if a node is a constant list that is made into a set beforehand."""
        holder = self._constants.get(node.number, NO_CONSTANT)
        return holder is not NO_CONSTANT and all(isinstance(one, _PRIMITIVE) for one in holder)

    # --- loops ------------------------------------------------------------------------------------

    def _fold(self, node: Fold) -> Step:
        depends = self._depends[id(node)]
        over, initial = self._sub(node.over, depends), self._sub(node.initial, depends)
        slots = total, item, stamp = self._slots(1), self._slots(1), self._slots(1)
        outer, body = self._names, 1 << (len(self._stamps) - 1)
        self._stamps.append(stamp)
        self._names = {**outer, node.total: total, node.item: item}
        test = self._test(node)
        if test is not None:
            made = _quantifier(over, self._sub(test, body), _name_of(node.step) == "_||_", slots)
        else:
            condition, step = self._sub(node.condition, body), self._sub(node.step, body)
            self._names = {**outer, node.total: total}
            made = _loop(over, (initial, condition, step, self._made(node.result)), slots)
        self._stamps.pop()
        self._names = outer
        return made

    def _test(self, node: Fold) -> Node | None:
        """What the macros `all` and `exists` test of each item; None for other loops."""
        step, condition = node.step, node.condition
        if not (isinstance(step, Invoke) and isinstance(condition, Invoke)):
            return None
        if condition.function != NOT_FALSE or not _is_name(step.args[0], node.total):
            return None
        going, some = condition.args[0], step.function == "_||_"
        if some and isinstance(going, Invoke) and going.function == "!_":
            going = going.args[0]
        elif some or step.function != "_&&_":
            return None
        starts = isinstance(node.initial, Const) and node.initial.value is not some
        known = starts and _is_name(going, node.total) and _is_name(node.result, node.total)
        return step.args[1] if known else None


def _parts(node: Node) -> list[Node]:
    if isinstance(node, Select):
        return [node.operand]
    if isinstance(node, Invoke):
        return [*(() if node.target is None else (node.target,)), *node.args]
    if isinstance(node, ListOf):
        return list(node.items)
    if isinstance(node, MapOf):
        return [part for entry in node.entries for part in entry if isinstance(part, Node)]
    return []


def _name_of(node: Node) -> str:
    return node.function if isinstance(node, Invoke) else ""


def _is_name(node: Node, name: str) -> bool:
    return isinstance(node, Ident) and node.name == name


def _function(name: str, overload: str) -> Callable[..., Any]:
    if name == "sum":
        total = IMPLEMENTED[name]
        return lambda items: total(items, overload)
    return OPERATORS.get(name) or IMPLEMENTED[name]


# --- steps ----------------------------------------------------------------------------------------


def _constant(value: Any) -> Step:
    return lambda _: value


def _remembered(step: Step, slot: int, stamp: int) -> Step:
    """A step that is evaluated once for each stamp. slot: of three for stamp, value and cost."""

    def remembered(f: Frame) -> Any:
        if f[slot] == f[stamp]:
            f[_COST] += f[slot + 2]
            found = f[slot + 1]
            if found.__class__ is CelError:
                raise found.with_traceback(None)
            return found
        before, failure = f[_COST], None
        try:
            found = step(f)
        except CelError as error:
            found = failure = error
        f[slot], f[slot + 1], f[slot + 2] = f[stamp], found, f[_COST] - before
        if failure is not None:
            raise failure
        return found

    return remembered


def _kept(step: Step, f: Frame) -> Any:
    """The value of a step, or the error instead of it."""
    try:
        return step(f)
    except CelError as error:
        return error


def _list(items: list[Step]) -> Step:
    def made(f: Frame) -> Any:
        f[_COST] += LIST_COST
        return Literal([item(f) for item in items])

    return made


def _map(parts: list[Step]) -> Step:
    def made(f: Frame) -> Any:
        f[_COST] += MAP_COST
        values = [part(f) for part in parts]
        return LiteralMap(list(zip(values[::2], values[1::2], strict=True)))

    return made


def _has(holder: Step, field: str) -> Step:
    def has(f: Frame) -> bool:
        found = holder(f)
        if isinstance(found, Mapping):
            return found.find(field)[0]
        if isinstance(found, Listing):
            return False
        raise CelError("invalid type for field selection.")

    return has


def _field(holder: Step, field: str, units: int) -> Step:
    def selected(f: Frame) -> Any:
        found = holder(f)
        f[_COST] += units
        if found.__class__ is GivenMap:
            value = found.known.get(field, MISSING)
            if value is not MISSING:
                return value
        return _taken(found, field)

    return selected


def _field_of_name(holder: Step, slot: int, field: str) -> Step:
    """As `_field` for a variable, which is the most frequent form."""
    missed = _field(holder, field, 1)

    def selected(f: Frame) -> Any:
        found = f[slot]
        if found.__class__ is GivenMap:
            value = found.known.get(field, MISSING)
            if value is not MISSING:
                f[_COST] += 2
                return value
        return missed(f)

    return selected


def _item(holder: Step, key: Step, units: int) -> Step:
    def item(f: Frame) -> Any:
        found = holder(f)
        f[_COST] += units - 1
        place = key(f)
        f[_COST] += 1
        return _taken(found, place)

    return item


def _taken(holder: Any, key: Any) -> Any:
    """A field or item of a value."""
    if isinstance(holder, Mapping):
        known, found = holder.find(key)
        if not known:
            raise CelError(f"no such key: {_shown(key)}")
        return found
    if isinstance(holder, Listing):
        if type(key) is float and key.is_integer():
            key = int(key)
        if isinstance(key, bool) or not isinstance(key, int):
            raise CelError(f"unsupported index: {_shown(key)}")
        return holder.at(int(key))
    raise CelError(f"no such key: {_shown(key)}")


def _shown(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key)


def _either(sides: list[Step], deciding: Any) -> Step:
    """`||` for True, `&&` for False: the first side that has the deciding value decides."""
    one, other = sides
    neutral = not deciding

    def either(f: Frame) -> Any:
        failure: CelError | None = None
        try:
            found = one(f)
            if found is deciding:
                return deciding
            if found is not neutral:
                failure = CelError(NO_OVERLOAD)
        except CelError as error:
            failure = error
        try:
            found = other(f)
            if found is deciding:
                return deciding
            if failure is None and found is not neutral:
                failure = CelError(NO_OVERLOAD)
        except CelError as error:
            failure = failure or error
        if failure is not None:
            raise failure.with_traceback(None)
        return neutral

    return either


def _condition(test: Step, branches: list[Step]) -> Step:
    yes, no = branches

    def condition(f: Frame) -> Any:
        found = test(f)
        if found is True:
            return yes(f)
        if found is False:
            return no(f)
        raise CelError(NO_OVERLOAD)

    return condition


def _not_false(step: Step) -> Step:
    def not_false(f: Frame) -> bool:
        f[_COST] += 1
        return _kept(step, f) is not False

    return not_false


def _in_constant(step: Step, holder: Listing) -> Step:
    """A test whether a constant list holds a value, which costs no more than the value.

    Quirk: a value that cannot be found counts as one that the list does not hold.
    """

    def contained(f: Frame) -> bool:
        value = _kept(step, f)
        return value.__class__ is not CelError and any(equals(value, one) for one in holder)

    return contained if holder.size() else _constant(False)


# --- calls ----------------------------------------------------------------------------------------


def _call(args: list[Step], function: Callable[..., Any], units: Units) -> Step:
    if not isinstance(units, int):
        return _sized_call(args, function, units)
    if len(args) != 2:
        return _plain_call(args, function, units)
    one, other = args

    def called(f: Frame) -> Any:
        f[_COST] += units
        try:
            first = one(f)
        except CelError:
            _kept(other, f)
            raise
        return function(first, other(f))

    return called


def _plain_call(args: list[Step], function: Callable[..., Any], units: int) -> Step:
    def called(f: Frame) -> Any:
        f[_COST] += units
        return function(*[arg(f) for arg in args])

    return called


def _sized_call(
    args: list[Step], function: Callable[..., Any], units: Callable[[list[Any], Any], int]
) -> Step:
    """A call with a cost that depends on the sizes of its arguments or of its result."""
    strict = len(args) > 2

    def called(f: Frame) -> Any:
        values = [arg(f) for arg in args] if strict else [_kept(arg, f) for arg in args]
        try:
            for value in values:
                if value.__class__ is CelError:
                    raise value
            result = function(*values)
        except CelError:
            f[_COST] += units(values, None)
            raise
        f[_COST] += units(values, result)
        return result

    return called


# --- loops ----------------------------------------------------------------------------------------


def _items(over: Any) -> list[Any]:
    """What a loop visits; an error for an item that does not fit its schema."""
    if isinstance(over, Mapping):
        return list(over.names())
    if isinstance(over, Listing):
        return over.values()
    raise CelError(f"got '{type_name(over).name}', expected iterable type")


def _looked(f: Frame) -> int:
    """The cost at which to look next; raises TooCostly above the limit."""
    cost: int = f[_COST]
    limit: int = f[_LIMIT]
    if cost > limit:
        raise TooCostly
    spent((cost - f[_SAID]) // UNITS_PER_US)
    f[_SAID] = cost
    look = f[_NEXT] = min(cost + _LOOK, limit)
    return look


def _loop(over: Step, parts: tuple[Step, Step, Step, Step], slots: tuple[int, int, int]) -> Step:
    initial, condition, step, result = parts
    total, item, stamp = slots

    def loop(f: Frame) -> Any:
        items = _items(over(f))
        f[total] = _kept(initial, f)
        look = f[_NEXT]
        for value in items:
            if f[_COST] > look:
                look = _looked(f)
            f[item] = value
            f[_STAMP] += 1
            f[stamp] = f[_STAMP]
            try:
                if condition(f) is False:
                    break
            except CelError:
                pass
            try:
                f[total] = step(f)
            except CelError as error:
                f[total] = error
        return result(f)

    return loop


def _quantifier(over: Step, test: Step, deciding: bool, slots: tuple[int, int, int]) -> Step:
    """`exists` for True, `all` for False: as `_loop` with the parts that the macro has."""
    total, item, stamp = slots
    neutral = not deciding
    going_on = 3 if deciding else 2  # the condition: the total, `!` for exists, the macro's call
    each = going_on + 1  # and the total in the step

    def quantifier(f: Frame) -> bool:
        items = _items(over(f))
        look = f[_NEXT]
        found: Any = neutral
        f[total] = neutral
        for value in items:
            if found is deciding:
                f[_COST] += going_on
                break
            f[_COST] += each
            if f[_COST] > look:
                look = _looked(f)
            f[item] = value
            f[_STAMP] += 1
            f[stamp] = f[_STAMP]
            try:
                passed = test(f)
            except CelError as error:
                passed = error
            if passed is deciding:
                f[total] = found = deciding
            elif passed is not neutral and found is neutral:
                f[total] = found = passed if passed.__class__ is CelError else CelError(NO_OVERLOAD)
        f[_COST] += 1
        if found.__class__ is CelError:
            raise found.with_traceback(None)
        return found is True

    return quantifier
