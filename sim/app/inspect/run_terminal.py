"""Terminal output of `orrery run`: live progress, the verdict table, a small picture."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import trio
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sim.app.inspect.traces import row
from sim.app.process.interrupts import interruptible
from sim.app.process.printed import visible
from sim.app.run import Outside, Result, run_plan
from sim.app.screen.console import PlainConsole, has_room, plain_table, terminal
from sim.report import Timeline, answered_line, sparkline
from sim.report.failure import Failure
from sim.scenario.plan.plan import Plan
from sim.units import format_duration
from sim.verdict import Verdict

if TYPE_CHECKING:
    from sim.app.control.session import Control
    from sim.app.inspect.checkpoints import Checkpoints
    from sim.app.run import Steering

REFUSED_MAX = 5  # lines shown of rejected commands
STYLES = {"holds": "green", "held already": "yellow", "FAILED": "bold red"}


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
    page: Steering | None = None,
    sockets: bool = False,
    checkpoints: Checkpoints | None = None,
) -> Result:
    """Run a plan, with a live display where the terminal can show one.

    page: serves the run, and lets it begin; None for none
    checkpoints: of the run, which then has no display
    """
    run = partial(
        run_plan,
        plan,
        trace_file=trace_file,
        outside=outside,
        fast=fast,
        replaces_log=replaces_log,
        metered=metered,
        agent_logs=agent_logs,
        sockets=sockets,
    )
    if checkpoints is not None:
        result: Result = checkpoints.run(partial(run, rest=checkpoints))
        return result
    console = PlainConsole(stderr=True)
    shown = live and has_room(console)
    if not shown and page is None:
        return interruptible(run)
    return interruptible(partial(run, steering=partial(_steered, console if shown else None, page)))


@asynccontextmanager
async def _steered(console: Console | None, page: Steering | None, control: Control) -> AsyncIterator[None]:
    """Serve a run on its page, and show it in the terminal, as far as asked for."""
    async with AsyncExitStack() as stack:
        if page is not None:
            await stack.enter_async_context(page(control))
        if console is not None:
            await stack.enter_async_context(_followed(console, control))
        if page is None:
            control.resume()
        yield


@asynccontextmanager
async def _followed(console: Console, control: Control) -> AsyncIterator[None]:
    """Show a run while it lasts, and let its keys steer it."""
    from sim.app.screen.follow import follow  # a run in no terminal does not import it

    async def show() -> None:
        await follow(control, console, control.cluster.counts)
        raise KeyboardInterrupt

    async with trio.open_nursery() as nursery:
        nursery.start_soon(show)
        yield
        nursery.cancel_scope.cancel()


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
    if result.verdicts:
        console.print(_verdict_table(result.verdicts))
    else:
        console.print("nothing is expected of it", style="dim")
    for failure in failed:
        _print_failure(console, failure)
    for step, outcomes in result.requests.items():
        counts = ", ".join(f"{count:,} {outcome}" for outcome, count in outcomes.items()) or "none"
        console.print(f"requests {step}: {counts}", highlight=False)
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


def _verdict_table(verdicts: Iterable[Verdict]) -> Table:
    """Verdicts with what was measured and wanted."""
    table = plain_table("", "expectation", "measured", "wanted")
    for verdict in verdicts:
        table.add_row(
            Text(verdict.mark, STYLES[verdict.mark]), verdict.name, verdict.measured, verdict.wanted
        )
    return table


def print_verdicts(verdicts: Iterable[Verdict]) -> None:
    """Print the verdicts of a served cluster that ends."""
    terminal().print(_verdict_table(verdicts))


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
    """One row for each zone with the share of its nodes that are ready; below it those of pods that
    run, of requests that were answered if there are clients, and the steps.
    """
    picture = Text()
    for zone in sorted(timeline.nodes):
        label = f"ready, zone {zone}" if zone else "nodes ready"
        picture.append(f"{label:>20} ", "dim")
        picture.append(sparkline(timeline.nodes[zone], "ready", end_us, width) + "\n", "green")
    picture.append(f"{'pods running':>20} ", "dim")
    picture.append(sparkline(timeline.pods, "running", end_us, width) + "\n", "cyan")
    if timeline.clients:
        picture.append(f"{'requests answered':>20} ", "dim")
        picture.append(answered_line(timeline, end_us, width) + "\n", "blue")
    marks = [" "] * width
    for at_us, _, _ in timeline.steps:
        marks[min(width - 1, at_us * width // max(1, end_us))] = "▲"
    picture.append(f"{'steps':>20} {''.join(marks)}\n", "dim")
    return picture
