"""Distributions over a varied setting, as SVG text: per series the median as a line, p10 to p90 as
a band.

Turns points into a picture. Values of the setting that are not numbers are spaced evenly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from math import inf

from sim.statistics import number, plain, quantile, ticks

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 1000, 330, 70, 20, 16, 46
COLOURS = ("#4878a8", "#c07830", "#5a9e5a", "#9a5a9e", "#c4483f", "#8a8a3a", "#3d9a9a", "#7d6a5a")
BAND = (0.1, 0.9)
CAPTION = "Dots and lines are medians; bands and bars reach from the 10th percentile to the 90th."
NEVER_Y = 8  # y position above all values, for those that never occurred
LETTER = 6.5  # width of a letter of a label


@dataclass(frozen=True, slots=True)
class Place:
    """A value of the setting.

    x, label: its position and text; values: the measurements, sorted
    missing: how often the measured event never occurred, which counts as later than all values
    """

    x: float
    label: str
    values: Sequence[float]
    missing: int = 0

    def quantile(self, share: float) -> float:
        """A quantile of the measurements."""
        return quantile(self.values, share, self.missing)


@dataclass(frozen=True, slots=True)
class Line:
    """One series; the label contains the values of all other settings."""

    label: str
    places: Sequence[Place]


def draw_chart(lines: Sequence[Line], x_label: str, unit: str) -> str:
    """One chart of all series; without a unit the values are counts."""
    every = [place for line in lines for place in line.places]
    left, right = min(place.x for place in every), max(place.x for place in every)
    happened = [place.values for place in every if place.values]
    low, high = min(values[0] for values in happened), max(values[-1] for values in happened)
    margin = (high - low or 1) * 0.06
    low, high = low - margin, high + margin

    def at_x(value: float) -> float:
        share = (value - left) / (right - left) if right > left else 0.5
        return round(LEFT + 30 + (WIDTH - LEFT - RIGHT - 60) * share, 1)

    def at_y(value: float) -> float:
        if value == inf:
            return NEVER_Y
        return round(TOP + (HEIGHT - TOP - BOTTOM) * (high - value) / (high - low), 1)

    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="over {escape(x_label)}" '
        f'xmlns="http://www.w3.org/2000/svg" font-family="system-ui,sans-serif">'
    ]
    for tick in ticks(low, high, whole=not unit):
        y = at_y(tick)
        parts.append(
            f'<line x1="{LEFT}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}" stroke="#98a2ae" opacity="0.3"/>'
            f'<text x="{LEFT - 8}" y="{y + 4}" class="small" text-anchor="end">{plain(tick)}{unit}</text>'
        )
    if any(place.quantile(BAND[1]) == inf for place in every):
        parts.append(f'<text x="{LEFT - 8}" y="{NEVER_Y + 4}" class="small" text-anchor="end">never</text>')
    parts += _labels([(at_x(x), label) for x, label in sorted({(place.x, place.label) for place in every})])
    parts.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x_label)}</text>'
    )
    for index, line in enumerate(lines):
        colour = COLOURS[index % len(COLOURS)]
        # Where two lines coincide, the gaps of one show the other.
        dashes = f' stroke-dasharray="{4 + 2 * index} 5"' if index else ""
        parts.append(_line(line, (colour, dashes), [(at_x(p.x), p) for p in line.places], at_y, unit))
    parts.append("</svg>")
    return "".join(parts) + _key(lines)


def _labels(places: Sequence[tuple[float, str]]) -> list[str]:
    """The texts below the values of the setting; a text that would overlap its neighbour is left
    out.
    """
    parts, taken = [], float("-inf")
    for x, label in places:
        half = LETTER * len(label) / 2
        if x - half > taken:
            taken = x + half + LETTER
            parts.append(
                f'<text x="{x}" y="{HEIGHT - BOTTOM + 18}" class="small" text-anchor="middle">{escape(label)}</text>'
            )
    return parts


def _line(
    line: Line,
    style: tuple[str, str],
    places: Sequence[tuple[float, Place]],
    at_y: Callable[[float], float],
    unit: str,
) -> str:
    """style: colour, and attributes of the line through the medians."""
    colour, dashes = style
    ends = [[at_y(place.quantile(share)) for _, place in places] for share in BAND]
    xs = [x for x, _ in places]
    band = " ".join(
        f"{x},{y}" for x, y in [*zip(xs, ends[0], strict=True), *reversed([*zip(xs, ends[1], strict=True)])]
    )
    middle = " ".join(f"{x},{at_y(place.quantile(0.5))}" for x, place in places)
    parts = [
        f'<polygon points="{band}" fill="{colour}" opacity="0.15"/>',
        f'<polyline points="{middle}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>',
    ]
    for x, place in places:
        shown = [place.quantile(share) for share in (*BAND, 0.5)]
        low, high, half = (at_y(value) for value in shown)
        p10, p90, p50 = (number(value) + (unit if value < inf else "") for value in shown)
        told = f"{place.label} {line.label}: p50 {p50}, p10 {p10}, p90 {p90}"
        parts.append(
            f'<line x1="{x}" y1="{low}" x2="{x}" y2="{high}" stroke="{colour}"/>'
            f'<circle cx="{x}" cy="{half}" r="4" fill="{colour}"><title>{escape(told)}</title></circle>'
        )
    return "".join(parts)


def _key(lines: Sequence[Line]) -> str:
    if len(lines) < 2:
        return ""
    entries = "".join(
        f'<span><i style="background:{COLOURS[index % len(COLOURS)]}"></i>{escape(line.label)}</span>'
        for index, line in enumerate(lines)
    )
    return f'<div class="key">{entries}</div>'
