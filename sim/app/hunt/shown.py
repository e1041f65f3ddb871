"""Terminal output of `orrery hunt`: progress with the rate and what was met, then the failures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from sim.app.hunt.finding import Finding
from sim.app.hunt.hunting import RUNS_MAX, Budget, Hunted, Watching
from sim.app.hunt.search import Search
from sim.app.screen.console import plain_table, terminal
from sim.statistics import number
from sim.units import SECOND, human_duration


class _Shown(Watching):
    """Shows the search as a line."""

    def __init__(self, display: Progress, budget: Budget) -> None:
        self._display, self._budget = display, budget
        self._at_first: int | None = None  # runs of an earlier start

    def judged(self, search: Search, seconds: float) -> None:
        """A run of the search has ended."""
        runs = search.tally.runs
        if self._at_first is None:
            self._at_first = runs - 1
        here = runs - self._at_first
        parts = [f"{runs:,} runs, {here / max(seconds, 1e-9):,.1f} a second"]
        parts.append(f"{search.tally.failures:,} failures of {len(search.findings)} causes")
        for index, entry in sorted(search.corpus.best.items()):
            name = search.ground.hunt.targets[index]["name"]
            parts.append(f"{name}: {number(entry.targets[index])}")
        done = here / self._budget.runs if self._budget.runs < RUNS_MAX else seconds / self._budget.seconds
        self._display.update(
            self._display.task_ids[0], completed=min(done, 1.0), shows="  ".join(parts), refresh=True
        )

    def shrinks(self, finding: Finding, number: int, count: int) -> None:
        """A failure is made smaller."""
        shows = f"makes failure {number} of {count} smaller: {finding.cause}"
        self._display.update(self._display.task_ids[0], completed=1.0, shows=shows, refresh=True)


@contextmanager
def watched(name: str, budget: Budget, shown: bool) -> Iterator[Watching]:
    """A line with a bar and what the search has met, if the terminal supports it."""
    console = Console(stderr=True)
    if not (shown and console.is_terminal):
        yield Watching()
        return
    columns = (TextColumn("[bold]{task.description}"), BarColumn(16), TextColumn("{task.fields[shows]}"))
    # No thread draws the line: a process with several threads is not forked (`pool.Worker`).
    with Progress(*columns, console=console, transient=True, auto_refresh=False) as display:
        display.add_task(f"{name}: hunt", total=1.0, shows="runs it without a drawn step")
        yield _Shown(display, budget)


def print_hunt(result: Hunted) -> None:
    """Print what a hunt met."""
    console = terminal()

    def line(text: str | Text) -> None:
        console.print(text, highlight=False, soft_wrap=True)

    if result.plain:
        line(Text(f"{result.name} fails without any drawn step, so that nothing was searched:", "bold red"))
        for name, seed in result.plain:
            line(f"  {name} (seed {seed})")
        return
    tally = result.tally
    rate = tally.runs / max(result.seconds, 1e-9)
    took = human_duration(round(result.seconds) * SECOND)
    line(
        f"{result.name}: {tally.runs:,} runs in {took}, {rate:,.1f} a second; "
        f"{tally.failures:,} failures of {len(result.stories)} causes"
    )
    if result.stories:
        table = plain_table("times", "cause", "steps", "file")
        for one in result.stories:
            steps = str(len(one.document["spec"].get("timeline", ())))
            file = "" if one.file is None else str(one.file)
            times = str(tally.by_cause.get(one.finding.cause, 0))
            table.add_row(times, one.finding.cause, steps, file)
        console.print(table)
    for name, most in result.best.items():
        line(f"most {name}: {number(most)} s")
    if tally.unsound:
        line(f"{tally.unsound:,} candidates were no sound scenario, as varied values did not go together")
    if result.left_out:
        line(
            f"not asked of the runs, as the scenario does not keep it by itself: {', '.join(result.left_out)}"
        )
