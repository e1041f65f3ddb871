"""Text on its way to a terminal.

Turns text from files and clients into what a terminal shows and does not obey: a control character
(an escape sequence can rename the window, hide lines, or type for the user) is shown by its
picture, and a mark that changes the direction of writing (it can make a name look like another)
by the replacement character.

Holds: line ends and tabs stay; a text without control characters and such marks is unchanged; JSON
stays the same value.
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

from sim.errors import InputError, each_error

NAME_MAX, BETWEEN = 44, "  "
_KEPT = (ord("\n"), ord("\t"))
_HIGH = range(0x7F, 0xA0)  # DEL and the control characters of 8 bits
# The marks of direction in Unicode's property Bidi_Control (UAX 9).
_MARKS = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_PICTURES = {code: chr(0x2400 + code) for code in range(0x20) if code not in _KEPT}
_PICTURES |= dict.fromkeys((*_HIGH, *_MARKS), "\N{REPLACEMENT CHARACTER}") | {0x7F: "\N{SYMBOL FOR DELETE}"}
_ESCAPES = {code: f"\\u{code:04x}" for code in (*_HIGH, *_MARKS)}


def visible(text: str) -> str:
    """The text with a picture in the place of each control character and mark of direction."""
    return text.translate(_PICTURES)


def table_lines(rows: Sequence[Sequence[str]], width: int = 0) -> list[str]:
    """Rows as lines; the columns begin below each other.

    width: number of letters of a line, beyond which the last column is wrapped; 0: no limit.  A
        name of more than `NAME_MAX` letters then has a line of its own.
    """
    if not rows:
        return []
    widths = [max(map(len, column)) for column in [*zip(*rows, strict=True)][:-1]]
    if width:
        widths[0] = min(widths[0], NAME_MAX)
    lines = []
    for *cells, last in rows:
        if len(cells[0]) > widths[0]:
            lines.append(cells[0])
            cells[0] = ""
        room = width - sum(widths) - len(BETWEEN) * len(widths)
        for text in textwrap.wrap(last, room, break_on_hyphens=False) if width and last else [last]:
            padded = [f"{cell:{size}}" for cell, size in zip(cells, widths, strict=True)]
            lines.append(BETWEEN.join([*padded, text]).rstrip())
            cells = [""] * len(cells)
    return lines


def print_table(rows: Sequence[Sequence[str]], width: int = 0) -> None:
    """Print the lines of `table_lines`, or nothing without rows."""
    for line in table_lines(rows, width):
        print(visible(line))


def json_line(value: Any) -> str:
    """JSON on one line, in which control characters and marks of direction are escaped."""
    return json.dumps(value, ensure_ascii=False).translate(_ESCAPES)


def tell(note: str) -> None:
    """Print a note to standard error, unless it is empty."""
    if note:
        print(visible(f"orrery: {note}"), file=sys.stderr)


def tell_each(error: InputError) -> None:
    """Print every error of an input, one a line."""
    for one in each_error(error):
        tell(str(one))
