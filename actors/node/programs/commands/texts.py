"""Commands that print their arguments: echo, printf, yes, seq, basename, dirname, env and others.

Mirrors  POSIX.1-2017 XCU echo, printf, seq of coreutils, basename, dirname, env, printenv.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

from actors.node.programs import printing
from actors.node.programs.commands.tool import Failed, Tool, Usage, to_bytes
from actors.node.programs.lookup import NotRunnable, program
from actors.node.programs.waits import Main


def echo(tool: Tool) -> Main:
    """Print the arguments: -n without a newline, -e with escapes."""
    yield from tool.write(printing.echo(list(tool.args), tool.dialect))
    return 0


def printf(tool: Tool) -> Main:
    """Print arguments in a format, which is used again while there are arguments."""
    args = tool.args[1:] if tool.args[:1] == ("--",) else tool.args
    if not args:
        raise Usage("missing operand")
    printed = printing.Printed(args[0], list(args[1:]), dialect=tool.dialect)
    yield from tool.write(printed.text)
    for error in printed.errors:
        yield from tool.warn(f"{tool.name}: {error}\n")
    return printed.code


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
            text = printing.Printed(options["f"], [str(at)], dialect=tool.dialect).text
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
