"""The commands of the components that run alone.

Turns the name by which the program was called and its words into a run, a page of help, or an
error with upstream's words and exit status.

Mirrors  spf13/cobra v1.4.0 command.go (errors on standard error with the usage, status 1).
Differs  a wrong value is named as in scenarios, with its option.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill

from sim.app.daemons.deprecations import deprecation
from sim.app.daemons.flags import FlagError, parse_flags
from sim.app.daemons.logs import begin
from sim.app.daemons.options import options_in
from sim.app.daemons.programs import Program, program_named
from sim.errors import InputError
from sim.ident import NAMES, Names
from sim.options.base import Option, effects_of, mapping, options_of
from sim.options.groups.logs import LogFlags
from sim.version import __version__

FAILED = 1  # the exit status of upstream's programs for every error
NAMING = "--naming"
WIDTH = 100
KUBERNETES = "v1.25.16"


def main(words: Sequence[str] | None = None) -> int:
    """Run the program of the name of this process; returns the exit status."""
    command = Path(sys.argv[0]).name
    try:
        program, names = program_named(command)
        entry, names = _naming(list(sys.argv[1:] if words is None else words), names)
        return _run(program, names, entry)
    except FlagError as error:
        print(f"Error: {error}\nSee '{command} --help' for usage.", file=sys.stderr)
    except InputError as error:
        print(f"{command}: {error}", file=sys.stderr)
    return FAILED


def _naming(words: list[str], names: Names) -> tuple[list[str], Names]:
    """Take --naming out of the words: it decides how the other options are spelled."""
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name != NAMING:
            continue
        length = 1 if equals else 2
        value = value if equals else "".join(words[index + 1 : index + 2])
        if value not in NAMES:
            raise InputError(f"is {value!r}, wanted one of {', '.join(NAMES)}", NAMING)
        return words[:index] + words[index + length :], NAMES[value]
    return words, names


def _run(program: Program, names: Names, words: Sequence[str]) -> int:
    entry, refused = program.known(names), program.refused(names)
    taken = {word.removeprefix("--").partition("=")[0] for word in words if word.startswith("--")}
    for name in taken & refused.keys() - {"help", "version"}:
        raise InputError(f"has no effect here: {refused[name]}", f"--{name}", "leave it out")
    values, request = parse_flags(words, entry)
    if request == "version":
        print(f"Orrery {__version__} (Kubernetes {KUBERNETES})")
        return 0
    if request:
        print(help_of(program, names))
        return 0
    for name in values:
        if text := deprecation(names, program.part, name):
            print(f"Flag --{name} has been deprecated, {text}", file=sys.stderr)
    logs: LogFlags = options_in(LogFlags, values, names)
    try:
        logs.check_logs(mapping(values.get("feature-gates", "")))
    except ValueError as error:
        raise InputError(str(error)) from None
    log = begin(logs, program.name(names))
    try:
        return program.run(names, values, log.set_verbosity)
    finally:
        logging.shutdown()


def help_of(program: Program, names: Names) -> str:
    """The page of --help: the options by group, each with its default and its effect."""
    name = program.name(names)
    parts = [f"{program.about}\n\nUsage:\n  {name} [flags]"]
    for title, group in groups(program, names).items():
        parts.append(f"{title} flags:\n" + "\n".join(_row(option, text, names) for option, text in group))
    parts.append(
        "Global flags:\n"
        + "\n".join(
            _line(*each)
            for each in (
                ("-h, --help", "help"),
                ("    --version", "print the version"),
                ("    --naming orch|kubernetes", "how names are spelled (default: as this command)"),
            )
        )
    )
    return "\n\n".join(parts)


def groups(program: Program, names: Names) -> Mapping[str, list[tuple[Option, str]]]:
    """The options by the class that declares them, with their effects."""
    result: dict[str, list[tuple[Option, str]]] = {}
    for options in program.options:
        effects = effects_of(options, alone=True)
        declared = {
            field: owner
            for owner in reversed(options.__mro__)
            for field in getattr(owner, "__annotations__", {})
        }
        for field, option in options_of(options).items():
            title = _title(declared[field].__name__)
            result.setdefault(title, []).append((option, effects.get(option.name, "")))
    for group in result.values():
        group.sort(key=lambda row: row[0].spelled(names))
    return result


def _title(owner: str) -> str:
    """ "ElectionFlags" as "Election"; "ControllerManagerOptions" as "Controller manager"."""
    text = owner.removesuffix("Flags").removesuffix("Options")
    return "".join(f" {each.lower()}" if each.isupper() else each for each in text).strip().capitalize()


def _row(option: Option, text: str, names: Names) -> str:
    default = option.default.format(short=names.short) if isinstance(option.default, str) else option.default
    shown = f" (default {default})" if default not in ("", False, {}, ()) else ""
    return _line(f"    --{option.spelled(names)}", f"{text}{shown}".replace("{short}", names.short))


def _line(flag: str, text: str) -> str:
    return f"  {flag}\n" + fill(text, WIDTH, initial_indent=" " * 10, subsequent_indent=" " * 10)
