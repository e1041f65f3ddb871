"""The protobuf forms of the kinds: field numbers, and the fields that are pointers in Go.

`numbers.txt` becomes a table by message ("core.v1.Pod").

Mirrors  kubernetes v1.25 api */generated.proto (numbers only), */types.go (pointers).
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple


class Column(NamedTuple):
    """One field of a message.

    field: JSON name, "" for a message with fields that are inlined
    pointer: True if zero, or an empty message, is a value
    wrapped: True for a list that is a message of its own
    """

    field: str
    pointer: bool
    inline: str
    wrapped: bool


@lru_cache(maxsize=1)
def numbers() -> dict[str, dict[int, Column]]:
    """The fields of each message by number."""
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
    """The name of a definition in the table: "core.v1.Pod"."""
    return ".".join(name.split(".")[-3:])
