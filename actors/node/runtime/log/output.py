"""What the programs of a container have written, as lines with their time and their stream.

Turns the bytes that processes write into the lines of a log file, which is rotated.

Holds: a line is in the log from the instant at which its last byte was written; no more than
       `KEPT_BYTES_MAX` bytes of a log are kept, the oldest lines are dropped first.

Mirrors  containerd pkg/cri/io/logger.go: redirectLogs (a line that is longer than the limit, and
         one without its end, are partial lines); pkg/kubelet/kuberuntime/logs/logs.go: what is
         shown of a partial line does not end with a line break (v1.25).
Differs  a file that has been rotated is only counted: no request reads it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from actors.node.programs.waits import Source
from actors.node.runtime.log.files import COMPRESSION

LINE_BYTES_MAX = 16 * 1024  # containerd pkg/cri/config: MaxContainerLogLineSize
# A log that nothing rotates, as its agent does not run, must not fill the memory of the simulation.
KEPT_BYTES_MAX = 16 << 20
HEADER_BYTES = len("2026-01-01T00:00:00.000000000Z stdout F ")  # of each line in the file


class Line(NamedTuple):
    """One line of a log.

    at_us: when it was written, in virtual time
    stream: stdout or stderr
    data: its bytes, with a line break at the end unless the line is partial
    """

    at_us: int
    stream: str
    data: bytes


class ContainerLog:
    """The log of one instance of a container that runs programs.

    lines: those of the present file, oldest first
    first: the number of the oldest of them, counted from the first line that was ever written
    written: ready, and set again, each time when lines are written or the log ends
    size: bytes of the present file
    rotated: sizes of the other files, newest first; only the first is not compressed
    ended: True once nothing more will be written
    """

    __slots__ = ("_rests", "ended", "first", "lines", "rotated", "size", "written")

    def __init__(self) -> None:
        self.lines: deque[Line] = deque()
        self.first = 0
        self.written = Source()
        self.size = 0
        self.rotated: tuple[int, ...] = ()
        self.ended = False
        self._rests: dict[str, bytes] = {}

    @property
    def whole(self) -> int:
        """The size of all files."""
        return self.size + sum(self.rotated)

    def after(self, number: int) -> Iterable[Line]:
        """The kept lines from a number on, for a reader that follows the log."""
        return islice(self.lines, max(0, number - self.first), None)

    def note(self, text: str, now_us: int) -> None:
        """Write a line of its own to stderr."""
        self._add_line("stderr", text.encode("utf-8", "surrogateescape") + b"\n", now_us)
        self.written.set()

    def take(self, stream: str, data: bytes, now_us: int) -> None:
        """Write bytes to a stream."""
        *whole, rest = (self._rests.pop(stream, b"") + data).split(b"\n")
        for line in whole:
            self._add_line(stream, line + b"\n", now_us)
        while len(rest) > LINE_BYTES_MAX:
            self._add(Line(now_us, stream, rest[:LINE_BYTES_MAX]))
            rest = rest[LINE_BYTES_MAX:]
        if rest:
            self._rests[stream] = rest
        self.written.set()

    def end(self, now_us: int) -> None:
        """Nothing more is written: what has no line break is a partial line."""
        for stream, rest in sorted(self._rests.items()):
            self._add(Line(now_us, stream, rest))
        self._rests = {}
        self.ended = True
        self.written.set()

    def rotate(self, files_max: int) -> None:
        """Begin a new file.  files_max: bounds the files, as in `LogFiles.rotate`"""
        kept = self.rotated[: files_max - 2]
        self.rotated = (self.size, *((kept[0] // COMPRESSION, *kept[1:]) if kept else ()))
        self.first += len(self.lines)
        self.lines.clear()
        self.size = 0

    def _add_line(self, stream: str, data: bytes, now_us: int) -> None:
        while len(data) > LINE_BYTES_MAX + 1:  # the line break does not count
            self._add(Line(now_us, stream, data[:LINE_BYTES_MAX]))
            data = data[LINE_BYTES_MAX:]
        self._add(Line(now_us, stream, data))

    def _add(self, line: Line) -> None:
        self.lines.append(line)
        self.size += HEADER_BYTES + len(line.data)
        while self.size > KEPT_BYTES_MAX:
            self.size -= HEADER_BYTES + len(self.lines.popleft().data)
            self.first += 1
