"""`orrery validate` and `orrery list`: scenario files without running them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sim.app.cli.commands.arguments import EXIT_BAD_INPUT, EXIT_OK, scenario_file
from sim.app.process.printed import print_table, tell, tell_each, visible
from sim.errors import InputError

if TYPE_CHECKING:
    from sim.app.cli.commands.arguments import Commands
    from sim.scenario.plan.plan import Plan


def add(commands: Commands) -> None:
    """Add the command."""
    validate = commands.add_parser("validate")
    validate.add_argument("scenarios", type=scenario_file, nargs="+", metavar="SCENARIO")
    validate.add_argument("--naming", choices=("orch", "kubernetes"))
    validate.set_defaults(call=_validate)

    listing = commands.add_parser("list")
    listing.add_argument("folder", type=Path, nargs="?", metavar="FOLDER")
    listing.add_argument("--json", action="store_true")
    listing.set_defaults(call=_list)


def _validate(arguments: argparse.Namespace) -> int:
    from sim.app.notes import notes_of

    status = EXIT_OK
    settings = [f"cluster.naming={arguments.naming}"] if arguments.naming else []
    for path in arguments.scenarios:
        try:
            plan = _checked(path, settings)
            for variant in plan.variants:
                _checked(path, settings, variant)
            for note in notes_of(plan):
                tell(note)
        except InputError as error:
            tell_each(error)
            status = EXIT_BAD_INPUT
        else:
            counts = f"{len(plan.cluster.nodes)} nodes, {len(plan.steps)} steps, {len(plan.expectations)} expectations"
            counts += f", {len(plan.variants)} variants" if plan.variants else ""
            print(visible(f"{path}: ok ({counts})"))
    return status


def _checked(path: Path, settings: Sequence[str] = (), variant: str = "") -> Plan:
    """The scenario of a file.  Raises InputError."""
    from sim.app.checked import checked_plan

    return checked_plan(path, settings, variant)


def _list(arguments: argparse.Namespace) -> int:
    from sim.app.reference.shipped import HERE, scenario_files, scenarios_folder
    from sim.scenario.read.head import scenario_head

    folder = scenarios_folder() if arguments.folder is None else arguments.folder
    by_name = arguments.folder is None and folder != HERE
    if not folder.is_dir():
        problem = "is no folder" if folder.exists() else "no such folder"
        raise InputError(problem, str(folder))
    rows, status = [], EXIT_OK
    for path in scenario_files(folder):
        try:
            head = scenario_head(path)
            if head is None:  # then the check of the whole file says what it is
                plan = _checked(path)
                head = {"name": plan.name, "description": plan.description}
        except InputError as error:
            tell_each(error)
            status = EXIT_BAD_INPUT
        else:
            rows.append({"file": str(path), "name": head["name"], "description": head.get("description", "")})
    if not rows and status == EXIT_OK:
        tell(f"{folder}: there are no scenarios (*.yaml) in it")
    if arguments.json:
        print(json.dumps(rows))
    else:
        shown = "name" if by_name else "file"
        print_table([(row[shown], row["description"]) for row in rows])
    return status
