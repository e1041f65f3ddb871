"""The place of a value of a wrong type in an object, from the text of Go's JSON decoder.

Turns "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type
int32" into the path ("spec", "replicas").

Mirrors  go1.19 encoding/json/decode.go: UnmarshalTypeError. Its field leaves out the indices of
         lists and the keys of maps; the first value there of the named kind is the one meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sim.patterns import pattern
from sim.scenario.read.source import Path_

_WRONG = pattern(r"cannot unmarshal (\w+)(?: \S+)? into Go struct field \w*\.(\S+) of type")


def misfit(value: Any, text: str) -> Path_:
    """The path of the value that an error of the decoder is about; () if it cannot be found."""
    found = _WRONG.search(text)
    if found is None:
        return ()
    kind, names = found[1], found[2].split(".")
    owners = [*_at(value, names, ())]
    below = [(*path, key) for path, one in owners for key, _ in _children(one)]
    inside = [(path, one) for path in below for one in [_value_at(value, path)]]
    for path, one in [*owners, *inside]:
        if _kind(one) == kind:
            return path
    return owners[0][0] if owners else ()


def _at(value: Any, names: Sequence[str], path: Path_) -> Iterator[tuple[Path_, Any]]:
    """Each value that the names lead to, through all items of lists."""
    if isinstance(value, list) and names:
        for index, item in enumerate(value):
            yield from _at(item, names, (*path, index))
    elif not names:
        yield path, value
    elif isinstance(value, dict) and names[0] in value:
        yield from _at(value[names[0]], names[1:], (*path, names[0]))
    elif path:
        yield path, value  # the decoder stopped here: this value is none that has fields


def _children(value: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)


def _value_at(value: Any, path: Path_) -> Any:
    for part in path:
        value = value[part]
    return value


def _kind(value: Any) -> str:
    """The kind of a JSON value in the words of Go."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    names = {str: "string", list: "array", dict: "object"}
    return next((name for kind, name in names.items() if isinstance(value, kind)), "null")
