"""`orrery back` and `orrery fork`: a run as it was at an instant, and as it could have gone on."""

from __future__ import annotations

import argparse
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from sim.app.cli.commands.arguments import (
    EXIT_OK,
    add_programs,
    add_seed,
    check_outputs,
    programs_of,
    scenario_file,
)
from sim.app.cli.commands.run import add_outputs, run_once
from sim.app.process.printed import tell
from sim.errors import InputError
from sim.files import replaced

if TYPE_CHECKING:
    from sim.app.cli.commands.arguments import Commands
    from sim.app.run import Result


def add(commands: Commands) -> None:
    """Add the commands."""
    back = commands.add_parser("back")
    back.add_argument("trace", type=Path, metavar="TRACE|JOURNAL")
    back.add_argument("time", metavar="TIME")
    back.add_argument("--scenario", type=scenario_file, metavar="FILE")
    add_programs(back)
    back.add_argument("words", nargs=argparse.REMAINDER, metavar="-- WORDS ...")
    back.set_defaults(call=_back)
    fork = commands.add_parser("fork")
    fork.add_argument("run", type=Path, metavar="TRACE|SCENARIO")
    fork.add_argument("time", metavar="TIME")
    fork.add_argument("--with", dest="steps", type=Path, action="append", default=[], metavar="FILE")
    fork.add_argument("--instead", action="store_true")
    fork.add_argument("--for", dest="lasts", default="", metavar="TIME")
    fork.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    add_programs(fork)
    add_seed(fork)
    add_outputs(fork, "out/<scenario>-fork.html")
    fork.set_defaults(call=_fork)


def _back(arguments: argparse.Namespace) -> int:
    from sim.app.inspect.moment import as_it_was, instant
    from sim.app.inspect.words import look_of
    from sim.app.serving.moments import as_it_was_served, is_journal

    words = arguments.words[1:] if arguments.words[:1] == ["--"] else arguments.words
    look = look_of(words)
    file, at_us, programs = arguments.trace, instant(arguments.time), programs_of(arguments)
    if is_journal(file):
        if programs:
            raise InputError("a served cluster runs no program of yours", "--program", "leave it out")
        lines = as_it_was_served(file, at_us, look, arguments.scenario)
    else:
        lines = as_it_was(file, at_us, look, arguments.scenario, programs)
    for line in lines:
        print(line)
    return EXIT_OK


def _fork(arguments: argparse.Namespace) -> int:
    from sim.app.inspect.checkpoints import Future, continued, door_of
    from sim.app.inspect.forked import forked_plan
    from sim.app.inspect.moment import instant
    from sim.app.study.outcome import program_digest

    outputs = arguments.trace, arguments.perfetto, arguments.report, arguments.junit
    check_outputs(*outputs, inputs=(arguments.run, *arguments.steps))
    if not arguments.steps and not arguments.instead:
        raise InputError("another future needs other steps", "--with", "name a file of steps")
    at_us, door = instant(arguments.time), door_of(arguments.run)
    plan = forked_plan(
        arguments.run,
        at_us,
        arguments.steps,
        instead=arguments.instead,
        lasts=arguments.lasts,
        settings=arguments.set,
        seed=arguments.seed,
        programs=programs_of(arguments),
    )

    def from_checkpoint(trace: Path | None) -> Result | None:
        if not door.exists():
            return None
        with TemporaryDirectory() as folder:
            file = Path(folder, "run.trace").absolute()
            result: Result | str = continued(door, Future(at_us, program_digest(), plan, file))
            if isinstance(result, str):
                tell(f"the run is repeated from its start: {result}")
                return None
            if trace is not None:
                with replaced(trace) as copy, file.open("rb") as source:
                    copyfileobj(source, copy)
            return result

    return run_once(arguments, plan, continued=from_checkpoint)
