"""Text to integers and back: whole numbers, durations, times, quantities; quoted text.

Time is an integer of microseconds (suffix _us); points in time are microseconds since 1970 UTC.
Quantities are exact integers: nothing passes through a float.

Holds: a number's text may have any length; what is too large for its type is never made a number.

Mirrors  Go strconv.ParseInt and ParseUint, time.ParseDuration and Duration.String; apimachinery
         v1.25 pkg/api/resource/quantity.go, pkg/apis/meta/v1/{time,micro_time}.go,
         pkg/util/duration/duration.go.
Differs  of a quantity, digits beyond the 60th before the point count as nines, and powers of ten
         are at most 400; a duration keeps whole microseconds (the rest is cut): virtual time has
         none smaller; a point in time beyond the years 1 to 9999 is written with their first or
         last hour.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, overload

from sim.patterns import pattern
from sim.remembered import cached

MS = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE

# --- instants -------------------------------------------------------------------------------------

# Instants in microseconds.  A virtual one counts from the start of the run, a wall one from 1970.
# Instants differ by a duration, an int.  While a program runs all are ints, which costs nothing;
# mypy refuses one in place of another.
if TYPE_CHECKING:

    class Virtual(int):
        """An instant of virtual time."""

        def __add__(self, duration_us: int, /) -> Virtual: ...
        def __radd__(self, duration_us: int, /) -> Virtual: ...
        @overload
        def __sub__(self, since_us: Virtual, /) -> int: ...  # type: ignore[overload-overlap]
        @overload
        def __sub__(self, duration_us: int, /) -> Virtual: ...
        def __sub__(self, other: int, /) -> int: ...

    class Wall(int):
        """An instant of a wall clock."""

        def __add__(self, duration_us: int, /) -> Wall: ...
        def __radd__(self, duration_us: int, /) -> Wall: ...
        @overload
        def __sub__(self, since_us: Wall, /) -> int: ...  # type: ignore[overload-overlap]
        @overload
        def __sub__(self, duration_us: int, /) -> Wall: ...
        def __sub__(self, other: int, /) -> int: ...

    class Revision(int):
        """A revision of the storage: 0 is before every write."""

        def __add__(self, writes: int, /) -> Revision: ...
        @overload
        def __sub__(self, since: Revision, /) -> int: ...  # type: ignore[overload-overlap]
        @overload
        def __sub__(self, writes: int, /) -> Revision: ...
        def __sub__(self, other: int, /) -> int: ...

else:
    Virtual = Wall = Revision = int

NO_REVISION = Revision(0)

# --- quoted text ----------------------------------------------------------------------------------

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


# --- whole numbers --------------------------------------------------------------------------------

_WHOLE = pattern(r"[+-]?[0-9]+")
_UNSIGNED = pattern(r"[0-9]+")
_DIGITS_MAX = 20  # of 2**64 - 1


@cached(1024)
def parse_whole(text: str, bits: int = 64) -> int | None:
    """A signed number of so many bits in decimal; None for any other text."""
    if _WHOLE.fullmatch(text) is None:
        return None
    digits = text.lstrip("+-").lstrip("0") or "0"
    if len(digits) > _DIGITS_MAX:
        return None
    value = -int(digits) if text[0] == "-" else int(digits)
    return value if -(1 << bits - 1) <= value < 1 << bits - 1 else None


def parse_unsigned(text: str) -> int | None:
    """A number of 64 bits without a sign; None for any other text."""
    if _UNSIGNED.fullmatch(text) is None:
        return None
    digits = text.lstrip("0") or "0"
    return int(digits) if len(digits) <= _DIGITS_MAX and int(digits) < 1 << 64 else None


def unsigned_problem(text: str) -> str:
    """What Go says of a text that is no number of 64 bits without a sign."""
    return "value out of range" if _UNSIGNED.fullmatch(text) else "invalid syntax"


def whole_problem(text: str) -> str:
    """What Go says of a text that is no such number."""
    return "value out of range" if _WHOLE.fullmatch(text) else "invalid syntax"


def not_whole(text: str, by: str = "ParseInt") -> str:
    """What Go's `by` says of a text that `parse_whole` does not take."""
    return f"strconv.{by}: parsing {go_quote(text)}: {whole_problem(text)}"


