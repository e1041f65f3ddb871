"""The page of the command line, from the parsers of the commands."""

from __future__ import annotations

import argparse
import re

from docs.generate.markdown import block, code, page, table
from sim.app.cli.main import _SECTIONS, _parser

_ADDRESS = re.compile(r"https?://\S+\w")


def commands_page() -> str:
    """Every command with its arguments."""
    commands = _parser().commands
    assert commands is not None
    help_of = {action.dest: action.help or "" for action in commands._choices_actions}
    parts = []
    for section, names in _SECTIONS.items():
        parts.append(f"## {section[0].upper()}{section[1:]}")
        parts += [_command(name, help_of[name], commands.choices[name]) for name in names]
    return page(
        "Commands",
        "`orrery --help` lists the commands in the same sections. Exit status: 0 every expectation holds, 1 one "
        "failed, 2 the input is wrong (the message names file, line, column and remedy), 130 stopped by Ctrl-C.",
        *parts,
    )


def _command(name: str, summary: str, parser: argparse.ArgumentParser) -> str:
    rows = [(_spelled(action), _help(action, parser)) for action in parser._actions if action.dest != "help"]
    epilog = (parser.epilog or "").removeprefix("examples: ").removeprefix("example: ")
    parts = (
        f"### orrery {name}",
        f"{summary[:1].upper()}{summary[1:]}." if not parser.description else _text(parser.description),
        table(("argument", "meaning"), rows) if rows else "",
        block("text", epilog.replace("; ", "\n")) if epilog else "",
    )
    return "\n\n".join(part for part in parts if part)


def _spelled(action: argparse.Action) -> str:
    names = ", ".join(action.option_strings)
    value = action.metavar or (action.dest.upper() if action.nargs != 0 else "")
    if isinstance(value, tuple):
        value = " ".join(value)
    if action.nargs == 0:
        value = ""
    return code(f"{names} {value}".strip())


def _help(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    formatter = parser._get_formatter()
    return _text(formatter._expand_help(action)) if action.help else ""


def _text(words: str) -> str:
    """Text of the terminal as Markdown: what looks like a tag or an emphasis is not one."""
    escaped = words.replace("<", "&lt;").replace("*", "\\*").replace("[", "\\[")
    return _ADDRESS.sub(lambda found: f"<{found[0]}>", escaped)
