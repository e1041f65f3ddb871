"""Regular expressions from outside: RE2's syntax, and a time that grows with pattern and text, never explodes.

Turns a pattern into a `Pattern` that tells whether a text contains a match.

Holds: no backtracking.  All ways through the pattern are followed at once, one character after the other; what a
set of ways becomes by a character is remembered, so that most steps are one look-up.  Bounds: `PROGRAM_MAX` instructions
a pattern, `DEPTH_MAX` nested groups, `REPEAT_MAX` repetitions, `HELD_MAX` ways in remembered steps, and `WORK_MAX` instructions
visited for one object; what goes beyond is refused by an exception, always at the same point.

Mirrors  Go regexp/syntax (the language), regexp.MatchString (search anywhere).
Differs  of Unicode classes only general categories (`\\pL`, `\\p{Lu}`), no scripts; case is folded by one character;
         back references and look-around do not exist, as in RE2.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

PROGRAM_MAX = 20_000
DEPTH_MAX = 100
REPEAT_MAX = 1000  # regexp/syntax: maxRepeat
HELD_MAX = 65_536  # ways in remembered steps
WORK_MAX = 1_000_000  # some half a second

Test = Callable[[str], bool]


class BadPattern(ValueError):
    """The pattern is none, or too large."""


class TooMuchWork(Exception):
    """The text would take too long."""


class Budget:
    """How much work is left for the texts of one object."""

    def __init__(self, work: int = WORK_MAX) -> None:
        self.left = work

    def spend(self, work: int) -> None:
        """Raises TooMuchWork."""
        self.left -= work
        if self.left < 0:
            raise TooMuchWork


# --- the program ------------------------------------------------------------------------------------------

_CHAR, _SPLIT, _ASSERT, _MATCH = range(4)


class _Step(NamedTuple):
    """test: of a character; ways: where it goes on; kind: of an assertion."""

    op: int
    ways: tuple[int, ...] = ()
    test: Test | None = None
    kind: str = ""


class _Node(NamedTuple):
    """Syntax.  op: test, assert, cat, alt, repeat, empty."""

    op: str
    parts: tuple[_Node, ...] = ()
    test: Test | None = None
    kind: str = ""
    low: int = 0
    high: int = -1


_EMPTY = _Node("empty")


class _Writer:
    """Turns syntax into steps."""

    def __init__(self) -> None:
        self.steps: list[_Step] = []
        self._written = 0  # nodes, some of which make no step

    def add(self, step: _Step) -> int:
        if len(self.steps) >= PROGRAM_MAX:
            raise BadPattern("expression nests too deeply or is too large")
        self.steps.append(step)
        return len(self.steps) - 1

    def write(self, node: _Node, after: int) -> int:
        """Steps of a node that go on at `after`; where they begin."""
        self._written += 1
        if self._written > 2 * PROGRAM_MAX:
            raise BadPattern("expression nests too deeply or is too large")
        if node.op == "test":
            return self.add(_Step(_CHAR, (after,), node.test))
        if node.op == "assert":
            return self.add(_Step(_ASSERT, (after,), kind=node.kind))
        if node.op == "cat":
            for part in reversed(node.parts):
                after = self.write(part, after)
            return after
        if node.op == "alt":
            return self.add(_Step(_SPLIT, tuple([self.write(part, after) for part in node.parts])))
        if node.op == "repeat":
            return self._repeat(node, after)
        return after

    def _repeat(self, node: _Node, after: int) -> int:
        part = node.parts[0]
        start = after
        if node.high < 0:
            loop = self.add(_Step(_SPLIT))
            self.steps[loop] = _Step(_SPLIT, (self.write(part, loop), after))
            start = loop
        else:
            for _ in range(node.high - node.low):
                start = self.add(_Step(_SPLIT, (self.write(part, start), after)))
        for _ in range(node.low):
            start = self.write(part, start)
        return start


# --- the parser -------------------------------------------------------------------------------------------

_PERL: dict[str, Test] = {
    "d": lambda c: "0" <= c <= "9",
    "w": lambda c: c == "_" or ("0" <= c <= "9") or ("a" <= c <= "z") or ("A" <= c <= "Z"),
    "s": lambda c: c in "\t\n\f\r ",
}
_ESCAPES = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_POSIX: dict[str, Test] = {
    "alnum": lambda c: c.isascii() and c.isalnum(),
    "alpha": lambda c: c.isascii() and c.isalpha(),
    "ascii": lambda c: c.isascii(),
    "blank": lambda c: c in "\t ",
    "cntrl": lambda c: c < " " or c == "\x7f",
    "digit": _PERL["d"],
    "graph": lambda c: "!" <= c <= "~",
    "lower": lambda c: "a" <= c <= "z",
    "print": lambda c: " " <= c <= "~",
    "punct": lambda c: "!" <= c <= "~" and not c.isalnum(),
    "space": lambda c: c in "\t\n\v\f\r ",
    "upper": lambda c: "A" <= c <= "Z",
    "word": _PERL["w"],
    "xdigit": lambda c: c in "0123456789abcdefABCDEF",
}
_CATEGORIES = frozenset(["L", "M", "N", "P", "S", "Z", "C"])


def _not(test: Test) -> Test:
    return lambda c: not test(c)


def _any_of(tests: list[Test]) -> Test:
    return lambda c: any(test(c) for test in tests)


def _literal(char: str, fold: bool) -> Test:
    if fold and char.lower() != char.upper():
        both = (char.lower(), char.upper())
        return lambda c: c in both
    return lambda c: c == char


def _folded(test: Test) -> Test:
    return lambda c: test(c) or test(c.lower()) or test(c.upper())


class _Parser:
    """Recursive descent over one pattern."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.flags: frozenset[str] = frozenset()

    def parse(self) -> _Node:
        node = self._alternatives(0)
        if self.at < len(self.text):
            raise BadPattern("unexpected ): `" + self.text + "`")
        return node

    def _peek(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def _take(self) -> str:
        if self.at >= len(self.text):
            raise BadPattern("missing argument or closing: `" + self.text + "`")
        self.at += 1
        return self.text[self.at - 1]

    def _alternatives(self, depth: int) -> _Node:
        if depth > DEPTH_MAX:
            raise BadPattern("expression nests too deeply")
        before = self.flags
        found = [self._sequence(depth)]
        while self._peek("|"):
            self.at += 1
            found.append(self._sequence(depth))
        self.flags = before
        return found[0] if len(found) == 1 else _Node("alt", tuple(found))

    def _sequence(self, depth: int) -> _Node:
        parts: list[_Node] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            atom = self._atom(depth)
            parts.append(self._repeated(atom))
        return parts[0] if len(parts) == 1 else _Node("cat", tuple(parts))

    def _repeated(self, atom: _Node) -> _Node:
        taken = False
        while (bounds := self._bounds()) is not None:
            if taken:
                raise BadPattern("invalid nested repetition operator")
            atom, taken = _Node("repeat", (atom,), low=bounds[0], high=bounds[1]), True
            if self._peek("?"):
                self.at += 1  # which match is found first does not matter
        return atom

    def _bounds(self) -> tuple[int, int] | None:
        char = self.text[self.at : self.at + 1]
        if char in ("*", "+", "?") and char:
            self.at += 1
            return {"*": (0, -1), "+": (1, -1), "?": (0, 1)}[char]
        if char != "{":
            return None
        end = self.text.find("}", self.at)
        low, comma, high = self.text[self.at + 1 : end].partition(",")
        sound = end > 0 and _is_count(low) and (not comma or not high or _is_count(high))
        if not sound:
            return None  # a brace as itself
        self.at = end + 1
        least = int(low)
        most = least if not comma else int(high) if high else -1
        if max(least, most) > REPEAT_MAX or (0 <= most < least):
            raise BadPattern("invalid repeat count")
        return least, most

    def _atom(self, depth: int) -> _Node:
        char = self._take()
        if char == "(":
            return self._group(depth)
        if char == "[":
            return _Node("test", test=self._class())
        if char == ".":
            lines = "s" in self.flags
            return _Node("test", test=lambda c: lines or c != "\n")
        if char in "^$":
            line = "m" in self.flags
            kinds = ("line-start", "line-end") if line else ("start", "end")
            return _Node("assert", kind=kinds[char == "$"])
        if char == "\\":
            return self._escape()
        if char in "*+?":
            raise BadPattern("missing argument to repetition operator: `" + char + "`")
        return _Node("test", test=_literal(char, "i" in self.flags))

    def _group(self, depth: int) -> _Node:
        before = self.flags
        if self._peek("?P<") or self._peek("?<"):
            end = self.text.find(">", self.at)
            name = self.text[self.at : end].partition("<")[2]
            if end < 0 or not name.replace("_", "a").isalnum():
                raise BadPattern("invalid named capture")
            self.at = end + 1
        elif self._peek("?"):
            self.at += 1
            if self._set_flags():
                return _EMPTY  # from here on, to the end of the group around
        node = self._alternatives(depth + 1)
        if self.at >= len(self.text):
            raise BadPattern("missing closing ): `" + self.text + "`")
        self.at += 1
        self.flags = before
        return node

    def _set_flags(self) -> bool:
        """Read "i-s:" or "i)"; True for the latter."""
        on = True
        while True:
            char = self._take()
            if char == "-" and on:
                on = False
            elif char in "imsU":
                self.flags = self.flags | {char} if on else self.flags - {char}
            elif char in ":)":
                return char == ")"
            else:
                raise BadPattern("invalid or unsupported Perl syntax")

    def _escape(self) -> _Node:
        char = self._take()
        if char in "AzbB":
            kinds = {"A": "start", "z": "end", "b": "word", "B": "no-word"}
            return _Node("assert", kind=kinds[char])
        if char == "Q":
            end = self.text.find("\\E", self.at)
            quoted = self.text[self.at : end if end >= 0 else None]
            self.at = len(self.text) if end < 0 else end + 2
            fold = "i" in self.flags
            return _Node("cat", tuple([_Node("test", test=_literal(c, fold)) for c in quoted]))
        test = self._class_escape(char)
        if test is not None:
            return _Node("test", test=test)
        return _Node("test", test=_literal(self._char_escape(char), "i" in self.flags))

    def _class_escape(self, char: str) -> Test | None:
        """A class such as \\d or \\pL; None if it is a character."""
        if char in "dws":
            return _PERL[char]
        if char in "DWS":
            return _not(_PERL[char.lower()])
        if char not in "pP":
            return None
        name = self._take()
        if name == "{":
            end = self.text.find("}", self.at)
            if end < 0:
                raise BadPattern("invalid character class range")
            name, self.at = self.text[self.at : end], end + 1
        wanted, flipped = name.removeprefix("^"), name.startswith("^") != (char == "P")
        if wanted[:1] not in _CATEGORIES or len(wanted) > 2:
            raise BadPattern("invalid character class range: `\\" + char + "{" + name + "}`")
        test: Test = lambda c: unicodedata.category(c).startswith(wanted)  # noqa: E731
        return _not(test) if flipped else test

    def _char_escape(self, char: str) -> str:
        if char in _ESCAPES:
            return _ESCAPES[char]
        if char == "x":
            if self._peek("{"):
                end = self.text.find("}", self.at)
                digits, self.at = self.text[self.at + 1 : end], end + 1
                if end < 0:
                    raise BadPattern("invalid escape sequence")
            else:
                digits = self._take() + self._take()
            if not digits or not set(digits) <= set("0123456789abcdefABCDEF") or len(digits) > 6:
                raise BadPattern("invalid escape sequence")
            code = int(digits, 16)
            if code > 0x10FFFF:
                raise BadPattern("invalid escape sequence")
            return chr(code)
        if char in "01234567":
            digits = char
            while len(digits) < 3 and self.text[self.at : self.at + 1] in tuple("01234567"):
                digits += self._take()
            if char != "0" and len(digits) == 1:
                raise BadPattern("invalid escape sequence: `\\" + char + "`")
            return chr(int(digits, 8))
        if char.isascii() and not char.isalnum():
            return char
        raise BadPattern("invalid escape sequence: `\\" + char + "`")

    def _class(self) -> Test:
        flipped = self._peek("^")
        self.at += flipped
        tests: list[Test] = []
        first = True
        while first or not self._peek("]"):
            first = False
            tests.append(self._class_item())
        self.at += 1
        test = _any_of(tests)
        if "i" in self.flags:
            test = _folded(test)
        return _not(test) if flipped else test

    def _class_item(self) -> Test:
        if self._peek("[:"):
            end = self.text.find(":]", self.at)
            name = self.text[self.at + 2 : end] if end > 0 else ""
            known = _POSIX.get(name.removeprefix("^"))
            if known is None:
                raise BadPattern("invalid character class range")
            self.at = end + 2
            return _not(known) if name.startswith("^") else known
        low = self._take()
        if low == "\\":
            low = self._take()
            test = self._class_escape(low)
            if test is not None:
                return test
            low = self._char_escape(low)
        if not self._peek("-") or self.text[self.at + 1 : self.at + 2] in ("]", ""):
            return lambda c: c == low
        self.at += 1
        high = self._take()
        if high == "\\":
            high = self._char_escape(self._take())
        if high < low:
            raise BadPattern("invalid character class range: `" + low + "-" + high + "`")
        return lambda c: low <= c <= high


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 4


# --- matching ---------------------------------------------------------------------------------------------

_WORD: Test = _PERL["w"]


class _Known(NamedTuple):
    """What a set of ways becomes by a character (None: a match), and the work it took to find out."""

    nexts: tuple[int, ...] | None
    work: int


class Pattern:
    """A compiled pattern."""

    def __init__(self, text: str) -> None:
        writer = _Writer()
        end = writer.add(_Step(_MATCH))
        self._start = writer.write(_Parser(text).parse(), end)
        self._steps = writer.steps
        self._asserts = any(step.op == _ASSERT for step in writer.steps)
        self._known: dict[tuple[tuple[int, ...], str, str], _Known] = {}
        self._held = 0  # ways in what is known

    def found_in(self, text: str, budget: Budget | None = None) -> bool:
        """Whether there is a match anywhere in the text.  Raises TooMuchWork.

        What was found out before costs the same again: a refusal may not depend on what else was looked at.
        """
        budget = budget or Budget()
        ways: tuple[int, ...] = ()
        before = ""
        for char in text:
            known = self._after(ways, before, char)
            budget.spend(known.work)
            if known.nexts is None:
                return True
            ways, before = known.nexts, char
        reached, work = self._reached(ways, before, "")
        budget.spend(work)
        return reached is None

    def _after(self, ways: tuple[int, ...], before: str, char: str) -> _Known:
        """The ways behind a character, from these and from a fresh start."""
        place = (ways, before if self._asserts else "", char)
        known = self._known.get(place)
        if known is not None:
            return known
        reached, work = self._reached(ways, before, char)
        nexts: tuple[int, ...] | None = None
        if reached is not None:
            steps = self._steps
            found = [
                steps[at].ways[0] for at in reached if (test := steps[at].test) is not None and test(char)
            ]
            nexts = tuple(sorted(dict.fromkeys(found)))
            self._held += len(nexts)
        if self._held + len(self._known) > HELD_MAX:
            self._known.clear()
            self._held = 0
        known = self._known[place] = _Known(nexts, work)
        return known

    def _reached(self, ways: tuple[int, ...], before: str, after: str) -> tuple[list[int] | None, int]:
        """The steps at which a character is looked at, or None: the end is reached; and the work.

        after: "" at the text's end
        """
        seen = bytearray(len(self._steps))
        left = [*ways, self._start]
        found: list[int] = []
        work = 1 + (len(seen) >> 6)
        while left:
            at = left.pop()
            if seen[at]:
                continue
            seen[at] = 1
            work += 1
            step = self._steps[at]
            if step.op == _MATCH:
                return None, work
            if step.op == _CHAR:
                found.append(at)
            elif step.op == _SPLIT or _holds(step.kind, before, after):
                left += step.ways
        return found, work


def _holds(kind: str, before: str, after: str) -> bool:
    """An assertion between two characters, "" where there is none."""
    if kind == "start":
        return not before
    if kind == "end":
        return not after
    if kind == "line-start":
        return before in ("", "\n")
    if kind == "line-end":
        return after in ("", "\n")
    boundary = bool(before and _WORD(before)) != bool(after and _WORD(after))
    return boundary == (kind == "word")


@lru_cache(maxsize=256)
def compile_pattern(text: str) -> Pattern:
    """Raises BadPattern."""
    return Pattern(text)


def check_pattern(text: str) -> None:
    """Raises BadPattern for what is none.  One that is too large is told when it is compiled."""
    _Parser(text).parse()
