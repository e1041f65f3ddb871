"""Programs that everybody knows: what a container does whose command is `true`, `false`, `sleep`, `exit`, `echo` or alike.

Turns a container's command and arguments into what is special about its behaviour (fields of `ContainerBehaviour`);
None for every other program.  Of a shell (`sh -c`) such commands one after the other are understood, with `;`, `&&`, `||` and
new lines between them: `sleep 15; exit 1`.

Differs  nothing is run: a script that holds anything else (a loop, a variable, a pipe, another program where it is come to) is no
program that is known.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from sim.kernel.kernel import NEVER_US
from sim.units import MS, SECOND

Changes = dict[str, Any]
AT_ONCE_US = 100 * MS  # a program that has nothing to do
OTHERS: Changes = {"exit_after_us": AT_ONCE_US}
DIGITS_MAX = 18  # of an int64, whatever they are
# What looks at a machine or its files, and has then ended well.
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
_BETWEEN = (";", "&&", "||")
_MEANS_MORE = frozenset("&|<>()$`#")
_KEYWORDS = (
    "!", "{", "}", "if", "then", "elif", "else", "fi", "while", "until", "for",
    "do", "done", "case", "esac", "function", "time",
)  # fmt: skip
_GOES_ON = re.compile(r"(&&|\|\||)(?:\\\n|(?<=[&|])\s*\n)")  # lines that the next one belongs to


def commanded(container: dict[str, Any], *, others_end: bool = False) -> Changes | None:
    """What a container's command says of it (a command of the image's own is not known).

    others_end: programs of a script that are not known end well at once, as those of hooks do; else they run on
    """
    if not container.get("command"):
        return None
    words = [*container["command"], *(container.get("args") or ())]
    if _program(words) in SHELLS and len(words) == SHELL_LINE and words[1] == "-c":
        return _script(words[2], OTHERS if others_end else None)
    return _behaviour(_program(words), words[1:])


def _script(text: str, others: Changes | None) -> Changes | None:
    """What a shell does that is given these commands; others: what programs do that are not known."""
    took_us, code, said, known = 0, 0, list[str](), False
    try:
        for between, words in _commands(text):
            if (between == "&&" and code) or (between == "||" and not code):
                continue
            did = _behaviour(_program(words), words[1:])
            known = known or did is not None
            did = others if did is None else did
            if did is None:
                return None
            if "log" in did:
                said.append(did["log"])
            lasts_us = did.get("exit_after_us", NEVER_US)
            took_us += lasts_us if lasts_us > AT_ONCE_US else 0
            code = code if words == ["exit"] else did.get("exit_code", 0)
            if words[0] == "exit" or took_us >= NEVER_US:
                break
    except ValueError:
        return None
    if not known:
        return None
    log = {"log": "\n".join(said)} if said else {}
    if took_us >= NEVER_US:
        return log
    return {"exit_after_us": max(took_us, AT_ONCE_US), **({"exit_code": code} if code else {}), **log}


def _commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a script and what stands before each.  ValueError: there is more to it."""
    line = _GOES_ON.sub(r"\1 ", text).replace("\n", ";")
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    between, words = ";", list[str]()
    for token in lexer:
        if token not in _BETWEEN and not token.strip(";"):
            token = ";"  # of empty lines
        if token in _BETWEEN:
            if words:
                yield between, words
            elif token != ";" or between != ";":
                raise ValueError
            between, words = token, []
        elif _MEANS_MORE.intersection(token) or (not words and token in _KEYWORDS):
            raise ValueError
        else:
            words.append(token)
    if words:
        yield between, words
    elif between != ";":
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
    sleeps_us = number * UNITS_S[unit] * SECOND
    return {"exit_after_us": max(sleeps_us, AT_ONCE_US)} if sleeps_us < NEVER_US else {}


def _number(text: str) -> int | None:
    """None: it is no number, or longer than a program would read."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX else None
