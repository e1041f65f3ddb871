"""The one-file HTML report: verdicts and the timeline picture.  Opens without a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from sim.report.page import page, table
from sim.report.svg import PALETTE, draw
from sim.report.timeline import Timeline


class Verdict(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def ok(self) -> bool: ...
    @property
    def measured(self) -> str: ...
    @property
    def wanted(self) -> str: ...


def render(
    title: str,
    description: str,
    facts: Mapping[str, str],
    verdicts: Sequence[Verdict],
    timeline: Timeline,
    end_us: int,
) -> str:
    """The whole page."""
    rows = [["holds" if v.ok else "FAILED", v.name, v.measured, v.wanted] for v in verdicts]
    key = "".join(
        f'<span><i style="background:{colour}"></i>{name}</span>' for name, colour in PALETTE.items()
    )
    verdict_table = table(("", "expectation", "measured", "wanted"), rows)
    return page(
        title, description, facts, f'{verdict_table}<div class="key">{key}</div>{draw(timeline, end_us)}'
    )
