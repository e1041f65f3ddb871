"""The adapter to the parser of CEL: the only module that knows the library.

The text of a rule becomes a tree of nodes with the macros expanded, or the message of a syntax
error.  The library is `cel-expr-python`, the C++ implementation of CEL.  Its grammar is the one of
the Go implementation, so that syntax errors have the words that upstream's have.  Types, costs and
values follow the schemas of Kubernetes and are not the library's subject: see `checker`, `cost` and
`evaluate`.

Holds: nodes never change; without the library `parse` raises `NoParser`.

Mirrors  cel-go v0.12 parser/{parser,macro}.go; the layout of cel.expr.ParsedExpr (syntax.proto).
Differs  escaped names (`self.`a-b``) and messages of optional values (`[?0]`) are those of the
         library's newer grammar.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from sim.api.crd.cel.messages import located
from sim.patterns import pattern
from sim.remembered import cached

PARSER = "cel-expr-python"
NO_PARSER = f"cannot be compiled: this server runs without {PARSER}; install it"
_HEAD, _TAIL = "INVALID_ARGUMENT: ", " [INVALID_ARGUMENT]"
_NO_PLACE = "ERROR: <input>:4294967295:0: "  # errors that follow from others
_MACRO_ERROR = pattern(
    r"ERROR: <input>:(?P<line>\d+):(?P<column>\d+): (?P<macro>has|all|exists|exists_one|map|filter)\(\) "
    r"(?:argument must be a field selection|variable name must be a simple identifier)\n \| .*\n \| .*"
)
# The older grammar lets only a name follow a dot, and so finds other errors there.
_NO_FIELD = pattern(
    r"ERROR: <input>:(?P<line>\d+):(?P<column>\d+): (?P<said>Syntax error: no viable alternative at input '\..*'"
    r"|unsupported syntax '\.\?')\n \| .*\n \| .*"
)
_TOKEN = pattern(
    r"\s*(?://[^\n]*\s*)*(?P<token>[A-Za-z_][A-Za-z0-9_]*|[0-9][0-9A-Za-z.]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
    r"|&&|\|\||[=!<>]=|.|$)",
    re.DOTALL,
)
# The tokens that may follow a selected field.
_AFTER_A_FIELD = frozenset(
    ["", *re.findall(r"\S+", "in == != < <= > >= && || + - * / % ? : , ) ] } [ ( { .")]
)
# Tokens that only the newer grammar has.
_NEWER = pattern(r", '\\\\u003F'|, '\\u003F'|, ESC_IDENTIFIER")
_TEXT, _INTEGER = 2, 0  # wire types


class NoParser(Exception):
    """The library is not installed."""


class BadSyntax(Exception):
    """The text is not a rule; the message is the one that users see."""


class Uint(int):
    """An unsigned integer, which is a type of its own in CEL."""


class Node:
    """A part of an expression. number: what the positions of the source are kept by."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class Const(Node):
    """A literal: None, a bool, int, Uint, float, str or bytes."""

    __slots__ = ("value",)

    def __init__(self, number: int, value: Any) -> None:
        super().__init__(number)
        self.value = value


class Ident(Node):
    """A name."""

    __slots__ = ("name",)

    def __init__(self, number: int, name: str) -> None:
        super().__init__(number)
        self.name = name


class Select(Node):
    """A field of an operand, or (`has`) the question whether it is there."""

    __slots__ = ("field", "has", "operand")

    def __init__(self, number: int, operand: Node, field: str, has: bool) -> None:
        super().__init__(number)
        self.operand, self.field, self.has = operand, field, has


class Invoke(Node):
    """A call of a function or operator, with a target if it is written as a method."""

    __slots__ = ("args", "function", "target")

    def __init__(self, number: int, target: Node | None, function: str, args: tuple[Node, ...]) -> None:
        super().__init__(number)
        self.target, self.function, self.args = target, function, args


class ListOf(Node):
    """A list literal."""

    __slots__ = ("items",)

    def __init__(self, number: int, items: tuple[Node, ...]) -> None:
        super().__init__(number)
        self.items = items


class MapOf(Node):
    """A map literal, or (with a name) a literal of a message type, which has no keys but fields."""

    __slots__ = ("entries", "name")

    def __init__(self, number: int, name: str, entries: tuple[tuple[Node | str, Node], ...]) -> None:
        super().__init__(number)
        self.name, self.entries = name, entries


class Fold(Node):
    """A loop, which a macro such as `all` stands for."""

    __slots__ = ("condition", "initial", "item", "over", "result", "step", "total")

    def __init__(self, number: int, item: str, over: Node, total: str, parts: tuple[Node, ...]) -> None:
        super().__init__(number)
        self.item, self.over, self.total = item, over, total
        self.initial, self.condition, self.step, self.result = parts


class Parsed(NamedTuple):
    """A rule. offsets: the place of each node in the text, by number, in characters."""

    text: str
    root: Node
    offsets: dict[int, int]


@cached(1024)
def parse(text: str) -> Parsed:
    """The tree of a rule.  Raises BadSyntax and NoParser."""
    environment = _environment()
    try:
        data = environment.compile(text, disable_check=True).serialize()
    except RuntimeError as error:
        raise BadSyntax(_message(text, str(error))) from None
    whole = _fields(_fields(data)[2][-1])  # an Any that holds a ParsedExpr
    offsets = {}
    for entry in _fields(whole[3][0]).get(4, ()):
        pair = _fields(entry)
        offsets[pair[1][0]] = pair[2][0] if 2 in pair else 0
    return Parsed(text, _node(whole[2][0]), offsets)


