"""sed: an editor that applies a script to each line.

Mirrors  POSIX.1-2017 XCU sed, with GNU's -E, -i, I, 0~step, +count and special replacements.
"""

from __future__ import annotations

from collections.abc import Generator

from actors.node.programs.commands.patterns import Found, Pattern
from actors.node.programs.commands.sed_script import Address, Command, Script
from actors.node.programs.commands.tool import INPUT_MAX, Failed, Lines, Steps, Tool, Usage, to_bytes
from actors.node.programs.ends import send
from actors.node.programs.files.errors import FileError
from actors.node.programs.files.handles import WRITING
from actors.node.programs.waits import PAUSE, Main, Wait

STEPS_MAX = 100_000  # commands and matches of one line: a script that loops for ever is ended
SPACE_MAX = 1 << 20  # bytes of the pattern space and of the hold space


def _filled(pieces: list[bytes | int | str], found: Found) -> bytes:
    out, case, once = bytearray(), "", ""
    for piece in pieces:
        if isinstance(piece, str):
            case, once = ("" if piece == "E" else piece, once) if piece in "ULE" else (case, piece)
            continue
        data = (found[piece] or b"") if isinstance(piece, int) else piece
        data = data.upper() if case == "U" else data.lower() if case == "L" else data
        if once and data:
            data = (data[:1].upper() if once == "u" else data[:1].lower()) + data[1:]
            once = ""
        out += data
    return bytes(out)


class _Input:
    """The lines of some files, one after another."""

    def __init__(self, tool: Tool, paths: list[str]) -> None:
        self.tool = tool
        self.paths = paths or ["-"]
        self.at = 0
        self.lines: Lines | None = None

    def next(self) -> Generator[Wait, None, bytes]:
        """The next line; b"" after the last one."""
        while True:
            if self.lines is None:
                if self.at == len(self.paths):
                    return b""
                path, self.at = self.paths[self.at], self.at + 1
                try:
                    self.lines = Lines(self.tool.opened(path), self.tool.flush)
                except FileError as error:
                    yield from self.tool.complain(self.tool.unreadable(path, error))
                    continue
            line = yield from self.lines.line()
            if line:
                return line if line.endswith(b"\n") or self.at == len(self.paths) else line + b"\n"
            self.tool.close(self.lines.end)
            self.lines = None


