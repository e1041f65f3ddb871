"""The evaluation of a checked rule, and what it costs.

Turns a rule and the values of `self` and `oldSelf` into the result of the rule and the cost units
that it took.

Holds: `&&` and `||` give the result that one side determines even if the other side fails; no
evaluation takes more than `COST_MAX` units; literals of constants, and conversions of constants,
are made beforehand and cost nothing.

Mirrors  cel-go v0.12 interpreter/{planner,interpretable,attributes,decorators,runtimecost}.go;
         apiextensions-apiserver v1.25 pkg/apiserver/schema/cel/{compilation.go,library/cost.go}.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from sim.api.crd.cel.checker import Checked, qualified
from sim.api.crd.cel.cost import LIST_COST, MAP_COST, PATTERN, TRAVERSAL
from sim.api.crd.cel.declarations import CONVERSIONS, NOT_FALSE, TYPE_NAMES
from sim.api.crd.cel.functions import IMPLEMENTED, size
from sim.api.crd.cel.syntax import Const, Fold, Ident, Invoke, ListOf, MapOf, Node, Select
from sim.api.crd.cel.values import (
    NO_OVERLOAD,
    CelError,
    Crash,
    Listing,
    Literal,
    LiteralMap,
    Mapping,
    TypeName,
    equals,
    type_name,
)
from sim.api.crd.regexes import BadPattern, compile_pattern

COST_MAX = 1_000_000  # of one evaluation: PerCallLimit
TOO_COSTLY = "operation cancelled: actual cost limit exceeded"
_PATTERNS = ("matches", "find", "findAll")
_OF_LISTS = ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf")
_OF_TEXTS = ("url", "lowerAscii", "upperAscii", "substring", "trim")
_BY_SMALLER = ("less", "less_equals", "greater", "greater_equals")
_PRIMITIVE = (bool, int, float, str, bytes)
_NO_CONSTANT: Any = object()


class BadProgram(Exception):
    """The rule is well-typed, but a constant in it is wrong; the message is the one users see."""


class TooCostly(Exception):
    """The evaluation has taken all that it may."""


class Outcome(NamedTuple):
    """The result of an evaluation. error: why there is no result, "" if there is one."""

    value: Any
    error: str
    cost: int


class Program:
    """A rule that can be evaluated."""

    def __init__(self, checked: Checked) -> None:
        """Raises BadProgram."""
        self._checked = checked
        self.constants: dict[int, Any] = {}
        self._fold_constants(checked.parsed.root)

    def run(self, self_value: Any, old_value: Any = _NO_CONSTANT) -> Outcome:
        """Evaluate the rule. old_value: left away if there is no value from before."""
        values = {"self": self_value}
        if old_value is not _NO_CONSTANT:
            values["oldSelf"] = old_value
        run = _Run(self._checked, self.constants, values)
        try:
            return Outcome(run.value(self._checked.parsed.root), "", run.cost)
        except (CelError, Crash) as error:
            return Outcome(None, str(error), run.cost)
        except TooCostly:
            return Outcome(None, TOO_COSTLY, run.cost)

    # --- constants --------------------------------------------------------------------------------

    def _fold_constants(self, node: Node) -> Any:
        """The value of a constant node; `_NO_CONSTANT` for others."""
        found: Any = _NO_CONSTANT
        if isinstance(node, Const):
            found = node.value
        elif isinstance(node, Ident | Select) and self._checked.types[node.number].kind == "type":
            name = qualified(node)
            if name in TYPE_NAMES:
                found = TypeName(name)
        if isinstance(node, Select) and found is _NO_CONSTANT:
            self._fold_constants(node.operand)
        elif isinstance(node, ListOf):
            items = [self._fold_constants(item) for item in node.items]
            if _NO_CONSTANT not in items:
                found = Literal(items)
        elif isinstance(node, MapOf):
            found = self._constant_map(node)
        elif isinstance(node, Invoke):
            found = self._constant_call(node)
        elif isinstance(node, Fold):
            for part in (node.over, node.initial, node.condition, node.step, node.result):
                self._fold_constants(part)
        if found is not _NO_CONSTANT:
            self.constants[node.number] = found
        return found

    def _constant_map(self, node: MapOf) -> Any:
        entries = []
        for key, value in node.entries:
            assert isinstance(key, Node)
            entries.append((self._fold_constants(key), self._fold_constants(value)))
        if any(part is _NO_CONSTANT for entry in entries for part in entry):
            return _NO_CONSTANT
        return LiteralMap(entries)

    def _constant_call(self, node: Invoke) -> Any:
        if node.target is not None:
            self._fold_constants(node.target)
        args = [self._fold_constants(arg) for arg in node.args]
        if node.function in CONVERSIONS and len(args) == 1 and args[0] is not _NO_CONSTANT:
            try:
                return IMPLEMENTED[node.function](args[0])
            except CelError as error:
                raise BadProgram(str(error)) from None
        if node.function in _PATTERNS and args and isinstance(args[0], str):
            try:
                compile_pattern(args[0])
            except BadPattern as error:
                raise BadProgram(f"error parsing regexp: {error}") from None
        return _NO_CONSTANT


class _Run:
    def __init__(self, checked: Checked, constants: dict[int, Any], values: dict[str, Any]) -> None:
        self.cost = 0
        self._checked = checked
        self._constants = constants
        self._scope = values

    def _spend(self, units: int) -> None:
        self.cost += units
        if self.cost > COST_MAX:
            raise TooCostly

    def value(self, node: Node) -> Any:
        """The value of a node.  Raises CelError and TooCostly."""
        constant = self._constants.get(node.number, _NO_CONSTANT)
        if constant is not _NO_CONSTANT:
            return constant
        if isinstance(node, Ident):
            self._spend(1)
            return self._named(node)
        if isinstance(node, Select):
            return self._selected(node)
        if isinstance(node, Invoke):
            return self._called(node)
        if isinstance(node, ListOf):
            try:
                return Literal([self.value(item) for item in node.items])
            finally:
                self._spend(LIST_COST)
        if isinstance(node, MapOf):
            pairs = [(key, value) for key, value in node.entries if isinstance(key, Node)]
            try:
                return LiteralMap([(self.value(key), self.value(value)) for key, value in pairs])
            finally:
                self._spend(MAP_COST)
        assert isinstance(node, Fold)
        return self._folded(node)

    # --- names, fields and items ------------------------------------------------------------------

    def _named(self, node: Ident) -> Any:
        found = self._scope.get(node.name, _NO_CONSTANT)
        if found is _NO_CONSTANT:
            raise CelError(f"no such attribute: id: {node.number}, names: [{node.name}]")
        if isinstance(found, CelError):
            raise found
        return found

    def _branch(self, node: Node) -> Any:
        """The value of a branch of a condition or an index: a name at its start costs nothing."""
        if node.number not in self._constants:
            if isinstance(node, Ident):
                return self._named(node)
            if isinstance(node, Select) and not node.has and self._is_path(node.operand):
                return self._step(self._branch(node.operand), node.field)
            if isinstance(node, Invoke) and node.function == "_[_]" and self._is_path(node.args[0]):
                return self._step(self._branch(node.args[0]), self._branch(node.args[1]))
        return self.value(node)

    def _is_path(self, node: Node) -> bool:
        if node.number in self._constants:
            return False
        if isinstance(node, Select):
            return not node.has
        return isinstance(node, Ident) or (isinstance(node, Invoke) and node.function in ("_[_]", "_?_:_"))

    def _selected(self, node: Select) -> Any:
        holder = self.value(node.operand)
        if node.has:
            if isinstance(holder, Mapping):
                return holder.find(node.field)[0]
            if isinstance(holder, Listing):
                return False
            raise CelError("invalid type for field selection.")
        if not self._is_path(node.operand):
            self._spend(1)
        return self._step(holder, node.field)

    def _step(self, holder: Any, key: Any) -> Any:
        """A field or item of a value."""
        self._spend(1)
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

    # --- calls ------------------------------------------------------------------------------------

    def _called(self, node: Invoke) -> Any:
        name = node.function
        if name == "_&&_":
            return self._either(node, False)
        if name == "_||_":
            return self._either(node, True)
        if name == "_?_:_":
            return self._branch(node.args[1] if self._truth(node.args[0]) else node.args[2])
        if name == "_[_]":
            holder = self.value(node.args[0])
            if not self._is_path(node.args[0]):
                self._spend(1)
            return self._step(holder, self._branch(node.args[1]))
        if name == NOT_FALSE:
            return self._not_false(node.args[0])
        parts = node.args if node.target is None else (node.target, *node.args)
        overloads = self._checked.overloads[node.number]
        overload = overloads[0] if len(overloads) == 1 else ""
        if overload == "in_list" and self._is_set(node.args[1]):
            return self._in_constant(node)
        args = [self._kept(part) if len(parts) <= 2 else self.value(part) for part in parts]
        failed = next((arg for arg in args if isinstance(arg, CelError)), None)
        result: Any = None
        try:
            if failed is not None:
                raise failed
            result = self._result(name, overload, args)
        except CelError:
            self._spend(_cost(name, overload, args, result))
            raise
        self._spend(_cost(name, overload, args, result))
        return result

    def _result(self, name: str, overload: str, args: list[Any]) -> Any:
        if name == "_==_":
            return equals(*args)
        if name == "_!=_":
            return not equals(*args)
        if name == "!_":
            if not isinstance(args[0], bool):
                raise CelError(NO_OVERLOAD)
            return not args[0]
        if name == "sum":
            return IMPLEMENTED[name](*args, overload)
        return IMPLEMENTED[name](*args)

    def _is_set(self, node: Node) -> bool:
        """Return True if a node is a constant list that is made into a set beforehand."""
        holder = self._constants.get(node.number, _NO_CONSTANT)
        return holder is not _NO_CONSTANT and all(isinstance(one, _PRIMITIVE) for one in holder)

    def _in_constant(self, node: Invoke) -> bool:
        """A test whether a constant list holds a value, which costs no more than the value.

        Quirk: a value that cannot be found counts as one that the list does not hold.
        """
        holder = self._constants[node.args[1].number]
        if not holder.size():
            return False
        try:
            value = self.value(node.args[0])
        except CelError:
            return False
        return any(equals(value, one) for one in holder)

    def _truth(self, node: Node) -> bool:
        found = self.value(node)
        if not isinstance(found, bool):
            raise CelError(NO_OVERLOAD)
        return found

    def _not_false(self, node: Node) -> bool:
        try:
            found = self.value(node)
        except CelError:
            found = True
        self._spend(1)
        return not isinstance(found, bool) or found

    def _either(self, node: Invoke, deciding: bool) -> bool:
        """`||` for True, `&&` for False: the first side that has the deciding value decides."""
        failure: CelError | None = None
        for arg in node.args:
            try:
                found = self.value(arg)
                if not isinstance(found, bool):
                    raise CelError(NO_OVERLOAD)
                if found is deciding:
                    return deciding
            except CelError as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return not deciding

    # --- loops ------------------------------------------------------------------------------------

    def _folded(self, node: Fold) -> Any:
        over = self.value(node.over)
        if isinstance(over, Mapping):
            items = list(over.names())
        elif isinstance(over, Listing):
            items = [_item(over, i) for i in range(over.size())]
        else:
            raise CelError(f"got '{type_name(over).name}', expected iterable type")
        outer = self._scope
        scope = {**outer, node.total: self._kept(node.initial)}
        self._scope = scope
        try:
            for item in items:
                scope[node.item] = item
                try:
                    if self.value(node.condition) is False:
                        break
                except CelError:
                    pass
                scope[node.total] = self._kept(node.step)
            if node.item in outer:
                scope[node.item] = outer[node.item]
            return self.value(node.result)
        finally:
            self._scope = outer

    def _kept(self, node: Node) -> Any:
        """The value of a node, or the error instead of it."""
        try:
            return self.value(node)
        except CelError as error:
            return error


def _item(over: Listing, at: int) -> Any:
    try:
        return over.at(at)
    except CelError as error:
        return error


def _shown(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key)


# --- costs ----------------------------------------------------------------------------------------


def _size(value: Any) -> int:
    return size(value) if isinstance(value, str | bytes | Listing | Mapping) else 1


def _up(value: float) -> int:
    return math.ceil(value)


def _cost(name: str, overload: str, args: list[Any], result: Any) -> int:
    """The cost of a call without its arguments."""
    if name in _OF_LISTS:
        return _traversal(args[0])
    if name in _OF_TEXTS:
        return _up(_size(args[0]) * TRAVERSAL)
    if name in ("replace", "split"):
        return _up(_size(args[0]) * 2 * TRAVERSAL)
    if name == "join":
        return _up(_size(result) * 2 * TRAVERSAL)
    if name in ("find", "findAll") or overload == "matches_string":
        return _up((1.0 + _size(args[0])) * TRAVERSAL) * _up(_size(args[1]) * PATTERN)
    if overload in ("startsWith_string", "endsWith_string", "string_to_bytes", "bytes_to_string"):
        return _up(_size(args[0]) * TRAVERSAL)
    if overload == "in_list":
        return _size(args[1])
    if name in ("_==_", "_!=_") or _is_text_relation(overload):
        return _up(min(_size(args[0]), _size(args[1])) * TRAVERSAL)
    if overload in ("add_string", "add_bytes"):
        return _up((_size(args[0]) + _size(args[1])) * TRAVERSAL)
    if overload == "contains_string":
        return _up(_size(args[0]) * TRAVERSAL) * _up(_size(args[1]) * TRAVERSAL)
    return 1


def _is_text_relation(overload: str) -> bool:
    relation, _, kind = overload.rpartition("_")
    return kind in ("string", "bytes") and relation in _BY_SMALLER


def _traversal(value: Any) -> int:
    if isinstance(value, str | bytes):
        data = value.encode(errors="surrogatepass") if isinstance(value, str) else value
        return int(len(data) * TRAVERSAL)
    if isinstance(value, Listing):
        return sum(_traversal(item) for item in value)
    if isinstance(value, Mapping):
        return sum(_traversal(key) + _traversal(value.find(key)[1]) for key in value.names())
    return 1
