"""Charts of studies by Altair: distributions, and values over a varied setting.

The numbers behind a chart are those of `sim.statistics`, so that a chart, a table and the HTML page
of a study agree.  Colours are those of Okabe and Ito, which people with colour blindness can
distinguish.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sim.app.study.summary import Quantity
from sim.app.study.sweep import Sweep
from sim.errors import InputError
from sim.statistics import finite, histogram, quantile

if TYPE_CHECKING:
    import altair

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
BINS, WIDTH, HEIGHT = 30, 520, 160
MIDDLE = 0.1, 0.5, 0.9  # quantiles of the bar and the point over a varied setting


def _altair() -> Any:
    try:
        import altair
    except ModuleNotFoundError:
        raise InputError("charts need the package altair", "", "pip install 'orrery[lab]'") from None
    return altair


def plot_distributions(quantities: Sequence[Quantity]) -> altair.VConcatChart:
    """A histogram for each quantity, with its median and the wanted bounds."""
    return _stacked(_altair(), [_histogram(_altair(), one) for one in quantities])


def _stacked(alt: Any, charts: Sequence[Any]) -> altair.VConcatChart:
    """Charts below each other."""
    made: altair.VConcatChart = alt.vconcat(*charts).configure_view(stroke=None)
    return made


def _histogram(alt: Any, one: Quantity) -> Any:
    values = sorted(one.values)
    bins = histogram(values, min(BINS, max(8, len(values) // 3)), whole=not one.unit)
    bars = [
        {"from": bins.start + index * bins.width, "to": bins.start + (index + 1) * bins.width, "runs": count}
        for index, count in enumerate(bins.counts)
    ]
    x = alt.X("from:Q", title=_axis_title(one.unit), scale=alt.Scale(zero=False))
    layers = [
        alt.Chart(alt.Data(values=bars))
        .mark_bar(color=COLORS[0], opacity=0.8)
        .encode(
            x=x.bin("binned"),
            x2="to:Q",
            y=alt.Y("runs:Q", title="values"),
            tooltip=["from:Q", "to:Q", "runs:Q"],
        )
    ]
    median = finite(quantile(values, 0.5, one.missing))
    lines = [] if median is None else [{"at": median, "line": "median"}]
    lines += [{"at": bound, "line": "wanted"} for bound in one.wanted or ()]
    scale = alt.Scale(domain=["median", "wanted"], range=[COLORS[6], COLORS[1]])
    layers.append(
        alt.Chart(alt.Data(values=lines))
        .mark_rule(strokeWidth=2)
        .encode(
            x="at:Q",
            color=alt.Color("line:N", title=None, scale=scale),
            strokeDash=alt.StrokeDash(
                "line:N", title=None, scale=alt.Scale(domain=["median", "wanted"], range=[[1, 0], [5, 3]])
            ),
            tooltip=["line:N", "at:Q"],
        )
    )
    never = f", {one.missing} never" if one.missing else ""
    title = alt.TitleParams(one.name, subtitle=f"{len(values)} values{never}", anchor="start")
    return alt.layer(*layers).properties(title=title, width=WIDTH, height=HEIGHT)


def plot_sweep(sweep: Sweep, quantities: Mapping[str, Sequence[Quantity | None]]) -> altair.VConcatChart:
    """For each quantity its values over the first varied key; the others give the colours."""
    alt = _altair()
    return _stacked(alt, [_over(alt, sweep, name, at) for name, at in quantities.items()])


def _over(alt: Any, sweep: Sweep, name: str, at: Sequence[Quantity | None]) -> Any:
    along, others = sweep.axes[0], sweep.axes[1:]
    where: Mapping[str, Any] = dict(zip(along.values, along.numbers or along.values, strict=True))
    spreads: list[dict[str, Any]] = []
    points: list[dict[str, Any]] = []
    labels: dict[str, None] = {}
    for point, one in zip(sweep.points, at, strict=True):
        label = ", ".join(
            f"{axis.label} {value}" for axis, value in zip(others, point.values[1:], strict=True)
        )
        labels[label] = None
        if one is None:
            continue
        head = {"x": where[point.values[0]], "setting": point.values[0], "others": label}
        values = sorted(one.values)
        low, median, high = (finite(quantile(values, share, one.missing)) for share in MIDDLE)
        spreads.append(
            {**head, "p10": low, "median": median, "p90": high, "values": len(values), "never": one.missing}
        )
        points += [{**head, "value": value} for value in values]
    unit = next((one.unit for one in at if one is not None), "")
    in_seconds = along.numbers is not None and not all(_is_number(value) for value in along.values)
    title = f"{along.label}{', s' if in_seconds else ''}"
    if along.numbers is not None:
        x = alt.X("x:Q", title=title, scale=alt.Scale(zero=False, padding=20))
    else:
        x = alt.X("x:N", title=title, sort=list(along.values))
    y = {"scale": alt.Scale(zero=False), "title": _axis_title(unit)}
    legend = alt.Legend(title=None, symbolOpacity=1) if others else None
    color = alt.Color(
        "others:N", legend=legend, scale=alt.Scale(domain=list(labels), range=COLORS[: len(labels)])
    )
    base = alt.Chart(alt.Data(values=spreads)).encode(x=x, color=color)
    tooltip = ["setting:N", "others:N", "median:Q", "p10:Q", "p90:Q", "values:Q", "never:Q"]
    layers = [
        alt.Chart(alt.Data(values=points))
        .mark_circle(size=18, opacity=0.25)
        .encode(x=x, y=alt.Y("value:Q", **y), color=color),
        base.mark_rule(strokeWidth=3, opacity=0.6).encode(y=alt.Y("p10:Q", **y), y2="p90:Q"),
        base.mark_line().encode(
            y=alt.Y("median:Q", **y), strokeDash=alt.StrokeDash("others:N", legend=legend)
        ),
        base.mark_point(filled=True, size=70, opacity=1).encode(y=alt.Y("median:Q", **y), tooltip=tooltip),
    ]
    subtitle = "points: values; line: median; bars: the middle 80 %"
    return alt.layer(*layers).properties(
        title=alt.TitleParams(name, subtitle=subtitle, anchor="start"), width=WIDTH, height=HEIGHT * 1.4
    )


def _axis_title(unit: str) -> str:
    return {"s": "seconds", "": "count"}.get(unit, unit)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
