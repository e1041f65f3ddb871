"""Terminal output of `orrery run --seeds`: progress with the time left, verdicts, distributions,
failures.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from sim.app.screen.console import plain_table, terminal
from sim.app.study.outcome import Outcome
from sim.app.study.summary import FAILURES_SHOWN, Finding, Quantity, Study, failures
from sim.report.blocks import blocks
from sim.scenario.plan.plan import Plan
from sim.statistics import number

BLOCKS_MIN, BLOCKS_MAX, NUMBERS_WIDTH = 12, 40, 92
NAME_WIDTH = 22  # width at which the name of a quantity is wrapped
NARROW = 108  # columns of a terminal below which counts and pictures are omitted in favour of names
# Columns below which there is no room for a table, and each of its rows becomes a paragraph.
TOO_NARROW = 76


@contextmanager
def progress(name: str, total: int, shown: bool) -> Iterator[Progress | None]:
    """A line with a bar, the rate, the share that holds and the time left, if the terminal supports
    it.
    """
    console = Console(stderr=True)
    if not (shown and console.is_terminal):
        yield None
        return
    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    # No thread draws the line: a process with several threads is not forked (`pool.Worker`).
    with Progress(*columns, console=console, transient=True, auto_refresh=False) as display:
        display.add_task(name, total=total, rate="")
        yield display


def followed(outcomes: Iterable[Outcome], display: Progress | None, kept: int = 0) -> Iterator[Outcome]:
    """The same outcomes; the display follows them.  kept: number of outcomes at the beginning that
    are from an earlier start and do not count for the rate
    """
    started, done, current = perf_counter(), 0, 0
    for one in outcomes:
        done, current = done + 1, current + one.ok
        if display is not None:
            task = display.task_ids[0]
            if done == kept:
                started = perf_counter()
                display.reset(task, completed=done, rate="")
            elif done > kept:
                rate = (done - kept) / max(perf_counter() - started, 1e-9)
                rate_text = f"{rate:,.1f} seeds/s  holds in {100 * current / done:.4g}%"
                display.update(task, advance=1, rate=rate_text, refresh=True)
        yield one


def print_study(
    plan: Plan, study: Study, wall_s: float, settings: Sequence[str], report: Path | None
) -> None:
    """Print the verdicts, distributions and failures of a study."""
    console = terminal()
    title = f"{plan.name}: {plan.description}" if plan.description else plan.name
    console.print(Text(title, "bold"))
    columns = ("", "expectation", "seeds", "measured", "wanted")
    verdicts = [_verdict(finding) for finding in (study.findings if study.outcomes else ())]
    if verdicts:
        console.print(_table_of(columns, verdicts, console.width))
    quantities = [one for finding in study.findings for one in finding.quantities if one.sought]
    if quantities:
        console.print()
        console.print(_distributions(quantities, console.width))
    console.print()
    runs = [one.wall_s for one in study.outcomes if not one.error]
    each = f", {sum(runs) / len(runs):.2f} s each" if runs else ""
    console.print(
        f"{len(study.outcomes)} of {study.wanted_seeds} seeds in {wall_s:.1f} s{each}; "
        f"everything holds in {study.held}",
        highlight=False,
    )
    if study.refused:
        console.print(Text.assemble(("refused ", "yellow"), study.refused), soft_wrap=True)
    _print_failures(console, plan, study, settings)
    if report is not None:
        console.print(f"report: {report}", highlight=False, soft_wrap=True)


def _table_of(columns: Sequence[str], rows: Sequence[Sequence[str | Text]], width: int) -> Table:
    """Rows under their columns or, in a narrow terminal, as paragraphs with the columns' names."""
    if width >= TOO_NARROW:
        table = plain_table(*columns)
        for row in rows:
            table.add_row(*row)
        return table
    table = plain_table("", header=False)
    for first, second, *others in rows:
        named = zip(columns[2:], others, strict=True)
        cells = [Text.assemble(f"{column} ", text) for column, text in named if len(text)]
        table.add_row(Text(" ").join(map(Text.assemble, filter(len, (first, second)))))
        table.add_row(Text("  ") + Text(", ").join(cells))
    return table


def _verdict(finding: Finding) -> tuple[Text, str, str, str, str]:
    mark = Text("holds", "green") if finding.ok else Text("FAILED", "bold red")
    measured, target = "", finding.wanted
    if finding.judged is not None:
        measured, target = finding.judged.measured, finding.judged.wanted
        if finding.judged.ok is None:
            mark = Text("not judged", "yellow")
    return mark, finding.name, f"{finding.held}/{finding.runs}", measured, target


def _distributions(quantities: Sequence[Quantity], width: int) -> Table:
    room = min(BLOCKS_MAX, max(BLOCKS_MIN, width - NUMBERS_WIDTH))
    columns = ("min", "p50", "p90", "p99", "max", "mean ± 95 %")
    rows: list[list[str | Text]] = []
    for one in quantities:
        summary = one.summary
        if summary is None:
            rows.append([one.name, *["never"] * 5, "", f"0 ({one.missing} never)", Text("")])
            continue
        half = summary.half_width
        mean = number(summary.mean) + (f" ± {number(half)}" if half is not None else "")
        count = f"{summary.count}" + (f" ({summary.missing} never)" if summary.missing else "")
        numbers = [number(value) for value in (summary.low, *(v for _, v in summary.quantiles), summary.high)]
        rows.append([one.name, *numbers, mean, count, Text(blocks(one.values, room, one.unit), "cyan")])
    if width < TOO_NARROW:
        return _table_of(("", "", *columns, "n"), [["", *row[:-1]] for row in rows], width)
    table = plain_table()
    table.add_column("measured", min_width=NAME_WIDTH, overflow="fold")
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    if width >= NARROW:
        table.add_column("n", justify="right", no_wrap=True)
        table.add_column("min to max", no_wrap=True)
    for row in rows:
        table.add_row(*(row if width >= NARROW else row[:-2]))
    return table


def _print_failures(console: Console, plan: Plan, study: Study, settings: Sequence[str]) -> None:
    result = failures(study)
    for one, text in result[:FAILURES_SHOWN]:
        console.print(Text(f"seed {one.seed} failed: {text}", "red"), soft_wrap=True)
        console.print(f"  {repeat_command(plan, one.seed, settings)}", highlight=False, soft_wrap=True)
    if len(result) > FAILURES_SHOWN:
        console.print(f"and {len(result) - FAILURES_SHOWN} seeds more", style="red", highlight=False)


def repeat_command(plan: Plan, seed: int, settings: Sequence[str]) -> str:
    """The command that runs one seed exactly as it was run here."""
    # Otherwise the name would be parsed as an option.
    file = f"./{plan.file}" if plan.file.startswith("-") else plan.file or "SCENARIO"
    sets = [word for setting in settings for word in ("--set", setting)]
    return shlex.join(["orrery", "run", file, "--seed", str(seed), *sets])
