"""`echo` and `printf`, of shells and as commands of an image.

Mirrors  POSIX printf(1); bash's `%q`; busybox' and bash's `echo -n -e -E`, dash's echo that takes
         only `-n` and always understands backslashes; messages of GNU coreutils' printf.
"""

from __future__ import annotations

from sim.patterns import pattern

OUTPUT_MAX = 1 << 20  # characters of one printf, as much as a variable of a shell holds
_OCTAL, _HEX = pattern(r"[0-7]{1,3}"), pattern(r"[0-9A-Fa-f]{1,2}")
_ESCAPES = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "v": "\v",
    "e": "\x1b",
    "E": "\x1b",
}
_FORMAT = pattern(r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|-?\d+)?)?([a-zA-Z%])|%")
_INTEGER = pattern(r"\s*[-+]?(?:0[xX][0-9A-Fa-f]+|\d+)")


def unescape(text: str, *, zero: bool = False) -> str:
    """Backslashes as in `$'...'`, `echo -e` and `printf %b`.

    zero: octal numbers begin with a zero of their own, as in echo and %b

    A number gives a byte; bytes that are no text are kept as arguments keep them.
    """
    kept: list[str] = []
    at = 0
    while at < len(text):
        if text[at] != "\\" or at + 1 == len(text):
            kept.append(text[at])
            at += 1
            continue
        at += 1
        following = text[at]
        if following in _ESCAPES:
            kept.append(_ESCAPES[following])
            at += 1
        elif following in "01234567" and (octal := _OCTAL.match(text, at + (zero and following == "0"))):
            kept.append(_byte(int(octal[0], 8) & 255))
            at = octal.end()
        elif following == "0" and zero:
            kept.append("\0")
            at += 1
        elif following == "x" and (digits := _HEX.match(text, at + 1)):
            kept.append(_byte(int(digits[0], 16)))
            at = digits.end()
        elif following in "\\'\"?" and (not zero or following == "\\"):
            kept.append(following)
            at += 1
        else:
            kept.append("\\" + following)
            at += 1
    made = "".join(kept)
    if not any("\udc80" <= one <= "\udcff" for one in made):
        return made
    return made.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")


def _byte(number: int) -> str:
    return chr(number if number < 128 else 0xDC00 + number)


def echo(arguments: list[str], dialect: str) -> str:
    """What echo prints."""
    newline, escapes = True, dialect == "dash"
    at = 0
    while at < len(arguments) and len(arguments[at]) > 1 and arguments[at][0] == "-":
        letters = arguments[at][1:]
        if letters.strip("n" if dialect == "dash" else "neE"):
            break
        for letter in letters:
            newline = newline and letter != "n"
            escapes = letter == "e" or (escapes and (letter != "E" or dialect == "ash"))
        at += 1
        if dialect == "dash":
            break
    text = " ".join(arguments[at:])
    if escapes and "\\" in text:
        cut = _stop(text)
        return unescape(text[:cut], zero=True) + ("\n" if newline and cut == len(text) else "")
    return text + ("\n" if newline else "")


def _stop(text: str) -> int:
    r"""The place of `\c`, which ends the output; the length if there is none."""
    at = 0
    while (at := text.find("\\", at)) >= 0:
        if text[at + 1 : at + 2] == "c":
            return at
        at += 2
    return len(text)


