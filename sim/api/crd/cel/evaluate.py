"""The evaluation of a checked rule, and what it costs.

Turns a rule and the values of `self` and `oldSelf` into the result of the rule and the cost units
that it took.

Holds: no evaluation takes more than `COST_MAX` units; literals of constants, and conversions of
constants, are made beforehand and cost nothing.

Mirrors  cel-go v0.12 interpreter/{planner,decorators,runtimecost}.go; apiextensions-apiserver v1.25
         pkg/apiserver/schema/cel/compilation.go.
Differs  an evaluation that is cancelled has always taken one unit more than it may.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sim.api.crd.cel.checker import Checked, qualified
from sim.api.crd.cel.declarations import CONVERSIONS, TYPE_NAMES
from sim.api.crd.cel.functions import IMPLEMENTED
from sim.api.crd.cel.plan import NO_CONSTANT, Plan, TooCostly
from sim.api.crd.cel.syntax import Const, Fold, Ident, Invoke, ListOf, MapOf, Node, Select
from sim.api.crd.cel.values import CelError, Crash, Literal, LiteralMap, TypeName
from sim.api.crd.regexes import BadPattern, compile_pattern

COST_MAX = 1_000_000  # of one evaluation: PerCallLimit
TOO_COSTLY = "operation cancelled: actual cost limit exceeded"
_PATTERNS = ("matches", "find", "findAll")


class BadProgram(Exception):
    """The rule is well-typed, but a constant in it is wrong; the message is the one users see."""


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
        self._plan = Plan(checked, self.constants)

    def run(self, self_value: Any, old_value: Any = NO_CONSTANT) -> Outcome:
        """Evaluate the rule. old_value: left away if there is no value from before."""
        frame = self._plan.frame(COST_MAX, self_value, old_value)
        found, failure = None, ""
        try:
            found = self._plan.run(frame)
        except (CelError, Crash) as error:
            failure = str(error)
        except TooCostly:
            pass
        cost = self._plan.cost(frame)
        return Outcome(None, TOO_COSTLY, COST_MAX + 1) if cost > COST_MAX else Outcome(found, failure, cost)

    def _fold_constants(self, node: Node) -> Any:
        """The value of a constant node; `NO_CONSTANT` for others."""
        found: Any = NO_CONSTANT
        if isinstance(node, Const):
            found = node.value
        elif isinstance(node, Ident | Select) and self._checked.types[node.number].kind == "type":
            name = qualified(node)
            if name in TYPE_NAMES:
                found = TypeName(name)
        if isinstance(node, Select) and found is NO_CONSTANT:
            self._fold_constants(node.operand)
        elif isinstance(node, ListOf):
            items = [self._fold_constants(item) for item in node.items]
            if NO_CONSTANT not in items:
                found = Literal(items)
        elif isinstance(node, MapOf):
            found = self._constant_map(node)
        elif isinstance(node, Invoke):
            found = self._constant_call(node)
        elif isinstance(node, Fold):
            for part in (node.over, node.initial, node.condition, node.step, node.result):
                self._fold_constants(part)
        if found is not NO_CONSTANT:
            self.constants[node.number] = found
        return found

    def _constant_map(self, node: MapOf) -> Any:
        entries = []
        for key, value in node.entries:
            assert isinstance(key, Node)
            entries.append((self._fold_constants(key), self._fold_constants(value)))
        if any(part is NO_CONSTANT for entry in entries for part in entry):
            return NO_CONSTANT
        return LiteralMap(entries)

    def _constant_call(self, node: Invoke) -> Any:
        if node.target is not None:
            self._fold_constants(node.target)
        args = [self._fold_constants(arg) for arg in node.args]
        if node.function in CONVERSIONS and len(args) == 1 and args[0] is not NO_CONSTANT:
            try:
                return IMPLEMENTED[node.function](args[0])
            except CelError as error:
                raise BadProgram(str(error)) from None
        if node.function in _PATTERNS and args and isinstance(args[0], str):
            try:
                compile_pattern(args[0])
            except BadPattern as error:
                raise BadProgram(f"error parsing regexp: {error}") from None
        return NO_CONSTANT
