"""What a script needs, without running it: the programs that it names.

Differs  a name that the script makes up (`$PROGRAM x`) is not known before it runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from actors.node.programs.shell.builtins import BUILTINS
from actors.node.programs.shell.nodes import Function, ProcessFile, Simple, Substitution, Text
from actors.node.programs.shell.parse import parse
from actors.node.programs.shell.quoting import SyntaxFault
from actors.node.programs.shell.scan import NotUnderstood

_RUN_ANOTHER = ("exec", "command", "nohup")
_BUILTINS = frozenset((*BUILTINS, "eval", ".", "source"))


def programs_in(script: str, *, bash: bool) -> tuple[list[str], str]:
    """The programs that a script runs, in order; and what the shell does not understand of it.

    The second text is empty if the shell understands the script, or if no shell does.
    """
    named: dict[str, None] = {}
    functions: set[str] = set()
    scripts = [script]
    try:
        while scripts:
            for node in _nodes(parse(scripts.pop(), bash)):
                if isinstance(node, Substitution | ProcessFile):
                    scripts.append(node.script)
                elif isinstance(node, Function):
                    functions.add(node.name)
                elif isinstance(node, Simple):
                    named[_program(node)] = None
    except NotUnderstood as error:
        return [], error.note
    except SyntaxFault:
        return [], ""
    return [name for name in named if name and name not in functions and name not in _BUILTINS], ""


def _nodes(node: Any) -> Iterator[Any]:
    """A node and all below it."""
    if isinstance(node, tuple):
        for one in node:
            yield from _nodes(one)
    elif is_dataclass(node):
        yield node
        for field in fields(node):
            yield from _nodes(getattr(node, field.name))


def _program(node: Simple) -> str:
    """The name of what a simple command runs; "" if only a run shows it."""
    for word in node.words:
        parts = word if isinstance(word, tuple) else ()
        if not parts or not all(isinstance(part, Text) for part in parts):
            return ""
        text = "".join(part.text for part in parts if isinstance(part, Text))
        if text not in _RUN_ANOTHER:
            return "" if text[:1] == "-" else text.rpartition("/")[2]
    return ""
