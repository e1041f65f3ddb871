"""`orrery sweep`: a scenario under varied settings."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from sim.app.cli.commands.arguments import (
    EXIT_FAILED,
    EXIT_OK,
    Files,
    add_many,
    add_programs,
    add_scenario,
    add_seed,
    check_outputs,
    gathered,
    output_file,
    pool_of,
    programs_of,
    report_of,
    stopped_early,
)
from sim.app.process.printed import tell

if TYPE_CHECKING:
    from sim.app.cli.commands.arguments import Commands

SEEDS = 20


def add(commands: Commands) -> None:
    """Add the command."""
    sweep = commands.add_parser("sweep")
    add_scenario(sweep)
    add_programs(sweep)
    sweep.add_argument("--vary", action="append", required=True, metavar="KEY=V1,V2,...")
    add_seed(sweep)
    add_many(sweep, SEEDS)
    sweep.add_argument("--json", action="store_true")
    sweep.add_argument("--csv", type=Path, metavar="FILE")
    sweep.add_argument("--values", type=Path, metavar="FILE")
    sweep.add_argument("--report", type=output_file, metavar="FILE")
    sweep.add_argument("--no-report", action="store_true")
    sweep.add_argument("--quiet", "-q", action="store_true")
    sweep.set_defaults(call=_sweep)


def _sweep(arguments: argparse.Namespace) -> int:
    from sim.app.study.results import Results
    from sim.app.study.sweep import jobs_of_points, parse_axis, points_of, sweep_of
    from sim.app.study.sweep_report import print_sweep, write_csv, write_sweep
    from sim.app.study.terminal import followed, progress
    from sim.app.study.values import value_rows, write_values

    check_outputs(
        arguments.csv, arguments.values, arguments.report, arguments.resume, inputs=(arguments.scenario,)
    )
    axes = [parse_axis(text) for text in arguments.vary]
    points = points_of(arguments.scenario, arguments.set, axes, programs_of(arguments))
    jobs = list(jobs_of_points(points, arguments.seed, arguments.seeds))
    report = report_of(arguments, f"{points[0].plan.name}-sweep")
    results, pool = Results(arguments.resume), pool_of(arguments)
    tell(results.summary(jobs))
    name = points[0].plan.name
    started = perf_counter()
    with progress(f"{name}: sweep", len(jobs), not (arguments.json or arguments.quiet)) as display:
        outcomes, stopped, why = gathered(followed(results.perform(jobs, pool), display, results.kept(jobs)))
    sweep = sweep_of(axes, points, outcomes, jobs, arguments.seeds)
    if not sweep.quantities:
        report = None
    files = Files()
    report = files.write(report, lambda file: write_sweep(file, sweep))
    files.write(arguments.csv, lambda file: write_csv(file, sweep))
    files.write(arguments.values, lambda file: write_values(file, sweep))
    if arguments.json:
        found = {"rows": sweep.rows(), "values": value_rows(sweep)}
        print(json.dumps({"scenario": name, "complete": len(outcomes) == len(jobs), **found}))
    else:
        print_sweep(sweep, perf_counter() - started, report)
    if stopped:
        tell(why)
        tell(stopped_early(arguments.resume))
        return files.report_failures(stopped)
    return files.report_failures(EXIT_FAILED if any(study.errors for study in sweep.studies) else EXIT_OK)
