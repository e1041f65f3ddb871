"""`orrery run`: a scenario, once or under many seeds."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from sim.app.commands.arguments import EXIT_FAILED, EXIT_OK, add_scenario, add_seed, writable

if TYPE_CHECKING:
    from sim.app.commands import Commands


def add(commands: Commands) -> None:
    run = commands.add_parser(
        "run",
        help="run a scenario and judge it",
        description="Runs a scenario as fast as possible and prints each expectation's measured value beside the "
        "wanted one. Exit status: 0 all hold, 1 one failed, 2 bad input.",
        epilog="example: orrery run scenarios/zone-outage.yaml --seed 3 --trace out/zone.trace",
    )
    add_scenario(run)
    add_seed(run)
    run.add_argument("--trace", type=Path, metavar="FILE", help="write every event of the run to this file")
    run.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    run.add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        help="write the HTML report here (default: out/<scenario>.html; with --json only if given)",
    )
    run.add_argument("--no-report", action="store_true", help="write no HTML report")
    run.add_argument("--quiet", "-q", action="store_true", help="no progress display")
    run.set_defaults(call=_run)


def _run(arguments: argparse.Namespace) -> int:
    from sim.app.show import print_result, run_shown
    from sim.scenario.compile import load

    plan = load(arguments.scenario, arguments.set)
    for file in (arguments.trace, arguments.report):
        writable(file)
    result = run_shown(
        plan, seed=arguments.seed, trace_file=arguments.trace, live=not (arguments.json or arguments.quiet)
    )
    report = arguments.report
    if report is None and not arguments.json and not arguments.no_report:
        report = Path("out") / f"{plan.name}.html"
        report.parent.mkdir(exist_ok=True)
    if report is not None and not arguments.no_report:
        from sim.app.report import write_report

        write_report(report, plan, result)
    if arguments.json:
        print(json.dumps(result.to_json()))
    else:
        print_result(plan, result, report, arguments.trace)
    return EXIT_OK if result.ok else EXIT_FAILED
