"""A chart: a Vega-Lite specification, and the forms in which it is shown.

    chart = run_chart(timeline, end_us)
    chart.html()          a place in a page, which the page's scripts draw
    chart.svg(900)        a picture, made by vl-convert
    chart.altair(600)     an Altair chart, to be changed further

A specification names no width and no colour of text. They are set when it is drawn (`sized`,
`config`), in a page by its width and by light or dark paper.

Holds: the same data give the same text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.dataclass import dataclass
from sim.errors import InputError
from sim.files import replaced, write_text
from sim.report.charts.scripts import packed_scripts

if TYPE_CHECKING:
    import altair

Spec = dict[str, Any]

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"  # a name, which nothing opens
AXIS = 40  # width of a vertical axis, so that the rows of a picture are aligned
EDGE = 18  # to the right of the last value
INK, SOFT, LINE, PAPER = "#1c2430", "#6b7684", "#d9d5cb", "#fbfaf7"
PLACE = '<div class="chart"'  # how the place of a chart begins in a page
_FONT = "system-ui, sans-serif"
GLUE = Path(__file__).with_name("glue.js")
NOTICES = Path(__file__).with_name("notices.txt")


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart.

    spec: the specification, for a page
    name: what it shows, read aloud in place of it
    still: the specification without what only a browser can do; None: the same
    """

    spec: Spec
    name: str
    still: Spec | None = None

    def html(self) -> str:
        """The place of the chart in a page."""
        text = json.dumps(self.spec, separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/")
        return (
            f'{PLACE} role="img" aria-label="{escape(self.name)}">'
            f'<script type="application/json">{text}</script></div>'
        )

    def complete(self, width: int) -> Spec:
        """The specification with its width and colours, for programs that draw it."""
        spec = sized(self.spec if self.still is None else self.still, width)
        look = config(INK, SOFT, LINE)
        look["title"]["limit"] = width - AXIS
        return {"$schema": SCHEMA, "background": PAPER, **spec, "config": look}

    def svg(self, width: int = 1000) -> str:
        """The chart as SVG.  Raises InputError if vl-convert-python is not installed."""
        text: str = _converter().vegalite_to_svg(self.complete(width))
        return text

    def png(self, width: int = 1000) -> bytes:
        """The chart as PNG, with two pixels for each of the SVG."""
        picture: bytes = _converter().vegalite_to_png(self.complete(width), scale=2)
        return picture

    def altair(self, width: int = 700) -> altair.VConcatChart:
        """The chart as one of Altair.  Raises InputError if Altair is not installed."""
        try:
            import altair
        except ModuleNotFoundError:
            raise InputError("charts need the package altair", "", "pip install 'orrery[lab]'") from None
        spec = self.complete(width)
        if "vconcat" not in spec:
            own = {key: spec.pop(key) for key in ("$schema", "background", "config")}
            spec = {**own, "vconcat": [spec]}
        made: altair.VConcatChart = altair.VConcatChart.from_dict(spec)
        return made

    def save(self, file: str | Path, width: int = 1000) -> None:
        """Write the chart as .svg, .png or .json (Vega-Lite)."""
        path = Path(file)
        if path.suffix == ".svg":
            write_text(path, self.svg(width) + "\n")
        elif path.suffix == ".png":
            picture = self.png(width)
            with replaced(path) as target:
                target.write(picture)
        elif path.suffix == ".json":
            write_text(path, json.dumps(self.complete(width)) + "\n")
        else:
            raise InputError("no format of this name", str(path), "end it in .svg, .png or .json")


def stacked(charts: Sequence[Chart], name: str) -> Chart:
    """Charts below each other, as one."""
    return Chart({"vconcat": [chart.spec if chart.still is None else chart.still for chart in charts]}, name)


def sized(spec: Spec, width: int) -> Spec:
    """A specification that is this many pixels wide, with its axis; `glue.js` does the same."""
    inner = width - AXIS - EDGE
    if "vconcat" in spec:
        return {**spec, "vconcat": [sized(one, width) for one in spec["vconcat"]]}
    return {**spec, "width": inner}


def config(ink: str, soft: str, line: str) -> Spec:
    """The look of all charts.  ink, soft, line: colours of text, of small text, and of grids"""
    return {
        "font": _FONT,
        "view": {"stroke": None, "continuousHeight": 56},
        "concat": {"spacing": 12},
        "title": {
            "anchor": "start", "frame": "group", "color": ink, "fontSize": 12, "fontWeight": 500,
            "offset": 4, "subtitleColor": soft, "subtitleFontSize": 11, "font": _FONT, "subtitleFont": _FONT,
        },
        "axis": {
            "labelColor": soft, "titleColor": soft, "labelFontSize": 10.5, "titleFontSize": 11,
            "titleFontWeight": 400, "gridColor": line, "domainColor": line, "tickColor": line,
            "labelFont": _FONT, "titleFont": _FONT,
        },
        "axisY": {"minExtent": AXIS, "maxExtent": AXIS, "ticks": False, "labelPadding": 5},
        "legend": {
            "orient": "top", "direction": "horizontal", "columns": 4, "title": None, "labelColor": soft,
            "labelFontSize": 10.5, "symbolSize": 60, "offset": 2, "padding": 0, "columnPadding": 10,
            "symbolType": "square", "symbolStrokeWidth": 0, "labelFont": _FONT,
        },
        "text": {"color": ink, "fontSize": 10.5, "font": _FONT},
        "rule": {"color": soft},
    }  # fmt: skip


def _converter() -> Any:
    try:
        import vl_convert
    except ModuleNotFoundError:
        raise InputError(
            "a picture as a file needs the package vl-convert-python", "", "pip install 'orrery[lab]'"
        ) from None
    return vl_convert


@lru_cache(maxsize=1)
def page_scripts() -> str:
    """What follows the charts in a page: the scripts with the notices of their licences as a
    comment, and the few lines that let them draw.
    """
    look = json.dumps(config("$ink", "$soft", "$line"), separators=(",", ":"))
    return (
        '<noscript><p class="soft">The charts are drawn by scripts, which are switched off here.</p></noscript>'
        f"<!--\n{NOTICES.read_text(encoding='utf-8')}-->"
        f'<script type="text/plain" class="orrery-scripts">{packed_scripts()}</script>'
        f'<script type="application/json" class="orrery-look">{look}</script>'
        f"<script>{GLUE.read_text(encoding='utf-8')}</script>"
    )


def in_notebook(chart: Chart) -> str:
    """A chart as HTML for a notebook: a picture, or its place if vl-convert-python is missing."""
    try:
        return chart.svg(900)
    except InputError:
        return chart.html()
