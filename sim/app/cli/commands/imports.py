"""`orrery import`: files of other tools as scenarios."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.app.cli.commands.arguments import EXIT_FAILED, EXIT_OK
from sim.app.process.printed import visible
from sim.errors import InputError
from sim.patterns import pattern

if TYPE_CHECKING:
    from sim.app.cli.commands.arguments import Commands
    from sim.app.imports.parts import Imported

FORMATS = {
    "kubectl-dump": "what `kubectl get nodes,deployments,... -A -o yaml` prints",
    "kwok": "kwok's nodes, objects and Stages",
    "simkube": "a trace of SimKube, as JSON or msgpack",
    "chaos-mesh": "experiments of Chaos Mesh",
    "litmus": "ChaosEngines and ChaosExperiments of Litmus",
}
_NAME = pattern("[^a-z0-9]+")


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "import",
        description="Writes a scenario with the nodes, objects and experiments of files, and reports all that has no "
        "counterpart; the report is at the beginning of the scenario too. Formats: "
        + "; ".join(f"{name}: {text}" for name, text in FORMATS.items())
        + ".",
    )
    parser.add_argument(
        "format", choices=tuple(FORMATS), metavar="FORMAT", help="one of " + ", ".join(FORMATS)
    )
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--output", "-o", type=Path, metavar="FILE", default=Path("scenario.yaml"))
    parser.add_argument("--force", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.set_defaults(call=_import)


def _import(arguments: argparse.Namespace) -> int:
    from sim.app.cli.commands.arguments import check_outputs
    from sim.app.imports.documents import documents_in
    from sim.app.imports.parts import scenario_text
    from sim.files import write_text

    output: Path = arguments.output
    if arguments.check:
        return _check(arguments)
    if output.exists() and not arguments.force:
        raise InputError("exists already and is kept", str(output), "choose another name, or add --force")
    check_outputs(output, inputs=arguments.files)
    shown = ", ".join(str(file) for file in arguments.files)
    found = _importer(arguments.format)(documents_in(arguments.files), shown)
    source = ", ".join(file.name for file in arguments.files)
    write_text(output, scenario_text(found, scenario_name(output.stem), source))
    for note in found.notes:
        print(visible(f"- {note}"))
    nodes = sum(group["count"] for group in found.nodes)
    counts = f"{nodes} nodes, {len(found.objects)} objects, {len(found.steps)} steps"
    print(visible(f"wrote {output} ({counts}); now: orrery run {output}"))
    return EXIT_OK


def _check(arguments: argparse.Namespace) -> int:
    """List what an import would leave out, and what the programs of its pods cannot do."""
    from sim.app.imports.documents import documents_in
    from sim.app.imports.understood import not_understood

    shown = ", ".join(str(file) for file in arguments.files)
    found = _importer(arguments.format)(documents_in(arguments.files), shown)
    lacking = not_understood(found.objects)
    for note in (*found.notes, *lacking):
        print(visible(f"- {note}"))
    return EXIT_FAILED if lacking else EXIT_OK


def scenario_name(text: str) -> str:
    """A text as the name of a scenario."""
    return (_NAME.sub("-", text.lower()).strip("-") or "imported")[:63].strip("-")


def _importer(name: str) -> Callable[[Sequence[Any], str], Imported]:
    """The function that imports a format."""
    from sim.app.imports.chaos_mesh import import_chaos_mesh
    from sim.app.imports.dump import import_dump
    from sim.app.imports.kwok import import_kwok
    from sim.app.imports.litmus import import_litmus
    from sim.app.imports.simkube import import_simkube

    return {
        "kubectl-dump": import_dump,
        "kwok": import_kwok,
        "simkube": import_simkube,
        "chaos-mesh": import_chaos_mesh,
        "litmus": import_litmus,
    }[name]
