"""A distribution as a picture: a histogram as SVG text or as one line of blocks, and two
distributions side by side.

Turns samples into text. Colours follow the variables of the page, if it defines them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape

from sim.statistics import Histogram, Summary, histogram, plain, ticks

CAPTION_OF_NUMBERS = (
    "pN is the least value that at least N % of all do not exceed; what never happened counts as later than everything. "
    "min, max and mean are of what happened."
)
BLOCKS = " ▁▂▃▄▅▆▇█"
BINS, LEFT, RIGHT, TOP, BASE = 44, 46, 40, 40, 164
LABEL_ROW, LETTER = 12, 6.0  # labels of quantiles: height of a row, width of a letter
LETTER_WIDE = 7.5  # width of a letter of a name
GREEN, BLUE, AMBER, RED = "#3d9a6a", "#4878a8", "#c07830", "#c4483f"


def blocks(values: Sequence[float], width: int, unit: str = "s") -> str:
    """A histogram in one line of a terminal; each bin with a value is visible. Without a unit the
    values are counts.
    """
    counts = histogram(values, width, whole=not unit).counts
    top = max(counts)
    return "".join(BLOCKS[max(1, round(8 * count / top))] if count else " " for count in counts)


@dataclass(frozen=True, slots=True)
class Scale:
    """Horizontal scale of a chart."""

    low: float
    high: float
    width: int

    def x(self, value: float) -> float:
        """The horizontal position of a value."""
        inside = min(max(value, self.low), self.high)
        share = (inside - self.low) / ((self.high - self.low) or 1)
        return round(LEFT + (self.width - LEFT - RIGHT) * share, 1)

    def axis(self, unit: str) -> str:
        """The axis with labelled ticks, as SVG text."""
        line = f'<line x1="{LEFT}" y1="{BASE}" x2="{self.width - RIGHT}" y2="{BASE}" stroke="#98a2ae"/>'
        marks = "".join(
            f'<line x1="{self.x(at)}" y1="{BASE}" x2="{self.x(at)}" y2="{BASE + 5}" stroke="#98a2ae"/>'
            f'<text x="{self.x(at)}" y="{BASE + 19}" class="small" text-anchor="middle">{plain(at)}{unit}</text>'
            for at in ticks(self.low, self.high, 9, whole=not unit)
        )
        return line + marks


def draw_histogram(
    values: Sequence[float],
    summary: Summary,
    wanted: tuple[float, float] | None,
    unit: str,
    width: int = 1000,
) -> str:
    """Bars for the numbers of values, red outside of the wanted interval, which is shaded; lines at
    the quantiles; the number of missing values.

    Without a unit the values are counts, and a bar extends half a count to either side of its
    counts.
    """
    found = _bins(values, BINS, unit)
    low, high = found.start, found.end
    # Of the wanted interval, the part near the values is shown.
    if wanted is not None and high > low:
        span = high - low
        low, high = max(low - span, min(low, wanted[0])), min(high + span, max(high, wanted[1]))
    scale = Scale(low, high, width)
    parts = [_open(width, "histogram")]
    if wanted is not None:
        around = 0 if unit else 0.5
        x = scale.x(wanted[0] - around)
        parts.append(
            f'<rect x="{x}" y="{TOP}" width="{scale.x(wanted[1] + around) - x:.1f}" height="{BASE - TOP}" '
            f'fill="{GREEN}" opacity="0.12"><title>wanted: {plain(wanted[0])}{unit} to {plain(wanted[1])}{unit}</title></rect>'
        )
    parts.append(_bars(found, scale, unit, wanted))
    parts += _quantiles([pair for pair in summary.quantiles if pair[1] <= high], scale, unit)
    parts.append(_counts(max(found.counts), width))
    if summary.missing:
        x, y = width - RIGHT - 4, TOP + LABEL_ROW
        parts.append(
            f'<text x="{x}" y="{y}" class="small over" text-anchor="end">and {summary.missing} never</text>'
        )
    return "".join([*parts, scale.axis(unit), "</svg>"])


def _bins(
    values: Sequence[float], bins: int, unit: str, low: float | None = None, high: float | None = None
) -> Histogram:
    found = histogram(values, bins, low, high, whole=not unit)
    return found if unit else replace(found, start=found.start - 0.5)


def _quantiles(shown: Sequence[tuple[float, float]], scale: Scale, unit: str) -> list[str]:
    """A line and a label for each quantile; the labels are in rows, none beyond the picture's edge
    or over the vertical axis.
    """
    parts = []
    for number, (share, value) in enumerate(shown):
        label = f"p{100 * share:g} {value:.2f}{unit}"
        x, half = scale.x(value), LETTER * len(label) / 2
        middle = min(max(x, LEFT + half), scale.width - half)
        parts.append(
            f'<line x1="{x}" y1="{TOP}" x2="{x}" y2="{BASE}" stroke="{AMBER}" stroke-dasharray="4 3"/>'
            f'<text x="{middle}" y="{TOP - 4 - LABEL_ROW * number}" class="small" text-anchor="middle">{label}</text>'
        )
    return parts


def _counts(top: int, width: int) -> str:
    """The vertical axis: the numbers of values that the bars represent."""
    title = f'<text x="{LEFT - 6}" y="{TOP - 8}" class="small" text-anchor="end">values</text>'
    return title + "".join(
        f'<line x1="{LEFT}" y1="{y}" x2="{width - RIGHT}" y2="{y}" stroke="#98a2ae" opacity="0.25"/>'
        f'<text x="{LEFT - 6}" y="{y + 4}" class="small" text-anchor="end">{plain(at)}</text>'
        for at in ticks(0, top, 4, whole=True)
        for y in (round(BASE - (BASE - TOP) * at / top, 1),)
    )


def _open(width: int, label: str, height: int = BASE + 26) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}" '
        f'xmlns="http://www.w3.org/2000/svg" font-family="system-ui,sans-serif">'
    )


def _bars(found: Histogram, scale: Scale, unit: str, wanted: tuple[float, float] | None) -> str:
    top, bars = max(found.counts), []
    for number, count in enumerate(found.counts):
        if not count:
            continue
        start = found.start + number * found.width
        outside = wanted is not None and (start + found.width <= wanted[0] or start > wanted[1])
        x, height = scale.x(start), max(1.0, (BASE - TOP) * count / top)
        bars.append(
            f'<rect x="{x}" y="{BASE - height:.1f}" width="{max(1.0, scale.x(start + found.width) - x - 1):.1f}" '
            f'height="{height:.1f}" fill="{RED if outside else BLUE}">'
            f"<title>{_range(start, start + found.width, unit)}: {count}</title></rect>"
        )
    return "".join(bars)


def _range(low: float, high: float, unit: str) -> str:
    if unit:
        return f"{plain(low)}{unit} to {plain(high)}{unit}"
    first, last = plain(low + 0.5), plain(high - 0.5)
    return first if first == last else f"{first} to {last}"


# --- two distributions ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pair:
    """A quantity measured in two systems; `note` is shown below its name."""

    name: str
    real: Sequence[float]
    here: Sequence[float]
    note: str


ROW, HEAD, LABEL, NAMES = 124, 34, 14, 250
# The picture brings its own background; the style of a page, which precedes attributes, may differ.
INK, SOFT = "#1c2430", "#6b7684"


def draw_pairs(
    pairs: Sequence[Pair], there: str = "recorded on a real control plane", unit: str = "s", width: int = 900
) -> str:
    """One row for each quantity: shares in equal bins, the first system's (`there`) above the line,
    the other's below it.

    The picture is self-contained: it looks the same in any page.
    """
    height = HEAD + ROW * len(pairs)
    other = LABEL + max(230, 37 + LETTER_WIDE * len(there))
    parts = [
        _open(width, "measured and simulated distributions", height),
        f'<rect width="{width}" height="{height}" fill="#fbfaf7"/>',
        f'<rect x="{LABEL}" y="12" width="11" height="11" fill="{AMBER}"/>{_text(LABEL + 17, 22, there, 12)}'
        f'<rect x="{other}" y="12" width="11" height="11" fill="{BLUE}"/>{_text(other + 17, 22, "here", 12)}',
    ]
    for number, pair in enumerate(pairs):
        parts.append(f'<g transform="translate(0 {HEAD + number * ROW})">{_pair(pair, unit, width)}</g>')
    return "".join([*parts, "</svg>"])


def _text(x: float, y: float, text: str, size: float, colour: str = INK, anchor: str = "start") -> str:
    style = f"font-size:{size}px;fill:{colour};text-anchor:{anchor}"
    return f'<text x="{x:g}" y="{y:g}" style="{style}">{escape(text)}</text>'


def _cut(text: str) -> str:
    """As much of a name as fits to the left of its picture."""
    room = int((NAMES - LABEL) / LETTER_WIDE)
    return text if len(text) <= room else text[: room - 1].rstrip() + "…"


def _pair(pair: Pair, unit: str, width: int) -> str:
    left, middle, reach = NAMES, 52, 42
    low, high = min(*pair.real, *pair.here), max(*pair.real, *pair.here)
    bins = [_bins(values, 36, unit, low, high) for values in (pair.real, pair.here)]
    shares = [
        [count / len(values) for count in found.counts]
        for found, values in zip(bins, (pair.real, pair.here), strict=True)
    ]
    top = max(max(of_one) for of_one in shares)
    step = (width - left - 20) / len(bins[0].counts)
    parts = [
        f"<g>{_text(LABEL, 44, _cut(pair.name), 13)}<title>{escape(pair.name)}</title></g>"
        f"{_text(LABEL, 62, pair.note, 11, SOFT)}"
    ]
    for of_one, colour, sign in zip(shares, (AMBER, BLUE), (-1, 1), strict=True):
        for number, share in enumerate(of_one):
            tall = reach * share / top
            if share:
                y = middle - tall if sign < 0 else middle
                parts.append(
                    f'<rect x="{left + number * step:.1f}" y="{y:.1f}" width="{step - 1:.1f}" height="{tall:.1f}" '
                    f'fill="{colour}"><title>{100 * share:.1f}%</title></rect>'
                )
    parts.append(f'<line x1="{left}" y1="{middle}" x2="{width - 20}" y2="{middle}" stroke="#98a2ae"/>')
    start, end = bins[0].start, bins[0].end
    for at in ticks(start, end, 8, whole=not unit):
        x = left + (width - left - 20) * (at - start) / (end - start)
        parts.append(
            _text(round(x, 1), middle + reach + 16, f"{plain(at)} {unit}".strip(), 10.5, SOFT, "middle")
        )
    return "".join(parts)
