"""tar: archives of files, as `kubectl cp` reads and writes them.

Mirrors  tar(1) of GNU and busybox, pax(5) for the ustar form; long names in GNU's form.
"""

from __future__ import annotations

from collections.abc import Generator

from actors.node.programs.commands.dumps import unzipped, zipped
from actors.node.programs.commands.names import People, moment
from actors.node.programs.commands.tool import (
    INPUT_MAX,
    Failed,
    Options,
    Steps,
    Tool,
    Usage,
    to_bytes,
    to_text,
)
from actors.node.programs.ends import send
from actors.node.programs.files.errors import FileError
from actors.node.programs.files.handles import WRITING
from actors.node.programs.files.inodes import File, Generated, Inode, Program, Symlink
from actors.node.programs.waits import PAUSE, Main, Wait
from sim.dataclass import dataclass
from sim.units import SECOND

BLOCK = 512
RECORD = 20 * BLOCK
LAST = "\ntar: Error is not recoverable: exiting now"
DEPTH_MAX = 200  # of directories in each other that are archived
MEMBERS_MAX = 100_000
_KINDS = {"-": b"0", "l": b"2", "d": b"5"}


@dataclass(frozen=True, slots=True)
class Member:
    """One file of an archive.  kind: 0 file, 1 hard link, 2 symbolic link, 5 directory"""

    name: str
    kind: str
    mode: int
    uid: int
    gid: int
    mtime_s: int
    target: str
    data: bytes


def header(member: Member) -> bytes:
    """The blocks before the data of a member."""
    name, target = to_bytes(member.name), to_bytes(member.target)
    lead = b""
    for text, kind in ((name, b"L"), (target, b"K")):
        if len(text) > 100:
            lead += _block(b"././@LongLink", 0, 0, 0, len(text) + 1, 0, kind, b"") + _padded(text + b"\0")
    return lead + _block(
        name[:100], member.mode, member.uid, member.gid, len(member.data), member.mtime_s, member.kind.encode(),
        target[:100],
    )  # fmt: skip


def _block(
    name: bytes, mode: int, uid: int, gid: int, size: int, mtime_s: int, kind: bytes, target: bytes
) -> bytes:
    def octal(value: int, width: int) -> bytes:
        return b"%0*o\0" % (width - 1, value & (8 ** (width - 1) - 1))

    head = (
        name.ljust(100, b"\0") + octal(mode, 8) + octal(uid, 8) + octal(gid, 8) + octal(size, 12)
        + octal(max(0, mtime_s), 12) + b" " * 8 + kind + target.ljust(100, b"\0") + b"ustar  \0"
    )  # fmt: skip
    whole = head.ljust(BLOCK, b"\0")
    return whole[:148] + b"%06o\0 " % sum(whole) + whole[156:]


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % BLOCK)


def _read_octal(field: bytes) -> int:
    if field[:1] == b"\x80":
        return int.from_bytes(field[1:], "big")
    text = field.strip(b" \0")
    return int(text, 8) if text and not text.strip(b"01234567") else 0


def members(data: bytes) -> Generator[Member, None, None]:
    """The members of an archive.  Raises Failed."""
    at, name, target, count = 0, b"", b"", 0
    attributes: dict[str, str] = {}
    while at + BLOCK <= len(data):
        head = data[at : at + BLOCK]
        at += BLOCK
        if not head.strip(b"\0"):
            return
        if _read_octal(head[148:156]) != sum(head[:148]) + 256 + sum(head[156:]):
            raise Failed("invalid tar magic" if at == BLOCK else "corrupted tar header")
        size, kind = _read_octal(head[124:136]), head[156:157].decode("latin-1").replace("\0", "0")
        body = data[at : at + size]
        if len(body) < size:
            raise Failed("short read")
        at += size + -size % BLOCK
        count += 1
        if count > MEMBERS_MAX:
            raise Failed("too many members")
        if kind in "LK":
            name, target = (body.rstrip(b"\0"), target) if kind == "L" else (name, body.rstrip(b"\0"))
            continue
        if kind in "xg":
            attributes = _attributes(body) if kind == "x" else {}
            continue
        prefix = head[345:500].split(b"\0")[0] if head[257:263] == b"ustar\0" else b""
        short = head[:100].split(b"\0")[0]
        full = name or (prefix + b"/" + short if prefix else short)
        linked = target or head[157:257].split(b"\0")[0]
        yield Member(
            attributes.get("path") or to_text(full), kind, _read_octal(head[100:108]) & 0o7777,
            _read_octal(head[108:116]), _read_octal(head[116:124]), _read_octal(head[136:148]),
            attributes.get("linkpath") or to_text(linked), body,
        )  # fmt: skip
        name, target, attributes = b"", b"", {}


