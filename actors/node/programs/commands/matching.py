"""grep, and commands that compare files: cmp, diff.

Mirrors  grep(1) of GNU and busybox; POSIX.1-2017 XCU cmp, diff.
Differs  `diff` compares files of at most `DIFF_LINES_MAX` lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from fnmatch import fnmatchcase

from actors.node.programs.commands.names import full_time
from actors.node.programs.commands.patterns import UNMATCHED_BRACKET, Pattern
from actors.node.programs.commands.tool import Failed, Lines, Options, Steps, Tool, Usage, to_bytes, to_text
from actors.node.programs.files.errors import FileError
from actors.node.programs.waits import PAUSE, Main

DEPTH_MAX = 200  # of directories in each other that `grep -r` enters
DIFF_LINES_MAX = 5_000
_INVALID = "Invalid regular expression"  # what GNU grep says of a bracket without an end
_GREP = {
    "quiet": "q", "silent": "q", "invert-match": "v", "ignore-case": "i", "count": "c", "line-number": "n",
    "extended-regexp": "E", "fixed-strings": "F", "recursive": "r", "only-matching": "o", "word-regexp": "w",
    "line-regexp": "x", "files-with-matches": "l", "files-without-match": "L", "no-messages": "s", "no-filename": "h",
    "with-filename": "H", "max-count": "m", "regexp": "e", "file": "f", "after-context": "A", "before-context": "B",
    "context": "C", "include": "1", "text": "a", "color": "0", "null-data": "z", "basic-regexp": "G",
}  # fmt: skip


def grep(tool: Tool) -> Main:
    """Print lines that match a pattern."""
    tool.args = tuple(word for word in tool.args if not word.startswith(("--color", "--colour")))
    options = tool.options("qvicnEFrRowxlLshHm:e:f:A:B:C:aGzPUyIb1:", _GREP, code=2)
    rest = list(options.rest)
    texts = [to_bytes(text) for text in options.all("e")]
    for path in options.all("f"):
        texts += (yield from tool.everything([path])).split(b"\n")[:-1]
    if not texts and "f" not in options:
        if not rest:
            if tool.busybox:
                raise Usage("missing operand", 1 if tool.busybox else 2)
            yield from tool.warn(
                "Usage: grep [OPTION]... PATTERNS [FILE]...\nTry 'grep --help' for more information.\n"
            )
            return 2
        texts = [to_bytes(rest.pop(0))]
    parts = [part for text in texts for part in text.split(b"\n")]
    try:
        search = _Grep(tool, options, parts)
    except Failed as failure:
        if tool.busybox:
            raise Failed(f"bad regex '{to_text(parts[0])}'", 2) from None
        raise Failed(_INVALID if failure.text == UNMATCHED_BRACKET else failure.text, 2) from None
    paths = rest or (["."] if "r" in options or "R" in options else ["-"])
    search.named = (
        "H" in options or len(paths) > 1 or "r" in options or "R" in options
    ) and "h" not in options
    for path in paths:
        if (yield from search.visit(path, bool(rest), 0)):
            break
    if search.found and ("q" in options or not tool.code):
        return 0
    return tool.code or (0 if search.found else 1)


class _Grep:
    """One run of `grep`.  found: True if a line was chosen; named: True if file names are printed"""

    def __init__(self, tool: Tool, options: Options, texts: Sequence[bytes]) -> None:
        extended = tool.name == "egrep" or "E" in options or "P" in options
        fixed = tool.name == "fgrep" or "F" in options
        around = "x" if "x" in options else "w" if "w" in options else ""
        any_case = "i" in options or "y" in options
        self.patterns = [
            Pattern(text, extended=extended, fixed=fixed, any_case=any_case, around=around)
            for text in dict.fromkeys(texts)
        ]
        self.tool = tool
        self.options = options
        self.found = self.named = False
        self.most = self._number("m", -1)
        self.after = self._number("A", self._number("C", 0))
        self.before = min(self._number("B", self._number("C", 0)), 1000)

    def _number(self, letter: str, default: int) -> int:
        text = self.options.last(letter)
        if not text:
            return default
        if not text.isdigit():
            raise Failed(
                f"invalid number '{text}'" if self.tool.busybox else "invalid context length argument", 2
            )
        return int(text[:9])

    def visit(self, path: str, given: bool, depth: int) -> Main:
        """Search one file, or with -r all below a directory; returns 1 if the search is over."""
        yield PAUSE
        tool, options = self.tool, self.options
        deep = "r" in options or "R" in options
        try:
            if path != "-" and tool.files.lookup(path, tool.process).kind == "d":
                if deep and depth < DEPTH_MAX:
                    for name in tool.files.listdir(path, tool.process):
                        below = f"{path.rstrip('/')}/{name}" if given or path != "." else name
                        if tool.files.lookup(below, tool.process, follow=False).kind in "d-":
                            if (yield from self.visit(below, True, depth + 1)):
                                return 1
                elif not deep and not tool.busybox:
                    yield from tool.complain(f"{path}: Is a directory", 2)
                return 0
            wanted = options.all("1")
            if depth and wanted and not any(fnmatchcase(path.rpartition("/")[2], one) for one in wanted):
                return 0
            end = tool.opened(path)
        except FileError as error:
            tool.code = 2
            if "s" not in options:
                yield from tool.complain(f"{path}: {error.text}", 2)
            return 0
        over = yield from self._file(path, Lines(end))
        tool.close(end)
        return over

    def _file(self, path: str, lines: Lines) -> Main:
        tool, options = self.tool, self.options
        shown = "(standard input)" if path == "-" else path
        prefix = f"{shown}:" if self.named else ""
        quiet = any(letter in options for letter in "qlLc")
        count = number = shown_up_to = left = 0
        held: list[bytes] = []
        while (line := (yield from lines.line())) and count != self.most:
            number += 1
            body = line.removesuffix(b"\n")
            hit = any(pattern.found(body) for pattern in self.patterns) != ("v" in options)
            if hit:
                count += 1
                self.found = True
                if "q" in options:
                    return 1
                if "l" in options or "L" in options:
                    break
                if quiet:
                    continue
                if self.before or self.after:
                    yield from self._context(held, number, shown_up_to, count)
                yield from self._row(prefix, number, body)
                shown_up_to, left, held = number, self.after, []
            elif left:
                left -= 1
                shown_up_to = number
                yield from self._row(prefix.replace(":", "-"), number, body, mark="-")
            elif self.before:
                held = [*held, body][-self.before :]
        if "c" in options:
            yield from tool.write(f"{prefix}{count}\n")
        if ("l" in options and count) or ("L" in options and not count):
            yield from tool.write(shown + "\n")
        return 0

    def _context(self, held: list[bytes], number: int, shown_up_to: int, count: int) -> Steps:
        first = number - len(held)
        if count > 1 and first > shown_up_to + 1:
            yield from self.tool.write("--\n")
        for at, body in enumerate(held):
            yield from self._row("", first + at, body, mark="-")

    def _row(self, prefix: str, number: int, body: bytes, mark: str = ":") -> Steps:
        options = self.options
        lead = to_bytes(prefix + (f"{number}{mark}" if "n" in options else ""))
        if "o" not in options:
            yield from self.tool.write(lead + body + b"\n")
        elif mark == ":" and "v" not in options:
            at = 0
            while at <= len(body):
                found = [
                    one for one in (pattern.search(body, at) for pattern in self.patterns) if one is not None
                ]
                if not found:
                    return
                best = min(found, key=lambda one: (one.start, -one.end))
                if best.end > best.start:
                    yield from self.tool.write(lead + body[best.start : best.end] + b"\n")
                at = max(best.end, at + 1, best.start + 1 if best.end == best.start else best.end)


def cmp(tool: Tool) -> Main:
    """Compare two files byte by byte: -s without output."""
    options = tool.options("sln:", {"silent": "s", "quiet": "s"}, code=2)
    if not options.rest:
        raise Usage("missing operand", 2)
    paths = [*options.rest, "-"][:2]
    contents = []
    for path in paths:
        contents.append((yield from tool.everything([path])))
        if tool.code:
            return 2
    left, right = contents
    at = next((at for at, (one, other) in enumerate(zip(left, right, strict=False)) if one != other), -1)
    if at < 0 and len(left) == len(right):
        return 0
    if "s" in options:
        return 1
    if at < 0:
        short = paths[0] if len(left) < len(right) else paths[1]
        size = min(len(left), len(right))
        line = (left if len(left) < len(right) else right).count(b"\n")
        if tool.busybox:
            yield from tool.warn(f"cmp: EOF on {short}\n")
        else:
            where = f" after byte {size}, line {line}" if size else " which is empty"
            yield from tool.warn(f"cmp: EOF on {short}{where}\n")
        return 1
    yield from tool.write(f"{paths[0]} {paths[1]} differ: char {at + 1}, line {left[:at].count(10) + 1}\n")
    return 1


def diff(tool: Tool) -> Main:
    """Compare two files line by line: -q whether they differ, -u with context."""
    options = tool.options(
        "qurNbBwiaU:", {"brief": "q", "unified": "u", "recursive": "r", "new-file": "N"}, code=2
    )
    if len(options.rest) != 2:
        raise Usage("missing operand", 2)
    contents = []
    for path in options.rest:
        if (
            path != "-"
            and tool.files.exists(path, tool.process)
            and tool.files.lookup(path, tool.process).kind == "d"
        ):
            raise Failed(f"{path}: Is a directory", 2)
        if path != "-" and tool.busybox and not tool.files.exists(path, tool.process):
            raise Failed(f"can't stat '{path}': No such file or directory", 2)
        contents.append((yield from tool.everything([path])).splitlines(keepends=True)[:DIFF_LINES_MAX])
        if tool.code:
            return 2
    left, right = contents
    if left == right:
        return 0
    if "q" in options:
        yield from tool.write(f"Files {options.rest[0]} and {options.rest[1]} differ\n")
        return 1
    matcher = SequenceMatcher(None, left, right, autojunk=False)
    if "u" in options or "U" in options or tool.busybox:
        yield from _unified(tool, options.rest, left, right, matcher)
        return 1
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind == "equal":
            continue
        letter = {"replace": "c", "delete": "d", "insert": "a"}[kind]
        one = _span(a, b) if kind != "insert" else str(a)
        other = _span(c, d) if kind != "delete" else str(c)
        yield from tool.write(f"{one}{letter}{other}\n")
        yield from _changed(tool, b"< ", left[a:b])
        if kind == "replace":
            yield from tool.write("---\n")
        yield from _changed(tool, b"> ", right[c:d])
    return 1


def _span(start: int, end: int) -> str:
    return str(end) if end - start == 1 else f"{start + 1},{end}"


def _changed(tool: Tool, mark: bytes, lines: list[bytes]) -> Steps:
    for line in lines:
        yield from tool.write(
            mark + line + (b"" if line.endswith(b"\n") else b"\n\\ No newline at end of file\n")
        )


def _unified(
    tool: Tool, paths: list[str], left: list[bytes], right: list[bytes], matcher: SequenceMatcher[bytes]
) -> Steps:
    for mark, path in zip(("---", "+++"), paths, strict=True):
        when = ""
        if path != "-" and not tool.busybox:
            when = "\t" + full_time(tool.files.lookup(path, tool.process).mtime_us)
        yield from tool.write(f"{mark} {path}{when}\n")
    for group in matcher.get_grouped_opcodes(3):
        first, last = group[0], group[-1]
        yield from tool.write(f"@@ -{_hunk(first[1], last[2])} +{_hunk(first[3], last[4])} @@\n")
        for kind, a, b, c, d in group:
            if kind == "equal":
                yield from _changed(tool, b" ", left[a:b])
                continue
            yield from _changed(tool, b"-", left[a:b])
            yield from _changed(tool, b"+", right[c:d])


def _hunk(start: int, end: int) -> str:
    size = end - start
    return str(start + 1) if size == 1 else f"{start + 1 if size else start},{size}"


def strings(tool: Tool) -> Main:
    """Print runs of at least four printable characters."""
    options = tool.options("an:", {"bytes": "n"})
    least = int(options.last("n", "4")[:6]) if options.last("n", "4").isdigit() else 4
    run = bytearray()
    for byte in (yield from tool.everything(options.rest)) + b"\0":
        if 32 <= byte < 127 or byte == 9:
            run.append(byte)
            continue
        if len(run) >= least:
            yield from tool.write(to_text(bytes(run)) + "\n")
        run = bytearray()
    return tool.code


COMMANDS = {"cmp": cmp, "diff": diff, "egrep": grep, "fgrep": grep, "grep": grep, "strings": strings}
