"""The commands of a script that a shell gets as an argument (`sh -c`).  Pure.

Turns a command line into its script, and a script into commands, each with the separator before it
and the file that its output goes to.

Differs  a script with anything but simple commands in it (a loop, a variable, a pipe) is refused.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sim.patterns import pattern

SHELLS = ("sh", "bash", "ash", "dash", "ksh", "zsh")
SHELL_LINE = 3  # sh -c LINE
_OPTIONS = pattern(r"-[lux]*c")  # also a login shell, and one that shows what it does
_SEPARATORS = (";", "&&", "||")
_REDIRECTIONS = (">", ">>")
_UNSUPPORTED = frozenset("&|<>()$`#")
_KEYWORDS = (
    "!", "{", "}", "if", "then", "elif", "else", "fi", "while", "until", "for",
    "do", "done", "case", "esac", "function", "time",
)  # fmt: skip
# a line that continues on the next one
_CONTINUED_LINE = pattern(r"(&&|\|\||)(?:\\\n|(?<=[&|])\s*\n)")


class Command(NamedTuple):
    """One command of a script.

    separator: what is before it: `;`, `&&` or `||`
    target: the file that its output goes to, "" for none
    """

    separator: str
    words: list[str]
    target: str = ""


def program_of(words: Sequence[str]) -> str:
    """The name of the program of a command line, without its folder."""
    return words[0].rpartition("/")[2] if words else ""


def script_of(words: Sequence[str]) -> str | None:
    """The script that a shell gets on its command line; None if there is none."""
    if program_of(words) in SHELLS and len(words) == SHELL_LINE and _OPTIONS.fullmatch(words[1]):
        return words[2]
    return None


def commands_of(text: str) -> Iterator[Command]:
    """The commands of a script.  Raises ValueError if the script holds anything else."""
    line = _CONTINUED_LINE.sub(r"\1 ", text).replace("\n", ";")
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    separator, words, target = ";", list[str](), ""
    tokens = iter(lexer)
    for token in tokens:
        if token not in _SEPARATORS and not token.strip(";"):
            token = ";"  # empty lines give several separators in a row
        if token in _SEPARATORS:
            if words:
                yield Command(separator, words, target)
            elif token != ";" or separator != ";":
                raise ValueError
            separator, words, target = token, [], ""
        elif token in _REDIRECTIONS and words and not words[-1].isdecimal():
            target = next(tokens, "")
            if not target or _UNSUPPORTED.intersection(target):
                raise ValueError
        elif _UNSUPPORTED.intersection(token) or (not words and token in _KEYWORDS):
            raise ValueError
        else:
            words.append(token)
    if words:
        yield Command(separator, words, target)
    elif separator != ";":
        raise ValueError