def _attributes(body: bytes) -> dict[str, str]:
    """The records of a pax header: "length key=value"."""
    found: dict[str, str] = {}
    while body:
        length = body.partition(b" ")[0]
        if not length.isdigit() or not 0 < int(length[:9]) <= len(body):
            break
        record, body = body[: int(length)], body[int(length) :]
        key, _, value = record.partition(b" ")[2].rstrip(b"\n").partition(b"=")
        found[key.decode("latin-1")] = to_text(value)
    return found


_LONG = {
    "create": "c", "extract": "x", "get": "x", "list": "t", "file": "f", "directory": "C", "gzip": "z", "verbose": "v",
    "no-same-owner": "o", "no-same-permissions": "1", "preserve-permissions": "p", "same-permissions": "p",
    "to-stdout": "O", "exclude": "X", "strip-components": "2", "same-owner": "3", "touch": "m", "no-overwrite-dir": "4",
    "overwrite": "5", "dereference": "h", "warning": "6", "absolute-names": "P", "keep-old-files": "k",
}  # fmt: skip


def tar(tool: Tool) -> Main:
    """Archive files: -c makes, -x extracts, -t lists; -f FILE, -C FOLDER, -z compressed."""
    args = list(tool.args)
    if args and args[0][:1] not in ("-", ""):
        args = _dashed(args)
    tool.args = tuple(args)
    options = tool.options("cxtf:C:zvopOX:mhPk12:3456:jJT:", _LONG, code=1 if tool.busybox else 2)
    modes = [letter for letter in "cxt" if letter in options]
    if len(modes) != 1:
        raise Usage(
            "You must specify one of the '-Acdtrux', '--delete' or '--test-label' options",
            1 if tool.busybox else 2,
        )
    if "j" in options or "J" in options:
        tool.process.container.unknown("tar knows no compression but gzip")
        raise Failed("only gzip is known to the simulation", 2)
    cwd = tool.process.cwd
    for path in options.all("C"):
        try:
            place = tool.files.walk(path, tool.process)
            if place.inode is None or place.inode.kind != "d":
                raise FileError("ENOENT" if place.inode is None else "ENOTDIR", path)
            cwd = place.path
        except FileError as error:
            raise Failed(
                f"can't change directory to '{path}': {error.text}"
                if tool.busybox
                else f"{path}: Cannot open: {error.text}{LAST}",
                1 if tool.busybox else 2,
            ) from None
    archive = options.last("f", "-")
    if archive != "-" and archive[:1] != "/":
        archive = f"{tool.process.cwd.rstrip('/')}/{archive}"
    if modes[0] == "c":
        return (yield from _create(tool, options, archive, cwd))
    if archive != "-" and not tool.files.exists(archive, tool.process):
        shown = options.last("f")
        raise Failed(
            f"can't open '{shown}': No such file or directory"
            if tool.busybox
            else f"{shown}: Cannot open: No such file or directory{LAST}",
            1 if tool.busybox else 2,
        )
    data = yield from tool.everything([archive])
    if data[:2] == b"\x1f\x8b":
        data = unzipped(data)
    tool.process.cwd = cwd
    strip = int(options.last("2")) if options.last("2").isdigit() else 0
    wanted = [path.strip("/").removeprefix("./") for path in options.rest]
    found: set[str] = set()
    for member in members(data):
        yield PAUSE
        name = member.name.removeprefix("./").strip("/")
        chosen = [path for path in wanted if name == path or name.startswith(path + "/")]
        found.update(chosen)
        if wanted and not chosen:
            continue
        if modes[0] == "t":
            yield from _listed(tool, member, long="v" in options)
        else:
            yield from _extracted(tool, options, member, strip)
    for path in wanted:
        if path not in found:
            yield from tool.complain(
                f"{path}: not found in archive" if tool.busybox else f"{path}: Not found in archive",
                1 if tool.busybox else 2,
            )
    return tool.code if tool.busybox else (yield from _ended(tool))


