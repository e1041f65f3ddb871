"""Programs that everybody knows: what a container does whose command is `true`, `false`, `sleep`, `exit` or `echo`.

Turns a container's command and arguments into what is special about its behaviour (fields of `ContainerBehaviour`);
None for every other program.

Differs  nothing is run: of a shell (`sh -c`) only a single one of these commands is understood.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from sim.kernel.kernel import NEVER_US
from sim.units import MS, SECOND

Changes = dict[str, Any]
AT_ONCE_US = 100 * MS  # a program that has nothing to do

DIGITS_MAX = 18  # of an int64, whatever they are
SHELLS = ("sh", "bash", "ash", "dash")
SHELL_LINE = 3  # sh -c LINE
UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_OPERATORS = (";", "&", "|", "<", ">", "$", "`", "(", "\n")


def commanded(container: dict[str, Any]) -> Changes | None:
    """What a container's command says of it (a command of the image's own is not known)."""
    if not container.get("command"):
        return None
    words = [*container["command"], *(container.get("args") or ())]
    if _program(words) in SHELLS and len(words) == SHELL_LINE and words[1] == "-c":
        line = words[2]
        if any(operator in line for operator in _OPERATORS):
            return None
        try:
            words = shlex.split(line)
        except ValueError:
            return None
    return _behaviour(_program(words), words[1:])


def _program(words: Sequence[str]) -> str:
    return words[0].rpartition("/")[2] if words else ""


def _behaviour(program: str, arguments: Sequence[str]) -> Changes | None:
    if program == "true":
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
    sleeps_us = number * UNITS_S[unit] * SECOND
    return {"exit_after_us": max(sleeps_us, AT_ONCE_US)} if sleeps_us < NEVER_US else {}


def _number(text: str) -> int | None:
    """None: it is no number, or longer than a program would read."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX else None
