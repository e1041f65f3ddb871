"""`orrery init`, and the reference on the terminal: `faults`, `conditions`, `options`, `schema`."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from sim.app.cli.commands.arguments import EXIT_OK
from sim.app.cli.completion import complete_with, daemons, steps
from sim.app.process.printed import print_table, visible
from sim.errors import InputError, suggestion_or_all
from sim.patterns import pattern

if TYPE_CHECKING:
    from sim.app.cli.commands.arguments import Commands
    from sim.app.reference.options import GateRow

_NAME = pattern(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_WIDTH = 100


def add(commands: Commands) -> None:
    """Register the commands of this group."""
    init = commands.add_parser("init")
    init.add_argument("name", metavar="NAME")
    init.add_argument("--like", choices=("node-loss", "rollout", "webhook", "failover"), default="node-loss")
    init.add_argument("--force", action="store_true")
    init.set_defaults(call=_init)

    faults = commands.add_parser("faults")
    name = faults.add_argument("name", nargs="?", metavar="NAME")
    complete_with(name, steps)
    faults.set_defaults(call=_faults)

    conditions = commands.add_parser("conditions")
    conditions.set_defaults(call=_conditions)

    options = commands.add_parser("options")
    daemon = options.add_argument("daemon", nargs="?", metavar="DAEMON")
    complete_with(daemon, daemons)
    options.add_argument("--naming", choices=("orch", "kubernetes"), default="kubernetes")
    options.add_argument("--alone", action="store_true", help="of the program that runs alone")
    options.set_defaults(call=_options)

    schema = commands.add_parser("schema")
    schema.set_defaults(call=_schema)
    for parser in (faults, conditions, options):
        parser.add_argument("--json", action="store_true", help="print JSON")


def _init(arguments: argparse.Namespace) -> int:
    from sim.app.reference.first import first_scenario
    from sim.app.reference.schema import FILE, schema_text
    from sim.files import write_text

    name = arguments.name.removesuffix(".yaml")
    if not _NAME.fullmatch(name):
        raise InputError(
            "is no name of a scenario", name, "use lower-case letters, digits and -, 63 characters at most"
        )
    path, schema = Path(f"{name}.yaml"), Path(FILE)
    if path.exists() and not arguments.force:
        raise InputError("exists already and is kept", str(path), "choose another name, or add --force")
    write_text(path, first_scenario(arguments.like, name, FILE))
    written = [str(path)]
    if not schema.exists():
        write_text(schema, schema_text())
        written.append(str(schema))
    print(visible(f"wrote {' and '.join(written)}; now: orrery run {path}"))
    return EXIT_OK


def _faults(arguments: argparse.Namespace) -> int:
    from sim.app.reference.steps import step_pages

    pages = step_pages()
    if arguments.name is None:
        if arguments.json:
            print(json.dumps([page.to_json() for page in pages.values()]))
            return EXIT_OK
        for title, target in (("Faults", True), ("What a user does", False)):
            print(f"{title}:")
            print_table(
                [(f"  {page.name}", page.summary) for page in pages.values() if page.fault is target], _WIDTH
            )
        print("\norrery faults NAME describes one, with an example.")
        return EXIT_OK
    page = pages.get(arguments.name)
    if page is None:
        raise InputError(
            "there is no such kind of step", arguments.name, suggestion_or_all(arguments.name, pages)
        )
    if arguments.json:
        print(json.dumps(page.to_json()))
        return EXIT_OK
    print(textwrap.fill(f"{page.name}: {page.documentation}", _WIDTH, break_on_hyphens=False))
    print("\nParameters:")
    for parameter in page.parameters:
        default = f" (default {parameter.default})" if parameter.default not in ("", "required") else ""
        required = " (required)" if parameter.default == "required" else ""
        print_table([(f"  {parameter.name}", f"{parameter.meaning}{default}{required}")], _WIDTH)
    print(f"\nExample:\n{textwrap.indent(page.example, '  ')}")
    return EXIT_OK


def _conditions(arguments: argparse.Namespace) -> int:
    from sim.app.reference.conditions import CONDITIONS, SYNTAX, ConditionRow
    from sim.app.reference.invariants import invariant_rows

    invariants = [
        ConditionRow("invariants", f"invariant: {r.name}", r.documentation, r.example)
        for r in invariant_rows()
    ]
    conditions = (*CONDITIONS, *invariants)
    if arguments.json:
        print(json.dumps([row._asdict() for row in conditions]))
        return EXIT_OK
    print(SYNTAX)
    for part in dict.fromkeys(row.part for row in conditions):
        print(f"\n{part[0].upper()}{part[1:]}:")
        rows = [row for row in conditions if row.part == part]
        print_table([(f"  {row.form}", f"{row.meaning}: {row.example}") for row in rows], _WIDTH)
    return EXIT_OK


def _options(arguments: argparse.Namespace) -> int:
    from sim.app.reference.options import DAEMONS, alone_rows, daemon_named, gate_rows, option_rows
    from sim.ident import NAMES

    named, naming = daemon_named(arguments.daemon or DAEMONS[0])
    if not named:
        raise InputError(
            "there is no such daemon", arguments.daemon, suggestion_or_all(arguments.daemon, DAEMONS)
        )
    daemons = DAEMONS if arguments.daemon is None else (named,)
    names = NAMES[naming or arguments.naming]
    result = {daemon: option_rows(daemon, names, alone=arguments.alone) for daemon in daemons}
    if arguments.json:
        of_gates = {daemon: [row._asdict() for row in gate_rows(daemon)] for daemon in daemons}
        options = {daemon: [row._asdict() for row in rows] for daemon, rows in result.items()}
        alone = {daemon: [row._asdict() for row in alone_rows(daemon, names)] for daemon in daemons}
        print(json.dumps(options | {"feature-gates": of_gates, "alone": alone}))
        return EXIT_OK
    for daemon, rows in result.items():
        effective = [row for row in rows if row.effect]
        print(f"{daemon}: {len(effective)} options with an effect")
        print_table([(f"  {row.name}={row.default}", row.effect) for row in effective], _WIDTH)
        for heading, field in (
            ("taken without an effect", "taken"),
            ("refused, since they would have no effect", "reason"),
        ):
            reasons = dict.fromkeys(reason for row in rows if (reason := getattr(row, field)))
            if reasons:
                print(f"\n  {heading}:")
            for reason in reasons:
                print(f"  {reason}:")
                _indented(row.name for row in rows if getattr(row, field) == reason)
        if not arguments.alone:
            print("\n  taken where it runs alone, as a process of its own (--alone shows all):")
            alone_shown = [
                (f"  {row.name}={row.default}", row.effect or row.taken) for row in alone_rows(daemon, names)
            ]
            print_table(alone_shown, _WIDTH)
        gates = gate_rows(daemon)
        print("\n  feature gates, + on by default, = locked; those with an effect in this daemon:")
        _indented(_gate(row) for row in gates if row.effect)
        print("  all others are taken and have no effect in this daemon:")
        idle = [_gate(row) for row in gates if not row.effect]
        _indented(idle if arguments.daemon else [f"{len(idle)}, which orrery options {daemon} lists"])
        print()
    return EXIT_OK


def _gate(row: GateRow) -> str:
    return f"{row.name} ({row.stage}{'+' if row.default else ''}{'=' if row.locked else ''})"


def _indented(words: Iterable[str]) -> None:
    """Print words with commas between them, below a heading."""
    text = textwrap.fill(", ".join(words), _WIDTH - 4, break_on_hyphens=False, break_long_words=False)
    print(textwrap.indent(text, "    "))


def _schema(arguments: argparse.Namespace) -> int:
    from sim.app.reference.schema import schema_text

    sys.stdout.write(schema_text())
    return EXIT_OK
