"""The input of awk: records of a file or of another program's output, and their fields.

Mirrors  POSIX.1-2017 XCU awk: RS and FS; a longer RS is a pattern, as in gawk, mawk and busybox.
Differs  an input with a pattern or "" as RS is read whole, at most `INPUT_MAX` bytes.
"""

from __future__ import annotations

from collections.abc import Generator

from actors.node.programs.commands.awk.values import Typed
from actors.node.programs.commands.patterns import Pattern
from actors.node.programs.commands.tool import INPUT_MAX, Lines
from actors.node.programs.ends import End
from actors.node.programs.process import Process
from actors.node.programs.waits import Wait

FIELDS_MAX = 100_000  # of one record: more than a line has bytes
_SPECIAL = set("\\.[]{}()*+?^$|")


def ere(text: str) -> Pattern:
    """An extended pattern.  Raises Failed."""
    return Pattern(text.encode("latin-1"), extended=True)


def fields_of(text: str, separator: str) -> list[str]:
    """The fields of a text."""
    if not text:
        return []
    if separator == " ":
        return text.split()
    if separator == "":
        return list(text)
    if (len(separator) == 1 and separator not in _SPECIAL - {"|"}) or separator == "\t":
        return text.split(separator)
    pattern, stored, at, begin, data = ere(separator), list[str](), 0, 0, text.encode("latin-1")
    while (result := pattern.search(data, at)) is not None and len(stored) < FIELDS_MAX:
        if result.end == result.start:
            at = result.end + 1
            if at > len(data):
                break
            continue
        stored.append(text[begin : result.start])
        at = begin = result.end
    return [*stored, text[begin:]]


class Records:
    """The records of one input.  process: the program that writes it, if one does"""

    __slots__ = ("_lines", "_waiting", "end", "process")

    def __init__(self, end: End, process: Process | None = None) -> None:
        self.end = end
        self.process = process
        self._lines = Lines(end)
        self._waiting: list[str] | None = None

    def record(self, separator: str) -> Generator[Wait, None, str | None]:
        """The next record; None after the last."""
        if self._waiting is None and len(separator) == 1:
            stop = separator.encode("latin-1")
            line = yield from self._lines.line(stop)
            return Typed(line.removesuffix(stop).decode("latin-1")) if line else None
        if self._waiting is None:
            self._waiting = (yield from self._whole(separator))[::-1]
        return Typed(self._waiting.pop()) if self._waiting else None

    def _whole(self, separator: str) -> Generator[Wait, None, list[str]]:
        current = bytearray()
        while data := (yield from self._lines.chunk()):
            current += data[: max(0, INPUT_MAX - len(current))]
        text = current.decode("latin-1")
        if separator:
            result = fields_of(text.removesuffix("\n"), separator)
            return result[:-1] if result and not result[-1] else result
        return fields_of(text.strip("\n"), "\n\n+")
