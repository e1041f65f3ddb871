"""The functions of awk that only compute.

Mirrors  POSIX.1-2017 XCU awk: Functions; gawk's gensub, strftime, systime and functions of bits.
"""

from __future__ import annotations

import math
from typing import Any

from actors.node.programs.commands.awk.records import ere
from actors.node.programs.commands.awk.values import STRING_MAX, Value, number_of
from actors.node.programs.commands.patterns import Pattern
from actors.node.programs.commands.tool import Failed

WHOLE_MAX = 1 << 53


def whole(value: Value) -> int:
    """A value as a whole number."""
    number = number_of(value)
    return int(max(-WHOLE_MAX, min(number, WHOLE_MAX))) if math.isfinite(number) else 0


def substr(text: str, start: float, length: float | None) -> str:
    """Characters from the position `start` on, from 1, rounded as POSIX wants."""
    if math.isnan(start) or (length is not None and math.isnan(length)):
        return ""
    first = math.floor(max(-STRING_MAX, min(start, 2 * STRING_MAX)) + 0.5)
    last = 2 * STRING_MAX
    if length is not None:
        last = first + math.floor(max(-STRING_MAX, min(length, 2 * STRING_MAX)) + 0.5)
    return text[max(first, 1) - 1 : max(last, 1) - 1]


def replaced(
    pattern: Pattern, replacement: str, text: str, which: int, *, groups: bool = False
) -> tuple[str, int]:
    """A text with the matches replaced, and how many were.

    which: the number of the match that is replaced; 0: all
    groups: True if \\1 stands for a group, as in gensub
    """
    data, stored, at, count, seen, size = text.encode("latin-1"), list[str](), 0, 0, 0, 0
    pieces = _pieces(replacement, groups)
    after = -1  # the end of the last match: an empty one there does not count
    while at <= len(data) and (result := pattern.search(data, at)) is not None:
        start, end = result.start, result.end
        if start == end == after:
            stored.append(text[at : at + 1])
            at += 1
            after = -1
            if at > len(data):
                break
            continue
        seen += 1
        stored.append(text[at:start])
        if which in (0, seen):
            count += 1
            stored.append("".join(one if isinstance(one, str) else _group(result, one) for one in pieces))
        else:
            stored.append(text[start:end])
        size += len(stored[-1]) + 1
        if size > STRING_MAX:
            raise Failed("string too long", 2)
        at = after = end
        if which and seen == which:
            break
        if start == end:
            stored.append(text[end : end + 1])
            at, after = end + 1, -1
    return "".join(stored) + text[at:], count


def _group(found: Any, number: int) -> str:
    try:
        data: bytes | None = found[number]
    except IndexError:
        return ""
    return (data or b"").decode("latin-1")


def _pieces(text: str, groups: bool) -> list[str | int]:
    """A replacement: texts, and the numbers of groups."""
    result: list[str | int] = []
    at = 0
    while at < len(text):
        one, following = text[at], text[at + 1 : at + 2]
        at += 1
        if one == "&":
            result.append(0)
        elif one == "\\" and groups and following.isdigit():
            result.append(int(following))
            at += 1
        elif one == "\\" and following in ("&", "\\"):
            result.append(following)
            at += 1
        else:
            result.append(one)
    return result


def computed(name: str, given: list[Value], texts: list[str]) -> Value:
    """The value of a function of numbers or texts.  texts: the arguments as strings"""
    numbers = [number_of(one) for one in given]
    try:
        match name:
            case "int":
                return float(math.trunc(numbers[0])) if math.isfinite(numbers[0]) else numbers[0]
            case "sqrt" | "exp" | "log" | "sin" | "cos":
                return float(getattr(math, name)(numbers[0]))
            case "atan2":
                return math.atan2(numbers[0], numbers[1])
            case "substr":
                return substr(texts[0], numbers[1], numbers[2] if len(numbers) > 2 else None)
            case "index":
                return float(texts[0].find(texts[1]) + 1)
            case "tolower":
                return _changed_case(texts[0], b"A", 32)
            case "toupper":
                return _changed_case(texts[0], b"a", -32)
            case "strtonum":
                word = texts[0].strip().lower()
                return float(int(word, 16 if word[:2] == "0x" else 8 if word[:1] == "0" else 10))
            case "and":
                return float(whole(given[0]) & whole(given[1]))
            case "or":
                return float(whole(given[0]) | whole(given[1]))
            case "xor":
                return float(whole(given[0]) ^ whole(given[1]))
            case "lshift":
                return float((whole(given[0]) << min(max(whole(given[1]), 0), 63)) & (WHOLE_MAX - 1))
            case "rshift":
                return float(whole(given[0]) >> min(max(whole(given[1]), 0), 63))
    except OverflowError:
        return math.inf
    except ValueError:
        return (
            number_of(texts[0])
            if name == "strtonum"
            else -math.inf
            if name == "log" and not numbers[0]
            else math.nan
        )
    return None


def _changed_case(text: str, first: bytes, by: int) -> str:
    begin = first[0]
    return "".join(chr(ord(one) + by) if begin <= ord(one) < begin + 26 else one for one in text)


def match(text: str, pattern: Pattern) -> tuple[float, float]:
    """RSTART and RLENGTH of the first match."""
    result = pattern.search(text.encode("latin-1"))
    return (0.0, -1.0) if result is None else (result.start + 1.0, float(result.end - result.start))


def pattern_of(text: str) -> Pattern:
    """A pattern that is a string."""
    return ere(text)
