"""A sweep as files and as a table: an HTML page with a chart for each quantity, CSV, a table for
the terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from sim.app.inspect.run_terminal import REFUSED_MAX
from sim.app.screen.console import plain_table, terminal
from sim.app.study.summary import FAILURES_SHOWN, Quantity
from sim.app.study.sweep import Sweep
from sim.app.study.terminal import repeat_command
from sim.app.study.values import write_table
from sim.files import write_text
from sim.report.blocks import CAPTION_OF_NUMBERS
from sim.report.charts.chart import Chart
from sim.report.charts.setting import CAPTION, Line, Place, setting_chart
from sim.report.page import page, table
from sim.statistics import number

SHOWN = ("n", "missing", "min", "p50", "p90", "p99", "max", "mean")
SHOWN_AS = tuple("never" if column == "missing" else column for column in SHOWN)
NUMBERS = (*SHOWN, "mean_low", "mean_high", "sd")


def write_sweep(file: Path, sweep: Sweep) -> None:
    """Write the HTML page of a sweep."""
    plan = sweep.points[0].plan
    facts = {axis.key: ", ".join(axis.values) for axis in sweep.axes}
    facts["seeds each"] = str(sweep.studies[0].wanted_seeds)
    if sweep.refused:
        facts["refused"] = "; ".join(sweep.refused)
    write_text(file, page(f"{plan.name}: sweep", plan.description, facts, sweep_body(sweep)))


def sweep_body(sweep: Sweep, show: Callable[[Chart], str] = Chart.html) -> str:
    """The charts and numbers of a sweep as HTML.  show: makes HTML of a chart"""
    body = f'<p class="soft">{CAPTION}</p>'
    for name, at in sweep.quantities.items():
        body += f"<h2>{escape(name)}</h2>{show(quantity_chart(sweep, name, at))}"
    columns = [axis.key for axis in sweep.axes]
    rows = [
        [*(row[key] for key in (*columns, "quantity")), _held(row), *_numbers(row)] for row in sweep.rows()
    ]
    body += "<h2>All numbers</h2>" + table(
        (*(axis.label for axis in sweep.axes), "quantity", "seeds that hold", *SHOWN_AS),
        rows,
        numbers=len(SHOWN),
    )
    return body + f'<p class="soft">{CAPTION_OF_NUMBERS}</p>'


def quantity_chart(sweep: Sweep, name: str, at: Sequence[Quantity | None], *, titled: bool = False) -> Chart:
    """A quantity over the first varied key; each combination of the others is a line."""
    return setting_chart(name, _lines(sweep, at), sweep.axes[0].key, _unit(at), titled=titled)


def _unit(at: Sequence[Quantity | None]) -> str:
    return next(one.unit for one in at if one is not None)


def _numbers(row: dict[str, Any]) -> list[str]:
    """The statistics of a row; a quantile that falls on values that never occurred is empty."""
    never = bool(row.get("missing"))
    shown = []
    for key in SHOWN:
        cell = row.get(key)
        if cell is None:
            shown.append("never" if never and key != "mean" else "")
        else:
            shown.append(number(cell) if isinstance(cell, float) else str(cell))
    return shown


def _lines(sweep: Sweep, at: Sequence[Quantity | None]) -> list[Line]:
    """The first axis is the chart's horizontal axis; each combination of the others is a line."""
    along = sweep.axes[0]
    numbers = along.numbers or tuple(float(index) for index in range(len(along.values)))
    where = dict(zip(along.values, numbers, strict=True))
    lines: dict[str, list[Place]] = {}
    for point, one in zip(sweep.points, at, strict=True):
        others = zip(sweep.axes[1:], point.values[1:], strict=True)
        places = lines.setdefault(", ".join(f"{axis.label} {value}" for axis, value in others), [])
        if one is not None:
            places.append(Place(where[point.values[0]], point.values[0], sorted(one.values), one.missing))
    return [
        Line(label, sorted(places, key=lambda place: place.x)) for label, places in lines.items() if places
    ]


def write_csv(file: Path, sweep: Sweep) -> None:
    """Write all rows of a sweep as CSV."""
    columns = [*(axis.key for axis in sweep.axes), "quantity", "seeds", "held", *NUMBERS]
    write_table(file, columns, sweep.rows())


def print_sweep(sweep: Sweep, wall_s: float, report: Path | None) -> None:
    """One small table for each quantity, and one for expectations without quantities."""
    console = terminal()
    rows = sweep.rows()
    for name in sweep.quantities:
        shown = _table(sweep, name, ("holds", *SHOWN_AS))
        for row in rows:
            if row["quantity"] == name:
                shown.add_row(*_varied(sweep, row), _held(row), *_numbers(row))
        console.print(shown)
        console.print()
    others = dict.fromkeys(row["quantity"] for row in rows if row["quantity"] not in sweep.quantities)
    for name in others if sweep.done[0] else ():
        shown = _table(sweep, name, ("holds",))
        for row in rows:
            if row["quantity"] == name:
                shown.add_row(*_varied(sweep, row), _held(row))
        console.print(shown)
        console.print()
    done, target = sweep.done
    console.print(f"{done} of {target} runs in {wall_s:.1f} s", highlight=False)
    for line in sweep.refused[:REFUSED_MAX]:
        console.print(Text.assemble(("refused ", "yellow"), line), soft_wrap=True)
    errors = [
        (point, one) for point, study in zip(sweep.points, sweep.studies, strict=True) for one in study.errors
    ]
    for point, one in errors[:FAILURES_SHOWN]:
        where = ", ".join(point.values)
        console.print(Text(f"seed {one.seed} at {where} failed: {one.error}", "red"), soft_wrap=True)
        console.print(
            f"  {repeat_command(point.plan, one.seed, point.settings)}", highlight=False, soft_wrap=True
        )
    if len(errors) > FAILURES_SHOWN:
        console.print(f"and {len(errors) - FAILURES_SHOWN} runs more", style="red", highlight=False)
    if report is not None:
        console.print(f"report: {report}", highlight=False, soft_wrap=True)


def _table(sweep: Sweep, name: str, columns: Sequence[str]) -> Table:
    new = plain_table(*[axis.label for axis in sweep.axes], title=name)
    for column in columns:
        new.add_column(column, justify="left" if column == "holds" else "right", no_wrap=True)
    return new


def _varied(sweep: Sweep, row: dict[str, Any]) -> list[str]:
    return [row[axis.key] for axis in sweep.axes]


def _held(row: dict[str, Any]) -> str:
    return f"{row['held']}/{row['seeds']}"
