"""Errors of a rule with the line of its text that they are about.

Mirrors  cel-go v0.12 common/error.go, checker/checker.go (locationByID).
"""

from __future__ import annotations

SNIPPET_BYTES_MAX = 16384


def place_of(text: str, offset: int) -> tuple[int, int]:
    """The line and column of an offset.

    Quirk: the first character of a line counts as a column of the line before.
    """
    line, column = 1, offset
    for start in (i + 1 for i, char in enumerate(text) if char == "\n"):
        if start >= offset:
            break
        line, column = line + 1, offset - start
    return line, column


def located(text: str, line: int, column: int, said: str) -> str:
    """An error with the line of the text and a mark at its column, which starts at 0."""
    found = f"ERROR: <input>:{line}:{column + 1}: {said}"
    lines = text.split("\n")
    if line > len(lines) or len(lines[line - 1].encode()) > SNIPPET_BYTES_MAX:
        return found
    snippet = lines[line - 1].replace("\t", " ")
    before = "".join("." if char.isascii() else "\uff0e" for char in snippet[:column])
    mark = "^" if column >= len(snippet) or snippet[column].isascii() else "\uff3e"
    return f"{found}\n | {snippet}\n | {before}{mark}"
