"""The grammar of awk: from words to nodes.

Mirrors  POSIX.1-2017 XCU awk: Grammar.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.node.programs.commands.awk.tokens import FUNCTIONS, Token, tokens
from actors.node.programs.commands.tool import Failed

DEPTH_MAX = 80  # of expressions and statements in each other: each takes several calls
COMPARISONS = ("<", "<=", "!=", "==", ">", ">=")
ASSIGNMENTS = ("=", "+=", "-=", "*=", "/=", "%=", "^=")
# Words with which a string that is joined to the one before can begin.
_STARTS = ("number", "string", "ere", "name", "call", "builtin", "$", "!", "(", "-", "+", "++", "--")
_ENDS = (";", "newline", "}", "end")


class Node:
    """A part of a program.

    kind: what it is; parts: what it is made of, nodes and texts
    waits: True if it may wait for input, another program or a function of the program
    """

    __slots__ = ("kind", "parts", "waits")

    def __init__(self, kind: str, *parts: Any, waits: bool = False) -> None:
        self.kind = kind
        self.parts = parts
        self.waits: bool = waits or any(isinstance(part, Node) and part.waits for part in _flat(parts))


def _flat(parts: Any) -> list[Any]:
    return [one for part in parts for one in (part if isinstance(part, tuple) else (part,))]


class Program:
    """A parsed program.

    begin, end: statements; rules: (pattern, its end or None, statement or None), in order
    functions: name -> parameters and statement
    """

    def __init__(self) -> None:
        self.begin: list[Node] = []
        self.end: list[Node] = []
        self.rules: list[tuple[Node | None, Node | None, Node | None]] = []
        self.functions: dict[str, tuple[tuple[str, ...], Node]] = {}


class Parser:
    """Reads a program.  Raises Failed."""

    def __init__(self, text: str) -> None:
        self._tokens = tokens(text)
        self._at = 0
        self._depth = 0
        self.program = Program()

    # --- words ------------------------------------------------------------------------------------

    @property
    def _now(self) -> Token:
        return self._tokens[self._at]

    def _peek(self, ahead: int = 1) -> str:
        at = self._at + ahead
        return self._tokens[at].kind if at < len(self._tokens) else "end"

    def _is(self, *kinds: str) -> bool:
        return self._now.kind in kinds

    def _take(self, *kinds: str) -> Token:
        token = self._now
        if kinds and token.kind not in kinds:
            near = "end of file" if token.kind == "end" else token.text.strip() or "newline"
            raise Failed(f"line {token.line}: syntax error at or near {near}", 2)
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def _took(self, *kinds: str) -> bool:
        result = self._is(*kinds)
        if result:
            self._take()
        return result

    def _skip(self, *kinds: str) -> None:
        while self._is(*(kinds or ("newline",))):
            self._take()

    def _deeper(self, parse: Callable[[], Node]) -> Node:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise Failed(f"line {self._now.line}: nested too deep", 2)
        result = parse()
        self._depth -= 1
        return result

    # --- rules ------------------------------------------------------------------------------------

    def parse(self) -> Program:
        """The whole program."""
        self._skip("newline", ";")
        while not self._is("end"):
            self._item()
            self._skip("newline", ";")
        return self.program

    def _item(self) -> None:
        program = self.program
        if self._is("BEGIN", "END"):
            current = program.begin if self._take().kind == "BEGIN" else program.end
            current.append(self._block())
        elif self._took("function"):
            name = self._take("name", "call").text
            self._take("(")
            names = []
            while not self._is(")"):
                names.append(self._take("name").text)
                if not self._took(","):
                    break
                self._skip()
            self._take(")")
            self._skip()
            program.functions[name] = tuple(names), self._block()
        elif self._is("{"):
            program.rules.append((None, None, self._block()))
        else:
            first, last = self._expression(), None
            if self._took(","):
                self._skip()
                last = self._expression()
            program.rules.append((first, last, self._block() if self._is("{") else None))

    def _block(self) -> Node:
        self._take("{")
        result = []
        self._skip("newline", ";")
        while not self._is("}"):
            result.append(self._deeper(self._statement))
            self._skip("newline", ";")
        self._take("}")
        return Node("block", tuple(result), waits=True)

    # --- statements -------------------------------------------------------------------------------

    def _statement(self) -> Node:
        special = {
            "{": self._block, "if": self._if, "while": self._while, "do": self._do, "for": self._for,
        }.get(self._now.kind)  # fmt: skip
        if special is not None:
            return special()
        result = self._simple()
        if not self._is("}", "end"):
            self._take(";", "newline")
        return result

    def _body(self) -> Node:
        """The statement that belongs to a condition or a loop."""
        if self._took(";"):
            return Node("block", ())
        self._skip()
        return self._deeper(self._statement)

    def _if(self) -> Node:
        self._take()
        condition = self._parenthesis()
        then = self._body()
        mark = self._at
        self._skip("newline", ";")
        if self._took("else"):
            return Node("if", condition, then, self._body(), waits=True)
        self._at = mark
        return Node("if", condition, then, None, waits=True)

    def _parenthesis(self) -> Node:
        self._take("(")
        result = self._expression()
        self._take(")")
        return result

    def _while(self) -> Node:
        self._take()
        return Node("for", None, self._parenthesis(), None, self._body(), waits=True)

    def _do(self) -> Node:
        self._take()
        body = self._body()
        self._skip("newline", ";")
        self._take("while")
        result = Node("do", self._parenthesis(), body, waits=True)
        self._skip(";")
        return result

    def _for(self) -> Node:
        self._take()
        self._take("(")
        if self._is("name") and self._peek() == "in" and self._peek(2) == "name" and self._peek(3) == ")":
            name = self._take().text
            self._take()
            array = self._take().text
            self._take(")")
            return Node("for in", name, array, self._body(), waits=True)
        first = None if self._is(";") else self._simple()
        self._take(";")
        self._skip()
        condition = None if self._is(";") else self._expression()
        self._take(";")
        self._skip()
        step = None if self._is(")") else self._simple()
        self._take(")")
        return Node("for", first, condition, step, self._body(), waits=True)

    def _simple(self) -> Node:
        kind = self._now.kind
        if kind in ("break", "continue", "next", "nextfile"):
            self._take()
            return Node(kind, waits=True)
        if kind in ("exit", "return"):
            self._take()
            return Node(kind, None if self._is(*_ENDS) else self._expression(), waits=True)
        if kind == "delete":
            self._take()
            name = self._take("name").text
            return Node("delete", name, self._subscripts() if self._is("[") else None, waits=True)
        if kind in ("print", "printf"):
            return self._print()
        return Node("do expression", self._expression())

    def _print(self) -> Node:
        kind = self._take().kind
        values: tuple[Node, ...] = ()
        if self._is("("):
            mark = self._at
            self._take()
            values = self._list(")")
            self._take(")")
            if not self._is(*_ENDS, ">", ">>", "|"):
                self._at = mark  # the parentheses belong to an expression
                values = self._list("", no_greater=True)
        elif not self._is(*_ENDS, ">", ">>", "|"):
            values = self._list("", no_greater=True)
        if kind == "printf" and not values:
            self._take("printf without a format")
        mode, target = "", None
        if self._is(">", ">>", "|"):
            mode = self._take().kind
            target = self._concatenation(no_greater=True)
        return Node(kind, values, mode, target, waits=True)

    # --- expressions ------------------------------------------------------------------------------

    def _list(self, end: str, *, no_greater: bool = False) -> tuple[Node, ...]:
        result: list[Node] = []
        while not (end and self._is(end)):
            result.append(self._expression(no_greater=no_greater))
            if not self._took(","):
                break
            self._skip()
        return tuple(result)

    def _expression(self, *, no_greater: bool = False) -> Node:
        return self._deeper(lambda: self._assignment(no_greater))

    def _assignment(self, no_greater: bool) -> Node:
        left = self._conditional(no_greater)
        if self._is(*ASSIGNMENTS) and left.kind in ("name", "field", "element"):
            mark = self._take().kind
            self._skip()
            right = self._expression(no_greater=no_greater)
            return Node("assign", left, right if mark == "=" else Node("binary", mark[:-1], left, right))
        return left

    def _conditional(self, no_greater: bool) -> Node:
        condition = self._binary(0, no_greater)
        if not self._took("?"):
            return condition
        self._skip()
        then = self._expression(no_greater=no_greater)
        self._skip()
        self._take(":")
        self._skip()
        return Node("condition", condition, then, self._expression(no_greater=no_greater))

    def _binary(self, level: int, no_greater: bool) -> Node:
        """||, &&, in, matches and comparisons, by how tight they bind."""
        kinds: tuple[str, ...] = (("||",), ("&&",), ("in",), ("~", "!~"), COMPARISONS)[level]
        if no_greater and ">" in kinds:
            kinds = tuple(one for one in kinds if one != ">")
        left = self._binary(level + 1, no_greater) if level < 4 else self._piped(no_greater)
        while self._is(*kinds):
            mark = self._take().kind
            if mark == "in":
                left = Node("in", (left,), self._take("name").text)
                continue
            self._skip()
            right = self._binary(level + 1, no_greater) if level < 4 else self._piped(no_greater)
            kind = {0: "or", 1: "and", 3: "matches"}.get(level, "compare")
            left = Node(kind, left, right) if level < 2 else Node(kind, mark, left, right)
        return left

    def _piped(self, no_greater: bool) -> Node:
        left = self._concatenation(no_greater=no_greater)
        while self._is("|") and self._peek() == "getline":
            self._take()
            self._take()
            left = Node("getline", "|", left, self._target(), waits=True)
        return left

    def _concatenation(self, *, no_greater: bool = False) -> Node:
        left = self._sum()
        while self._is(*_STARTS) and not self._is("-", "+", "!"):
            left = Node("join", left, self._sum())
        return left

    def _sum(self) -> Node:
        left = self._product()
        while self._is("+", "-"):
            left = Node("binary", self._take().kind, left, self._product())
        return left

    def _product(self) -> Node:
        left = self._unary()
        while self._is("*", "/", "%"):
            left = Node("binary", self._take().kind, left, self._unary())
        return left

    def _unary(self) -> Node:
        if self._is("!", "-", "+"):
            return Node("unary", self._take().kind, self._deeper(self._unary))
        left = self._postfix()
        if self._took("^"):
            return Node("binary", "^", left, self._deeper(self._unary))
        return left

    def _postfix(self) -> Node:
        if self._is("++", "--"):
            mark = self._take().kind
            return Node("step", mark, self._lvalue(), True)
        result = self._primary()
        if self._is("++", "--") and result.kind in ("name", "field", "element"):
            return Node("step", self._take().kind, result, False)
        return result

    def _lvalue(self) -> Node:
        result = self._primary()
        if result.kind not in ("name", "field", "element"):
            self._take("a variable")
        return result

    def _subscripts(self) -> tuple[Node, ...]:
        self._take("[")
        result = self._list("]")
        self._take("]")
        return result

    def _target(self) -> Node | None:
        """The variable of a getline."""
        return self._lvalue() if self._is("name", "$") else None

    def _primary(self) -> Node:
        token = self._take(
            "number", "string", "ere", "name", "call", "builtin", "$", "(", "getline", "-", "+", "!"
        )
        text = token.text
        match token.kind:
            case "number":
                return Node("number", float(int(text, 16)) if text[:2] in ("0x", "0X") else float(text))
            case "string":
                return Node("string", text)
            case "ere":
                return Node("ere", text)
            case "name":
                return Node("element", text, self._subscripts()) if self._is("[") else Node("name", text)
            case "call":
                self._take("(")
                entry = self._list(")")
                self._take(")")
                return Node("call", text, entry, waits=True)
            case "builtin":
                return self._builtin(text)
            case "$":
                if self._is("++", "--"):
                    return Node("field", self._postfix())
                return Node("field", self._deeper(self._primary))
            case "(":
                return self._group()
            case "getline":
                target = self._target()
                if self._took("<"):
                    return Node("getline", "<", self._deeper(self._primary), target, waits=True)
                return Node("getline", "", None, target, waits=True)
        return Node("unary", token.kind, self._deeper(self._unary))

    def _group(self) -> Node:
        result = self._list(")")
        self._take(")")
        if len(result) == 1:
            return Node("group", result[0])
        self._take("in")
        return Node("in", result, self._take("name").text)

    def _builtin(self, name: str) -> Node:
        line, entry = self._now.line, tuple[Node, ...]()
        if self._took("("):
            entry = self._list(")")
            self._take(")")
        elif name != "length":
            self._take("(")
        least, most = FUNCTIONS[name]
        if not least <= len(entry) <= most:
            raise Failed(f"line {line}: wrong number of arguments in call to {name}", 2)
        return Node("builtin", name, entry, waits=name in ("system", "close", "fflush"))
