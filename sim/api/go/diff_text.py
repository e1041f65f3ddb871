"""The layout of a difference: records with marks, keys, values and comments.

Turns a tree of texts into lines: what fits is written on one line; a list with a mark or a comment
has a line for each of its records, with the values of neighbours aligned.

Mirrors  go-cmp v0.5.6 cmp/report_text.go.
Differs  spaces are plain; upstream's program has wider ones in every second run, by chance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sim.pauses import spent

RECORDS_US = 20  # of processor time, for one list of records without those below
LINE_MAX = 80


class Wrap(NamedTuple):
    """A text around another, such as a type and braces."""

    prefix: str
    value: Text
    suffix: str


class Record(NamedTuple):
    """A member of a list.

    mark: "-" or "+" for what one side has, "" for what both have
    comma: False for what is left out
    """

    value: Text
    key: str = ""
    mark: str = ""
    comment: str = ""
    comma: bool = True


Text = str | Wrap | list[Record]
NIL, ELLIPSIS = "nil", "..."


def laid_out(text: Text) -> str:
    """The lines of a text."""
    return f"  {_expanded(_compacted(text, ''), '', 0)}\n"


def _compacted(text: Text, mark: str) -> Text:
    """The text with each part that fits on one line as a string."""
    if isinstance(text, str):
        return text
    if isinstance(text, Wrap):
        inner = _compacted(text.value, mark)
        if isinstance(inner, str):
            return f"{text.prefix}{inner}{text.suffix}"
        return text._replace(value=inner)
    records = [record._replace(value=_compacted(record.value, record.mark or mark)) for record in text]
    parts = []
    for record in records:
        if record.mark or record.comment or not isinstance(record.value, str):
            return records
        parts.append(f"{record.key}: {record.value}" if record.key else record.value)
    line = ", ".join(parts)
    return records if mark and len(line.encode()) > LINE_MAX else line


def _indent(depth: int, mark: str) -> str:
    return f"\n{mark or ' '} " + "\t" * depth


def _expanded(text: Text, mark: str, depth: int) -> str:
    if isinstance(text, str):
        return text
    if isinstance(text, Wrap):
        return f"{text.prefix}{_expanded(text.value, mark, depth)}{text.suffix}"
    spent(RECORDS_US)
    end = _indent(depth, mark)
    depth += 1
    if text and all(not (r.mark or r.key or r.comment) and isinstance(r.value, str) for r in text):
        return "".join(_indent(depth, mark) + line for line in _filled(text)) + end
    keys = _widths(text, lambda r: len(r.key) if r.key and isinstance(r.value, str) else None)
    values = _widths(
        text,
        lambda r: len(r.value) if isinstance(r.value, str) and r.value != ELLIPSIS and r.comment else None,
    )
    lines = []
    for record, before, behind in zip(text, keys, values, strict=True):
        line = _indent(depth, record.mark or mark)
        if record.key:
            line += f"{record.key}: "
        line += " " * before + _expanded(record.value, record.mark or mark, depth)
        line += ("," if record.comma else "") + " " * behind
        lines.append(line + (f" // {record.comment}" if record.comment else ""))
    return "".join(lines) + end


def _filled(records: list[Record]) -> list[str]:
    """Lines of several short values each."""
    lines, line = [], ""
    for record in records:
        value = str(record.value)
        if line and len((line + value).encode()) + 2 > LINE_MAX:
            lines.append(line.rstrip(" "))
            line = ""
        line += f"{value}, "
    return [*lines, line.rstrip(" ")]


def _widths(records: list[Record], length: Callable[[Record], int | None]) -> list[int]:
    """The spaces that align each run of neighbours that have a length."""
    lengths = [length(record) for record in records]
    widths = [0] * len(records)
    start = 0
    for end in range(len(records) + 1):
        if end < len(records) and lengths[end] is not None:
            continue
        run = [each for each in lengths[start:end] if each is not None]
        for at, each in enumerate(run, start):
            widths[at] = max(run) - each
        start = end + 1
    return widths


def size(text: Text) -> int:
    """The bytes of a text on one line."""
    if isinstance(text, str):
        return len(text.encode())
    if isinstance(text, Wrap):
        return len(text.prefix) + size(text.value) + len(text.suffix)
    return sum(len(r.key) + 2 * bool(r.key) + size(r.value) for r in text) + 2 * max(0, len(text) - 1)
