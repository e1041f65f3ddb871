"""`orrery why`, `orrery diff` and `orrery show`: what a trace contains."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from sim.app.cli.commands.arguments import EXIT_FAILED, EXIT_OK, check_outputs, output_file, positive
from sim.errors import InputError

if TYPE_CHECKING:
    from sim.app.cli.commands.arguments import Commands


def add(commands: Commands) -> None:
    """Add the commands."""
    _add_why(commands)
    _add_diff(commands)
    _add_show(commands)


def _add_why(commands: Commands) -> None:
    why = commands.add_parser(
        "why",
        help="show what led to a change: the chain of causes in a trace",
        description="Shows the chain of causes that ends with the deletion of an object, else with its last change of "
        "state: virtual time, time since the link before, actor, action. Exit status: 0, or 2 if the "
        "file is no trace or damaged, or the object is not in it; one that is cut off is read up to there.",
        epilog="example: orrery run scenarios/zone-outage.yaml --trace out/zone.trace; "
        "orrery why out/zone.trace node/node-a-3 --what ready=Unknown",
    )
    why.add_argument("trace", type=Path, metavar="TRACE", help="a file written by orrery run --trace")
    why.add_argument(
        "target",
        nargs="?",
        metavar="RESOURCE/NAME",
        help="pod/web-1, node/node-3, deploy/web ...; of 'pod/web-*' the first that was deleted, else that failed; "
        "lease/NAME or controller-manager, scheduler: also why nothing leads",
    )
    why.add_argument("-n", "--namespace", default="default", help="of the object (default: %(default)s)")
    why.add_argument(
        "--what",
        default="",
        metavar="CHANGE",
        help="created, deleted, removed, or a fact and maybe its value: node, phase, ready=Unknown, taints, NoExecute, pressures, "
        "restarts, reason, holder, replicas, refused (of a lease) (default: the end that matters most)",
    )
    why.add_argument(
        "--event", type=positive, metavar="N", help="the record of this number instead of an object"
    )
    why.add_argument("--full", action="store_true", help="leave nothing out of a long chain")
    why.add_argument("--json", action="store_true", help="print one JSON object")
    why.set_defaults(call=_why, late="target")


def _add_diff(commands: Commands) -> None:
    diff = commands.add_parser(
        "diff",
        help="compare two runs: the first event in which their traces differ, verdicts, pictures",
        description="Finds the first event in which two traces differ, and shows the events before it and its causes in "
        "both; before that each --set that differs, and after it the verdicts that differ. A file that is cut off is read up "
        "to there. Exit status: 0 the same, 1 they differ, 2 a file is no trace or damaged.",
        epilog="example: orrery diff out/a.trace out/b.trace --report out/a-b.html",
    )
    diff.add_argument("first", type=Path, metavar="A", help="a file written by orrery run --trace")
    diff.add_argument("second", type=Path, metavar="B", help="a file written by orrery run --trace")
    diff.add_argument(
        "--report",
        type=output_file,
        metavar="FILE",
        help="write an HTML page with verdicts and pictures side by side",
    )
    diff.add_argument("--json", action="store_true", help="print one JSON object")
    diff.set_defaults(call=_diff)


def _add_show(commands: Commands) -> None:
    show = commands.add_parser(
        "show",
        help="print a trace, filtered, or turn it into a Perfetto file",
        description="Prints the events of a trace, one on each line: number, virtual time, actor, event.",
        epilog="example: orrery show out/zone.trace --kind decision --from 5m --to 8m",
    )
    show.add_argument("trace", type=Path, metavar="TRACE", help="a file written by orrery run --trace")
    show.add_argument("--actor", default="", metavar="GLOB", help="only of these actors, e.g. 'node-a-*'")
    show.add_argument(
        "--kind", action="append", default=[], help="only of this kind, e.g. decision (repeatable)"
    )
    show.add_argument(
        "--object", default="", metavar="GLOB", help="only about these, e.g. 'pods/default/web-*'"
    )
    show.add_argument("--from", dest="start", default="", metavar="TIME", help="only from then on, e.g. 5m")
    show.add_argument("--to", dest="end", default="", metavar="TIME", help="only up to then, e.g. 6m30s")
    show.add_argument("--grep", default="", metavar="REGEX", help="only where the text matches")
    show.add_argument("--follow", "-f", action="store_true", help="continue while the file is being written")
    show.add_argument("--json", action="store_true", help="print one JSON object on each line")
    show.add_argument(
        "--perfetto", type=output_file, metavar="FILE", help="write a Perfetto (Chrome) trace here instead"
    )
    show.set_defaults(call=_show)


def _why(arguments: argparse.Namespace) -> int:
    from sim.app.inspect.why import why

    if bool(arguments.target) == (arguments.event is not None):
        raise InputError(
            "why needs either an object or --event N", "", "e.g. orrery why out/run.trace pod/web-1"
        )
    why(
        arguments.trace,
        arguments.target or "",
        arguments.namespace,
        what=arguments.what,
        event=arguments.event or 0,
        as_text=not arguments.json,
        full=arguments.full,
    )
    return EXIT_OK


def _diff(arguments: argparse.Namespace) -> int:
    from sim.app.inspect.diff import diff

    first, second, report = arguments.first, arguments.second, arguments.report
    check_outputs(report, inputs=(first, second))
    same = diff(first, second, as_text=not arguments.json, report=report)
    return EXIT_OK if same else EXIT_FAILED


def _show(arguments: argparse.Namespace) -> int:
    if arguments.perfetto is not None:
        from sim.app.inspect.traces import write_perfetto

        options = ("actor", "kind", "object", "start", "end", "grep", "follow", "json")
        if any(getattr(arguments, option) for option in options):
            raise InputError("writes the whole trace", "--perfetto", "leave the other options out")
        check_outputs(arguments.perfetto, inputs=(arguments.trace,))
        write_perfetto(arguments.trace, arguments.perfetto)
        return EXIT_OK
    from sim.app.inspect.view import Filter, show

    try:
        grep = re.compile(arguments.grep) if arguments.grep else None
    except re.error as error:
        raise InputError(str(error), f"--grep {arguments.grep}", "a regular expression") from None
    start_us, end_us = _time_us(arguments.start, "--from") or 0, _time_us(arguments.end, "--to")
    if end_us is not None and end_us < start_us:
        raise InputError("ends before it begins", f"--from {arguments.start} --to {arguments.end}")
    kinds = tuple(arguments.kind)
    wanted = Filter(arguments.actor, kinds, arguments.object, start_us, end_us, grep)
    show(arguments.trace, wanted, as_text=not arguments.json, follow=arguments.follow)
    return EXIT_OK


def _time_us(text: str, option: str) -> int | None:
    from sim.units import parse_duration_us

    try:
        return parse_duration_us(text) if text else None
    except ValueError:
        raise InputError(f"{text!r} is not a time", option, "write it as 90s, 5m or 1h30m") from None