def not_unsigned(text: str, by: str = "ParseUint") -> str:
    """What Go's `by` says of a text that `parse_unsigned` does not take."""
    return f"strconv.{by}: parsing {go_quote(text)}: {unsigned_problem(text)}"


# --- durations ------------------------------------------------------------------------------------

_UNIT_NS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # U+00B5, micro sign
    "μs": 1_000,  # U+03BC, Greek mu
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_NUMBER = pattern(r"([0-9]*)(?:\.([0-9]*))?")
_UNIT = pattern(r"[^0-9.]*")


@cached(1024)
def parse_duration_us(text: str) -> int:
    """Microseconds of a Go duration ("1h2m3.5s", "-1.5h", "0"); ValueError as Go words it."""
    body = text[1:] if text[:1] in ("+", "-") else text
    if body == "0":
        return 0
    total_ns, at = 0, 0
    while at < len(body):
        number = _NUMBER.match(body, at)
        assert number is not None
        whole, fraction = number[1], number[2] or ""
        unit = _UNIT.match(body, number.end())
        assert unit is not None
        at = unit.end()
        if len(whole.lstrip("0")) > _DIGITS_MAX or not (whole or fraction):
            raise _invalid_duration(text)
        if not unit[0]:
            raise ValueError(f"time: missing unit in duration {_quoted(text)}")
        if unit[0] not in _UNIT_NS:
            raise ValueError(f"time: unknown unit {_quoted(unit[0])} in duration {_quoted(text)}")
        whole, fraction = whole.lstrip("0") or "0", fraction[:_DIGITS_MAX] or "0"
        unit_ns = _UNIT_NS[unit[0]]
        total_ns += int(whole) * unit_ns + int(fraction) * unit_ns // 10 ** len(fraction)
    if not body or total_ns >= 1 << 63:
        raise _invalid_duration(text)
    total_us = total_ns // 1_000
    return -total_us if text[0] == "-" else total_us


def _invalid_duration(text: str) -> ValueError:
    return ValueError(f"time: invalid duration {_quoted(text)}")


def _quoted(text: str) -> str:
    """As Go's time package quotes: what is not ASCII byte by byte."""
    return '"' + "".join([_quoted_letter(letter) for letter in text]) + '"'


def _quoted_letter(letter: str) -> str:
    if letter in '"\\':
        return f"\\{letter}"
    if " " <= letter <= "~":
        return letter
    return "".join(f"\\x{byte:02x}" for byte in letter.encode("utf-8", "replace"))


def format_instant(us: int) -> str:
    """A virtual time as a clock shows it, without a fraction that is zero: "2m00s", "1h02m03.5s"."""
    minutes, rest = divmod(us, MINUTE)
    hours, minutes = divmod(minutes, 60)
    whole, fraction = divmod(rest, SECOND)
    seconds = f"{whole:02d}" + (f".{fraction:06d}".rstrip("0") if fraction else "")
    return f"{hours}h{minutes:02d}m{seconds}s" if hours else f"{minutes}m{seconds}s"


def format_duration(us: int) -> str:
    """Go's Duration.String: "1h2m3.5s", "1.5ms", "10µs", "0s"."""
    if us == 0:
        return "0s"
    sign, us = ("-", -us) if us < 0 else ("", us)
    if us < MS:
        return f"{sign}{us}µs"
    if us < SECOND:
        return f"{sign}{_decimal(us, MS)}ms"
    minutes, rest = divmod(us, MINUTE)
    hours, minutes = divmod(minutes, 60)
    text = f"{_decimal(rest, SECOND)}s"
    if hours:
        text = f"{hours}h{minutes}m{text}"
    elif minutes:
        text = f"{minutes}m{text}"
    return sign + text


