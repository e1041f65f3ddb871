"""Commands that change files: rm, mkdir, rmdir, mv, cp, ln, chmod, chown, mktemp and others.

Mirrors  POSIX.1-2017 XCU and the texts of GNU coreutils and busybox.
"""

from __future__ import annotations

from actors.node.programs.commands.attributes import changed_mode
from actors.node.programs.commands.tool import CHUNK, Failed, Options, Steps, Tool, Usage
from actors.node.programs.ends import receive, send
from actors.node.programs.files.errors import FileError
from actors.node.programs.files.handles import WRITING, Open
from actors.node.programs.files.inodes import Directory, Inode, Program, Symlink
from actors.node.programs.waits import PAUSE, Main

DEPTH_MAX = 200  # of directories in each other that commands enter


def rm(tool: Tool) -> Main:
    """Remove files: -r directories too, -f without a word about missing ones."""
    options = tool.options("rRfivd", {"recursive": "r", "force": "f", "verbose": "v", "dir": "d"})
    if not options.rest and "f" not in options:
        raise Usage("missing operand")
    for path in options.rest:
        if path.rstrip("/").rpartition("/")[2] in (".", "..") or not path.strip("/"):
            if not path.strip("/"):
                what = f"it is dangerous to operate recursively on '{path}'"
            elif tool.busybox:
                what = "can't remove '.' or '..'"
            elif "r" in options or "R" in options:
                what = f"refusing to remove '.' or '..' directory: skipping '{path}'"
            else:
                what = f"cannot remove '{path}': Is a directory"
            yield from tool.complain(what)
            continue
        yield from _removed(tool, path, options, 0)
    return tool.code


def _removed(tool: Tool, path: str, options: Options, depth: int) -> Steps:
    """Remove a file, or a directory with all in it; a failure is reported."""
    yield PAUSE
    files, process = tool.files, tool.process
    try:
        inode = files.lookup(path, process, follow=False)
        if inode.kind == "d":
            if "r" not in options and "R" not in options and "d" not in options:
                raise FileError("EISDIR", path)
            if depth > DEPTH_MAX:
                raise FileError("ENAMETOOLONG", path)
            if "r" in options or "R" in options:
                for name in files.listdir(path, process):
                    yield from _removed(tool, f"{path.rstrip('/')}/{name}", options, depth + 1)
            files.rmdir(path, process)
        else:
            files.unlink(path, process)
        if "v" in options:
            what = f"directory{':' if tool.busybox else ''} " if inode.kind == "d" else ""
            yield from tool.write(f"removed {what}'{path}'\n")
    except FileError as error:
        if "f" in options and error.code in ("ENOENT", "ENOTDIR"):
            return
        if tool.busybox:
            what = (
                f"'{path}' is a directory"
                if error.code == "EISDIR"
                else f"can't remove '{path}': {error.text}"
            )
        else:
            what = f"cannot remove '{path}': {error.text}"
        yield from tool.complain(what)


def mkdir(tool: Tool) -> Main:
    """Make directories: -p those above too, -m with permissions."""
    options = tool.options("pm:v", {"parents": "p", "mode": "m", "verbose": "v"})
    if not options.rest:
        raise Usage("missing operand")
    for path in options.rest:
        try:
            if "p" in options:
                _make_parents(tool, path)
            else:
                tool.files.mkdir(path, tool.process)
            if "m" in options:
                inode = tool.files.lookup(path, tool.process)
                inode.mode = changed_mode(options.last("m"), 0o777, inode.kind == "d", tool)
        except FileError as error:
            shown = error.path if "p" in options else path
            what = (
                f"can't create directory '{shown}'" if tool.busybox else f"cannot create directory '{shown}'"
            )
            yield from tool.complain(f"{what}: {error.text}")
            continue
        if "v" in options:
            made = (
                f"created directory: '{path}'" if tool.busybox else f"{tool.name}: created directory '{path}'"
            )
            yield from tool.write(made + "\n")
    return tool.code


def _make_parents(tool: Tool, path: str) -> None:
    so_far = "/" if path[:1] == "/" else ""
    for name in path.strip("/").split("/"):
        so_far += name
        try:
            tool.files.mkdir(so_far, tool.process)
        except FileError as error:
            if not tool.files.exists(so_far, tool.process):
                raise
            if tool.files.lookup(so_far, tool.process).kind != "d":
                slash = "/" if tool.busybox and so_far != path else ""
                raise FileError("ENOTDIR" if so_far != path else "EEXIST", so_far + slash) from error
        so_far += "/"


