"""Commands that list: ls, stat, find.

Mirrors  ls(1), stat(1), find(1) of GNU and busybox.
Differs  names are sorted by bytes, as in the POSIX locale; colours are never shown.
"""

from __future__ import annotations

from collections.abc import Generator
from fnmatch import fnmatchcase

from actors.node.programs.commands.names import (
    People,
    full_time,
    ident,
    links,
    mode_text,
    now,
    size_text,
    time_text,
)
from actors.node.programs.commands.tool import Failed, Options, Steps, Tool, Usage
from actors.node.programs.files.errors import FileError
from actors.node.programs.files.inodes import Directory, Inode, Symlink, blocks
from actors.node.programs.waits import PAUSE, Main, Wait
from sim.patterns import pattern
from sim.units import SECOND

DEPTH_MAX = 200  # of directories in each other that commands enter
_LS = {
    "all": "a", "almost-all": "A", "recursive": "R", "reverse": "r", "human-readable": "h", "directory": "d",
    "dereference": "L", "inode": "i", "numeric-uid-gid": "n", "classify": "F", "size": "s", "color": "@",
    "full-time": "$", "no-group": "G",
}  # fmt: skip


def ls(tool: Tool) -> Main:
    """List files and directories."""
    words = [word for word in tool.args if not word.startswith("--color")]
    tool.args = tuple(words)
    options = tool.options("laA1ndRLhrtSigopFsCxXUmcuGHkvN@$", _LS, code=1 if tool.busybox else 2)
    lister = _Lister(tool, options)
    files: list[tuple[str, Inode]] = []
    folders: list[tuple[str, Inode]] = []
    for path in sorted(options.rest) or ["."]:
        try:
            inode = tool.files.lookup(
                path, tool.process, follow=not lister.long or "L" in options or "H" in options
            )
        except FileError as error:
            try:
                inode = tool.files.lookup(path, tool.process, follow=False)
            except FileError:
                what = path if tool.busybox else f"cannot access '{path}'"
                yield from tool.complain(f"{what}: {error.text}", 1 if tool.busybox else 2)
                continue
        (folders if isinstance(inode, Directory) and "d" not in options else files).append((path, inode))
    if files:
        yield from lister.rows(files)
    titled = len(options.rest) > 1 or "R" in options
    yield from lister.folders(sorted(folders, key=lambda one: one[0]), titled=titled, first=not files)
    return tool.code


