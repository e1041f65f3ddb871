"""The `orrery` command: parses, calls the subcommand (see `sim.app.commands`), and tells its errors.

Exit status: 0 all expectations hold, 1 one failed, 2 bad input (one line on standard error), 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from sim import __version__
from sim.app.commands import GROUPS
from sim.app.commands.arguments import EXIT_BAD_INPUT, EXIT_INTERRUPTED, EXIT_OK
from sim.errors import InputError


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the console script."""
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.call(arguments))
    except InputError as error:
        print(f"orrery: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except BaseExceptionGroup as group:
        bad = group.subgroup(InputError)
        if bad is None:
            if group.subgroup(KeyboardInterrupt) is not None:
                return _interrupted()
            raise
        print(f"orrery: {_first(bad)}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        return _interrupted()
    except BrokenPipeError:
        return EXIT_OK
    except OSError as error:
        if error.filename is None:
            raise
        print(f"orrery: {error.filename}: {error.strerror}", file=sys.stderr)
        return EXIT_BAD_INPUT


def _interrupted() -> int:
    print("orrery: interrupted", file=sys.stderr)
    return EXIT_INTERRUPTED


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_BAD_INPUT, f"orrery: {message} (see {self.prog} --help)\n")


def _parser() -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = _Parser(
        prog="orrery",
        description="A whole container cluster in virtual time: run scenarios, get verdicts with measured times.",
        epilog="Try: orrery run scenarios/zone-outage.yaml",
    )
    parser.add_argument("--version", action="version", version=f"orrery {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for add in GROUPS:
        add(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
