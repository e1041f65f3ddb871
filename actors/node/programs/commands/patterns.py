"""Regular expressions of grep, sed and expr: POSIX' basic and extended ones with GNU's additions.

They are translated for RE2, which takes time linear in its input for each pattern and finds the
longest match, as POSIX wants.  RE2 has no references back to groups: those patterns run in
Python's engine, on short inputs only.

Mirrors  POSIX.1-2017 XBD 9; GNU's \\+ \\? \\| \\w \\W \\s \\S \\b \\B \\< \\> \\` \\'.
Differs  text is bytes, as in the POSIX locale; a pattern with references back finds nothing in a
         text of more than `REFERRING_MAX` bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import re2

from actors.node.programs.commands.tool import Failed

PATTERN_MAX = 8192  # bytes of a pattern
REFERRING_MAX = 512
_CLASSES = (
    "alpha",
    "digit",
    "alnum",
    "upper",
    "lower",
    "space",
    "blank",
    "punct",
    "print",
    "graph",
    "cntrl",
    "xdigit",
)
UNMATCHED_BRACKET = "Unmatched [, [^, [:, [., or [="


class Found:
    """A match: its groups, where it begins and ends; [0] is all of it."""

    __slots__ = ("_spans", "_text", "end", "groups", "start")

    def __init__(self, text: bytes, spans: Sequence[tuple[int, int]]) -> None:
        self._text = text
        self._spans = spans
        self.start, self.end = spans[0]
        self.groups = len(spans) - 1

    def __getitem__(self, group: int) -> bytes | None:
        if group >= len(self._spans) or self._spans[group][0] < 0:
            return None
        start, end = self._spans[group]
        return self._text[start:end]


class Pattern:
    """A compiled pattern.  Raises Failed if it is none."""

    __slots__ = ("_compiled", "_refers", "groups")

    def __init__(
        self,
        text: bytes,
        *,
        extended: bool = False,
        fixed: bool = False,
        any_case: bool = False,
        around: str = "",
    ) -> None:
        self._compiled, self._refers, self.groups = _compiled(text, extended, fixed, any_case, around)

    def search(self, text: bytes, at: int = 0) -> Found | None:
        """The first match from a position on."""
        if self._refers and len(text) > REFERRING_MAX:
            return None
        found = self._compiled.search(text, at)
        return None if found is None else Found(text, [found.span(group) for group in range(self.groups + 1)])

    def match(self, text: bytes) -> Found | None:
        """The match at the beginning."""
        found = self.search(text)
        return found if found is not None and not found.start else None

    def found(self, text: bytes) -> bool:
        """True if there is a match."""
        return not (self._refers and len(text) > REFERRING_MAX) and self._compiled.search(text) is not None


@lru_cache(maxsize=256)
def _compiled(text: bytes, extended: bool, fixed: bool, any_case: bool, around: str) -> tuple[Any, bool, int]:
    if len(text) > PATTERN_MAX:
        raise Failed("Regular expression too big", 2)
    translation = _Translation(text, extended)
    source = _quoted(text) if fixed else translation.whole()
    if around:
        source = (b"^(?:" + source + b")$") if around == "x" else (rb"\b(?:" + source + rb")\b")
    if translation.refers:
        import re

        try:
            return re.compile(source, re.IGNORECASE if any_case else 0), True, translation.groups
        except (re.error, RecursionError):
            raise Failed("Invalid regular expression", 2) from None
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.longest_match = True
    options.log_errors = False
    options.case_sensitive = not any_case
    options.dot_nl = True
    options.max_mem = 8 << 20
    try:
        return re2.compile(source, options), False, translation.groups
    except re2.error as error:
        raise Failed(_reason(str(error)), 2) from None


def _reason(text: str) -> str:
    if "missing closing ]" in text or "missing terminating" in text:
        return UNMATCHED_BRACKET
    if "missing )" in text or "missing closing )" in text:
        return r"Unmatched ( or \("
    if "unexpected )" in text:
        return r"Unmatched ) or \)"
    return "Invalid regular expression"


def _quoted(text: bytes) -> bytes:
    return b"".join(
        bytes((byte,)) if byte > 127 or byte in b"_" or chr(byte).isalnum() else b"\\x%02x" % byte
        for byte in text
    )


class _Translation:
    """One pattern on its way to RE2's form.

    groups: how many groups it has; refers: True if it refers back to one of them
    """

    def __init__(self, text: bytes, extended: bool) -> None:
        self.text = text
        self.extended = extended
        self.groups = 0
        self.refers = False
        self._depth = 0
        self._out: list[bytes] = []
        self._at = 0

    def whole(self) -> bytes:
        """The translated pattern."""
        while self._at < len(self.text):
            byte = self.text[self._at : self._at + 1]
            self._at += 1
            if byte == b"\\":
                self._escaped()
            elif byte == b"[":
                self._bracket()
            elif byte == b"*":
                self._out.append(b"\\*" if self._starts() else self._repeat(b"*"))
            elif byte == b"^":
                self._out.append(b"^" if self.extended or self._starts() else b"\\^")
            elif byte == b"$":
                self._out.append(b"$" if self.extended or self._ends() else b"\\$")
            elif byte in b"+?(){}|" and self.extended:
                self._operator(byte)
            else:
                self._out.append(b"." if byte == b"." else _quoted(byte))
        if self._depth:
            raise Failed(r"Unmatched ( or \(", 2)
        return b"".join(self._out)

    def _starts(self) -> bool:
        """True if a star here has nothing to repeat."""
        return not self._out or self._out[-1] in (b"(", b"|", b"^")

    def _ends(self) -> bool:
        rest = self.text[self._at :]
        return not rest or rest.startswith((b"\\)", b"\\|"))

    def _repeat(self, mark: bytes) -> bytes:
        """A repetition; of a repetition, it is that of a group."""
        if (
            self._out
            and self._out[-1][-1:] in (b"*", b"+", b"?", b"}")
            and self._out[-1][:1] in (b"*", b"+", b"?", b"{")
        ):
            depth, start = 0, len(self._out) - 1
            while start > 0:
                start -= 1
                piece = self._out[start]
                depth += (piece == b")") - (piece == b"(")
                if depth == 0 and piece[:1] not in (b"*", b"+", b"?", b"{"):
                    break
            self._out.insert(start, b"(?:")
            self._out.append(b")")
        return mark

    def _operator(self, byte: bytes) -> None:
        if byte == b"(":
            self.groups += 1
            self._depth += 1
            self._out.append(b"(")
        elif byte == b")":
            if not self._depth:
                self._out.append(b"\\)")
                if not self.extended:
                    raise Failed(r"Unmatched ) or \)", 2)
                return
            self._depth -= 1
            self._out.append(b")")
        elif byte == b"{":
            end = self.text.find(b"}" if self.extended else b"\\}", self._at)
            inner = self.text[self._at : end] if end >= 0 else b"x"
            bounds = inner.split(b",")
            if len(bounds) > 2 or (
                not bounds[0].isdigit()
                and not (len(bounds) == 2 and bounds[0] == b"" and bounds[1].isdigit())
            ):
                if not self.extended:
                    raise Failed(r"Invalid content of \{\}" if end >= 0 else r"Unmatched { or \{", 2)
                self._out.append(b"\\{")
                return
            if any(
                bound and (not bound.isdigit() or len(bound) > 4 or int(bound) > 1000) for bound in bounds
            ):
                raise Failed("Regular expression too big", 2)
            bounds[0] = bounds[0] or b"0"
            self._at = end + (1 if self.extended else 2)
            self._out.append(self._repeat(b"{" + b",".join(bounds) + b"}"))
        elif byte == b"}":
            self._out.append(b"\\}")
        elif byte == b"|":
            self._out.append(b"|")
        elif self._starts():
            self._out.append(_quoted(byte))
        else:
            self._out.append(self._repeat(byte))

    def _escaped(self) -> None:
        byte = self.text[self._at : self._at + 1]
        self._at += 1
        if not byte:
            raise Failed("Trailing backslash", 2)
        if byte in b"+?(){}|" and not self.extended:
            self._operator(byte)
        elif byte in b"123456789":
            if int(byte) > self.groups:
                raise Failed("Invalid back reference", 2)
            self.refers = True
            self._out.append(b"(?:\\" + byte + b")")
        elif byte in b"wWsSbB":
            self._out.append(b"\\" + byte)
        elif byte in b"<>":
            self._out.append(b"\\b")
        elif byte in b"`'":
            self._out.append(b"\\A" if byte == b"`" else b"\\z")
        elif byte == b"n":
            self._out.append(b"\\n")
        elif byte == b"t":
            self._out.append(b"\\t")
        else:
            self._out.append(_quoted(byte))

    def _bracket(self) -> None:
        """A bracket expression, in which a backslash is an ordinary character."""
        at = self._at
        out = [b"["]
        if self.text[at : at + 1] == b"^":
            out.append(b"^")
            at += 1
        first = True
        while True:
            byte = self.text[at : at + 1]
            if not byte:
                raise Failed(UNMATCHED_BRACKET, 2)
            if byte == b"]" and not first:
                break
            first = False
            mark = self.text[at + 1 : at + 2]
            if byte == b"[" and mark in (b":", b".", b"="):
                end = self.text.find(mark + b"]", at + 2)
                inner = self.text[at + 2 : end].decode("latin-1") if end >= 0 else ""
                if mark == b":":
                    if inner not in _CLASSES:
                        raise Failed("Invalid character class name", 2)
                    out.append(f"[:{inner}:]".encode())
                else:
                    out.append(_quoted(inner.encode("latin-1")))
                at = end + 2
                continue
            if (
                byte == b"-"
                and len(out) > 1
                and self.text[at + 1 : at + 2] not in (b"]", b"")
                and out[-1] != b"^"
            ):
                out.append(b"-")
            elif byte == b"\\" and self.text[at + 1 : at + 2] in (b"n", b"t"):  # as sed reads them
                out.append(byte + self.text[at + 1 : at + 2])
                at += 1
            else:
                out.append(_quoted(byte))
            at += 1
        self._at = at + 1
        self._out.append(b"".join(out) + b"]")
