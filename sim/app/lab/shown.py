"""What a lab returns for a notebook to draw: a state, a picture of a run, and a story of causes.

Each value is plain text in a terminal and HTML in a notebook.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from sim.dataclass import dataclass
from sim.files import write_text
from sim.report.charts.chart import Chart, in_notebook
from sim.report.page import fragment, page, table
from sim.report.story import Line, clock, delta
from sim.units import format_duration

if TYPE_CHECKING:
    import altair


@dataclass(frozen=True, slots=True)
class State:
    """The cluster at one instant.  The numbers are those of the progress display of a run."""

    at_us: int
    nodes: int
    ready: int
    pods: int
    running: int

    def __str__(self) -> str:
        return (
            f"{format_duration(self.at_us)}: {self.ready} of {self.nodes} nodes ready, "
            f"{self.running} of {self.pods} pods running"
        )

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class Picture:
    """The picture of a run so far."""

    chart: Chart
    at_us: int

    @property
    def svg(self) -> str:
        """The picture as SVG."""
        return self.chart.svg()

    def altair(self, width: int = 700) -> altair.VConcatChart:
        """The picture as a chart of Altair."""
        return self.chart.altair(width)

    def save(self, file: str | Path) -> None:
        """Write the picture as .html (which can be enlarged), .svg, .png or .json (Vega-Lite)."""
        path = Path(file)
        if path.suffix == ".html":
            write_text(path, page("Picture of a lab", format_duration(self.at_us), {}, self.chart.html()))
        else:
            self.chart.save(path)

    def __repr__(self) -> str:
        return f"<the picture of {format_duration(self.at_us)} of virtual time>"

    def _repr_html_(self) -> str:
        return fragment(in_notebook(self.chart))


@dataclass(frozen=True, slots=True)
class Story:
    """What led to something: the chain of causes, the first cause first."""

    title: str
    lines: Sequence[Line]

    def __str__(self) -> str:
        rows = [
            f"{clock(line.at_us):>14} {delta(line):>10}  {line.actor:24} {line.text}" for line in self.lines
        ]
        return "\n".join([self.title, *rows])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [(clock(line.at_us), delta(line), line.actor, line.text) for line in self.lines]
        body = table(("time", "after", "process", "what happened"), rows)
        return fragment(f"<p><b>{escape(self.title)}</b></p>{body}")
