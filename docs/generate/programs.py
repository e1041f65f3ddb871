"""The pages of the programs that run a component alone: their options in groups."""

from __future__ import annotations

from docs.generate.markdown import code, page, table
from sim.app.daemons.commands import groups
from sim.app.daemons.programs import PROGRAMS
from sim.ident import NAMES


def program_pages() -> dict[str, str]:
    """The page of each program, by its path below `docs`."""
    return {f"reference/programs/{_command(part)}.md": _page(part) for part in PROGRAMS}


def _command(part: str) -> str:
    return PROGRAMS[part]().name(NAMES["orch"])


def _page(part: str) -> str:
    program, names = PROGRAMS[part](), NAMES["kubernetes"]
    parts = []
    for title, group in groups(program, names).items():
        rows = [
            (code(f"--{option.spelled(names)}"), text.replace("{short}", names.short))
            for option, text in group
        ]
        parts += [f"## {title}", table(("option", "effect"), rows)]
    refused = [(code(f"--{name}"), why) for name, why in program.refused(names).items()]
    return page(
        _command(part),
        f"{program.about} `{_command(part)} --help` prints the same with the defaults. Names are those with "
        "`--naming kubernetes`. How the programs work together is shown in "
        "[Run the components alone](../../how-to/run-components-alone.md).",
        *parts,
        "## Refused options",
        "These options of the specification have no effect here, and are refused:",
        table(("option", "reason"), refused),
    )
