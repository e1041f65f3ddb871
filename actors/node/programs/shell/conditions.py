"""`test`, `[` and `[[`: what is true of texts, numbers and files.

Mirrors  POSIX test(1) with `-a`, `-o` and parentheses; bash(1), conditional expressions.
"""

from __future__ import annotations

from collections.abc import Generator

from actors.node.programs.files.errors import FileError
from actors.node.programs.shell import expand, patterns
from actors.node.programs.shell.nodes import Word
from actors.node.programs.shell.state import OPTIONS, Fatal, Shell
from actors.node.programs.waits import Wait

_UNARY = frozenset("-" + letter for letter in "abcdefghknoprstuvwxzGLNOS")
_NUMERIC = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge"))
_BINARY = _NUMERIC | {"=", "==", "!=", "<", ">", "-nt", "-ot", "-ef"}
_KINDS = {"-f": "-", "-d": "d", "-h": "l", "-L": "l", "-p": "p", "-S": "s", "-b": "b", "-c": "c"}
_BITS = {"-u": 0o4000, "-g": 0o2000, "-k": 0o1000}
_DEPTH_MAX = 50


class Wrong(Exception):
    """An expression that is none; the text says why."""


def _file(shell: Shell, op: str, path: str) -> bool:
    process = shell.process
    files = process.container.files
    if op in ("-r", "-w", "-x"):
        return bool(files.may(path, process, {"-r": 4, "-w": 2, "-x": 1}[op]))
    try:
        inode = files.lookup(path, process, follow=op not in ("-h", "-L"))
    except FileError:
        return False
    if op in _KINDS:
        return bool(inode.kind == _KINDS[op])
    if op == "-s":
        return bool(inode.size > 0)
    if op in _BITS:
        return bool(inode.mode & _BITS[op])
    if op == "-O":
        return bool(inode.uid == process.identity.uid)
    if op == "-G":
        return bool(inode.gid == process.identity.gid)
    return op in ("-e", "-a", "-N")


def unary(shell: Shell, op: str, value: str) -> bool:
    """`-f file`, `-n text` and their like."""
    if op == "-n":
        return bool(value)
    if op == "-z":
        return not value
    if op == "-t":
        return bool(getattr(shell.process.ends.get(int(value) if value.isdigit() else -1), "terminal", False))
    if op == "-v":
        return shell.get(value) is not None
    if op == "-o":
        return value in shell.options or OPTIONS.get(value, "") in shell.options
    return _file(shell, op, value) if value else False


def _number(shell: Shell, text: str) -> int:
    try:
        if len(text) > 40:
            raise ValueError
        return int(text.strip(), 10)
    except ValueError:
        if shell.bash:
            raise Wrong(f"{text}: integer expression expected") from None
        raise Wrong(f"Illegal number: {text}" if shell.dialect == "dash" else f"{text}: bad number") from None


def _compare(op: str, left: int, right: int) -> bool:
    return {
        "-eq": left == right, "-ne": left != right, "-lt": left < right, "-le": left <= right, "-gt": left > right,
        "-ge": left >= right,
    }[op]  # fmt: skip


def binary(shell: Shell, left: str, op: str, right: str) -> bool:
    """`a = b`, `1 -lt 2`, `file -nt file`."""
    if op in _NUMERIC:
        return _compare(op, _number(shell, left), _number(shell, right))
    if op in ("=", "=="):
        return left == right
    if op in ("!=", "<", ">"):
        return {"!=": left != right, "<": left < right, ">": left > right}[op]
    process = shell.process
    found = []
    for path in (left, right):
        try:
            found.append(process.container.files.lookup(path, process))
        except FileError:
            found.append(None)
    one, other = found
    if op == "-ef":
        return one is not None and one is other
    if op == "-ot":
        one, other = other, one
    return one is not None and (other is None or one.mtime_us > other.mtime_us)


class _Test:
    """The words of `test`, read from the left."""

    def __init__(self, shell: Shell, words: list[str]) -> None:
        self.shell, self.words, self.at, self.depth = shell, words, 0, 0

    def _left(self) -> int:
        return len(self.words) - self.at

    def _peek(self, ahead: int = 0) -> str:
        return self.words[self.at + ahead] if self.at + ahead < len(self.words) else ""

    def either(self) -> bool:
        """`a -o b`."""
        value = self.both()
        while self._left() and self._peek() == "-o":
            self.at += 1
            value = self.both() or value
        return value

    def both(self) -> bool:
        """`a -a b`."""
        value = self.one()
        while self._left() and self._peek() == "-a":
            self.at += 1
            value = self.one() and value
        return value

    def one(self) -> bool:
        """One comparison, one file, one text."""
        self.depth += 1
        if self.depth > _DEPTH_MAX:
            raise Wrong("expression too deep")
        try:
            return self._one()
        finally:
            self.depth -= 1

    def _one(self) -> bool:
        if not self._left():
            raise Wrong("argument expected")
        if self._left() >= 3 and self._peek(1) in _BINARY:
            left, op, right = self.words[self.at : self.at + 3]
            self.at += 3
            return binary(self.shell, left, op, right)
        first = self._peek()
        if first == "!" and self._left() > 1:
            self.at += 1
            return not self.one()
        if first == "(" and self._left() > 1:
            self.at += 1
            value = self.either()
            if self._peek() != ")":
                raise Wrong("closing paren expected")
            self.at += 1
            return value
        if first in _UNARY and self._left() > 1 and self._peek(1) not in ("-a", "-o"):
            self.at += 2
            return unary(self.shell, first, self.words[self.at - 1])
        self.at += 1
        return bool(first)