class _Lister:
    """Prints rows of `ls`.  long: True for -l"""

    def __init__(self, tool: Tool, options: Options) -> None:
        self.tool = tool
        self.options = options
        self.long = any(letter in options for letter in "lngo$")
        self.people = People(tool)

    def folders(self, folders: list[tuple[str, Inode]], *, titled: bool, first: bool) -> Steps:
        """Print directories, and with -R those in them."""
        tool, options = self.tool, self.options
        waiting = folders[::-1]
        listed = {inode for _, inode in folders}  # with -L a link may lead back
        while waiting:
            path, inode = waiting.pop()
            yield PAUSE
            assert isinstance(inode, Directory)
            if not inode.allows(tool.process.identity, 4):
                what = f"can't open '{path}'" if tool.busybox else f"cannot open directory '{path}'"
                yield from tool.complain(f"{what}: Permission denied", 1 if tool.busybox else 2)
                continue
            if titled:
                yield from tool.write(f"{'' if first else chr(10)}{path}:\n")
            first = False
            rows: list[tuple[str, Inode]] = []
            if "a" in options:
                rows = [(".", inode), ("..", tool.files.lookup(f"{path}/..", tool.process))]
            base = path.rstrip("/")
            for name in inode.names(tool.process):
                if name[0] == "." and "a" not in options and "A" not in options:
                    continue
                try:
                    found = tool.files.lookup(f"{base}/{name}", tool.process, follow="L" in options)
                except FileError:
                    found = tool.files.lookup(f"{base}/{name}", tool.process, follow=False)
                rows.append((name, found))
            if self.long or "s" in options:
                yield from tool.write(f"total {self._total(rows)}\n")
            yield from self.rows(rows)
            if "R" in options and path.count("/") < DEPTH_MAX:
                below = [(f"{base}/{name}", found) for name, found in rows if isinstance(found, Directory)]
                for one in below[::-1]:
                    if "L" in options and one[1] in listed:
                        yield from tool.complain(f"{one[0]}: not listing already-listed directory", 2)
                    elif one[0].rpartition("/")[2] not in (".", ".."):
                        waiting.append(one)
                        listed.add(one[1])

    def _total(self, rows: list[tuple[str, Inode]]) -> str:
        size = sum(blocks(inode.taken) for _, inode in rows)
        return size_text(size) if "h" in self.options and not self.tool.busybox else str(size // 1024)

    def rows(self, rows: list[tuple[str, Inode]]) -> Steps:
        """Print the rows of one directory."""
        options, tool = self.options, self.tool
        if "S" in options:
            rows = sorted(rows, key=lambda row: -row[1].size)
        elif "t" in options:
            rows = sorted(rows, key=lambda row: -row[1].mtime_us)
        if "r" in options:
            rows = rows[::-1]
        table = [self._row(name, inode) for name, inode in rows]
        if self.long:
            widths = [max(map(len, column)) for column in zip(*(row[:-1] for row in table), strict=True)]
            for row in table:
                cells = [
                    cell.ljust(width) if at in self._left else cell.rjust(width)
                    for at, (cell, width) in enumerate(zip(row, widths, strict=False))
                ]
                yield from tool.write(" ".join([*cells, row[-1]]) + "\n")
            return
        names = [" ".join(row) for row in table]
        if tool.has_terminal(1) and "1" not in options:
            width = max(map(len, names), default=0) + 2
            across = max(1, 80 // width)
            down = -(-len(names) // across)
            for line in range(down):
                shown = names[line::down]
                yield from tool.write("".join(name.ljust(width) for name in shown[:-1]) + shown[-1] + "\n")
            return
        for name in names:
            yield from tool.write(name + "\n")

    def _row(self, name: str, inode: Inode) -> list[str]:
        options = self.options
        if "F" in options or "p" in options:
            if inode.kind == "d":
                name += "/"
            elif "F" in options:
                name += (
                    "@"
                    if inode.kind == "l" and not self.long
                    else "*"
                    if inode.kind == "-" and inode.mode & 0o111
                    else ""
                )
        first = [str(inode.number)] if "i" in options else []
        if "s" in options:
            first.append(str(blocks(inode.taken) // 1024))
        if not self.long:
            return [*first, name]
        if isinstance(inode, Symlink):
            name += f" -> {inode.target}"
        owner, group = str(inode.uid), str(inode.gid)
        if "n" not in options:
            owner, group = self.people.user(inode.uid), self.people.group(inode.gid)
        if self.tool.busybox:
            owner, group = owner[:8].ljust(8), group[:8].ljust(8)
        who = [
            *([owner] if "g" not in options else []),
            *([group] if "o" not in options and "G" not in options else []),
        ]
        at = full_time(inode.mtime_us) if "$" in options else time_text(inode.mtime_us, now(self.tool))
        self._left = range(len(first) + 2, len(first) + 2 + len(who))
        count = str(links(inode)).rjust(4 if self.tool.busybox else 1)
        size = ident(inode, "h" in options).rjust((7 if "h" in options else 9) if self.tool.busybox else 1)
        return [*first, mode_text(inode), count, *who, size, at, name]


_STAT_FIELD = pattern(r"%([-0#+ ]*)(\d{0,3})(?:\.\d+)?([a-zA-Z%])")
_KINDS = {
    "-": "regular file",
    "d": "directory",
    "l": "symbolic link",
    "c": "character special file",
    "p": "fifo",
}


def stat(tool: Tool) -> Main:
    """Show what is known of files: -c in a format, -L of what a link leads to."""
    options = tool.options(
        "c:Lftz", {"format": "c", "dereference": "L", "file-system": "f", "printf": "c", "terse": "t"}
    )
    if not options.rest:
        raise Usage("missing operand")
    for path in options.rest:
        try:
            inode = tool.files.lookup(path, tool.process, follow="L" in options)
        except FileError as error:
            yield from tool.complain(
                f"can't stat '{path}': {error.text}"
                if tool.busybox
                else f"cannot statx '{path}': {error.text}"
            )
            continue
        if "f" in options:
            form = options.last("c", "%T")
            yield from tool.write(form.replace("%T", inode.filesystem.kind) + "\n")
        elif "c" in options:
            yield from tool.write(_stat_text(tool, options.last("c"), path, inode) + "\n")
        else:
            yield from tool.write(_stat_text(tool, _stat_form(inode), path, inode))
    return tool.code


def _stat_form(inode: Inode) -> str:
    return (
        ("  File: %N\n" if inode.kind == "l" else "  File: %n\n")
        + "  Size: %-10s\tBlocks: %-10b IO Block: %-6o %F\n"
        "Device: %Dh/%dd\tInode: %-10i  Links: %-5h\n"
        "Access: (%04a/%A)  Uid: (%5u/%8U)   Gid: (%5g/%8G)\n"
        "Access: %x\nModify: %y\nChange: %z\n Birth: -\n"
    )


def _stat_text(tool: Tool, form: str, path: str, inode: Inode) -> str:
    people = People(tool)
    kind = (
        "regular empty file" if inode.kind == "-" and not inode.size else _KINDS.get(inode.kind, "weird file")
    )
    quoted = (
        f"'{path}' -> '{inode.target}'"
        if isinstance(inode, Symlink)
        else f"'{path}'"
        if tool.busybox
        else path
    )
    seconds = str(inode.mtime_us // SECOND)
    kinds = {"-": 0o100000, "d": 0o040000, "l": 0o120000, "c": 0o020000}
    values = {
        "n": path, "N": quoted, "s": str(inode.size), "a": f"{inode.mode:o}", "A": mode_text(inode), "F": kind,
        "u": str(inode.uid), "g": str(inode.gid), "U": people.user(inode.uid), "G": people.group(inode.gid),
        "i": str(inode.number), "h": str(links(inode)), "b": str(inode.taken // 512), "B": "512", "o": "4096",
        "x": full_time(inode.mtime_us), "y": full_time(inode.mtime_us), "z": full_time(inode.mtime_us),
        "X": seconds, "Y": seconds, "Z": seconds, "W": "0", "w": "-", "%": "%", "D": f"{inode.filesystem.device:x}",
        "d": str(inode.filesystem.device), "f": f"{kinds.get(inode.kind, 0) | inode.mode:x}",
        "m": tool.files.walk(path, tool.process).mount.path, "t": "0", "T": "0",
    }  # fmt: skip
    out, at = [], 0
    for match in _STAT_FIELD.finditer(form):
        out.append(form[at : match.start()])
        at = match.end()
        value = values.get(match[3], "?")
        width = int(match[2] or 0)
        if "0" in match[1]:
            value = value.rjust(width, "0")
        out.append(value.ljust(width) if "-" in match[1] else value.rjust(width))
    return "".join([*out, form[at:]])


# --- find -----------------------------------------------------------------------------------------


class _Find:
    """One run of `find`: its tests and actions as words, the depths that it enters."""

    def __init__(self, tool: Tool) -> None:
        self.tool = tool
        args = list(tool.args)
        self.follow = False
        while args and args[0] in ("-L", "-H", "-P"):
            self.follow = args.pop(0) == "-L"
        start = next((at for at, word in enumerate(args) if word[:1] in ("-", "(", "!")), len(args))
        self.paths, self.words = args[:start] or ["."], args[start:]
        self.least, self.most = 0, DEPTH_MAX
        self.depth_first = "-depth" in self.words or "-delete" in self.words
        self.same_mount = "-xdev" in self.words or "-mount" in self.words
        self.pruned = self.quits = False
        self.gathered: dict[tuple[str, ...], list[str]] = {}  # command of -exec + -> its files
        kept: list[str] = []
        words = iter(self.words)
        for word in words:
            if word in ("-maxdepth", "-mindepth"):
                value = next(words, "")
                if not value.isdigit():
                    raise Failed(
                        f"Expected a positive decimal integer argument to {word}, but got '{value}'"
                        if value
                        else f"missing argument to '{word}'"
                    )
                if word == "-maxdepth":
                    self.most = min(int(value[:6]), DEPTH_MAX)
                else:
                    self.least = int(value[:6])
            elif word not in ("-depth", "-xdev", "-mount"):
                kept.append(word)
        self.words = kept
        self.acts = any(
            word in ("-print", "-print0", "-exec", "-delete", "-quit", "-ls", "-execdir", "-printf")
            for word in kept
        )

    def visit(self, path: str, inode: Inode, depth: int) -> Generator[Wait, None, None]:
        """Apply the expression to one file."""
        if depth < self.least:
            return
        self.at = 0
        value = yield from self.either(path, inode, True)
        if self.at < len(self.words):
            raise Failed(f"paths must precede expression: `{self.words[self.at]}'")
        if value and not self.acts:
            yield from self.tool.write(path + "\n")

    def finish(self) -> Main:
        """Run the commands that take many files at once; returns the exit code."""
        code = self.tool.code
        for words, paths in self.gathered.items():
            at = words.index("{}") if "{}" in words else len(words)
            ended = yield from self.tool.run([*words[:at], *paths, *words[at + 1 :]])
            code = code or (1 if ended else 0)
        return code

    def peek(self) -> str:
        return self.words[self.at] if self.at < len(self.words) else ""

    def take(self) -> str:
        self.at += 1
        if self.at > len(self.words):
            last = self.words[-1]
            raise Failed(
                f"{last} requires an argument" if self.tool.busybox else f"missing argument to `{last}'"
            )
        return self.words[self.at - 1]

    def either(self, path: str, inode: Inode, live: bool) -> Generator[Wait, None, bool]:
        value = yield from self.both(path, inode, live)
        while self.peek() in ("-o", "-or"):
            self.take()
            other = yield from self.both(path, inode, live and not value)
            value = value or other
        return value

    def both(self, path: str, inode: Inode, live: bool) -> Generator[Wait, None, bool]:
        value = True
        while self.peek() not in ("", "-o", "-or", ")"):
            if self.peek() in ("-a", "-and"):
                self.take()
                continue
            one = yield from self.single(path, inode, live and value)
            value = value and one
        return value

    def single(self, path: str, inode: Inode, live: bool) -> Generator[Wait, None, bool]:
        """One test or action; it acts only if `live`."""
        word = self.take()
        if word in ("!", "-not"):
            return not (yield from self.single(path, inode, live))
        if word == "(":
            value = yield from self.either(path, inode, live)
            if self.take() != ")":
                raise Failed("invalid expression")
            return value
        if word in ("-print", "-print0"):
            if live:
                yield from self.tool.write(path + ("\n" if word == "-print" else "\0"))
            return True
        if word in ("-exec", "-execdir"):
            return (yield from self._exec(path, live))
        if word == "-delete":
            if live and path != ".":
                change = self.tool.files.rmdir if inode.kind == "d" else self.tool.files.unlink
                change(path, self.tool.process)
            return True
        if word == "-prune":
            self.pruned |= live
            return True
        if word == "-quit":
            self.quits |= live
            return True
        if word in ("-true", "-false"):
            return word == "-true"
        return self._test(word, path, inode)

    def _exec(self, path: str, live: bool) -> Generator[Wait, None, bool]:
        words = []
        while (word := self.take()) not in (";", "+"):
            words.append(word)
        if not live:
            return True
        if word == "+":
            self.gathered.setdefault(tuple(words), []).append(path)
            return True
        code = yield from self.tool.run([one.replace("{}", path) for one in words])
        return code == 0

    def _test(self, word: str, path: str, inode: Inode) -> bool:
        tool = self.tool
        name = path.rstrip("/").rpartition("/")[2] or path
        if word == "-empty":
            return not (inode.entries if isinstance(inode, Directory) else inode.size)
        known = ("-name", "-iname", "-path", "-ipath", "-wholename", "-type", "-size", "-perm", "-user", "-group",
                 "-uid", "-gid", "-newer", "-mmin", "-mtime", "-links", "-inum")  # fmt: skip
        if word not in known:
            raise Usage(f"unrecognized: {word}") if tool.busybox else Failed(f"unknown predicate `{word}'")
        value = self.take()
        if word in ("-name", "-iname", "-path", "-ipath", "-wholename"):
            text = name if word.endswith("name") and word != "-wholename" else path
            if word[1] == "i":
                text, value = text.lower(), value.lower()
            return fnmatchcase(text, value[:1000])
        if word == "-type":
            return inode.kind in value.replace("f", "-").split(",")
        if word == "-newer":
            return inode.mtime_us > tool.files.lookup(value, tool.process).mtime_us
        if word == "-perm":
            wanted = int(value.lstrip("-/") or "0", 8) if value.lstrip("-/").isdigit() else 0
            if value[0] == "-":
                return inode.mode & wanted == wanted
            return bool(inode.mode & wanted) if value[0] == "/" else inode.mode == wanted
        if word in ("-user", "-group"):
            people = People(tool)
            held = people.users if word == "-user" else people.groups
            return (inode.uid if word == "-user" else inode.gid) == held.get(
                value, int(value) if value.isdigit() else -1
            )
        return _counted(value, self._amount(word, value, inode))

    def _amount(self, word: str, value: str, inode: Inode) -> int:
        if word == "-size":
            unit = {"c": 1, "k": 1024, "M": 1 << 20, "G": 1 << 30, "w": 2}.get(value[-1:], 512)
            return -(-inode.size // unit)
        if word in ("-mmin", "-mtime"):
            return (now(self.tool) - inode.mtime_us) // ((60 if word == "-mmin" else 86400) * SECOND)
        return {"-uid": inode.uid, "-gid": inode.gid, "-links": links(inode), "-inum": inode.number}[word]


def _counted(value: str, amount: int) -> bool:
    digits = value.strip("+-ckMGwb")
    if not digits.isdigit():
        raise Failed(f"invalid number '{value}'")
    wanted = int(digits[:18])
    return amount > wanted if value[0] == "+" else amount < wanted if value[0] == "-" else amount == wanted


# Path, inode, depth, True after what is below it, and with -L the directories above it.
_Entry = tuple[str, Inode, int, bool, tuple[Inode, ...]]


def find(tool: Tool) -> Main:
    """Find files by name, type, size, time and permissions, and act on them."""
    search = _Find(tool)
    for path in search.paths:
        try:
            top = tool.files.walk(path, tool.process, follow=True)
            inode = tool.files.lookup(path, tool.process, follow=search.follow)
        except FileError as error:
            yield from tool.complain(f"{path}: {error.text}" if tool.busybox else f"'{path}': {error.text}")
            continue
        waiting: list[_Entry] = [(path, inode, 0, False, ())]
        while waiting:
            path, inode, depth, entered, above = waiting.pop()
            yield PAUSE
            search.pruned = False
            if entered or not search.depth_first or inode.kind != "d":
                yield from search.visit(path, inode, depth)
                if search.quits:
                    return (yield from search.finish())
            if entered or not isinstance(inode, Directory) or search.pruned:
                continue
            if search.depth_first:
                waiting.append((path, inode, depth, True, above))
            if depth >= search.most:
                continue
            waiting += yield from _below(tool, search, (path, inode, depth, False, above), top.mount.path)
    return (yield from search.finish())


def _below(tool: Tool, search: _Find, entry: _Entry, mount: str) -> Generator[Wait, None, list[_Entry]]:
    """What is in a directory, last first."""
    path, inode, depth, _, above = entry
    assert isinstance(inode, Directory)
    if not inode.allows(tool.process.identity, 4):
        yield from tool.complain(
            f"{path}: Permission denied" if tool.busybox else f"'{path}': Permission denied"
        )
        return []
    found: list[_Entry] = []
    chain = (*above, inode) if search.follow else ()
    for name in inode.names(tool.process):
        full = f"{path.rstrip('/')}/{name}" if path != "/" else f"/{name}"
        try:
            place = tool.files.walk(full, tool.process, follow=search.follow)
        except FileError:
            place = tool.files.walk(full, tool.process, follow=False)
        if place.inode is None:
            place = tool.files.walk(full, tool.process, follow=False)
        if place.inode is None or (search.same_mount and place.mount.path != mount):
            continue
        if place.inode in chain:
            yield from tool.complain(
                f"File system loop detected; '{full}' is part of the same file system loop as '{path}'."
            )
        else:
            found.append((full, place.inode, depth + 1, False, chain))
    return found[::-1]


COMMANDS = {"find": find, "ls": ls, "stat": stat}
