"""Conversions between the types of rules, and the parts of times and durations.

Mirrors  cel-go v0.12 common/types/{int,uint,double,bool,string,bytes,timestamp,duration}.go.
Differs  named time zones are Python's `zoneinfo`, with the tables of the machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from sim.api.crd.cel.syntax import Uint
from sim.api.crd.cel.values import (
    DAY_NS,
    EPOCH_DAY,
    NO_OVERLOAD,
    CelError,
    Duration,
    Timestamp,
    type_name,
)
from sim.api.crd.formats import go_duration_ns, time_ns
from sim.api.cron import ScheduleError, zone_of
from sim.api.go.printing import go_float

INT_MIN, INT_MAX, UINT_MAX = -(1 << 63), (1 << 63) - 1, (1 << 64) - 1
TIME_MIN_S, TIME_MAX_S = -62_135_596_800, 253_402_300_799  # years 1 to 9999
_S = 10**9


def is_one_of(value: Any, *kinds: type) -> bool:
    """Return True if the value is of exactly one of these types: bool is no int, Uint no int."""
    return type(value) in kinds


def bounded(value: int, like: Any) -> Any:
    """An integer in the range of its type, which is that of `like`.  Raises CelError."""
    if isinstance(like, Uint):
        if not 0 <= value <= UINT_MAX:
            raise CelError("unsigned integer overflow")
        return Uint(value)
    if not INT_MIN <= value <= INT_MAX:
        raise CelError("integer overflow")
    return value


def timestamp(ns: int, zone_s: int) -> Timestamp:
    """A time between the years 1 and 9999.  Raises CelError."""
    if not TIME_MIN_S <= ns // _S <= TIME_MAX_S:
        raise CelError("timestamp overflow")
    return Timestamp(ns, zone_s)


# --- conversions ----------------------------------------------------------------------------------


def _no_conversion(value: Any, wanted: str) -> CelError:
    return CelError(f"type conversion error from '{type_name(value).name}' to '{wanted}'")


def _to_int(value: Any) -> Any:
    if is_one_of(value, int):
        return value
    if is_one_of(value, Uint):
        return bounded(int(value), 0)
    if isinstance(value, float):
        if math.isnan(value) or not INT_MIN < value < INT_MAX:
            raise CelError("integer overflow")
        return int(value)
    if isinstance(value, Timestamp):
        return value.ns // _S
    if isinstance(value, Duration):
        return value.ns
    return _parsed_int(value, "int", INT_MIN, INT_MAX)


def _parsed_int(value: Any, wanted: str, least: int, most: int) -> int:
    if isinstance(value, str):
        digits = value[1:] if value[:1] in ("+", "-") and least < 0 else value
        if digits.isascii() and digits.isdigit() and least <= int(value) <= most:
            return int(value)
    raise _no_conversion(value, wanted)


def _to_uint(value: Any) -> Any:
    if is_one_of(value, Uint):
        return value
    if is_one_of(value, int):
        return bounded(value, Uint(0))
    if isinstance(value, float):
        if math.isnan(value) or not 0 <= value < UINT_MAX:
            raise CelError("unsigned integer overflow")
        return Uint(value)
    return Uint(_parsed_int(value, "uint", 0, UINT_MAX))


def _to_double(value: Any) -> Any:
    if is_one_of(value, int, Uint, float):
        return float(value)
    if isinstance(value, str) and value == value.strip() and "_" not in value:
        try:
            return float(value)
        except ValueError:
            pass
    raise _no_conversion(value, "double")


def _to_bool(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    if value in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    if value in ("0", "f", "F", "FALSE", "false", "False"):
        return False
    raise _no_conversion(value, "bool")


def _to_string(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _general(value)
    if isinstance(value, int | str):
        return str(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None
    if isinstance(value, Timestamp):
        return _written(value)
    if isinstance(value, Duration):
        return _seconds(value.ns)
    raise _no_conversion(value, "string")


def _seconds(ns: int) -> str:
    """A duration in seconds, with the digits by which floating-point numbers differ."""
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    text = f"{Decimal(repr(float(ns // _S) + (ns % _S) / 1e9)):f}"
    return f"{sign}{text.removesuffix('.0')}s"


def _general(value: float) -> str:
    """A number as Go's %g prints it."""
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if math.isnan(value):
        return "NaN"
    return go_float(value)


def _fraction(ns: int) -> str:
    return f".{ns:09d}".rstrip("0") if ns else ""


