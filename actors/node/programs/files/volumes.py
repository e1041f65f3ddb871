"""Files of a volume that change all at once, and the group that owns them.

Mirrors  pkg/volume/util/atomic_writer.go: Write; pkg/volume/volume_linux.go: SetVolumeOwnership
         (v1.25).
Differs  the end of a directory's name with a time is no random number but one that follows from the
         time.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Mapping

from actors.node.programs.files.inodes import SETGID, Directory, File, Inode, Symlink
from actors.node.programs.files.payloads import PayloadError, Projected
from actors.node.programs.files.tree import NAME_MAX, PATH_MAX, Volume

DATA = "..data"


def path_problem(path: str) -> str:
    """What is wrong with a path of a payload; "" if nothing is."""
    if not path:
        return 'invalid path: must not be empty: ""'
    if path.startswith("/"):
        return f"invalid path: must be relative path: {path}"
    if len(path) > PATH_MAX:
        return f"invalid path: must be less than or equal to {PATH_MAX} characters"
    names = path.split("/")
    for name in names:
        if name == "..":
            return f"invalid path: must not contain '..': {path}"
        if len(name) > NAME_MAX:
            return f"invalid path: filenames must be less than or equal to {NAME_MAX} characters"
    if names[0].startswith("..") and len(names[0]) > 2:
        return f"invalid path: must not start with '..': {path}"
    return ""


def project(volume: Volume, payload: Mapping[str, Projected], wall_us: int) -> bool:
    """Let a volume have these files, all at once; False if it has them already.

    Raises PayloadError before anything has changed, and FileError if there is no room.
    """
    wanted: dict[str, Projected] = {}
    for path in sorted(payload):
        problem = path_problem(path)
        if problem:
            raise PayloadError(problem)
        wanted["/".join(name for name in path.split("/") if name not in ("", "."))] = payload[path]
    root = volume.root
    assert isinstance(root, Directory), root
    link = root.entries.get(DATA)
    old = root.entries.get(link.target) if isinstance(link, Symlink) else None
    held = _files(old) if isinstance(old, Directory) else {}
    gone = sorted(_with_parents(held) - _with_parents(wanted))
    if (
        isinstance(old, Directory)
        and not gone
        and all(
            path in held and held[path].read(0, held[path].size) == one.data for path, one in wanted.items()
        )
    ):
        return False
    filesystem, name = volume.filesystem, _time_name(wall_us, root)
    made = Directory(filesystem, 0o755, wall_us)
    for path, one in wanted.items():
        folder = made
        *above, last = path.split("/")
        for part in above:
            below = folder.entries.get(part)
            if below is None:
                below = Directory(filesystem, 0o755, wall_us)
                folder.add(part, below, wall_us)
            assert isinstance(below, Directory), path
            folder = below
        folder.add(last, File(filesystem, one.mode, wall_us, one.uid or 0, 0, one.data), wall_us)
    root.add(name, made, wall_us)
    for first in sorted({path.split("/")[0] for path in wanted}):
        if first not in root.entries:
            root.add(first, Symlink(filesystem, f"{DATA}/{first}", wall_us), wall_us)
    if DATA in root.entries:
        root.drop(DATA, wall_us)
    root.add(DATA, Symlink(filesystem, name, wall_us), wall_us)
    for path in gone:
        if "/" not in path and path in root.entries:
            root.drop(path, wall_us)
    if isinstance(link, Symlink) and link.target in root.entries:
        root.drop(link.target, wall_us)
    return True


def _files(folder: Directory) -> dict[str, File]:
    """All files below a directory, by their paths."""
    found: dict[str, File] = {}
    waiting = [("", folder)]
    while waiting:
        prefix, one = waiting.pop()
        for name, inode in one.entries.items():
            if isinstance(inode, File):
                found[prefix + name] = inode
            elif isinstance(inode, Directory):
                waiting.append((f"{prefix}{name}/", inode))
    return found


def _with_parents(paths: Mapping[str, object]) -> set[str]:
    found: set[str] = set()
    for path in paths:
        names = path.split("/")
        found.update("/".join(names[: at + 1]) for at in range(len(names)))
    return found


def _time_name(wall_us: int, root: Directory) -> str:
    """A free name of a directory: ..2022_08_23_00_00_00.123456789"""
    at = datetime.datetime.fromtimestamp(wall_us // 1_000_000, tz=datetime.UTC)
    attempt = 0
    while True:
        digest = hashlib.blake2b(f"{wall_us}/{attempt}".encode(), digest_size=4).digest()
        name = f"..{at:%Y_%m_%d_%H_%M_%S}.{int.from_bytes(digest, 'big')}"
        if name not in root.entries:
            return name
        attempt += 1


def set_group(volume: Volume, group: int | None, *, read_only: bool) -> None:
    """Give all files of a volume a group that may read them, and write them unless `read_only`.

    group: the pod's fsGroup; None changes nothing
    """
    if group is None:
        return
    waiting: list[Inode] = [volume.root]
    while waiting:
        inode = waiting.pop()
        inode.gid = group
        if inode.kind == "l":
            continue
        mask = 0o440 if read_only else 0o660
        if isinstance(inode, Directory):
            mask |= SETGID | 0o110
            waiting += inode.entries.values()
        inode.mode |= mask
