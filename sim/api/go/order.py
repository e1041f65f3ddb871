"""The order of the fields of a message in Go's text: that of its Go type.

Turns `order.txt` and the field numbers into the position of each field of a message.

Mirrors  kubernetes v1.25 staging api */types.go.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from sim.api.protobuf.numbers import numbers, short_name


@lru_cache(maxsize=1)
def _listed_orders() -> dict[str, list[str]]:
    """The fields of messages of which Go's order is not that of the numbers."""
    lines = Path(__file__).with_name("order.txt").read_text(encoding="utf-8").splitlines()
    return {name: fields for name, *fields in (line.split() for line in lines if not line.startswith("#"))}


def field_places(name: str) -> dict[str, int]:
    """The position of each field of a message."""
    listed = _listed_orders().get(short_name(name))
    if listed is not None:
        return {field: at for at, field in enumerate(["kind", "apiVersion", *listed])}
    columns = numbers().get(short_name(name), {})
    names: list[str] = ["kind", "apiVersion"]
    for number in sorted(columns):
        column = columns[number]
        names += [column.field] if not column.inline else list(field_places(column.inline))
    return {field: at for at, field in enumerate(names)}
