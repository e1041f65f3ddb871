"""Well-known programs: `true`, `false`, `sleep`, `exit`, `echo` and similar ones.

Turns a container's command and arguments into the fields of `ContainerBehaviour` that differ from
the default; None for every other program.  Sequences of such commands in a shell (`sh -c`) are
understood too, separated by `;`, `&&`, `||` and line breaks: `sleep 15; exit 1`.

Differs  nothing is executed: a script with anything else in it (a loop, a variable, a pipe, another
         program that it reaches) counts as an unknown program.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from sim.kernel.kernel import NEVER_US
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
SHELLS = ("sh", "bash", "ash", "dash")
SHELL_LINE = 3  # sh -c LINE
UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_SEPARATORS = (";", "&&", "||")
_UNSUPPORTED = frozenset("&|<>()$`#")
_KEYWORDS = (
    "!", "{", "}", "if", "then", "elif", "else", "fi", "while", "until", "for",
    "do", "done", "case", "esac", "function", "time",
)  # fmt: skip
# a line that continues on the next one
_CONTINUED_LINE = re.compile(r"(&&|\|\||)(?:\\\n|(?<=[&|])\s*\n)")


def commanded(container: dict[str, Any], *, unknown_ends: bool = False) -> Changes | None:
    """The behaviour that a container's command implies; the command of its image is unknown.

    unknown_ends: True if unknown programs of a script end well at once, as in hooks; else they keep
        running
    """
    if not container.get("command"):
        return None
    words = [*container["command"], *(container.get("args") or ())]
    if _program(words) in SHELLS and len(words) == SHELL_LINE and words[1] == "-c":
        return _script(words[2], ENDS_AT_ONCE if unknown_ends else None)
    return _behaviour(_program(words), words[1:])


def _script(text: str, unknown: Changes | None) -> Changes | None:
    """The behaviour of a shell with this script.

    unknown: the behaviour of unknown programs; None if there is none
    """
    total_us, code, output, known = 0, 0, list[str](), False
    try:
        for separator, words in _commands(text):
            if (separator == "&&" and code) or (separator == "||" and not code):
                continue
            changes = _behaviour(_program(words), words[1:])
            known = known or changes is not None
            changes = unknown if changes is None else changes
            if changes is None:
                return None
            if "log" in changes:
                output.append(changes["log"])
            duration_us = changes.get("exit_after_us", NEVER_US)
            total_us += duration_us if duration_us > AT_ONCE_US else 0
            code = code if words == ["exit"] else changes.get("exit_code", 0)
            if words[0] == "exit" or total_us >= NEVER_US:
                break
    except ValueError:
        return None
    if not known:
        return None
    log = {"log": "\n".join(output)} if output else {}
    if total_us >= NEVER_US:
        return log
    return {"exit_after_us": max(total_us, AT_ONCE_US), **({"exit_code": code} if code else {}), **log}


def _commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a script and the separator before each.

    Raises ValueError if the script holds anything else.
    """
    line = _CONTINUED_LINE.sub(r"\1 ", text).replace("\n", ";")
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    separator, words = ";", list[str]()
    for token in lexer:
        if token not in _SEPARATORS and not token.strip(";"):
            token = ";"  # empty lines give several separators in a row
        if token in _SEPARATORS:
            if words:
                yield separator, words
            elif token != ";" or separator != ";":
                raise ValueError
            separator, words = token, []
        elif _UNSUPPORTED.intersection(token) or (not words and token in _KEYWORDS):
            raise ValueError
        else:
            words.append(token)
    if words:
        yield separator, words
    elif separator != ";":
        raise ValueError


def _program(words: Sequence[str]) -> str:
    return words[0].rpartition("/")[2] if words else ""


def _behaviour(program: str, arguments: Sequence[str]) -> Changes | None:
    if program in BRIEF:
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
