"""Values as Go prints them: %v and %#v, and what errors of fields show of a bad value.

Turns a value of JSON and the name of its Go type into text.

Holds: the text depends on the value and its type only. A pointer inside of a struct is an address
in Go, which differs in each answer: every pointer has the same address here.

Mirrors  Go 1.19 fmt (print.go); apimachinery v1.25 pkg/util/validation/field/errors.go: ErrorBody.
"""

from __future__ import annotations

import math
from base64 import b64decode
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from sim.api.go.internal import as_internal
from sim.api.go.structures import fields_of, underlying
from sim.units import go_quote, quantity_parts

ANY = "interface {}"  # the type of a value without a type of its own
# Types that many rules show.
QUANTITY, INT_OR_STRING, TIME = "resource.Quantity", "intstr.IntOrString", "v1.Time"
LABEL_SELECTOR, STRING_MAP = "*v1.LabelSelector", "map[string]string"
ADDRESS = "0xc000000000"
_WHOLE_MAX = 1e21  # below, Go writes whole numbers without an exponent
FIXED_DIGITS = 6  # a float64 with an exponent from this on is printed with it
_NAME = "core.ResourceName"  # a string with a method String of its own
_NO_TIME = "0001-01-01T00:00:00Z"
_NUMBERS = ("int", "int32", "int64", "uint32")
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)


class GoValue:
    """A value with its Go type, as a rule hands it to an error; its text is made when it is read.

    kind: the Go type, such as "core.Taint" or "[]string"; a pointer is shown as its value
    """

    __slots__ = ("_text", "kind", "value")

    def __init__(self, kind: str, value: Any) -> None:
        self.kind = kind
        self.value = value
        self._text = ""

    @property
    def text(self) -> str:
        """The value as an error shows it."""
        if not self._text:
            self._text = shown(self.kind, self.value)
        return self._text


def shown(kind: str, value: Any) -> str:
    """A bad value in an error: nil as "null", a pointer as its value.

    A value with a method String is shown by that, any other by %#v.
    """
    if kind.startswith("*") or kind == ANY:
        if value is None:
            return '"null"'
        kind = kind.removeprefix("*")
    if kind in (TIME, "v1.MicroTime"):
        return time_text(value or _NO_TIME)
    return value if kind == _NAME else go_syntax(kind, value)


# --- %#v ------------------------------------------------------------------------------------------


def go_syntax(kind: str, value: Any) -> str:
    """A value of a type as Go's %#v prints it."""
    if kind.startswith("*"):
        return f"({kind})(nil)" if value is None else f"&{go_syntax(kind[1:], value)}"
    if kind == "[]byte":
        return _bytes(kind, value)
    return "<nil>" if kind == ANY and value is None else _syntax(kind, value)


def _syntax(kind: str, value: Any) -> str:
    """As `go_syntax`, of a part of a value."""
    plain = _SPECIAL.get(kind)
    if plain is not None:
        return plain(value)
    if kind.startswith("*"):
        return f"({kind})({'nil' if value is None else ADDRESS})"
    fields = fields_of(kind)
    if fields is not None:
        given = as_internal(kind, value or {})
        texts = [f"{f.name}:{_syntax(f.type, given.get(f.key) if f.key else given)}" for f in fields]
        return f"{kind}{{{', '.join(texts)}}}"
    below = underlying(kind)
    if below.startswith("[]"):
        if value is None:
            return f"{kind}(nil)"
        return f"{kind}{{{', '.join([_syntax(below[2:], item) for item in value])}}}"
    if below.startswith("map["):
        if value is None:
            return f"{kind}(nil)"
        inner = below.partition("]")[2]
        texts = [f"{go_quote(key)}:{_syntax(inner, value[key])}" for key in sorted(value)]
        return f"{kind}{{{', '.join(texts)}}}"
    if below in _NUMBERS:
        return str(value or 0)
    return "true" if value is True else go_quote(value or "") if below != "bool" else "false"


