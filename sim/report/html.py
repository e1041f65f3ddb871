"""The one-file HTML report: verdicts, each with the chain of causes that led to it, and the
timeline picture.

The file can be opened without a network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Protocol

from sim.report.page import page, table, wide
from sim.report.story import Line, clock, delta
from sim.report.svg import PALETTE, draw
from sim.report.timeline import Timeline


class Verdict(Protocol):
    """The judgement of an expectation, as a report shows it."""

    @property
    def name(self) -> str:
        """Name of the expectation."""
        ...

    @property
    def ok(self) -> bool:
        """True if the expectation holds."""
        ...

    @property
    def measured(self) -> str:
        """What was measured, in words."""
        ...

    @property
    def wanted(self) -> str:
        """What was wanted, in words."""
        ...

    @property
    def after(self) -> str:
        """The start of the window, in words."""
        ...


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
    rows = [["holds" if v.ok else "FAILED", v.name, v.measured, v.wanted, v.after] for v in verdicts]
    key = "".join(
        f'<span><i style="background:{colour}"></i>{name}</span>' for name, colour in PALETTE.items()
    )
    verdict_table = table(("", "expectation", "measured", "wanted", "after"), rows)
    picture = f'<div class="key">{key}</div>{wide(draw(timeline, end_us))}'
    whys = "".join(_chain(name, lines) for name, lines in chains.items())
    if whys:
        whys = f"<h2>Why</h2>{whys}"
    return page(title, description, facts, f"{verdict_table}{picture}{whys}")


def _chain(name: str, lines: Sequence[Line]) -> str:
    rows = "".join(
        f"<tr><td class=number>{clock(line.at_us)}</td><td class=number>{delta(line)}</td>"
        f"<td class=actor>{escape(line.actor)}</td><td>{escape(line.text)}</td></tr>"
        for line in lines
    )
    chain = wide(f"<table class=chain>{rows}</table>")
    return f"<details><summary>{escape(name)}</summary>{chain}</details>"
