"""The subcommands of `orrery`, one module a group.

A group registers itself by a function `add(commands)` that adds its parsers, each with
`set_defaults(call=...)`: a function of the parsed arguments that returns the exit status.  `GROUPS`
lists them in the order of the help.

Holds: importing a group imports nothing heavy; what a command needs is imported when it is called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sim.app.cli.commands import (
    certs,
    ctl,
    files,
    hunt,
    imports,
    reference,
    replay,
    run,
    serve,
    snapshot,
    sweep,
    trace,
    travel,
    up,
    whatif,
)

if TYPE_CHECKING:
    from sim.app.cli.commands.arguments import Commands

GROUPS: tuple[Callable[[Commands], None], ...] = (
    run.add,
    sweep.add,
    hunt.add,
    files.add,
    imports.add,
    whatif.add,
    up.add,
    serve.add,
    certs.add,
    ctl.add,
    snapshot.add,
    replay.add,
    trace.add,
    travel.add,
    reference.add,
)
