"""Commands that change what is known of files: touch, chmod, chown, chgrp, truncate.

Mirrors  POSIX.1-2017 XCU and the texts of GNU coreutils and busybox.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence

from actors.node.programs.commands.names import People, now
from actors.node.programs.commands.tool import Failed, Steps, Tool, Usage
from actors.node.programs.files.errors import FileError
from actors.node.programs.files.handles import Open
from actors.node.programs.files.inodes import Inode
from actors.node.programs.waits import PAUSE, Main
from sim.patterns import pattern
from sim.units import SECOND

DEPTH_MAX = 200  # of directories in each other that commands enter
_CLAUSE = pattern(r"([ugoa]*)((?:[-+=](?:[rwxXst]*|[ugo]))+)")
_ACTION = pattern(r"([-+=])([rwxXst]*|[ugo])")


def touch(tool: Tool) -> Main:
    """Make files, or set their times: -c makes none, -d, -t and -r FILE give the time."""
    options = tool.options("acmd:t:r:h", {"no-create": "c", "date": "d", "reference": "r"})
    if not options.rest:
        raise Usage("missing file operand")
    at_us = now(tool)
    if "r" in options:
        at_us = tool.files.lookup(options.last("r"), tool.process).mtime_us
    elif "d" in options or "t" in options:
        at_us = parse_date(options.last("d") or options.last("t"), at_us)
    for path in options.rest:
        try:
            if not tool.files.exists(path, tool.process):
                if "c" in options:
                    continue
                tool.files.open(path, tool.process, Open.WRITE | Open.CREATE).close()
            tool.files.utime(path, tool.process, at_us)
        except FileError as error:
            yield from tool.complain(
                f"{path}: {error.text}" if tool.busybox else f"cannot touch '{path}': {error.text}"
            )
    return tool.code


_STAMP = pattern(r"(\d{2}|\d{4})?(\d\d)(\d\d)(\d\d)(\d\d)(?:\.(\d\d))?")


def parse_date(text: str, now_us: int) -> int:
    """The time that a text names: @seconds, ISO 8601, [[CC]YY]MMDDhhmm[.ss], now.  Raises Failed."""
    if text in ("now", ""):
        return now_us
    try:
        if text[0] == "@":
            return int(float(text[1:]) * SECOND)
        match = _STAMP.fullmatch(text)
        if match:
            this = datetime.datetime.fromtimestamp(now_us // SECOND, tz=datetime.UTC)
            year = this.year if not match[1] else int(match[1]) + (2000 if len(match[1]) == 2 else 0)
            month, day, hour, minute = (int(match[at]) for at in (2, 3, 4, 5))
            at = datetime.datetime(year, month, day, hour, minute, int(match[6] or 0), tzinfo=datetime.UTC)
        else:
            at = datetime.datetime.fromisoformat(text.strip().removesuffix(" UTC").removesuffix(" GMT"))
            at = at if at.tzinfo else at.replace(tzinfo=datetime.UTC)
    except (ValueError, OverflowError):
        raise Failed(f"invalid date '{text}'") from None
    return round(at.timestamp()) * SECOND


def changed_mode(text: str, mode: int, folder: bool, tool: Tool) -> int:
    """A mode after a change, octal or symbolic.  Raises Failed."""
    if text and not text.strip("01234567") and len(text) <= 5:
        return int(text, 8) & 0o7777
    for clause in text.split(","):
        match = _CLAUSE.fullmatch(clause)
        if match is None:
            raise Failed(f"invalid mode '{text}'") if tool.busybox else Usage(f"invalid mode: '{text}'")
        who = match[1] or "a"
        mask = sum(
            {"u": 0o4700, "g": 0o2070, "o": 0o1007}[letter]
            for letter in ("ugo" if "a" in who else sorted(set(who)))
        )
        if not match[1]:
            mask &= ~tool.process.umask
        for sign, letters in _ACTION.findall(match[2]):
            bits = 0
            if letters in ("u", "g", "o") and letters:
                three = mode >> {"u": 6, "g": 3, "o": 0}[letters] & 7
                bits = three << 6 | three << 3 | three
            else:
                for letter in letters:
                    bits |= {"r": 0o444, "w": 0o222, "x": 0o111, "X": 0o111 if folder or mode & 0o111 else 0,
                             "s": 0o6000, "t": 0o1000}[letter]  # fmt: skip
            bits &= mask
            if sign == "=":
                keep = 0o6000 if folder else 0
                mode = (mode & ~(mask & ~keep & 0o7777)) | bits
            else:
                mode = mode | bits if sign == "+" else mode & ~bits
    return mode


def chmod(tool: Tool) -> Main:
    """Change permissions: -R of all below too."""
    args = list(tool.args)
    at = next(
        (
            at
            for at, word in enumerate(args)
            if word[:1] == "-" and word[1:2] in tuple("rwxXst") and word != "-v"
        ),
        -1,
    )
    mode_word = args.pop(at) if at >= 0 else ""
    tool.args = tuple(args)
    options = tool.options(
        "Rfvc", {"recursive": "R", "verbose": "v", "silent": "f", "quiet": "f", "changes": "c"}
    )
    words = [mode_word, *options.rest] if mode_word else options.rest
    if len(words) < 2:
        raise Usage(f"missing operand after '{words[0]}'" if words else "missing operand")

    def change(path: str, inode: Inode) -> None:
        tool.files.chmod(path, tool.process, changed_mode(words[0], inode.mode, inode.kind == "d", tool))

    changed_mode(words[0], 0, False, tool)
    yield from _each(tool, words[1:], change, "R" in options, "change permissions of")
    return tool.code


def chown(tool: Tool) -> Main:
    """Change owner and group: -R of all below too, -h of links themselves."""
    options = tool.options("RfvchHLP", {"recursive": "R", "verbose": "v", "no-dereference": "h"})
    if len(options.rest) < 2:
        raise Usage(f"missing operand after '{options.rest[0]}'" if options.rest else "missing operand")
    text = options.rest[0]
    uid, gid = People(tool).owner(f":{text}" if tool.name == "chgrp" else text, tool.busybox)

    def change(path: str, inode: Inode) -> None:
        tool.files.chown(
            path,
            tool.process,
            uid,
            gid,
            follow="h" not in options and not (inode.kind == "l" and "R" in options),
        )

    what = "changing group of" if tool.name == "chgrp" else "changing ownership of"
    yield from _each(tool, options.rest[1:], change, "R" in options, what)
    return tool.code


def _each(
    tool: Tool, paths: Sequence[str], change: Callable[[str, Inode], None], deep: bool, what: str
) -> Steps:
    """Change each file, and with `deep` all below directories; a failure is reported."""
    waiting = list(paths)[::-1]
    while waiting:
        path = waiting.pop()
        yield PAUSE
        try:
            inode = tool.files.lookup(path, tool.process, follow=path in paths)
            if inode.kind == "l" and tool.name == "chmod":
                continue
            change(path, inode)
            if deep and inode.kind == "d" and path.count("/") < DEPTH_MAX:
                waiting += [
                    f"{path.rstrip('/')}/{name}" for name in tool.files.listdir(path, tool.process)[::-1]
                ]
        except FileError as error:
            if tool.busybox or error.code == "ENOENT":
                shown = f"{path}: {error.text}" if tool.busybox else f"cannot access '{path}': {error.text}"
            elif what.startswith("change"):
                shown = f"changing permissions of '{path}': {error.text}"
            else:
                shown = f"{what} '{path}': {error.text}"
            yield from tool.complain(shown)


def truncate(tool: Tool) -> Main:
    """Give files a size: -s SIZE."""
    options = tool.options("s:c", {"size": "s", "no-create": "c"})
    match = pattern(r"([+-]?)(\d{1,15})([KMGT]?)").fullmatch(options.last("s"))
    if match is None or not options.rest:
        raise Usage("you must specify either '--size' or '--reference'")
    size = int(match[2]) << {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}[match[3]]
    for path in options.rest:
        try:
            if not tool.files.exists(path, tool.process):
                tool.files.open(path, tool.process, Open.WRITE | Open.CREATE).close()
            held = tool.files.lookup(path, tool.process).size
            wanted = {"": size, "+": held + size, "-": max(0, held - size)}[match[1]]
            tool.files.truncate(path, tool.process, wanted)
        except FileError as error:
            yield from tool.complain(
                f"{path}: {error.text}" if tool.busybox else f"cannot open '{path}' for writing: {error.text}"
            )
    return tool.code


COMMANDS = {"chgrp": chown, "chmod": chmod, "chown": chown, "touch": touch, "truncate": truncate}
