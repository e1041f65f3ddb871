"""The state of a running cluster as lines of a terminal.

Turns a `View` into a text: some lines, or one line in a terminal that is narrow or low.

Holds: no line is longer than the terminal is wide; equal views give equal texts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from rich.text import Text

from sim.report.story import clock
from sim.units import SECOND, Virtual, format_duration

NARROW, LOW = 72, 12  # columns and lines of a terminal below which there is one line
EVENTS_MAX, FAULTS_MAX, BAR = 5, 3, 24
KEYS = "space pauses or resumes, + and - set the pace, . does one event, q ends"
STATES = {"holds": "green", "failed": "bold red", "open": "yellow", "waits": "dim"}
EVENT_STYLES = {"Warning": "yellow"}


class View(NamedTuple):
    """What is shown.

    at_us, end_us: virtual time, and where the run ends; None for a cluster that is served
    pace: virtual seconds for each real second, math.inf as fast as possible
    speed: what it comes to
    rests: why virtual time rests, "" if it passes
    requests, work: a real second
    faults: name, kind and begin of each effect that lasts
    step: instant and text of the last step of the timeline, or of a user
    events: instant, type and text of the last events, the newest first
    expectations: state and name of each
    keys: True if the keyboard steers
    """

    name: str
    at_us: Virtual
    end_us: Virtual | None = None
    pace: float = math.inf
    speed: float = 0.0
    rests: str = ""
    nodes: int = 0
    ready: int = 0
    pods: int = 0
    running: int = 0
    requests: float = 0.0
    work: float = 0.0
    faults: tuple[tuple[str, str, Virtual], ...] = ()
    step: tuple[Virtual, str] | None = None
    events: tuple[tuple[Virtual, str, str], ...] = ()
    expectations: tuple[tuple[str, str], ...] = ()
    keys: bool = False


def drawn(view: View, width: int, height: int) -> Text:
    """The text for a terminal of this size."""
    lines = [_line(view)] if width < NARROW or height < LOW else list(_lines(view))
    for line in lines:
        line.truncate(max(1, width - 1), overflow="ellipsis")
    return Text("\n").join(lines)


def _lines(view: View) -> Iterator[Text]:
    yield _time(view)
    yield _row(
        "now",
        f"nodes ready {view.ready}/{view.nodes}  pods running {view.running}/{view.pods}"
        f"  {view.requests:,.0f} requests/s  {view.work:,.0f} events/s",
    )
    if view.expectations:
        counts = {state: sum(one == state for one, _ in view.expectations) for state in STATES}
        result = [Text(f"{counts[state]} {state}", style) for state, style in STATES.items() if counts[state]]
        failed = [name for state, name in view.expectations if state == "failed"]
        yield _row(
            "expected", Text(", ").join(result), *([f"  failed: {', '.join(failed)}"] if failed else ())
        )
    faults = [f"{name} ({kind}) since {clock(at_us)}" for name, kind, at_us in view.faults[:FAULTS_MAX]]
    if len(view.faults) > FAULTS_MAX:
        faults.append(f"{len(view.faults) - FAULTS_MAX} more")
    yield _row("faults", Text(", ".join(faults), "red") if faults else "none")
    if view.step is not None:
        yield _row("step", f"{clock(view.step[0])}  {view.step[1]}")
    for index, (at_us, kind, text) in enumerate(view.events[:EVENTS_MAX]):
        yield _row("" if index else "events", f"{clock(at_us)}  ", Text(text, EVENT_STYLES.get(kind, "")))
    if view.keys:
        yield Text(f"{'keys':>8}  {KEYS}", "dim")


def _row(label: str, *parts: str | Text) -> Text:
    return Text.assemble((f"{label:>8}  ", "dim"), *parts)


def _time(view: View) -> Text:
    """The first line: name, virtual time, how far a run is, and the pace."""
    line = Text.assemble((view.name, "bold"), "  ")
    if view.end_us is not None:
        bar = "━" * round(view.at_us / max(1, view.end_us) * BAR)
        line.append(bar, "green").append("─" * (BAR - len(bar)), "dim").append("  ")
    line.append(_reached(view), "bold").append("  ")
    return line.append_text(_pace(view))


def _reached(view: View) -> str:
    end = "" if view.end_us is None else f" of {format_duration(view.end_us)}"
    return format_duration(view.at_us // SECOND * SECOND) + end


def _pace(view: View) -> Text:
    if view.end_us is not None and view.at_us >= view.end_us:
        return Text("ended", "yellow")
    if view.rests:
        return Text(view.rests, "yellow")
    if view.pace == math.inf:
        return Text(f"as fast as possible ({view.speed:,.0f}x)")
    return Text(f"pace {view.pace:g}")


def _line(view: View) -> Text:
    """All in one line, the most important first."""
    faults = Text(f"  {len(view.faults)} faults", "red") if view.faults else Text()
    counts = f"  nodes {view.ready}/{view.nodes}  pods {view.running}/{view.pods}"
    return Text.assemble(_reached(view), "  ", _pace(view), counts, faults, f"  {view.requests:,.0f} req/s")
