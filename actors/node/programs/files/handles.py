"""What an opened file leads to: bytes at a position.

Mirrors  open(2), lseek(2): descriptors that were duplicated share the position.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntFlag

from actors.node.programs.ends import End
from actors.node.programs.files.errors import FileError
from actors.node.programs.files.inodes import File, FileCaller, Generated, Inode, Program


class Open(IntFlag):
    """How a file is opened."""

    READ = 1
    WRITE = 2
    APPEND = 4
    CREATE = 8
    EXCLUSIVE = 16
    TRUNCATE = 32


# What the redirections of a shell mean.
READING = Open.READ
WRITING = Open.WRITE | Open.CREATE | Open.TRUNCATE
APPENDING = Open.WRITE | Open.CREATE | Open.APPEND
BOTH = Open.READ | Open.WRITE | Open.CREATE


class Handle(End):
    """An opened file.  at: the position of the next read or write"""

    __slots__ = ("_now_us", "at", "flags", "inode")

    def __init__(self, inode: File, flags: Open, now_us: Callable[[], int]) -> None:
        super().__init__()
        self.inode = inode
        self.flags = flags
        self.at = 0
        self._now_us = now_us
        inode.opened += 1

    def read(self, size: int) -> bytes:
        """The next bytes; b"" at the end.  Raises EBADF if it was not opened for reading."""
        if not self.flags & Open.READ:
            raise FileError("EBADF")
        data = self.inode.read(self.at, size)
        self.at += len(data)
        return data

    def write(self, data: bytes) -> int:
        """Write at the position; returns how many bytes there was room for.  Raises FileError."""
        if not self.flags & Open.WRITE:
            raise FileError("EBADF")
        if self.flags & Open.APPEND:
            self.at = self.inode.size
        taken = self.inode.write(self.at, data, self._now_us())
        self.at += taken
        return taken

    def ended(self) -> None:
        """The last descriptor was closed."""
        self.inode.opened -= 1
        self.inode.release()


class Shown(End):
    """Content that was made when the file was opened."""

    __slots__ = ("_rest", "inode")

    def __init__(self, inode: Generated | Program, by: FileCaller) -> None:
        super().__init__()
        self.inode: Inode = inode
        self._rest = inode.content(by)

    def read(self, size: int) -> bytes:
        """The next bytes; b"" at the end."""
        data, self._rest = self._rest[:size], self._rest[size:]
        return data

    def write(self, data: bytes) -> int:
        """It cannot be written."""
        del data
        raise FileError("EINVAL")
