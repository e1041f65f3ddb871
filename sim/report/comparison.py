"""Two runs side by side: their verdicts, their pictures, and the first event in which they part.

Turns the outcomes of two runs, as their traces hold them, into rows of verdicts and into one HTML
page.

Holds: a run without an outcome (a trace that is cut off, or of a served cluster) has no verdicts and
no picture, and everything else is shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from sim.dataclass import dataclass
from sim.report.charts.run import run_chart
from sim.report.html import chain_table
from sim.report.page import page, table
from sim.report.story import Line
from sim.report.timeline import Timeline

_STYLE = """<style>
body{max-width:1500px}.pair{display:grid;grid-template-columns:1fr 1fr;gap:1.5rem}.pair>div{min-width:0;overflow-x:auto}
@media (max-width:900px){.pair{grid-template-columns:1fr}}
</style>"""


@dataclass(frozen=True, slots=True)
class Side:
    """One of two runs.

    name: how the report names it
    facts: what is special in it: its seed and settings
    outcome: verdicts and picture; None if the trace holds none
    chain: the causes of the event in which it parts from the other
    """

    name: str
    facts: str
    outcome: Mapping[str, Any] | None
    chain: Sequence[Line]


@dataclass(frozen=True, slots=True)
class Compared:
    """One expectation in both runs; a run without it has None."""

    name: str
    first: Mapping[str, Any] | None
    second: Mapping[str, Any] | None

    @property
    def same(self) -> bool:
        """True if both runs measured the same, in words, and judged it so."""
        return shown(self.first) == shown(self.second)

    @property
    def wanted(self) -> str:
        """What was wanted; of both runs if it differs."""
        texts = [str(one["wanted"]) for one in (self.first, self.second) if one is not None]
        return " / ".join(dict.fromkeys(texts))


def compare_verdicts(first: Mapping[str, Any] | None, second: Mapping[str, Any] | None) -> list[Compared]:
    """The expectations of two outcomes by name, in the order of the first."""
    one, two = _by_name(first), _by_name(second)
    return [Compared(name, one.get(name), two.get(name)) for name in dict.fromkeys([*one, *two])]


def _by_name(outcome: Mapping[str, Any] | None) -> dict[str, Mapping[str, Any]]:
    return {} if outcome is None else {one["name"]: one for one in outcome["verdicts"]}


def shown(verdict: Mapping[str, Any] | None) -> str:
    """A verdict in a few words: its mark and what was measured."""
    return "not expected" if verdict is None else f"{mark(verdict)} {verdict['measured']}"


def mark(verdict: Mapping[str, Any]) -> str:
    """The judgement in a word."""
    return "FAILED" if not verdict["ok"] else "held already" if verdict["held_already"] else "holds"


def render_comparison(
    sides: tuple[Side, Side], parted_at: str, differences: Sequence[str], notes: Sequence[str] = ()
) -> str:
    """The page of two runs.

    parted_at: the sentence that says where they part, or that they do not
    differences: the values in which the two events differ
    """
    first, second = sides
    rows = []
    for one in compare_verdicts(first.outcome, second.outcome):
        cells = [(mark(each), str(each["measured"])) if each else ("", "not expected") for each in
                 (one.first, one.second)]  # fmt: skip
        rows.append([one.name, *cells[0], *cells[1], one.wanted])
    body = _STYLE + table(("expectation", "A", "measured", "B", "measured", "wanted"), rows)
    body += f"<h2>Pictures</h2>{_pair(*(_picture(side) for side in sides))}"
    body += f"<h2>Where they part</h2><p>{escape(parted_at)}</p>"
    body += "".join(f"<p><code>{escape(line)}</code></p>" for line in differences)
    if first.chain or second.chain:
        body += _pair(*(_headed(side, chain_table(side.chain) or "<p>no more events</p>") for side in sides))
    body += "".join(f'<p class="soft">{escape(note)}</p>' for note in notes)
    facts = {letter: f"{side.name} ({side.facts})" for letter, side in zip("AB", sides, strict=True)}
    return page("A and B", "Two runs side by side", facts, body)


def _picture(side: Side) -> str:
    if side.outcome is None:
        return _headed(side, "<p>its trace holds no picture</p>")
    timeline = Timeline.of_plain(side.outcome["timeline"])
    return _headed(side, run_chart(timeline, side.outcome["virtual_us"]).html())


def _headed(side: Side, body: str) -> str:
    return f'<p class="soft">{escape(side.name)}</p>{body}'


def _pair(first: str, second: str) -> str:
    return f'<div class="pair"><div>{first}</div><div>{second}</div></div>'