def _ended(tool: Tool) -> Main:
    """Say at the end that something has failed."""
    if tool.code:
        last = "error exit delayed from previous errors"
        yield from tool.complain(
            last if tool.busybox else "Exiting with failure status due to previous errors", tool.code
        )
    return tool.code


def _dashed(args: list[str]) -> list[str]:
    """The old form without a dash: `tar cf x y` is `tar -c -f x y`."""
    letters, rest, out = args[0], args[1:], []
    for letter in letters:
        out.append(f"-{letter}")
        if letter in "fCXT" and rest:
            out.append(rest.pop(0))
    return [*out, *rest]


def _create(tool: Tool, options: Options, archive: str, cwd: str) -> Main:
    if not options.rest:
        raise Failed(
            "empty archive" if tool.busybox else "Cowardly refusing to create an empty archive",
            1 if tool.busybox else 2,
        )
    tool.process.cwd = cwd
    made = bytearray()
    waiting = [(path, 0) for path in options.rest[::-1]]
    excluded = [path.strip("/") for path in options.all("X")]
    while waiting:
        path, depth = waiting.pop()
        yield PAUSE
        if any(
            path.strip("/").removeprefix("./") == one or path.rpartition("/")[2] == one for one in excluded
        ):
            continue
        try:
            inode = tool.files.lookup(path, tool.process, follow="h" in options)
            if inode.kind not in _KINDS:
                continue
            if inode.kind == "-" and not inode.allows(tool.process.identity, 4):
                raise FileError("EACCES", path)
        except FileError as error:
            yield from tool.complain(
                f"{path}: {error.text}" if tool.busybox else f"{path}: Cannot stat: {error.text}",
                1 if tool.busybox else 2,
            )
            continue
        member = _member(tool, path, inode)
        made += header(member) + _padded(member.data)
        if len(made) > INPUT_MAX * 4:
            raise Failed("the archive is too large for the simulation", 2)
        if "v" in options:
            yield from tool.warn(path + "\n") if archive == "-" else tool.write(path + "\n")
        if inode.kind == "d" and depth < DEPTH_MAX:
            names = tool.files.listdir(path, tool.process)
            waiting += [(f"{path.rstrip('/')}/{name}", depth + 1) for name in names[::-1]]
    made += bytes(2 * BLOCK)
    made += bytes(-len(made) % RECORD)
    data = zipped(bytes(made)) if "z" in options else bytes(made)
    if archive == "-":
        yield from tool.write(data)
        return (yield from _ended(tool))
    end = tool.files.open(archive, tool.process, WRITING)
    yield from send(end, data)
    end.close()
    return (yield from _ended(tool))


