"""The `orrery` command: parses arguments, calls a subcommand (see `sim.app.cli.commands`), and
reports errors.

Exit status: 0 all expectations hold, 1 one failed, 2 bad input (one line on standard error), 130
interrupted (143 by SIGTERM, 129 by SIGHUP), 141 the reader of the output has closed it.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

from sim.app.cli.commands import GROUPS
from sim.app.cli.commands.arguments import EXIT_BAD_INPUT, EXIT_UNHEARD
from sim.app.process.garbage import rare_collections
from sim.app.process.interpreter import described
from sim.app.process.interrupts import exit_status
from sim.app.process.printed import tell_each, visible
from sim.errors import InputError, first_of, suggestion
from sim.texts import rows
from sim.version import __version__

if TYPE_CHECKING:
    from sim.app.cli.commands.arguments import Commands


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the console script."""
    _say_what_can_be_said()
    try:
        try:
            arguments = _parsed(argv)
            with rare_collections():
                return int(arguments.call(arguments))
        finally:
            if sys.stdout is not None:  # it may be closed at the start
                sys.stdout.flush()  # here, where a failure can still be reported
    except (InputError, KeyboardInterrupt, OSError, BaseExceptionGroup) as error:
        status = _reported(error)
        if status is None:
            raise
        return status


def _say_what_can_be_said() -> None:
    """Set the error handling of the outputs: a letter that the terminal lacks is replaced, and a
    file name that is not UTF-8 is written unchanged.
    """
    out = sys.stdout
    if isinstance(out, TextIOWrapper) and out.errors == "strict":
        out.reconfigure(errors="surrogateescape" if out.encoding.lower() == "utf-8" else "replace")


def _parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    """The arguments. argparse regards an optional argument as omitted if options precede it; such
    an argument is named `late`, and gets the remaining value.
    """
    parser = _parser()
    if "_ARGCOMPLETE" in os.environ:  # the shell wants completions of a command line
        import argcomplete

        argcomplete.autocomplete(parser)
    assert parser.commands is not None
    entry = sys.argv[1:] if argv is None else argv
    _check_command(entry, list(parser.commands.choices))
    chosen = parser.commands.choices.get(entry[0] if entry else "")
    if chosen is not None and (rest := chosen.get_default("rest")):  # it reads its words itself
        return argparse.Namespace(call=chosen.get_default("call"), **{rest: entry[1:]})
    _check_options(entry, parser)
    arguments, left = parser.parse_known_args(argv)
    late = getattr(arguments, "late", None)
    if late is not None and getattr(arguments, late) is None and len(left) == 1 and left[0][:1] != "-":
        setattr(arguments, late, left.pop())
    if left:
        parser.error(f"unrecognized arguments: {' '.join(left)}")
    return arguments


def _reported(error: BaseException) -> int | None:
    """Report an expected error, one line for each error of an input; returns the exit status, or None for a bug."""
    if isinstance(error, BaseExceptionGroup):
        expected = error.subgroup(lambda one: isinstance(one, InputError | KeyboardInterrupt) or _full(one))
        return None if expected is None else _reported(first_of(expected))
    if isinstance(error, BrokenPipeError):
        _drop_output()
        return EXIT_UNHEARD
    if isinstance(error, KeyboardInterrupt):
        says, status = "interrupted", exit_status(error)
    elif isinstance(error, OSError):
        if error.filename is None and not _full(error):
            return None
        if error.filename is None:
            _drop_output()
        says = f"{error.filename}: {error.strerror}" if error.filename else f"cannot write: {error.strerror}"
        status = EXIT_BAD_INPUT
    else:
        assert isinstance(error, InputError)
        tell_each(error)
        return EXIT_BAD_INPUT
    print(visible(f"orrery: {says}"), file=sys.stderr)
    return status


