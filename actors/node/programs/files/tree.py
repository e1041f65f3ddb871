"""The view that one container has of its files: its own layer, and volumes mounted into it.

Turns a path and a caller into an inode, or into the change of a directory.

Holds: no path leads out of the root; a path passes at most `LINKS_MAX` symbolic links; a caller
       that changes something has the permissions for it, and the mount can be written.

Mirrors  path_resolution(7), Linux fs/namei.c: the order in which errors are found; permissions of
         the sticky bit and of set-group-id directories.
Differs  a directory with a mount below it cannot be renamed (EBUSY).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from actors.node.programs.ends import End
from actors.node.programs.files.errors import FileError
from actors.node.programs.files.handles import Handle, Open, Shown
from actors.node.programs.files.inodes import (
    OUTSIDE,
    PROGRAM_MAGIC,
    SETGID,
    STICKY,
    Device,
    Directory,
    File,
    FileCaller,
    Filesystem,
    Generated,
    Inode,
    Program,
    Symlink,
)
from actors.node.programs.process import Process
from sim.dataclass import dataclass

PATH_MAX = 4096  # bytes with the NUL at the end, include/uapi/linux/limits.h
NAME_MAX = 255
LINKS_MAX = 40  # MAXSYMLINKS of include/linux/namei.h


class Volume:
    """A directory, or one file, that outlives the processes that use it.

    Several containers can mount it, and `filesystem` counts what is in it.
    """

    __slots__ = ("filesystem", "root")

    def __init__(
        self, filesystem: Filesystem, mode: int = 0o755, now_us: int = 0, root: Inode | None = None
    ) -> None:
        self.filesystem = filesystem
        self.root: Inode = Directory(filesystem, mode, now_us) if root is None else root
        self.root.links += 1

    def part(self, sub_path: str, now_us: int = 0) -> Inode:
        """What a mount with a subPath shows; missing directories are made with the root's mode.

        No symbolic link leads out of the volume.  Raises FileError.

        Mirrors  pkg/volume/util/subpath/subpath_linux.go: SafeMakeDir
        """
        view = Tree(self, (), lambda: now_us)
        so_far = ""
        for name in sub_path.strip("/").split("/"):
            so_far += "/" + name
            try:
                found = view.lookup(so_far, OUTSIDE)
            except FileError as error:
                if error.code != "ENOENT":
                    raise
                found = view.mkdir(so_far, OUTSIDE, self.root.mode)
        return found


@dataclass(frozen=True, slots=True)
class Mount:
    """A volume, or a part of it, at a path of a container.

    path: absolute, without a slash at the end
    inode: the root of what is mounted
    read_only: True if it cannot be written through this mount
    """

    path: str
    inode: Inode
    read_only: bool = False


class Portal(Symlink):
    """A link that leads to the root of another container, as /proc/PID/root.

    tree: the files of that container; owner: the process in it, which only root and its user pass
    """

    __slots__ = ("owner", "tree")

    def __init__(self, filesystem: Filesystem, tree: Tree, owner: Process) -> None:
        super().__init__(filesystem, "/")
        self.tree = tree
        self.owner = owner


@dataclass(frozen=True, slots=True)
class Place:
    """Where a path leads.

    parent: the directory of its last name; name: that name; inode: None if nothing has the name
    path: absolute and without links
    """

    parent: Directory
    name: str
    inode: Inode | None
    mount: Mount
    path: str


class Tree:
    """The files of one container.

    wall_us: the node's clock, for the times of changes
    busybox: True if the tools of the image are those of busybox
    programs: name of a program -> what it does
    """

    __slots__ = ("busybox", "mounts", "programs", "root", "wall_us")

    def __init__(
        self,
        root: Volume,
        mounts: Iterable[Mount],
        wall_us: Callable[[], int],
        *,
        read_only: bool = False,
        busybox: bool = False,
        programs: Mapping[str, Any] | None = None,
    ) -> None:
        self.root = Mount("/", root.root, read_only=False)
        self.mounts: dict[str, Mount] = {"/": self.root}
        self.wall_us = wall_us
        self.busybox = busybox
        self.programs: Mapping[str, Any] = programs or {}
        for mount in sorted(mounts, key=lambda one: one.path.count("/")):
            self._add_mount(mount)
        if read_only:
            self.root = self.mounts["/"] = Mount("/", root.root, read_only=True)

    def _add_mount(self, mount: Mount) -> None:
        """Make the place of a mount, as the runtime does, and remember it."""
        so_far = ""
        names = mount.path.strip("/").split("/")
        for name in names:
            place = self.walk(f"{so_far}/{name}", OUTSIDE)
            if place.inode is None:
                is_file = name is names[-1] and not isinstance(mount.inode, Directory)
                held = place.parent.filesystem
                made = (
                    File(held, 0o644, self.wall_us()) if is_file else Directory(held, 0o755, self.wall_us())
                )
                place.parent.add(place.name, made, self.wall_us())
            so_far = place.path
        self.mounts[so_far] = Mount(so_far, mount.inode, mount.read_only)

    # --- from paths to inodes ---------------------------------------------------------------------

    def walk(self, path: str, by: FileCaller, *, follow: bool = True) -> Place:
        """Where a path leads.  Raises FileError.

        follow: True if a link as the last name is followed
        """
        if not path:
            raise FileError("ENOENT", path)
        if "\0" in path:
            raise FileError("EINVAL", path)
        if len(path.encode("utf-8", "surrogateescape")) >= PATH_MAX:
            raise FileError("ENAMETOOLONG", path)
        try:
            return self._walk(path if path[0] == "/" else f"{by.cwd}/{path}", by, follow)
        except FileError as error:
            error.path = path
            raise

    def _walk(self, path: str, by: FileCaller, follow: bool) -> Place:
        todo = _parts(path)
        top: Any = self.root.inode
        root = Place(top, "/", top, self.root, "/")
        passed, links = [root], 0
        # How many places were passed before a portal, the mounts behind it, the path up to there.
        behind: list[tuple[int, Mapping[str, Mount], str]] = []
        while todo:
            name = todo.pop()
            here = passed[-1].inode
            if here is None or here.kind != "d":
                raise FileError("ENOENT" if here is None else "ENOTDIR")
            assert isinstance(here, Directory), here
            if name == ".":
                continue
            if not here.allows(by.identity, 1):
                raise FileError("EACCES")
            if name == "..":
                if behind and len(passed) == behind[-1][0] + 1:
                    continue  # the root of a container is its own parent
                if len(passed) > 1:
                    passed.pop()
                continue
            if len(name) * 4 > NAME_MAX and len(name.encode("utf-8", "surrogateescape")) > NAME_MAX:
                raise FileError("ENAMETOOLONG")
            above = passed[-1]
            inode, mount = here.entry(name, by), above.mount
            full = f"{above.path.rstrip('/')}/{name}"
            mounts, own = (behind[-1][1], full[len(behind[-1][2]) :]) if behind else (self.mounts, full)
            if own in mounts:
                mount = mounts[own]
                inode = mount.inode
            if isinstance(inode, Symlink) and (todo or follow):
                links += 1
                if links > LINKS_MAX:
                    raise FileError("ELOOP")
                if isinstance(inode, Portal):
                    if not by.identity.may_trace(inode.owner.identity):
                        raise FileError("EACCES")
                    behind.append((len(passed), inode.tree.mounts, full))
                    passed.append(Place(here, name, inode.tree.root.inode, inode.tree.root, full))
                    continue
                if not inode.target:
                    raise FileError("ENOENT")
                if inode.target[0] == "/":
                    passed, behind = [root], []
                todo += _parts(inode.target)
            else:
                if inode is None and [one for one in todo if one != "."]:
                    raise FileError("ENOENT")
                passed.append(Place(here, name, inode, mount, full))
                if inode is None:
                    break
        return passed[-1]

    def lookup(self, path: str, by: FileCaller, *, follow: bool = True) -> Inode:
        """The inode of a path.  Raises FileError."""
        inode = self.walk(path, by, follow=follow).inode
        if inode is None:
            raise FileError("ENOENT", path)
        return inode

    def exists(self, path: str, by: FileCaller, *, follow: bool = True) -> bool:
        """True if a path leads to something that the caller can find."""
        try:
            return self.walk(path, by, follow=follow).inode is not None
        except FileError:
            return False

    def may(self, path: str, by: FileCaller, want: int) -> bool:
        """True if the caller may read (4), write (2) or execute (1) the file, as access(2) says."""
        try:
            place = self.walk(path, by)
        except FileError:
            return False
        if place.inode is None or not place.inode.allows(by.identity, want):
            return False
        return not (want & 2 and place.mount.read_only and place.inode.kind in "-dl")

    def listdir(self, path: str, by: FileCaller) -> list[str]:
        """The names in a directory, sorted.  Raises FileError."""
        place = self.walk(path, by)
        if place.inode is None:
            raise FileError("ENOENT", path)
        if not isinstance(place.inode, Directory):
            raise FileError("ENOTDIR", path)
        if not place.inode.allows(by.identity, 4):
            raise FileError("EACCES", path)
        return place.inode.names(by)

    def readlink(self, path: str, by: FileCaller) -> str:
        """Where a symbolic link points to.  Raises FileError."""
        inode = self.lookup(path, by, follow=False)
        if not isinstance(inode, Symlink):
            raise FileError("EINVAL", path)
        return inode.target

    # --- content ----------------------------------------------------------------------------------

    def open(self, path: str, by: FileCaller, flags: Open = Open.READ, mode: int = 0o666) -> End:
        """Open a file, or make it.  Raises FileError."""
        place = self.walk(path, by, follow=not flags & Open.EXCLUSIVE)
        inode = place.inode
        if inode is None:
            if not flags & Open.CREATE or path.endswith("/"):
                raise FileError("ENOENT" if not flags & Open.CREATE else "EISDIR", path)
            inode = self._made(place, path, by, File, mode)
        else:
            if flags & Open.CREATE and flags & Open.EXCLUSIVE:
                raise FileError("EEXIST", path)
            if isinstance(inode, Directory) and flags & Open.WRITE:
                raise FileError("EISDIR", path)
            want = (4 if flags & Open.READ else 0) | (2 if flags & Open.WRITE else 0)
            if flags & Open.WRITE and place.mount.read_only and not isinstance(inode, Device):
                raise FileError("EROFS", path)
            if not inode.allows(by.identity, want):
                raise FileError("EACCES", path)
        if isinstance(inode, Program) and flags & Open.WRITE:
            inode = self._overwritten(place, inode)
        return self._opened(inode, path, by, flags)

    def _opened(self, inode: Inode, path: str, by: FileCaller, flags: Open) -> End:
        if isinstance(inode, File):
            if flags & Open.TRUNCATE and flags & Open.WRITE:
                inode.truncate(0, self.wall_us())
            return Handle(inode, flags, self.wall_us)
        if isinstance(inode, Generated | Program):
            return Shown(inode, by)
        if isinstance(inode, Device):
            try:
                return inode.lead(by)
            except FileError as error:
                raise FileError(error.code, path) from None
        raise FileError("EISDIR" if inode.kind == "d" else "ENXIO", path)

    def _overwritten(self, place: Place, program: Program) -> File:
        """A file in place of a program that is written to."""
        made = File(place.parent.filesystem, program.mode, self.wall_us(), program.uid, program.gid)
        place.parent.drop(place.name, self.wall_us())
        place.parent.add(place.name, made, self.wall_us())
        return made

    def read(self, path: str, by: FileCaller = OUTSIDE, size_max: int = 1 << 20) -> bytes:
        """The first bytes of a file, without a handle.  Raises FileError."""
        end = self.open(path, by)
        try:
            return end.read(size_max) or b""
        finally:
            end.close()

    def write(self, path: str, data: bytes, by: FileCaller = OUTSIDE, mode: int = 0o666) -> None:
        """Replace the content of a file, or make it.  Raises FileError."""
        end = self.open(path, by, Open.WRITE | Open.CREATE | Open.TRUNCATE, mode)
        try:
            while data:
                data = data[end.write(data) :]
        finally:
            end.close()

    def truncate(self, path: str, by: FileCaller, size: int) -> None:
        """Give a file another size.  Raises FileError."""
        end = self.open(path, by, Open.WRITE)
        try:
            if not isinstance(end, Handle):
                raise FileError("EINVAL", path)
            end.inode.truncate(size, self.wall_us())
        finally:
            end.close()

    # --- names ------------------------------------------------------------------------------------

    def mkdir(self, path: str, by: FileCaller, mode: int = 0o777) -> Directory:
        """Make a directory.  Raises FileError."""
        place = self.walk(path.rstrip("/") or "/", by, follow=False)
        made = self._made(place, path, by, Directory, mode)
        assert isinstance(made, Directory)
        return made

    def symlink(self, target: str, path: str, by: FileCaller) -> None:
        """Make a symbolic link.  Raises FileError."""
        if len(target.encode("utf-8", "surrogateescape")) >= PATH_MAX:
            raise FileError("ENAMETOOLONG", path)
        place = self.walk(path, by, follow=False)
        self._made(place, path, by, lambda held, _, *owner: Symlink(held, target, *owner), 0o777)

    def link(self, target: str, path: str, by: FileCaller) -> None:
        """Give a file one more name.  Raises FileError."""
        source = self.walk(target, by, follow=False)
        if source.inode is None:
            raise FileError("ENOENT", target)
        place = self.walk(path, by, follow=False)
        self._check_new(place, path, by)
        if source.inode.kind == "d":
            raise FileError("EPERM", path)
        if source.mount is not place.mount or source.inode.filesystem is not place.parent.filesystem:
            raise FileError("EXDEV", path)
        place.parent.add(place.name, source.inode, self.wall_us())

    def unlink(self, path: str, by: FileCaller) -> None:
        """Take away the name of a file.  Raises FileError."""
        place = self._removable(path, by)
        if place.inode is not None and place.inode.kind == "d":
            raise FileError("EISDIR", path)
        place.parent.drop(place.name, self.wall_us())

    def rmdir(self, path: str, by: FileCaller) -> None:
        """Take away an empty directory.  Raises FileError."""
        place = self._removable(path.rstrip("/") or "/", by)
        if not isinstance(place.inode, Directory):
            raise FileError("ENOTDIR", path)
        if place.inode.names(by):
            raise FileError("ENOTEMPTY", path)
        place.parent.drop(place.name, self.wall_us())

    def rename(self, old: str, new: str, by: FileCaller) -> None:
        """Give a file or a directory another name, in place of what has it.  Raises FileError."""
        source = self._removable(old.rstrip("/") or "/", by)
        target = self.walk(new.rstrip("/") or "/", by, follow=False)
        inode, replaced = source.inode, target.inode
        assert inode is not None
        if source.mount is not target.mount or inode.filesystem is not target.parent.filesystem:
            raise FileError("EXDEV", new)
        if inode is replaced:
            return
        if target.path.startswith(source.path + "/"):
            raise FileError("EINVAL", new)
        if replaced is None:
            self._check_new(target, new, by)
        else:
            self._removable(new.rstrip("/"), by)
            if isinstance(replaced, Directory) and inode.kind != "d":
                raise FileError("EISDIR", new)
            if inode.kind == "d" and not isinstance(replaced, Directory):
                raise FileError("ENOTDIR", new)
            if isinstance(replaced, Directory) and replaced.entries:
                raise FileError("ENOTEMPTY", new)
            target.parent.drop(target.name, self.wall_us())
        target.parent.add(target.name, inode, self.wall_us())
        source.parent.drop(source.name, self.wall_us())

    def _made(self, place: Place, path: str, by: FileCaller, make: Callable[..., Inode], mode: int) -> Inode:
        """A new inode with the caller as owner."""
        self._check_new(place, path, by)
        parent, now_us = place.parent, self.wall_us()
        mode &= ~by.umask
        gid = parent.gid if parent.mode & SETGID else by.identity.gid
        try:
            inode = make(parent.filesystem, mode, now_us, by.identity.uid, gid)
        except FileError as error:
            raise FileError(error.code, path) from None
        if inode.kind == "d":
            inode.mode |= parent.mode & SETGID
        parent.add(place.name, inode, now_us)
        return inode

    def _check_new(self, place: Place, path: str, by: FileCaller) -> None:
        if place.inode is not None:
            raise FileError("EEXIST", path)
        if place.mount.read_only:
            raise FileError("EROFS", path)
        if not place.parent.allows(by.identity, 3):
            raise FileError("EACCES", path)
        if type(place.parent) is not Directory:
            raise FileError("ENOENT", path)
        if not place.parent.links:
            raise FileError("ENOENT", path)

    def _removable(self, path: str, by: FileCaller) -> Place:
        """The place of a name that the caller may take away."""
        place = self.walk(path, by, follow=False)
        inode, parent = place.inode, place.parent
        if inode is None:
            raise FileError("ENOENT", path)
        if place.path in self.mounts or any(mounted.startswith(place.path + "/") for mounted in self.mounts):
            raise FileError("EBUSY", path)
        if place.mount.read_only:
            raise FileError("EROFS", path)
        if not parent.allows(by.identity, 3):
            raise FileError("EACCES", path)
        if type(parent) is not Directory or (
            parent.mode & STICKY
            and by.identity.uid not in (inode.uid, parent.uid)
            and not by.identity.may("FOWNER")
        ):
            raise FileError("EPERM", path)
        return place

    # --- attributes -------------------------------------------------------------------------------

    def chmod(self, path: str, by: FileCaller, mode: int) -> None:
        """Change permissions.  Raises FileError."""
        inode, who = self._writable_inode(path, by), by.identity
        if who.uid != inode.uid and not who.may("FOWNER"):
            raise FileError("EPERM", path)
        if inode.gid not in (who.gid, *who.groups) and not who.may("FSETID"):
            mode &= ~SETGID
        inode.mode = mode & 0o7777

    def chown(self, path: str, by: FileCaller, uid: int, gid: int, *, follow: bool = True) -> None:
        """Change owner and group; -1 keeps one of them.  Raises FileError."""
        inode, who = self._writable_inode(path, by, follow=follow), by.identity
        mine = who.uid == inode.uid and uid in (-1, inode.uid)
        if not (mine and gid in (-1, inode.gid, who.gid, *who.groups)) and not who.may("CHOWN"):
            raise FileError("EPERM", path)
        inode.uid = inode.uid if uid < 0 else uid
        inode.gid = inode.gid if gid < 0 else gid
        if inode.kind == "-":
            inode.mode &= 0o1777

    def utime(self, path: str, by: FileCaller, mtime_us: int) -> None:
        """Change the time of the last change.  Raises FileError."""
        inode, who = self._writable_inode(path, by), by.identity
        if who.uid != inode.uid and not who.may("FOWNER") and not inode.allows(who, 2):
            raise FileError("EACCES", path)
        inode.mtime_us = mtime_us

    def _writable_inode(self, path: str, by: FileCaller, *, follow: bool = True) -> Inode:
        place = self.walk(path, by, follow=follow)
        if place.inode is None:
            raise FileError("ENOENT", path)
        if place.mount.read_only:
            raise FileError("EROFS", path)
        return place.inode


def _parts(path: str) -> list[str]:
    """The names of a path, last first; a slash at the end is a dot, which only a directory has."""
    names = [name for name in path.split("/") if name]
    if path.endswith("/"):
        names.append(".")
    return names[::-1]


def program_name(inode: Inode, by: FileCaller) -> str:
    """The name of the program that a file is, or is a copy of; "" if it is none."""
    if isinstance(inode, Program):
        return inode.name
    if isinstance(inode, File):
        head = inode.read(0, 256)
        if head.startswith(PROGRAM_MAGIC):
            return head[len(PROGRAM_MAGIC) :].partition(b"\n")[0].decode("utf-8", "replace")
    return ""
