"""Files, directories and links in memory, and the count of what they take.

A file keeps the bytes up to the last one that is not zero; zeros after it are only counted, so that
`dd if=/dev/zero` fills a volume without filling the memory of the simulation.

Holds: `bytes_used` and `inodes_used` of a `Filesystem` are the sums over its inodes that have a
       name or are open; a write takes as many bytes as fit and fails only if none do.

Mirrors  inode(7); the counts are those of statfs(2) for ext4: whole blocks of 4 KiB, one for a
         directory, none for a short link.
Differs  a hole of a file is counted like zeros that were written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from actors.node.programs.files.errors import FileError
from actors.node.programs.process import Identity, Process
from actors.node.programs.waits import Source

if TYPE_CHECKING:
    from actors.node.programs.ends import End

BLOCK = 4096
# Of one file, in bytes: ext4's limit with blocks of 4 KiB.
FILE_BYTES_MAX = 1 << 44
# Bytes other than zeros at the end that the files of one filesystem hold in memory: more than what
# scripts of charts write, and little enough for hundreds of pods.
HELD_MAX = 64 << 20
INODES_MAX = 65_536  # of one filesystem; each takes half a KiB of memory
SETUID, SETGID, STICKY = 0o4000, 0o2000, 0o1000


class Outside:
    """The node agent and the container runtime, which may do everything."""

    cwd = "/"
    identity = Identity()
    umask = 0


OUTSIDE = Outside()
# What an operation is asked by.
FileCaller = Process | Outside


def blocks(size: int) -> int:
    """The bytes that a file of this size takes."""
    return -(-size // BLOCK) * BLOCK


class Filesystem:
    """What a volume or a layer takes, and how much it may take.

    kind: its type, as `mount` lists it; source: what it was mounted from
    bytes_max: its size; inodes_max: how many inodes it has room for
    device: its number, which is another for each filesystem
    """

    __slots__ = (
        "bytes_max", "bytes_used", "device", "held", "inodes_max", "inodes_used", "kind", "numbers", "source",
    )  # fmt: skip

    def __init__(
        self,
        kind: str = "ext4",
        *,
        source: str = "/dev/sda1",
        bytes_max: int = 100 << 30,
        inodes_max: int = INODES_MAX,
        device: int = 0x801,
    ) -> None:
        self.kind = kind
        self.source = source
        self.bytes_max = bytes_max
        self.inodes_max = min(inodes_max, INODES_MAX)
        self.device = device
        self.bytes_used = self.inodes_used = self.held = 0
        self.numbers = 1

    def take(self, size: int, inodes: int = 0) -> None:
        """Count more.  Raises ENOSPC if there is no room."""
        if self.bytes_used + size > self.bytes_max or self.inodes_used + inodes > self.inodes_max:
            raise FileError("ENOSPC")
        self.bytes_used += size
        self.inodes_used += inodes

    def give_back(self, size: int, inodes: int = 0) -> None:
        """Count less; files of the image, which were never counted, take nothing off."""
        self.bytes_used = max(0, self.bytes_used - size)
        self.inodes_used = max(0, self.inodes_used - inodes)


class Inode:
    """What a name in a directory leads to.

    mode: permission bits with set-user-id, set-group-id and sticky
    mtime_us: when its content changed last, by the clock of the node
    links: how many names lead here; opened: how many handles do
    """

    __slots__ = ("filesystem", "gid", "links", "mode", "mtime_us", "number", "opened", "uid")
    kind: ClassVar[str] = "-"  # the first letter of `ls -l`

    def __init__(
        self, filesystem: Filesystem, mode: int, mtime_us: int = 0, uid: int = 0, gid: int = 0
    ) -> None:
        filesystem.take(self.taken, 1)
        self.filesystem = filesystem
        self.mode = mode
        self.mtime_us = mtime_us
        self.uid = uid
        self.gid = gid
        self.links = self.opened = 0
        filesystem.numbers += 1
        self.number = filesystem.numbers

    @property
    def size(self) -> int:
        """The size that `ls -l` shows."""
        return 0

    @property
    def taken(self) -> int:
        """How many bytes of the filesystem it takes."""
        return 0

    def allows(self, identity: Identity, want: int) -> bool:
        """True if a user may read (4), write (2) and execute or search (1), or several of them."""
        if identity.uid == self.uid:
            bits = self.mode >> 6
        elif identity.gid == self.gid or self.gid in identity.groups:
            bits = self.mode >> 3
        else:
            bits = self.mode
        if bits & want == want:
            return True
        if identity.may("DAC_OVERRIDE"):
            return not want & 1 or self.kind == "d" or bool(self.mode & 0o111)
        # Linux fs/namei.c: generic_permission
        return want & (2 if self.kind == "d" else 3) == 0 and identity.may("DAC_READ_SEARCH")

    def release(self) -> None:
        """Give back what it takes if nothing leads to it any more."""
        if not self.links and not self.opened:
            self.filesystem.give_back(self.taken, 1)
            self.emptied()

    def emptied(self) -> None:
        """Its content is gone."""


class Directory(Inode):
    """Names and what they lead to."""

    __slots__ = ("entries",)
    kind: ClassVar[str] = "d"

    def __init__(
        self, filesystem: Filesystem, mode: int, mtime_us: int = 0, uid: int = 0, gid: int = 0
    ) -> None:
        super().__init__(filesystem, mode, mtime_us, uid, gid)
        self.entries: dict[str, Inode] = {}

    @property
    def size(self) -> int:
        """One block."""
        return BLOCK

    @property
    def taken(self) -> int:
        """One block."""
        return BLOCK

    def entry(self, name: str, by: FileCaller) -> Inode | None:
        """What a name leads to."""
        del by
        return self.entries.get(name)

    def names(self, by: FileCaller) -> list[str]:
        """The names in it, sorted."""
        del by
        return sorted(self.entries)

    def add(self, name: str, inode: Inode, now_us: int) -> None:
        """Let a free name lead to an inode."""
        assert name not in self.entries, f"{name} exists"
        inode.links += 1
        self.entries[name] = inode
        self.mtime_us = now_us

    def drop(self, name: str, now_us: int) -> None:
        """Take a name away, with all that is below it."""
        inode = self.entries.pop(name)
        self.mtime_us = now_us
        waiting = [inode]
        while waiting:
            inode = waiting.pop()
            inode.links -= 1
            if not inode.links and isinstance(inode, Directory):
                waiting += inode.entries.values()
                inode.entries = {}
            inode.release()


class Symlink(Inode):
    """A link by path."""

    __slots__ = ("target",)
    kind: ClassVar[str] = "l"

    def __init__(
        self, filesystem: Filesystem, target: str, mtime_us: int = 0, uid: int = 0, gid: int = 0
    ) -> None:
        super().__init__(filesystem, 0o777, mtime_us, uid, gid)
        self.target = target

    @property
    def size(self) -> int:
        """The length of the path."""
        return len(self.target.encode("utf-8", "surrogateescape"))


class File(Inode):
    """A regular file: `held`, and zeros up to `size`.

    changed: ready after a write, for `tail -f`, which makes it
    """

    __slots__ = ("_size", "changed", "held")

    def __init__(
        self,
        filesystem: Filesystem,
        mode: int,
        mtime_us: int = 0,
        uid: int = 0,
        gid: int = 0,
        data: bytes = b"",
    ) -> None:
        self._size = 0
        self.held = bytearray()
        self.changed: Source | None = None
        super().__init__(filesystem, mode, mtime_us, uid, gid)
        if data:
            self.write(0, data, mtime_us)

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return self._size

    @property
    def taken(self) -> int:
        """Whole blocks."""
        return blocks(self._size)

    def read(self, at: int, size: int) -> bytes:
        """Bytes from a position on, at most so many."""
        size = max(0, min(size, self._size - at))
        data = bytes(self.held[at : at + size])
        return data + bytes(size - len(data))

    def write(self, at: int, data: bytes, now_us: int) -> int:
        """Put bytes at a position; returns how many there was room for.  Raises ENOSPC and EFBIG."""
        filesystem = self.filesystem
        if not data:
            return 0
        if at >= FILE_BYTES_MAX:
            raise FileError("EFBIG")
        room = self.taken + filesystem.bytes_max - filesystem.bytes_used
        data = data[: max(0, min(room // BLOCK * BLOCK, FILE_BYTES_MAX) - at)]
        end = at + len(data)
        if at < len(self.held) or data != bytes(len(data)):
            more = max(0, end - len(self.held))
            fits = min(more, HELD_MAX - filesystem.held)
            data, end = data[: max(0, len(data) - more + fits)], end - more + fits
            if data:
                filesystem.held += max(0, end - len(self.held))
                if len(self.held) < at:
                    self.held += bytes(at - len(self.held))
                self.held[at:end] = data
        if not data:
            raise FileError("ENOSPC")
        filesystem.take(blocks(max(self._size, end)) - self.taken)
        self._size = max(self._size, end)
        self._touched(now_us)
        return len(data)

    def truncate(self, size: int, now_us: int) -> None:
        """Cut it, or fill it up with zeros.  Raises ENOSPC and EFBIG."""
        if size > FILE_BYTES_MAX:
            raise FileError("EFBIG")
        change = blocks(size) - self.taken
        if change > 0:
            self.filesystem.take(change)
        else:
            self.filesystem.give_back(-change)
        cut = max(0, len(self.held) - size)
        if cut:
            del self.held[size:]
            self.filesystem.held -= cut
        self._size = size
        self._touched(now_us)

    def emptied(self) -> None:
        """Its bytes are gone."""
        self.filesystem.held -= len(self.held)
        self.held = bytearray()
        self._size = 0

    def _touched(self, now_us: int) -> None:
        self.mtime_us = now_us
        if self.changed is not None:
            self.changed.set()


# The first bytes of a program's file; its name follows, so that a copy still is the program.
PROGRAM_MAGIC = b"\x7fELF\x02\x01\x01\x00program:"


class Program(Inode):
    """The file of a known program.  name: under which `Tree.programs` has it"""

    __slots__ = ("name", "shown")

    def __init__(
        self, filesystem: Filesystem, name: str, mtime_us: int = 0, shown: int = 1 << 20, mode: int = 0o755
    ) -> None:
        super().__init__(filesystem, mode, mtime_us)
        self.name = name
        self.shown = shown

    @property
    def size(self) -> int:
        """The size that is shown."""
        return self.shown

    def content(self, by: FileCaller) -> bytes:
        """What a copy has, by which it still is the program."""
        del by
        return PROGRAM_MAGIC + self.name.encode() + b"\n"


class Generated(Inode):
    """A file with content that the kernel makes when it is read."""

    __slots__ = ("_make",)

    def __init__(self, filesystem: Filesystem, make: Callable[[Any], bytes], mode: int = 0o444) -> None:
        super().__init__(filesystem, mode)
        self._make = make

    def content(self, by: FileCaller) -> bytes:
        """What a process reads."""
        return self._make(by)


class Device(Inode):
    """A device, or what a descriptor of a process leads to.

    lead: what opening it leads to; raises FileError
    numbers: major and minor
    """

    __slots__ = ("lead", "numbers")
    kind: ClassVar[str] = "c"

    def __init__(
        self,
        filesystem: Filesystem,
        lead: Callable[[Any], End],
        numbers: tuple[int, int] = (1, 3),
        mode: int = 0o666,
    ) -> None:
        super().__init__(filesystem, mode)
        self.lead = lead
        self.numbers = numbers
