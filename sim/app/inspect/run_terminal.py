"""Terminal output of `orrery run`: live progress, the verdict table, a small picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter

import trio
from rich.console import Console, ConsoleOptions, RenderableType
from rich.live import Live
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from sim.app.cluster import Cluster
from sim.app.inspect.traces import row
from sim.app.process.printed import visible
from sim.app.run import Outside, Result, run_plan
from sim.report import Timeline, sparkline
from sim.report.failure import Failure
from sim.scenario.plan.plan import Plan
from sim.units import format_duration

REFRESH_S = 0.1
REFUSED_MAX = 5  # lines shown of rejected commands
STYLES = {"holds": "green", "held already": "yellow", "FAILED": "bold red"}
PLAIN_WIDTH = 120  # columns of an output that is not a terminal


class _Console(Console):
    def __init__(self, width: int | None = None, stderr: bool = False) -> None:
        # Names of expectations and files are printed literally: "[zone a]" and ":warning:" are not
        # markup in them.
        super().__init__(width=width, stderr=stderr, markup=False, emoji=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else visible(text), style, control)

    def on_broken_pipe(self) -> None:
        # This program chooses its exit status itself; rich would exit with the status of a failed
        # run.
        raise BrokenPipeError


def terminal() -> Console:
    """The console for results: as wide as the terminal, or wide enough for every table here."""
    console = _Console()
    return console if console.is_terminal else _Console(width=max(console.width, PLAIN_WIDTH))


def run_shown(
    plan: Plan,
    *,
    trace_file: Path | None,
    live: bool,
    outside: Outside | None = None,
    fast: bool = True,
    replaces_log: bool = False,
    metered: bool = False,
    agent_logs: Path | None = None,
) -> Result:
    """Run a plan, with a live display where the terminal can show one."""
    console = _Console(stderr=True)
    run = partial(
        run_plan,
        plan,
        trace_file=trace_file,
        outside=outside,
        fast=fast,
        replaces_log=replaces_log,
        metered=metered,
        agent_logs=agent_logs,
    )
    if not (live and console.is_terminal):
        return trio.run(run)

    async def watch(cluster: Cluster) -> None:
        started, last_steps, last_s = perf_counter(), 0, perf_counter()
        with Live(console=console, transient=True, auto_refresh=False) as display:
            while True:
                await trio.sleep(REFRESH_S)
                now_s, steps = perf_counter(), cluster.kernel.steps
                rate = (steps - last_steps) / (now_s - last_s)
                last_steps, last_s = steps, now_s
                display.update(_progress(plan, cluster, now_s - started, rate), refresh=True)

    return trio.run(partial(run, watch=watch))


def _progress(plan: Plan, cluster: Cluster, wall_s: float, rate: float) -> Text:
    done_us = cluster.kernel.now_us
    share = done_us / max(1, plan.duration_us)
    bar = "━" * round(share * 24)
    counts = cluster.counts()
    return Text.assemble(
        (f"{plan.name} ", "bold"),
        (bar, "green"),
        ("─" * (24 - len(bar)), "dim"),
        f" {format_duration(done_us // 1_000_000 * 1_000_000)} of {format_duration(plan.duration_us)}",
        f"  {done_us / 1e6 / max(wall_s, 1e-9):,.0f}x",
        f"  {rate:,.0f} events/s",
        f"  nodes ready {counts['ready']}/{counts['nodes']}  pods running {counts['running']}/{counts['pods']}",
    )


def print_result(
    plan: Plan,
    result: Result,
    report: Path | None,
    trace: Path | None,
    failed: Sequence[Failure] = (),
    difference: Sequence[str] = (),
) -> None:
    """Print the verdicts, why some failed, the small picture, and the paths of written files.

    difference: the first event of a replay that differs from what was served
    """
    console = terminal()
    title = f"{plan.name}: {plan.description}" if plan.description else plan.name
    console.print(Text(title, "bold"))
    table = Table(box=None, pad_edge=False)
    for column in ("", "expectation", "measured", "wanted"):
        table.add_column(column)
    for verdict in result.verdicts:
        table.add_row(
            Text(verdict.mark, STYLES[verdict.mark]), verdict.name, verdict.measured, verdict.wanted
        )
    if result.verdicts:
        console.print(table)
    else:
        console.print("nothing is expected of it", style="dim")
    for failure in failed:
        _print_failure(console, failure)
    for line in result.refused[:REFUSED_MAX]:
        console.print(Text.assemble(("refused ", "yellow"), line))
    if len(result.refused) > REFUSED_MAX:
        console.print(f"refused {len(result.refused) - REFUSED_MAX} more", style="yellow", highlight=False)
    console.print(_picture(result.timeline, result.virtual_us, max(40, min(100, console.width - 24))))
    speed = result.virtual_us / 1e6 / max(result.wall_s, 1e-9)
    console.print(
        f"{format_duration(result.virtual_us)} of virtual time in {result.wall_s:.2f} s ({speed:,.0f}x), "
        f"{result.steps:,} events, seed {result.seed}",
        highlight=False,
    )
    console.print(f"trace sha256 {result.trace_sha256}", style="dim", highlight=False)
    if result.as_served is not None:
        verdict_text = (
            Text("as it was served", "green")
            if result.as_served
            else Text("NOT as it was served", "bold red")
        )
        console.print(verdict_text)
    for call in result.unanswered:
        console.print(
            visible(f"the journal ends before an answer to {call}"), highlight=False, soft_wrap=True
        )
    for line in difference:
        console.print(Text(line), soft_wrap=True)
    for what, file in (("report", report), ("trace", trace)):
        if file is not None:
            console.print(f"{what}: {file}", highlight=False, soft_wrap=True)


def _print_failure(console: Console, failure: Failure) -> None:
    """Print what a failed expectation measured, of which objects, when, and its last causes."""
    console.print(Text.assemble(("FAILED ", "bold red"), (failure.name, "bold")))
    for label, text in failure.facts:
        console.print(Text.assemble((f"  {label:<9}", "dim"), text))
    for index, line in enumerate(failure.last_causes):
        if index == 1 and failure.left_out:
            console.print(f"{'…':>12}  {failure.left_out} more in between", style="dim", highlight=False)
        console.print(Text(row(line)), soft_wrap=True)


def _picture(timeline: Timeline, end_us: int, width: int) -> Text:
    """One row for each zone with the share of its nodes that are ready; below it the steps."""
    picture = Text()
    for zone in sorted(timeline.nodes):
        label = f"ready, zone {zone}" if zone else "nodes ready"
        picture.append(f"{label:>20} ", "dim")
        picture.append(sparkline(timeline.nodes[zone], "ready", end_us, width) + "\n", "green")
    picture.append(f"{'pods running':>20} ", "dim")
    picture.append(sparkline(timeline.pods, "running", end_us, width) + "\n", "cyan")
    marks = [" "] * width
    for at_us, _, _ in timeline.steps:
        marks[min(width - 1, at_us * width // max(1, end_us))] = "▲"
    picture.append(f"{'steps':>20} {''.join(marks)}\n", "dim")
    return picture
