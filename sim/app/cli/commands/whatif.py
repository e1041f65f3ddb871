"""`orrery whatif`: what a cluster loses when parts of it fail, from a kubectl dump."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from sim.app.cli.commands.arguments import add_seed, check_outputs
from sim.app.cli.commands.imports import scenario_name
from sim.app.cli.commands.run import add_outputs, run_once
from sim.app.cli.completion import complete_with
from sim.app.process.printed import tell, visible
from sim.errors import InputError, Problems

if TYPE_CHECKING:
    from sim.app.cli.commands.arguments import Commands
    from sim.app.imports.losses import Question
    from sim.scenario.plan.plan import Plan

_PARTS = """zone=NAME or node=NAME (by the label and the name that kubectl shows); apiserver, controller-manager,
scheduler (all replicas) or storage (its quorum); webhook (all of the dump) or webhook=NAME"""
_DESCRIPTION = """Answers what a cluster loses when parts of it fail, without a scenario of your own. FILE holds what
`kubectl get nodes,namespaces,deployments,... -A -o yaml` prints. The cluster begins as the dump is, two minutes later
the parts are lost, and after --for they return. Judged is each workload (Deployment, StatefulSet, ReplicaSet or
ReplicationController): that it serves all the time, with the pods that its PodDisruptionBudget needs or with one; and that
it has all its pods again ten minutes after the return. A Pod without a controller stays. If a part of the control plane
or a webhook is lost, a new Deployment gets its pod within a minute. Each line shows for how long service was lost and the
lowest number of pods; a line that fails names the chain of causes. The scenario that ran is written to --save, and its
timeline and expectations are printed. Exit status: 0 nothing is lost, 1 something is, 2 bad input."""


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser("whatif", description=_DESCRIPTION)
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    lose = parser.add_argument(
        "--lose", action="append", required=True, metavar="PART", help=f"what is lost: {_PARTS} (repeatable)"
    )
    complete_with(lose, _completed)
    parser.add_argument("--for", dest="lasts", default="20m", metavar="TIME")
    parser.add_argument("--how", default="power-loss", metavar="HOW")
    parser.add_argument("--allow", default="0s", metavar="TIME")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--save", type=Path, metavar="FILE")
    parser.add_argument("--force", action="store_true")
    add_seed(parser)
    add_outputs(parser, "out/<name of the question>.html")
    parser.set_defaults(call=_whatif)


def _completed(prefix: str, **_: Any) -> list[str]:
    """The parts that a shell completes."""
    from sim.app.imports.losses import KINDS

    return [form.removesuffix("NAME") for form in KINDS if form.startswith(prefix)]


def _whatif(arguments: argparse.Namespace) -> int:
    from sim.app.imports.losses import with_losses
    from sim.app.imports.parts import scenario_value, text_of

    question = _question(arguments)
    if arguments.save is not None and arguments.save.exists() and not arguments.force:
        raise InputError(
            "exists already and is kept", str(arguments.save), "choose another name, or add --force"
        )
    written = (arguments.save, arguments.trace, arguments.perfetto, arguments.report, arguments.junit)
    check_outputs(*written, inputs=arguments.files)
    found = with_losses(_imported(arguments.files), question)
    sources = ", ".join(file.name for file in arguments.files)
    name = scenario_name(f"{arguments.files[0].stem}-without-{'-'.join(map('-'.join, question.losses))}")
    description = f"What is lost if {question.words} (from {sources})."
    scenario = _with_settings(scenario_value(found, name, description), arguments.set)
    with _kept(arguments.save) as path:
        plan = _plan(path, text_of(scenario, found.notes), arguments.save is None)
        if not arguments.json:
            _introduce(question, scenario, arguments.save)
        return run_once(arguments, plan if arguments.seed is None else replace(plan, seed=arguments.seed))


def _question(arguments: argparse.Namespace) -> Question:
    from sim.app.imports.losses import NODES_FAIL, Question, parsed_loss
    from sim.errors import suggestion_or_all

    if arguments.how not in NODES_FAIL:
        remedy = suggestion_or_all(arguments.how, NODES_FAIL)
        raise InputError("is no way in which nodes fail", f"--how {arguments.how}", remedy)
    losses = tuple(dict.fromkeys(parsed_loss(text) for text in arguments.lose))
    lasts_us = _duration(arguments.lasts, "--for", least=1)
    return Question(losses, lasts_us, arguments.how, _duration(arguments.allow, "--allow", least=0))


def _duration(text: str, option: str, least: int) -> int:
    """Microseconds of a duration.  Raises InputError."""
    from sim.units import SECOND, parse_duration_us

    try:
        found = parse_duration_us(text)
    except ValueError:
        raise InputError("is no duration", f"{option} {text}", "write it as 90s or 20m") from None
    if not least <= found <= 30 * 24 * 3600 * SECOND:
        raise InputError("is out of bounds", f"{option} {text}", "at most 30 days, and no negative time")
    return found


def _imported(files: Sequence[Path]) -> Any:
    """The import of the files."""
    from sim.app.imports.documents import documents_in
    from sim.app.imports.dump import import_dump

    return import_dump(documents_in(files), ", ".join(map(str, files)))


def _with_settings(scenario: dict[str, Any], settings: Sequence[str]) -> dict[str, Any]:
    """The scenario with the settings in it, so that its file needs none."""
    from sim.scenario.read.settings import override
    from sim.scenario.read.source import Document

    document = Document("", scenario)
    for setting in settings:
        override(document, setting)
    return scenario


@contextmanager
def _kept(save: Path | None) -> Iterator[Path]:
    """The path of the scenario: that of --save, or one that lasts as long as the run."""
    if save is not None:
        yield save
        return
    with TemporaryDirectory() as folder:
        yield Path(folder) / "whatif.yaml"


def _plan(path: Path, text: str, passing: bool) -> Plan:
    """Write the scenario and plan it.  passing: True if the user does not get the file"""
    from sim.app.checked import checked_plan
    from sim.app.notes import notes_of
    from sim.errors import each_error
    from sim.files import write_text

    write_text(path, text)
    try:
        plan = checked_plan(path)
    except InputError as error:
        if not passing:
            raise
        tell("the scenario has errors; --save FILE keeps it, so that the lines can be looked up")
        problems = Problems()
        for one in each_error(error):
            problems.add(InputError(one.message, one.place.replace(str(path), path.name), one.remedy))
        problems.report()
        raise  # not reached: there is an error
    for note in notes_of(plan):
        tell(note)
    return plan


def _introduce(question: Question, scenario: dict[str, Any], save: Path | None) -> None:
    """Print the part of the scenario that the dump does not hold."""
    from sim.app.imports.parts import text_of

    spec = scenario["spec"]
    added = {"duration": spec["duration"], "timeline": spec["timeline"], "expect": spec.get("expect", [])}
    where = f"written to {save}" if save is not None else "--save FILE keeps the whole scenario"
    print(visible(f"# what if {question.words}: the dump's cluster with this timeline ({where})"))
    for line in text_of(added).splitlines():
        print(visible(line))
    print()
