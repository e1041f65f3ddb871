"""Programs of a user in runs of other processes, as those of a hunt: by the names of functions.

Turns "module:function" into an async function of a client, a function into such a text, and a plan
into one with programs.

Holds: a scenario file has the names of processes only, since it is data; the command that starts a
run says which functions they run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import replace
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

from sim.client import Client
from sim.errors import InputError
from sim.scenario.plan.plan import Plan

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


def sources_digest(references: Iterable[str]) -> str:
    """A digest of the modules of functions and of those beside them; "" of no function.

    Results that an earlier version of a program made must not be mixed with others.
    """
    digest = sha256()
    modules = sorted({reference.partition(":")[0] for reference in references})
    for module in modules:
        spec = find_spec(module)
        assert spec is not None and spec.origin is not None, "a function at the top of it was found"
        for path in sorted(Path(spec.origin).parent.glob("*.py")):
            digest.update(f"{module} {path.name} ".encode() + path.read_bytes())
    return digest.hexdigest() if modules else ""


def bound(plan: Plan, programs: Mapping[str, str]) -> Plan:
    """As `with_functions`.  Raises InputError if the plan has the name of a program without one."""
    refuse_missing(plan.cluster.own_programs, programs, plan.file)
    return with_functions(plan, programs)


def with_functions(plan: Plan, programs: Mapping[str, str]) -> Plan:
    """A plan with functions for the programs of a user; it names them all.

    programs: "module:function" by the name of the process
    """
    names = dict.fromkeys((*plan.cluster.own_programs, *programs))
    document = None if plan.document is None else declared(plan.document, programs)
    cluster = replace(plan.cluster, own_programs=tuple(names))
    own = tuple((name, programs[name]) for name in names if name in programs)
    return replace(plan, cluster=cluster, document=document, own_programs=own)


def declared(document: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """A scenario that has the names of programs besides its own."""
    spec = document["spec"]
    cluster = spec.get("cluster") or {}
    known = cluster.get("ownPrograms", ())
    every = [*known, *(name for name in names if name not in known)]
    return (
        {**document, "spec": {**spec, "cluster": {**cluster, "ownPrograms": every}}}
        if every
        else {**document}
    )


def refuse_missing(named: Collection[str], given: Collection[str], file: str = "") -> None:
    """Raise InputError if the name of a program is not among those that a run has."""
    for name in named:
        if name not in given:
            remedy = f"add --program {name}=module:function, or in Python `add_program` in `prepare`"
            raise InputError(f"the scenario has the program {name!r}, which this run has not", file, remedy)
