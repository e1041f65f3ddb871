"""A quantity over a varied setting: all values as points, their median as a line, the middle 80 %
as bars.

Values of the setting that are not numbers are spaced evenly.  A quantile that falls on what never
occurred has no place; the setting is marked "never" at the top then.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from sim.dataclass import dataclass
from sim.report.charts.chart import Chart, Spec
from sim.report.palette import SETTINGS
from sim.statistics import finite, quantile

HEIGHT = 260
MIDDLE = 0.1, 0.5, 0.9  # quantiles of the bar and the point
POINTS_MAX = 4000  # of more values only the quantiles are drawn
CAPTION = (
    "Points are values; lines and large points are medians; bars reach from the 10th percentile to the 90th."
)


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


def setting_chart(
    name: str, lines: Sequence[Line], x_label: str, unit: str, *, titled: bool = False
) -> Chart:
    """One chart of all series; without a unit the values are counts.

    titled: True if the chart has to say its name itself
    """
    spreads, points = [], []
    for line in lines:
        for place in line.places:
            head = {"x": place.x, "others": line.label}
            low, median, high = (finite(place.quantile(share)) for share in MIDDLE)
            spreads.append({
                **head, "setting": place.label, "p10": low, "median": median, "p90": high,
                "values": len(place.values), "never": place.missing,
            })  # fmt: skip
            points += [{**head, "value": value} for value in place.values]
    named = len(lines) > 1
    labels = [line.label for line in lines]
    color = {
        "field": "others", "type": "nominal", "legend": {"columns": 1, "symbolOpacity": 1} if named else None,
        "scale": {"domain": labels, "range": [SETTINGS[index % len(SETTINGS)] for index in range(len(labels))]},
    }  # fmt: skip
    layers = [
        *([_points(points, unit)] if len(points) <= POINTS_MAX else []),
        *_medians(spreads, unit, labels),
    ]
    encoding = {"x": _x(lines, x_label), "color": color}
    spec = {"title": name if titled else "", "height": HEIGHT, "encoding": encoding, "layer": layers}
    return Chart(spec, f"{name} over {x_label}")


def _x(lines: Sequence[Line], label: str) -> Spec:
    """The axis, with the values of the setting as they were given."""
    texts = {place.x: place.label for line in lines for place in line.places}
    numbers = sorted(texts)
    margin = ((numbers[-1] - numbers[0]) or 1) * 0.04
    axis = {
        "title": label, "values": numbers, "grid": False, "labelOverlap": "greedy", "labelSeparation": 6,
        "labelExpr": f"({json.dumps([texts[at] for at in numbers])})[indexof({json.dumps(numbers)}, datum.value)]",
    }  # fmt: skip
    scale = {"domain": [numbers[0] - margin, numbers[-1] + margin], "nice": False, "zero": False}
    return {"field": "x", "type": "quantitative", "axis": axis, "scale": scale}


def _y(field: str, unit: str) -> Spec:
    axis: Spec = {"title": None, "labelExpr": f"datum.label + {json.dumps(unit)}"}
    if not unit:
        axis |= {"tickMinStep": 1, "format": "d"}
    return {"field": field, "type": "quantitative", "axis": axis, "scale": {"zero": False}}


def _points(points: Sequence[Spec], unit: str) -> Spec:
    return {
        "data": {"values": points},
        "mark": {"type": "circle", "size": 18, "opacity": 0.25},
        "encoding": {"y": _y("value", unit)},
    }


def _medians(spreads: Sequence[Spec], unit: str, labels: Sequence[str]) -> list[Spec]:
    data = {"values": spreads}
    # Where two lines coincide, the gaps of one show the other.
    dashes = {
        "field": "others", "type": "nominal", "legend": None,
        "scale": {"domain": labels, "range": [[1, 0] if not index else [4 + 2 * index, 4] for index in range(len(labels))]},
    }  # fmt: skip
    kinds = {"setting": "nominal", "others": "nominal"}
    tooltip = [
        {"field": field, "type": kinds.get(field, "quantitative")}
        for field in ("setting", "others", "median", "p10", "p90", "values", "never")
        if field != "others" or len(labels) > 1
    ]
    return [
        {
            "data": data,
            "transform": [{"filter": "isValid(datum.p10) && isValid(datum.p90)"}],
            "mark": {"type": "rule", "strokeWidth": 3, "opacity": 0.6},
            "encoding": {"y": _y("p10", unit), "y2": {"field": "p90"}},
        },
        {"data": data, "mark": "line", "encoding": {"y": _y("median", unit), "strokeDash": dashes}},
        {
            "data": data,
            "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
            "encoding": {"y": _y("median", unit), "tooltip": tooltip},
        },
        {
            "data": data,
            "transform": [{"filter": "!isValid(datum.median)"}],
            "mark": {"type": "text", "text": "never", "baseline": "top"},
            "encoding": {"y": {"value": 0}, "tooltip": tooltip},
        },
    ]
