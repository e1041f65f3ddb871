"""What the file descriptors of a process lead to: pipes, outputs, nothing.

A write never waits by itself: it takes as many bytes as there is room for. `send` and `receive` are
the parts of programs that wait.

Holds: a pipe keeps at most `PIPE_BYTES`; a reader meets the end when the last writer has closed; a
writer gets `BrokenPipe` when the last reader has.

Mirrors  pipe(7), Linux fs/pipe.c.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

from actors.node.programs.waits import Source, Wait

PIPE_BYTES = 65536  # Linux include/linux/pipe_fs_i.h: PIPE_DEF_BUFFERS pages of 4096 bytes
ALWAYS = Source(ready=True)


class BrokenPipe(Exception):
    """A write to a pipe without a reader."""


class End:
    """What a descriptor leads to.  Shared by all descriptors that were duplicated from it.

    terminal: True if programs see a terminal
    users: how many descriptors lead here; the last `close` ends it
    readable: ready if `read` returns something, also the end
    writable: ready if `write` takes something, or fails
    """

    __slots__ = ("readable", "terminal", "users", "writable")

    def __init__(self, readable: Source = ALWAYS, writable: Source = ALWAYS) -> None:
        self.terminal = False
        self.users = 1
        self.readable = readable
        self.writable = writable

    def read(self, size: int) -> bytes | None:
        """At most so many bytes; b"" at the end, None if there are none yet."""
        del size
        return b""

    def write(self, data: bytes) -> int:
        """Take bytes; returns how many."""
        return len(data)

    def share(self) -> End:
        """The same for one more descriptor."""
        self.users += 1
        return self

    def close(self) -> None:
        """One descriptor fewer leads here."""
        assert self.users > 0, "closed once too often"
        self.users -= 1
        if not self.users:
            self.ended()

    def ended(self) -> None:
        """The last descriptor was closed."""


class Null(End):
    """`/dev/null`: empty for readers, without a bottom for writers."""

    __slots__ = ()


class Output(End):
    """Bytes that go to a function: a container's log, a client that looks on."""

    __slots__ = ("_take",)

    def __init__(self, take: Callable[[bytes], None], *, terminal: bool = False) -> None:
        super().__init__()
        self.terminal = terminal
        self._take = take

    def write(self, data: bytes) -> int:
        """Take all."""
        self._take(data)
        return len(data)


class _Pipe:
    """The bytes between two ends."""

    __slots__ = ("data", "read_closed", "room", "size", "some", "write_closed")

    def __init__(self, size: int) -> None:
        self.data = bytearray()
        self.size = size
        self.some, self.room = Source(), Source(ready=True)
        self.read_closed = self.write_closed = False


class ReadEnd(End):
    """The end of a pipe that is read."""

    __slots__ = ("_pipe",)

    def __init__(self, pipe: _Pipe) -> None:
        super().__init__(readable=pipe.some)
        self._pipe = pipe

    def read(self, size: int) -> bytes | None:
        """Take what was written first."""
        pipe = self._pipe
        if not pipe.data:
            return b"" if pipe.write_closed else None
        taken = bytes(pipe.data[:size])
        del pipe.data[:size]
        if not pipe.data and not pipe.write_closed:
            pipe.some.clear()
        pipe.room.set()
        return taken

    def ended(self) -> None:
        """There is no reader any more."""
        self._pipe.read_closed = True
        self._pipe.data.clear()
        self._pipe.room.set()


class WriteEnd(End):
    """The end of a pipe that is written."""

    __slots__ = ("_pipe",)

    def __init__(self, pipe: _Pipe) -> None:
        super().__init__(writable=pipe.room)
        self._pipe = pipe

    def write(self, data: bytes) -> int:
        """Take what there is room for.  Raises BrokenPipe without a reader."""
        pipe = self._pipe
        if pipe.read_closed:
            raise BrokenPipe
        taken = data[: pipe.size - len(pipe.data)]
        if taken:
            pipe.data += taken
            pipe.some.set()
        if len(pipe.data) >= pipe.size:
            pipe.room.clear()
        return len(taken)

    def ended(self) -> None:
        """There is no writer any more."""
        self._pipe.write_closed = True
        self._pipe.some.set()


def pipe(size: int = PIPE_BYTES) -> tuple[ReadEnd, WriteEnd]:
    """A new pipe: the end that is read, and the end that is written."""
    made = _Pipe(size)
    return ReadEnd(made), WriteEnd(made)


def send(end: End, data: bytes) -> Generator[Wait, None, None]:
    """Write all of these bytes, and wait for room as often as need be.  Raises BrokenPipe."""
    while data:
        data = data[end.write(data) :]
        if data:
            yield Wait((end.writable,))


def receive(end: End, size: int = PIPE_BYTES) -> Generator[Wait, None, bytes]:
    """The next bytes, at most so many; b"" at the end."""
    while (data := end.read(size)) is None:
        yield Wait((end.readable,))
    return data


def receive_all(end: End, size_max: int) -> Generator[Wait, None, bytes]:
    """Everything up to the end; what is beyond `size_max` bytes is read and dropped."""
    held = bytearray()
    while data := (yield from receive(end)):
        held += data[: max(0, size_max - len(held))]
    return bytes(held)
