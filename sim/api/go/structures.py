"""The structs of Go that hold API objects while they are checked: upstream's internal types.

Turns `structures.txt`, which also states the format, into the fields of each type.

Holds: a named type that the table does not list is a string.

Mirrors  kubernetes v1.25 pkg/apis/*/types.go, apimachinery v1.25 pkg/apis/meta/v1/types.go.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from sim.patterns import pattern

# The part of a name that JSON has in lower case.
_HEAD = pattern("[A-Z]+(?=[A-Z][a-z])|[A-Z]+$|[A-Z]")
_UNQUALIFIED = pattern(r"(?<![\w.])[A-Z]\w*")


class Field(NamedTuple):
    """One field of a struct.

    name: in Go
    key: in JSON; "" for an embedded struct with its fields in the JSON object itself
    type: with its package, such as "*core.Affinity"
    """

    name: str
    key: str
    type: str


def json_key(name: str) -> str:
    """The usual key of a field in JSON: "podIPs" of PodIPs, "fsType" of FSType."""
    found = _HEAD.match(name)
    head = found[0] if found is not None else ""
    return head.lower() + name[len(head) :]


def _field(text: str, package: str) -> Field:
    name, _, kind = text.partition(":")
    kind = _UNQUALIFIED.sub(lambda found: f"{package}.{found[0]}", kind or "string")
    if name.startswith("+"):
        kind = name[1:] if "." in name else f"{package}.{name[1:]}"
        return Field(kind.rpartition(".")[2], "metadata" if kind == "v1.ObjectMeta" else "", kind)
    name, _, key = name.partition("=")
    return Field(name, key or json_key(name), kind)


@lru_cache(maxsize=1)
def _lines() -> tuple[dict[str, str], dict[str, str]]:
    """The line of each struct, and the type behind each other name."""
    structs: dict[str, str] = {}
    names: dict[str, str] = {}
    for line in Path(__file__).with_name("structures.txt").read_text(encoding="utf-8").splitlines():
        head, _, rest = line.partition(" ")
        if head == "=":
            kind, *other = rest.split()
            names |= dict.fromkeys(other, kind)
        elif head != "#":
            structs[head] = rest
    return structs, names


@lru_cache(maxsize=512)
def fields_of(kind: str) -> tuple[Field, ...] | None:
    """The fields of a struct in Go's order; None if the type is no struct of the table."""
    line = _lines()[0].get(kind)
    if line is None:
        return None
    return tuple(_field(text, kind.partition(".")[0]) for text in line.split())


def underlying(kind: str) -> str:
    """The type behind a name: "map[core.ResourceName]resource.Quantity" of core.ResourceList."""
    return _lines()[1].get(kind, kind)
