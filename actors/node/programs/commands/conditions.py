"""Commands that compare: test, [ and expr.

Mirrors  POSIX.1-2017 XCU test: the meaning of up to four arguments; dash's precedence of -a and -o.
"""

from __future__ import annotations

from collections.abc import Sequence

from actors.node.programs.commands.patterns import Pattern
from actors.node.programs.commands.tool import Failed, Tool, Usage, to_bytes, to_text
from actors.node.programs.files.errors import FileError
from actors.node.programs.files.inodes import SETGID, SETUID, STICKY
from actors.node.programs.process import Process
from actors.node.programs.waits import Main
from sim.patterns import pattern

_WHOLE = pattern(r"\s*([+-]?\d+)\s*")
_COMPARED = {"-eq": "==", "-ne": "!=", "-lt": "<", "-le": "<=", "-gt": ">", "-ge": ">="}
_BINARY = (*_COMPARED, "=", "==", "!=", "<", ">", "-nt", "-ot", "-ef")
_KINDS = {"f": "-", "d": "d", "h": "l", "L": "l", "c": "c", "b": "b", "p": "p", "S": "s"}
_UNARY = ("e", "s", "r", "w", "x", "n", "z", "t", "u", "g", "k", "O", "G", *_KINDS)
DEPTH_MAX = 100  # of parentheses and negations


class Wrong(Exception):
    """An expression that means nothing.  text: what `test` prints"""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def holds(process: Process, words: Sequence[str]) -> bool:
    """The value of an expression of `test`.  Raises Wrong."""
    if not words:
        return False
    parser = _Expression(process, list(words))
    value = parser.either(0)
    if parser.at < len(words):
        raise Wrong(f"{words[parser.at]}: unexpected operator")
    return value


class _Expression:
    def __init__(self, process: Process, words: list[str]) -> None:
        self.process = process
        self.words = words
        self.at = 0

    def either(self, depth: int) -> bool:
        value = self.both(depth)
        while self.words[self.at : self.at + 1] == ["-o"]:
            self.at += 1
            value = self.both(depth) or value
        return value

    def both(self, depth: int) -> bool:
        value = self.single(depth)
        while self.words[self.at : self.at + 1] == ["-a"]:
            self.at += 1
            value = self.single(depth) and value
        return value

    def single(self, depth: int) -> bool:
        if depth > DEPTH_MAX:
            raise Wrong("too many arguments")
        rest = self.words[self.at :]
        if not rest:
            raise Wrong("argument expected")
        if len(rest) >= 3 and rest[1] in _BINARY:
            self.at += 3
            return self._compare(rest[0], rest[1], rest[2])
        if rest[0] == "!" and len(rest) > 1:
            self.at += 1
            return not self.single(depth + 1)
        if rest[0] == "(" and len(rest) > 1:
            self.at += 1
            value = self.either(depth + 1)
            if self.words[self.at : self.at + 1] != [")"]:
                raise Wrong("closing paren expected")
            self.at += 1
            return value
        if len(rest) > 1 and len(rest[0]) == 2 and rest[0][0] == "-" and rest[0][1] in _UNARY:
            self.at += 2
            return self._file(rest[0][1], rest[1])
        self.at += 1
        return bool(rest[0])

    def _compare(self, left: str, sign: str, right: str) -> bool:
        if sign in _COMPARED:
            one, other = self._whole(left), self._whole(right)
            return {
                "-eq": one == other, "-ne": one != other, "-lt": one < other, "-le": one <= other,
                "-gt": one > other, "-ge": one >= other,
            }[sign]  # fmt: skip
        if sign in ("=", "=="):
            return left == right
        if sign in ("!=", "<", ">"):
            return {"!=": left != right, "<": left < right, ">": left > right}[sign]
        files = self.process.container.files
        found = []
        for path in (left, right):
            try:
                found.append(files.lookup(path, self.process))
            except FileError:
                found.append(None)
        if sign == "-ef":
            return found[0] is not None and found[0] is found[1]
        one, other = found if sign == "-nt" else reversed(found)
        return one is not None and (other is None or one.mtime_us > other.mtime_us)

    def _whole(self, text: str) -> int:
        match = _WHOLE.fullmatch(text)
        if match is None or len(text) > 40:
            raise Wrong(
                f"{text}: bad number" if self.process.container.files.busybox else f"invalid integer '{text}'"
            )
        return int(match[1])

    def _file(self, letter: str, path: str) -> bool:
        if letter in "nz":
            return bool(path) == (letter == "n")
        if letter == "t":
            end = self.process.ends.get(int(path)) if path.isdigit() and len(path) < 9 else None
            return bool(getattr(end, "tty", False))
        files, process = self.process.container.files, self.process
        if letter in "rwx":
            return bool(files.may(path, process, {"r": 4, "w": 2, "x": 1}[letter]))
        try:
            inode = files.lookup(path, process, follow=letter not in "hL")
        except FileError:
            return False
        if letter in _KINDS:
            return bool(inode.kind == _KINDS[letter])
        if letter in "OG":
            return bool(
                inode.uid == process.identity.uid if letter == "O" else inode.gid == process.identity.gid
            )
        if letter in "ugk":
            return bool(inode.mode & {"u": SETUID, "g": SETGID, "k": STICKY}[letter])
        return letter == "e" or inode.size > 0


def test(tool: Tool) -> Main:
    """Compare words and files: test EXPRESSION, [ EXPRESSION ]."""
    words = list(tool.args)
    if tool.name in ("[", "[["):
        if words[-1:] != ["]" if tool.name == "[" else "]]"]:
            yield from tool.complain("missing ]" if tool.busybox else "missing ']'")
            return 2
        words.pop()
    try:
        return 0 if holds(tool.process, words) else 1
    except Wrong as wrong:
        yield from tool.complain(wrong.text)
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
