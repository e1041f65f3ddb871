"""What commands show of an inode: permissions, names of users and groups, times, sizes.

Mirrors  ls(1) -l of GNU coreutils and busybox; getpwnam(3), getgrnam(3) over /etc of the container.
"""

from __future__ import annotations

import datetime

from actors.node.programs.commands.tool import Failed, Tool
from actors.node.programs.files.errors import FileError
from actors.node.programs.files.inodes import Device, Directory, Inode
from sim.units import SECOND

_RECENT_US = 15_778_476 * SECOND  # half a year: `ls -l` shows the time of day of younger files
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def moment(wall_us: int) -> datetime.datetime:
    """A reading of the clock as date and time, in UTC; within the years 1 to 9999."""
    return _EPOCH + datetime.timedelta(
        microseconds=max(-62_135_596_800_000_000, min(wall_us, 253_402_300_799_000_000))
    )


def now(tool: Tool) -> int:
    """The reading of the node's clock."""
    return int(tool.process.container.wall_us(tool.process.now_us))


def mode_text(inode: Inode) -> str:
    """The type and the permissions: -rwxr-xr-x."""
    letters = ["rwx"[at % 3] if inode.mode >> (8 - at) & 1 else "-" for at in range(9)]
    for bit, at, letter in ((0o4000, 2, "s"), (0o2000, 5, "s"), (0o1000, 8, "t")):
        if inode.mode & bit:
            letters[at] = letter if letters[at] == "x" else letter.upper()
    return inode.kind + "".join(letters)


def time_text(mtime_us: int, now_us: int) -> str:
    """The time that `ls -l` shows."""
    at = moment(mtime_us)
    clock = f"{at:%H:%M}" if now_us - _RECENT_US < mtime_us <= now_us else f" {at.year}"
    return f"{_MONTHS[at.month - 1]} {at.day:2d} {clock}"


def full_time(mtime_us: int) -> str:
    """The time that `stat` shows."""
    return f"{moment(mtime_us):%Y-%m-%d %H:%M:%S}.{mtime_us % SECOND * 1000:09d} +0000"


def size_text(size: int) -> str:
    """A size as -h shows it: 1.5K, 12M."""
    if size < 1024:
        return str(size)
    for unit in "KMGTPE":
        if size < 10 * 1024:
            tenths = -(-size * 10 // 1024)
            if tenths < 100:
                return f"{tenths // 10}.{tenths % 10}{unit}"
        if size < 1024 * 1024:
            whole = -(-size // 1024)
            if whole < 1024:
                return f"{whole}{unit}"
        size = -(-size // 1024)
    return f"{size}E"


def links(inode: Inode) -> int:
    """How many names lead to it; to a directory also those below it."""
    if isinstance(inode, Directory):
        return 2 + sum(one.kind == "d" for one in inode.entries.values())
    return inode.links


def ident(inode: Inode, human: bool) -> str:
    """The size, or the numbers of a device."""
    if isinstance(inode, Device):
        return f"{inode.numbers[0]}, {inode.numbers[1]:3d}"
    return size_text(inode.size) if human else str(inode.size)


class People:
    """The users and groups of the container."""

    __slots__ = ("groups", "homes", "members", "primary", "shells", "users")

    def __init__(self, tool: Tool) -> None:
        self.users: dict[str, int] = {}
        self.primary: dict[str, int] = {}
        self.homes: dict[str, str] = {}
        self.shells: dict[str, str] = {}
        self.members: dict[str, list[int]] = {}  # name of a user -> groups
        self.groups: dict[str, int] = {}
        for path, held in (("/etc/passwd", self.users), ("/etc/group", self.groups)):
            try:
                rows = tool.files.read(path).decode("utf-8", "replace").splitlines()
            except FileError:
                rows = []
            for row in rows:
                parts = row.split(":")
                if len(parts) > 2 and parts[2].isdigit():
                    held.setdefault(parts[0], int(parts[2][:10]))
                    for member in parts[3].split(",") if held is self.groups and len(parts) > 3 else ():
                        self.members.setdefault(member, []).append(int(parts[2][:10]))
                    if held is self.users and len(parts) > 6:
                        self.shells.setdefault(parts[0], parts[6])
                    if held is self.users and len(parts) > 5:
                        self.homes.setdefault(parts[0], parts[5])
                        self.primary.setdefault(parts[0], int(parts[3][:10]) if parts[3].isdigit() else 0)

    def user(self, uid: int) -> str:
        """The name of a user, or its number."""
        return next((name for name, number in self.users.items() if number == uid), str(uid))

    def group(self, gid: int) -> str:
        """The name of a group, or its number."""
        return next((name for name, number in self.groups.items() if number == gid), str(gid))

    def owner(self, text: str, busybox: bool) -> tuple[int, int]:
        """The numbers that USER:GROUP names; -1 for a part that is not there.  Raises Failed."""
        user, colon, group = text.partition(":")
        if not colon and "." in user and user not in self.users:
            user, colon, group = text.partition(".")
        uid = gid = -1
        if user:
            uid = self._number(user, self.users, "user", busybox)
            if colon and not group:
                gid = self.primary.get(user, uid)
        if group:
            gid = self._number(group, self.groups, "group", busybox)
        return uid, gid

    @staticmethod
    def _number(text: str, held: dict[str, int], what: str, busybox: bool) -> int:
        if text in held:
            return held[text]
        if text.isdigit() and len(text) <= 10:
            return int(text)
        raise Failed(f"unknown {what} {text}" if busybox else f"invalid {what}: '{text}'")
