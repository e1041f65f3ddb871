"""Numbers and strings of awk.

A value is a number (float), a string, a `Typed` string from the input, which is a number if it
looks like one, or None: a variable without a value, which is 0 and "".

Mirrors  POSIX.1-2017 XCU awk: Expressions in awk.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from actors.node.programs.commands.tool import Failed
from sim.patterns import pattern

STRING_MAX = 1 << 20  # characters of one string, as much as a variable of a shell holds
_NUMBER = pattern(r"[ \t\n\r\f\v]*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)")
_CONVERSION = pattern(r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d*))?[hlL]*([a-zA-Z%])")


class Typed(str):
    """A string of the input: a field, a line of getline, an argument."""

    __slots__ = ()


Value = float | str | None


def number_of(value: Value) -> float:
    """A value as a number: a string is what it begins with."""
    if isinstance(value, float):
        return value
    result = _NUMBER.match(value) if value else None
    return float(result[1]) if result is not None else 0.0


def string_of(value: Value, form: str = "%.6g") -> str:
    """A value as a string; numbers without a fraction have none."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if math.isnan(value) or math.isinf(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return str(int(value)) if value == int(value) and abs(value) < 1e16 else formatted(form, [value])


def is_number(value: Value) -> bool:
    """True for a number, a variable without a value, and input that looks like a number."""
    if not isinstance(value, str):
        return True
    if not isinstance(value, Typed):
        return False
    result = _NUMBER.match(value)
    return result is not None and not value[result.end() :].strip(" \t\n\r\f\v")


def is_true(value: Value) -> bool:
    """A value as a condition."""
    return number_of(value) != 0 if is_number(value) else bool(value)


def compared(left: Value, right: Value, form: str) -> int:
    """-1, 0 or 1: as numbers if both are, else as strings."""
    if is_number(left) and is_number(right):
        one, other = number_of(left), number_of(right)
        return (one > other) - (one < other)
    first, second = string_of(left, form), string_of(right, form)
    return (first > second) - (first < second)


def formatted(form: str, arguments: list[Value], shown: str = "%.6g") -> str:
    """The text of a printf.  Raises Failed for one that is too long.  shown: CONVFMT"""
    entry, stored, at = iter(arguments), list[str](), 0
    size = 0
    while at < len(form):
        result = _CONVERSION.search(form, at)
        if result is None:
            stored.append(form[at:])
            break
        stored.append(form[at : result.start()])
        at = result.end()
        stored.append(
            "%" if result[4] == "%" else _converted(result[1], result[2], result[3], result[4], entry, shown)
        )
        size += len(stored[-1])
        if size > STRING_MAX:
            raise Failed("string too long", 2)
    return "".join(stored)


def _converted(
    flags: str, width: str | None, digits: str | None, kind: str, given: Iterator[Value], shown: str
) -> str:
    def count(text: str | None) -> int:
        number = int(number_of(next(given, None))) if text == "*" else int((text or "0")[:7])
        if abs(number) > STRING_MAX:
            raise Failed("string too long", 2)
        return number

    wide, precise = count(width), None if digits is None else min(abs(count(digits)), 10_000)
    if wide < 0:
        flags, wide = flags + "-", -wide
    value: Value = next(given, None)
    if kind in "sc":
        if kind == "c" and isinstance(value, float):
            text = chr(int(value) & 255)
        else:
            text = string_of(value, shown)[: 1 if kind == "c" else precise]
        return text.ljust(wide) if "-" in flags else text.rjust(wide)
    lead = f"%{flags}{wide or ''}{'' if precise is None else f'.{precise}'}"
    number = number_of(value)
    if kind in "diouxX":
        whole = int(number) if math.isfinite(number) else 0
        whole += 1 << 64 if kind in "ouxX" and whole < 0 else 0
        return f"{lead}{'d' if kind in 'iu' else kind}" % whole
    return f"{lead}{kind}" % number if kind in "eEfFgG" else f"%{kind}"
