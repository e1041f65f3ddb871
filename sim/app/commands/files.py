"""`orrery validate` and `orrery list`: scenario files without running them."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sim.app.commands.arguments import EXIT_BAD_INPUT, EXIT_OK
from sim.errors import InputError

if TYPE_CHECKING:
    from sim.app.commands import Commands


def add(commands: Commands) -> None:
    validate = commands.add_parser("validate", help="check scenario files without running them")
    validate.add_argument("scenarios", type=Path, nargs="+", metavar="SCENARIO")
    validate.set_defaults(call=_validate)

    listing = commands.add_parser("list", help="list the scenarios in a folder, with what they show")
    listing.add_argument("folder", type=Path, nargs="?", default=Path("scenarios"), metavar="FOLDER")
    listing.add_argument("--json", action="store_true", help="print a JSON list")
    listing.set_defaults(call=_list)


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
