"""Regular expressions from users, in RE2's syntax and in linear time.

A pattern of a CustomResourceDefinition's schema becomes a `Pattern` that can be searched for in a
text.

Holds: the time of a search is bounded by the size of the compiled pattern times the size of the
text, because RE2 does not backtrack. All searches for one object share one `Budget`; a search that
the budget does not cover raises `TooMuchWork`. The cost of a search depends on pattern and text
alone, so that a refusal is the same in every run.

Mirrors  Go regexp.MatchString (search anywhere in the text) and the messages of regexp/syntax's
         ErrorCode.
Differs  the engine is the C++ implementation of RE2, Go's the Go implementation. Patterns that only
         one of the two refuses (very large ones, names of groups that start with a digit) follow
         the C++ implementation. A pattern has at most 20,000 steps; one that exceeds its object's
         `Budget` does not match (422).
"""

from __future__ import annotations

import re2

from sim.remembered import cached

# Compiled instructions times bytes of text; the slowest pattern takes some 6 ns for each.
WORK_MAX = 100_000_000

# RE2's message (re2/regexp.cc: kErrorStrings) to Go's for the same code (syntax/parse.go:
# ErrorCode).
_GO_MESSAGES = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}


class BadPattern(ValueError):
    """The text is not a pattern, or compiles to a program that is too large."""


class TooMuchWork(Exception):
    """The budget of the object does not cover the search."""


class Budget:
    """The work left for the patterns of one object, in compiled instructions times bytes of text."""

    def __init__(self, work: int = WORK_MAX) -> None:
        self.left = work

    def spend(self, work: int) -> None:
        """Subtract the work of one search.  Raises TooMuchWork if less than that is left."""
        self.left -= work
        if self.left < 0:
            raise TooMuchWork


class Pattern:
    """A compiled pattern."""

    def __init__(self, text: str) -> None:
        """Raises BadPattern."""
        options = re2.Options()
        options.log_errors = False  # RE2 would write to the standard error stream of the process
        try:
            self._compiled = re2.compile(_encoded(text), options)
        except re2.error as error:
            raise BadPattern(_go_message(error)) from None
        self._size: int = self._compiled.programsize

    def is_found_in(self, text: str, budget: Budget | None = None) -> bool:
        """Return True if the text contains a match anywhere.  Raises TooMuchWork."""
        data = _encoded(text)
        (budget or Budget()).spend(self._size * (len(data) + 1))
        return self._compiled.search(data) is not None

    def all_in(self, text: str, most: int = -1, budget: Budget | None = None) -> list[str]:
        """The matches in a text from left to right.  Raises TooMuchWork.

        most: the largest number of them; negative for all
        """
        data = _encoded(text)
        spent = budget or Budget()
        found: list[str] = []
        at, before = 0, -1
        while at <= len(data) and len(found) != most:
            # A search for one of many matches may read all that is left.
            spent.spend(len(data) - at + 1)
            match = self._compiled.search(data, at)
            if match is None:
                break
            start, end = match.span()
            # An empty match right after another one does not count.
            if end > at or start != before:
                found.append(data[start:end].decode(errors="replace"))
            before = end
            at = end if end > at else at + _width(data, at)
        return found


@cached(1024)
def compile_pattern(text: str) -> Pattern:
    """Compile a pattern, or return the one that was compiled before.  Raises BadPattern."""
    return Pattern(text)


def check_pattern(text: str) -> None:
    """Check that a text is a pattern.  Raises BadPattern with Go's message."""
    compile_pattern(text)


def _width(data: bytes, at: int) -> int:
    """The bytes of the character at a place; at least one."""
    width = 1
    while at + width < len(data) and data[at + width] & 0xC0 == 0x80:
        width += 1
    return width


def _encoded(text: str) -> bytes:
    """The text in UTF-8; surrogates become U+FFFD, as in Go's JSON decoder."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text).encode()


def _go_message(error: re2.error) -> str:
    """Translate RE2's "<message>: <part of the pattern>" into Go's "<message>: `<part>`"."""
    raw = error.args[0]
    message, colon, part = (raw.decode(errors="replace") if isinstance(raw, bytes) else str(raw)).partition(
        ": "
    )
    return _GO_MESSAGES.get(message, message) + (f": `{part}`" if colon else "")
