"""`echo` and `printf`.

Mirrors  POSIX printf(1); bash's `%q`; busybox' and bash's `echo -n -e -E`, dash's echo that takes
         only `-n` and always understands backslashes.
"""

from __future__ import annotations

from actors.node.programs.shell import words
from actors.node.programs.shell.state import VALUE_MAX
from sim.patterns import pattern

_FORMAT = pattern(r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|-?\d+)?)?([a-zA-Z%])|%")
_INTEGER = pattern(r"\s*[-+]?(?:0[xX][0-9A-Fa-f]+|\d+)")


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
            escapes = letter == "e" or (escapes and letter != "E")
        at += 1
        if dialect == "dash":
            break
    text = " ".join(arguments[at:])
    if escapes and "\\" in text:
        cut = _stop(text)
        return words.unescape(text[:cut], zero=True) + ("\n" if newline and cut == len(text) else "")
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
    """The output of a printf.  errors: messages; code: the exit code"""

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
            if size > VALUE_MAX:
                self.errors.append("output too long")
                break
            if self.stopped or not self._given or len(self._given) == before:
                break
        self.text = "".join(kept)
        self.code = int(bool(self.errors))

    def _next(self) -> str:
        return self._given.pop() if self._given else ""

    def _invalid(self, text: str) -> None:
        self.errors.append(
            {"bash": f"{text}: invalid number", "dash": f"{text}: expected numeric value"}.get(
                self.dialect, f"invalid number '{text}'"
            )
        )

    def _number(self) -> int:
        text = self._next()
        if text[:1] in ("'", '"'):
            return ord(text[1]) if len(text) > 1 else 0
        found = _INTEGER.match(text)
        if found is None or found.end() != len(text):
            if text.strip():
                self._invalid(text)
            if found is None:
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
                kept.append(words.unescape(literal[:cut]))
            if self.stopped or following == len(form):
                break
            found = _FORMAT.match(form, following)
            assert found is not None
            at = found.end()
            if found[0] == "%":
                self.errors.append("`%': missing format character" if self.bash else "%: invalid format")
                break
            kept.append(self._converted(found[1], found[2], found[3], found[4], "." in found[0]))
        return kept

    def _size(self, text: str | None) -> int:
        number = self._number() if text == "*" else int(text[:9]) if text else 0
        if abs(number) > VALUE_MAX:
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
                text = words.unescape(text[:cut], zero=True)
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
        self.errors.append(f"`{kind}': invalid format character" if self.bash else f"%{kind}: invalid format")
        self.stopped = True
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
