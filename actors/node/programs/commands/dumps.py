"""Commands over bytes: hexdump, od, xxd, base64, checksums, dd.

Mirrors  hexdump(1), od(1), base64(1), md5sum(1), dd(1) of GNU and busybox.
Differs  `dd` takes no time, and reads at most `DD_BYTES_MAX`.
"""

from __future__ import annotations

import hashlib
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Generator
from typing import Any

from actors.node.programs.commands.tool import Failed, Lines, Steps, Tool, Usage
from actors.node.programs.ends import End, send
from actors.node.programs.files.errors import FileError
from actors.node.programs.files.handles import Handle, Open
from actors.node.programs.waits import PAUSE, Main, Wait
from sim.patterns import pattern

DD_BYTES_MAX = 1 << 40  # of one `dd`: it ends, as a volume of usual size is full before
DD_BLOCK_MAX = 64 << 20


def hexdump(tool: Tool) -> Main:
    """Print bytes as hexadecimal numbers: -C with characters, -n only so many, -v all rows."""
    options = tool.options("Cn:vxcbs:e:d")
    skip, most = (
        int(options.last(letter, "0")) if options.last(letter, "0").isdigit() else 0 for letter in "sn"
    )
    data = yield from tool.everything(options.rest, skip + most if most else 0)
    data = data[skip : skip + most] if "n" in options else data[skip:]
    before, starred = b"", False
    canonical = "C" in options
    if tool.name == "hd":
        canonical = True
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        if row == before and "v" not in options:
            if not starred:
                yield from tool.write("*\n")
            starred = True
            continue
        before, starred = row, False
        if canonical:
            cells = [f"{byte:02x}" for byte in row] + ["  "] * (16 - len(row))
            shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
            yield from tool.write(
                f"{at + skip:08x}  {' '.join(cells[:8])}  {' '.join(cells[8:])}  |{shown}|\n"
            )
        else:
            words = [int.from_bytes(row[one : one + 2], "little") for one in range(0, len(row), 2)]
            text = "".join(f" {word:04x}" for word in words)
            yield from tool.write(f"{at + skip:07x}{text:<40}\n")
    if data:
        yield from tool.write(f"{len(data) + skip:08x}\n" if canonical else f"{len(data) + skip:07x}\n")
    return tool.code


