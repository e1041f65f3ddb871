"""The shells of images: sh, ash, dash and bash, as one program that behaves like each of them.

`scan` turns a script into a skeleton with its words set aside, `parse` the skeleton into `nodes` by
tree-sitter-bash, and `interpret` runs them as a generator over a `Process`.  `expand` turns words
into fields, `redirect` leads descriptors, `state` is what a shell remembers; `builtins`,
`processes`, `conditions` and `arithmetic` are the commands of its own.  `start.run` is
the program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actors.node.programs.process import Process
    from actors.node.programs.waits import Main


def run(process: Process) -> Main:
    """The program of a shell."""
    from actors.node.programs.shell import start  # its parser takes some 10 ms to load

    return start.run(process)