def rmdir(tool: Tool) -> Main:
    """Remove empty directories: -p those above too."""
    options = tool.options("pv", {"parents": "p", "ignore-fail-on-non-empty": "v"})
    if not options.rest:
        raise Usage("missing operand")
    for path in options.rest:
        try:
            tool.files.rmdir(path, tool.process)
            while "p" in options and "/" in path.strip("/"):
                path = path.rstrip("/").rpartition("/")[0]
                tool.files.rmdir(path, tool.process)
        except FileError as error:
            yield from tool.complain(
                f"'{path}': {error.text}" if tool.busybox else f"failed to remove '{path}': {error.text}"
            )
    return tool.code


# --- copying --------------------------------------------------------------------------------------


def _targets(tool: Tool, options: Options) -> list[tuple[str, str]]:
    """Sources and their targets.  Raises Failed."""
    rest = list(options.rest)
    if "t" in options:
        rest.append(options.last("t"))
    if len(rest) < 2:
        raise Usage(f"missing destination file operand after '{rest[0]}'" if rest else "missing file operand")
    *sources, target = rest
    into = "T" not in options and tool.files.exists(target, tool.process)
    into = into and tool.files.lookup(target, tool.process).kind == "d"
    if tool.name == "ln" and "n" in options and into:
        into = tool.files.lookup(target, tool.process, follow=False).kind == "d"
    if not into and len(sources) > 1:
        if not tool.files.exists(target, tool.process):
            if not tool.busybox:
                raise Failed(f"target '{target}': No such file or directory")
        else:
            raise Failed(
                f"target '{target}' is not a directory"
                if tool.busybox
                else f"target '{target}': Not a directory"
            )
        into = True
    if not into:
        return [(sources[0], target)]
    base = target.rstrip("/")
    return [(source, f"{base}/{source.rstrip('/').rpartition('/')[2] or source}") for source in sources]


def cp(tool: Tool) -> Main:
    """Copy files: -r directories too, -p with owner and times, -a both, -d links as links."""
    options = tool.options(
        "rRpafdPLHt:TnuvilsFx",
        {"recursive": "r", "archive": "a", "force": "f", "no-dereference": "d", "preserve": "p",
         "target-directory": "t", "no-target-directory": "T", "no-clobber": "n", "verbose": "v", "dereference": "L"},
    )  # fmt: skip
    for source, target in _targets(tool, options):
        yield from _copied(tool, source, target, options, 0)
    return tool.code


def _copied(tool: Tool, source: str, target: str, options: Options, depth: int) -> Steps:
    """Copy one file or directory; a failure is reported."""
    yield PAUSE
    files, process = tool.files, tool.process
    deep = any(letter in options for letter in "rRa")
    as_link = (
        "a" in options or "d" in options or "P" in options or (deep and depth > 0)
    ) and "L" not in options
    try:
        inode = files.lookup(
            source, process, follow=not as_link and not (deep and "L" not in options and "H" not in options)
        )
    except FileError as error:
        what = f"can't stat '{source}'" if tool.busybox else f"cannot stat '{source}'"
        yield from tool.complain(f"{what}: {error.text}")
        return
    if isinstance(inode, Directory):
        if not deep or depth > DEPTH_MAX:
            yield from tool.complain(
                f"omitting directory '{source}'"
                if tool.busybox
                else f"-r not specified; omitting directory '{source}'"
            )
            return
        if f"{files.walk(target, process).path}/".startswith(f"{files.walk(source, process).path}/"):
            yield from tool.complain(
                f"recursion detected, omitting directory '{source}'"
                if tool.busybox
                else f"cannot copy a directory, '{source}', into itself, '{target}'"
            )
            return
        if not files.exists(target, process):
            try:
                files.mkdir(target, process, inode.mode | 0o700)
            except FileError as error:
                what = "can't create directory" if tool.busybox else "cannot create directory"
                yield from tool.complain(f"{what} '{target}': {error.text}")
                return
        for name in files.listdir(source, process):
            yield from _copied(
                tool, f"{source.rstrip('/')}/{name}", f"{target.rstrip('/')}/{name}", options, depth + 1
            )
    else:
        if "n" in options and files.exists(target, process):
            return
        try:
            yield from _copy_file(tool, source, target, inode, force="f" in options)
        except FileError as error:
            yield from tool.complain(_not_copied(tool, source, target, error))
            return
    if "v" in options:
        yield from tool.write(f"'{source}' -> '{target}'\n")
    _preserve(tool, inode, target, everything="p" in options or "a" in options)