def _any(value: Any) -> str:
    """A value of JSON without a type of its own."""
    if isinstance(value, dict):
        texts = [f"{go_quote(key)}:{_any(value[key])}" for key in sorted(value)]
        return f"map[string]interface {{}}{{{', '.join(texts)}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(_any, value))}}}"
    if isinstance(value, str):
        return go_quote(value)
    return f"{ANY}(nil)" if value is None else go_value(value)


def _bytes(kind: str, value: Any) -> str:
    """Bytes, or the base64 text of bytes in JSON."""
    if value is None:
        return f"{kind}(nil)"
    held = b64decode(value) if isinstance(value, str) else value
    return f"{kind}{{{', '.join([f'{byte:#x}' for byte in held])}}}"


def _nested_bytes(value: Any) -> str:
    return _bytes("[]uint8", value)


def _quantity(value: Any) -> str:
    """Quirk: a text that is not canonical is not shown."""
    whole, scale, text, style = quantity_parts(0 if value is None else value)
    # An amount of the slower form shows the address of a number, which differs in each answer.
    inner = f"resource.int64Amount{{value:{whole}, scale:{scale or 0}}}"
    style = style if value is not None else ""
    return (
        f"resource.Quantity{{i:{inner}, d:resource.infDecAmount{{Dec:(*inf.Dec)(nil)}},"
        f' s:"{text if value is not None else ""}", Format:"{style}"}}'
    )


def _int_or_string(value: Any) -> str:
    is_text = isinstance(value, str)
    number, text = (0, value) if is_text else (value or 0, "")
    return f"intstr.IntOrString{{Type:{int(is_text)}, IntVal:{number}, StrVal:{go_quote(text)}}}"


def _time(value: str | None) -> str:
    """A time by its method GoString; a decoded one is in the zone of the server."""
    if value is None:
        return "time.Date(1, time.January, 1, 0, 0, 0, 0, time.UTC)"
    day, _, clock = value.removesuffix("Z").partition("T")
    year, month, date = day.split("-")
    clock, _, fraction = clock.partition(".")
    hour, minute, second = clock[:8].split(":")
    nanos = int(fraction.ljust(9, "0")[:9]) if fraction else 0
    dated = f"{int(year)}, time.{_MONTHS[int(month) - 1]}, {int(date)}"
    return f"time.Date({dated}, {int(hour)}, {int(minute)}, {int(second)}, {nanos}, time.Local)"


def _time_pointer(value: str | None) -> str:
    """Quirk: GoString of a nil pointer fails, which Go prints as nil."""
    return "<nil>" if value is None else _time(value)


_SPECIAL: dict[str, Callable[[Any], str]] = {
    ANY: _any,
    "interface": _any,
    "apiextensions.JSON": _any,
    "[]byte": _nested_bytes,
    QUANTITY: _quantity,
    INT_OR_STRING: _int_or_string,
    TIME: _time,
    "v1.MicroTime": _time,
    "*v1.Time": _time_pointer,
    "*v1.MicroTime": _time_pointer,
}


# --- %v -------------------------------------------------------------------------------------------


def go_value(value: Any) -> str:
    """A value without a type as Go's %v prints it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{go_value(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(go_value, value))}]"
    if isinstance(value, float):
        return go_float(value)
    return "<nil>" if value is None else str(value)


def go_float(value: float) -> str:
    """A number as Go prints a float64: 5, 0.1, 1e+06, +Inf."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    shortest = repr(float(value))
    mantissa, power = f"{Decimal(shortest).normalize():E}".split("E")
    if -4 <= int(power) < FIXED_DIGITS:
        return shortest.removesuffix(".0")
    return f"{mantissa}e{power[0]}{power[1:].rjust(2, '0')}"


def time_text(value: str | None) -> str:
    """A time by its method String: "2020-01-01 00:00:00 +0000 UTC"."""
    if value is None:
        return "<nil>"
    moment, dot, fraction = value.removesuffix("Z").replace("T", " ").partition(".")
    fraction = fraction.rstrip("0")
    return f"{moment}{dot if fraction else ''}{fraction} +0000 UTC"


def go_number(value: float) -> int | float:
    """A float as Go's encoder of JSON writes it: a whole one has neither point nor exponent."""
    return int(value) if value.is_integer() and abs(value) < _WHOLE_MAX else value
