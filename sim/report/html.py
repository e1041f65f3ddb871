"""The one-file HTML report: verdicts, each with the chain of causes that led to it, and the
timeline picture.

The file can be opened without a network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from sim.report.charts.run import run_chart
from sim.report.failure import Failure, failure_of
from sim.report.page import page, table, wide
from sim.report.story import Line, clock, delta
from sim.report.timeline import Timeline
from sim.verdict import Verdict


def render(
    title: str,
    description: str,
    facts: Mapping[str, str],
    verdicts: Sequence[Verdict],
    timeline: Timeline,
    end_us: int,
    chains: Mapping[str, Sequence[Line]],
) -> str:
    """The whole page.  `chains`: by the name of an expectation, what led to the event that decided
    it.
    """
    rows = [[v.mark, v.name, v.measured, v.wanted, v.after] for v in verdicts]
    verdict_table = table(("", "expectation", "measured", "wanted", "after"), rows)
    picture = run_chart(timeline, end_us).html()
    whys = "".join(_why(verdict, chains.get(verdict.name, ())) for verdict in verdicts)
    if whys:
        whys = f"<h2>Why</h2>{whys}"
    return page(title, description, facts, f"{verdict_table}{picture}{whys}")


def _why(verdict: Verdict, lines: Sequence[Line]) -> str:
    """What decided a verdict; of a failed one unfolded, with its facts."""
    if not verdict.ok:
        return _details(verdict.name, facts_of(failure_of(verdict, None)) + chain_table(lines), " open")
    return _details(verdict.name, chain_table(lines)) if lines else ""


def facts_of(failure: Failure) -> str:
    """The facts of a failure as a list."""
    listed = "".join(
        f"<div><dt>{escape(label)}</dt><dd>{escape(text)}</dd></div>" for label, text in failure.facts
    )
    return f"<dl>{listed}</dl>"


def chain_table(lines: Sequence[Line]) -> str:
    """A chain of causes as a table."""
    if not lines:
        return ""
    rows = "".join(
        f"<tr><td class=number>{clock(line.at_us)}</td><td class=number>{delta(line)}</td>"
        f"<td class=actor>{escape(line.actor)}</td><td>{escape(line.text)}</td></tr>"
        for line in lines
    )
    return wide(f"<table class=chain>{rows}</table>")


def _details(name: str, body: str, attribute: str = "") -> str:
    return f"<details{attribute}><summary>{escape(name)}</summary>{body}</details>"
