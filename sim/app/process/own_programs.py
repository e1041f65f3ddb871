"""Programs of a user in runs of other processes, as those of a hunt: by the names of functions.

Turns "module:function" into an async function of a client, and a function into such a text.

Holds: a scenario file names no program, since it is data; the command that starts a run does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from typing import TypeAlias

from sim.client import Client
from sim.errors import InputError

Program: TypeAlias = Callable[[Client], Awaitable[object]]
REMEDY = "write it as module:function, with an async function of a client at the top of the module"


def program_at(reference: str) -> Program:
    """The function of a name such as "package.module:run".  Raises InputError."""
    module, _, name = reference.partition(":")
    try:
        program: Program | None = getattr(import_module(module), name, None) if module and name else None
    except ImportError as error:
        raise InputError(f"{reference!r} cannot be imported: {error}", "program", REMEDY) from None
    if not callable(program):
        raise InputError(f"there is no function {reference!r}", "program", REMEDY)
    return program


def references(programs: Mapping[str, Program | str]) -> dict[str, str]:
    """The names of functions, by the name of the process.  Raises InputError for a function that
    another process cannot find.
    """
    result = {}
    for process, program in programs.items():
        text = program if isinstance(program, str) else f"{program.__module__}:{program.__qualname__}"
        local = text.startswith("__main__:") or (callable(program) and "<" in text)
        if local or (callable(program) and program_at(text) is not program):
            raise InputError(f"{process!r} is a function that other processes cannot find", "program", REMEDY)
        program_at(text)
        result[process] = text
    return result
