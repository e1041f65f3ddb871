"""JSON text becomes values that record duplicate keys; Go's error message for text that is not
JSON.

Mirrors  Go encoding/json scanner.go (error texts); sigs.k8s.io/json (duplicate fields).
Differs  only the first mistake in a text is reported, as upstream, but without its byte offset.
"""

from __future__ import annotations

import json
import re
from operator import is_
from typing import Any

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_LETTERS = re.compile(
    r'(?:[^"\\\x00-\x1f]++|\\["\\/bfnrtu])*+'
)  # the rest of a string, up to its end or a mistake
_SPACE = " \t\r\n"
END = "unexpected end of JSON input"
# Schemas nest about 20 deep; upstream stops at 10000, which Python's own stack does not reach.
DEPTH_MAX = 200


_UNQUOTED = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    '"': r"\"",
    "\\": r"\\",
}


def go_quote(text: str) -> str:
    """Text in quotes, as Go's %q prints it."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join([_go_letter(letter) for letter in text]) + '"'


def _go_letter(letter: str) -> str:
    if letter in _UNQUOTED:
        return _UNQUOTED[letter]
    if letter.isprintable():
        return letter
    code = ord(letter)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


SUMMARY_BYTES = 30  # create.go: summarizeData(body, 30)


def summarize(raw: bytes) -> str:
    """The begin of a body in a message: as text if it looks like JSON, otherwise in hex."""
    if not raw:
        return "<empty>"
    cut = raw[:SUMMARY_BYTES]
    shown = cut.decode("utf-8", "replace") if raw[:1] == b"{" else cut.hex()
    return f"{shown} ..." if len(raw) > SUMMARY_BYTES else shown


class Twice(dict[str, Any]):
    """A JSON object with duplicate keys; the last value counts.

    It exists only until the duplicates are reported: code that changes and stores objects compares
    types with `dict`.
    """

    __slots__ = ("keys_twice", "lost")
    keys_twice: list[str]
    lost: dict[str, list[str]]  # duplicate keys within values that do not count


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    if len(plain) == len(pairs):
        return plain
    out = Twice(plain)
    seen: dict[str, int] = {}
    for key, _ in pairs:
        seen[key] = seen.get(key, 0) + 1
    out.keys_twice = [key for key, count in seen.items() if count > 1]
    out.lost = {}
    for key, value in pairs:
        if value is not plain[key] and isinstance(value, dict | list):
            out.lost.setdefault(key, []).extend(duplicates(value, key))
    return out


def duplicates(value: Any, at: str = "") -> list[str]:
    """The paths of all duplicate keys, in the order of the text."""
    found: list[str] = []
    if isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, dict | list):
                found += duplicates(item, f"{at}[{index}]")
    elif isinstance(value, dict):
        twice = frozenset(value.keys_twice if isinstance(value, Twice) else ())
        for key, item in value.items():
            if key in twice and isinstance(value, Twice):
                found += [f"{at}.{lost}" if at else lost for lost in value.lost.get(key, ())]
                found.append(f"{at}.{key}" if at else key)
            if isinstance(item, dict | list):
                found += duplicates(item, f"{at}.{key}" if at else key)
    return found


def parse(text: str) -> Any:
    """The value of a text, as plain dicts and lists; raises ValueError in Go's words."""
    return plain(parse_noting_twice(text))


def plain(value: Any) -> Any:
    """The value with a plain dict for each `Twice`; the value itself if it contains none."""
    if isinstance(value, dict):
        made = {
            key: plain(below) if isinstance(below, dict | list) else below for key, below in value.items()
        }
        same = type(value) is dict and all(made[key] is below for key, below in value.items())
        return value if same else made
    if isinstance(value, list):
        items = [plain(below) if isinstance(below, dict | list) else below for below in value]
        return value if all(map(is_, items, value)) else items
    return value


def parse_noting_twice(text: str) -> Any:
    """As `parse`, with a `Twice` for each object with duplicate keys."""
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise ValueError(syntax_error(text)) from None


def _no_constant(name: str) -> Any:
    raise ValueError(name)  # NaN and Infinity are not JSON


def syntax_error(text: str) -> str:
    """Go's message about the first mistake."""
    try:
        at = _Scanner(text).value(0)
    except _Mistake as mistake:
        return str(mistake)
    except RecursionError:  # Go reports this at depth 10,001; Python's stack ends earlier
        return f"invalid character {_char(text.lstrip(_SPACE)[0])} exceeded max depth"
    rest = text[at:].lstrip(_SPACE)
    return f"invalid character {_char(rest[0])} after top-level value" if rest else END


def _char(c: str) -> str:
    if not c.isprintable():
        return f"'\\u{ord(c):04x}'"
    if c == "'":
        return r"'\''"
    return f"""'{c}'""" if c != '"' else """'"'"""


class _Mistake(Exception):
    pass


class _Scanner:
    """Walks the text as Go's scanner does, and raises at the first invalid character."""

    def __init__(self, text: str) -> None:
        self.text = text

    def _next(self, at: int) -> tuple[str, int]:
        while at < len(self.text) and self.text[at] in _SPACE:
            at += 1
        if at >= len(self.text):
            raise _Mistake(END)
        return self.text[at], at

    def _bad(self, c: str, where: str) -> _Mistake:
        return _Mistake(f"invalid character {_char(c)} {where}")

    def value(self, at: int) -> int:
        """The position after the value that starts at a position."""
        c, at = self._next(at)
        if c == "{":
            return self._object(at + 1)
        if c == "[":
            return self._array(at + 1)
        if c == '"':
            return self._string(at + 1)
        if c == "-" or c.isdecimal():
            return self._number(at)
        for word in ("true", "false", "null"):
            if c == word[0]:
                return self._word(at, word)
        raise self._bad(c, "looking for beginning of value")

    def _object(self, at: int) -> int:
        c, at = self._next(at)
        if c == "}":
            return at + 1
        while True:
            if c != '"':
                raise self._bad(c, "looking for beginning of object key string")
            at = self._string(at + 1)
            c, at = self._next(at)
            if c != ":":
                raise self._bad(c, "after object key")
            at = self.value(at + 1)
            c, at = self._next(at)
            if c == "}":
                return at + 1
            if c != ",":
                raise self._bad(c, "after object key:value pair")
            c, at = self._next(at + 1)

    def _array(self, at: int) -> int:
        c, at = self._next(at)
        if c == "]":
            return at + 1
        while True:
            at = self.value(at)
            c, at = self._next(at)
            if c == "]":
                return at + 1
            if c != ",":
                raise self._bad(c, "after array element")
            at += 1

    def _string(self, at: int) -> int:
        found = _LETTERS.match(self.text, at)
        at = found.end() if found is not None else at
        c = self.text[at : at + 1]
        if c == '"':
            return at + 1
        if c == "\\" and at + 1 < len(self.text):
            raise self._bad(self.text[at + 1], "in string escape code")
        if c and c != "\\":
            raise _Mistake(f"invalid character {json.dumps(c)[1:-1]!r} in string literal")
        raise _Mistake(END)

    def _number(self, at: int) -> int:
        match = _NUMBER.match(self.text, at)
        if match is None:
            if at + 1 >= len(self.text):
                raise _Mistake(END)
            raise self._bad(self.text[at + 1], "in numeric literal")
        return match.end()

    def _word(self, at: int, word: str) -> int:
        for i, wanted in enumerate(word):
            if at + i >= len(self.text):
                raise _Mistake(END)
            if self.text[at + i] != wanted:
                raise self._bad(self.text[at + i], f"in literal {word} (expecting {_char(wanted)})")
        return at + len(word)