_made: list[Any] = []


def _environment() -> Any:
    if not _made:
        try:
            from cel_expr_python import cel
        except ImportError:
            raise NoParser from None
        _made.append(cel.NewEnv())
    return _made[0]


def _message(text: str, said: str) -> str:
    found = said.removeprefix(_HEAD).removesuffix(_TAIL).partition(f"\n{_NO_PLACE}")[0]
    found = _NEWER.sub("", found)
    found = _NO_FIELD.sub(lambda match: _no_field(text, match), found)
    return _MACRO_ERROR.sub(lambda match: _macro_error(text, match), found)


def _no_field(text: str, match: re.Match[str]) -> str:
    """The error of what follows a dot in place of a name (ANTLR's DefaultErrorStrategy: a token too
    many or too few is left out or added in thought).
    """
    line, column = int(match["line"]), int(match["column"]) - 1
    at = sum(len(one) + 1 for one in text.split("\n")[: line - 1]) + column
    if match["said"].startswith("unsupported"):
        at = text.find(".?", at) + 1
        if not at:
            return match[0]
        line = text.count("\n", 0, at) + 1
        column = at - (text.rfind("\n", 0, at) + 1)
    token = _TOKEN.match(text, at)
    assert token is not None
    after = _TOKEN.match(text, token.end())
    given = f"'{token['token'] or '<EOF>'}'"
    if after is not None and (after["token"][:1].isalpha() or after["token"][:1] == "_"):
        said = f"extraneous input {given} expecting IDENTIFIER"
    elif token["token"] in _AFTER_A_FIELD:
        said = f"missing IDENTIFIER at {given}"
    else:
        said = f"mismatched input {given} expecting IDENTIFIER"
    return located(text, line, column, f"Syntax error: {said}")


def _macro_error(text: str, match: re.Match[str]) -> str:
    """An error of a macro in the words and at the place of the Go implementation."""
    macro, line = match["macro"], int(match["line"])
    column = int(match["column"]) - 1
    if macro in ("has", "map", "filter"):
        before = text.split("\n")[line - 1][: column + 1]
        column = max(before.rfind("(", max(0, before.rfind(macro))), 0)
    said = {"has": "invalid argument to has() macro"}.get(macro, "argument must be a simple name")
    return located(
        text, line, column, "argument is not an identifier" if macro in ("map", "filter") else said
    )


# --- the binary form ------------------------------------------------------------------------------


def _fields(data: bytes) -> dict[int, list[Any]]:
    """The fields of a message by number, each with all its values: int, or bytes."""
    found: dict[int, list[Any]] = {}
    for number, value in _read(data):
        found.setdefault(number, []).append(value)
    return found


def _read(data: bytes) -> Iterator[tuple[int, Any]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        value: Any
        if kind == _INTEGER:
            value, at = _varint(data, at)
        elif kind == _TEXT:
            size, at = _varint(data, at)
            value, at = data[at : at + size], at + size
        else:
            width = 8 if kind == 1 else 4
            value, at = data[at : at + width], at + width
        yield tag >> 3, value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _one(message: dict[int, list[Any]], number: int) -> bytes:
    found: bytes = message.get(number, [b""])[0]
    return found


def _text(message: dict[int, list[Any]], number: int) -> str:
    return _one(message, number).decode()


def _node(data: bytes) -> Node:
    message = _fields(data)
    number: int = message.get(2, [0])[0]
    if 3 in message:
        return Const(number, _constant(message[3][0]))
    if 4 in message:
        return Ident(number, _text(_fields(message[4][0]), 1))
    if 5 in message:
        part = _fields(message[5][0])
        return Select(number, _node(_one(part, 1)), _text(part, 2), 3 in part)
    if 6 in message:
        part = _fields(message[6][0])
        target = _node(part[1][0]) if 1 in part else None
        return Invoke(number, target, _text(part, 2), tuple(map(_node, part.get(3, ()))))
    if 7 in message:
        return ListOf(number, tuple(map(_node, _fields(message[7][0]).get(1, ()))))
    if 8 in message:
        part = _fields(message[8][0])
        return MapOf(number, _text(part, 1), tuple(map(_entry, part.get(2, ()))))
    part = _fields(message[9][0])
    parts = tuple(_node(_one(part, field)) for field in (4, 5, 6, 7))
    return Fold(number, _text(part, 1), _node(_one(part, 2)), _text(part, 3), parts)


def _entry(data: bytes) -> tuple[Node | str, Node]:
    part = _fields(data)
    key: Node | str = _node(part[3][0]) if 3 in part else _text(part, 2)
    return key, _node(_one(part, 4))


def _constant(data: bytes) -> Any:
    [(number, value)] = _read(data)
    if number == 1:
        return None
    if number == 2:
        return bool(value)
    if number == 3:
        return value - (1 << 64) if value >= 1 << 63 else value
    if number == 4:
        return Uint(value)
    if number == 5:
        return struct.unpack("<d", value)[0]
    return value.decode() if number == 6 else value
