"""Commands that compare: test, [ and expr.

Mirrors  POSIX.1-2017 XCU test, expr.
"""

from __future__ import annotations

from actors.node.programs import conditions
from actors.node.programs.commands.patterns import Pattern
from actors.node.programs.commands.tool import Failed, Tool, Usage, to_bytes, to_text
from actors.node.programs.waits import Main
from sim.patterns import pattern

_WHOLE = pattern(r"\s*([+-]?\d+)\s*")
DEPTH_MAX = 100  # of parentheses


def test(tool: Tool) -> Main:
    """Compare words and files: test EXPRESSION, [ EXPRESSION ]."""
    words = list(tool.args)
    if tool.name in ("[", "[["):
        if words[-1:] != ["]" if tool.name == "[" else "]]"]:
            yield from tool.complain("missing ]" if tool.busybox else "missing ']'")
            return 2
        words.pop()
    try:
        return int(not conditions.test(conditions.Judge(tool.process, tool.dialect), words))
    except conditions.Wrong as wrong:
        yield from tool.complain(str(wrong))
        return 2


_LEVELS = (("|",), ("&",), ("<", "<=", "=", "==", "!=", ">=", ">"), ("+", "-"), ("*", "/", "%"), (":",))


class _Arithmetic:
    """The expression of `expr`."""

    def __init__(self, words: list[str]) -> None:
        self.words = words
        self.at = 0

    def level(self, at: int, depth: int) -> str:
        if depth > DEPTH_MAX:
            raise Failed("syntax error", 2)
        if at == len(_LEVELS):
            return self.atom(depth)
        value = self.level(at + 1, depth)
        while self.words[self.at : self.at + 1] and self.words[self.at] in _LEVELS[at]:
            sign = self.words[self.at]
            self.at += 1
            value = _calculated(value, sign, self.level(at + 1, depth))
        return value

    def take(self) -> str:
        if self.at >= len(self.words):
            raise Failed("syntax error", 2)
        self.at += 1
        return self.words[self.at - 1]

    def atom(self, depth: int) -> str:
        word = self.take()
        if word == "(":
            value = self.level(0, depth + 1)
            if self.take() != ")":
                raise Failed("syntax error", 2)
            return value
        if word == "length":
            return str(len(to_bytes(self.take())))
        if word == "match":
            return _calculated(self.take(), ":", self.take())
        if word == "substr":
            text, start, size = self.take(), _int(self.take()), _int(self.take())
            return text[start - 1 : start - 1 + size] if start > 0 and size > 0 else ""
        if word == "index":
            text, letters = self.take(), self.take()
            return str(next((at for at, letter in enumerate(text, 1) if letter in letters), 0))
        return self.take() if word == "+" else word


def _int(text: str) -> int:
    match = _WHOLE.fullmatch(text)
    if match is None or len(text) > 400:
        raise ValueError(text)
    return int(match[1])


def _calculated(left: str, sign: str, right: str) -> str:
    if sign == "|":
        return left if left not in ("", "0") else right or "0"
    if sign == "&":
        return left if left not in ("", "0") and right not in ("", "0") else "0"
    if sign == ":":
        found = Pattern(to_bytes(right)).match(to_bytes(left))
        if found is None:
            return "" if r"\(" in right else "0"
        return to_text(found[1] or b"") if found.groups > 0 else str(len(found[0] or b""))
    if sign in _LEVELS[2]:
        one, other = _WHOLE.fullmatch(left), _WHOLE.fullmatch(right)
        pair = (int(one[1]), int(other[1])) if one and other else (left, right)
        smaller, equal = pair[0] < pair[1], pair[0] == pair[1]  # type: ignore[operator]
        return str(int({
            "<": smaller, "<=": smaller or equal, "=": equal, "==": equal, "!=": not equal,
            ">=": not smaller, ">": not smaller and not equal,
        }[sign]))  # fmt: skip
    a, b = _int(left), _int(right)
    if sign in "/%":
        if not b:
            raise Failed("division by zero", 2)
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return str(quotient if sign == "/" else a - quotient * b)
    return str(a + b if sign == "+" else a - b if sign == "-" else a * b)


def expr(tool: Tool) -> Main:
    """Evaluate an expression of words."""
    words = list(tool.args)
    if not words:
        raise Failed("too few arguments", 2) if tool.busybox else Usage("missing operand", 2)
    parser = _Arithmetic(words)
    try:
        value = parser.level(0, 0)
    except ValueError:
        raise Failed("non-numeric argument" if tool.busybox else "non-integer argument", 2) from None
    if parser.at < len(words):
        raise Failed(
            "syntax error" if tool.busybox else f"syntax error: unexpected argument '{words[parser.at]}'", 2
        )
    yield from tool.write(value + "\n")
    return 1 if value in ("", "0") else 0


COMMANDS = {"[": test, "[[": test, "expr": expr, "test": test}
