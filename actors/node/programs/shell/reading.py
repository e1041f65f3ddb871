"""`read` and `getopts`: commands that set variables from input and arguments.

Mirrors  POSIX read(1), getopts(1); bash's further options.
"""

from __future__ import annotations

from collections.abc import Generator

from actors.node.programs.ends import End, receive_all
from actors.node.programs.shell import expand
from actors.node.programs.shell.state import VALUE_MAX, Fatal, Run, Shell
from actors.node.programs.waits import Wait


def invalid_name(shell: Shell, name: str, command: str) -> Run:
    """Say that a variable cannot be named so."""
    if shell.bash:
        yield from shell.complain(f"`{name}': not a valid identifier", command)
        return 1
    raise Fatal(f"{command}: {name}: bad variable name")


def read(shell: Shell, arguments: list[str]) -> Run:
    """Assign the fields of a line of input."""
    options, names = _read_options(arguments)
    end = shell.process.ends.get(int(options.get("u", "0")) if options.get("u", "0").isdigit() else -1)
    if end is None:
        yield from shell.complain(
            "Bad file descriptor"
            if not shell.bash
            else f"{options.get('u', '0')}: invalid file descriptor: Bad file descriptor",
            "read",
        )
        return 2 if shell.dialect == "dash" else 1
    if "p" in options and end.terminal:
        yield from shell.write(2, options["p"])
    until_us = None
    if "t" in options:
        try:
            until_us = shell.process.now_us + round(float(options["t"]) * 1_000_000)
        except (ValueError, OverflowError):
            yield from shell.complain(f"{options['t']}: invalid timeout specification", "read")
            return 1
    limit = options.get("N", options.get("n", ""))
    delimiter = "" if "N" in options else options["d"][:1] or "\0" if "d" in options else "\n"
    line, code = yield from read_line(
        end, delimiter.encode(), int(limit) if limit.isdigit() else VALUE_MAX, until_us, raw="r" in options
    )
    text = line.decode("utf-8", "surrogateescape")
    if "a" in options:
        fields = expand.split_text(shell, text)
        shell.put_array(options["a"], [(None, field) for field in fields], append=False)
        return code
    if not names and not shell.bash:
        raise Fatal("read: arg count")
    if "N" in options or not names:
        shell.put(names[0] if names else "REPLY", text.replace("\\\0", ""))
        return code
    marked = expand.split_line(shell, text, len(names))
    for name, value in zip(names, marked, strict=True):
        if not name.isidentifier():
            return (yield from invalid_name(shell, name, "read"))
        shell.put(name, value)
    return code


def _read_options(arguments: list[str]) -> tuple[dict[str, str], list[str]]:
    options: dict[str, str] = {}
    at = 0
    while at < len(arguments) and len(arguments[at]) > 1 and arguments[at][0] == "-":
        letters = arguments[at][1:]
        at += 1
        if letters == "-":
            break
        for place, letter in enumerate(letters):
            if letter in "ptnNadu":
                rest = letters[place + 1 :]
                options[letter] = rest or (arguments[at] if at < len(arguments) else "")
                at += not rest
                break
            options[letter] = ""
    return options, arguments[at:]


def read_line(
    end: End, delimiter: bytes, limit: int, until_us: int | None, *, raw: bool
) -> Generator[Wait, None, tuple[bytes, int]]:
    """The bytes up to a delimiter, one at a time, as the rest belongs to the next program."""
    held = bytearray()
    escaped = False
    while len(held) < min(limit, VALUE_MAX):
        byte = end.read(1)
        if byte is None:
            yield Wait((end.readable,), until_us)
            if until_us is not None and not end.readable.ready:
                return bytes(held), 142
            continue
        if not byte:
            return bytes(held), 1
        if escaped:
            escaped = False
            if byte != b"\n":
                held += byte
        elif byte == b"\\" and not raw:
            escaped = True
        elif byte == delimiter:
            return bytes(held), 0
        elif byte != b"\0":
            held += byte
    return bytes(held), 0


def getopts(shell: Shell, arguments: list[str]) -> Run:
    """Assign the next option of the arguments."""
    if len(arguments) < 2:
        yield from shell.complain("usage: getopts optstring name [arg ...]", "getopts")
        return 2
    letters, name, words = arguments[0], arguments[1], arguments[2:] or shell.arguments
    quiet = letters.startswith(":")
    text = shell.get("OPTIND") or "1"
    index = int(text) if text.isdigit() and len(text) < 9 else 1
    if index == 1 and shell.option_place > 0 and shell.option_index != 1:
        shell.option_place = 0
    word = words[index - 1] if 0 < index <= len(words) else ""
    if not shell.option_place and (len(word) < 2 or word[0] != "-" or word == "--"):
        shell.put(name, "?")
        shell.put("OPTIND", str(index + (word == "--")))
        return 1
    place = shell.option_place or 1
    letter = word[place : place + 1]
    place += 1
    known = letter != ":" and letter in letters
    value: str | None = None
    problem = "" if known else "illegal option -- "
    if known and letters[letters.index(letter) + 1 :].startswith(":"):
        value, index, place = (word[place:], index + 1, 0) if place < len(word) else (None, index + 1, 0)
        if value is None:
            if index <= len(words):
                value, index = words[index - 1], index + 1
            else:
                problem = "option requires an argument -- "
    if place >= len(word):
        place, index = 0, index + 1
    shell.option_place = place
    shell.option_index = index
    shell.put("OPTIND", str(index))
    if shell.bash:
        shell.unset("OPTARG")
    else:
        shell.put("OPTARG", "")
    if problem:
        shell.put(name, ":" if quiet and known else "?")
        if quiet:
            shell.put("OPTARG", letter)
        elif shell.bash:
            yield from shell.write(2, f"{shell.label}: {problem}{letter}\n")
        else:
            short = f"Illegal option -{letter}" if not known else f"No arg for -{letter} option"
            yield from shell.write(2, f"{short}\n")
        return 0
    if value is not None:
        shell.put("OPTARG", value)
    shell.put(name, letter)
    return 0


def read_array(shell: Shell, arguments: list[str]) -> Run:
    """`mapfile` and `readarray`: the lines of the input become the elements of an array."""
    options: dict[str, str] = {}
    while arguments and len(arguments[0]) > 1 and arguments[0][0] == "-":
        letter, rest = arguments[0][1], arguments[0][2:]
        arguments = arguments[1:]
        if letter != "t" and not rest and arguments:
            rest, arguments = arguments[0], arguments[1:]
        options[letter] = rest
    fd = options.get("u", "0")
    end = shell.process.ends.get(int(fd) if fd.isdigit() else -1)
    if end is None:
        yield from shell.complain(f"{fd}: invalid file descriptor: Bad file descriptor", "mapfile")
        return 1
    data = yield from receive_all(end, VALUE_MAX)
    separator = options["d"][:1] or "\0" if "d" in options else "\n"
    lines = data.decode("utf-8", "surrogateescape").split(separator)
    last = lines.pop()
    ending = "" if "t" in options else separator
    values = [line + ending for line in lines] + ([last] if last else [])
    limit = (
        int(options["n"]) if options.get("n", "0").isdigit() and options.get("n", "0") != "0" else len(values)
    )
    skipped = int(options["s"]) if options.get("s", "").isdigit() else 0
    chosen = values[skipped:][:limit]
    shell.put_array(
        arguments[0] if arguments else "MAPFILE", [(None, value) for value in chosen], append=False
    )
    return 0