def _member(tool: Tool, path: str, inode: Inode) -> Member:
    name = path.lstrip("/") or "./"
    while name.startswith("../"):
        name = name[3:]
    if inode.kind == "d" and not name.endswith("/"):
        name += "/"
    data = b""
    if isinstance(inode, File):
        data = inode.read(0, inode.size) if inode.size <= INPUT_MAX * 4 else b""
    elif isinstance(inode, Generated | Program):
        data = inode.content(tool.process)
    target = inode.target if isinstance(inode, Symlink) else ""
    kind = _KINDS[inode.kind].decode()
    return Member(name, kind, inode.mode, inode.uid, inode.gid, inode.mtime_us // SECOND, target, data)


def _listed(tool: Tool, member: Member, *, long: bool) -> Steps:
    shown = member.name
    if long:
        shape = _LETTERS.get(member.kind, "-")
        people = People(tool)
        mode = shape + mode_letters(member.mode)
        owner = f"{people.user(member.uid)}/{people.group(member.gid)}"
        at = moment(member.mtime_s * SECOND)
        if tool.busybox:
            lead = f"{mode} {owner} {len(member.data):9d} {at:%Y-%m-%d %H:%M:%S} "
        else:
            lead = f"{mode} {owner} {len(member.data):{max(0, 18 - len(owner))}d} {at:%Y-%m-%d %H:%M} "
        shown = lead + member.name
        if member.kind == "2":
            shown += f" -> {member.target}"
    yield from tool.write(shown + "\n")


_LETTERS = {"0": "-", "1": "h", "2": "l", "5": "d"}


def mode_letters(mode: int) -> str:
    """Permissions as letters."""
    return "".join("rwx"[at % 3] if mode >> (8 - at) & 1 else "-" for at in range(9))


def _extracted(tool: Tool, options: Options, member: Member, strip: int) -> Generator[Wait, None, None]:
    """Make the file of a member; no name leads out of the working directory."""
    files, process = tool.files, tool.process
    parts = [part for part in member.name.split("/") if part not in ("", ".")]
    if ".." in parts:
        what = (
            f"name with '..' encountered: '{member.name}'"
            if tool.busybox
            else f"{member.name}: Member name contains '..'"
        )
        yield from tool.complain(what, 1 if tool.busybox else 2)
        return
    path = "/".join(parts[strip:])
    if not path and not tool.busybox:
        return
    if "v" in options:
        yield from tool.write(member.name + "\n")
    if not path:
        return
    if "O" in options:
        yield from tool.write(member.data)
        return
    try:
        _make_folders(tool, path)
        old = files.lookup(path, process, follow=False) if files.exists(path, process, follow=False) else None
        if member.kind == "5":
            if old is None or old.kind != "d":
                files.mkdir(path, process)
        else:
            if old is not None and old.kind != "d":
                files.unlink(path, process)
            if member.kind == "2":
                files.symlink(member.target, path, process)
            elif member.kind == "1":
                files.link("/".join(member.target.split("/")[strip:]), path, process)
            else:
                end = files.open(path, process, WRITING)
                yield from send(end, member.data)
                end.close()
        _finish(tool, options, member, path)
    except FileError as error:
        what = f"can't open '{path}'" if tool.busybox else f"{path}: Cannot open"
        yield from tool.complain(f"{what}: {error.text}", 1 if tool.busybox else 2)


def _make_folders(tool: Tool, path: str) -> None:
    so_far = ""
    for part in path.split("/")[:-1]:
        so_far += part
        if not tool.files.exists(so_far, tool.process):
            tool.files.mkdir(so_far, tool.process)
        so_far += "/"


def _finish(tool: Tool, options: Options, member: Member, path: str) -> None:
    """Owner, mode and time of what was extracted."""
    if member.kind in "12":
        return
    inode = tool.files.lookup(path, tool.process, follow=False)
    is_root = tool.process.identity.uid == 0
    if is_root and "o" not in options:
        tool.files.chown(path, tool.process, member.uid, member.gid, follow=False)
    inode.mode = member.mode if is_root or "p" in options else member.mode & ~tool.process.umask
    if "m" not in options:
        inode.mtime_us = member.mtime_s * SECOND


COMMANDS = {"tar": tar}
