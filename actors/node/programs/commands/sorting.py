"""Commands over lines and columns: sort, uniq, cut, tr, comm, paste.

Mirrors  POSIX.1-2017 XCU sort, uniq, cut, tr, paste, comm, in the POSIX locale: bytes are compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from actors.node.programs.commands.tool import Failed, Lines, Steps, Tool, Usage, to_bytes
from actors.node.programs.ends import send
from actors.node.programs.files.handles import WRITING
from actors.node.programs.waits import Main
from sim.patterns import pattern

_KEY = pattern(r"(\d{1,6})(?:\.(\d{1,6}))?([bdfgiMhnrRV]*)(?:,(\d{1,6})(?:\.(\d{1,6}))?([bdfgiMhnrRV]*))?")
_NUMBER = pattern(rb"[ \t]*(-?\d{0,400}(?:\.\d{0,400})?)")
_SUFFIXES = {b"K": 1, b"M": 2, b"G": 3, b"T": 4, b"P": 5, b"E": 6, b"k": 1}
Key = Callable[[bytes], Any]


def _number(text: bytes) -> Decimal:
    match = _NUMBER.match(text)
    found = match[1] if match else b""
    return Decimal(found.decode()) if found.strip(b"-.") else Decimal(0)


def _human(text: bytes) -> tuple[int, Decimal]:
    value = _number(text)
    match = _NUMBER.match(text)
    rest = text[match.end() :] if match else b""
    power = _SUFFIXES.get(rest[:1], 0)
    return (-power if value < 0 else power, value)


def _version(text: bytes) -> list[tuple[int, int, bytes]]:
    return [
        (1, int(part[:400]), b"") if part.isdigit() else (0, 0, part)
        for part in pattern(rb"\d+|\D+").findall(text)
    ]


def _ordered(flags: str) -> Key:
    """The key of a text by the flags of a sort."""
    if "n" in flags or "g" in flags:
        return _number
    if "h" in flags:
        return _human
    if "V" in flags:
        return _version
    months = (b"JAN", b"FEB", b"MAR", b"APR", b"MAY", b"JUN", b"JUL", b"AUG", b"SEP", b"OCT", b"NOV", b"DEC")

    def text_key(text: bytes) -> Any:
        if "b" in flags:
            text = text.lstrip(b" \t")
        if "M" in flags:
            short = text.lstrip()[:3].upper()
            return months.index(short) if short in months else -1
        if "d" in flags:
            text = bytes(byte for byte in text if chr(byte).isalnum() or byte in b" \t")
        return text.upper() if "f" in flags else text

    return text_key


def _fields(line: bytes, separator: bytes) -> list[bytes]:
    """The fields of a line; without a separator, blanks before a field belong to it."""
    if separator:
        return line.split(separator)
    return pattern(rb"[ \t]*[^ \t]*").findall(line)[:-1] or [b""]


def _key_text(line: bytes, match: re.Match[str], separator: bytes) -> bytes:
    first, first_char, _, last, last_char, _ = match.groups()
    fields = _fields(line, separator)
    glue = separator
    at, end = int(first) - 1, int(last) if last else len(fields)
    if at >= len(fields):
        return b""
    chosen = fields[at:end]
    if last_char and int(last_char) and end <= len(fields):
        chosen[-1] = chosen[-1][: int(last_char)]
    if first_char and chosen:
        chosen[0] = chosen[0][int(first_char) - 1 :]
    return glue.join(chosen)


def sort(tool: Tool) -> Main:
    """Sort lines: -n -h -V -M ways to compare, -r backwards, -u once, -k keys, -t separator."""
    options = tool.options(
        "nrufbdghiMVsck:t:o:zmCT:S:R",
        {"numeric-sort": "n", "reverse": "r", "unique": "u", "key": "k", "field-separator": "t", "output": "o",
         "ignore-case": "f", "human-numeric-sort": "h", "version-sort": "V", "check": "c", "stable": "s"},
        code=2,
    )  # fmt: skip
    flags = "".join(letter for letter in "nfbdghiMV" if letter in options)
    separator = to_bytes(options.last("t").replace("\\0", "\0"))
    backwards = "r" in options
    keys: list[tuple[re.Match[str], str]] = []
    for text in options.all("k"):
        match = _KEY.fullmatch(text)
        if match is None or int(match[1]) == 0:
            raise Failed(
                f"-k {text}: invalid"
                if tool.busybox
                else f"invalid number at field start: invalid count at start of '{text}'",
                2,
            )
        keys.append((match, match[3] + (match[6] or "")))
    lines = (yield from tool.everything(options.rest)).split(b"\0" if "z" in options else b"\n")
    if lines and not lines[-1]:
        lines.pop()
    if tool.code:
        return 2
    order = _Order(keys, flags, separator, backwards)
    if "c" in options or "C" in options:
        disorder = order.disorder(lines, once="u" in options)
        if disorder and "c" in options:
            text = lines[disorder].decode("latin-1")
            place = f"{(options.rest or ['-'])[0]}:{disorder + 1}: disorder: {text}\n"
            yield from tool.warn(f"Check line {disorder}\n" if tool.busybox else f"{tool.name}: {place}")
        return 1 if disorder else tool.code
    lines = order.applied(lines, stable="s" in options, once="u" in options)
    data = b"".join(line + b"\n" for line in lines)
    if "o" in options:
        end = tool.files.open(options.last("o"), tool.process, WRITING)
        yield from send(end, data)
        end.close()
    else:
        yield from tool.write(data)
    return tool.code


class _Order:
    """How lines are compared: by keys with their own flags, or as a whole."""

    def __init__(
        self, keys: list[tuple[re.Match[str], str]], flags: str, separator: bytes, backwards: bool
    ) -> None:
        self.backwards = backwards
        self.keys: list[tuple[Key, bool]] = []
        for match, own in keys:
            by = _ordered(own.replace("r", "") or flags)

            def key(line: bytes, match: re.Match[str] = match, by: Key = by) -> Any:
                return by(_key_text(line, match, separator))

            self.keys.append((key, "r" in own if own else backwards))
        if not keys:
            self.keys.append((_ordered(flags), backwards))

    def applied(self, lines: list[bytes], *, stable: bool, once: bool) -> list[bytes]:
        """The lines in order; each once if `once`."""
        if not stable and not once:
            lines.sort(reverse=self.backwards)  # the last resort, which -r turns too
        for by, turned in reversed(self.keys):
            lines.sort(key=by, reverse=turned)
        if not once:
            return lines
        wholes = [self.whole(line) for line in lines]
        return [line for at, line in enumerate(lines) if not at or wholes[at - 1] != wholes[at]]

    def whole(self, line: bytes) -> list[Any]:
        """All keys of a line."""
        return [by(line) for by, _ in self.keys]

    def disorder(self, lines: list[bytes], *, once: bool) -> int:
        """The first line that is not after the one before it; 0 if all are."""
        for at in range(1, len(lines)):
            for by, turned in self.keys:
                before, after = by(lines[at - 1]), by(lines[at])
                if before != after:
                    if (before > after) != turned:
                        return at
                    break
            else:
                if once:
                    return at
        return 0


def uniq(tool: Tool) -> Main:
    """Drop lines that are equal to the one before: -c counts, -d repeated ones, -u others."""
    options = tool.options("cduif:s:w:z", {"count": "c", "repeated": "d", "unique": "u", "ignore-case": "i",
                                           "skip-fields": "f", "skip-chars": "s"})  # fmt: skip
    fields, chars, width = (int(options.last(letter, "0")[:6] or 0) for letter in "fsw")

    def key(line: bytes) -> bytes:
        for _ in range(fields):
            line = line.lstrip(b" \t").lstrip(bytes(range(33, 256)))
        line = line[chars:]
        line = line[:width] if width else line
        return line.lower() if "i" in options else line

    def shown(line: bytes, count: int) -> Steps:
        if ("d" in options and count < 2) or ("u" in options and count > 1):
            return
        yield from tool.write((b"%7d " % count if "c" in options else b"") + line + b"\n")

    held: list[tuple[bytes, int]] = []

    def visit(_: str, lines: Lines) -> Steps:
        while line := (yield from lines.line()):
            line = line.removesuffix(b"\n")
            if held and key(held[0][0]) == key(line):
                held[0] = (held[0][0], held[0][1] + 1)
                continue
            if held:
                yield from shown(*held.pop())
            held.append((line, 1))

    yield from tool.inputs(options.rest[:1], visit)
    if held:
        yield from shown(*held.pop())
    return tool.code


def _ranges(tool: Tool, text: str) -> list[tuple[int, int]]:
    """The ranges of `cut`.  Raises Usage."""
    found = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not (first or last) or (first and not first.isdigit()) or (last and not last.isdigit()):
            raise Usage("invalid field value")
        start = int(first[:9] or 1)
        end = int(last[:9]) if last else 1 << 30 if dash else start
        if start == 0:
            raise Usage("fields are numbered from 1")
        if end < start:
            raise Usage("invalid decreasing range")
        found.append((start - 1, end))
    return sorted(found)


def cut(tool: Tool) -> Main:
    """Print parts of lines: -f fields with -d delimiter and -s, -c or -b characters."""
    longs = {
        "bytes": "b", "characters": "c", "fields": "f", "delimiter": "d", "only-delimited": "s", "output-delimiter": "O",
    }  # fmt: skip
    options = tool.options("b:c:f:d:snO:", longs)
    kind = options.latest("bcf")
    if not kind:
        if tool.busybox:
            raise Failed("expected a list of bytes, characters, or fields")
        raise Usage("you must specify a list of bytes, characters, or fields")
    ranges = _ranges(tool, options.last(kind))
    delimiter = to_bytes(options.last("d", "\t"))[:1] or b"\0"
    glue = to_bytes(options.last("O")) or delimiter

    def visit(_: str, lines: Lines) -> Steps:
        while line := (yield from lines.line()):
            line = line.removesuffix(b"\n")
            if kind != "f":
                taken = [at for at in range(len(line)) if any(start <= at < end for start, end in ranges)]
                yield from tool.write(bytes(line[at] for at in taken) + b"\n")
                continue
            fields = line.split(delimiter)
            if len(fields) == 1:
                if "s" not in options:
                    yield from tool.write(line + b"\n")
                continue
            chosen = [
                field for at, field in enumerate(fields) if any(start <= at < end for start, end in ranges)
            ]
            yield from tool.write(glue.join(chosen) + b"\n")

    yield from tool.inputs(options.rest, visit)
    return tool.code


_SETS = {
    "alpha": b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", "digit": b"0123456789",
    "upper": b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", "lower": b"abcdefghijklmnopqrstuvwxyz",
    "alnum": b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", "space": b"\t\n\v\f\r ",
    "blank": b"\t ", "cntrl": bytes((*range(32), 127)), "xdigit": b"0123456789ABCDEFabcdef",
    "print": bytes(range(32, 127)), "graph": bytes(range(33, 127)),
    "punct": bytes(byte for byte in range(33, 127) if not chr(byte).isalnum()),
}  # fmt: skip
_BACK = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}


def _set(text: str) -> bytes:
    """The characters of a set of `tr`."""
    raw, at, out = to_bytes(text), 0, bytearray()
    while at < len(raw):
        if (
            raw[at : at + 2] == b"[:"
            and (end := raw.find(b":]", at)) > 0
            and raw[at + 2 : end].decode("latin-1") in _SETS
        ):
            out += _SETS[raw[at + 2 : end].decode("latin-1")]
            at = end + 2
            continue
        byte, at = _character(raw, at)
        if raw[at : at + 1] == b"-" and at + 1 < len(raw):
            last, at = _character(raw, at + 1)
            if last < byte:
                raise Failed(
                    f"range-endpoints of '{chr(byte)}-{chr(last)}' are in reverse collating sequence order"
                )
            out += bytes(range(byte, last + 1))
        else:
            out.append(byte)
    return bytes(out)


def _character(raw: bytes, at: int) -> tuple[int, int]:
    if raw[at : at + 1] == b"\\" and at + 1 < len(raw):
        letter = chr(raw[at + 1])
        if letter in "01234567":
            end = at + 1
            while end < len(raw) and end < at + 4 and chr(raw[end]) in "01234567":
                end += 1
            return int(raw[at + 1 : end], 8) & 255, end
        return _BACK.get(letter, raw[at + 1]), at + 2
    return raw[at], at + 1


def tr(tool: Tool) -> Main:
    """Replace characters: -d deletes, -s squeezes repeats, -c takes the others."""
    options = tool.options(
        "+cCdst", {"complement": "c", "delete": "d", "squeeze-repeats": "s", "truncate-set1": "t"}
    )
    if not options.rest or (len(options.rest) == 1 and "d" not in options and "s" not in options):
        raise Usage("missing operand" if not options.rest else f"missing operand after '{options.rest[0]}'")
    first = _set(options.rest[0])
    second = _set(options.rest[1]) if len(options.rest) > 1 else b""
    if "c" in options or "C" in options:
        first = bytes(byte for byte in range(256) if byte not in first)
    gone = first if "d" in options else b""
    table = bytearray(range(256))
    if second and "d" not in options:
        for at, byte in enumerate(first):
            table[byte] = second[min(at, len(second) - 1)]
    squeezed = (second or first) if "s" in options else b""
    before = -1

    def visit(_: str, lines: Lines) -> Steps:
        nonlocal before
        while data := (yield from lines.chunk()):
            data = data.translate(bytes(table), gone)
            if squeezed:
                out = bytearray()
                for byte in data:
                    if byte != before or byte not in squeezed:
                        out.append(byte)
                    before = byte
                data = bytes(out)
            yield from tool.write(data)
            yield from tool.flush()

    yield from tool.inputs((), visit)
    return tool.code


def paste(tool: Tool) -> Main:
    """Put lines of files beside each other: -d delimiters, -s each file in one line."""
    options = tool.options("d:s", {"delimiters": "d", "serial": "s"})
    marks = to_bytes(options.last("d", "\t").replace("\\n", "\n").replace("\\t", "\t")) or b"\0"
    columns = []
    for path in options.rest or ["-"]:
        columns.append((yield from tool.everything([path])).splitlines())
    if "s" not in options:
        longest = max(map(len, columns), default=0)
        columns = [
            [column[row] if row < len(column) else b"" for column in columns] for row in range(longest)
        ]
    for row in columns:
        line = b"".join(
            cell + (marks[at % len(marks) :][:1] if at < len(row) - 1 else b"") for at, cell in enumerate(row)
        )
        yield from tool.write(line + b"\n")
    return tool.code


def comm(tool: Tool) -> Main:
    """Compare two sorted files: -1 -2 -3 without a column."""
    options = tool.options("123")
    if len(options.rest) != 2:
        raise Usage("missing operand")
    left = (yield from tool.everything(options.rest[:1])).splitlines()
    right = (yield from tool.everything(options.rest[1:])).splitlines()
    one = other = 0
    while one < len(left) or other < len(right):
        if other >= len(right) or (one < len(left) and left[one] < right[other]):
            column, line, one = 1, left[one], one + 1
        elif one >= len(left) or right[other] < left[one]:
            column, line, other = 2, right[other], other + 1
        else:
            column, line, one, other = 3, left[one], one + 1, other + 1
        if str(column) not in options:
            yield from tool.write(
                b"\t" * sum(str(before) not in options for before in range(1, column)) + line + b"\n"
            )
    return tool.code


COMMANDS = {"comm": comm, "cut": cut, "paste": paste, "sort": sort, "tr": tr, "uniq": uniq}