def _decimal(value: int, one: int) -> str:
    whole, rest = divmod(value, one)
    return f"{whole}.{rest:0{len(str(one)) - 1}d}".rstrip("0") if rest else str(whole)


def human_duration(us: int) -> str:
    """The age kubectl shows: "5s", "2m5s", "3h10m", "8d", "2y40d"; two digits of precision at most."""
    seconds = -(-us // SECOND) if us < 0 else us // SECOND
    if seconds < -1:
        return "<invalid>"
    if seconds < 0:
        return "0s"
    if seconds < 60 * 2:
        return f"{seconds}s"
    minutes = seconds // 60
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if minutes < 60 * 3:
        return f"{minutes}m"
    hours = minutes // 60
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if hours < 24 * 8:
        return f"{hours // 24}d{hours % 24}h" if hours % 24 else f"{hours // 24}d"
    if hours < 24 * 365 * 2:
        return f"{hours // 24}d"
    years, days = hours // 24 // 365, hours // 24 % 365
    if hours < 24 * 365 * 8:
        return f"{years}y{days}d" if days else f"{years}y"
    return f"{years}y"


# --- points in time -------------------------------------------------------------------------------

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIME = pattern(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:\d\d)", re.ASCII)
_MICROSECOND = timedelta(microseconds=1)
_DAYS_OF_400_YEARS = 146_097
_FIRST_H = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(hours=1)
_LAST_H = (datetime(9999, 12, 31, 23, tzinfo=UTC) - _EPOCH) // timedelta(hours=1)


@lru_cache(maxsize=64)
def _hour_text(unix_h: int) -> str:
    unix_h = min(max(unix_h, _FIRST_H), _LAST_H)
    # Strftime would shorten the year 1 to one digit.
    return (_EPOCH + timedelta(hours=unix_h)).isoformat()[:13]


@lru_cache(maxsize=4096)
def _second_text(unix_s: int) -> str:
    hours, seconds = divmod(unix_s, 3600)
    return f"{_hour_text(hours)}:{seconds // 60:02d}:{seconds % 60:02d}"


@lru_cache(maxsize=4096)
def _time_text(unix_s: int) -> str:
    """One text for all that happens in a second: objects keep very many of them."""
    return _second_text(unix_s) + "Z"


def format_time(unix_us: int) -> str:
    """metav1.Time: whole seconds, "2022-08-23T00:00:00Z"."""
    return _time_text(unix_us // SECOND)


def format_micro_time(unix_us: int) -> str:
    """metav1.MicroTime: always six digits, "2022-08-23T00:00:00.000000Z"."""
    unix_s, rest_us = divmod(unix_us, SECOND)
    return f"{_second_text(unix_s)}.{rest_us:06d}Z"


@cached(8192)
def parse_time(text: str) -> int:
    """Microseconds since 1970 of an RFC 3339 time, any offset, any number of digits; ValueError
    otherwise.
    """
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f'parsing time "{text}": not RFC 3339')
    if text.startswith("0000"):  # which Python has no year for; days repeat after 400 years
        return parse_time("0400" + text[4:]) - _DAYS_OF_400_YEARS * 24 * 3600 * SECOND
    zone = "+00:00" if match[3] == "Z" else match[3]
    second = datetime.fromisoformat(match[1] + zone)
    return (second - _EPOCH) // _MICROSECOND + int((match[2] or "0")[:6].ljust(6, "0"))


# --- quantities -----------------------------------------------------------------------------------

JSON_WHOLE_MAX = (1 << 53) - 1  # up to this, every JSON reader distinguishes all integers
NANO_PER_MILLI = 1_000_000
NANO = 1_000_000_000
DECIMAL_SI = "DecimalSI"
BINARY_SI = "BinarySI"
DECIMAL_EXPONENT = "DecimalExponent"

_QUANTITY = pattern(
    r"(?P<sign>[+-]?)0*+(?P<whole>\d*+)(?:\.(?P<fraction>\d*+))?+(?P<suffix>[eEinumkKMGTP]*+[-+]?\d*)",
    re.ASCII,
)
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX = {power: suffix for suffix, power in _DECIMAL.items()}
_BINARY_SUFFIX = {power // 10: suffix for suffix, power in _BINARY.items()}
_MAX_NANO = (2**63 - 1) * NANO  # maxAllowed: larger amounts in binary units are capped
# Digits before or after the point: more change only how it is rounded, or that it is capped.
_LONG = 60
_POWER_MAX = 400  # of ten: upstream takes minutes for much larger ones
_MAX_DIGITS = 18  # maxInt64Factors
_INT64_MAX = 2**63 - 1

QUANTITY_SUFFIX = "unable to parse quantity's suffix"
QUANTITY_NUMBER = "unable to parse numeric part of quantity"
QUANTITY_SYNTAX = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


class _Quantity(NamedTuple):
    """A parsed quantity.

    nano: nano units
    style: its format
    written: True if upstream keeps the text as it was written
    whole, scale: the parts of upstream's int64Amount; (0, None) for an amount of its slower form
    """

    nano: int
    style: str
    written: bool
    whole: int = 0
    scale: int | None = None


@cached(8192)
def _parse_quantity(text: str) -> _Quantity:
    """The parts of a quantity: quantity.go, ParseQuantity."""
    text = text.strip()  # Quirk: blanks around a quantity are cut by its JSON decoder.
    match = _QUANTITY.fullmatch(text) if text else None
    if match is None:
        raise ValueError(QUANTITY_SYNTAX)
    if text == "0":
        return _Quantity(0, DECIMAL_SI, True, 0, 0)
    suffix, negative = match["suffix"], match["sign"] == "-"
    number, fraction = match["whole"] or "0", match["fraction"] or ""
    binary, power = suffix in _BINARY, _BINARY.get(suffix, 0)
    if binary:
        style, precision = BINARY_SI, 15 - len(number) - power * 3 // 10 - 1
        fast, scale = precision >= 0 and not fraction, 0
    else:
        style = DECIMAL_SI if suffix in _DECIMAL else DECIMAL_EXPONENT
        power = _DECIMAL[suffix] if suffix in _DECIMAL else _exponent(suffix)
        scale = power - len(fraction)
        fast = len(number) + len(fraction) <= _MAX_DIGITS and scale >= -9
    if fast:
        shifted = number + fraction
        value = int(shifted)
        whole = value << power if binary else value
        if whole <= _INT64_MAX:
            if binary:
                written = value & 7 != 0
            else:
                written = scale % 3 == 0 and not shifted.endswith("000") and shifted[0] != "0"
            whole = -whole if negative else whole
            nano = whole * 10 ** (scale + 9)
            return _Quantity(nano, style, written, whole, scale)
    if not re.match(r"[+-]?\.?\d", text, re.ASCII):
        raise ValueError(QUANTITY_NUMBER)
    return _slow_quantity(number, fraction, power, style, negative)


def _exponent(suffix: str) -> int:
    value = parse_whole(suffix[1:]) if suffix[0] in "eE" else None
    if value is None:
        raise ValueError(QUANTITY_SUFFIX)
    return min(max(value, -_POWER_MAX), _POWER_MAX)


def _slow_quantity(number: str, fraction: str, power: int, style: str, negative: bool) -> _Quantity:
    """A quantity of many digits or a fine one: rounded away from zero to nano units."""
    if len(number) > _LONG:
        number = "9" * _LONG
    if len(fraction) > _LONG:
        fraction = fraction[:_LONG] + ("1" if fraction[_LONG:].strip("0") else "0")
    digits, scale = int(number + fraction), 9 - len(fraction)
    if style == BINARY_SI:
        digits <<= power
    else:
        scale += power
    nano = digits * 10**scale if scale >= 0 else -(-digits // 10**-scale)
    if style == BINARY_SI:
        nano = min(nano, _MAX_NANO)
        if 0 < nano < NANO:
            style = DECIMAL_SI
    return _Quantity(-nano if negative else nano, style, False)


def quantity_nano(text: str | int | float) -> int:
    """Nano units of a quantity, exact; ValueError with upstream's words if it is none."""
    return _parse_quantity(str(text)).nano


def quantity_milli(text: str | int | float) -> int:
    """Milli units, rounded up as upstream's MilliValue: "100m" -> 100, "1" -> 1000."""
    return -(-_parse_quantity(str(text)).nano // NANO_PER_MILLI)


def quantity_value(text: str | int | float) -> int:
    """Whole units, rounded up as upstream's Value: "1Ki" -> 1024, "100m" -> 1."""
    return -(-_parse_quantity(str(text)).nano // NANO)


def quantity_style(text: str | int | float) -> str:
    """DecimalSI, BinarySI or DecimalExponent; a sum takes the style of its first part."""
    return _parse_quantity(str(text)).style


def quantity_text(text: str | int | float) -> str:
    """What upstream answers for a quantity it was sent: the text itself if it is canonical enough."""
    parsed = _parse_quantity(str(text))
    return str(text).strip() if parsed.written else format_quantity_nano(parsed.nano, parsed.style)


def quantity_rounded(text: str | int | float) -> str:
    """The text after upstream's defaults have rounded the amount up to milli units (RoundUp); the
    same text if it is not finer.
    """
    nano, style, _, _, scale = _parse_quantity(str(text))
    if scale is not None and scale >= -3:
        return str(text)
    milli = -(-abs(nano) // NANO_PER_MILLI)
    return format_quantity_milli(-milli if nano < 0 else milli, style)


def quantity_parts(text: str | int | float) -> tuple[int, int | None, str, str]:
    """What Go prints of a quantity: value and scale (None for an amount of the slower form), the
    text that it keeps, and the format.
    """
    parsed = _parse_quantity(str(text))
    return parsed.whole, parsed.scale, str(text).strip() if parsed.written else "", parsed.style


def quantity_wrapped_milli(text: str | int | float) -> int:
    """Milli units as the 64 bits of upstream's MilliValue hold them: too large ones wrap around."""
    nano, _, _, whole, scale = _parse_quantity(str(text))
    if scale is None or scale < -3:
        milli = -(-nano // NANO_PER_MILLI)
    else:
        shift = scale + 3
        milli = whole * 10**shift if shift < _POWER_MAX else 0
        if shift not in (0, 1, 2, 3, 6, 9) and abs(milli) > _INT64_MAX:
            return 0  # positiveScaleInt64
    return (milli + (1 << 63)) % (1 << 64) - (1 << 63)


@lru_cache(maxsize=8192)
def format_quantity_nano(nano: int, style: str = DECIMAL_SI) -> str:
    """The canonical form of an amount in nano units."""
    if nano == 0:
        return "0"
    sign, amount = ("-", -nano) if nano < 0 else ("", nano)
    whole, rest = divmod(amount, NANO)
    if style == BINARY_SI and not rest and whole >= 1024:
        power = 0
        while whole % 1024 == 0:
            whole, power = whole // 1024, power + 1
        return f"{sign}{whole}{_BINARY_SUFFIX.get(power, '')}"
    power = -9
    while amount % 1000 == 0:
        amount, power = amount // 1000, power + 3
    if style == DECIMAL_EXPONENT:
        return f"{sign}{amount}e{power}" if power else f"{sign}{amount}"
    # Quirk: a suffix that does not exist is left out; the amount is not changed.
    return f"{sign}{amount}{_DECIMAL_SUFFIX.get(power, '')}"


def format_quantity_milli(milli: int, style: str = DECIMAL_SI) -> str:
    """The canonical form of an amount in milli units: 1500 -> "1500m", 2000 -> "2"."""
    return format_quantity_nano(milli * NANO_PER_MILLI, style)


def format_quantity(value: int, style: str = DECIMAL_SI) -> str:
    """The canonical form of whole units: 1024 in BinarySI -> "1Ki"."""
    return format_quantity_nano(value * NANO, style)
