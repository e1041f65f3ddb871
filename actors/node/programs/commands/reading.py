"""Commands that hand on what they read: cat, head, tail, tee, wc, tac, rev, nl.

Mirrors  POSIX.1-2017 XCU cat, head, tail, tee, wc.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator

from actors.node.programs.commands.tool import CHUNK, Failed, Lines, Steps, Tool, Usage
from actors.node.programs.ends import End, send
from actors.node.programs.files.errors import FileError
from actors.node.programs.files.handles import APPENDING, WRITING, Handle
from actors.node.programs.waits import Main, Source, Wait
from sim.patterns import pattern
from sim.units import SECOND

_COUNT = pattern(r"([+-]?)(\d{1,18})(c|b|kB|k|K|KiB|MB|M|MiB|G|GB|GiB)?")
_UNITS = {
    "": 1, "c": 1, "b": 512, "k": 1024, "K": 1024, "KiB": 1024, "kB": 1000, "M": 1 << 20, "MiB": 1 << 20,
    "MB": 1_000_000, "G": 1 << 30, "GiB": 1 << 30, "GB": 1_000_000_000,
}  # fmt: skip
KEPT_LINES_MAX = 100_000  # that `tail` and `head -n -N` keep; KEPT_BYTES_MAX with them
KEPT_BYTES_MAX = 16 << 20


def cat(tool: Tool) -> Main:
    """Print the inputs: -n with numbers, -b numbers of lines that are not empty, -A -E -T -v shown."""
    options = tool.options(
        "AbeEntTuv" if tool.busybox else "AbeEnstTuv",
        {"number": "n", "show-all": "A", "show-ends": "E", "show-tabs": "T", "number-nonblank": "b",
         "squeeze-blank": "s", "show-nonprinting": "v"},
    )  # fmt: skip
    ends, tabs, shown = (any(letter in options for letter in letters) for letters in ("AeE", "AtT", "Aetv"))
    number, plain = 0, not any(letter in options for letter in "AbeEnstTv")

    def visit(_: str, lines: Lines) -> Steps:
        nonlocal number
        if plain:
            while data := (yield from lines.chunk()):
                yield from tool.write(data)
                yield from tool.flush()
            return
        empty_before = False
        while line := (yield from lines.line()):
            body, newline = line.removesuffix(b"\n"), line.endswith(b"\n")
            if "s" in options and not body and empty_before:
                continue
            empty_before = not body
            if shown:
                body = b"".join(_visible(byte) for byte in body)
            if tabs:
                body = body.replace(b"\t", b"^I")
            if ("n" in options and "b" not in options) or ("b" in options and body):
                number += 1
                body = b"%6d\t" % number + body
            yield from tool.write(body + (b"$\n" if ends and newline else b"\n" if newline else b""))

    yield from tool.inputs(options.rest, visit)
    return tool.code


def _visible(byte: int) -> bytes:
    if byte >= 128:
        return b"M-" + _visible(byte - 128)
    if byte == 127:
        return b"^?"
    return bytes((byte,)) if byte >= 32 or byte == 9 else b"^" + bytes((byte + 64,))


def _count(tool: Tool, text: str, what: str) -> tuple[str, int]:
    """The sign and the amount of a count.  Raises Failed."""
    match = _COUNT.fullmatch(text)
    if match is None:
        raise Failed(f"invalid number '{text}'" if tool.busybox else f"invalid number of {what}: '{text}'")
    return match[1], int(match[2]) * _UNITS[match[3] or ""]


def _legacy(tool: Tool) -> None:
    """`head -5` means `head -n 5`."""
    args = list(tool.args)
    if args and len(args[0]) > 1 and args[0][0] in "-+" and args[0][1:].isdigit():
        if args[0][0] == "-" or tool.name == "tail":
            args[:1] = ["-n", args[0].removeprefix("-")]
    tool.args = tuple(args)


def _header(tool: Tool, path: str, first: bool) -> Steps:
    name = "standard input" if path == "-" else path
    yield from tool.write(f"{'' if first else chr(10)}==> {name} <==\n")


def head(tool: Tool) -> Main:
    """Print the first lines (-n) or bytes (-c); without the last ones if the count is negative."""
    _legacy(tool)
    options = tool.options(
        "n:c:qvz", {"lines": "n", "bytes": "c", "quiet": "q", "silent": "q", "verbose": "v"}
    )
    by_bytes = options.latest("nc") == "c"
    sign, count = _count(
        tool, options.last(options.latest("nc") or "n", "10"), "bytes" if by_bytes else "lines"
    )
    titled = (len(options.rest) > 1 and "q" not in options) or "v" in options
    first = True

    def visit(path: str, lines: Lines) -> Steps:
        nonlocal first
        if titled:
            yield from _header(tool, path, first)
            first = False
        left = count
        kept: deque[bytes] = deque()
        while left > 0 or sign == "-":
            data = yield from (
                lines.chunk(CHUNK if sign == "-" else min(left, CHUNK)) if by_bytes else lines.line()
            )
            if not data:
                break
            if sign != "-":
                left -= len(data) if by_bytes else 1
                yield from tool.write(data)
            else:
                kept.append(data)
                if by_bytes:
                    whole = b"".join(kept)[-count - CHUNK :] if count else data
                    kept = deque([whole[max(0, len(whole) - count) :]]) if count else deque()
                    yield from tool.write(whole[: max(0, len(whole) - count)] if count else data)
                elif len(kept) > min(count, KEPT_LINES_MAX):
                    yield from tool.write(kept.popleft())

    yield from tool.inputs(options.rest, visit)
    return tool.code


def tail(tool: Tool) -> Main:
    """Print the last lines (-n) or bytes (-c), or from one on (+N); -f follows the file."""
    _legacy(tool)
    options = tool.options(
        "n:c:fFqvs:r", {"lines": "n", "bytes": "c", "follow": "f", "quiet": "q", "silent": "q", "verbose": "v",
                        "retry": "r", "sleep-interval": "s"},
    )  # fmt: skip
    by_bytes = options.latest("nc") == "c"
    sign, count = _count(
        tool, options.last(options.latest("nc") or "n", "10"), "bytes" if by_bytes else "lines"
    )
    follow = "f" in options or "F" in options
    titled = (len(options.rest) > 1 and "q" not in options) or "v" in options
    first = True

    def visit(path: str, lines: Lines) -> Steps:
        nonlocal first
        if titled:
            yield from _header(tool, path, first)
            first = False
        yield from _last(tool, lines, sign, count, by_bytes)

    if not follow:
        yield from tool.inputs(options.rest, visit)
        if tool.busybox and tool.code and len(options.rest) == 1:
            yield from tool.complain("no files")
        return tool.code
    followed: list[tuple[str, Handle]] = []
    for path in options.rest or ("-",):
        try:
            end = tool.opened(path)
        except FileError as error:
            yield from tool.complain(tool.unreadable(path, error))
            if "F" not in options:
                continue
            end = yield from _appeared(tool, path)
        yield from visit(path, Lines(end))
        if isinstance(end, Handle):
            followed.append((path, end))
    if not followed:
        if tool.code:
            yield from tool.complain("no files" if tool.busybox else "no files remaining")
        return tool.code
    return (yield from _follow(tool, followed, by_name="F" in options, titled=titled))


def _appeared(tool: Tool, path: str) -> Generator[Wait, None, End]:
    """Wait until a file exists, looking once a second."""
    while True:
        yield Wait(until_us=tool.process.now_us + SECOND)
        try:
            end = tool.opened(path)
        except FileError:
            continue
        if not tool.busybox:
            yield from tool.warn(f"{tool.name}: '{path}' has appeared;  following new file\n")
        return end


def _last(tool: Tool, lines: Lines, sign: str, count: int, by_bytes: bool) -> Steps:
    """Print the end of an input."""
    kept: deque[bytes] = deque()
    size, skipped = 0, max(0, count - 1) if sign == "+" else 0
    while True:
        data = yield from (lines.chunk() if by_bytes else lines.line())
        if not data:
            break
        if sign == "+":
            passed = min(skipped, len(data) if by_bytes else 1)
            skipped -= passed
            yield from tool.write(data[passed:] if by_bytes else b"" if passed else data)
            continue
        kept.append(data)
        size += len(data)
        while (
            kept and ((size - len(kept[0]) >= count) if by_bytes else len(kept) > min(count, KEPT_LINES_MAX))
        ) or size > KEPT_BYTES_MAX:
            size -= len(kept.popleft())
    rest = b"".join(kept)
    yield from tool.write(rest[max(0, len(rest) - count) :] if by_bytes else rest)


def _follow(tool: Tool, followed: list[tuple[str, Handle]], *, by_name: bool, titled: bool) -> Main:
    """Print what is appended, for ever.

    by_name: True if a new file under the name is followed in place of the old one
    """
    shown = followed[-1][0]
    while True:
        for at, (path, end) in enumerate(followed):
            if end.at > end.inode.size:
                yield from tool.warn(f"{tool.name}: {path}: file truncated\n")
                end.at = 0
            if by_name:
                end = _renewed(tool, path, end)
                followed[at] = (path, end)
            while data := end.read(CHUNK):
                if titled and shown != path:
                    yield from _header(tool, path, first=False)
                    shown = path
                yield from tool.write(data)
        yield from tool.flush()
        sources = []
        for _, end in followed:
            if end.inode.changed is None:
                end.inode.changed = Source()
            end.inode.changed.clear()
            sources.append(end.inode.changed)
        yield Wait(tuple(sources), until_us=tool.process.now_us + SECOND if by_name else None)


def _renewed(tool: Tool, path: str, end: Handle) -> Handle:
    """The file that has the name now."""
    try:
        if tool.files.lookup(path, tool.process) is end.inode:
            return end
        other = tool.opened(path)
    except FileError:
        return end
    if not isinstance(other, Handle):
        tool.close(other)
        return end
    tool.close(end)
    return other


OPEN_MAX = 1_024  # files that a process opens at once


def tee(tool: Tool) -> Main:
    """Hand the input on, and write it to files: -a appends."""
    options = tool.options("ai", {"append": "a", "ignore-interrupts": "i"})
    ends: list[tuple[str, End]] = []
    for path in options.rest:
        try:
            if len(ends) >= OPEN_MAX:
                raise FileError("EMFILE", path)
            ends.append((path, tool.files.open(path, tool.process, APPENDING if "a" in options else WRITING)))
        except FileError as error:
            yield from tool.complain(f"{path}: {error.text}")
    lines = Lines(tool.opened("-"))
    while data := (yield from lines.chunk()):
        yield from tool.write(data)
        yield from tool.flush()
        for path, end in tuple(ends):
            try:
                yield from send(end, data)
            except FileError as error:
                ends.remove((path, end))
                yield from tool.complain(f"{path}: {error.text}")
    for _, end in ends:
        end.close()
    tool.close(lines.end)
    return tool.code


def wc(tool: Tool) -> Main:
    """Count lines (-l), words (-w), characters (-m) and bytes (-c); -L the longest line."""
    options = tool.options(
        "lwcmL", {"lines": "l", "words": "w", "bytes": "c", "chars": "m", "max-line-length": "L"}
    )
    wanted = [letter for letter in "lwmcL" if letter in options] or ["l", "w", "c"]
    rows: list[tuple[dict[str, int], str]] = []

    def visit(path: str, lines: Lines) -> Steps:
        counts = dict.fromkeys("lwmcL", 0)
        while line := (yield from lines.line()):
            counts["l"] += line.endswith(b"\n")
            counts["w"] += len(line.split())
            counts["c"] += len(line)
            counts["L"] = max(counts["L"], len(line.rstrip(b"\n")))
        counts["m"] = counts["c"]
        rows.append((counts, "" if path == "-" and not options.rest else path))

    yield from tool.inputs(options.rest, visit)
    if len(options.rest) > 1:
        total = {
            letter: (max if letter == "L" else sum)(counts[letter] for counts, _ in rows)
            for letter in "lwmcL"
        }
        rows.append((total, "total"))
    if tool.busybox:
        width = 1 if len(wanted) == 1 and len(rows) == 1 else 9
    elif (len(options.rest) == 1 and len(wanted) == 1) or (not options.rest and len(wanted) == 1):
        width = 1
    else:
        regular = all(path != "-" for path in options.rest) and options.rest
        sizes = sum(counts["c"] for counts, name in rows if name != "total")
        width = len(str(sizes)) if regular else 7
    for counts, name in rows:
        columns = [str(counts[letter]).rjust(width) for letter in wanted]
        yield from tool.write(" ".join([*columns, name] if name else columns) + "\n")
    return tool.code


def tac(tool: Tool) -> Main:
    """Print the lines of the inputs, the last first."""
    lines = (yield from tool.everything(tool.options("").rest)).splitlines(keepends=True)
    yield from tool.write(b"".join(reversed(lines)))
    return tool.code


def rev(tool: Tool) -> Main:
    """Print each line backwards."""

    def visit(_: str, lines: Lines) -> Steps:
        while line := (yield from lines.line()):
            yield from tool.write(line.rstrip(b"\n")[::-1] + b"\n")

    yield from tool.inputs(tool.options("").rest, visit)
    return tool.code


def nl(tool: Tool) -> Main:
    """Print lines with numbers: -b a of all lines, t of those that are not empty."""
    options = tool.options("b:w:s:", {"body-numbering": "b", "number-width": "w", "number-separator": "s"})
    width, number = options.last("w", "6"), 0
    if not width.isdigit() or not 0 < int(width[:4]) < 100:
        raise Usage(f"invalid line number field width: '{width}'")

    def visit(_: str, lines: Lines) -> Steps:
        nonlocal number
        while line := (yield from lines.line()):
            if line.strip(b"\n") or options.last("b") == "a":
                number += 1
                yield from tool.write(f"{number:>{int(width)}}{options.last('s', chr(9))}")
            else:
                yield from tool.write(" " * (int(width) + 1))
            yield from tool.write(line)

    yield from tool.inputs(options.rest, visit)
    return tool.code


def fold(tool: Tool) -> Main:
    """Break lines after a width: -w, 80 without it."""
    options = tool.options("bsw:", {"width": "w", "bytes": "b"})
    text = options.last("w", "80")
    if not text.isdigit() or not int(text[:9]) > 0:
        raise Failed(f"invalid number '{text}'" if tool.busybox else f"invalid number of columns: '{text}'")
    width = int(text[:9])

    def visit(_: str, lines: Lines) -> Steps:
        rest = b""
        while data := (yield from lines.chunk()):
            *whole, rest = (rest + data).split(b"\n")
            for line in whole:
                yield from tool.write(
                    b"".join(line[at : at + width] + b"\n" for at in range(0, len(line) or 1, width))
                )
            full = max(0, len(rest) - 1) // width * width
            yield from tool.write(b"".join(rest[at : at + width] + b"\n" for at in range(0, full, width)))
            rest = rest[full:]
            yield from tool.flush()
        yield from tool.write(rest)

    yield from tool.inputs(options.rest, visit)
    return tool.code


COMMANDS = {
    "cat": cat,
    "fold": fold,
    "head": head,
    "nl": nl,
    "rev": rev,
    "tac": tac,
    "tail": tail,
    "tee": tee,
    "wc": wc,
}