def _written(stamp: Timestamp) -> str:
    local, rest = divmod(stamp.ns + stamp.zone_s * _S, DAY_NS)
    seconds = rest // _S
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{_fraction(rest % _S)}"
    zone = "Z"
    if stamp.zone_s:
        minutes = abs(stamp.zone_s) // 60
        zone = f"{'-' if stamp.zone_s < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
    return f"{date.fromordinal(local + EPOCH_DAY).isoformat()}T{clock}{zone}"


def _to_bytes(value: Any) -> Any:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode(errors="surrogatepass")
    raise _no_conversion(value, "bytes")


def _to_timestamp(value: Any) -> Any:
    if isinstance(value, Timestamp):
        return value
    if is_one_of(value, int):
        return timestamp(value * _S, 0)
    # A time without a zone is one in schemas, but not here.
    zoned = isinstance(value, str) and (value.endswith("Z") or value[-6:-5] in ("+", "-"))
    found = time_ns(value) if zoned else None
    if found is None:
        raise _no_conversion(value, "google.protobuf.Timestamp")
    return timestamp(*found)


def _to_duration(value: Any) -> Any:
    if isinstance(value, Duration):
        return value
    ns = go_duration_ns(value) if isinstance(value, str) else None
    if ns is None:
        raise _no_conversion(value, "google.protobuf.Duration")
    return Duration(ns)


# --- times ----------------------------------------------------------------------------------------


# Within these bounds the calendar exists in every zone.
_ZONED_MIN_S, _ZONED_MAX_S = TIME_MIN_S + 366 * 86_400, TIME_MAX_S - 366 * 86_400
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _zone_s(name: Any, at_ns: int) -> int:
    """The offset of a zone at an instant, in seconds.  Raises CelError."""
    if not isinstance(name, str):
        raise CelError(NO_OVERLOAD)
    if name in ("", "UTC"):
        return 0
    hours, colon, minutes = name.partition(":")
    if not colon:
        seconds = min(max(at_ns // _S, _ZONED_MIN_S), _ZONED_MAX_S)
        try:
            offset = (_EPOCH + timedelta(seconds=seconds)).astimezone(zone_of(name)).utcoffset()
        except ScheduleError as error:
            raise CelError(str(error)) from None
        return 0 if offset is None else offset // timedelta(seconds=1)
    try:
        hour, minute = int(hours), int(minutes)
    except ValueError:
        bad = hours if not hours.lstrip("+-").isdigit() else minutes
        raise CelError(f'strconv.Atoi: parsing "{bad}": invalid syntax') from None
    return (hour * 60 + (-minute if hours.startswith("-") else minute)) * 60


def _time_part(name: str) -> Callable[..., Any]:
    def part(value: Any, zone: Any = "") -> int:
        if isinstance(value, Duration):
            return _duration_part(name, value.ns)
        if not isinstance(value, Timestamp):
            raise CelError(NO_OVERLOAD)
        days, rest = divmod(value.ns + _zone_s(zone, value.ns) * _S, DAY_NS)
        if name in _CLOCK:
            per, most = _CLOCK[name]
            return rest // per % most
        day = date.fromordinal(days + EPOCH_DAY)
        found = {
            "FullYear": day.year,
            "Month": day.month - 1,
            "DayOfYear": day.timetuple().tm_yday - 1,
            "DayOfMonth": day.day - 1,
            "Date": day.day,
            "DayOfWeek": day.isoweekday() % 7,
        }
        return found[name]

    return part


_CLOCK = {
    "Hours": (3600 * _S, 24),
    "Minutes": (60 * _S, 60),
    "Seconds": (_S, 60),
    "Milliseconds": (10**6, 1000),
}


def _duration_part(name: str, ns: int) -> int:
    if name not in _CLOCK:
        raise CelError(NO_OVERLOAD)
    return int(math.copysign(abs(ns) // _CLOCK[name][0], ns)) if ns else 0


CONVERTED: dict[str, Callable[..., Any]] = {
    "int": _to_int,
    "uint": _to_uint,
    "double": _to_double,
    "bool": _to_bool,
    "string": _to_string,
    "bytes": _to_bytes,
    "timestamp": _to_timestamp,
    "duration": _to_duration,
    **{
        f"get{name}": _time_part(name)
        for name in ("FullYear", "Month", "DayOfYear", "DayOfMonth", "Date", "DayOfWeek", *_CLOCK)
    },
}
