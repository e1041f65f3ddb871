"""A measured quantity as a histogram, and two systems' distributions of it above and below a line.

The numbers behind a chart are those of `sim.statistics`, so that charts and tables agree.  Without
a unit the values are counts: a bar then reaches half a count to either side of its counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count as powers

from sim.dataclass import dataclass
from sim.report.charts.chart import Chart, Spec
from sim.report.palette import GOOD, LOST, MEASURED, PLAIN
from sim.statistics import Histogram, Summary, histogram, plain

BINS, PAIR_BINS = 44, 36
HEIGHT, PAIR_HEIGHT, LABEL_ROW = 130, 84, 12


def _bins(
    values: Sequence[float], bins: int, unit: str, low: float | None = None, high: float | None = None
) -> Histogram:
    found = histogram(values, bins, low, high, whole=not unit)
    return found if unit else replace(found, start=found.start - 0.5)


def _x(field: str, low: float, high: float, unit: str) -> Spec:
    axis: Spec = {
        "title": {"s": "seconds", "": None}.get(unit, unit),
        "grid": False,
        "labelOverlap": "greedy",
    }
    axis["labelSeparation"] = 8
    if not unit:
        axis |= {"tickMinStep": 1, "format": "d"}
    scale = {"domain": [low, high], "nice": False, "zero": False}
    return {"field": field, "type": "quantitative", "axis": axis, "scale": scale}


def histogram_chart(
    name: str,
    values: Sequence[float],
    summary: Summary,
    wanted: tuple[float, float] | None,
    unit: str,
    *,
    titled: bool = False,
) -> Chart:
    """Bars for the numbers of values, those outside of the wanted interval in the colour of
    failures; the interval itself; rules at the quantiles; how many there were without a value.

    titled: True if the chart has to say its name itself
    """
    found = _bins(values, BINS, unit)
    low, high = _shown(found, wanted)
    layers = [_wanted(wanted, unit)] if wanted is not None else []
    layers.append(_bars(found, wanted, unit))
    layers += _quantiles([pair for pair in summary.quantiles if pair[1] <= high], unit, low, high)
    if summary.missing:
        layers.append(_note(f"and {summary.missing} never"))
    # Room for the labels of the quantiles, which are above the bars.
    title = {"text": name if titled else "", "offset": 8 + LABEL_ROW * len(summary.quantiles)}
    return Chart(
        {"title": title, "height": HEIGHT, "encoding": {"x": _x("from", low, high, unit)}, "layer": layers},
        f"histogram: {name}",
    )


def _shown(found: Histogram, wanted: tuple[float, float] | None) -> tuple[float, float]:
    """The part of the axis: all values, and of the wanted interval what is near them."""
    low, high = found.start, found.end
    if wanted is not None and high > low:
        span = high - low
        low, high = max(low - span, min(low, wanted[0])), min(high + span, max(high, wanted[1]))
    return low, high


def _bars(found: Histogram, wanted: tuple[float, float] | None, unit: str) -> Spec:
    rows = []
    for number, count in enumerate(found.counts):
        start = found.start + number * found.width
        end = start + found.width
        outside = wanted is not None and (end <= wanted[0] or start > wanted[1])
        if count:
            rows.append(
                {"from": start, "to": end, "n": count, "range": _range(start, end, unit), "out": outside}
            )
    axis = {"title": None, "values": _whole_ticks(max(found.counts)), "format": "d", "domain": False}
    color = {"condition": {"test": "datum.out", "value": LOST}, "value": MEASURED}
    return {
        "data": {"values": rows},
        "mark": {"type": "rect", "clip": True},
        "encoding": {
            "x2": {"field": "to"},
            "y": {"field": "n", "type": "quantitative", "axis": axis, "scale": {"domainMin": 0}},
            "y2": {"datum": 0},
            "color": color,
            "tooltip": [
                {"field": "range", "type": "nominal", "title": "from"}, {"field": "n", "title": "values"},
            ],
        },
    }  # fmt: skip


def _whole_ticks(most: int) -> list[int]:
    """At most five whole numbers from 0 to `most`, in steps of 1, 2 or 5 times a power of ten."""
    step = next(size * 10**power for power in powers() for size in (1, 2, 5) if most <= 4 * size * 10**power)
    return [*range(0, most + 1, step)]


def _range(low: float, high: float, unit: str) -> str:
    if unit:
        return f"{plain(low)}{unit} to {plain(high)}{unit}"
    first, last = plain(low + 0.5), plain(high - 0.5)
    return first if first == last else f"{first} to {last}"


def _wanted(wanted: tuple[float, float], unit: str) -> Spec:
    around = 0 if unit else 0.5
    what = f"{plain(wanted[0])}{unit} to {plain(wanted[1])}{unit}"
    return {
        "data": {"values": [{"from": wanted[0] - around, "to": wanted[1] + around, "what": what}]},
        "mark": {"type": "rect", "color": GOOD, "opacity": 0.15, "clip": True},
        "encoding": {"x2": {"field": "to"}, "tooltip": [{"field": "what", "title": "wanted"}]},
    }


def _quantiles(shown: Sequence[tuple[float, float]], unit: str, low: float, high: float) -> list[Spec]:
    """A rule and a label for each quantile; each label has a row of its own above the bars, and
    none extends beyond the edge.
    """
    layers: list[Spec] = []
    for number, (share, value) in enumerate(shown):
        label = f"p{100 * share:g} {value:.2f}{unit}"
        place = (value - low) / ((high - low) or 1)
        align = "left" if place < 0.2 else "right" if place > 0.8 else "center"
        data = {"values": [{"from": value, "label": label}]}
        layers.append({"data": data, "mark": {"type": "rule", "strokeDash": [4, 3]}})
        layers.append({
            "data": data,
            "mark": {"type": "text", "align": align, "baseline": "bottom"},
            "encoding": {"y": {"value": -3 - LABEL_ROW * number}, "text": {"field": "label"}},
        })  # fmt: skip
    return layers


def _note(text: str) -> Spec:
    return {
        "data": {"values": [{}]},
        "mark": {"type": "text", "align": "right", "baseline": "top", "text": text},
        "encoding": {"x": {"value": "width"}, "y": {"value": 2}},
    }


# --- two distributions ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pair:
    """A quantity measured in two systems; `note` is shown below its name."""

    name: str
    real: Sequence[float]
    here: Sequence[float]
    note: str


def pairs_chart(
    pairs: Sequence[Pair], there: str = "recorded on a real control plane", unit: str = "s"
) -> Chart:
    """One row for each quantity: shares in equal bins, the first system's (`there`) above the line,
    the other's below it.
    """
    rows = [_pair(pair, there, unit, index == 0) for index, pair in enumerate(pairs)]
    return Chart({"vconcat": rows}, f"{there}, and here")


def _pair(pair: Pair, there: str, unit: str, legend: bool) -> Spec:
    low, high = min(*pair.real, *pair.here), max(*pair.real, *pair.here)
    rows = []
    for system, values, sign in ((there, pair.real, 1), ("here", pair.here, -1)):
        found = _bins(values, PAIR_BINS, unit, low, high)
        low_edge, high_edge = found.start, found.end
        for number, count in enumerate(found.counts):
            start = found.start + number * found.width
            share = count / len(values)
            if count:
                rows.append({
                    "from": start, "to": start + found.width, "system": system, "share": sign * share,
                    "range": _range(start, start + found.width, unit), "percent": f"{100 * share:.1f} %",
                })  # fmt: skip
    color = {
        "field": "system", "type": "nominal", "legend": {} if legend else None,
        "scale": {"domain": [there, "here"], "range": [PLAIN, MEASURED]},
    }  # fmt: skip
    tooltip = [{"field": field, "type": "nominal"} for field in ("system", "range", "percent")]
    return {
        "title": {"text": pair.name, "subtitle": pair.note},
        "height": PAIR_HEIGHT,
        "data": {"values": rows},
        "mark": {"type": "rect", "clip": True},
        "encoding": {
            "x": _x("from", low_edge, high_edge, unit),
            "x2": {"field": "to"},
            "y": {"field": "share", "type": "quantitative", "axis": None},
            "y2": {"datum": 0},
            "color": color,
            "tooltip": tooltip,
        },
    }
