"""Smaller numbers, and shorter and rounder durations, as candidates.

Holds: candidates are better than the value that they are for: a rounder duration has fewer digits
       in its own unit, any other one is shorter; the best comes first.
"""

from __future__ import annotations

from sim.patterns import pattern
from sim.units import MINUTE, SECOND, format_duration, parse_duration_us

ROUND = (MINUTE, 10 * SECOND, SECOND)
_ZEROS = pattern(r"(?<=[hm])(0m)?0s$")


def smaller(value: int, least: int) -> list[int]:
    """Numbers between the least one and a value, the smallest first."""
    span = value - least
    return sorted({least + span * part // 8 for part in (0, 1, 2, 4, 6)} | {value - 1}) if span > 0 else []


def roundness(us: int) -> int:
    """0 for whole minutes, 1 for tens of seconds, 2 for seconds, 3 for less."""
    return next((rank for rank, unit in enumerate(ROUND) if us % unit == 0), len(ROUND))


def rounder(us: int) -> list[int]:
    """Instants or durations beside a value that are rounder, the roundest first."""
    near = [each for unit in ROUND[: roundness(us)] for each in (us // unit * unit, -(-us // unit) * unit)]
    return [each for each in dict.fromkeys(near) if each > 0]


def shorter(us: int) -> list[int]:
    """Durations that are shorter and not less round, the shortest first."""
    unit = (*ROUND, 1)[roundness(us)]
    least_us = max(unit, SECOND)
    parts = {max(us * part // 16 // unit * unit, least_us) for part in (1, 2, 4, 8, 12, 14)}
    return sorted(each for each in parts | {us - unit} if least_us <= each < us and not each % unit)


def duration_of(value: object) -> int | None:
    """The microseconds of a duration in a document; None for any other value, and for a range."""
    if not isinstance(value, str):
        return None
    try:
        return parse_duration_us(value)
    except ValueError:
        return None


def text_of(us: int) -> str:
    """A duration as an author writes it: `5m` and `1h`, without zeros."""
    return _ZEROS.sub("", format_duration(us))
