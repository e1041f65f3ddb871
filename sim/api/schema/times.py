"""Times in bodies and parameters, as Go reads them.

Turns the text of a time into the text that is stored, or into Go's error.

Mirrors  golang time (Parse, RFC3339), apimachinery pkg/apis/meta/v1/{time,micro_time}.go.
"""

from __future__ import annotations

import re

from sim.units import format_micro_time, format_time, parse_time

_NO_TIME = ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z")
_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def read_time(text: str, micro: bool) -> str:
    """A time of RFC 3339 in the form in which it is stored.  Raises ValueError in Go's words.

    micro: True if it has microseconds
    """
    layout = "2006-01-02T15:04:05" + (".000000" if micro else "") + "Z07:00"
    rest = text
    for chunk, pattern, low, high, what in (
        ("2006", r"\d{4}", 0, 9999, ""),
        ("-", "-", 0, 0, ""),
        ("01", r"\d\d", 1, 12, "month"),
        ("-", "-", 0, 0, ""),
        ("02", r"\d\d", 1, 31, "day"),
        ("T", "T", 0, 0, ""),
        ("15", r"\d\d", 0, 23, "hour"),
        (":", ":", 0, 0, ""),
        ("04", r"\d\d", 0, 59, "minute"),
        (":", ":", 0, 0, ""),
        ("05", r"\d\d", 0, 59, "second"),
    ):
        match = re.match(pattern, rest)
        if match is None:
            raise _bad_time(text, layout, rest, chunk)
        if what and not low <= int(match[0]) <= high:
            raise ValueError(f'parsing time "{text}": {what} out of range')
        rest = rest[match.end() :]
    fraction = re.match(r"\.\d{6}" if micro else r"(\.\d+)?", rest)
    if fraction is None:
        raise _bad_time(text, layout, rest, ".000000")
    rest = rest[fraction.end() :]
    if not re.fullmatch(r"Z|[-+]\d\d:\d\d", rest):
        raise _bad_time(text, layout, rest, "Z07:00")
    for digits, most, what in ((rest[1:3], 23, "hour"), (rest[4:], 59, "minute")):
        if digits and int(digits) > most:
            raise ValueError(f'parsing time "{text}": time zone offset {what} out of range')
    if int(text[8:10]) > _DAYS[int(text[5:7]) - 1]:
        raise ValueError(f'parsing time "{text}": day out of range')
    return text if micro and rest == "Z" else _canonical(text, micro)


def is_no_time(text: str) -> bool:
    """True if a time is the zero of Go's type."""
    return text in _NO_TIME


def time_problem(text: str) -> str:
    """Why a text is no time in the form of RFC 3339, "" if it is one."""
    try:
        read_time(text, micro=False)
    except ValueError as error:
        return str(error)
    return ""


def _canonical(text: str, micro: bool) -> str:
    us = parse_time(text)
    return format_micro_time(us) if micro else format_time(us)


def _bad_time(text: str, layout: str, rest: str, chunk: str) -> ValueError:
    return ValueError(f'parsing time "{text}" as "{layout}": cannot parse "{rest}" as "{chunk}"')