def test(shell: Shell, words: list[str]) -> bool:
    """What `test` says of its words.  Raises Wrong."""
    if not words:
        return False
    if len(words) == 1:
        return bool(words[0])
    if len(words) == 2 and words[0] == "!":
        return not words[1]
    reading = _Test(shell, words)
    if len(words) == 4 and words[0] == "!":
        reading.at = 1
        value = not reading.either()
    else:
        value = reading.either()
    if reading.at < len(words):
        extra = words[reading.at]
        if shell.bash:
            raise Wrong("too many arguments" if len(words) > 3 else f"{words[1]}: binary operator expected")
        raise Wrong(
            f"{extra}: unexpected operator" if shell.dialect == "dash" else f"{extra}: unknown operand"
        )
    return value


# --- [[ ]] ----------------------------------------------------------------------------------


def evaluate_condition(
    shell: Shell, words: tuple[tuple[str, Word], ...], substitute: expand.Substitute
) -> Generator[Wait, None, int]:
    """The status of `[[ words ]]`."""
    reading = _Condition(shell, words, substitute)
    try:
        value = yield from reading.either()
        if reading.at < len(words):
            raise Wrong(f"syntax error near `{reading.peek()}'")
    except Wrong as wrong:
        yield from shell.complain(str(wrong))
        return 2
    return int(not value)


class _Condition:
    """The words of `[[`, of which only those are expanded that count."""

    def __init__(
        self, shell: Shell, words: tuple[tuple[str, Word], ...], substitute: expand.Substitute
    ) -> None:
        self.shell, self.words, self.substitute = shell, words, substitute
        self.at = self.skipped = self.depth = 0

    def peek(self, ahead: int = 0) -> str:
        """The source of a word."""
        return self.words[self.at + ahead][0] if self.at + ahead < len(self.words) else ""

    def either(self) -> Generator[Wait, None, bool]:
        """`a || b`."""
        value = yield from self._both()
        while self.peek() == "||":
            self.at += 1
            self.skipped += value
            right = yield from self._both()
            self.skipped -= value
            value = value or right
        return value

    def _both(self) -> Generator[Wait, None, bool]:
        value = yield from self._one()
        while self.peek() == "&&":
            self.at += 1
            self.skipped += not value
            right = yield from self._one()
            self.skipped -= not value
            value = value and right
        return value

    def _text(self, word: Word) -> Generator[Wait, None, str]:
        if self.skipped:
            return ""
        return (yield from expand.text(self.shell, word, self.substitute))

    def _take(self) -> Word:
        if self.at >= len(self.words):
            raise Wrong("unexpected argument in conditional expression")
        self.at += 1
        return self.words[self.at - 1][1]

    def _one(self) -> Generator[Wait, None, bool]:
        self.depth += 1
        if self.depth > _DEPTH_MAX:
            raise Wrong("expression too deep")
        first = self.peek()
        if first == "!":
            self.at += 1
            value = not (yield from self._one())
        elif first == "(":
            self.at += 1
            value = yield from self.either()
            if self.peek() != ")":
                raise Wrong("expected `)'")
            self.at += 1
        elif first in _UNARY and self.peek(1) not in ("", "&&", "||", ")"):
            self.at += 1
            operand = yield from self._text(self._take())
            value = not self.skipped and unary(self.shell, first, operand)
        else:
            value = yield from self._compared()
        self.depth -= 1
        return value

    def _compared(self) -> Generator[Wait, None, bool]:
        left = yield from self._text(self._take())
        op = self.peek()
        if op not in _BINARY and op != "=~":
            return bool(left)
        self.at += 1
        word = self._take()
        if self.skipped:
            return False
        if op in ("=", "==", "!="):
            described = yield from expand.pattern(self.shell, word, self.substitute)
            caseless = "nocasematch" in self.shell.options
            return patterns.matches(described, left, caseless=caseless) == (op != "!=")
        if op == "=~":
            described = yield from expand.pattern(self.shell, word, self.substitute, patterns.literal)
            described = f"(?i){described}" if "nocasematch" in self.shell.options else described
            return self._found(described, left)
        right = yield from self._text(word)
        if op in _NUMERIC:
            return _compare(op, self.shell.calculate(left), self.shell.calculate(right))
        return binary(self.shell, left, op, right)

    def _found(self, described: str, text: str) -> bool:
        try:
            found = patterns.find(described, text)
        except ValueError:
            raise Wrong(f"invalid regular expression `{described}'") from None
        groups = []
        if found is not None:
            spans = [found.span(at) for at in range(len(found.groups()) + 1)]
            groups = [text[start:end] if start >= 0 else "" for start, end in spans]
        try:
            self.shell.put_array("BASH_REMATCH", [(None, group) for group in groups], append=False)
        except Fatal as error:
            raise Wrong(error.text) from None
        return found is not None