class Printed:
    """The output of a printf.

    dialect: that of a shell, or "gnu" for the command of coreutils
    errors: messages; code: the exit code
    """

    def __init__(self, form: str, arguments: list[str], *, dialect: str) -> None:
        self.errors: list[str] = []
        self.dialect, self.bash = dialect, dialect == "bash"
        self.stopped = False
        self._given = list(reversed(arguments))
        kept: list[str] = []
        size = 0
        while True:
            before = len(self._given)
            for piece in self._once(form):
                kept.append(piece)
                size += len(piece)
            if size > OUTPUT_MAX:
                self.errors.append("output too long")
                break
            if self.stopped or not self._given or len(self._given) == before:
                break
        self.text = "".join(kept)
        self.code = int(bool(self.errors))
        if dialect == "gnu" and self._given and not self.stopped:
            self.errors.append(f"warning: ignoring excess arguments, starting with '{self._given[-1]}'")

    def _next(self) -> str:
        return self._given.pop() if self._given else ""

    def _invalid(self, text: str, *, partly: bool = False) -> None:
        gnu = f"'{text}': value not completely converted" if partly else f"'{text}': expected a numeric value"
        dash = f"{text}: expected numeric value"
        texts = {"bash": f"{text}: invalid number", "dash": dash, "gnu": gnu}
        self.errors.append(texts.get(self.dialect, f"invalid number '{text}'"))

    def _unconvertible(self, kind: str) -> None:
        texts = {
            "bash": f"`{kind}': invalid format character",
            "gnu": f"%{kind}: invalid conversion specification",
        }
        self.errors.append(texts.get(self.dialect, f"%{kind}: invalid format"))
        self.stopped = True

    def _number(self) -> int:
        text = self._next()
        if text[:1] in ("'", '"'):
            return ord(text[1]) if len(text) > 1 else 0
        found = _INTEGER.match(text)
        if found is None or found.end() != len(text):
            if text.strip():
                self._invalid(text, partly=found is not None)
            if found is None or self.dialect == "ash":
                return 0
        digits = found[0].strip()
        sign = -1 if digits[:1] == "-" else 1
        digits = digits.lstrip("+-")
        try:
            if digits[:2] in ("0x", "0X"):
                return sign * int(digits, 16)
            return sign * int(digits[:40], 8 if digits[0] == "0" and len(digits) > 1 else 10)
        except ValueError:
            return 0

    def _real(self) -> float:
        text = self._next()
        try:
            return float(text or 0)
        except ValueError:
            self._invalid(text)
            return 0.0

    def _once(self, form: str) -> list[str]:
        kept: list[str] = []
        at = 0
        while at < len(form) and not self.stopped:
            following = form.find("%", at)
            following = len(form) if following < 0 else following
            literal = form[at:following]
            if literal:
                cut = _stop(literal)
                self.stopped = cut < len(literal)
                kept.append(unescape(literal[:cut]))
            if self.stopped or following == len(form):
                break
            found = _FORMAT.match(form, following)
            assert found is not None
            at = found.end()
            if found[0] == "%":
                if self.bash:
                    self.errors.append("`%': missing format character")
                else:
                    self._unconvertible("")
                break
            kept.append(self._converted(found[1], found[2], found[3], found[4], "." in found[0]))
        return kept

    def _size(self, text: str | None) -> int:
        number = self._number() if text == "*" else int(text[:9]) if text else 0
        if abs(number) > OUTPUT_MAX:
            self.errors.append("field too wide")
            return 0
        return number

    def _converted(self, flags: str, width: str | None, digits: str | None, kind: str, dotted: bool) -> str:
        if kind == "%":
            return "%"
        wide = self._size(width)
        if wide < 0:
            flags, wide = flags + "-", -wide
        precise: int | None = self._size(digits) if dotted else None
        if precise is not None and precise < 0:
            precise = None
        if kind in "sbcq":
            text = self._next()
            if kind == "c":
                text = text[:1]
            elif kind == "b":
                cut = _stop(text)
                self.stopped = cut < len(text)
                text = unescape(text[:cut], zero=True)
            elif kind == "q":
                text = shell_quoted(text)
            text = text if precise is None else text[:precise]
            return text.ljust(wide) if "-" in flags else text.rjust(wide)
        if kind in "diuxXo":
            number = self._number()
            if kind in "uxXo" and number < 0:
                number += 1 << 64
            conversion = "d" if kind in "iu" else kind
            return f"%{flags}{wide or ''}{f'.{precise}' if precise is not None else ''}{conversion}" % number
        if kind in "eEfFgG":
            precision = f".{min(precise, 1000)}" if precise is not None else ""
            return f"%{flags}{wide or ''}{precision}{kind}" % self._real()
        self._unconvertible(kind)
        return ""


def shell_quoted(text: str) -> str:
    """A text as `%q` shows it."""
    if not text:
        return "''"
    if any(character < " " for character in text):
        escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\t", "\\t")
        return f"$'{escaped}'"
    return "".join(
        one if one.isalnum() or one in "_-./:=@%+," or ord(one) > 127 else "\\" + one for one in text
    )  # fmt: skip
