"""`orrery replay`: what was served, made again."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from sim.app.cli.commands.arguments import check_outputs
from sim.app.cli.commands.run import add_outputs, run_once
from sim.app.process.printed import tell

if TYPE_CHECKING:
    from sim.app.cli.commands.arguments import Commands


def add(commands: Commands) -> None:
    """Add the command."""
    replay = commands.add_parser("replay")
    replay.add_argument("journal", type=Path, metavar="JOURNAL")
    replay.add_argument("--scenario", type=Path, metavar="FILE")
    add_outputs(replay, "out/<scenario>.html")
    replay.set_defaults(call=_replay)


def _replay(arguments: argparse.Namespace) -> int:
    from sim.app.serving.journal import read_journal
    from sim.app.serving.moments import outside_of
    from sim.app.study.outcome import program_digest
    from sim.report.story import clock

    journal = read_journal(arguments.journal)
    plan = journal.plan(arguments.scenario)
    outputs = arguments.trace, arguments.perfetto, arguments.report, arguments.junit
    check_outputs(*outputs, inputs=(arguments.journal, arguments.scenario))
    tell(journal.note)
    if journal.head.program != program_digest():
        tell("the journal was written by another version of this program: the run may differ")
    if journal.stop is not None:
        at, why = clock(journal.stop.at_us), journal.stop.why
        tell(f"the journal could not be written from {at} on ({why}): what was served later is not replayed")
    elif journal.end is None:
        tell("the server was killed or still runs: the journal has no end to compare with")
    return run_once(arguments, plan, outside_of(journal))