class _Sed:
    """The state of one run."""

    def __init__(self, tool: Tool, commands: list[Command], *, quiet: bool) -> None:
        self.tool = tool
        self.commands = commands
        self.quiet = quiet
        self.space = self.hold = b""
        self.number = self.steps = 0
        self.last: Pattern | None = None
        self.after: list[bytes] = []
        self.code: int | None = None
        self.out: bytearray | None = None  # where lines go with -i
        self.substituted = False
        self.ahead: bytes | None = None
        self.looks_ahead = any(
            address is not None and address.number == -1
            for one in commands
            for address in (one.first, one.second)
        )

    def print(self, data: bytes) -> Steps:
        """Print to standard output or to the edited file."""
        if self.out is not None:
            self.out += data[: max(0, INPUT_MAX - len(self.out))]
            return
        yield from self.tool.write(data)

    def run(self, source: _Input) -> Steps:
        """Edit all lines."""
        self.source, self.ahead = source, None
        while (line := (yield from self.following())) is not None:
            self.number += 1
            yield PAUSE
            self.newline = line.endswith(b"\n")
            self.space = line.removesuffix(b"\n")
            yield from self.cycle()
            if self.code is not None:
                return

    def following(self) -> Generator[Wait, None, bytes | None]:
        """The next line, None after the last; with an address of the last line, one more is read."""
        line = self.ahead if self.ahead is not None else (yield from self.source.next())
        if self.looks_ahead and line:
            self.ahead = yield from self.source.next()
        return line or None

    def cycle(self) -> Steps:
        """Apply the script to one line."""
        at = self.steps = 0
        self.substituted = False
        shown = not self.quiet
        while at < len(self.commands):
            self.step()
            if self.steps % 1000 == 0:
                yield PAUSE
            one = self.commands[at]
            at += 1
            if not self.chosen(one):
                at = one.target + 1 if one.name == "{" else at
                continue
            if one.name in ("b", "t", "T"):
                if one.name == "b" or (one.name == "t") == self.substituted:
                    at = one.target
                if one.name != "b":
                    self.substituted = False
            elif one.name == "d" or (one.name == "D" and b"\n" not in self.space):
                shown = False
                break
            elif one.name == "D":
                self.space = self.space.partition(b"\n")[2]
                at = 0
            elif one.name in ("q", "Q"):
                self.code = one.occurrence
                shown &= one.name == "q"
                break
            elif one.name in ("n", "N"):
                following = yield from self.following()
                if following is None:
                    break
                if one.name == "n" and not self.quiet:
                    yield from self.print(self.space + b"\n")
                self.number += 1
                self.newline = following.endswith(b"\n")
                body = following.removesuffix(b"\n")
                self.space = body if one.name == "n" else self.space + b"\n" + body
            elif one.name == "c":
                if one.second is None or not one.inside or one.negated:
                    yield from self.print(one.text)
                shown = False
                break
            else:
                yield from self.simple(one)
        if shown:
            yield from self.print(self.space + (b"\n" if self.newline else b""))
        after, self.after = self.after, []
        for text in after:
            yield from self.print(text)

    def step(self) -> None:
        """Count a command or a match.  Raises Failed if a line takes too many."""
        self.steps += 1
        if self.steps > STEPS_MAX or len(self.space) + len(self.hold) > SPACE_MAX:
            raise Failed("the script takes too long for one line")

    def chosen(self, one: Command) -> bool:
        """True if a command applies to the line."""
        if one.first is None:
            return not one.negated
        return self.in_range(one) != one.negated

    def in_range(self, one: Command) -> bool:
        assert one.first is not None
        if one.second is None:
            return self.matches(one.first)
        if one.inside:
            if one.ends_at:
                one.inside = self.number < one.ends_at
            elif one.second.number > 0:
                one.inside = self.number < one.second.number
                return self.number <= one.second.number
            else:
                one.inside = not self.matches(one.second)
            return True
        if not self.matches(one.first) and not (
            one.first.number == 0 and one.first.pattern is None and self.number == 1 and not one.first.every
        ):
            return False
        one.ends_at = self.number + one.second.extra if one.second.extra >= 0 else 0
        one.inside = one.second.extra != 0 and (one.second.number <= 0 or one.second.number > self.number)
        if one.second.number == -1:
            one.inside = bool(self.ahead)
        return True

    def matches(self, address: Address) -> bool:
        if address.every:
            return self.number >= address.number and (self.number - address.number) % address.every == 0
        if address.number:
            return not self.ahead if address.number == -1 else self.number == address.number
        if address.repeats or address.pattern is not None:
            return self.used(address.pattern).found(self.space)
        return False

    def used(self, pattern: Pattern | None) -> Pattern:
        """A pattern, or the last one used for None."""
        self.last = pattern or self.last
        if self.last is None:
            raise Failed("no previous regular expression")
        return self.last

    def simple(self, one: Command) -> Steps:
        """A command that changes only the text."""
        name = one.name
        if name == "s":
            yield from self.substitute(one)
        elif name == "p":
            yield from self.print(self.space + b"\n")
        elif name == "P":
            yield from self.print(self.space.partition(b"\n")[0] + b"\n")
        elif name == "=":
            yield from self.print(b"%d\n" % self.number)
        elif name == "i":
            yield from self.print(one.text)
        elif name == "a":
            self.after.append(one.text)
        elif name == "r":
            try:
                self.after.append(
                    self.tool.files.read(one.text.decode("utf-8", "surrogateescape"), self.tool.process)
                )
            except FileError:
                return
        elif name == "y":
            self.space = self.space.translate(one.table)
        elif name == "g":
            self.space = self.hold
        elif name == "G":
            self.space += b"\n" + self.hold
        elif name == "h":
            self.hold = self.space
        elif name == "H":
            self.hold += b"\n" + self.space
        elif name == "x":
            self.space, self.hold = self.hold, self.space
        elif name == "z":
            self.space = b""
        elif name == "l":
            text = self.space.decode("latin-1").encode("unicode_escape").decode().replace("\\x", "\\")
            yield from self.print(text.encode() + b"$\n")

    def substitute(self, one: Command) -> Steps:
        pattern = self.used(one.pattern)
        out, at, count, changed = bytearray(), 0, 0, False
        while at <= len(self.space):
            found = pattern.search(self.space, at)
            if found is None:
                break
            self.step()
            out += self.space[at : found.start]
            count += 1
            if count >= one.occurrence and (not changed or "g" in one.flags):
                out += _filled(one.replacement, found)
                changed = True
            else:
                out += self.space[found.start : found.end]
            at = found.end
            if found.end == found.start:
                out += self.space[at : at + 1]
                at += 1
            elif (
                at < len(self.space)
                and (again := pattern.search(self.space, at)) is not None
                and again.end == at
            ):
                out += self.space[at : at + 1]  # an empty match next to another one does not count
                at += 1
            if changed and "g" not in one.flags:
                break
        if not changed:
            return
        self.space = bytes(out) + self.space[at:]
        self.substituted = True
        if "p" in one.flags:
            yield from self.print(self.space + b"\n")