def _not_copied(tool: Tool, source: str, target: str, error: FileError) -> str:
    if error.code == "EINVAL":
        return f"'{source}' and '{target}' are the same file"
    if error.path == source:
        return (
            f"can't open '{source}': {error.text}"
            if tool.busybox
            else f"cannot open '{source}' for reading: {error.text}"
        )
    if error.code == "ENOSPC":
        return f"write error: {error.text}" if tool.busybox else f"error writing '{target}': {error.text}"
    return (
        f"can't create '{target}': {error.text}"
        if tool.busybox
        else f"cannot create regular file '{target}': {error.text}"
    )


def _copy_file(tool: Tool, source: str, target: str, inode: Inode, *, force: bool) -> Steps:
    """Copy what is no directory.  Raises FileError."""
    files, process = tool.files, tool.process
    if files.exists(target, process) and files.lookup(target, process) is inode:
        raise FileError("EINVAL", target)
    if isinstance(inode, Symlink):
        if files.exists(target, process, follow=False):
            files.unlink(target, process)
        files.symlink(inode.target, target, process)
        return
    read = files.open(source, process)
    try:
        write = files.open(target, process, WRITING, inode.mode & 0o777)
    except FileError as error:
        if not force or error.code not in ("EACCES", "EPERM"):
            read.close()
            raise FileError(error.code, target) from None
        files.unlink(target, process)
        write = files.open(target, process, WRITING, inode.mode & 0o777)
    problem: FileError | None = None
    while problem is None and (data := (yield from receive(read, CHUNK))):
        yield PAUSE
        try:
            yield from send(write, data)
        except FileError as failure:
            problem = FileError(failure.code, target)
    read.close()
    write.close()
    if problem is not None:
        raise problem


def _preserve(tool: Tool, inode: Inode, target: str, *, everything: bool) -> None:
    """Give a copy what -p keeps; a user who may not change the owner keeps it."""
    try:
        made = tool.files.lookup(target, tool.process, follow=False)
    except FileError:
        return
    if made.kind == "l" or not everything:
        if isinstance(inode, Program) and made.kind == "-":
            made.mode |= 0o111
        return
    made.mode, made.mtime_us = inode.mode, inode.mtime_us
    if tool.process.identity.may("CHOWN"):
        made.uid, made.gid = inode.uid, inode.gid


def mv(tool: Tool) -> Main:
    """Move files, to another filesystem by a copy."""
    options = tool.options("fnivt:Tu", {"force": "f", "no-clobber": "n", "verbose": "v", "target-directory": "t",
                                        "no-target-directory": "T"})  # fmt: skip
    for source, target in _targets(tool, options):
        if "n" in options and tool.files.exists(target, tool.process):
            continue
        try:
            tool.files.rename(source, target, tool.process)
        except FileError as error:
            if error.code == "EXDEV":
                yield from _moved_by_copy(tool, source, target)
                continue
            yield from tool.complain(_not_moved(tool, source, target, error))
            continue
        if "v" in options:
            yield from tool.write(f"renamed '{source}' -> '{target}'\n")
    return tool.code


def _moved_by_copy(tool: Tool, source: str, target: str) -> Steps:
    options = Options()
    options.given = [("a", ""), ("r", ""), ("f", "")]
    before, tool.code = tool.code, 0
    yield from _copied(tool, source, target, options, 0)
    if not tool.code:
        yield from _removed(tool, source, options, 0)
    tool.code = tool.code or before


def _not_moved(tool: Tool, source: str, target: str, error: FileError) -> str:
    if not tool.files.exists(source, tool.process, follow=False):
        return (
            f"can't rename '{source}': {error.text}"
            if tool.busybox
            else f"cannot stat '{source}': {error.text}"
        )
    if tool.busybox:
        return f"can't rename '{source}': {error.text}"
    if error.code == "EINVAL":
        return f"cannot move '{source}' to a subdirectory of itself, '{target}'"
    if error.code == "ENOTDIR" and tool.files.exists(target, tool.process):
        return f"cannot overwrite non-directory '{target}' with directory '{source}'"
    if error.code == "EISDIR":
        return f"cannot overwrite directory '{target}' with non-directory"
    return f"cannot move '{source}' to '{target}': {error.text}"