_SHORT = {0: "\\0", 7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r"}


def od(tool: Tool) -> Main:
    """Print bytes as numbers: -A base of addresses, -t type, -c -x -b -d -o, -N so many."""
    options = tool.options("A:t:N:j:vcxbdow:a", {"address-radix": "A", "format": "t", "read-bytes": "N", "skip-bytes": "j",
                                                 "width": "w"})  # fmt: skip
    skip = int(options.last("j", "0")) if options.last("j", "0").isdigit() else 0
    most = int(options.last("N")[:12]) if options.last("N").isdigit() else 0
    data = (yield from tool.everything(options.rest, skip + most if most else 0))[skip:]
    if "N" in options:
        data = data[:most]
    kind = options.last("t") or {"c": "c", "x": "x2", "b": "o1", "d": "u2", "o": "o2", "a": "a"}.get(
        options.latest("cxbdoa") or "o", "o2"
    )
    letter, size = kind[0], int(kind[1:2]) if kind[1:2].isdigit() else 1 if kind[0] in "ca" else 4
    if letter not in "xoduc" or size not in (1, 2, 4, 8):
        raise Failed(f"invalid type string '{kind}'")
    width = int(options.last("w")) if options.last("w").isdigit() else 16
    widths = {"x": 2 * size, "o": {1: 3, 2: 6, 4: 11, 8: 22}[size], "u": {1: 3, 2: 5, 4: 10, 8: 20}[size],
              "d": {1: 4, 2: 6, 4: 11, 8: 20}[size], "c": 3}  # fmt: skip
    base = options.last("A", "o")
    before, starred = b"", False
    for at in range(0, len(data), max(1, width)):
        row = data[at : at + width]
        if row == before and "v" not in options and len(row) == width:
            if not starred:
                yield from tool.write("*\n")
            starred = True
            continue
        before, starred = row, False
        cells = []
        for one in range(0, len(row), size):
            part = row[one : one + size].ljust(size, b"\0")
            value = int.from_bytes(part, "little", signed=letter == "d")
            if letter == "c":
                text = _SHORT.get(value) or (chr(value) if 32 <= value < 127 else f"{value:03o}")
                cells.append(text.rjust(3))
            else:
                zero = "0" if letter in "xo" else ""
                form = letter if letter in "xo" else "d"
                cells.append(f"{value:{zero}{widths[letter]}{form}}")
        yield from tool.write(f"{_address(base, at + skip)} {' '.join(cells)}\n")
    if base != "n":
        yield from tool.write(f"{_address(base, len(data) + skip)}\n")
    return tool.code


def _address(base: str, at: int) -> str:
    return {"n": "", "x": f"{at:06x}", "d": f"{at:07d}"}.get(base, f"{at:07o}")


def xxd(tool: Tool) -> Main:
    """Print bytes as hexadecimal numbers: -p only them, -r back again, -l only so many."""
    options = tool.options("prl:c:us:g:")
    most = int(options.last("l")[:12]) if options.last("l").isdigit() else 0
    data = yield from tool.everything(options.rest, most)
    data = data[:most] if most else data
    if "r" in options:
        text = data.decode("latin-1")
        if "p" not in options:
            text = "".join(line.partition(": ")[2].partition("  ")[0] for line in text.splitlines())
        digits = "".join(letter for letter in text if letter in "0123456789abcdefABCDEF")
        yield from tool.write(bytes.fromhex(digits[: len(digits) // 2 * 2]))
    elif "p" in options:
        for at in range(0, len(data), 30):
            yield from tool.write(data[at : at + 30].hex() + "\n")
    else:
        for at in range(0, len(data), 16):
            row = data[at : at + 16]
            pairs = " ".join(row[one : one + 2].hex() for one in range(0, len(row), 2))
            shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
            yield from tool.write(f"{at:08x}: {pairs:<39}  {shown}\n")
    return tool.code


def base64(tool: Tool) -> Main:
    """Encode as base64: -d decodes, -w line length, 0 for one line."""
    options = tool.options("dDw:i", {"decode": "d", "wrap": "w", "ignore-garbage": "i"})
    if "d" in options or "D" in options:
        data = yield from tool.everything(options.rest[:1])
        if tool.code:
            return tool.code
        text = b"".join(data.split())
        good = pattern(rb"[A-Za-z0-9+/]*").match(text)
        kept = good[0] if good else b""
        yield from tool.write(b64decode(kept[: len(kept) // 4 * 4] + _padded(kept[len(kept) // 4 * 4 :])))
        if len(kept) != len(text.rstrip(b"=")) or len(text) % 4:
            raise Failed(
                "invalid input"
                if not tool.busybox
                else "truncated input"
                if len(text) % 4
                else "invalid input"
            )
        return tool.code
    width = options.last("w", "76")
    if not width.isdigit():
        raise Failed(f"invalid wrap size: '{width}'" if not tool.busybox else f"invalid number '{width}'")
    size = int(width[:9])
    rest = b""  # text of a line that is not full

    def visit(_: str, lines: Lines) -> Steps:
        nonlocal rest
        kept = b""
        while data := (yield from lines.chunk()):
            kept += data
            whole = len(kept) // 3 * 3
            text, kept = rest + b64encode(kept[:whole]), kept[whole:]
            full = len(text) // size * size if size else len(text)
            rest = text[full:]
            yield from tool.write(_wrapped(text[:full], size))
            yield from tool.flush()
        rest += b64encode(kept)

    yield from tool.inputs(options.rest[:1], visit)
    yield from tool.write(_wrapped(rest, size))
    return tool.code


def _wrapped(text: bytes, size: int) -> bytes:
    """Text in lines of a size, 0 for none."""
    return b"".join(text[at : at + size] + b"\n" for at in range(0, len(text), size)) if size else text


def _padded(rest: bytes) -> bytes:
    return rest + b"=" * (4 - len(rest)) if len(rest) > 1 else b""


def _checksum(make: Callable[[], Any]) -> Callable[[Tool], Main]:
    """The command of a hash function."""

    def run(tool: Tool) -> Main:
        options = tool.options(
            "cbtsw", {"check": "c", "status": "s", "quiet": "s", "binary": "b", "text": "t", "warn": "w"}
        )
        if "c" in options:
            return (yield from _checked(tool, make, options.rest, "s" in options))

        def visit(path: str, lines: Lines) -> Steps:
            found = make()
            while data := (yield from lines.chunk()):
                found.update(data)
            yield from tool.write(f"{found.hexdigest()}  {path}\n")

        yield from tool.inputs(options.rest, visit)
        return tool.code

    return run


def _checked(tool: Tool, make: Callable[[], Any], paths: list[str], quiet: bool) -> Main:
    failed = 0
    for row in (yield from tool.everything(paths)).decode("utf-8", "surrogateescape").splitlines():
        wanted, _, path = row.partition(" ")
        path = path.removeprefix(" ").removeprefix("*")
        before, tool.code = tool.code, 0
        data = yield from tool.everything([path])
        good = not tool.code and make_hash(make, data) == wanted.lower()
        tool.code = before
        failed += not good
        if not quiet:
            yield from tool.write(f"{path}: {'OK' if good else 'FAILED'}\n")
    if failed and not quiet:
        text = (
            f"{failed} of {failed} computed checksums did NOT match"
            if tool.busybox
            else f"{failed} computed checksum{'s' if failed > 1 else ''} did NOT match"
        )
        yield from tool.warn(f"{tool.name}: WARNING: {text}\n")
    return 1 if failed else tool.code


def make_hash(make: Callable[[], Any], data: bytes) -> str:
    """The checksum of bytes."""
    found = make()
    found.update(data)
    return str(found.hexdigest())


_SIZE = pattern(r"(\d{1,15})(c|w|b|kB|K|k|KiB|MB|M|MiB|m|G|GB|GiB|g)?")
_SIZES = {
    "": 1, "c": 1, "w": 2, "b": 512, "k": 1 << 10, "K": 1 << 10, "KiB": 1 << 10, "kB": 1000, "M": 1 << 20,
    "m": 1 << 20, "MiB": 1 << 20, "MB": 10**6, "G": 1 << 30, "g": 1 << 30, "GiB": 1 << 30, "GB": 10**9,
}  # fmt: skip


def _size(tool: Tool, text: str) -> int:
    match = _SIZE.fullmatch(text)
    if match is None:
        raise Failed(f"invalid number '{text}'" if tool.busybox else f"invalid number: '{text}'")
    return int(match[1]) * _SIZES[match[2] or ""]


def dd(tool: Tool) -> Main:
    """Copy blocks: if= of= bs= count= skip= seek= conv= status=."""
    given = {"bs": "512", "count": "", "skip": "0", "seek": "0", "if": "", "of": "", "conv": "", "status": ""}
    for word in tool.args:
        name, equals, value = word.partition("=")
        if not equals or name not in (*given, "ibs", "obs", "iflag", "oflag"):
            raise Usage(f"unrecognized operand '{word}'")
        given[name] = value
    if "ibs" in given:
        given["bs"] = given["ibs"]
    block = _size(tool, given["bs"])
    if not 0 < block <= DD_BLOCK_MAX:
        raise Failed(
            f"number {given['bs']} is not in 1..{DD_BLOCK_MAX} range"
            if tool.busybox
            else f"invalid number: '{given['bs']}'"
        )
    count = _size(tool, given["count"]) if given["count"] else DD_BYTES_MAX // block
    skip, seek = _size(tool, given["skip"]), _size(tool, given["seek"])
    read = _dd_input(tool, given["if"])
    write = _dd_output(tool, given["of"], seek * block, keep="notrunc" in given["conv"])
    whole = partial = out_whole = out_partial = total = 0
    lines, problem = Lines(read), ""
    for number in range(min(count + skip, DD_BYTES_MAX // block)):
        data = yield from _block(lines, block)
        if not data:
            break
        if number < skip:
            continue
        whole, partial = (whole + 1, partial) if len(data) == block else (whole, partial + 1)
        padded = data.ljust(block, b"\0") if "sync" in given["conv"] else data
        before = write.at if isinstance(write, Handle) else 0
        try:
            yield from send(write, padded)
        except FileError as error:
            problem = error.text
            done = write.at - before if isinstance(write, Handle) else 0
            total, out_partial = total + done, out_partial + (1 if done else 0)
            break
        total += len(padded)
        out_whole, out_partial = (
            (out_whole + 1, out_partial) if len(padded) == block else (out_whole, out_partial + 1)
        )
    tool.close(read)
    write.close()
    if problem:
        what = given["of"] or "standard output"
        yield from tool.complain(f"error writing '{what}': {problem}")
    if given["status"] != "none":
        yield from tool.warn(f"{whole}+{partial} records in\n{out_whole}+{out_partial} records out\n")
        if given["status"] != "noxfer":
            yield from tool.warn(_rate(tool, total))
    return tool.code


def _rate(tool: Tool, total: int) -> str:
    """The last line of `dd`: a copy takes no time here, a second is shown."""
    if tool.busybox:
        shown = (
            f"{total} bytes"
            if total < 1024
            else f"{total} bytes ({total / 1024:.1f}KB)"
            if total < 1 << 20
            else f"{total} bytes ({total / (1 << 20):.1f}MB)"
        )
        return (
            f"{shown} copied, 0.000000 seconds, 0B/s\n"
            if not total
            else f"{shown} copied, 1.000000 seconds, {_per(total)}/s\n"
        )
    shown = f"{total} bytes"
    if total >= 1000:
        units = (("kB", 10**3), ("MB", 10**6), ("GB", 10**9), ("TB", 10**12))
        name, one = next(unit for unit in reversed(units) if total >= unit[1])
        twos = (("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40))
        two_name, two = next((unit for unit in reversed(twos) if total >= unit[1]), ("B", 1))
        parts = [
            _short(total / one) + f" {name}",
            *([_short(total / two) + f" {two_name}"] if two > 1 else []),
        ]
        shown += f" ({', '.join(parts)})"
    return f"{shown} copied, 1 s, {_per(total)}/s\n"


def _short(value: float) -> str:
    return (
        f"{value:.1f}"
        if value < 9.95 and not value.is_integer()
        else f"{value:.1f}"
        if value < 9.95
        else f"{value:.0f}"
    )


def _per(total: int) -> str:
    return (
        f"{total / (1 << 20):.1f}MB"
        if total >= 1 << 20
        else f"{total / 1024:.1f}KB"
        if total >= 1024
        else f"{total}B"
    )


def _dd_input(tool: Tool, path: str) -> End:
    try:
        return tool.opened(path or "-")
    except FileError as error:
        raise Failed(
            f"can't open '{path}': {error.text}" if tool.busybox else f"failed to open '{path}': {error.text}"
        ) from None


def _dd_output(tool: Tool, path: str, seek: int, *, keep: bool) -> End:
    if not path:
        end = tool.process.ends.get(1)
        if end is None:
            raise Failed("standard output: Bad file descriptor")
        return end.share()
    flags = Open.WRITE | Open.CREATE
    try:
        write = tool.files.open(path, tool.process, flags if keep or seek else flags | Open.TRUNCATE)
        if isinstance(write, Handle):
            write.at = seek
            if seek and not keep:
                write.inode.truncate(seek, tool.files.wall_us())
    except FileError as error:
        raise Failed(
            f"can't open '{path}': {error.text}" if tool.busybox else f"failed to open '{path}': {error.text}"
        ) from None
    return write


def _block(lines: Lines, size: int) -> Generator[Wait, None, bytes]:
    """The next block; a pipe may give less, as read(2) does; a device gives all."""
    yield PAUSE
    data = yield from lines.chunk(size)
    while 0 < len(data) < size and not isinstance(lines.end, Handle) and len(data) % 65536 == 0:
        more = yield from lines.chunk(size - len(data))
        if not more:
            break
        data += more
    return data


def cksum(tool: Tool) -> Main:
    """Print the CRC of POSIX and the size of the inputs."""

    def visit(path: str, lines: Lines) -> Steps:
        crc = size = 0
        while data := (yield from lines.chunk()):
            size += len(data)
            for byte in data:
                crc = _crc(crc, byte)
        rest = size
        while rest:
            crc = _crc(crc, rest & 255)
            rest >>= 8
        yield from tool.write(f"{~crc & 0xFFFFFFFF} {size}" + ("" if path == "-" else f" {path}") + "\n")

    yield from tool.inputs(tool.options("").rest, visit)
    return tool.code


def _crc(crc: int, byte: int) -> int:
    crc ^= byte << 24
    for _ in range(8):
        crc = (crc << 1 ^ 0x04C11DB7 if crc & 0x80000000 else crc << 1) & 0xFFFFFFFF
    return crc


def gzip(tool: Tool) -> Main:
    """Compress or decompress: -d back, -c to standard output, -k keeps the input; gunzip, zcat."""
    options = tool.options(
        "dckfnvq123456789t", {"decompress": "d", "stdout": "c", "to-stdout": "c", "keep": "k", "force": "f"}
    )
    back = "d" in options or tool.name in ("gunzip", "zcat")
    to_output = "c" in options or tool.name == "zcat" or not options.rest
    for path in options.rest or ["-"]:
        data = yield from tool.everything([path])
        if tool.code:
            continue
        made = unzipped(data) if back else zipped(data)
        if to_output or path == "-":
            yield from tool.write(made)
            continue
        target = path.removesuffix(".gz") if back else f"{path}.gz"
        if back and target == path:
            yield from tool.complain(f"{path}: unknown suffix -- ignored", 2)
            continue
        tool.files.write(target, made, tool.process, tool.files.lookup(path, tool.process).mode)
        if "k" not in options:
            tool.files.unlink(path, tool.process)
    return tool.code


def zipped(data: bytes) -> bytes:
    """Bytes in gzip's form, without a time."""
    made = zlib.compressobj(6, zlib.DEFLATED, 31)
    return made.compress(data) + made.flush()


def unzipped(data: bytes, size_max: int = 64 << 20) -> bytes:
    """The content of gzip's form, at most so many bytes.  Raises Failed."""
    try:
        return zlib.decompressobj(31).decompress(data, size_max)
    except zlib.error:
        raise Failed("invalid magic" if data[:2] != b"\x1f\x8b" else "corrupted data") from None


COMMANDS = {
    "base64": base64, "cksum": cksum, "dd": dd, "gunzip": gzip, "gzip": gzip, "hd": hexdump, "hexdump": hexdump,
    "md5sum": _checksum(hashlib.md5), "od": od, "sha1sum": _checksum(hashlib.sha1),
    "sha256sum": _checksum(hashlib.sha256), "sha512sum": _checksum(hashlib.sha512), "xxd": xxd, "zcat": gzip,
}  # fmt: skip
