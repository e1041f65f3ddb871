"""The words of an awk program.

Mirrors  POSIX.1-2017 XCU awk: Lexical Conventions.
"""

from __future__ import annotations

from typing import NamedTuple

from actors.node.programs.commands.tool import Failed
from actors.node.programs.printing import unescape
from sim.patterns import pattern

KEYWORDS = frozenset((
    "BEGIN", "END", "function", "func", "if", "else", "while", "for", "do", "break", "continue", "next", "nextfile",
    "exit", "return", "delete", "in", "getline", "print", "printf",
))  # fmt: skip
# Name of a function of the language -> how many arguments it has at least and at most.
FUNCTIONS = {
    "length": (0, 1), "substr": (2, 3), "index": (2, 2), "split": (2, 3), "sub": (2, 3), "gsub": (2, 3), "match": (2, 3),
    "sprintf": (1, 99), "sin": (1, 1), "cos": (1, 1), "atan2": (2, 2), "exp": (1, 1), "log": (1, 1), "sqrt": (1, 1),
    "int": (1, 1), "rand": (0, 0), "srand": (0, 1), "tolower": (1, 1), "toupper": (1, 1), "system": (1, 1), "close": (1, 1),
    "fflush": (0, 1), "systime": (0, 0), "strftime": (0, 3), "gensub": (3, 4), "strtonum": (1, 1), "and": (2, 2),
    "or": (2, 2), "xor": (2, 2), "lshift": (2, 2), "rshift": (2, 2),
}  # fmt: skip
_NUMBER = pattern(r"0[xX][0-9A-Fa-f]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_NAME = pattern(r"[A-Za-z_][A-Za-z0-9_]*")
_MARKS = pattern(r"\*\*=|\*\*|&&|\|\||[-+*/%^=!<>]=|\+\+|--|>>|!~|[-+*/%^!<>|?:~$=(){}\[\],;]")
_BLANK = pattern(r"(?:[ \t\r]|\\\r?\n|#[^\n]*)+")
# What a division can follow; anywhere else a slash begins a pattern.
_OPERANDS = ("number", "string", "name", "ere", "builtin")


class Token(NamedTuple):
    """A word.  kind: number, string, ere, name, call, builtin, newline, end, or the word itself"""

    kind: str
    text: str
    line: int


def tokens(text: str) -> list[Token]:
    """The words of a program, with an end.  Raises Failed."""
    result: list[Token] = []
    at, line = 0, 1
    while at < len(text):
        if blank := _BLANK.match(text, at):
            line += blank[0].count("\n")
            at = blank.end()
            continue
        kind, value, end = _next(text, at, line, result[-1].kind if result else "newline")
        result.append(Token(kind, value, line))
        line += text.count("\n", at, end)
        at = end
    return [*result, Token("newline", "\n", line), Token("end", "", line)]


def _next(text: str, at: int, line: int, before: str) -> tuple[str, str, int]:
    """Kind and text of the next word, and where it ends."""
    first = text[at]
    if first == "\n":
        return "newline", "\n", at + 1
    if first == '"':
        value, end = _quoted(text, at, line)
        return "string", value, end
    if first == "/" and before not in (*_OPERANDS, ")", "]", "$", "++", "--"):
        return _ere(text, at, line)
    if number := _NUMBER.match(text, at):
        return "number", number[0], number.end()
    if name := _NAME.match(text, at):
        word, end = name[0], name.end()
        if word in KEYWORDS:
            return ("function" if word == "func" else word), word, end
        if word in FUNCTIONS:
            return "builtin", word, end
        return ("call" if text[end : end + 1] == "(" else "name"), word, end
    if mark := _MARKS.match(text, at):
        word = mark[0].replace("**", "^")
        return word, word, mark.end()
    raise Failed(f"line {line}: unexpected character '{first}'", 2)


def _quoted(text: str, at: int, line: int) -> tuple[str, int]:
    end = at + 1
    while end < len(text) and text[end] not in '"\n':
        end += 2 if text[end] == "\\" else 1
    if end >= len(text) or text[end] == "\n":
        raise Failed(f"line {line}: runaway string constant", 2)
    return string_of(text[at + 1 : end]), end + 1


def string_of(text: str) -> str:
    """A text with its escapes replaced."""
    if "\\" not in text:
        return text
    shown = text.replace("\\/", "/").replace("\\\n", "")
    return unescape(shown).encode("utf-8", "surrogateescape").decode("latin-1") if shown.isascii() else shown


def _ere(text: str, at: int, line: int) -> tuple[str, str, int]:
    end, bracket = at + 1, False
    while end < len(text) and text[end] != "\n" and (bracket or text[end] != "/"):
        if text[end] == "\\":
            end += 1
        elif text[end] == "[" and not bracket:
            bracket = True
            end += 1 if text[end + 1 : end + 2] == "^" else 0
            end += 1 if text[end + 1 : end + 2] == "]" else 0
        elif text[end] == "]":
            bracket = False
        end += 1
    if text[end : end + 1] != "/":
        raise Failed(f"line {line}: regular expression without its end", 2)
    return "ere", text[at + 1 : end].replace("\\/", "/"), end + 1
