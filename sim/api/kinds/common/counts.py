"""Counts that may be given as a number or as a percentage.

Mirrors  kubernetes v1.25 pkg/apis/apps/validation/validation.go: ValidatePositiveIntOrPercent,
         IsNotMoreThan100Percent.
"""

from __future__ import annotations

from typing import Any

from sim.api.kinds.common import text
from sim.api.kinds.common.errors import Errors, Shown, at_least_zero, invalid
from sim.api.schema.json_text import go_quote
from sim.units import parse_whole


def int_or_percent(value: Any, field: str) -> Errors:
    """Errors of a count or percentage, which must not be negative."""
    if isinstance(value, str):
        return [invalid(field, go_int_or_string(value), problem) for problem in text.percent(value)]
    return at_least_zero(field, value or 0)


def go_int_or_string(value: Any) -> Shown:
    """A count or percentage as Go prints it."""
    is_text = isinstance(value, str)
    number, string = (0, value) if is_text else (value, "")
    return Shown(f"intstr.IntOrString{{Type:{int(is_text)}, IntVal:{number}, StrVal:{go_quote(string)}}}")


def not_above_all(value: Any, field: str) -> Errors:
    """An error if a percentage exceeds 100%."""
    share = text.percent_of(value)
    if share is None or share <= 100:
        return []
    return [invalid(field, go_int_or_string(value), "must not be greater than 100%")]


def is_zero(value: Any) -> bool:
    """True for 0, 0% and any text that is no number."""
    if isinstance(value, str):
        share = text.percent_of(value)
        value = parse_whole(value) if share is None else share
    return not value
