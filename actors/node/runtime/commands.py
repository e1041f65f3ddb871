"""Well-known programs: `true`, `false`, `sleep`, `exit`, `echo` and similar ones.

Turns a container's command and arguments into the fields of `ContainerBehaviour` that differ from
the default; None for every other program.  Sequences of such commands in a shell (`sh -c`) are
understood too, separated by `;`, `&&`, `||` and line breaks: `sleep 15; exit 1`.

Differs  nothing is executed: a script with anything else in it (a loop, a variable, a pipe, another
         program that it reaches) counts as an unknown program. A client such as `wget` always
         finds its server and ends well at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from actors.node.runtime.programs import reads_input, words_of
from actors.node.runtime.shell_scripts import Command, commands_of, program_of, script_of
from sim.kernel.pace import NEVER_US
from sim.units import MS, SECOND

Changes = dict[str, Any]
AT_ONCE_US = 100 * MS  # the run time of a program that has nothing to do
ENDS_AT_ONCE: Changes = {"exit_after_us": AT_ONCE_US}
DIGITS_MAX = 18  # an int64 has at most 19 digits, so 18 digits always fit
# Programs that read or change files and then end successfully.
BRIEF = (
    ":",
    "true",
    "date",
    "hostname",
    "id",
    "ls",
    "mkdir",
    "printf",
    "pwd",
    "rm",
    "touch",
    "uname",
    "whoami",
)
# Clients that fetch something over the network and then end.
FETCHERS = ("curl", "dig", "nslookup", "wget")
UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Step(NamedTuple):
    """A command of a script that is reached, and when that is.

    duration_us: NEVER_US if it does not end
    code: its exit code
    """

    at_us: int
    command: Command
    duration_us: int
    code: int


def commanded(container: Mapping[str, Any], *, unknown_ends: bool = False) -> Changes | None:
    """The behaviour that the command line of a container implies; None for an unknown program.

    unknown_ends: True if unknown programs of a script end well at once, as in hooks; else they keep
        running
    """
    words = words_of(container)
    line = script_of(words)
    if line is not None:
        return _script(line, ENDS_AT_ONCE if unknown_ends else None)
    if reads_input(words):
        return {} if container.get("stdin") else dict(ENDS_AT_ONCE)
    return _behaviour(program_of(words), words[1:])


def steps_of(text: str, unknown: Changes | None = None) -> Iterator[Step]:
    """The commands of a script that are reached, up to the first that does not end.

    Raises ValueError for a script that is not understood.

    unknown: the behaviour of unknown programs; None if there is none
    """
    at_us, code = 0, 0
    for command in commands_of(text):
        if (command.separator == "&&" and code) or (command.separator == "||" and not code):
            continue
        replaces = command.words[0] == "exec" and len(command.words) > 1
        words = command.words[1:] if replaces else command.words
        changes = _behaviour(program_of(words), words[1:])
        changes = unknown if changes is None else changes
        if changes is None:
            raise ValueError
        duration_us = int(changes.get("exit_after_us", NEVER_US))
        code = code if words == ["exit"] else int(changes.get("exit_code", 0))
        yield Step(at_us, command, duration_us, code)
        at_us += duration_us if duration_us > AT_ONCE_US else 0
        if words[0] == "exit" or replaces or at_us >= NEVER_US:
            return


def _script(text: str, unknown: Changes | None) -> Changes | None:
    """The behaviour of a shell with this script.

    unknown: the behaviour of unknown programs; None if there is none
    """
    try:
        steps = list(steps_of(text, unknown))
    except ValueError:
        return None
    if not any(_is_known(step.command.words) for step in steps):
        return None
    total_us = sum(step.duration_us for step in steps if step.duration_us > AT_ONCE_US)
    output = [
        " ".join(step.command.words[1:])
        for step in steps
        if step.command.words[0] == "echo" and not step.command.target
    ]
    log = {"log": "\n".join(output)} if output else {}
    if total_us >= NEVER_US:
        return log
    code = steps[-1].code
    return {"exit_after_us": max(total_us, AT_ONCE_US), **({"exit_code": code} if code else {}), **log}


def fetches(words: Sequence[str]) -> bool:
    """True if a command line runs a client, which ends as its server lets it."""
    line = script_of(words)
    if line is None:
        return program_of(words) in FETCHERS
    try:
        return any(program_of(command.words) in FETCHERS for command in commands_of(line))
    except ValueError:
        return False


def _is_known(words: Sequence[str]) -> bool:
    words = words[1:] if words[0] == "exec" else words
    return _behaviour(program_of(words), words[1:]) is not None


def _behaviour(program: str, arguments: Sequence[str]) -> Changes | None:
    if program in BRIEF or program in FETCHERS:
        return {"exit_after_us": AT_ONCE_US}
    if program == "false":
        return {"exit_after_us": AT_ONCE_US, "exit_code": 1}
    if program == "exit" and len(arguments) <= 1:
        code = _number(arguments[0]) if arguments else 0
        return None if code is None else {"exit_after_us": AT_ONCE_US, "exit_code": code % 256}
    if program == "echo":
        return {"exit_after_us": AT_ONCE_US, "log": " ".join(arguments)}
    if program == "sleep" and len(arguments) == 1:
        return _sleep(arguments[0])
    return None


def _sleep(text: str) -> Changes | None:
    if text in ("infinity", "inf"):
        return {}
    digits, unit = (text[:-1], text[-1]) if text[-1:] in UNITS_S else (text, "s")
    number = _number(digits)
    if number is None:
        return None
    duration_us = number * UNITS_S[unit] * SECOND
    return {"exit_after_us": max(duration_us, AT_ONCE_US)} if duration_us < NEVER_US else {}


def _number(text: str) -> int | None:
    """The value of a decimal text; None if it is no number or longer than any program would read."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX else None
