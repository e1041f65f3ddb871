"""Type checking: the types of the parts of a rule, and the overloads that its calls may mean.

Turns a parsed rule and the declared types of its variables into `Checked`, or raises `Mistyped`
with the messages that users see.

Mirrors  cel-go v0.12 checker/{checker,env}.go, common/errors.go.
Differs  a literal of a message type is refused under any name, for rules know no type that could be
         written so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from sim.api.crd.cel.declarations import FUNCTIONS, TYPE_NAMES, Overload
from sim.api.crd.cel.messages import located, place_of
from sim.api.crd.cel.syntax import Const, Fold, Ident, Invoke, ListOf, MapOf, Node, Parsed, Select, Uint
from sim.api.crd.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    ERROR,
    INT,
    NONE,
    NULL,
    STRING,
    UINT,
    Bound,
    Type,
    is_dyn_or_error,
    list_of,
    map_of,
    most_general,
    proto_text,
    signature,
    text_of,
)

ERRORS_MAX = 100
Fields = Callable[[str, str], Type | None]  # the type of a field, by its object's type and its name


class Mistyped(Exception):
    """The rule has errors of types; the message lists them."""


class Checked(NamedTuple):
    """A rule with types and overloads by the numbers of its nodes.

    names: the variables it uses
    """

    parsed: Parsed
    types: dict[int, Type]
    overloads: dict[int, tuple[str, ...]]
    names: frozenset[str]

    @property
    def result(self) -> Type:
        """The type of the whole rule."""
        return self.types[self.parsed.root.number]


def check(parsed: Parsed, variables: Mapping[str, Type], fields: Fields) -> Checked:
    """Check a rule.  Raises Mistyped."""
    walk = _Walk(parsed, variables, fields)
    walk.visit(parsed.root)
    if walk.errors:
        raise Mistyped(_listed(parsed.text, walk.errors))
    types = {number: walk.bound.replaced(kind, free_is_dyn=True) for number, kind in walk.types.items()}
    return Checked(parsed, types, walk.overloads, frozenset(walk.names))


_LITERALS: dict[type, Type] = {
    type(None): NULL,
    bool: BOOL,
    int: INT,
    Uint: UINT,
    float: DOUBLE,
    str: STRING,
    bytes: BYTES,
}


class _Walk:
    def __init__(self, parsed: Parsed, variables: Mapping[str, Type], fields: Fields) -> None:
        self.types: dict[int, Type] = {}
        self.overloads: dict[int, tuple[str, ...]] = {}
        self.names: dict[str, None] = {}
        self.errors: list[tuple[int, str]] = []
        self.bound = Bound()
        self._text = parsed.text
        self._offsets = parsed.offsets
        self._scopes: list[Mapping[str, Type]] = [TYPE_NAMES, variables]
        self._fields = fields

    def visit(self, node: Node) -> None:
        """Find the type of a node and of those in it."""
        if isinstance(node, Const):
            self._set(node, _LITERALS[type(node.value)])
        elif isinstance(node, Ident):
            self._ident(node)
        elif isinstance(node, Select):
            self._select(node)
        elif isinstance(node, Invoke):
            self._invoke(node)
        elif isinstance(node, ListOf):
            self._list(node)
        elif isinstance(node, MapOf):
            self._map(node)
        elif isinstance(node, Fold):
            self._fold(node)

    def _set(self, node: Node, kind: Type) -> None:
        self.types[node.number] = kind

    def _of(self, node: Node) -> Type:
        return self.types.get(node.number, NONE)

    def _error(self, node: Node, text: str) -> None:
        self.errors.append((self._offsets.get(node.number, -1), text))

    def _undeclared(self, node: Node, name: str) -> None:
        self._error(node, f"undeclared reference to '{name}' (in container '')")

    def _found(self, name: str) -> Type | None:
        for scope in reversed(self._scopes):
            if (kind := scope.get(name.removeprefix("."))) is not None:
                return kind
        return None

    # --- names and fields -------------------------------------------------------------------------

    def _ident(self, node: Ident) -> None:
        kind = self._found(node.name)
        if kind is None:
            self._undeclared(node, node.name)
            kind = ERROR
        else:
            self.names[node.name] = None
        self._set(node, kind)

    def _select(self, node: Select) -> None:
        whole = qualified(node)
        if whole in TYPE_NAMES:
            self._set(node, TYPE_NAMES[whole])
            return
        self.visit(node.operand)
        kind = self.bound.replaced(self._of(node.operand))
        found = ERROR
        if kind.kind == "map":
            found = kind.args[1]
        elif kind.kind == "object":
            field = self._fields(kind.name, node.field)
            if field is None:
                self._error(node, f"undefined field '{node.field}'")
            else:
                found = field
        elif kind.kind == "param":
            self.bound.accepts((DYN,), (kind,))
            found = DYN
        elif is_dyn_or_error(kind):
            found = DYN
        else:
            self._error(node, f"type '{proto_text(kind)}' does not support field selection")
        self._set(node, BOOL if node.has else self.bound.replaced(found))

    # --- calls ------------------------------------------------------------------------------------

    def _invoke(self, node: Invoke) -> None:
        for arg in node.args:
            self.visit(arg)
        if node.target is not None:
            self.visit(node.target)
        forms = FUNCTIONS.get(node.function)
        if forms is None:
            self._undeclared(node, node.function)
            if node.target is None:
                self._set(node, ERROR)
            return
        given = [self._of(part) for part in (node.target, *node.args) if part is not None]
        method = node.target is not None
        fitting = [
            (form.name, result)
            for form in forms
            if form.method == method and (result := self._result(form, given)) is not None
        ]
        if not fitting:
            said = signature(given, method)
            self._error(node, f"found no matching overload for '{node.function}' applied to '{said}'")
            self._set(node, ERROR)
            return
        results = dict.fromkeys(result for _, result in fitting)
        self._set(node, DYN if len(results) > 1 else fitting[0][1])
        self.overloads[node.number] = tuple(name for name, _ in fitting)

    def _result(self, form: Overload, given: list[Type]) -> Type | None:
        """The type of a call by one overload; None if the arguments do not fit it."""
        params, result = list(form.params), form.result
        if form.generic:
            fresh = Bound({name: self.bound.fresh() for name in ("A", "B")})
            params, result = [fresh.replaced(kind) for kind in params], fresh.replaced(result)
        return self.bound.replaced(result) if self.bound.accepts(given, params) else None

    # --- literals and loops -----------------------------------------------------------------------

    def _joined(self, node: Node, before: Type | None) -> Type:
        """The common type of the elements of a literal up to this one."""
        kind = self._of(node)
        if before is None:
            return kind
        if self.bound.accepts((before,), (kind,)):
            return most_general(before, kind)
        self._mismatch(node, before, kind)
        return ERROR

    def _mismatch(self, node: Node, wanted: Type, given: Type) -> None:
        self._error(node, f"expected type '{text_of(wanted)}' but found '{text_of(given)}'")

    def _list(self, node: ListOf) -> None:
        kind: Type | None = None
        for item in node.items:
            self.visit(item)
            kind = self._joined(item, kind)
        self._set(node, list_of(kind or self.bound.fresh()))

    def _map(self, node: MapOf) -> None:
        if node.name:
            # The place of such a literal is its brace.
            start = self._offsets.get(node.number, 0)
            brace = self._text.find("{", start)
            said = f"undeclared reference to '{node.name}' (in container '')"
            self.errors.append((max(start, brace), said))
            return
        key_type: Type | None = None
        value_type: Type | None = None
        for key, value in node.entries:
            assert isinstance(key, Node)
            self.visit(key)
            key_type = self._joined(key, key_type)
            self.visit(value)
            value_type = self._joined(value, value_type)
        self._set(node, map_of(key_type or self.bound.fresh(), value_type or self.bound.fresh()))

    def _fold(self, node: Fold) -> None:
        self.visit(node.over)
        self.visit(node.initial)
        total, over = self._of(node.initial), self.bound.replaced(self._of(node.over))
        item = DYN
        if over.kind in ("list", "map"):
            item = over.args[0]
        elif over.kind in ("dyn", "error", "param"):
            self.bound.accepts((DYN,), (over,))
        else:
            what = "cannot be range of a comprehension (must be list, map, or dynamic)"
            self._error(node.over, f"expression of type '{text_of(over)}' {what}")
            item = ERROR
        self._scopes.append({node.total: total})
        self._scopes.append({node.item: item})
        self.visit(node.condition)
        self._needs(node.condition, BOOL)
        self.visit(node.step)
        self._needs(node.step, total)
        self._scopes.pop()
        self.visit(node.result)
        self._scopes.pop()
        self._set(node, self.bound.replaced(self._of(node.result)))

    def _needs(self, node: Node, wanted: Type) -> None:
        if not self.bound.accepts((wanted,), (self._of(node),)):
            self._mismatch(node, wanted, self._of(node))


def qualified(node: Node) -> str:
    """A chain of selections from a name as one dotted name; "" if the node is something else."""
    if isinstance(node, Ident):
        return node.name
    if isinstance(node, Select) and not node.has:
        before = qualified(node.operand)
        return f"{before}.{node.field}" if before else ""
    return ""


def _listed(text: str, errors: list[tuple[int, str]]) -> str:
    placed = [(*place_of(text, offset), said) for offset, said in errors[:ERRORS_MAX]]
    placed.sort(key=lambda one: one[:2])
    lines = [located(text, *one) for one in placed]
    if len(errors) > ERRORS_MAX:
        lines.append(f"{len(errors) - ERRORS_MAX} more errors were truncated")
    return "\n".join(lines)
