r"""JSONPath of printer columns: the values that a path leads to.

The text of a path (".spec.l[?(@.x==\"b\")].y") becomes steps; steps and an object give values.

Holds: an invalid path raises ValueError, an absent value gives no result; paths are short, filters
compare with constants, nothing is evaluated.

Mirrors  client-go v1.25 util/jsonpath (fields, indexes, slices, wildcards, filters, recursive
         descent).
Differs  `range`, unions and functions are refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from sim.api.types import Json
from sim.patterns import pattern
from sim.remembered import cached

Step = Callable[[Json], Iterator[Json]]
PATH_CHARS_MAX = 1024
FOUND_MAX = 10_000  # values after one step

_NAME = pattern(r"(?:[^.\[\]\s'\"()\\]|\\.)+")
_INDEX = pattern(r"\[\s*(-?\d+)\s*\]")
_SLICE = pattern(r"\[\s*(-?\d*)\s*:\s*(-?\d*)\s*(?::\s*(-?\d*)\s*)?\]")
_QUOTED = pattern(r"\[\s*'((?:[^'\\]|\\.)*)'\s*\]|\[\s*\"((?:[^\"\\]|\\.)*)\"\s*\]")
_ALL = pattern(r"\[\s*\*\s*\]|\.\*")
_FILTER = pattern(r"\[\?\(\s*@([^=!<>]*?)\s*(?:(==|!=|<=|>=|<|>)\s*(.*?)\s*)?\)\]", re.DOTALL)


def find(path: str, value: Json) -> list[Json]:
    """Every value that the path leads to, in order; raises ValueError for an invalid path."""
    found = [value]
    for step in compiled(path):
        found = [below for one in found for below in step(one)][:FOUND_MAX]
    return found


@cached(1024)
def compiled(path: str) -> tuple[Step, ...]:
    """The steps of a path; raises ValueError for an invalid path."""
    if len(path) > PATH_CHARS_MAX:
        raise ValueError("path is too long")
    steps: list[Step] = []
    at = 0
    while at < len(path):
        at, step = _step(path, at)
        steps.append(step)
    return tuple(steps)


def _step(path: str, at: int) -> tuple[int, Step]:
    if match := _ALL.match(path, at):
        return match.end(), _every
    if match := _INDEX.match(path, at):
        return match.end(), _indexed(int(match[1]))
    if match := _SLICE.match(path, at):
        parts = [int(part) if part else None for part in match.groups()]
        if parts[2] is not None and parts[2] <= 0:
            raise ValueError("step must be > 0")
        return match.end(), _sliced(slice(*parts))
    if match := _QUOTED.match(path, at):
        return match.end(), _named(_plain(match[1] if match[1] is not None else match[2]))
    if match := _FILTER.match(path, at):
        return match.end(), _filtered(match[1], match[2] or "", match[3] or "")
    if path.startswith("..", at):
        match = _NAME.match(path, at + 2)
        if match is None:
            return at + 1, _descended
        name = _named(_plain(match[0]))
        return match.end(), lambda value: (found for one in _descended(value) for found in name(one))
    if path[at] == ".":
        match = _NAME.match(path, at + 1)
        if match is None:
            if path[at + 1 : at + 2] in ("", "["):
                return at + 1, lambda value: iter((value,))
            raise ValueError(f"unrecognized character in path: {path[at:]!r}")
        return match.end(), _named(_plain(match[0]))
    match = _NAME.match(path, at) if at == 0 else None
    if match is None:
        raise ValueError(f"unrecognized character in path: {path[at:]!r}")
    return match.end(), _named(_plain(match[0]))


def _plain(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _named(name: str) -> Step:
    def step(value: Json) -> Iterator[Json]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _indexed(index: int) -> Step:
    def step(value: Json) -> Iterator[Json]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield value[index]

    return step


def _sliced(part: slice) -> Step:
    def step(value: Json) -> Iterator[Json]:
        if isinstance(value, list):
            yield from value[part]

    return step


def _every(value: Json) -> Iterator[Json]:
    if isinstance(value, dict):
        yield from [value[key] for key in sorted(value)]
    elif isinstance(value, list):
        yield from value


def _descended(value: Json) -> Iterator[Json]:
    yield value
    for below in _every(value):
        if isinstance(below, dict | list):
            yield from _descended(below)


def _filtered(path: str, operator: str, text: str) -> Step:
    if text.startswith("'") and text.endswith("'") and len(text) > 1:
        wanted: Any = _plain(text[1:-1])
    else:
        try:
            wanted = json.loads(text) if text else None
        except ValueError:
            raise ValueError(f"unrecognized value in filter: {text}") from None
    below = compiled(path)

    def holds(item: Json) -> bool:
        found = [item]
        for step in below:
            found = [deeper for one in found for deeper in step(one)]
        if not found:
            return False
        return not operator or _compare(found[0], operator, wanted)

    def step(value: Json) -> Iterator[Json]:
        if isinstance(value, list):
            yield from [item for item in value if holds(item)]

    return step


def _compare(value: Json, operator: str, wanted: Json) -> bool:
    if operator == "==":
        return bool(value == wanted) and isinstance(value, bool) == isinstance(wanted, bool)
    if operator == "!=":
        return not _compare(value, "==", wanted)
    numbers = isinstance(value, int | float) and isinstance(wanted, int | float)
    if not numbers and not (isinstance(value, str) and isinstance(wanted, str)):
        return False
    if operator == "<":
        return bool(value < wanted)
    if operator == ">":
        return bool(value > wanted)
    return bool(value <= wanted) if operator == "<=" else bool(value >= wanted)
