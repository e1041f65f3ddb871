"""JSON text becomes values that record duplicate keys; Go's error message for text that is not
JSON.

Mirrors  Go encoding/json scanner.go (error texts); sigs.k8s.io/json (duplicate fields).
Differs  only the first mistake in a text is reported, as upstream, but without its byte offset.
"""

from __future__ import annotations

import json
from math import isfinite
from operator import is_
from typing import Any

from sim.patterns import pattern
from sim.units import go_quote as go_quote

_LETTERS = pattern(r'[^"\\\x00-\x1f]*')  # of a string, up to its end, an escape or a mistake
END = "unexpected end of JSON input"
GO_DEPTH_MAX = 10_000  # scanner.go: maxNestingDepth


# The struct into which the version and kind of a body are read first (serializer/json/meta.go).
VERSION_AND_KIND = (
    r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
)


def unread_head(why: str) -> str:
    """The error of a body of which version and kind cannot be read."""
    return f"couldn't get version/kind; json parse error: {why}"


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

    __slots__ = ("keys_twice", "lost", "pairs")
    keys_twice: list[str]
    lost: dict[str, list[str]]  # duplicate keys within values that do not count
    pairs: list[tuple[str, Any]]  # all members, in the order of the text


class Fraction(float):
    """A number with a fraction or an exponent, and its text, which some types read."""

    __slots__ = ("text",)
    text: str

    @classmethod
    def of(cls, text: str) -> Fraction:
        """The number of a JSON text."""
        made = cls(text)
        made.text = text
        return made


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    if len(plain) == len(pairs):
        return plain
    out = Twice(plain)
    seen: dict[str, int] = {}
    for key, _ in pairs:
        seen[key] = seen.get(key, 0) + 1
    out.keys_twice = [key for key, count in seen.items() if count > 1]
    out.lost, out.pairs = {}, pairs
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


class TooLargeNumber(Exception):
    """A number that no float holds, by its text."""


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise TooLargeNumber(text)
    return value


def parse_noting_twice(text: str, exact: bool = False, finite: bool = False) -> Any:
    """As `parse`, with a `Twice` for each object with duplicate keys.

    exact: with a `Fraction` for each number that is not written as an integer
    finite: raises TooLargeNumber for a number that no float holds
    """
    to_float = Fraction.of if exact else _finite if finite else float
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant, parse_float=to_float)
    except (ValueError, RecursionError):
        raise ValueError(syntax_error(text)) from None


def _no_constant(name: str) -> Any:
    raise ValueError(name)  # NaN and Infinity are not JSON


def syntax_error(text: str) -> str:
    """Go's message about the first mistake in a text that is not JSON."""
    try:
        _scan(text)
    except _Mistake as mistake:
        return str(mistake)
    return END


def _char(c: str) -> str:
    """A character as messages show it (scanner.go: quoteChar)."""
    if c in "'\"":
        return r"'\''" if c == "'" else """'"'"""
    return f"'{go_quote(c)[1:-1]}'"


class _Mistake(Exception):
    pass


def _bad(text: str, at: int, where: str) -> _Mistake:
    """The mistake at a position. At the end Go reads one more space before it reports the end."""
    byte = chr(text[at].encode("utf-8", "surrogatepass")[0]) if at < len(text) else " "
    return _Mistake(f"invalid character {_char(byte)} {where}")


_VALUE, _KEY = "looking for beginning of value", "looking for beginning of object key string"
_WORDS = {"t": "true", "f": "false", "n": "null"}
_CLOSING = {"{": "}", "[": "]"}
_AFTER = {"{": "after object key:value pair", "[": "after array element", "": "after top-level value"}
_DIGITS = pattern("[0-9]*")
_GAP = pattern(r"[ \t\r\n]*")
_HEX_DIGITS = "0123456789abcdefABCDEF"


def _scan(text: str) -> None:
    """Walks the text as Go's scanner does; raises at the first mistake. Open brackets are a stack."""
    opened: list[str] = []
    at, wanted, may_close = 0, "value", False
    while True:
        at = _gap(text, at)
        inside = opened[-1] if opened else ""
        if at == len(text) and (inside or wanted != "next"):
            raise _Mistake(END)
        if at == len(text):
            return
        c = text[at]
        if may_close and c == _CLOSING[inside]:
            opened.pop()
            at, wanted, may_close = at + 1, "next", bool(opened)
        elif wanted == "value":
            may_close = c in _CLOSING
            if may_close:
                if len(opened) >= GO_DEPTH_MAX:
                    raise _bad(text, at, "exceeded max depth")
                opened.append(c)
                at, wanted = at + 1, "key" if c == "{" else "value"
            else:
                at, wanted, may_close = _scalar(text, at, _VALUE), "next", bool(opened)
        elif wanted == "key":
            if c != '"':
                raise _bad(text, at, _KEY)
            at = _gap(text, _string(text, at + 1))
            if text[at : at + 1] != ":":
                raise _bad(text, at, "after object key") if at < len(text) else _Mistake(END)
            at, wanted, may_close = at + 1, "value", False
        else:
            if c != "," or not inside:
                raise _bad(text, at, _AFTER[inside])
            at, wanted, may_close = at + 1, "key" if inside == "{" else "value", False


def _gap(text: str, at: int) -> int:
    found = _GAP.match(text, at)
    return at if found is None else found.end()


def _scalar(text: str, at: int, where: str) -> int:
    """The position after a string, number or word."""
    c = text[at]
    if c == '"':
        return _string(text, at + 1)
    if c == "-" or c in "0123456789":
        return _number(text, at)
    word = _WORDS.get(c)
    if word is None:
        raise _bad(text, at, where)
    for i, wanted in enumerate(word):
        if text[at + i : at + i + 1] != wanted:
            raise _bad(text, at + i, f"in literal {word} (expecting {_char(wanted)})")
    return at + len(word)


def _string(text: str, at: int) -> int:
    while True:
        found = _LETTERS.match(text, at)
        at = found.end() if found is not None else at
        c = text[at : at + 1]
        if not c:
            raise _Mistake(END)
        if c == '"':
            return at + 1
        if c != "\\":
            raise _bad(text, at, "in string literal")
        if text[at + 1 : at + 2] != "u":
            if text[at + 1 : at + 2] not in tuple('"\\/bfnrt'):
                raise _bad(text, at + 1, "in string escape code")
            at += 2
            continue
        for place in range(at + 2, at + 6):
            if text[place : place + 1] not in tuple(_HEX_DIGITS):
                raise _bad(text, place, "in \\u hexadecimal character escape")
        at += 6


def _number(text: str, at: int) -> int:
    at += text[at] == "-"
    at = at + 1 if text[at : at + 1] == "0" else _digits(text, at, "in numeric literal")
    if text[at : at + 1] == ".":
        at = _digits(text, at + 1, "after decimal point in numeric literal")
    if text[at : at + 1] in ("e", "E"):
        at += 1
        at = _digits(text, at + (text[at : at + 1] in ("+", "-")), "in exponent of numeric literal")
    return at


def _digits(text: str, at: int, where: str) -> int:
    """The position after one or more digits."""
    found = _DIGITS.match(text, at)
    end = at if found is None else found.end()
    if end == at:
        raise _bad(text, at, where)
    return end


# --- numbers of converted maps -------------------------------------------------------------------


def as_converted(value: Any, bits: int) -> Any:
    """A number as Go converts it: whole fractions are integers, and large ones wrap around."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    if not -(1 << 63) <= value < 1 << 63:
        value = -(1 << 63)  # of a float64
    return (value + (1 << bits)) % (1 << bits + 1) - (1 << bits)
