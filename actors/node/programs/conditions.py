"""What is true of texts, numbers and files: `test` and `[`, of shells and as commands of an image.

Mirrors  POSIX test(1) with `-a`, `-o` and parentheses; bash(1), conditional expressions; the
         messages of busybox, dash, bash and GNU coreutils.
"""

from __future__ import annotations

from actors.node.programs.files.errors import FileError
from actors.node.programs.process import Process

UNARY = frozenset("-" + letter for letter in "abcdefghknoprstuvwxzGLNOS")
NUMERIC = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge"))
BINARY = NUMERIC | {"=", "==", "!=", "<", ">", "-nt", "-ot", "-ef"}
_KINDS = {"-f": "-", "-d": "d", "-h": "l", "-L": "l", "-p": "p", "-S": "s", "-b": "b", "-c": "c"}
_BITS = {"-u": 0o4000, "-g": 0o2000, "-k": 0o1000}
DEPTH_MAX = 50


class Wrong(Exception):
    """An expression that is none; the text says why."""


class Judge:
    """What is true for one process.

    dialect: of its messages: "ash", "dash", "bash" or "gnu"
    """

    def __init__(self, process: Process, dialect: str) -> None:
        self.process = process
        self.dialect = dialect

    def unary(self, op: str, value: str) -> bool:
        """`-f file`, `-n text` and their like."""
        if op == "-n":
            return bool(value)
        if op == "-z":
            return not value
        if op == "-t":
            end = self.process.ends.get(int(value) if value.isdigit() and len(value) < 9 else -1)
            return end is not None and end.terminal
        return self._file(op, value) if value else False

    def _file(self, op: str, path: str) -> bool:
        process = self.process
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

    def number(self, text: str) -> int:
        """A whole number.  Raises Wrong."""
        try:
            if len(text) > 40:
                raise ValueError
            return int(text.strip(), 10)
        except ValueError:
            texts = {
                "bash": f"{text}: integer expression expected", "dash": f"Illegal number: {text}",
                "gnu": f"invalid integer '{text}'",
            }  # fmt: skip
            raise Wrong(texts.get(self.dialect, f"{text}: bad number")) from None

    def binary(self, left: str, op: str, right: str) -> bool:
        """`a = b`, `1 -lt 2`, `file -nt file`."""
        if op in NUMERIC:
            return compare(op, self.number(left), self.number(right))
        if op in ("=", "=="):
            return left == right
        if op in ("!=", "<", ">"):
            return {"!=": left != right, "<": left < right, ">": left > right}[op]
        process = self.process
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


def compare(op: str, left: int, right: int) -> bool:
    """`-lt` and its like."""
    return {
        "-eq": left == right, "-ne": left != right, "-lt": left < right, "-le": left <= right, "-gt": left > right,
        "-ge": left >= right,
    }[op]  # fmt: skip


class _Test:
    """The words of `test`, read from the left."""

    def __init__(self, judge: Judge, words: list[str]) -> None:
        self.judge, self.words, self.at, self.depth = judge, words, 0, 0

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
        if self.depth > DEPTH_MAX:
            raise Wrong("expression too deep")
        try:
            return self._one()
        finally:
            self.depth -= 1

    def _one(self) -> bool:
        if not self._left():
            raise Wrong("argument expected")
        if self._left() >= 3 and self._peek(1) in BINARY:
            left, op, right = self.words[self.at : self.at + 3]
            self.at += 3
            return self.judge.binary(left, op, right)
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
        if first in UNARY and self._left() > 1 and self._peek(1) not in ("-a", "-o"):
            self.at += 2
            return self.judge.unary(first, self.words[self.at - 1])
        self.at += 1
        return bool(first)


def test(judge: Judge, words: list[str]) -> bool:
    """What `test` says of its words.  Raises Wrong."""
    if not words:
        return False
    if len(words) == 1:
        return bool(words[0])
    if len(words) == 2 and words[0] == "!":
        return not words[1]
    reading = _Test(judge, words)
    if len(words) == 4 and words[0] == "!":
        reading.at = 1
        value = not reading.either()
    else:
        value = reading.either()
    if reading.at < len(words):
        extra = words[reading.at]
        unknown = "too many arguments" if len(words) > 3 else f"{words[1]}: binary operator expected"
        texts = {"bash": unknown, "dash": f"{extra}: unexpected operator", "gnu": f"extra argument '{extra}'"}
        raise Wrong(texts.get(judge.dialect, f"{extra}: unknown operand"))
    return value
