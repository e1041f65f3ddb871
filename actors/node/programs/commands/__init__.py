"""The tools of an image: one file a family.

`COMMANDS` has the program of each; it takes its texts from busybox or GNU, as the files of its
container say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from actors.node.programs.commands import (
    archives,
    attributes,
    awk,
    changing,
    conditions,
    dumps,
    editing,
    listing,
    matching,
    network,
    reading,
    running,
    sizes,
    sorting,
    system,
    texts,
)
from actors.node.programs.commands.tool import command
from actors.node.programs.process import Process
from actors.node.programs.waits import Main

_FAMILIES = (
    archives,
    attributes,
    awk,
    changing,
    conditions,
    dumps,
    editing,
    listing,
    matching,
    network,
    reading,
    running,
    sizes,
    sorting,
    system,
    texts,
)

COMMANDS: Mapping[str, Callable[[Process], Main]] = {
    name: command(run) for family in _FAMILIES for name, run in sorted(family.COMMANDS.items())
}
