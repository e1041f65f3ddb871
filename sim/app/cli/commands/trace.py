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
    why = commands.add_parser("why")
    why.add_argument("trace", type=Path, metavar="TRACE")
    why.add_argument("target", nargs="?", metavar="RESOURCE/NAME")
    why.add_argument("-n", "--namespace", default="default")
    why.add_argument("--what", default="", metavar="CHANGE")
    why.add_argument("--event", type=positive, metavar="N")
    why.add_argument("--full", action="store_true")
    why.add_argument("--json", action="store_true")
    why.set_defaults(call=_why, late="target")


def _add_diff(commands: Commands) -> None:
    diff = commands.add_parser("diff")
    diff.add_argument("first", type=Path, metavar="A")
    diff.add_argument("second", type=Path, metavar="B")
    diff.add_argument("--report", type=output_file, metavar="FILE")
    diff.add_argument("--json", action="store_true")
    diff.set_defaults(call=_diff)


def _add_show(commands: Commands) -> None:
    show = commands.add_parser("show")
    show.add_argument("trace", type=Path, metavar="TRACE")
    show.add_argument("--actor", default="", metavar="GLOB")
    show.add_argument("--kind", action="append", default=[])
    show.add_argument("--object", default="", metavar="GLOB")
    show.add_argument("--from", dest="start", default="", metavar="TIME")
    show.add_argument("--to", dest="end", default="", metavar="TIME")
    show.add_argument("--grep", default="", metavar="REGEX")
    show.add_argument("--follow", "-f", action="store_true")
    show.add_argument("--json", action="store_true")
    show.add_argument("--perfetto", type=output_file, metavar="FILE")
    show.add_argument("--page", type=output_file, nargs="?", const=Path(), metavar="FILE")
    show.add_argument("--force", action="store_true")
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


def _check_whole(arguments: argparse.Namespace, option: str) -> None:
    """Refuse what selects a part of the trace."""
    parts = ("actor", "kind", "object", "start", "end", "grep", "follow", "json")
    if any(getattr(arguments, part) for part in parts):
        raise InputError("writes the whole trace", option, "leave the other options out")


def _show_page(arguments: argparse.Namespace) -> int:
    from sim.app.inspect.run_page import write_page

    _check_whole(arguments, "--page")
    file = arguments.trace.with_suffix(".html") if arguments.page == Path() else arguments.page
    check_outputs(file, inputs=(arguments.trace,))
    if file.exists() and not arguments.force:
        raise InputError("exists already and is kept", str(file), "choose another name, or add --force")
    note = write_page(arguments.trace, file)
    print(f"page: {file}", note, sep="\n" if note else "")
    return EXIT_OK


def _show(arguments: argparse.Namespace) -> int:
    if arguments.page is not None:
        return _show_page(arguments)
    if arguments.perfetto is not None:
        from sim.app.inspect.traces import write_perfetto

        _check_whole(arguments, "--perfetto")
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
    target = Filter(arguments.actor, kinds, arguments.object, start_us, end_us, grep)
    show(arguments.trace, target, as_text=not arguments.json, follow=arguments.follow)
    return EXIT_OK


def _time_us(text: str, option: str) -> int | None:
    from sim.units import parse_duration_us

    try:
        return parse_duration_us(text) if text else None
    except ValueError:
        raise InputError(f"{text!r} is not a time", option, "write it as 90s, 5m or 1h30m") from None