def sed(tool: Tool) -> Main:
    """Edit lines: -n prints none by itself, -e -f scripts, -E extended patterns, -i in place."""
    args, suffix = [], ""
    for word in tool.args:
        if word.startswith("-i") and not word.startswith("--"):
            suffix = word[2:]
            word = "-i"
        elif word.startswith("--in-place"):
            suffix = word.partition("=")[2]
            word = "-i"
        args.append(word)
    tool.args = tuple(args)
    options = tool.options("ne:f:Erisuz", {"quiet": "n", "silent": "n", "expression": "e", "file": "f",
                                           "regexp-extended": "E"})  # fmt: skip
    rest = list(options.rest)
    scripts = [to_bytes(text) for text in options.all("e")]
    for path in options.all("f"):
        scripts.append((yield from tool.everything([path])))
        if tool.code:
            return tool.code
    if not scripts:
        if not rest:
            raise Usage("missing operand")
        scripts.append(to_bytes(rest.pop(0)))
    text = b"\n".join(scripts)
    quiet = "n" in options or text[:3] in (b"#n\n", b"#n")
    in_place = "i" in options
    groups = [[path] for path in rest] if in_place or "s" in options else [rest]
    extended = "E" in options or "r" in options
    editor = _Sed(tool, Script(text, extended=extended, busybox=tool.busybox).parse(), quiet=quiet)
    for group in groups:
        if in_place:
            editor.out, editor.number = bytearray(), 0
        before, tool.code = tool.code, 0
        yield from editor.run(_Input(tool, group))
        failed, tool.code = tool.code, tool.code or before
        if failed and not tool.busybox:
            tool.code = 2
        if in_place and not failed:
            assert editor.out is not None
            yield from _replaced(tool, group[0], suffix, bytes(editor.out))
        if editor.code is not None:
            return editor.code
    return tool.code


def _replaced(tool: Tool, path: str, suffix: str, data: bytes) -> Steps:
    """Put the edited text in place of a file, as a new file with its mode."""
    files, process = tool.files, tool.process
    mode = files.lookup(path, process).mode
    if suffix:
        files.rename(path, path + suffix if "*" not in suffix else suffix.replace("*", path), process)
    temporary = f"{path}.sed-{process.pid}"
    try:
        end = files.open(temporary, process, WRITING)
    except FileError as error:
        folder = path.rpartition("/")[0] or "./"
        raise Failed(
            f"can't create temp file '{path}{'X' * 6}': {error.text}"
            if tool.busybox
            else f"couldn't open temporary file {folder}sed{'X' * 6}: {error.text}",
            1 if tool.busybox else 4,
        ) from None
    yield from send(end, data)
    end.close()
    files.lookup(temporary, process).mode = mode
    try:
        files.rename(temporary, path, process)
    except FileError as error:
        files.unlink(temporary, process)
        raise Failed(f"cannot rename {temporary}: {error.text}", 4) from None


COMMANDS = {"sed": sed}
