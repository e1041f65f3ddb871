"""Commands that print their arguments: echo, printf, yes, seq, basename, dirname, env and others.

Mirrors  POSIX.1-2017 XCU echo, printf, seq of coreutils, basename, dirname, env, printenv.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

from actors.node.programs.commands.tool import Failed, Tool, Usage, to_bytes
from actors.node.programs.lookup import NotRunnable, program
from actors.node.programs.waits import Main
from sim.patterns import pattern

_ESCAPES = {"a": 7, "b": 8, "e": 27, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92, '"': 34}
_DIRECTIVE = pattern(r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d*))?([a-zA-Z%])")
_NUMBER = pattern(r"\s*([+-]?)(0[xX][0-9a-fA-F]+|\d+)")
WIDTH_MAX = 4096  # of a field of `printf`


def unescape(text: str, *, echo: bool) -> tuple[bytes, bool]:
    """The bytes of a text with backslashes; and True if \\c ends all output.

    echo: True for the octal numbers of `echo` and %b, which begin with a zero
    """
    out, at = bytearray(), 0
    while at < len(text):
        letter = text[at]
        at += 1
        if letter != "\\" or at == len(text):
            out += to_bytes(letter)
            continue
        letter = text[at]
        at += 1
        if letter == "c":
            return bytes(out), True
        if letter in _ESCAPES and not (echo and letter == '"'):
            out.append(_ESCAPES[letter])
        elif letter == "x" and text[at : at + 1] in tuple("0123456789abcdefABCDEF"):
            digits = _digits(text, at, 2, "0123456789abcdefABCDEF")
            at += len(digits)
            out.append(int(digits, 16))
        elif letter in "01234567" and (letter == "0" or not echo):
            at -= 0 if echo else 1
            digits = _digits(text, at, 3, "01234567")
            at += len(digits)
            out.append(int(digits or "0", 8) & 255)
        else:
            out += b"\\" + to_bytes(letter)
    return bytes(out), False


def _digits(text: str, at: int, most: int, allowed: str) -> str:
    end = at
    while end < len(text) and end - at < most and text[end] in allowed:
        end += 1
    return text[at:end]


def echo(tool: Tool) -> Main:
    """Print the arguments: -n without a newline, -e with escapes."""
    args, newline, escapes = list(tool.args), True, False
    while args and len(args[0]) > 1 and args[0][0] == "-" and not args[0][1:].strip("neE"):
        for letter in args.pop(0)[1:]:
            newline &= letter != "n"
            escapes = letter == "e" if letter == "e" or (letter == "E" and not tool.busybox) else escapes
    data, stop = to_bytes(" ".join(args)), False
    if escapes:
        data, stop = unescape(" ".join(args), echo=True)
    yield from tool.write(data + (b"\n" if newline and not stop else b""))
    return 0


class _Printf:
    """The arguments of one `printf`, taken one by one."""

    def __init__(self, tool: Tool, args: Sequence[str]) -> None:
        self.tool = tool
        self.args = list(args)
        self.used = 0
        self.stopped = False
        self.problems: list[str] = []

    def next(self) -> str | None:
        """The next argument; None if there is none."""
        self.used += 1
        return self.args.pop(0) if self.args else None

    def number(self, text: str | None) -> int:
        """An argument as a whole number; a problem is noted."""
        if not text:
            if text is not None:
                self._not_number(text)
            return 0
        if text[0] in "\"'" and len(text) > 1:
            return ord(text[1])
        match = _NUMBER.match(text)
        if match is None or match.end() != len(text):
            self._not_number(text, partly=match is not None)
        if match is None or (self.tool.busybox and match.end() != len(text)):
            return 0
        digits = match[2]
        if digits[0] == "0" and digits.isdigit():
            value = int(digits, 8) if not set(digits) & {"8", "9"} else 0
        else:
            value = int(digits[:40], 0)
        return -value if match[1] == "-" else value

    def _not_number(self, text: str, *, partly: bool = False) -> None:
        if self.tool.busybox:
            self.problems.append(f"invalid number '{text}'")
        elif partly:
            self.problems.append(f"'{text}': value not completely converted")
        else:
            self.problems.append(f"'{text}': expected a numeric value")

    def once(self, form: str) -> bytes:
        """The format filled once."""
        out, at = bytearray(), 0
        while at < len(form) and not self.stopped:
            letter = form[at]
            if letter == "\\":
                end = at + 2
                while (
                    end < len(form)
                    and end - at < 4
                    and form[end] in "01234567abcdefABCDEF"
                    and form[at + 1] in "01234567x"
                ):
                    end += 1
                if form[at + 1 : at + 2] not in tuple("01234567x"):
                    end = at + 2
                data, self.stopped = unescape(form[at:end], echo=False)
                out += data
                at = end
            elif letter == "%":
                match = _DIRECTIVE.match(form, at)
                if match is None:
                    what = (
                        f"{form[at:]}: invalid format"
                        if self.tool.busybox
                        else f"{form[at:]}: invalid conversion specification"
                    )
                    raise Failed(what)
                out += self._field(*match.groups(default=""), wide=match[3] is not None)
                at = match.end()
            else:
                out += to_bytes(letter)
                at += 1
        return bytes(out)

    def _field(self, flags: str, width: str, precision: str, kind: str, *, wide: bool) -> bytes:
        if kind == "%":
            return b"%"
        size = self.number(self.next()) if width == "*" else int(width[:9] or 0)
        digits: int | None = None
        if wide:
            digits = self.number(self.next()) if precision == "*" else int(precision[:9] or 0)
            digits = min(digits, WIDTH_MAX) if digits >= 0 else None
        if size < 0:
            flags, size = flags + "-", -size
        size = min(size, WIDTH_MAX)
        text = self.next()
        if kind == "b":
            data, self.stopped = unescape(text or "", echo=True)
            data = data if digits is None else data[:digits]
        elif kind == "s":
            data = to_bytes(text or "")
            data = data if digits is None else data[:digits]
        elif kind == "c":
            data = to_bytes((text or "")[:1])
        elif kind == "q":
            data = to_bytes(text if text and text.isalnum() else f"'{text or ''}'")
        elif kind in "diouxX":
            shown = "d" if kind in "iu" else kind
            value = self.number(text)
            if value < 0 and kind != "d" and kind != "i":
                value &= (1 << 64) - 1
            keep = "".join(letter for letter in flags if letter in "-+ #0")
            return (f"%{keep}{size or ''}{'' if digits is None else f'.{digits}'}{shown}" % value).encode()
        elif kind in "eEfFgGaA":
            try:
                value_float = float(text or 0)
            except ValueError:
                self._not_number(text or "")
                value_float = 0.0
            keep = "".join(letter for letter in flags if letter in "-+ #0")
            shown = kind if kind not in "aA" else "g"
            return (
                f"%{keep}{size or ''}{'' if digits is None else f'.{digits}'}{shown}" % value_float
            ).encode()
        else:
            text = f"%{kind}"
            raise Failed(
                f"{text}: invalid format"
                if self.tool.busybox
                else f"{text}: invalid conversion specification"
            )
        return data.ljust(size) if "-" in flags else data.rjust(size)


def printf(tool: Tool) -> Main:
    """Print arguments in a format, which is used again while there are arguments."""
    args = tool.args[1:] if tool.args[:1] == ("--",) else tool.args
    if not args:
        raise Usage("missing operand")
    state = _Printf(tool, args[1:])
    while True:
        state.used = 0
        try:
            data = state.once(args[0])
        except Failed as failure:
            yield from tool.complain(failure.text)
            return 1
        yield from tool.write(data)
        for problem in state.problems:
            yield from tool.complain(problem)
        state.problems = []
        if not state.used and state.args and not tool.busybox:
            yield from tool.warn(
                f"{tool.name}: warning: ignoring excess arguments, starting with '{state.args[0]}'\n"
            )
        if state.stopped or not state.used or not state.args:
            return tool.code


def yes(tool: Tool) -> Main:
    """Print a line for ever."""
    line = to_bytes(" ".join(tool.args) or "y") + b"\n"
    many = line * max(1, 4096 // len(line))
    while True:
        yield from tool.write(many)


def seq(tool: Tool) -> Main:
    """Print numbers from first to last: -s separator, -w equal width, -f format."""
    words = []
    options: dict[str, str] = {}
    args = list(tool.args)
    while args:
        word = args.pop(0)
        if word[:2] in ("-s", "-f"):
            options[word[1]] = word[2:] or (args.pop(0) if args else "")
        elif word == "-w":
            options["w"] = ""
        else:
            words.append(word)
    if not 1 <= len(words) <= 3:
        raise Usage("missing operand" if not words else f"extra operand '{words[3]}'")
    try:
        first, step, last = (Decimal(word) for word in ("1", "1", *words)[-3:]) if len(words) != 2 else (
            Decimal(words[0]), Decimal(1), Decimal(words[1])
        )  # fmt: skip
        if len(words) == 1:
            first, step, last = Decimal(1), Decimal(1), Decimal(words[0])
    except InvalidOperation:
        bad = next(word for word in words if not _is_decimal(word))
        raise Usage(f"invalid floating point argument: '{bad}'") from None
    if any(not one.is_finite() or one.adjusted() > 30 or one.adjusted() < -30 for one in (first, step, last)):
        raise Failed("numbers of this size are not known to the simulation")
    if not step:
        raise Usage(f"invalid Zero increment value: '{words[1]}'")
    places = max(0, *(-int(one.as_tuple().exponent) for one in (first, step)))
    width = max(len(f"{one:.{places}f}") for one in (first, last)) if "w" in options else 0
    at, separator = first, options.get("s", "\n")
    begun = False
    while (at <= last) if step > 0 else (at >= last):
        text = f"{at:.{places}f}".zfill(width)
        if "f" in options:
            text = _Printf(tool, [str(at)]).once(options["f"]).decode()
        yield from tool.write(separator + text if begun else text)
        begun = True
        at += step
    if begun:
        yield from tool.write("\n")
    return 0


def _is_decimal(word: str) -> bool:
    try:
        Decimal(word)
    except InvalidOperation:
        return False
    return True


def basename(tool: Tool) -> Main:
    """The last part of a path: without a suffix, -a of several, -s suffix."""
    options = tool.options("as:z", {"multiple": "a", "suffix": "s", "zero": "z"})
    paths, suffix = options.rest, options.last("s")
    if not paths:
        raise Usage("missing operand")
    if "a" not in options and "s" not in options:
        if len(paths) > 2:
            raise Usage(f"extra operand '{paths[2]}'")
        paths, suffix = paths[:1], "".join(paths[1:])
    for path in paths:
        name = path.rstrip("/").rsplit("/", 1)[-1] or path[:1]
        if suffix and name.endswith(suffix) and name != suffix:
            name = name[: -len(suffix)]
        yield from tool.write(name + "\n")
    return 0


def dirname(tool: Tool) -> Main:
    """A path without its last part."""
    options = tool.options("z", {"zero": "z"})
    if not options.rest:
        raise Usage("missing operand")
    for path in options.rest:
        short = path.rstrip("/")
        folder = short.rpartition("/")[0].rstrip("/")
        yield from tool.write((folder or ("/" if path.startswith("/") else ".")) + "\n")
    return 0


def env(tool: Tool) -> Main:
    """Print the environment, or run a program in another: -i empty, -u NAME without one."""
    options = tool.options(
        "+iu:0C:S:",
        {"ignore-environment": "i", "unset": "u", "null": "0", "chdir": "C", "split-string": "S"},
        code=125,
    )
    process, words = tool.process, options.rest
    if words[:1] == ["-"]:
        words = words[1:]
        process.env.clear()
    if "S" in options:
        words = [*options.last("S").split(), *words]
    if "i" in options:
        process.env.clear()
    for name in options.all("u"):
        process.env.pop(name, None)
    while words and "=" in words[0]:
        name, _, value = words[0].partition("=")
        process.env[name] = value
        words = words[1:]
    if "C" in options:
        process.cwd = tool.files.walk(options.last("C"), process).path
    if words:
        return (yield from become(tool, words))
    stop = "\0" if "0" in options else "\n"
    for name, value in process.env.items():
        yield from tool.write(f"{name}={value}{stop}")
    return 0


def become(tool: Tool, words: Sequence[str]) -> Main:
    """Go on as another program, in the same process."""
    try:
        runs = program(tool.process, tuple(words))
    except NotRunnable as reason:
        yield from tool.not_run(words[0], reason)
        return reason.code
    tool.process.words = tuple(words)
    return (yield from runs(tool.process))


def printenv(tool: Tool) -> Main:
    """Print the environment, or the values of some names."""
    options = tool.options("0", {"null": "0"}, code=2)
    stop, found = "\0" if "0" in options else "\n", tool.process.env
    if not options.rest:
        for name, value in found.items():
            yield from tool.write(f"{name}={value}{stop}")
    for name in options.rest:
        if name in found:
            yield from tool.write(found[name] + stop)
    return 0 if all(name in found for name in options.rest) else 1


def true(tool: Tool) -> Main:
    """Do nothing, with success."""
    yield from tool.flush()
    return 0


def false(tool: Tool) -> Main:
    """Do nothing, without success."""
    yield from tool.flush()
    return 1


def clear(tool: Tool) -> Main:
    """Clear the terminal."""
    yield from tool.write("\x1b[H\x1b[J")
    return 0


COMMANDS = {
    "basename": basename, "clear": clear, "dirname": dirname, "echo": echo, "env": env, "false": false,
    "printenv": printenv, "printf": printf, "seq": seq, "true": true, "yes": yes,
}  # fmt: skip
