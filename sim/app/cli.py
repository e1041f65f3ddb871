"""The `orrery` command.

Exit status: 0 all expectations hold, 1 one failed, 2 bad input (one line on standard error), 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sim import __version__
from sim.errors import InputError

EXIT_OK, EXIT_FAILED, EXIT_BAD_INPUT, EXIT_INTERRUPTED = 0, 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the console script."""
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.call(arguments))
    except InputError as error:
        print(f"orrery: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except BaseExceptionGroup as group:
        bad = group.subgroup(InputError)
        if bad is None:
            if group.subgroup(KeyboardInterrupt) is not None:
                return EXIT_INTERRUPTED
            raise
        print(f"orrery: {_first(bad)}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        return EXIT_OK


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="orrery",
        description="A whole container cluster in virtual time: run scenarios, get verdicts with measured times.",
        epilog="Try: orrery run scenarios/zone-outage.yaml",
    )
    parser.add_argument("--version", action="version", version=f"orrery {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_run(commands)
    _add_validate(commands)
    _add_list(commands)
    _add_serve(commands)
    return parser


def _add_scenario(parser: argparse.ArgumentParser, optional: bool = False) -> None:
    parser.add_argument(
        "scenario",
        type=Path,
        metavar="SCENARIO",
        nargs="?" if optional else None,
        help="a scenario file (YAML)",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="override a value of the file, e.g. cluster.nodes[0].count=6 or timeline.outage.at=3m (repeatable)",
    )


def _add_run(commands: Any) -> None:
    run = commands.add_parser(
        "run",
        help="run a scenario and judge it",
        description="Runs a scenario as fast as possible and prints each expectation's measured value beside the "
        "wanted one. Exit status: 0 all hold, 1 one failed, 2 bad input.",
        epilog="example: orrery run scenarios/zone-outage.yaml --seed 3 --trace out/zone.trace",
    )
    _add_scenario(run)
    run.add_argument(
        "--seed", type=_seed, metavar="N", help="seed of all randomness (default: the scenario's)"
    )
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


def _add_validate(commands: Any) -> None:
    validate = commands.add_parser("validate", help="check scenario files without running them")
    validate.add_argument("scenarios", type=Path, nargs="+", metavar="SCENARIO")
    validate.set_defaults(call=_validate)


def _add_list(commands: Any) -> None:
    listing = commands.add_parser("list", help="list the scenarios in a folder, with what they show")
    listing.add_argument("folder", type=Path, nargs="?", default=Path("scenarios"), metavar="FOLDER")
    listing.add_argument("--json", action="store_true", help="print a JSON list")
    listing.set_defaults(call=_list)


def _add_serve(commands: Any) -> None:
    serve = commands.add_parser(
        "serve",
        help="serve the real REST API from a simulated cluster",
        description="Serves the REST API over TLS while the cluster lives. Without a scenario: a control plane with no node.",
        epilog="example: orrery serve scenarios/zone-outage.yaml --naming kubernetes --pace 60 --client-config out/config",
    )
    _add_scenario(serve, optional=True)
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    serve.add_argument(
        "--port", type=_port, default=6443, help="port to listen on, 0 for any (default: %(default)s)"
    )
    serve.add_argument(
        "--pace", type=_pace, default=1.0, metavar="1|60|max", help="virtual seconds a second (default: 1)"
    )
    serve.add_argument("--nodes", type=_count, metavar="N", help="add that many nodes")
    serve.add_argument(
        "--naming", choices=("orch", "kubernetes"), help="identifiers served (default: the scenario's)"
    )
    serve.add_argument(
        "--seed", type=_seed, metavar="N", help="seed of all randomness (default: the scenario's)"
    )
    serve.add_argument(
        "--client-config", type=Path, metavar="FILE", help="write a client configuration when ready"
    )
    serve.add_argument(
        "--token-auth-file", type=Path, metavar="FILE", help='further users: token,user,uid,"group1,group2"'
    )
    serve.add_argument(
        "--journal", type=Path, metavar="FILE", help="write what came from outside, for a replay"
    )
    serve.set_defaults(call=_serve)


def _seed(text: str) -> int:
    value = int(text)
    if not 0 <= value < 1 << 53:
        raise argparse.ArgumentTypeError("a seed is a whole number from 0 to 2^53 - 1")
    return value


def _port(text: str) -> int:
    value = int(text)
    if not 0 <= value <= 65535:
        raise argparse.ArgumentTypeError("a port is a number from 0 to 65535")
    return value


def _count(text: str) -> int:
    value = int(text)
    if not 0 <= value <= 20_000:
        raise argparse.ArgumentTypeError("a number of nodes from 0 to 20000")
    return value


def _pace(text: str) -> float:
    if text == "max":
        return float("inf")
    value = float(text)
    if not 0 <= value <= 1e6:
        raise argparse.ArgumentTypeError("a pace is a number from 0 (paused) to 1000000, or max")
    return value


# --- commands -------------------------------------------------------------------------------------------------


def _run(arguments: argparse.Namespace) -> int:
    from sim.app.show import print_result, run_shown
    from sim.scenario.compile import load

    plan = load(arguments.scenario, arguments.set)
    for file in (arguments.trace, arguments.report):
        _writable(file)
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


def _writable(file: Path | None) -> None:
    if file is not None and not file.parent.is_dir():
        raise InputError(f"there is no folder {file.parent}", str(file))


def _validate(arguments: argparse.Namespace) -> int:
    from sim.app.options import check_options
    from sim.app.run import expectations_of
    from sim.scenario.compile import load

    status = EXIT_OK
    for path in arguments.scenarios:
        try:
            plan = load(path)
            check_options(plan.cluster)
            expectations_of(plan)
        except InputError as error:
            print(f"orrery: {error}", file=sys.stderr)
            status = EXIT_BAD_INPUT
        else:
            print(
                f"{path}: ok ({len(plan.cluster.nodes)} nodes, {len(plan.steps)} steps, {len(plan.expectations)} expectations)"
            )
    return status


def _list(arguments: argparse.Namespace) -> int:
    from sim.scenario.compile import load

    if not arguments.folder.is_dir():
        raise InputError("no such folder", str(arguments.folder))
    rows = []
    for path in sorted(arguments.folder.glob("*.yaml")):
        plan = load(path)
        rows.append({"file": str(path), "name": plan.name, "description": plan.description})
    if arguments.json:
        print(json.dumps(rows))
    else:
        width = max((len(row["file"]) for row in rows), default=0)
        for row in rows:
            print(f"{row['file']:{width}}  {row['description']}")
    return EXIT_OK


def _serve(arguments: argparse.Namespace) -> int:
    try:
        from sim.app.serve import serve
    except ModuleNotFoundError as error:
        raise InputError(
            f"serving needs the package {error.name}", "", "pip install 'orrery[serve]'"
        ) from None
    return serve(arguments)


if __name__ == "__main__":
    sys.exit(main())
