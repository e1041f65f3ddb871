"""The protobuf forms of the kinds: field numbers, and the fields that are pointers in Go.

Turns the number files into a table by message ("core.v1.Pod"): `numbers.txt` here, which also
states the format, and all files in `sim/api/kinds` with a name that ends in "numbers.txt".  The
field numbers of a kind are in the folder of its group, or in a file of their own beside the kind.

Mirrors  kubernetes v1.25 api */generated.proto (numbers only), */types.go (pointers).
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

_KINDS = Path(__file__).parents[1] / "kinds"


class Column(NamedTuple):
    """What a field number stands for.

    field: JSON name; "" for a message with its fields in place of it
    pointer: True if zero, or an empty message, is a value
    inline: the message with its fields in place; "" otherwise
    wrapped: True for a list that is a message of its own
    """

    field: str
    pointer: bool
    inline: str
    wrapped: bool


@lru_cache(maxsize=1)
def numbers() -> dict[str, dict[int, Column]]:
    """The columns of each message, by field number."""
    found: dict[str, dict[int, Column]] = {}
    for path in (Path(__file__).with_name("numbers.txt"), *sorted(_KINDS.glob("**/*numbers.txt"))):
        _read(path.read_text(encoding="utf-8"), found)
    return found


def _read(text: str, found: dict[str, dict[int, Column]]) -> None:
    """Add the messages of one file."""
    for line in text.splitlines():
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


def short_name(name: str) -> str:
    """The name of a definition in the table of numbers: "core.v1.Pod"."""
    return ".".join(name.split(".")[-3:])
