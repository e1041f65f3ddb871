"""Metric families in Prometheus' text format, as the Go client of Prometheus writes it.

Turns families into lines: help, type, then one line a sample; numbers in the shortest form of Go.

Mirrors  prometheus/common expfmt/text_create.go, golang strconv (FormatFloat with 'g').
Differs  The Python client of Prometheus adds "_total" to the names of counters and writes `3.0`, so
         that its text is not used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf, isnan

from prometheus_client import Metric

EXPONENT_MIN, EXPONENT_END = -4, 6  # an exponent is written outside of these
LAST = ("le", "quantile")  # labels after all others
TYPES = {"unknown": "untyped"}


def text_format(families: Iterable[Metric]) -> str:
    """The page, with the families in the order given; one without samples has no lines."""
    return "".join(line for family in families if family.samples for line in _lines(family))


def _lines(family: Metric) -> Iterator[str]:
    name = family.name
    if family.type == "counter" and family.samples[0].name != name:
        name = family.samples[0].name
    yield f"# HELP {name} {_escaped(family.documentation)}\n"
    yield f"# TYPE {name} {TYPES.get(family.type, family.type)}\n"
    for sample in family.samples:
        pairs = sorted(sample.labels.items(), key=lambda pair: (pair[0] in LAST, pair[0]))
        labels = ",".join(f'{key}="{_quoted(value)}"' for key, value in pairs)
        shown = f"{{{labels}}}" if labels else ""
        yield f"{sample.name}{shown} {go_float(sample.value)}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', '\\"')


def go_float(value: float) -> str:
    """A number as Go prints it: 3, 0.5, 1e+06, +Inf."""
    if isnan(value):
        return "NaN"
    if value in (inf, -inf):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "0"
    digits, exponent = _shortest(abs(float(value)))
    sign = "-" if value < 0 else ""
    if exponent < EXPONENT_MIN or exponent >= EXPONENT_END:
        rest = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{rest}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    whole = digits[: exponent + 1].ljust(exponent + 1, "0")
    rest = digits[exponent + 1 :]
    return f"{sign}{whole}.{rest}" if rest else sign + whole


def _shortest(value: float) -> tuple[str, int]:
    """The shortest digits that give the number, and the exponent of the first of them."""
    mantissa, _, exponent = f"{value!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    first = len(whole) - 1 if whole.strip("0") else -(len(fraction) - len(fraction.lstrip("0"))) - 1
    return digits.rstrip("0") or "0", first + int(exponent or 0)
