"""Writes the HTML report of a run, from its result and the records of its trace."""

from __future__ import annotations

from pathlib import Path

from sim.app.run import Result
from sim.files import write_text
from sim.report import render
from sim.report.failure import chain_of
from sim.report.story import Book, Line
from sim.scenario.plan.plan import Plan

LINKS_MAX = 60  # number of links shown of a chain: the nearest causes


def write_report(file: Path, plan: Plan, result: Result, book: Book) -> None:
    """Write the HTML report of a run."""
    facts = {
        "seed": str(result.seed),
        "nodes": str(len(plan.cluster.nodes)),
        "virtual time": f"{result.virtual_us / 1e6:.0f} s",
        "wall time": f"{result.wall_s:.2f} s",
        "events": f"{result.steps:,}",
        "trace": result.trace_sha256,
    }
    if result.refused:
        facts["refused"] = "; ".join(result.refused)
    chains = _chains(result, book)
    page = render(
        plan.name, plan.description, facts, result.verdicts, result.timeline, result.virtual_us, chains
    )
    write_text(file, page)


def _chains(result: Result, book: Book) -> dict[str, list[Line]]:
    """The chain of causes for each expectation that an event or an object decided."""
    chains = {verdict.name: chain_of(verdict, book)[-LINKS_MAX:] for verdict in result.verdicts}
    return {name: chain for name, chain in chains.items() if chain}
