"""Patterns of the shell: of names of files, of `case`, of the ends that an expansion takes off.

A pattern is a text in which a backslash makes the next character stand for itself.

Holds: matching takes time in proportion to the text, for every pattern (RE2).
Mirrors  POSIX shell command language 2.13; bash's `[[:alpha:]]` and `[^...]`.
Differs  bash's extended patterns such as `@(a|b)` stand for themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import re2

from actors.node.programs.files.errors import FileError
from sim.patterns import pattern as expression

if TYPE_CHECKING:
    from actors.node.programs.process import Process

_SPECIAL = expression(r"([*?\[\]\\])")
_QUOTED = expression(r"\\(.)")
NAMES_MAX = 100_000  # paths that one pattern may give


class TooMany(Exception):
    """A pattern stands for more names than a command line holds."""


def escape(text: str) -> str:
    """A pattern for a text itself."""
    return _SPECIAL.sub(r"\\\1", text)


def literal(text: str) -> str:
    """An expression for a text itself."""
    return str(re2.escape(_plain(text)))


def unescape(pattern: str) -> str:
    """The text that a pattern without special characters stands for."""
    return _QUOTED.sub(r"\1", pattern)


def special(pattern: str) -> bool:
    """True if something in it does not stand for itself."""
    return any(character in _QUOTED.sub("", pattern) for character in "*?[")


def _set(pattern: str, at: int) -> tuple[str, int] | None:
    """`[...]` as an expression, and the place after it; None if it has no end."""
    at += 1
    negated = pattern[at : at + 1] in ("!", "^")
    at += negated
    first, kept = at, ""
    while at < len(pattern):
        character = pattern[at]
        if character == "]" and at > first:
            return f"[{'^' if negated else ''}{kept}]", at + 1
        if pattern.startswith("[:", at) and (end := pattern.find(":]", at)) > 0:
            kept += pattern[at : end + 2]
            at = end + 2
            continue
        if character == "\\" and at + 1 < len(pattern):
            at += 1
            character = pattern[at]
            kept += "\\" + character if not character.isalnum() else character
        else:
            kept += "\\" + character if character in "[]\\^&~|" else character
        at += 1
    return None


@lru_cache(maxsize=512)
def translate(pattern: str, *, lazy: bool = False, name: bool = False) -> str:
    """The pattern as an expression.  name: it matches no slash; lazy: `*` takes as little as it can"""
    anything = "[^/]" if name else r"(?s:.)"
    kept, at = [], 0
    while at < len(pattern):
        character = pattern[at]
        at += 1
        if character == "*":
            while pattern[at : at + 1] == "*":
                at += 1
            kept.append(anything + ("*?" if lazy else "*"))
        elif character == "?":
            kept.append(anything)
        elif character == "[" and (found := _set(pattern, at - 1)) is not None:
            kept.append(found[0])
            at = found[1]
        else:
            if character == "\\" and at < len(pattern):
                character = pattern[at]
                at += 1
            kept.append(re2.escape(_plain(character)))
    return "".join(kept)


def _plain(text: str) -> str:
    """Bytes that are no text, as one character each."""
    return text.encode("utf-8", "replace").decode()


@lru_cache(maxsize=256)
def _compiled(source: str | bytes) -> Any:
    options = re2.Options()
    options.log_errors = False
    return re2.compile(source, options)


def _prepared(source: str, text: str) -> tuple[Any, str | bytes]:
    """The expression and the text for it: as bytes if possible, of which places are found faster."""
    if text.isascii() and source.isascii():
        return _compiled(source.encode()), text.encode()
    return _compiled(_plain(source)), _plain(text)


def find(source: str, text: str) -> Any:
    """Where an expression is found first.  Raises ValueError if it is none."""
    try:
        expression, searched = _prepared(source, text)
    except re2.error:
        raise ValueError(source) from None
    return expression.search(searched)


def matches(pattern: str, text: str, *, caseless: bool = False) -> bool:
    """True if the whole text is as the pattern says.  caseless: in upper or lower case"""
    if caseless:
        return _safe(f"(?i)^{translate(pattern)}$", text) is not None
    if not special(pattern):
        return unescape(pattern) == text
    return _safe(f"^{translate(pattern)}$", text) is not None


def _safe(source: str, text: str) -> Any:
    try:
        return find(r"(?-m)" + source.replace("$", r"\z") if source.endswith("$") else source, text)
    except ValueError:
        return None


def trim(text: str, pattern: str, op: str) -> str:
    """`#`, `##`, `%`, `%%`: the text without the part that the pattern describes."""
    source = translate(pattern, lazy=op == "#")
    if op[0] == "#":
        found = _safe("^" + source, text)
        return text if found is None else text[found.end() :]
    found = _safe(f"^((?s:.{'*' if op == '%' else '*?'}))(?:{source})" + "$", text)
    return text if found is None else text[: found.end(1)]


def replace(text: str, pattern: str, replacement: str, op: str, size_max: int) -> str:
    """`/`, `//`, `/#`, `/%`: the text with another in place of what the pattern describes."""
    if not pattern and op in ("/", "//"):
        return text
    if op == "//" and not special(pattern):
        plain = unescape(pattern)
        if len(text) + text.count(plain) * (len(replacement) - len(plain)) > size_max:
            raise TooMany
        return text.replace(plain, replacement)
    source = translate(pattern)
    if op == "/#":
        source = "^" + source
    elif op == "/%":
        source = f"(?:{source})\\z"
    kept: list[str] = []
    at, size = 0, len(text)
    try:
        expression, searched = _prepared(source, text)
    except re2.error:
        return text
    spans = [found.span() for found in expression.finditer(searched)]
    for start, end in spans if op == "//" else spans[:1]:
        if start == end and op == "//":
            continue
        kept += (text[at:start], replacement)
        at = end
        size += len(replacement)
        if size > size_max:
            raise TooMany
    return "".join(kept) + text[at:]


def paths(process: Process, pattern: str) -> list[str]:
    """The paths that a pattern stands for, sorted."""
    found = list(_paths(process, "/" if pattern.startswith("/") else "", pattern.strip("/").split("/")))
    if pattern.endswith("/"):
        found = [path + "/" for path in found]
    return sorted(found)


def _paths(process: Process, start: str, names: list[str]) -> Iterator[str]:
    files = process.container.files
    reached = [start]
    for at, name in enumerate(names):
        following = []
        for folder in reached:
            if not special(name):
                path = folder + unescape(name)
                if files.exists(path, process, follow=at + 1 < len(names)):
                    following.append(path)
                continue
            try:
                listed = files.listdir(folder or ".", process)
            except FileError:
                continue
            dotted = name.startswith((".", "\\."))
            following += [
                folder + one for one in listed if dotted == one.startswith(".") and matches(name, one)
            ]  # fmt: skip
            if len(following) > NAMES_MAX:
                raise TooMany
        last = at + 1 == len(names)
        reached = following if last else [path + "/" for path in following]
    yield from reached
