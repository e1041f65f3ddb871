"""Writes the HTML report of a run."""

from __future__ import annotations

from pathlib import Path

from sim.app.run import Result
from sim.report import render
from sim.scenario.plan import Plan


def write_report(file: Path, plan: Plan, result: Result) -> None:
    facts = {
        "seed": str(result.seed),
        "nodes": str(len(plan.cluster.nodes)),
        "virtual time": f"{result.virtual_us / 1e6:.0f} s",
        "wall time": f"{result.wall_s:.2f} s",
        "events": f"{result.steps:,}",
        "trace": result.trace_sha256,
    }
    page = render(plan.name, plan.description, facts, result.verdicts, result.timeline, result.virtual_us)
    file.write_text(page, encoding="utf-8")
