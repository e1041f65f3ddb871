"""Counts that may be given as a number or as a percentage.

Mirrors  kubernetes v1.25 pkg/apis/apps/validation/validation.go: ValidatePositiveIntOrPercent,
         IsNotMoreThan100Percent.
"""

from __future__ import annotations

from typing import Any

from sim.api.go.printing import INT_OR_STRING, GoValue
from sim.api.validation import text
from sim.api.validation.errors import Errors, at_least_zero, invalid
from sim.units import parse_whole


def int_or_percent(value: Any, field: str) -> Errors:
    """Errors of a count or percentage, which must not be negative."""
    if isinstance(value, str):
        return [invalid(field, GoValue(INT_OR_STRING, value), problem) for problem in text.percent(value)]
    return at_least_zero(field, value or 0)


def not_above_all(value: Any, field: str) -> Errors:
    """An error if a percentage exceeds 100%."""
    share = text.percent_of(value)
    if share is None or share <= 100:
        return []
    return [invalid(field, GoValue(INT_OR_STRING, value), "must not be greater than 100%")]


def is_zero(value: Any) -> bool:
    """True for 0, 0% and any text that is no number."""
    if isinstance(value, str):
        share = text.percent_of(value)
        value = parse_whole(value) if share is None else share
    return not value
