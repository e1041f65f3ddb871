"""`[[`: what is true of texts, numbers, files and patterns, and what `test` asks a shell.

Mirrors  bash(1), conditional expressions.
"""

from __future__ import annotations

from collections.abc import Generator

from actors.node.programs.conditions import BINARY, DEPTH_MAX, NUMERIC, UNARY, Judge, Wrong, compare
from actors.node.programs.shell import expand, patterns
from actors.node.programs.shell.nodes import Word
from actors.node.programs.shell.state import OPTIONS, Fatal, Shell
from actors.node.programs.waits import Wait


class ShellJudge(Judge):
    """What is true for a shell, which also knows its variables and options."""

    def __init__(self, shell: Shell) -> None:
        super().__init__(shell.process, shell.dialect)
        self._shell = shell

    def unary(self, op: str, value: str) -> bool:
        """Also `-v variable` and `-o option`."""
        shell = self._shell
        if op == "-v":
            return shell.get(value) is not None
        if op == "-o":
            return value in shell.options or OPTIONS.get(value, "") in shell.options
        return super().unary(op, value)


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
        if self.depth > DEPTH_MAX:
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
        elif first in UNARY and self.peek(1) not in ("", "&&", "||", ")"):
            self.at += 1
            operand = yield from self._text(self._take())
            value = not self.skipped and ShellJudge(self.shell).unary(first, operand)
        else:
            value = yield from self._compared()
        self.depth -= 1
        return value

    def _compared(self) -> Generator[Wait, None, bool]:
        left = yield from self._text(self._take())
        op = self.peek()
        if op not in BINARY and op != "=~":
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
        if op in NUMERIC:
            return compare(op, self.shell.calculate(left), self.shell.calculate(right))
        return ShellJudge(self.shell).binary(left, op, right)

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
