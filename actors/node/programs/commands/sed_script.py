"""The script of sed: addresses and commands.

Turns the text of a script into commands with what they need.

Mirrors  POSIX.1-2017 XCU sed; error texts of GNU sed 4.9 and busybox 1.35.
"""

from __future__ import annotations

from actors.node.programs.commands.patterns import Pattern
from actors.node.programs.commands.tool import Failed


class Address:
    """What chooses a line.  number: of a line, -1 the last; every: each n-th; extra: +count"""

    def __init__(self) -> None:
        self.number = 0
        self.every = 0
        self.extra = -1
        self.pattern: Pattern | None = None
        self.repeats = False


class Command:
    """One command of a script with its addresses."""

    def __init__(self) -> None:
        self.first: Address | None = None
        self.second: Address | None = None
        self.negated = False
        self.inside = False
        self.ends_at = 0
        self.name = ""
        self.text = b""
        self.pattern: Pattern | None = None
        self.repeats = False  # the pattern is the last one that was used
        self.replacement: list[bytes | int | str] = []
        self.flags = ""
        self.occurrence = 1
        self.table = b""
        self.target = -1  # where a jump leads, or a block that is not entered ends


class Script:
    """Parses a script."""

    def __init__(self, text: bytes, *, extended: bool, busybox: bool) -> None:
        self.text = text
        self.busybox = busybox
        self.at = 0
        self.extended = extended
        self.commands: list[Command] = []
        self.labels: dict[bytes, int] = {}
        self.blocks: list[int] = []

    def fail(self, reason: str) -> Failed:
        """A script that is wrong."""
        return Failed(f"-e expression #1, char {self.at}: {reason}")

    def peek(self) -> bytes:
        """The next byte; b"" at the end."""
        return self.text[self.at : self.at + 1]

    def take(self) -> bytes:
        """The next byte, which is passed."""
        self.at += 1
        return self.text[self.at - 1 : self.at]

    def skip(self, letters: bytes) -> None:
        """Pass all bytes that are among some."""
        while self.peek() and self.peek() in letters:
            self.at += 1

    def parse(self) -> list[Command]:
        """The commands of the script.  Raises Failed."""
        while True:
            self.skip(b" \t\n;")
            if not self.peek():
                break
            if self.peek() == b"#":
                self.skip_line()
                continue
            self.commands.append(self.command())
        if self.blocks:
            self.at = 0
            raise self.fail("unmatched `{'")
        for one in self.commands:
            if one.name in "btT" and one.name and one.text:
                if one.text not in self.labels:
                    raise Failed(
                        f"-e expression #1, char {len(self.text)}: can't find label for jump to `{one.text.decode('latin-1')}'"
                    )
                one.target = self.labels[one.text]
            elif one.name in ("b", "t", "T"):
                one.target = len(self.commands)
        return self.commands

    def skip_line(self) -> bytes:
        """The rest of the line, which is passed."""
        end = self.text.find(b"\n", self.at)
        end = len(self.text) if end < 0 else end
        line, self.at = self.text[self.at : end], end
        return line

    def number(self) -> int:
        """A whole number; 0 if there is none."""
        digits = b""
        while self.peek().isdigit():
            digits += self.take()
        return int(digits[:9] or 0)

    def address(self) -> Address | None:
        """An address, if there is one."""
        found, byte = Address(), self.peek()
        if byte.isdigit():
            found.number = self.number()
            if self.peek() == b"~":
                self.take()
                found.every = self.number()
        elif byte == b"$":
            self.take()
            found.number = -1
        elif byte == b"+":
            self.take()
            found.extra = self.number()
        elif byte and byte in b"/\\":
            self.take()
            mark = byte if byte == b"/" else self.take()
            found.pattern = self.regex(
                self.until(mark, pattern=True, address=True), "I" if self.peek() == b"I" else ""
            )
            found.repeats = found.pattern is None
            if self.peek() == b"I":
                self.take()
        else:
            return None
        return found

    def regex(self, text: bytes, flags: str) -> Pattern | None:
        """A pattern; None for the empty one, which is the last one used."""
        return Pattern(text, extended=self.extended, any_case="I" in flags or "i" in flags) if text else None

    def until(self, mark: bytes, *, pattern: bool, address: bool = False) -> bytes:
        """The text up to a delimiter, which a backslash makes ordinary."""
        out = bytearray()
        while True:
            byte = self.take()
            if not byte:
                self.at -= 1
                if self.busybox:
                    raise Failed(f"unmatched '{mark.decode('latin-1')}'")
                raise self.fail("unterminated address regex" if address else "unterminated `s' command")
            if byte == mark:
                return bytes(out)
            if byte == b"\\":
                following = self.take()
                out += (
                    following
                    if following == mark and mark != b"\\" and mark not in b".*[]^$+?(){}|"
                    else byte + following
                )
            elif pattern and byte == b"[":
                out += byte + self.bracket()
            else:
                out += byte

    def bracket(self) -> bytes:
        """The rest of a bracket expression, in which a delimiter is ordinary."""
        end = self.text.find(b"]", self.at + (2 if self.peek() == b"^" else 1))
        while (
            end >= 0
            and b"[:" in self.text[self.at : end]
            and self.text[end - 1 : end] == b":"
            and self.text[:end].rfind(b"[:") > self.text[: end - 1].rfind(b":]")
        ):
            end = self.text.find(b"]", end + 1)
        if end < 0 or b"\n" in self.text[self.at : end]:
            return b""
        inner, self.at = self.text[self.at : end + 1], end + 1
        return inner

    def command(self) -> Command:
        """One command with its addresses."""
        one = Command()
        one.first = self.address()
        self.skip(b" \t")
        if self.peek() == b"," and one.first is not None:
            self.take()
            self.skip(b" \t")
            one.second = self.address()
            if one.second is None:
                raise self.fail("unexpected `,'")
        self.skip(b" \t")
        while self.peek() == b"!":
            self.take()
            one.negated = True
            self.skip(b" \t")
        one.name = self.take().decode("latin-1")
        self.body(one)
        return one

    def body(self, one: Command) -> None:
        """What follows the letter of a command."""
        name = one.name
        if name == "{":
            self.blocks.append(len(self.commands))
        elif name == "}":
            if not self.blocks:
                raise self.fail("unexpected `}'")
            opened = self.blocks.pop()
            self.commands[opened].target = len(self.commands)
            self.end()
        elif name in ("a", "i", "c"):
            one.text = self.inserted()
        elif name in (":", "b", "t", "T"):
            self.skip(b" \t")
            while self.peek() and self.peek() not in b"\n;":
                if self.peek() == b"}" and name != ":":
                    break
                one.text += self.take()
            one.text = one.text.strip()
            if name == ":":
                self.labels[one.text] = len(self.commands)
        elif name == "s":
            self.substitution(one)
        elif name == "y":
            mark = self.take()
            left, right = (_unescaped(self.until(mark, pattern=False)) for _ in range(2))
            if len(left) != len(right):
                raise self.fail("strings for `y' command are different lengths")
            one.table = bytes.maketrans(left, right)
            self.end()
        elif name in ("q", "Q", "l"):
            self.skip(b" \t")
            one.occurrence = self.number()
            self.end()
        elif name in ("r", "w"):
            one.text = self.skip_line().strip()
        elif name and name in "dDgGhHnNpPxz=":
            self.end()
        elif not name or name in "\n;":
            raise Failed("missing command") if self.busybox else self.fail("missing command")
        else:
            raise (
                Failed(f"unsupported command {name}")
                if self.busybox
                else self.fail(f"unknown command: `{name}'")
            )

    def end(self) -> None:
        """Check that the command ends here."""
        self.skip(b" \t")
        if self.peek() and self.peek() not in b"\n;}#":
            self.take()
            raise self.fail("extra characters after command")

    def inserted(self) -> bytes:
        """The text of a, i and c."""
        self.skip(b" \t")
        if self.peek() == b"\\":
            self.take()
            self.skip(b" \t")
            if self.peek() == b"\n":
                self.take()
        out = bytearray()
        while (byte := self.take()) and byte != b"\n":
            out += self.take() if byte == b"\\" else byte
        return bytes(out) + b"\n"

    def substitution(self, one: Command) -> None:
        """The parts of an s command."""
        mark = self.take()
        if not mark or mark in b"\n\\":
            raise self.fail("unterminated `s' command")
        text = self.until(mark, pattern=True) if self.peek() else b""
        replacement = self.until(mark, pattern=False)
        while self.peek() and self.peek() in b"gpiIme0123456789w":
            if self.peek().isdigit():
                one.occurrence = max(1, self.number())
            elif self.peek() == b"w":
                self.take()
                one.text = self.skip_line().strip()
            else:
                one.flags += self.take().decode()
        one.pattern = self.regex(text, one.flags)
        one.repeats = one.pattern is None
        one.replacement = _replacement(replacement, cases=not self.busybox)
        groups = [piece for piece in one.replacement if isinstance(piece, int)]
        if one.pattern is not None and groups and max(groups) > one.pattern.groups:
            raise self.fail(f"invalid reference \\{max(groups)} on `s' command's RHS")
        if self.peek() and self.peek() not in b"\n;}# \t":
            self.take()
            raise self.fail("unknown option to `s'")
        self.end()


def _unescaped(text: bytes) -> bytes:
    return text.replace(b"\\n", b"\n").replace(b"\\t", b"\t").replace(b"\\\\", b"\\")


def _replacement(text: bytes, *, cases: bool) -> list[bytes | int | str]:
    """Pieces: bytes, the number of a group, or a letter that changes case."""
    out: list[bytes | int | str] = []
    at, plain = 0, bytearray()
    while at < len(text):
        byte = text[at : at + 1]
        at += 1
        piece: int | str | None = None
        if byte == b"&":
            piece = 0
        elif byte == b"\\" and at < len(text):
            byte = text[at : at + 1]
            at += 1
            if byte.isdigit():
                piece = int(byte)
            elif byte in b"ULEul" and cases:
                piece = byte.decode()
            else:
                plain += {b"n": b"\n", b"t": b"\t"}.get(byte, byte)
                continue
        if piece is None:
            plain += byte
            continue
        if plain:
            out.append(bytes(plain))
            plain = bytearray()
        out.append(piece)
    return [*out, bytes(plain)] if plain else out
