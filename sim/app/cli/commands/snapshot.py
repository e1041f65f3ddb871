"""`orrery snapshot`: keep, list, restore and fork the states of a data directory."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from sim.app.cli.commands.arguments import EXIT_OK

if TYPE_CHECKING:
    from sim.app.cli.commands.arguments import Commands

DATA = Path(".orrery/data")


def add(commands: Commands) -> None:
    """Add the command."""
    snapshot = commands.add_parser("snapshot")
    snapshot.add_argument("what", choices=("save", "list", "restore", "fork"))
    snapshot.add_argument("name", nargs="?", default="", metavar="NAME")
    snapshot.add_argument("--data-dir", type=Path, default=DATA, metavar="DIR")
    snapshot.add_argument("--to", type=Path, metavar="DIR")
    snapshot.set_defaults(call=_snapshot)


def _snapshot(arguments: argparse.Namespace) -> int:
    from sim.app.serving import snapshots
    from sim.errors import InputError
    from sim.report.story import clock

    folder, name = arguments.data_dir, arguments.name
    if not name and arguments.what in ("save", "restore"):
        raise InputError(f"{arguments.what} wants the name of a snapshot", "NAME")
    if (arguments.to is None) == (arguments.what == "fork"):
        raise InputError("goes with fork, which needs it", "--to")
    if arguments.what == "save":
        print(f"saved {name} at {clock(snapshots.save(folder, name).virtual_us)}")
    elif arguments.what == "list":
        for one in snapshots.listed(folder):
            print(f"{clock(one.virtual_us):>16}  {one.operations:7} operations  {one.name}")
    elif arguments.what == "restore":
        print(f"restored {name}; what was there is {snapshots.restore(folder, name).name}")
    else:
        snapshots.fork(folder, name, arguments.to)
        print(f"forked: orrery serve --data-dir {arguments.to}")
    return EXIT_OK
