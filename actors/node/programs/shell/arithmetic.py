"""Integer expressions of `$(( ))`, `(( ))` and `let`.

Holds: numbers have 64 bits and wrap around; an expression is at most `DEPTH_MAX` deep.
Mirrors  C's operators and their precedence; bash adds `**`, `base#digits` and elements of arrays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from sim.patterns import pattern

DEPTH_MAX = 40  # parentheses, and variables that hold expressions
_TOKEN = pattern(
    r"\s*(?:(\d+#[0-9A-Za-z@_]+|0[xX][0-9A-Fa-f]+|\d+)|([A-Za-z_][A-Za-z0-9_]*)"
    r"|(<<=|>>=|\*\*|\+\+|--|&&|\|\||<<|>>|<=|>=|==|!=|[-+*/%&^|]=|[-+*/%&^|~!<>=?:,()\[\]]))"
)
_LEVELS = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7, "<<": 8, ">>": 8,
    "+": 9, "-": 9, "*": 10, "/": 10, "%": 10, "**": 11,
}  # fmt: skip
_ASSIGNING = frozenset(("=", "+=", "-=", "*=", "/=", "%=", "<<=", ">>=", "&=", "^=", "|="))


class Wrong(Exception):
    """An expression that has no value; the text says why."""


class Variables(ABC):
    """The variables of a shell."""

    @abstractmethod
    def number_text(self, name: str, index: int | None) -> str:
        """The value of a variable, "" if it has none."""

    @abstractmethod
    def set_number(self, name: str, index: int | None, value: int) -> None:
        """Assign."""


def wrap(value: int) -> int:
    """The number with 64 bits."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def number(text: str) -> int:
    """A constant.  Raises Wrong."""
    try:
        if "#" in text:
            base, digits = text.split("#", 1)
            return wrap(int(digits, int(base)))
        if text[:2] in ("0x", "0X"):
            return wrap(int(text, 16))
        if len(text) > 40:
            raise Wrong(f"{text[:40]}...: number too long")
        return wrap(int(text, 8 if text[0] == "0" else 10))
    except ValueError:
        raise Wrong(f"{text}: value too great for base") from None


def evaluate(text: str, variables: Variables, depth: int = 0) -> int:
    """The value of an expression; 0 if there is nothing.  Raises Wrong."""
    if depth > DEPTH_MAX:
        raise Wrong("expression recursion level exceeded")
    return _Expression(text, variables, depth).value()


class _Expression:
    """An expression under evaluation.  skipped: how many branches around are not taken"""

    def __init__(self, text: str, variables: Variables, depth: int) -> None:
        self.variables = variables
        self.depth = depth
        self.skipped = 0
        self.at = 0
        self.tokens: list[str] = []
        at, text = 0, text.rstrip()
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise Wrong(f"{text.strip()}: syntax error: operand expected")
            self.tokens.append(found[1] or found[2] or found[3])
            at = found.end()
        self.text = text.strip()

    def value(self) -> int:
        """The value of all of it."""
        if not self.tokens:
            return 0
        value = self._comma()
        if self.at < len(self.tokens):
            raise self._wrong()
        return value

    def _wrong(self) -> Wrong:
        return Wrong(f"{self.text}: arithmetic syntax error")

    def _peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def _take(self, token: str) -> bool:
        if self._peek() != token:
            return False
        self.at += 1
        return True

    def _expect(self, token: str) -> None:
        if not self._take(token):
            raise self._wrong()

    def _comma(self) -> int:
        value = self._assignment()
        while self._take(","):
            value = self._assignment()
        return value

    def _assignment(self) -> int:
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise Wrong("expression recursion level exceeded")
        try:
            start = self.at
            if self._peek()[:1].isalpha() or self._peek()[:1] == "_":
                name, index = self._name()
                op = self._peek()
                if op in _ASSIGNING:
                    self.at += 1
                    value = self._assignment()
                    if op != "=":
                        value = self._apply(op[:-1], self._read(name, index), value)
                    self._write(name, index, value)
                    return value
                self.at = start
            return self._choice()
        finally:
            self.depth -= 1

    def _choice(self) -> int:
        value = self._binary(1)
        if not self._take("?"):
            return value
        self.skipped += not value
        yes = self._comma()
        self.skipped -= not value
        self._expect(":")
        self.skipped += bool(value)
        no = self._assignment()
        self.skipped -= bool(value)
        return yes if value else no

    def _binary(self, level: int) -> int:
        left = self._unary()
        while (of := _LEVELS.get(self._peek(), 0)) >= level:
            op = self.tokens[self.at]
            self.at += 1
            idle = (op == "&&" and not left) or (op == "||" and bool(left))
            self.skipped += idle
            right = self._binary(of if op == "**" else of + 1)
            self.skipped -= idle
            left = self._apply(op, left, right)
        return left

    def _apply(self, op: str, left: int, right: int) -> int:
        if op in ("/", "%"):
            if not right:
                if self.skipped:
                    return 0
                raise Wrong("division by 0")
            quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
            return wrap(quotient if op == "/" else left - quotient * right)
        if op == "**":
            if right < 0:
                raise Wrong("exponent less than 0")
            return wrap(pow(left, right, 1 << 64))
        return wrap(int(_OPERATIONS[op](left, right)))

    def _unary(self) -> int:
        signs: list[str] = []
        while (token := self._peek()) in ("+", "-", "!", "~", "++", "--"):
            self.at += 1
            following = self._peek()[:1]
            if len(token) == 2 and (following.isalpha() or following == "_"):
                name, index = self._name()
                value = wrap(self._read(name, index) + (1 if token == "++" else -1))
                self._write(name, index, value)
                break
            signs += token  # `--1` is twice a minus
        else:
            value = self._primary()
        for sign in reversed(signs):
            value = {"+": value, "-": wrap(-value), "!": int(not value), "~": ~value}[sign]
        return value

    def _primary(self) -> int:
        token = self._peek()
        if token == "(":
            self.at += 1
            self.depth += 1
            value = self._comma()
            self.depth -= 1
            self._expect(")")
            return value
        if token[:1].isdigit():
            self.at += 1
            return number(token)
        if not token[:1].isalpha() and token[:1] != "_":
            raise self._wrong()
        name, index = self._name()
        value = self._read(name, index)
        following = self._peek()
        if following in ("++", "--"):
            self.at += 1
            self._write(name, index, wrap(value + (1 if following == "++" else -1)))
        return value

    def _name(self) -> tuple[str, int | None]:
        name = self.tokens[self.at]
        self.at += 1
        if not self._take("["):
            return name, None
        index = self._comma()
        self._expect("]")
        return name, index

    def _read(self, name: str, index: int | None) -> int:
        if self.skipped:
            return 0
        return evaluate(self.variables.number_text(name, index), self.variables, self.depth + 1)

    def _write(self, name: str, index: int | None, value: int) -> None:
        if not self.skipped:
            self.variables.set_number(name, index, value)


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "||": lambda a, b: bool(a) or bool(b),
    "&&": lambda a, b: bool(a) and bool(b),
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "&": lambda a, b: a & b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
    "<<": lambda a, b: a << (b & 63),
    ">>": lambda a, b: a >> (b & 63),
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
}
