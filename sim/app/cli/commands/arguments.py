"""Shared parts of several commands: exit statuses, arguments, and their checks."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sim.app.cli.completion import complete_with, scenarios
from sim.app.process.interrupts import ends_as_interrupts, exit_status
from sim.app.process.printed import tell
from sim.errors import InputError
from sim.files import check_output
from sim.units import JSON_WHOLE_MAX

if TYPE_CHECKING:
    from sim.app.study.outcome import Outcome
    from sim.app.study.pool import Pool
    from sim.scenario.plan.plan import Plan

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

EXIT_OK, EXIT_FAILED, EXIT_BAD_INPUT = 0, 1, 2
EXIT_UNHEARD = 141  # exit status of a program that SIGPIPE ended
OUT = Path("out")  # default folder of output files; created when it is needed


def add_scenario(parser: argparse.ArgumentParser, optional: bool = False) -> None:
    """Add the argument for a scenario file, and `--set`."""
    scenario = parser.add_argument(
        "scenario", type=scenario_file, metavar="SCENARIO", nargs="?" if optional else None
    )
    complete_with(scenario, scenarios)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")


def add_programs(parser: argparse.ArgumentParser) -> None:
    """Add the argument for programs of the user."""
    parser.add_argument("--program", action="append", default=[], metavar="NAME=MODULE:FUNCTION")


def programs_of(arguments: argparse.Namespace) -> dict[str, str]:
    """The programs of the user; modules are sought in the current folder too.  Raises InputError."""
    if not arguments.program:
        return {}
    from sim.app.process.own_programs import references

    if "" not in sys.path:
        sys.path.insert(0, "")
    pairs = [text.partition("=") for text in arguments.program]
    for name, sign, reference in pairs:
        if not (name and sign and reference):
            raise InputError(f"{name!r} is no program", "--program", "write it as NAME=module:function")
    return references({name: reference for name, _, reference in pairs})


def with_programs(arguments: argparse.Namespace, plan: Plan) -> Plan:
    """A plan with the programs of the user.  Raises InputError."""
    if not arguments.program and not plan.cluster.own_programs:
        return plan
    from sim.app.process.own_programs import bound

    return bound(plan, programs_of(arguments))


def scenario_file(text: str) -> Path:
    """The file of a scenario that a user names.  Raises InputError."""
    from sim.app.reference.shipped import scenario_path

    return scenario_path(Path(text))


def output_file(text: str) -> Path:
    """The path of an output file.  Raises ArgumentTypeError for the name of a folder."""
    if text.endswith(("/", "/.", "/..")) or text in ("", ".", ".."):
        raise argparse.ArgumentTypeError(f"{text!r} names a folder, not a file")
    return Path(text)


def add_seed(parser: argparse.ArgumentParser) -> None:
    """Add `--seed`."""
    parser.add_argument("--seed", type=seed, metavar="N")


def seed(text: str) -> int:
    """Parse a seed."""
    return whole(text, 0, JSON_WHOLE_MAX, "is no seed: a whole number from 0 to 2^53 - 1")


def count(text: str) -> int:
    """Parse a number of nodes."""
    return whole(text, 0, 20_000, "is no number of nodes from 0 to 20000")


def whole(text: str, low: int, high: int, problem: str) -> int:
    """Parse a whole number between two bounds."""
    if text.isascii() and text.isdecimal() and len(text) <= len(str(high)) and low <= int(text) <= high:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text} {problem}")


def check_outputs(*outputs: Path | None, inputs: Sequence[Path | None] = (), private: bool = False) -> None:
    """Reject, before the work, output files that cannot be written, are inputs, or are named twice.

    An output that can be produced again replaces an earlier file (`sim.files.replaced`).

    private: True for files that only their owner may read

    Raises InputError.
    """
    named: list[Path] = []
    for file in outputs:
        if file is None:
            continue
        if file.parent == OUT and not OUT.exists():
            try:
                OUT.mkdir(exist_ok=True)
            except OSError as error:
                raise InputError(f"cannot be made: {error.strerror}", str(OUT)) from None
        check_output(file, private)
        if any(each is not None and _is_same(file, each) for each in inputs):
            raise InputError("is an input file, which would be overwritten", str(file), "name another file")
        if any(_is_same(file, each) for each in named):
            raise InputError("is given for two outputs", str(file), "name another file for one of them")
        named.append(file)


def _is_same(first: Path, second: Path) -> bool:
    """True if both name one file; two outputs may go to one device."""
    if first.exists() and second.exists():
        return first.is_file() and first.samefile(second)
    return first.resolve() == second.resolve()


def gathered(found: Iterable[Outcome]) -> tuple[list[Outcome], int, str]:
    """Collect outcomes as they arrive. The reason for an early stop is returned for printing after
    the results: an exit status (0: not stopped) and a text.  Raises InputError if there is no
    result.
    """
    outcomes: list[Outcome] = []
    try:
        with ends_as_interrupts():
            for one in found:
                outcomes.append(one)  # one by one, so that an interrupt keeps the earlier ones
    except KeyboardInterrupt as error:
        return outcomes, exit_status(error), ""
    except InputError as error:  # the results file or the pool fails
        if not outcomes:
            raise
        return outcomes, EXIT_BAD_INPUT, str(error)
    return outcomes, EXIT_OK, ""


def stopped_early(kept: Path | None) -> str:
    """The text about the fate of finished outcomes.  kept: the file of --resume"""
    if kept is None:
        return "stopped early: the results are lost; --resume FILE would have kept them"
    return f"stopped early: {kept} has the results so far, and the same command continues"


class Files:
    """Writes files in addition to the results; a failure is reported after the results, and affects
    that file only.
    """

    def __init__(self) -> None:
        self._failed: list[str] = []

    def write(self, file: Path | None, make: Callable[[Path], object]) -> Path | None:
        """Write a file; returns its path if it is written."""
        if file is None:
            return None
        try:
            make(file)
        except OSError as error:
            self._failed.append(f"{file}: cannot be written: {error.strerror or error}")
            return None
        except InputError as error:  # a link or a folder was created there after the start
            self._failed.append(str(error))
            return None
        return file

    def report_failures(self, status: int) -> int:
        """Report failures; returns their exit status, or `status` if there were none."""
        for failure in self._failed:
            tell(failure)
        return EXIT_BAD_INPUT if self._failed else status


def report_of(arguments: argparse.Namespace, name: str) -> Path | None:
    """The path of the HTML report, if there is one.  Raises InputError if it cannot be written."""
    report: Path | None = arguments.report
    if report is not None and arguments.no_report:
        raise InputError("contradicts --no-report", "--report")
    if arguments.no_report or (report is None and arguments.json):
        return None
    report = report or OUT / f"{name}.html"
    try:
        check_outputs(report)
    except (InputError, OSError) as error:
        raise InputError(str(error), "", "" if arguments.report else "--report FILE or --no-report") from None
    return report


def add_many(parser: argparse.ArgumentParser, seeds: int | None = None) -> None:
    """Add the arguments of commands with many runs."""
    parser.add_argument(
        "--seeds",
        type=positive,
        default=seeds,
        metavar="N",
        help="run that many seeds, from the seed on" + (f" (default: {seeds})" if seeds else ""),
    )
    parser.add_argument("--jobs", "-j", type=positive, metavar="M")
    parser.add_argument("--resume", type=output_file, metavar="FILE")
    parser.add_argument("--dask", metavar="ADDRESS")


def positive(text: str) -> int:
    """Parse a positive number."""
    return whole(text, 1, 10_000_000, "is no number from 1 to 10000000")


def pool_of(arguments: argparse.Namespace) -> Pool:
    """The pool for many runs."""
    from sim.app.study.pool import cores, dask, processes

    if arguments.dask is not None:
        if arguments.jobs is not None:
            raise InputError("has no effect on a Dask cluster, which has its own workers", "--jobs")
        return dask(arguments.dask)
    return processes(arguments.jobs or cores())