def _full(error: BaseException) -> bool:
    """True if the error means that a disk is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def _drop_output() -> None:
    """Drop unwritten output, which the interpreter would try to write again, with an error, at
    exit.
    """
    with suppress(OSError, AttributeError):  # standard output is not a file, or is closed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


_SECTIONS = {
    "run and judge": ("run", "sweep", "hunt", "validate", "list", "init", "import", "whatif"),
    "serve the API": ("up", "down", "serve", "certs", "ctl", "snapshot", "replay"),
    "see why": ("why", "diff", "show", "back", "fork"),
    "look up": ("faults", "conditions", "options", "schema"),
}


_TEXTS = Path(__file__).with_name("help.txt")


class _Commands(argparse._SubParsersAction):  # type: ignore[type-arg]  # not generic when it runs
    """The subcommands, with their texts from `help.txt`."""

    def add_parser(self, name: str, **more: Any) -> Any:
        """The parser of a new subcommand."""
        texts = rows(_TEXTS).get(name, {})
        entry = {key: texts[key] for key in ("help", "description", "epilog") if key in texts}
        return super().add_parser(name, **entry | more)


class _Parser(argparse.ArgumentParser):
    """The parser of the command and of its subcommands.

    An error is one line.  The help of the whole command lists the subcommands in sections; that of
    an argument is in `help.txt`.
    """

    commands: Commands | None = None

    def add_argument(self, *names: str, **more: Any) -> argparse.Action:
        """Add an argument, with its help by its long name."""
        name = next((each for each in names if each.startswith("--")), names[-1])
        texts = rows(_TEXTS)
        text = texts.get(self.prog.rpartition(" ")[2], {}).get(name) or texts["*"].get(name)
        return super().add_argument(*names, **{"help": text} | more)

    def format_help(self) -> str:
        """The help; of the whole command, with the subcommands in sections."""
        if self.commands is None:
            return super().format_help()
        texts = {action.dest: action.help or "" for action in self.commands._choices_actions}
        lines = [f"usage: {self.prog} COMMAND [ARGUMENT ...]", "", str(self.description), ""]
        for section, names in _SECTIONS.items():
            lines += [f"{section}:", *(f"  {name:10}  {texts[name]}" for name in names), ""]
        lines += [f"{self.prog} COMMAND --help describes a command; {self.prog} --version shows the version."]
        return "\n".join([*lines, str(self.epilog), ""])

    def error(self, message: str) -> NoReturn:
        """End with one line that says what is wrong."""
        self.exit(EXIT_BAD_INPUT, f"orrery: {visible(message)} (see {self.prog} --help)\n")


def _parser() -> _Parser:
    parser = _Parser(
        prog="orrery",
        description="A whole container cluster in virtual time: run scenarios, get verdicts with measured times.",
        epilog="Try: orrery run zone-outage",
    )
    parser.add_argument("--version", action="version", version=f"orrery {__version__} ({described()})")
    commands = cast(
        "Commands", parser.add_subparsers(action=_Commands, dest="command", required=True, metavar="COMMAND")
    )
    for add in GROUPS:
        add(commands)
    parser.commands = commands
    return parser


def _check_command(argv: Sequence[str], known: Iterable[str]) -> None:
    """Raise InputError, with the most similar command, if the first argument is none."""
    first = argv[0] if argv else ""
    if first and not first.startswith("-") and first not in known:
        raise InputError("there is no such command", first, suggestion(first, known, "see orrery --help"))


def _check_options(argv: Sequence[str], parser: _Parser) -> None:
    """End with one line, with the most similar option, for a long option that the command does not
    have.  argparse would first report what is missing, and would not suggest an option.
    """
    assert parser.commands is not None
    chosen = parser.commands.choices.get(argv[0] if argv else "", parser)
    entry = [*chosen._option_string_actions]
    for word in argv:
        if word == "--":
            return
        name = word.partition("=")[0]
        if name.startswith("--") and " " not in word and not any(one.startswith(name) for one in entry):
            remedy = suggestion(name, entry)
            chosen.error(f"unrecognized arguments: {name}" + (f" ({remedy})" if remedy else ""))


if __name__ == "__main__":
    sys.exit(main())
