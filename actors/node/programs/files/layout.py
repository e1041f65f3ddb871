"""The files of an image: directories, programs, and what distributions have below /etc.

Mirrors  the layout of the images busybox, alpine and debian, as far as scripts look at it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from actors.node.programs.files.inodes import OUTSIDE, Directory, Filesystem, Program
from actors.node.programs.files.tree import Tree, Volume

_FOLDERS = (
    "/bin", "/dev", "/etc", "/home", "/lib", "/mnt", "/opt", "/proc", "/run", "/sbin", "/srv", "/sys",
    "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/usr/local/bin", "/usr/sbin", "/usr/share", "/var",
    "/var/cache", "/var/lib", "/var/log", "/var/run",
)  # fmt: skip
_USERS = (
    ("root", 0, 0, "root", "/root", "/bin/sh"),
    ("daemon", 1, 1, "daemon", "/usr/sbin", "/bin/false"),
    ("bin", 2, 2, "bin", "/bin", "/bin/false"),
    ("sys", 3, 3, "sys", "/dev", "/bin/false"),
    ("mail", 8, 8, "mail", "/var/spool/mail", "/bin/false"),
    ("www-data", 33, 33, "www-data", "/var/www", "/bin/false"),
    ("nobody", 65534, 65534, "nobody", "/home", "/bin/false"),
)
_RELEASES = {
    "busybox": 'NAME="BusyBox"\nID=busybox\nPRETTY_NAME="BusyBox"\n',
    "alpine": 'NAME="Alpine Linux"\nID=alpine\nVERSION_ID=3.16.2\nPRETTY_NAME="Alpine Linux v3.16"\n',
    "debian": 'PRETTY_NAME="Debian GNU/Linux 11 (bullseye)"\nNAME="Debian GNU/Linux"\nVERSION_ID="11"\nID=debian\n',
}


def image_layer(
    programs: Iterable[str],
    now_us: int,
    *,
    filesystem: Filesystem | None = None,
    system: str = "debian",
    busybox: bool = False,
    places: Mapping[str, str] | None = None,
    files: Mapping[str, bytes] | None = None,
    users: Mapping[str, tuple[int, int]] | None = None,
    folders: Iterable[str] = (),
) -> Volume:
    """The layer of a new container, which has the files of its image.

    What the image has is not counted: `bytes_used` and `inodes_used` begin at zero.

    programs: names of programs below /bin; places: name -> absolute path, for those elsewhere
    system: "busybox", "alpine", "debian" or "" for an image without a distribution
    busybox: True if the tools are those of busybox
    files: path -> content of further files
    users: name -> number of the user and its group, of those that the image adds
    folders: further ones, to which their group may write
    """
    filesystem = filesystem or Filesystem("overlay", source="overlay", device=0x2C)
    held, filesystem.bytes_max = filesystem.bytes_max, 1 << 60
    volume = Volume(filesystem, now_us=now_us)
    tree = Tree(volume, (), lambda: now_us, busybox=busybox)
    for path in _FOLDERS:
        tree.mkdir(path, OUTSIDE, 0o755)
    tree.mkdir("/root", OUTSIDE, 0o700)
    tree.mkdir("/tmp", OUTSIDE, 0o1777)
    tree.mkdir("/var/tmp", OUTSIDE, 0o1777)
    people = [
        *_USERS,
        *((name, uid, gid, name, "/", "/sbin/nologin") for name, (uid, gid) in (users or {}).items()),
    ]
    passwd = "".join(
        f"{name}:x:{uid}:{gid}:{full}:{home}:{shell}\n" for name, uid, gid, full, home, shell in people
    )
    contents = {
        "/etc/passwd": passwd.encode(),
        "/etc/group": "".join(f"{name}:x:{gid}:\n" for name, _, gid, *_ in people).encode(),
        "/etc/os-release": _RELEASES.get(system, "").encode(),
        "/etc/nsswitch.conf": b"hosts: files dns\n",
        **(files or {}),
    }
    if not contents["/etc/os-release"]:
        del contents["/etc/os-release"]
    if system == "alpine":
        contents["/etc/alpine-release"] = b"3.16.2\n"
    elif system == "debian":
        contents["/etc/debian_version"] = b"11.4\n"
    for path, data in contents.items():
        make_folders(tree, path.rpartition("/")[0])
        tree.write(path, data, mode=0o644)
    for path in folders:
        make_folders(tree, path, 0o775)
    for name in programs:
        _add_program(tree, (places or {}).get(name, f"/bin/{name}"), name, now_us)
    for name, path in (places or {}).items():
        if not tree.exists(path, OUTSIDE):
            _add_program(tree, path, name, now_us)
    for path in ("/usr/bin/env", "/bin/busybox") if busybox else ("/usr/bin/env",):
        if not tree.exists(path, OUTSIDE):
            _add_program(tree, path, path.rpartition("/")[2], now_us)
    filesystem.bytes_max = held
    filesystem.bytes_used = filesystem.inodes_used = 0
    return volume


def make_folders(tree: Tree, path: str, mode: int = 0o755) -> None:
    """Make a directory, and those above it, if they are missing."""
    so_far = ""
    for name in path.strip("/").split("/"):
        so_far += f"/{name}"
        if name and not tree.exists(so_far, OUTSIDE):
            tree.mkdir(so_far, OUTSIDE, mode)


def _add_program(tree: Tree, path: str, name: str, now_us: int) -> None:
    folder_path, _, short = path.rpartition("/")
    make_folders(tree, folder_path or "/")
    folder = tree.lookup(folder_path or "/", OUTSIDE)
    assert isinstance(folder, Directory)
    if short not in folder.entries:
        folder.add(short, Program(folder.filesystem, name, now_us), now_us)