def ln(tool: Tool) -> Main:
    """Make links: -s symbolic ones, -f in place of what is there, -n not into a directory."""
    options = tool.options("sfnvTt:r", {"symbolic": "s", "force": "f", "no-dereference": "n", "verbose": "v"})
    if len(options.rest) == 1 and "t" not in options:
        options.rest.append(options.rest[0].rstrip("/").rpartition("/")[2])
    for source, target in _targets(tool, options):
        try:
            if "f" in options and tool.files.exists(target, tool.process, follow=False):
                tool.files.unlink(target, tool.process)
            if "s" in options:
                tool.files.symlink(source, target, tool.process)
            else:
                tool.files.link(source, target, tool.process)
        except FileError as error:
            kind = "symbolic" if "s" in options else "hard"
            if error.path == source and "s" not in options and not tool.busybox:
                yield from tool.complain(f"failed to access '{source}': {error.text}")
            elif tool.busybox:
                yield from tool.complain(f"{error.path}: {error.text}")
            else:
                arrow = f" => '{source}'" if kind == "hard" and error.code != "EEXIST" else ""
                yield from tool.complain(f"failed to create {kind} link '{target}'{arrow}: {error.text}")
    return tool.code


def mktemp(tool: Tool) -> Main:
    """Make a file, or with -d a directory, with a new name."""
    options = tool.options("dqup:t", {"directory": "d", "tmpdir": "p", "dry-run": "u", "quiet": "q"})
    form = options.rest[0] if options.rest else f"tmp.{'X' * (6 if tool.busybox else 10)}"
    base = options.last("p") or tool.process.env.get("TMPDIR", "/tmp")
    if "p" in options or "t" in options or not options.rest:
        form = f"{base}/{form}"
    stem = form.rstrip("X")
    if len(form) - len(stem) < (6 if tool.busybox else 3):
        raise Failed("(null): Invalid argument" if tool.busybox else f"too few X's in template '{form}'")
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    for attempt in range(1000):
        yield PAUSE
        seed = hash_number(tool, attempt)
        path = stem
        for _ in range(len(form) - len(stem)):
            seed, digit = divmod(seed, len(letters))
            path += letters[digit]
        try:
            if "d" in options:
                tool.files.mkdir(path, tool.process, 0o700)
            elif "u" not in options:
                tool.files.open(path, tool.process, Open.WRITE | Open.CREATE | Open.EXCLUSIVE, 0o600).close()
        except FileError as error:
            if error.code == "EEXIST":
                continue
            kind = "directory" if "d" in options else "file"
            raise Failed(
                f"{form}: {error.text}"
                if tool.busybox
                else f"failed to create {kind} via template '{form}': {error.text}"
            ) from None
        yield from tool.write(path + "\n")
        return 0
    raise Failed(f"{form}: File exists")


def hash_number(tool: Tool, attempt: int) -> int:
    """A number that depends on the process and the time, the same in each run of the simulation."""
    import hashlib

    process = tool.process
    text = f"{process.container.hostname}/{process.pid}/{process.now_us}/{attempt}"
    return int.from_bytes(
        hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).digest(), "big"
    )


def readlink(tool: Tool) -> Main:
    """Print where a link points to: -f the path without links."""
    options = tool.options("fenvmqsz", {"canonicalize": "f", "canonicalize-existing": "e", "no-newline": "n"})
    if not options.rest:
        raise Usage("missing operand")
    for path in options.rest:
        try:
            if any(letter in options for letter in "fem"):
                place = tool.files.walk(path, tool.process)
                if place.inode is None and "e" in options:
                    raise FileError("ENOENT", path)
                found = place.path
            else:
                found = tool.files.readlink(path, tool.process)
        except FileError as error:
            tool.code = 1
            if "v" in options:
                yield from tool.complain(f"{path}: {error.text}")
            continue
        yield from tool.write(found + ("" if "n" in options else "\n"))
    return tool.code


def realpath(tool: Tool) -> Main:
    """Print paths without links."""
    options = tool.options(
        "emsqLPz", {"canonicalize-existing": "e", "canonicalize-missing": "m", "no-symlinks": "s"}
    )
    if not options.rest:
        raise Usage("missing operand")
    for path in options.rest:
        try:
            place = tool.files.walk(path, tool.process)
            if place.inode is None and ("e" in options or tool.busybox):
                raise FileError("ENOENT", path)
        except FileError as error:
            yield from tool.complain(f"{path}: {error.text}")
            continue
        yield from tool.write(place.path + "\n")
    return tool.code


def sync(tool: Tool) -> Main:
    """Files are always written."""
    tool.options("df")
    yield from tool.flush()
    return 0


COMMANDS = {
      "cp": cp, "ln": ln, "mkdir": mkdir, "mktemp": mktemp, "mv": mv,
    "readlink": readlink, "realpath": realpath, "rm": rm, "rmdir": rmdir, "sync": sync,

}  # fmt: skip
