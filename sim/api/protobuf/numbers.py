"""The protobuf forms of the kinds: field numbers, and which fields Go has pointers for.

Turns `protobuf_numbers.txt` into a table by message ("core.v1.Pod").

Mirrors  kubernetes v1.25 api */generated.proto (numbers only), */types.go (pointers).
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple


class Column(NamedTuple):
    """field: JSON name, "" for a message whose fields stand in place; pointer: zero, or an empty message, is a value;
    wrapped: a list that is a message of its own."""

    field: str
    pointer: bool
    inline: str
    wrapped: bool


@lru_cache(maxsize=1)
def numbers() -> dict[str, dict[int, Column]]:
    found: dict[str, dict[int, Column]] = {}
    for line in (Path(__file__).parent / "numbers.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        message, *columns = line.split()
        if message.startswith("="):
            older, newer = message[1:] + ".", columns[0] + "."
            found |= {
                older + name.removeprefix(newer): table
                for name, table in found.items()
                if name.startswith(newer)
            }
            continue
        table = found[message] = {}
        package = message.rpartition(".")[0]
        for column in columns:
            name, _, number = column.partition("=")
            pointer, wrapped = number.endswith("?"), number.endswith("[]")
            inline = f"{package}.{name[1:]}" if name.startswith("+") else ""
            table[int(number.rstrip("?[]"))] = Column("" if inline else name, pointer, inline, wrapped)
    return found


def short_name(name: str) -> str:
    """A definition's name as the table of numbers has it: "core.v1.Pod"."""
    return ".".join(name.split(".")[-3:])
